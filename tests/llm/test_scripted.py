"""The scripted model plays its file, faults through the same retries as a real one's, and goes on after a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from refactorbench.errors import UsageError
from refactorbench.llm.models import open_model
from refactorbench.llm.protocol import ChatModel, ContextOverflow, Message, ProviderError, Text, ToolResult, Turn, Usage
from refactorbench.llm.retry import ManualClock

ASK = Message("user", (Text("go"),))


def script(tmp_path: Path, *steps: dict[str, Any]) -> str:
    path = tmp_path / "script.jsonl"
    path.write_text("".join(json.dumps(s) + "\n" for s in steps))
    return f"scripted/{path}"


def step(n: int) -> dict[str, Any]:
    return {
        "think": f"t{n}",
        "say": f"turn {n}",
        "calls": [{"name": "bash", "input": {"command": f"echo {n}"}}],
        "usage": {"input": n + 1},
    }


def answer(turn: Turn) -> Message:
    return Message("user", tuple(ToolResult(u.id, (Text("ok"),)) for u in turn.tool_uses) or (Text("?"),))


def play(model: ChatModel, messages: list[Message], turns: int) -> list[Turn]:
    played = []
    for _ in range(turns):
        turn = model.turn("", messages, (), max_tokens=10)
        messages += [turn.message, answer(turn)]
        played.append(turn)
    return played


def test_turns_are_played_in_order_with_unique_calls(tmp_path: Path) -> None:
    name = script(tmp_path, step(0), step(1), {"say": "done"})
    turns = play(open_model(name, environ={}), [ASK], 3)
    assert [t.text for t in turns] == ["turn 0", "turn 1", "done"]
    assert [t.stop for t in turns] == ["tool_use", "tool_use", "end"]
    assert len({u.id for t in turns for u in t.tool_uses}) == 2
    assert turns[1].usage == Usage(input=2)


def test_a_conversation_that_is_taken_up_again_goes_on_where_it_stood(tmp_path: Path) -> None:
    name = script(tmp_path, *(step(n) for n in range(6)))
    unbroken: list[Message] = [ASK]
    play(open_model(name, environ={}), unbroken, 6)
    for killed_after in range(6):
        messages: list[Message] = [ASK]
        play(open_model(name, environ={}), messages, killed_after)
        journaled = msgspec.json.decode(msgspec.json.encode(messages), type=list[Message])
        play(open_model(name, environ={}), journaled, 6 - killed_after)
        assert journaled == unbroken


def test_a_turn_that_never_reached_the_journal_is_played_again(tmp_path: Path) -> None:
    name = script(tmp_path, step(0), step(1))
    first = open_model(name, environ={}).turn("", [ASK], (), max_tokens=10)
    assert open_model(name, environ={}).turn("", [ASK], (), max_tokens=10) == first


def test_folding_the_conversation_does_not_rewind_the_script(tmp_path: Path) -> None:
    model = open_model(script(tmp_path, step(0), step(1), step(2)), environ={})
    play(model, [ASK], 2)
    assert model.turn("", [ASK], (), max_tokens=10).text == "turn 2"


def test_the_end_of_a_script_is_told_unless_its_last_turn_repeats(tmp_path: Path) -> None:
    model = open_model(script(tmp_path, step(0)), environ={})
    messages = [ASK]
    play(model, messages, 1)
    with pytest.raises(UsageError, match="all 1 turns of the script are played"):
        play(model, messages, 1)
    endless = script(tmp_path, step(0), {"say": "done", "repeat": True})
    messages = [ASK]
    assert [t.text for t in play(open_model(endless, environ={}), messages, 4)] == ["turn 0", "done", "done", "done"]
    assert [t.text for t in play(open_model(endless, environ={}), messages, 2)] == ["done", "done"]


def test_faults_go_through_the_same_retries(tmp_path: Path) -> None:
    faults = [
        {"fault": {"status": 529, "retry_after": 5}},
        {"fault": {"kind": "truncated_stream", "usage": {"input": 7, "output": 2}}},
    ]
    clock, waits = ManualClock(), list[float]()
    model = open_model(script(tmp_path, *faults, step(0)), environ={}, clock=clock)
    turn = model.turn("", [ASK], (), max_tokens=10, on_wait=waits.append)
    assert (turn.text, turn.attempts, turn.discarded) == ("turn 0", 3, Usage(input=7, output=2))
    assert clock.slept[0] == 5 and sum(waits) == pytest.approx(sum(clock.slept)) == pytest.approx(turn.waited_s)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"kind": "context_overflow"}, "context_overflow"),
        ({"status": 400, "message": "prompt is too long"}, "context_overflow"),
        ({"status": 401}, "auth"),
        ({"kind": "deadline"}, "deadline"),
    ],
)
def test_lasting_faults_end_the_turn_and_the_next_one_plays_on(
    tmp_path: Path, fault: dict[str, Any], kind: str
) -> None:
    model = open_model(script(tmp_path, {"fault": fault}, step(0)), environ={}, clock=ManualClock())
    with pytest.raises(ProviderError) as e:
        model.turn("", [ASK], (), max_tokens=10)
    assert e.value.kind == kind and isinstance(e.value, ContextOverflow) is (kind == "context_overflow")
    assert model.turn("", [ASK], (), max_tokens=10).text == "turn 0"


def test_a_reply_takes_its_time_on_the_clock_and_never_past_the_deadline(tmp_path: Path) -> None:
    clock = ManualClock()
    model = open_model(script(tmp_path, {"say": "slow", "takes_s": 30}), environ={}, clock=clock)
    with pytest.raises(ProviderError) as e:
        model.turn("", [ASK], (), max_tokens=10, deadline=clock.now() + 10)
    assert (e.value.kind, clock.now()) == ("deadline", 1010.0)
    turn = model.turn("", [ASK], (), max_tokens=10, deadline=clock.now() + 31)
    assert (turn.text, clock.now(), turn.waited_s) == ("slow", 1040.0, 0.0)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"sya": "x"}', "sya"),
        ("nonsense", "is no turn"),
        ('{"stop": "whenever"}', "whenever"),
        ('{"fault": {}}', "either a status or a kind"),
        ('{"fault": {"status": 500, "kind": "server"}}', "either a status or a kind"),
        ("", "holds no turn"),
    ],
)
def test_a_wrong_script_names_its_line_before_anything_is_played(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(UsageError, match=says) as e:
        open_model(f"scripted/{path}", environ={})
    assert not line or f"{path}:2" in str(e.value)
