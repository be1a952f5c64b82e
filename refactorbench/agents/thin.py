"""The thin scaffold: a short prompt, a bash that stays, an edit tool, and control left to the model. The tools'
descriptions carry the weight, and each refusal says how to go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from refactorbench.agents.act import Act
from refactorbench.agents.confined import Refused
from refactorbench.agents.conversation import Texts
from refactorbench.agents.desk import HOME, INSTRUCTION, REFERENCE, STATE_A, TMP, TREE, Desk, answered
from refactorbench.agents.edit import Editor
from refactorbench.agents.selfcheck import EXAMPLE, MOST_CASES, Case
from refactorbench.agents.settings import Amount, Count, Some
from refactorbench.agents.shell import ShellState
from refactorbench.errors import did_you_mean
from refactorbench.llm.protocol import ToolSpec, ToolUse, Turn

LONGEST_S = 3600.0


class Switches(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every decision of this scaffold. Sizes in characters, times in seconds."""

    tolerant: bool = False  # str_replace lets white space at both ends of lines differ
    create_over: bool = False  # create replaces files that exist
    cut: Some = 30_000  # of an output or a file shown at once
    timeout_s: Amount = 120.0  # of a command that names none
    keep_last: Count = 0  # observations that stay whole; 0: all
    fold_at: Count = 150_000  # tokens read in a turn, from which on older observations are folded; 0: at overflow
    folds: bool = True
    selfcheck: bool = True
    reminders: Some = 3
    max_tokens: Some = 16_000  # of a reply
    actions: Count = 0  # calls of one turn that are carried out; 0: all


def _says(text: str) -> Any:
    return msgspec.Meta(description=text)


Line = Annotated[int, msgspec.Meta(ge=-1, le=10**9)]


class Bash(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[str, _says("the command, any number of lines")]
    timeout_s: Annotated[float | None, _says("seconds after which it is ended")] = None


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    command: Literal["view", "create", "str_replace", "insert", "undo_edit"]
    path: Annotated[str, _says("absolute path")]
    view_range: Annotated[tuple[Line, ...] | None, _says("view: first and last line, from 1; -1: to the end")] = None
    file_text: Annotated[str | None, _says("create: the whole content")] = None
    old_str: Annotated[str | None, _says("str_replace: the text to replace; must stand in the file once")] = None
    new_str: Annotated[str | None, _says("str_replace: the text to put there; insert: the lines to insert")] = None
    insert_line: Annotated[Line | None, _says("insert: number of the line to insert after; 0: at the top")] = None


class SelfCheckInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cases: Annotated[tuple[Case, ...], _says("inputs, each put to both sides")] = ()
    cases_file: Annotated[str, _says("absolute path of a file with one case a line, instead of cases")] = ""


class TimeLeft(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Submit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    summary: Annotated[str, _says("what was done, in a few sentences")] = ""


TOOLS: dict[str, tuple[type[msgspec.Struct], str]] = {
    "bash": (
        Bash,
        f"""Run a command in a bash that stays: working directory, variables, functions and background jobs are kept
from call to call.
- The output is what the command printed, standard error included, then its exit status. Of long outputs the two ends
  are shown, with a sentence that says which lines are left out and where the whole output lies.
- A command is ended after timeout_s (default {{timeout_s:g}}, at most {LONGEST_S:g}) seconds, with all that it started;
  the shell stays. For what takes longer, start it in the background: `make > {TMP}/log 2>&1 &`, and look at the log.
- There is no terminal and no standard input: give flags that keep programs from asking; don't start editors or pagers.
- There is no network, and nothing can be installed. Both toolchains are on the PATH.
- `exit`, and `set -e` with a failing command, end the shell; it is replaced, but put such commands into ( ... ).""",
    ),
    "edit": (
        Edit,
        f"""Look at files and change them. Paths are absolute; files below {TREE}, {HOME} and {TMP} can be changed,
those below {STATE_A} and {REFERENCE} only be read.
- view: a file with line numbers (view_range for a part of it), or a folder two levels deep.
- create: a new file with file_text as its content. {{create}}
- str_replace: replace old_str by new_str. old_str must stand in the file exactly once, as it is there, to the last
  space and line end{{tolerant}}: take in as many lines around as it needs to be the only one. If it isn't found, or
  several times, nothing is changed, and the answer says how often it was found and what stands nearby.
- insert: put the lines of new_str after line insert_line.
- undo_edit: take back this tool's last edit of the file.""",
    ),
    "selfcheck": (
        SelfCheckInput,
        f"""Run State A's program and yours on inputs that you make up, and see where they differ: exit status, standard
output and error, files written. Yours is taken from {TREE} as you last built it, so build first. Each case runs in an
empty folder; at most {MOST_CASES} cases at once. A case is, for example, {EXAMPLE}; files are given as name -> text.
Nothing of what your work is judged by is used or shown.""",
    ),
    "time_left": (TimeLeft, "Say how much of the time and of the other limits is left."),
    "submit": (
        Submit,
        f"""Hand in {TREE} as it is and end. Call this once, when the whole migration is finished, built and checked:
there is no way back. Ending a turn without a tool call does not hand anything in.""",
    ),
}

SYSTEM = f"""You migrate a repository to another technology stack, on your own, without changing what its users see. You
work in a closed Linux sandbox, with tools. Nobody answers questions: decide yourself, and go on until the work is done.

- {TREE}: the repository, one baseline commit; what is here when you submit is what counts.
- {STATE_A}: the repository as it was, read-only. {REFERENCE}: its built product, to run and compare with, read-only.
- {INSTRUCTION}: the task, as given below.
- {HOME} and {TMP}: yours for notes and scratch; they aren't handed in.

The work is judged by its behaviour, on many inputs that you don't see, and by whether the old stack is really gone.
Read the old code closely, build often, compare often with selfcheck or by running both, and care for odd inputs and
errors as much as for the ordinary ones."""

REMINDER = (
    "Your turn ended without a tool call. If the work is finished, built and checked, call submit; otherwise go on "
    "with the next step."
)
CUT = (
    "Your reply reached its limit of length and was cut{what}. Go on in smaller steps: for example, write a long file "
    "in several parts."
)


class Thin:
    """The `Scaffold` protocol over a Desk."""

    name = "thin"
    system = SYSTEM

    def __init__(self, desk: Desk, editor: Editor, switches: Switches) -> None:
        self.desk, self.editor, self.switches = desk, editor, switches
        desk.longer = "Give a longer timeout_s, or "
        self.texts = Texts(REMINDER, CUT, switches.reminders)
        self.keep_last, self.fold_at = switches.keep_last, switches.fold_at
        self.folds, self.max_tokens, self.actions = switches.folds, switches.max_tokens, switches.actions
        self._inputs = {n: kind for n, (kind, _) in TOOLS.items() if n != "selfcheck" or switches.selfcheck}
        self.tools = tuple(self._spec(name) for name in self._inputs)

    def _spec(self, name: str) -> ToolSpec:
        kind, text = TOOLS[name]
        words = {
            "{timeout_s:g}": f"{self.switches.timeout_s:g}",
            "{create}": "One that exists is replaced as a whole." if self.switches.create_over
            else "One that exists is refused.",
            "{tolerant}": " (only white space at the ends of lines may differ)" if self.switches.tolerant else "",
        }  # fmt: skip
        for word, value in words.items():
            text = text.replace(word, value)
        return ToolSpec(name, text, schema(kind))

    def calls(self, turn: Turn) -> tuple[ToolUse, ...]:
        return turn.tool_uses

    def act(self, call: ToolUse, limit_s: float) -> Act:
        act = answered(lambda: self._act(call, limit_s))
        return msgspec.structs.replace(act, text=self.desk.take_notice() + act.text)

    def _act(self, call: ToolUse, limit_s: float) -> Act:
        kind = self._inputs.get(call.name)
        if kind is None:
            known = ", ".join(self._inputs)
            raise Refused(f"there is no tool {call.name}{did_you_mean(call.name, self._inputs)}. Tools are {known}.")
        try:
            given = msgspec.convert(call.input, kind, strict=False)
        except msgspec.ValidationError as e:
            raise Refused(f"{call.name} can't take this: {e}. Nothing was done. Correct the call.") from None
        if isinstance(given, Bash):
            wanted = self.switches.timeout_s if given.timeout_s is None else given.timeout_s
            return self.desk.run(given.command, max(0.1, min(wanted, LONGEST_S)), limit_s)
        if isinstance(given, Edit):
            return self._edit(given)
        if isinstance(given, SelfCheckInput):
            cases = self.desk.selfcheck.load(given.cases_file) if given.cases_file else given.cases
            return self.desk.selfcheck.run(cases, min(limit_s, LONGEST_S), self.desk.now)
        if isinstance(given, Submit):
            return Act("Handed in.", "final")
        return Act(self.desk.left() + ".")

    def _edit(self, e: Edit) -> Act:
        wanted: dict[str, tuple[str, ...]] = {
            "create": ("file_text",), "str_replace": ("old_str",), "insert": ("insert_line", "new_str")
        }  # fmt: skip
        absent = [k for k in wanted.get(e.command, ()) if getattr(e, k) is None]
        if absent:
            raise Refused(f"{e.command} needs {' and '.join(absent)}. Nothing was done. Give it and call again.")
        if e.command == "view":
            if e.view_range is not None and len(e.view_range) != 2:
                raise Refused("view_range takes two numbers, [first, last]. Nothing was shown. Give both.")
            return self.editor.view(e.path, e.view_range)
        if e.command == "create":
            return self.editor.create(e.path, e.file_text or "")
        if e.command == "str_replace":
            return self.editor.str_replace(e.path, e.old_str or "", e.new_str or "")
        if e.command == "insert":
            return self.editor.insert(e.path, e.insert_line or 0, e.new_str or "")
        return self.editor.undo(e.path)

    def shell_state(self) -> ShellState:
        return self.desk.shell.state

    def interface(self) -> Mapping[str, str | int]:
        return {}


def schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of one input, nothing in it defined elsewhere."""
    (top,), parts = msgspec.json.schema_components([kind], ref_template="{name}")
    return _inline(parts[top["$ref"]], parts)


def _inline(value: Any, parts: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        if "$ref" in value:
            return _inline(parts[value["$ref"]], parts)
        return {k: _inline(v, parts) for k, v in value.items() if k not in ("title", "default")}
    return [_inline(v, parts) for v in value] if isinstance(value, list) else value
