"""The agent-computer interface: what it shows, what it refuses, what it rolls back, and that each decision is a switch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agents.conftest import MakeShell
from refactorbench.agents.aci import Aci, AciSwitches, parse, system, words
from refactorbench.agents.aci_files import apply_diff
from refactorbench.agents.act import Act
from refactorbench.agents.confined import Box, Place
from refactorbench.agents.conversation import Malformed
from refactorbench.agents.edit import EditFailed
from refactorbench.agents.lint import Linter
from refactorbench.build.toolchain import find
from refactorbench.llm.protocol import Text, Turn, Usage
from refactorbench.sandbox import BubblewrapSandbox, Mount

LONG = "".join(f"line {i}\n" for i in range(1, 301))


class Shell:
    """Stands for the agent's shell where none is needed."""

    class state:
        cwd = "/build/tree"


class Desk:
    def __init__(self, box: Box, shell: Any) -> None:
        self.box, self.shell = box, shell
        self.left, self.now = lambda: "1 hour left", lambda: 0.0
        self.ran: list[str] = []

    def run(self, command: str, wanted_s: float, most_s: float) -> Act:
        self.ran.append(command)
        return Act("ran [exit status 0]")

    def take_notice(self) -> str:
        return ""


Make = Callable[..., Aci]


@pytest.fixture
def make(tmp_path: Path, sandbox: BubblewrapSandbox) -> Make:
    tree = tmp_path / "tree"
    tree.mkdir(exist_ok=True)
    (tree / "long.txt").write_text(LONG)
    (tree / "a.py").write_text("def f():\n    return 1\n\n\ndef g():\n    return 2\n")
    (tree / "b.rs").write_text("fn main() {\n    other();\n}\n")
    box = Box((Place("/build/tree", tree, True),))

    def aci(kept: Mapping[str, str | int] = {}, **switches: object) -> Aci:
        tools = find(("rust",) if switches.pop("rust", False) else ())
        linter = Linter(sandbox, tools, tmp_path / "lint")
        return Aci(Desk(box, Shell()), linter, AciSwitches(**switches), kept)  # type: ignore[arg-type]

    return aci


def reply(text: str) -> Turn:
    return Turn((Text(text),), "end", Usage())


def do(aci: Aci, block: str) -> Act:
    (call,) = aci.calls(reply(f"I think.\n```\n{block}\n```"))
    return aci.act(call, 60)


def test_the_defaults_are_the_published_values() -> None:
    s = AciSwitches()
    assert (s.window, s.hits, s.keep_last, s.format_errors, s.actions) == (100, 50, 5, 3, 1)
    assert (s.lint, s.edit, s.folds) == (True, "range", False)


def test_the_window_states_the_total_what_is_above_and_below_and_real_numbers(make: Make) -> None:
    aci = make()
    lines = do(aci, "open long.txt").text.split("\n")
    assert lines[0] == "[/build/tree/long.txt, 300 lines in all]" and lines[1] == "1:line 1"
    assert lines[100:102] == ["100:line 100", "(200 lines below)"]
    lines = do(aci, "scroll_down").text.split("\n")
    assert lines[1:3] == ["(98 lines above)", "99:line 99"]  # two lines stay in sight
    lines = do(aci, "goto 200").text.split("\n")
    assert "200:line 200" in lines and lines[2] == "184:line 184"
    assert do(aci, "goto 300").text.split("\n")[1] == "(200 lines above)"
    assert "300 lines" in do(aci, "goto 301").text and do(aci, "goto 301").outcome == "refused"
    assert do(aci, "scroll_up").text.split("\n")[1] == "(102 lines above)"
    assert "250:line 250" in do(aci, "open long.txt 250").text


def test_window_sizes_are_a_switch(make: Make) -> None:
    assert "(270 lines below)" in do(make(window=30), "open long.txt").text
    assert "lines below" not in do(make(window=0), "open long.txt").text
    assert "scroll_down" not in words(AciSwitches(window=0)) and "scroll_down" in words(AciSwitches())


def test_searches_show_up_to_fifty_results_and_refuse_more(make: Make, tmp_path: Path) -> None:
    aci = make()
    (tmp_path / "tree" / "fifty").write_text("x hit\n" * 50)
    assert "50 lines of /build/tree/fifty hold 'hit'" in do(aci, "search_file hit fifty").text
    (tmp_path / "tree" / "fifty").write_text("x hit\n" * 51)
    act = do(aci, "search_file hit fifty")
    assert act.outcome == "refused" and "narrower" in act.text and "1:x hit" not in act.text
    for n in range(51):
        (tmp_path / "tree" / f"n{n}.h").write_text("needle\n" if n else "needle\nneedle\n")
    assert do(aci, "search_dir needle").outcome == "refused" and do(aci, "find_file *.h").outcome == "refused"
    (tmp_path / "tree" / "n50.h").unlink()
    assert "51 lines in 50 files" in do(aci, "search_dir needle").text
    assert "/build/tree/n0.h (2 lines)" in do(aci, "search_dir needle").text
    assert do(make(hits=2), "search_dir needle").outcome == "refused"
    assert "No line" in do(aci, "search_file 'no such' fifty").text
    assert "a.py" in do(aci, "find_file a.p*").text


def test_iterative_search_shows_one_result_at_a_time_and_goes_on_after_a_restart(make: Make, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "c.txt").write_text("needle\n" * 60)
    aci = make(search="iterative")
    assert do(aci, "next_match").outcome == "refused"  # nothing was searched for
    text = do(aci, "search_dir needle").text
    assert text.startswith("result 1 of 60 for 'needle', line 1:\n[/build/tree/c.txt, 60 lines in all]")
    do(aci, "open c.txt")
    (tree / "c.txt").write_text("x\n" + "needle\n" * 60)  # what was found has moved
    again = make(dict(aci.interface()), search="iterative")
    assert do(again, "next_match").text.startswith("result 1 of 60 for 'needle', line 2:")
    assert do(again, "next_match").text.startswith("result 2 of 60 for 'needle', line 3:")
    assert do(again, "prev_match").text.startswith("result 1 of 60 for 'needle', line 2:")
    refused = do(again, "prev_match")
    assert refused.outcome == "refused" and "no result before" in refused.text
    assert do(again, "search_file 'return 2' a.py").text.startswith("result 1 of 1 for 'return 2', line 6:")
    assert "No line of" in do(again, "search_file absent a.py").text
    assert "next_match" not in words(AciSwitches()) and "next_match" not in words(AciSwitches(search="off"))
    assert "next_match" in system(AciSwitches(search="iterative"))


def test_an_edit_replaces_lines_and_shows_the_result(make: Make, tmp_path: Path) -> None:
    aci = make()
    do(aci, "open a.py")
    act = do(aci, "edit 2:2\n    x = 1\n    return x\nend_of_edit")
    assert act.outcome == "edited" and "3:    return x" in act.text
    assert (tmp_path / "tree" / "a.py").read_text() == "def f():\n    x = 1\n    return x\n\n\ndef g():\n    return 2\n"
    for wrong in ("edit 3:2\nx\nend_of_edit", "edit 7:8\nx\nend_of_edit", "edit x\ny\nend_of_edit", "edit 0:1\ny"):
        assert do(aci, wrong).outcome == "edit_failed"
    assert do(make(), "edit 1:1\nx\nend_of_edit").outcome == "refused"  # no file is open


def test_an_edit_that_breaks_the_file_is_rolled_back_with_three_parts(make: Make, tmp_path: Path) -> None:
    aci = make()
    do(aci, "open a.py")
    act = do(aci, "edit 2:2\n  return (1\nend_of_edit")
    assert act.outcome == "lint" and (tmp_path / "tree" / "a.py").read_text().startswith("def f():\n    return 1\n")
    faults, edited, unchanged = act.text.split("\n\nThis is ")
    assert "E999" in faults and "2:  return (1" in edited and "2:    return 1" in unchanged
    free = make(lint=False)
    do(free, "open a.py")
    assert do(free, "edit 2:2\n  return (1\nend_of_edit").outcome == "edited"
    again = make()
    do(again, "open a.py")
    assert do(again, "edit 1:1\ndef h():\nend_of_edit").outcome == "edited"  # its fault was there before


def test_the_guard_knows_rust_by_its_form_only(make: Make, tmp_path: Path) -> None:
    aci = make(rust=True)
    do(aci, "open b.rs")
    assert do(aci, "edit 2:2\n    other(;\nend_of_edit").outcome == "lint"
    assert do(aci, "edit 2:2\n    missing_elsewhere::call(1, no_such!());\nend_of_edit").outcome == "edited"


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("x.sh", b"if true; then echo; fi\n", b"if true; then echo\n"), ("x.json", b"{}", b"{"), ("x.toml", b"a = 1", b"a ="),
        ("x.unknown", b"{", b"{{"), ("x.c", b"int f(void) { return 1; }\n", b"int f(void) { return 1 }\n"),
        ("x.c", b"#if 1\n#endif\n", b"#if 1\n"), ("x.h", b"int f(int);\n", b"int f(int;\n"),
    ],
)  # fmt: skip
def test_other_languages(tmp_path: Path, sandbox: BubblewrapSandbox, name: str, good: bytes, bad: bytes) -> None:
    linter = Linter(sandbox, find(()), tmp_path / "lint")
    assert linter.errors(name, good) == ()
    assert bool(linter.new_errors(name, good, bad)) is (name != "x.unknown")
    assert linter.new_errors(name, bad, bad) == ()


@pytest.mark.parametrize(
    ("rule", "body"),
    [
        ("F821", b"def f():\n    return nowhere\n"), ("F822", b"__all__ = ['nowhere']\n"),
        ("F831", b"def f(a, a):\n    return a\n"), ("E111", b"def f():\n  return 1\n"), ("E999", b"def f(:\n"),
        ("E999 IndentationError", b"if True:\nprint()\n"), ("E999 IndentationError", b"x = 1\n    z = 2\n"),  # E112, E113
        ("E902", b"x = '\0'\n"), ("", b"import os\nx=1 ;y = 2\n" + b"z" * 200 + b" = 1\n"),  # F401, E225, E501: not on it
    ],
)  # fmt: skip
def test_python_is_looked_at_by_the_published_list_and_no_more(
    tmp_path: Path, sandbox: BubblewrapSandbox, rule: str, body: bytes
) -> None:
    said = Linter(sandbox, find(()), tmp_path / "lint").errors("x.py", body)
    assert [e.partition(": ")[2].startswith(rule) for e in said] == [True] * bool(rule)


def test_c_is_looked_at_beside_its_headers_and_what_another_file_may_define_is_no_fault(
    tmp_path: Path, sandbox: BubblewrapSandbox
) -> None:
    (tmp_path / "tree" / "include").mkdir(parents=True)
    (tmp_path / "tree" / "include" / "t.h").write_text("#define BEGIN {\ntypedef int mine;\n")
    linter = Linter(sandbox, find(()), tmp_path / "lint", (Mount(tmp_path / "tree", "/build/tree"),))
    path = "/build/tree/src/a.c"
    good = b'#include "t.h"\nmine f(void) BEGIN return 1; }\n'
    assert linter.errors(path, good) == ()
    assert linter.new_errors(path, good, good.replace(b"1;", b"1")) == ("2: expected ‘;’ before ‘}’ token",)
    assert linter.errors("/elsewhere/a.c", good) == ()  # without the header nothing after it is looked at
    unknown = b"foo f(bar *a, baz b) { foo x = (foo)a; for (bar i = 0; i < b; i++) g(i); EACH(a, b) { h(x); } return x; }\n"
    assert linter.errors(path, unknown) == ()


@pytest.mark.parametrize(
    ("kind", "block"),
    [
        ("replace", "edit\n<<<<<<< SEARCH\n    return 1\n=======\n    return 3\n>>>>>>> REPLACE"),
        ("diff", "edit\n--- a\n+++ b\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 3\nend_of_edit"),
        ("whole", "edit\ndef f():\n    return 3\n\n\ndef g():\n    return 2\nend_of_edit"),
    ],
)
def test_edit_formats_are_a_switch(make: Make, tmp_path: Path, kind: str, block: str) -> None:
    aci = make(edit=kind)
    do(aci, "open a.py")
    assert do(aci, block).outcome == "edited"
    assert (tmp_path / "tree" / "a.py").read_text() == "def f():\n    return 3\n\n\ndef g():\n    return 2\n"


def test_text_that_does_not_stand_once_and_marks_that_are_missing_fail(make: Make) -> None:
    aci = make(edit="replace")
    do(aci, "open a.py")
    assert do(aci, "edit\n<<<<<<< SEARCH\n    return\n=======\nx\n>>>>>>> REPLACE").outcome == "edit_failed"
    assert do(aci, "edit\n    return 1").outcome == "edit_failed"
    assert "edit" not in words(AciSwitches(edit="none")) and "search_dir" not in words(AciSwitches(search="off"))


def test_hunks_are_moved_when_lines_before_them_have_changed() -> None:
    lines = ["new", "a", "b", "c"]
    assert apply_diff(lines, "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", "f") == (["new", "a", "B", "c"], 2)
    assert apply_diff(["a", "b"], "@@ -1,0 +2,1 @@\n+x", "f")[0] == ["a", "x", "b"]
    with pytest.raises(EditFailed, match="doesn't fit at 0 places"):
        apply_diff(lines, "@@ -1,2 +1,2 @@\n a\n-z\n+B\n", "f")
    with pytest.raises(EditFailed, match="no hunk"):
        apply_diff(lines, "just text", "f")


@pytest.mark.parametrize("text", ["no block", "```\nls\n```\nand\n```\nls\n```", "```\n\n```", "```\nls"])
def test_a_reply_without_exactly_one_command_is_malformed(make: Make, text: str) -> None:
    with pytest.raises(Malformed, match="exactly one"):
        make().calls(reply(text))


def test_what_is_no_command_runs_in_the_shell(make: Make) -> None:
    aci = make()
    do(aci, "run make -j2\nls")
    do(aci, "for f in *; do\n  echo $f\ndone")
    do(aci, "open a.py\nls")  # two lines, so it isn't the interface's command
    assert aci.desk.ran == ["make -j2\nls", "for f in *; do\n  echo $f\ndone", "open a.py\nls"]  # type: ignore[attr-defined]
    assert parse('search_dir "two words" src', aci.words).input == {"term": "two words", "path": "src"}


def test_create_opens_a_new_file_and_refuses_an_old_one(make: Make, tmp_path: Path) -> None:
    aci = make()
    assert "new/x.rs, 1 lines" in do(aci, "create new/x.rs").text
    do(aci, "edit 1:1\nfn x() {}\nend_of_edit")
    assert (tmp_path / "tree" / "new" / "x.rs").read_text() == "fn x() {}\n"
    assert do(aci, "create a.py").outcome == "refused"
    assert do(aci, "submit").outcome == "final"


def test_commands_lacking_a_word_say_how_they_are_used(make: Make) -> None:
    assert "goto LINE" in do(make(), "goto").text and do(make(), "goto x").outcome == "refused"


def test_as_tools_the_same_commands_are_called(make: Make) -> None:
    aci = make(reply="tools")
    assert {t.name for t in aci.tools} == set(words(AciSwitches()))
    assert "block" not in aci.system and "block" in system(AciSwitches())
    assert make().tools == ()
    assert "only the first is carried out" in aci.system and aci.actions == 1
    many = make(reply="tools", actions=0)
    assert "only the first" not in many.system and many.actions == 0


def test_with_a_real_shell_paths_follow_its_directory(make_shell: MakeShell, make: Make) -> None:
    aci = make()
    aci.desk.shell = make_shell()
    aci.desk.shell.run("mkdir -p sub; cd sub; echo hi > f", 10)
    assert "/build/tree/sub/f, 1 lines" in do(aci, "open f").text
