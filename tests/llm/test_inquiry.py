"""One question with tools: what is done of a reply, when it ends, and what it cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from refactorbench.llm.inquiry import REMINDERS, Inquiry, Tool, ToolError, opening
from refactorbench.llm.protocol import ProviderError, ToolResult, ToolSpec, Usage
from refactorbench.llm.retry import ManualClock, RetriedModel
from refactorbench.llm.scripted import Scripted, load_script

ANSWER = ToolSpec("answer", "", {"type": "object"})


def look(given: dict[str, Any]) -> str:
    if "fail" in given:
        raise ToolError("there is no such thing")
    return f"looked at {given.get('at')}"


def inquire(
    tmp_path: Path, *steps: dict[str, Any], complaints: tuple[str, ...] = (), turns: int = 20
) -> tuple[Any, Any]:
    (tmp_path / "s").write_text("".join(json.dumps(s) + "\n" for s in steps))
    clock = ManualClock()
    model = RetriedModel(Scripted("scripted/s", load_script(tmp_path / "s"), clock), clock=clock)
    said = list(complaints)
    inquiry = Inquiry(
        model, "system", opening("the case", "the question"), (Tool(ToolSpec("look", "", {}), look),), ANSWER,
        lambda given: said.pop(0) if said else "", clock.now,
    )  # fmt: skip
    return inquiry, inquiry.run(turns, 100, 60)


def calls(*named: str, **given: Any) -> dict[str, Any]:
    return {"calls": [{"name": n, "input": given} for n in named], "usage": {"input": 10, "output": 1}}


def results(inquiry: Inquiry) -> list[tuple[str, bool]]:
    return [
        ("".join(c.text for c in b.content), b.is_error)  # type: ignore[union-attr]
        for m in inquiry.messages for b in m.blocks if isinstance(b, ToolResult)
    ]  # fmt: skip


def test_looks_are_answered_in_order_and_the_answer_ends_it(tmp_path: Path) -> None:
    inquiry, end = inquire(tmp_path, calls("look", "look", at=1), calls("look", "answer", at=2))
    assert end == "answered" and inquiry.turns == 2 and inquiry.usage == Usage(20, 0, 0, 2)
    assert results(inquiry) == [("looked at 1", False)] * 2 + [("looked at 2", False), ("taken", False)]
    assert [m.role for m in inquiry.messages[:3]] == ["user", "assistant", "user"]


def test_what_cannot_be_done_is_told_and_it_goes_on(tmp_path: Path) -> None:
    inquiry, end = inquire(tmp_path, calls("look", fail=1), calls("bash"), calls("answer"))
    assert end == "answered"
    assert results(inquiry)[:2] == [
        ("there is no such thing", True), ("there is no tool 'bash': the tools are look, answer", True)
    ]  # fmt: skip


def test_an_answer_that_is_complained_about_is_not_taken(tmp_path: Path) -> None:
    inquiry, end = inquire(tmp_path, calls("answer"), calls("answer", "answer"), complaints=("look first",))
    assert end == "answered" and results(inquiry)[0] == ("look first", True) and inquiry.turns == 2


@pytest.mark.parametrize("stop", ["end", "max_tokens"])
def test_replies_without_a_call_are_reminded_and_end_it_in_a_row(stop: str, tmp_path: Path) -> None:
    talk = {"say": "It is fine.", "stop": stop}
    inquiry, end = inquire(tmp_path, *[talk] * REMINDERS)
    assert end == "silent" and ("briefer" in str(inquiry.messages)) == (stop == "max_tokens")
    _, end = inquire(tmp_path, talk, talk, calls("look"), talk, talk, calls("answer"))
    assert end == "answered"


@pytest.mark.parametrize(
    ("steps", "end"),
    [
        ([{**calls("look"), "repeat": True}], "turns"),
        ([{"fault": {"kind": "context_overflow"}}], "context"),
        ([{"say": "x", "stop": "context_full"}], "context"),
        ([{"fault": {"kind": "refusal"}}] * 5, "refused"),
        ([{"say": "x", "stop": "pause"}, calls("answer")], "answered"),
        ([{**calls("answer"), "takes_s": 61}], "time"),
        ([{"fault": {"status": 529, "retry_after": 300}}, calls("answer")], "answered"),  # waiting doesn't count
    ],
)
def test_how_it_can_end(steps: list[dict[str, Any]], end: str, tmp_path: Path) -> None:
    assert inquire(tmp_path, *steps)[1] == end


def test_a_providers_fault_is_raised_and_what_was_used_is_known(tmp_path: Path) -> None:
    steps = (calls("look"), {"fault": {"kind": "auth", "usage": {"input": 5}}})
    (tmp_path / "s").write_text("".join(json.dumps(s) + "\n" for s in steps))
    model = RetriedModel(Scripted("scripted/s", load_script(tmp_path / "s")), clock=ManualClock())
    inquiry = Inquiry(model, "", opening("a", "b"), (Tool(ToolSpec("look", "", {}), look),), ANSWER, lambda _: "")
    with pytest.raises(ProviderError):
        inquiry.run(9, 100, 60)
    assert inquiry.usage == Usage(15, 0, 0, 1) and inquiry.turns == 1
