"""The agent-computer interface: about ten commands, a window of 100 lines, searches that are refused early, edits
behind a lint guard, the last five observations in sight. Every decision is a switch whose default is the published
value (SWE-agent, arXiv 2405.15793)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from refactorbench.agents.aci_files import Matches, Search, Window, apply_diff, replace_range, replace_text, window
from refactorbench.agents.act import Act
from refactorbench.agents.confined import Refused
from refactorbench.agents.conversation import Malformed, Texts
from refactorbench.agents.desk import HOME, INSTRUCTION, REFERENCE, STATE_A, TMP, TREE, Desk, answered
from refactorbench.agents.edit import EditFailed, encode
from refactorbench.agents.lint import SHOWN, Linter
from refactorbench.agents.records import Answered, Entry
from refactorbench.agents.selfcheck import EXAMPLE
from refactorbench.agents.settings import Amount, Count, Some
from refactorbench.agents.shell import ShellState
from refactorbench.llm.protocol import ToolSpec, ToolUse, Turn

BLOCK = re.compile(r"^```[^\n`]*\n(.*?)\n?^```[ \t]*$", re.S | re.M)
END_OF_EDIT = "end_of_edit"
EMPTY: Mapping[str, str | int] = {}
MARKS = ("<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE")


class AciSwitches(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`reply`: one command in a fenced block of the text, or a tool call. `edit`: none leaves editing to the shell."""

    reply: Literal["text", "tools"] = "text"
    window: Count = 100  # lines; 0: the whole file
    hits: Count = 50  # results of a search; more are refused
    search: Literal["summary", "iterative", "off"] = "summary"  # all results as a list, or one at a time in the window
    edit: Literal["range", "replace", "diff", "whole", "none"] = "range"
    lint: bool = True
    lint_new_only: bool = True  # faults that were there before don't stand in the way of an edit
    keep_last: Count = 5  # observations that stay whole; 0: all
    format_errors: Some = 3  # malformed replies in a row that end the run
    reminders: Some = 3
    folds: bool = False  # a full context ends the run
    fold_at: Count = 0
    cut: Some = 30_000
    timeout_s: Amount = 120.0
    selfcheck: bool = True
    max_tokens: Some = 16_000
    actions: Count = 1  # calls of one turn that are carried out, where the reply is tool calls; 0: all


EDITS = {
    "range": f"edit FIRST:LAST, then the new lines, then {END_OF_EDIT}: replace lines FIRST to LAST of the open file",
    "replace": "edit, then <<<<<<< SEARCH, lines of the open file, =======, new lines, >>>>>>> REPLACE: replace the "
    "one place where those lines stand",
    "diff": f"edit, then a unified diff of the open file, then {END_OF_EDIT}: apply it",
    "whole": f"edit, then the whole new content of the open file, then {END_OF_EDIT}: replace all of it",
}


class Word(msgspec.Struct, frozen=True):
    """One command: its words' names (those with ? may be absent), whether a text follows, and what it does."""

    words: tuple[str, ...]
    says: str
    text: bool = False


def words(s: AciSwitches) -> dict[str, Word]:
    found = {
        "open": Word(("path", "line?"), "open PATH [LINE]: show a file in the window, around a line if one is given"),
        "goto": Word(("line",), "goto LINE: move the window to a line"),
        "scroll_down": Word((), "scroll_down: move the window down"),
        "scroll_up": Word((), "scroll_up: move the window up"),
        "create": Word(("path",), "create PATH: make a new file and open it"),
        "run": Word((), "run COMMAND: run a command, any number of lines, in a bash that stays", text=True),
        "time_left": Word((), "time_left: how much of the time and of the other limits is left"),
        "submit": Word((), "submit: hand in the repository as it is and end; there is no way back"),
    }
    if not s.window:
        found = {k: v for k, v in found.items() if not k.startswith("scroll")}
    if s.search != "off":
        found |= {
            "search_file": Word(
                ("term", "path?"), "search_file TERM [PATH]: lines of a file (the open one) that hold TERM"
            ),
            "search_dir": Word(("term", "path?"), "search_dir TERM [FOLDER]: files below a folder that hold TERM"),
            "find_file": Word(
                ("name", "path?"), "find_file NAME [FOLDER]: files called NAME (* for any text) below it"
            ),
        }
    if s.search == "iterative":
        found |= {
            "search_file": Word(
                ("term", "path?"),
                "search_file TERM [PATH]: show the first line of a file (the open one) that holds TERM",
            ),
            "search_dir": Word(
                ("term", "path?"),
                "search_dir TERM [FOLDER]: show the first line in the files below a folder that holds TERM",
            ),
            "next_match": Word((), "next_match: show the next result of the last search"),
            "prev_match": Word((), "prev_match: show the result before"),
        }
    if s.edit != "none":
        found["edit"] = Word(("lines",) if s.edit == "range" else (), EDITS[s.edit], text=True)
    if s.selfcheck:
        found["selfcheck"] = Word(
            ("path",),
            "selfcheck PATH: run the old program and yours on the inputs in a file, one a line like "
            f"{EXAMPLE} (files as name -> text), and see where they differ; build first",
        )
    return found


def system(s: AciSwitches) -> str:
    how = (
        "Each of your replies holds your thoughts and then exactly one command, in a block between two lines of three "
        "backquotes:\n\nI look at the main file first.\n```\nopen src/main.c\n```\n\nThen wait for what it answers. "
        "What is no command of these is run in the shell."
        if s.reply == "text"
        else "Each of your turns calls one tool; then wait for what it answers."
        + (" Of several calls in a turn only the first is carried out." if s.actions == 1 else "")
    )
    listed = "\n".join(f"- {w.says}" for w in words(s).values())
    return f"""You migrate a repository to another technology stack, on your own, without changing what its users see.
You work in a closed Linux sandbox without a network, with a window onto files and a shell. Nobody answers questions: go
on until the work is done.

- {TREE}: the repository; what is here when you submit is what counts. {STATE_A}: as it was, read-only.
- {REFERENCE}: its built product, to run and compare with. {INSTRUCTION}: the task, as given below.
- {HOME} and {TMP}: yours for scratch.

The commands:
{listed}

{how} Paths may be relative to the shell's directory. Programs that ask for input or open a screen can't be used.
After an edit, look at the result: an edit that breaks the form of the file is rolled back, and the answer says why."""


class Aci:
    """The `Scaffold` protocol over a Desk."""

    name = "aci"

    def __init__(self, desk: Desk, linter: Linter, s: AciSwitches, kept: Mapping[str, str | int] = EMPTY) -> None:
        """`kept` is what `interface` told before a restart."""
        self.desk, self.linter, self.s, self.words = desk, linter, s, words(s)
        self.window = Window(desk.box, s.window, str(kept.get("path", "")), int(kept.get("first", 1)))
        self.search = Search(desk.box, s.hits)
        self.matches = Matches(self.search, self.window, kept)
        self.system = system(s)
        self.tools = () if s.reply == "text" else tuple(_spec(n, w) for n, w in self.words.items())
        what = "a command in a block" if s.reply == "text" else "a tool call"
        self.texts = Texts(
            f"Your turn ended without {what}. If the work is finished, built and checked, submit; otherwise go on.",
            "Your reply reached its limit of length and was cut{what}. Go on in smaller steps.",
            s.reminders,
            s.format_errors,
        )
        self.keep_last, self.fold_at, self.folds = s.keep_last, s.fold_at, s.folds
        self.max_tokens, self.actions = s.max_tokens, s.actions
        self._does: dict[str, Callable[[dict[str, str], float], Act]] = {
            "open": lambda g, _: Act(self.window.open(self._path(g["path"]), _number(g.get("line")))),
            "goto": lambda g, _: Act(self.window.goto(_number(g["line"]) or 0)),
            "scroll_down": lambda g, _: Act(self.window.scroll(True)),
            "scroll_up": lambda g, _: Act(self.window.scroll(False)),
            "create": lambda g, _: self._create(self._path(g["path"])),
            "run": lambda g, left: self.desk.run(g["text"], self.s.timeout_s, left),
            "time_left": lambda g, _: Act(self.desk.left() + "."),
            "submit": lambda g, _: Act("Handed in.", "final"),
            "search_file": lambda g, _: self._search(g["term"], self._path(g.get("path") or self._open()), False),
            "search_dir": lambda g, _: self._search(g["term"], self._path(g.get("path") or "."), True),
            "next_match": lambda g, _: Act(self.matches.step(True)),
            "prev_match": lambda g, _: Act(self.matches.step(False)),
            "find_file": lambda g, _: Act(self.search.files(g["name"], self._path(g.get("path") or "."))),
            "edit": lambda g, _: self._edit(g.get("lines", ""), g["text"]),
            "selfcheck": lambda g, left: self._selfcheck(g["path"], left),
        }

    def calls(self, turn: Turn) -> tuple[ToolUse, ...]:
        """Of a text exactly one command; of tool calls all, as each must be answered: the loop does the first."""
        if self.s.reply == "tools":
            return turn.tool_uses
        if turn.stop in ("max_tokens", "context_full"):
            return ()
        blocks = BLOCK.findall(turn.text)
        if len(blocks) != 1 or not blocks[0].strip():
            raise Malformed(
                f"Your reply holds {len(blocks)} commands in blocks, and it must hold exactly one; nothing was done. "
                "Write what you think, then one command:\n```\ncommand\n```"
            )
        return (parse(blocks[0], self.words),)

    def act(self, call: ToolUse, limit_s: float) -> Act:
        act = answered(lambda: self._act(call, limit_s))
        place = f"\n[open file: {self.window.path or 'none'}; directory: {self.desk.shell.state.cwd or TREE}]"
        return msgspec.structs.replace(act, text=self.desk.take_notice() + act.text + place)

    def _act(self, call: ToolUse, limit_s: float) -> Act:
        word = self.words.get(call.name)
        if word is None:
            raise Refused(f"there is no command {call.name}. Commands are {', '.join(self.words)}. Nothing was done.")
        given = {k: str(v) for k, v in call.input.items()}
        needed = {w for w in word.words if not w.endswith("?")} | ({"text"} if word.text else set())
        if needed - given.keys():
            raise Refused(f"{call.name} lacks {', '.join(sorted(needed - given.keys()))}. It is used so: {word.says}.")
        return self._does[call.name](given, limit_s)

    def _path(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.desk.shell.state.cwd or TREE, path))

    def _open(self) -> str:
        if not self.window.path:
            raise Refused("No file is open. Open one first, or name one.")
        return self.window.path

    def _search(self, term: str, place: str, folder: bool) -> Act:
        if self.s.search == "iterative":
            return Act(self.matches.first(term, place, folder))
        return Act(self.search.in_folder(term, place) if folder else self.search.in_file(term, place))

    def _create(self, path: str) -> Act:
        try:
            self.desk.box.read(path)
        except Refused:
            self.desk.box.write(path, b"\n", folders=True)
            return Act(self.window.open(path, None))
        raise Refused(f"{path} exists already. Open it and edit it.")

    def _edit(self, at: str, text: str) -> Act:
        path, lines = self._open(), self.window.lines()
        new = text.removesuffix("\n").removesuffix(END_OF_EDIT).removesuffix("\n") if _ended(text) else text
        if self.s.edit == "range":
            place = re.fullmatch(r"\s*([0-9]{1,9}):([0-9]{1,9})\s*", at)
            if place is None:
                raise EditFailed(f"{at!r} is no range of lines. It is used so: {EDITS['range']}. Nothing was changed.")
            changed, begin = replace_range(lines, int(place[1]), int(place[2]), new, path)
        elif self.s.edit == "replace":
            parts = marked(text)
            if parts is None:
                raise EditFailed(f"the marks are missing. It is used so: {EDITS['replace']}. Nothing was changed.")
            changed, begin = replace_text(lines, *parts, path)
        elif self.s.edit == "diff":
            changed, begin = apply_diff(lines, new, path)
        else:
            changed, begin = new.split("\n"), 1
        return self._guarded(path, lines, changed, begin)

    def _guarded(self, path: str, lines: list[str], changed: list[str], begin: int) -> Act:
        """Write what passes the guard. What doesn't is answered in three parts: the faults, the edit as it would have
        been, and the file as it is."""
        before, after = self.desk.box.read(path), encode("\n".join(changed) + "\n" if changed else "")
        if self.s.lint:
            found = self.linter.new_errors(path, before if self.s.lint_new_only else b"", after)
            if found:
                size = min(self.s.window or 100, 100)
                first = max(1, begin - size // 6)
                faults = "\n".join(f"- line {e}" for e in found[:SHOWN])
                parts = (
                    f"The edit was rolled back, as it breaks the form of the file:\n{faults}",
                    f"This is how the edit would have looked:\n{window(path, changed, first, size)}",
                    f"This is the file as it is, unchanged:\n{window(path, lines, first, size)}",
                    "Correct the edit, its lines and its indentation, and give it again.",
                )
                return Act("\n\n".join(parts), "lint")
        self.desk.box.write(path, after)
        self.window.first = begin - self.window.size // 6
        return Act(f"The file is edited:\n{self.window.show()}", "edited")

    def _selfcheck(self, path: str, limit_s: float) -> Act:
        cases = self.desk.selfcheck.load(self._path(path))
        return self.desk.selfcheck.run(cases, min(limit_s, 3600.0), self.desk.now)

    def shell_state(self) -> ShellState:
        return self.desk.shell.state

    def interface(self) -> Mapping[str, str | int]:
        return {"path": self.window.path, "first": self.window.first, **self.matches.kept()}


def make_aci(desk: Desk, s: AciSwitches, entries: Sequence[Entry], linter: Linter) -> Aci:
    """The scaffold where the last record left it."""
    last = next((e.interface for e in reversed(entries) if isinstance(e, Answered)), {})
    return Aci(desk, linter, s, last)


def marked(text: str) -> tuple[str, str] | None:
    """(old, new) between the three marks, each a line of its own; None where they don't stand so."""
    lines = text.rstrip().split("\n")
    if lines[-1] != MARKS[2] or MARKS[0] not in lines:
        return None
    first = lines.index(MARKS[0])
    if MARKS[1] not in lines[first:]:
        return None
    middle = lines.index(MARKS[1], first)
    return "\n".join(lines[first + 1 : middle]), "\n".join(lines[middle + 1 : -1])


def _ended(text: str) -> bool:
    return text.removesuffix("\n").split("\n")[-1] == END_OF_EDIT


def _number(text: str | None) -> int | None:
    if text is None or text == "":
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise Refused(f"{text!r} is no line number.")
    return int(text)


def parse(block: str, known: Mapping[str, Word]) -> ToolUse:
    """One command from the text of a block. What begins with none of the words is a shell command."""
    head, _, rest = block.strip("\n").partition("\n")
    name, _, tail = head.strip().partition(" ")
    word = known.get(name)
    if name == "run" and word is not None:
        return ToolUse("", "run", {"text": f"{tail}\n{rest}" if rest else tail})
    if word is None or (rest.strip() and not word.text):
        return ToolUse("", "run", {"text": block})
    given: dict[str, Any] = {}
    parts = _split(tail, len(word.words))
    given.update(zip((w.rstrip("?") for w in word.words), parts, strict=False))
    if word.text:
        given["text"] = rest
    return ToolUse("", name, given)


def _split(tail: str, most: int) -> list[str]:
    """Words, of which those in quotes may hold spaces."""
    found = [a or b or c for a, b, c in re.findall(r'"([^"]*)"|\'([^\']*)\'|(\S+)', tail)]
    return found[:most]


def _spec(name: str, word: Word) -> ToolSpec:
    names = [w.rstrip("?") for w in word.words] + (["text"] if word.text else [])
    needed = [w for w in word.words if not w.endswith("?")] + (["text"] if word.text else [])
    return ToolSpec(
        name,
        word.says,
        {
            "type": "object", "properties": {n: {"type": "string"} for n in names}, "required": needed,
            "additionalProperties": False,
        },
    )  # fmt: skip
