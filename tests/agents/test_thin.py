"""The thin scaffold's tools: what they take, and refusals that say how to go on."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from refactorbench.agents.act import Act
from refactorbench.agents.confined import Box, Place, Refused
from refactorbench.agents.edit import Editor
from refactorbench.agents.selfcheck import MOST_CASES, Case, SelfCheck
from refactorbench.agents.thin import TOOLS, Switches, Thin, schema
from refactorbench.catalog.models import Recipe, Runtime
from refactorbench.errors import HarnessError
from refactorbench.llm.protocol import ToolUse
from refactorbench.observe.model import Check, Observation
from refactorbench.sandbox import Limits, ScriptedSandbox, WorkerSpec


class Desk:
    def __init__(self, selfcheck: SelfCheck | None = None) -> None:
        self.selfcheck, self.ran = selfcheck, list[tuple[str, float, float]]()
        self.left, self.now, self.notice = lambda: "1 hour left", lambda: 0.0, "[restarted]\n"

    def run(self, command: str, wanted_s: float, most_s: float) -> Act:
        self.ran.append((command, wanted_s, most_s))
        return Act("ran")

    def take_notice(self) -> str:
        notice, self.notice = self.notice, ""
        return notice


@pytest.fixture
def thin(tmp_path: Path) -> Thin:
    (tmp_path / "tree").mkdir()
    box = Box((Place("/build/tree", tmp_path / "tree", True),))
    return Thin(Desk(), Editor(box, tmp_path / "undo"), Switches())  # type: ignore[arg-type]


def act(thin: Thin, name: str, **given: Any) -> Act:
    return thin.act(ToolUse("c", name, given), 500.0)


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("bahs", {}, r"no tool bahs \(did you mean 'bash'\?\)"), ("bash", {}, "missing required field `command`"),
        ("bash", {"command": "ls", "tiemout": 3}, "unknown field `tiemout`"), ("bash", {"command": 3}, "bash can't take this"),
        ("edit", {"command": "create", "path": "/build/tree/a"}, "create needs file_text"),
        ("edit", {"command": "insert", "path": "/build/tree/a"}, "insert needs insert_line and new_str"),
        ("edit", {"command": "look", "path": "/a"}, "Invalid enum value 'look'"),
        ("edit", {"command": "view", "path": "/build/tree", "view_range": [1]}, "two numbers"),
        ("edit", {"command": "view", "path": "a"}, "not an absolute path. Give the whole path, for example /build/tree/a"),
    ],
)  # fmt: skip
def test_calls_that_do_not_fit_are_refused_with_the_way_on(
    thin: Thin, name: str, given: dict[str, Any], says: str
) -> None:
    refused = act(thin, name, **given)
    assert refused.outcome == "refused" and refused.is_error and re.search(says, refused.text), refused.text


def test_a_command_runs_for_what_it_names_or_the_switch(thin: Thin) -> None:
    (
        act(thin, "bash", command="a"),
        act(thin, "bash", command="b", timeout_s="7"),
        act(thin, "bash", command="c", timeout_s=1e9),
    )
    assert thin.desk.ran == [("a", 120.0, 500.0), ("b", 7.0, 500.0), ("c", 3600.0, 500.0)]  # type: ignore[attr-defined]


def test_a_notice_is_told_once_with_the_next_observation(thin: Thin) -> None:
    assert act(thin, "bash", command="a").text == "[restarted]\nran" and act(thin, "time_left").text == "1 hour left."


def test_an_edit_that_fails_is_counted_as_such(thin: Thin) -> None:
    assert act(thin, "edit", command="create", path="/build/tree/a", file_text="x\n").outcome == "edited"
    assert (
        act(thin, "edit", command="str_replace", path="/build/tree/a", old_str="y", new_str="z").outcome
        == "edit_failed"
    )
    assert act(thin, "edit", command="str_replace", path="/build/tree/a", old_str="x").outcome == "edited"  # removed
    assert act(thin, "submit").outcome == "final"


def test_schemas_are_whole_and_tools_can_be_switched_off(thin: Thin, tmp_path: Path) -> None:
    for kind, _ in TOOLS.values():
        assert "$ref" not in json.dumps(schema(kind)) and schema(kind)["additionalProperties"] is False
    assert [t.name for t in thin.tools] == ["bash", "edit", "selfcheck", "time_left", "submit"]
    assert "{" not in thin.tools[0].description and "default 120" in thin.tools[0].description
    off = Thin(Desk(), thin.editor, Switches(selfcheck=False, create_over=True, tolerant=True))  # type: ignore[arg-type]
    assert "selfcheck" not in [t.name for t in off.tools]
    assert "replaced as a whole" in off.tools[1].description and "may differ" in off.tools[1].description


class Task:
    """What of a task selfcheck looks at."""

    target = reference = Recipe("x", {"bin/tally": "out/tally", "include/t.h": "t.h"}, ())
    runtime, limits = Runtime(()), Limits()


@pytest.fixture
def selfcheck(tmp_path: Path) -> SelfCheck:
    for name in ("tree/out", "state-a/bin", "state-a/include"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("state-a/bin/tally", "state-a/include/t.h"):
        (tmp_path / name).write_text("old")
    (tmp_path / "state-a" / "bin" / "tally").chmod(0o755)

    def observe(spec: WorkerSpec, check: Check) -> Observation:
        new = (spec.product / "bin" / "tally").read_text() == "new"
        out = check.stdin + b"".join(f.path + f.data for f in check.files) + b" ".join(check.argv)
        return Observation("exit", 0, out.upper() if new and b"up" in out else out, b"", ())

    box = Box((Place("/build/tree", tmp_path / "tree", True),))
    sandbox = ScriptedSandbox(observe=observe)
    return SelfCheck(Task(), sandbox, box, "/build/tree", tmp_path / "state-a", tmp_path / "scratch")  # type: ignore[arg-type]


def build(tmp_path: Path) -> None:
    (tmp_path / "tree" / "out" / "tally").write_text("new")
    (tmp_path / "tree" / "t.h").write_text("")


def test_differences_are_shown_and_equal_cases_counted(selfcheck: SelfCheck, tmp_path: Path) -> None:
    build(tmp_path)
    cases = (
        Case(("a",)),
        Case(stdin="up"),
        Case(files_base64={"f": base64.b64encode(b"up").decode()}),
        Case(stdin_base64="/w=="),
    )
    text = selfcheck.run(cases, 10, lambda: 0.0).text
    assert text.startswith("4 cases: 2 equal, 2 different") and "case 2 []: stdout differs" in text and "case 3" in text
    assert not (tmp_path / "scratch" / "product").exists()


def test_more_differences_than_are_explained_are_named_and_time_is_kept(selfcheck: SelfCheck, tmp_path: Path) -> None:
    build(tmp_path)
    text = selfcheck.run([Case(stdin=f"up {n}") for n in range(12)], 10, lambda: 0.0).text
    assert text.count("stdout differs") == 10 and text.endswith("also different: cases 11, 12")
    ticks = iter(range(100))
    assert "time was up before the other 9" in selfcheck.run([Case()] * 12, 3.5, lambda: float(next(ticks))).text


@pytest.mark.parametrize(
    ("cases", "says"),
    [
        ((), "no case"), ((Case(),) * (MOST_CASES + 1), "more than 500"), ((Case(program="bin/sh"),), "no program of this task"),
        ((Case(stdin_base64="*"),), "no base64"), ((Case(files={"../x": ""}),), "must be relative"),
        ((Case(files={"/x": ""}),), "must be relative"), ((Case(("a\0",)),), "NUL"),
        ((Case(files={"a": "", "a/b": ""}),), "'a/b' lies below another file"), ((Case(("\ud800",)),), "no text"),
        ((Case(files={"x" * 256: ""}),), "longer than a file's name"), ((Case(files={"x/" * 1100 + "x": ""}),), "longer than a"),
        ((Case(("x" * (128 << 10),)),), "longer than a program"), ((Case(("x",) * 200_000),), "longer than a program"),
        ((Case(files={"\ud800": ""}),), "no text"),
    ],
)  # fmt: skip
def test_cases_that_cannot_be_run_are_refused(
    selfcheck: SelfCheck, tmp_path: Path, cases: tuple[Case, ...], says: str
) -> None:
    build(tmp_path)
    with pytest.raises(Refused, match=says):
        selfcheck.run(cases, 10, lambda: 0.0)


def test_a_case_that_no_sandbox_can_run_is_refused_and_ends_no_run(
    selfcheck: SelfCheck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path)

    def fail(spec: WorkerSpec, check: Check) -> Observation:
        raise HarnessError("no room for it")

    monkeypatch.setattr(selfcheck, "_sandbox", ScriptedSandbox(observe=fail))
    with pytest.raises(Refused, match=r"case 1 can't be put to both sides now \(no room for it\)"):
        selfcheck.run((Case(),), 10, lambda: 0.0)
    assert not (tmp_path / "scratch" / "product").exists()


def test_a_tree_that_is_not_built_says_what_is_missing(selfcheck: SelfCheck, tmp_path: Path) -> None:
    build(tmp_path)
    (tmp_path / "tree" / "out" / "tally").unlink()
    (tmp_path / "tree" / "out" / "tally").symlink_to("/bin/true")  # nor is a link to something else a build
    with pytest.raises(Refused, match="holds no out/tally: build first"):
        selfcheck.run((Case(),), 10, lambda: 0.0)


def test_cases_come_from_a_file_too(selfcheck: SelfCheck, tmp_path: Path) -> None:
    (tmp_path / "tree" / "cases").write_text('{"args": ["x"]}\n\n{"stdin": "y"}\n')
    assert selfcheck.load("/build/tree/cases") == (Case(("x",)), Case(stdin="y"))
    (tmp_path / "tree" / "cases").write_text('{"arg": ["x"]}\n')
    with pytest.raises(Refused, match="cases:1 is no case"):
        selfcheck.load("/build/tree/cases")
