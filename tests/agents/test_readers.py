"""What is read from a journal: the interface's metrics, the transcript, the ATIF trajectory; and no secret in any."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from refactorbench.agents.budget import Budget, Limit, Timer, Used
from refactorbench.agents.metrics import measure, rows, table
from refactorbench.agents.model_agent import SCAFFOLDS, ModelAgent
from refactorbench.agents.records import AgentJournal, Answered, Clock, Entry, Folded, Replied, Started, Stopped, Told
from refactorbench.agents.secrets import masked, scrubber, values
from refactorbench.agents.settings import read
from refactorbench.agents.shell import ShellState
from refactorbench.agents.transcript import page, trajectory
from refactorbench.errors import UsageError
from refactorbench.llm.protocol import CredentialsMissing, Native, Text, Thinking, ToolUse, Turn, Usage

FIRST = Started("aci", "m/x", "toy", "1", {"keep_last": 5}, "system text", "the task", "", 1_700_000_000.0)


def answered(outcome: str, text: str = "seen") -> Answered:
    call = ToolUse("id1", "edit", {"path": "/a"})
    return Answered(call, text, outcome, Clock(20.0, 4.0), "", ShellState())  # type: ignore[arg-type]


def replied(text: str = "I think") -> Replied:
    blocks = (Thinking("deep", Native("p", {})), Text(text), ToolUse("id1", "edit", {"path": "/a"}))
    return Replied(
        Turn(blocks, "tool_use", Usage(input=10, cache_read=30, output=5, reasoning=2), model="m"), Clock(10.0), 0.5
    )


def run(*outcomes: str) -> list[Entry]:
    found: list[Entry] = [FIRST]
    for outcome in outcomes:
        found += [replied(), answered(outcome, "x" * 400)]
    return found


@pytest.mark.parametrize(
    ("outcomes", "failed", "failures", "recovered"),
    [
        (("edited", "edited"), 0, 0, 0), (("edit_failed", "edited"), 1, 1, 1), (("edit_failed", "lint", "ok", "edited"), 2, 1, 1),
        (("edited", "edit_failed"), 1, 1, 0), (("lint", "edited", "edit_failed", "ok"), 2, 2, 1), ((), 0, 0, 0),
    ],
)  # fmt: skip
def test_failed_edits_and_whether_one_after_them_was_made(
    outcomes: tuple[str, ...], failed: int, failures: int, recovered: int
) -> None:
    m = measure(run(*outcomes))
    assert (m.edits_failed, m.failures, m.recovered, m.with_failed_edit) == (failed, failures, recovered, failures > 0)


def test_what_else_is_counted() -> None:
    entries = [
        *run("refused", "stopped", "lint", "final"), Told("", "format", Clock()), Told("", "silent", Clock()),
        Folded(3, 4000, "observations"), Stopped("done", "", Clock(3610.0, 10.0)),
    ]  # fmt: skip
    m = measure(entries)
    assert (m.refusals, m.stopped_commands, m.lint_rollbacks, m.format_errors, m.reminders) == (1, 1, 1, 1, 1)
    assert (m.turns, m.tokens, m.cost, m.hours, m.stop, m.folded_tokens) == (4, 188, 2.0, 1.0, "done", 1000)
    assert measure(run(*["ok"] * 7)).folded_tokens == 2 * 400 // 4  # beyond the last five
    assert measure(run("ok")).stop == "open"


def test_a_table_has_a_row_per_scaffold_model_and_settings() -> None:
    one, two = measure(run("edit_failed", "edited")), measure(run("edited"))
    found = rows([(one, "window=30", 0.0), (two, "window=30", 1.0), (two, "", None)])
    assert [(r.settings, r.runs, r.score, r.recovered) for r in found] == [
        ("", 1, None, None),
        ("window=30", 2, 0.5, 1.0),
    ]
    other = measure([msgspec.structs.replace(FIRST, scaffold="thin"), Stopped("time", "", Clock())])
    lines = table(rows([(one, "window=30", 0.0), (two, "window=30", 1.0), (two, "", None), (other, "", 1.0)])).splitlines()
    assert [line.split()[0] for line in lines if line] == ["aci", "model", "m/x", "m/x", "thin", "model", "m/x"]
    assert lines[3].split()[1:9] == ["window=30", "2", "50", "1.5", "1.5", "0.5", "100%", "0"]
    assert lines[3].endswith("2 open") and lines[-1].endswith("1 time") and "no run" in table(())


def test_a_transcript_reads_as_thought_action_observation_page_by_page() -> None:
    entries = [*run(*["ok"] * 25), Stopped("time", "the task's limit", Clock())]
    first, second = page(entries, 1), page(entries, 2)
    assert first.startswith(
        "page 1 of 2, 25 turns\nTASK\nthe task\n--- turn 1\nTHOUGHT  deep\nI think\nACTION  edit\n  path: /a"
    )
    assert "OBSERVATION  xxx" in first and second.endswith("END  time: the task's limit") and "--- turn 21" in second
    with pytest.raises(UsageError, match="2 pages"):
        page(entries, 3)
    assert "[... 300 characters ...]" in page(entries, 1, longest=100)


STEP = {
    "step_id": int, "source": str, "message": str, "timestamp": str, "model_name": str, "reasoning_effort": str,
    "reasoning_content": str, "tool_calls": list, "observation": dict, "metrics": dict, "extra": dict,
}  # fmt: skip
AGENT_ONLY = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}
METRICS = {"prompt_tokens": int, "completion_tokens": int, "cached_tokens": int, "cost_usd": float}
TOTALS = {f"total_{k}": v for k, v in METRICS.items()} | {"total_steps": int, "extra": dict}


def keys(found: dict[str, Any], known: dict[str, type], required: Iterable[str] = ()) -> None:
    assert set(required) <= found.keys() <= known.keys(), found
    assert all(type(v) is known[k] for k, v in found.items()), found


def valid(t: dict[str, Any]) -> None:
    """The rules of ATIF v1.4: fields and their types, which are an agent's only, numbers, times, and who answers whom."""
    root = {"schema_version": str, "session_id": str, "agent": dict, "steps": list, "notes": str, "final_metrics": dict, "extra": dict}
    keys(t, root, ("schema_version", "session_id", "agent", "steps"))
    keys(t["agent"], {"name": str, "version": str, "model_name": str, "extra": dict}, ("name", "version"))
    keys(t["final_metrics"], TOTALS)
    assert t["schema_version"] == "ATIF-v1.4" and t["final_metrics"]["total_steps"] == len(t["steps"])
    assert [s["step_id"] for s in t["steps"]] == list(range(1, len(t["steps"]) + 1))
    ids = [c["tool_call_id"] for s in t["steps"] for c in s.get("tool_calls", ())]
    assert len(set(ids)) == len(ids)
    for step in t["steps"]:
        keys(step, STEP, ("step_id", "source", "message"))
        assert step["source"] in ("system", "user", "agent")
        assert step["source"] == "agent" or not AGENT_ONLY & step.keys()
        datetime.datetime.fromisoformat(step.get("timestamp", "2026-01-01T00:00:00Z"))
        keys(step.get("metrics", {}), METRICS)
        for call in step.get("tool_calls", ()):
            keys(call, {"tool_call_id": str, "function_name": str, "arguments": dict}, ("tool_call_id", "function_name", "arguments"))
        for result in step.get("observation", {}).get("results", ()):
            keys(result, {"source_call_id": str, "content": str})
            assert result["source_call_id"] in [c["tool_call_id"] for c in step["tool_calls"]]
    assert json.loads(msgspec.json.encode(t)) == t


def test_the_trajectory_keeps_the_rules_of_its_format() -> None:
    first = msgspec.structs.replace(FIRST, prices="version 1", switches={"effort": "high"})
    one, two = replied(), msgspec.structs.replace(replied(), turn=turn_of("id2", "id3"))
    plain = msgspec.structs.replace(answered("refused"), call=ToolUse("", "run", {"text": "ls"}))
    text = [Replied(Turn((Text("```\nls\n```"),), "end", Usage(), discarded=Usage(input=7)), Clock(30.0)), plain]
    entries = [
        first, one, answered("ok"), Told("go on", "silent", Clock(25.0)), two, answered("edited"),
        Folded(3, 4000, "observations"), *text, *text, Stopped("time", "", Clock()),
    ]  # fmt: skip
    t = trajectory(entries, "run-1")
    valid(t)
    assert [s["source"] for s in t["steps"]] == ["system", "user", "agent", "user", "agent", "system", "agent", "agent"]
    step = t["steps"][2]
    assert step["tool_calls"] == [{"tool_call_id": "id1", "function_name": "edit", "arguments": {"path": "/a"}}]
    assert step["observation"]["results"][0]["source_call_id"] == "id1" and step["reasoning_content"] == "deep"
    assert step["metrics"] == {"prompt_tokens": 40, "completion_tokens": 7, "cached_tokens": 30, "cost_usd": 0.5}
    assert step["timestamp"] == "2023-11-14T22:13:30.000Z" and step["reasoning_effort"] == "high"
    cut = t["steps"][4]
    assert len(cut["tool_calls"]) == 2 and len(cut["observation"]["results"]) == 1  # the second was never carried out
    assert "4000 characters" in t["steps"][5]["message"] and t["steps"][6]["tool_calls"][0]["tool_call_id"] == "turn_3_1"
    assert t["final_metrics"]["total_prompt_tokens"] == 50 and t["final_metrics"]["extra"] == {"thrown_away_tokens": 14}
    assert t["extra"]["stop"] == "time" and t["final_metrics"]["total_cost_usd"] == 1.0
    unpriced = trajectory([FIRST, one], "run-2")
    valid(unpriced)
    assert "cost_usd" not in unpriced["steps"][2]["metrics"] and "total_cost_usd" not in unpriced["final_metrics"]


@pytest.mark.parametrize(
    ("at", "key", "value"),
    [(0, "step_id", 2), (1, "model_name", "m"), (2, "source", "tool"), (2, "message", None), (2, "extras", {}), (0, "timestamp", "now")],
)  # fmt: skip
def test_what_breaks_a_rule_of_the_format_is_seen(at: int, key: str, value: object) -> None:
    t = trajectory([FIRST, replied(), answered("ok")], "run-1")
    valid(t)
    t["steps"][at][key] = value
    with pytest.raises((AssertionError, ValueError)):
        valid(t)


def turn_of(*ids: str) -> Turn:
    return Turn(tuple(ToolUse(i, "edit", {}) for i in ids), "tool_use", Usage(input=10, output=5))


def test_secrets_of_the_environment_are_scrubbed_on_write_and_nothing_else_is(tmp_path: Path) -> None:
    environ = {
        "SOME_API_KEY": 'a"secret\\value',
        "PATH": "/usr/bin",
        "AUTH": "short",
        "HOME_TOKEN_DIR": "/some/where/long",
        "XAUTHORITY": str(tmp_path),
        "AWS_SECRET_ACCESS_KEY": "/Base64/beginsWithASlash",
    }
    found = {'a"secret\\value': "SOME_API_KEY", "/Base64/beginsWithASlash": "AWS_SECRET_ACCESS_KEY"}
    assert values(environ) == found
    journal = AgentJournal(tmp_path / "j", scrubber(environ))
    written = journal.append(answered("ok", 'printed a"secret\\value and short and sk-abcdefghijklmnop1234'))
    assert isinstance(written, Answered)
    assert written.text == "printed [secret SOME_API_KEY] and short and sk-abcdefghijklmnop1234"
    assert b"secret\\" not in (tmp_path / "j").read_bytes()
    assert "[looks like a secret]" in page([FIRST, replied(), written], 1)
    assert masked("skipping a token") == "skipping a token"


def test_settings_are_a_closed_set_with_suggestions() -> None:
    switches, bounds = read({"window": "30", "lint": "off", "turns": "7", "cost": "1.5"}, SCAFFOLDS["aci"])
    assert (switches.window, switches.lint, bounds.turns) == (30, False, 7)  # type: ignore[union-attr]
    assert [str(m) for m in bounds.limits(2)] == [
        "the task's limit of 7200 s of active time", "the run's limit of 7 turns", "the run's limit of 1.5 US dollars"
    ]  # fmt: skip
    with pytest.raises(UsageError, match=r"--set windw is unknown \(did you mean 'window'\?\)"):
        read({"windw": "30"}, SCAFFOLDS["aci"])
    for key, value in (
        ("window", "many"), ("window", "-1"), ("turns", "-3"), ("cost", "-1"), ("hours", "nan"), ("hours", "inf"),
        ("cut", "0"), ("reminders", "0"), ("search", "on"), ("turns", ""),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=f"--set {key}={value} doesn't fit"):
            read({key: value}, SCAFFOLDS["aci"])
    assert read({"search": "off"}, SCAFFOLDS["aci"])[0].search == "off"  # type: ignore[union-attr]


def test_a_model_is_named_and_its_key_there_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    with pytest.raises(UsageError, match="needs --model"):
        ModelAgent("thin", "", {})
    with pytest.raises(CredentialsMissing):
        ModelAgent("thin", "anthropic/x", {})
    monkeypatch.setenv("ANTHROPIC_API_KEY", "some-key-that-is-set")
    assert ModelAgent("thin", "anthropic/x", {}).name == "thin anthropic/x"
    with pytest.raises(UsageError, match="price"):
        ModelAgent("thin", "anthropic/nothing-of-this-name", {"cost": "5"})


def test_a_chat_servers_model_is_shown_images_where_that_is_set() -> None:
    name = "chat/m@http://127.0.0.1:9/v1"
    assert not ModelAgent("thin", name, {}).open_model().images
    assert ModelAgent("thin", name, {"images": "on"}).open_model().images


def test_a_price_table_of_ones_own_lets_a_limit_on_cost_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "some-key-that-is-set")
    (tmp_path / "p.toml").write_text(
        'version = "7"\ndate = 2026-01-01\n[[model]]\nname = "anthropic/x"\nsource = "s"\nsince = 2026-01-01\n'
        "input = 2\ncache_read = 1\ncache_write = 1\noutput = 10\n"
    )
    agent = ModelAgent("thin", "anthropic/x", {"cost": "5", "prices": str(tmp_path / "p.toml")})
    assert agent.price(Usage(input=1_000_000)) == 2.0
    with pytest.raises(UsageError, match="isn't in"):
        ModelAgent("thin", "anthropic/y", {"cost": "5", "prices": str(tmp_path / "p.toml")})


def test_limits_name_their_owner_and_keep_their_reserve() -> None:
    budget = Budget((Limit("task", "active", 100), Limit("run", "wall", 150, reserve=30)))
    assert budget.reached(Used(wall=119, active=99)) is None
    assert str(budget.reached(Used(wall=120, active=90))) == "the run's limit of 150 s of wall time"
    assert budget.seconds_left(Used(wall=100, active=90)) == 10
    assert budget.seconds_left(Used(wall=115, active=90)) == 5
    assert budget.sentence(Used(active=40)).startswith("0.02 of 0.0277778 hours working time left (task); ")
    assert Budget(()).seconds_left(Used()) == float("inf")


def test_an_attempts_limits_lie_within_the_runs_and_the_agent_isnt_told_of_them() -> None:
    _, bounds = read({"turns": "9", "attempt_turns": "3", "attempt_wall_hours": "2", "reserve_s": "60"}, SCAFFOLDS["thin"])
    budget = Budget(bounds.limits(1), Used(turns=5, wall=7200))
    assert [(m.owner, m.what, m.reserve) for m in budget.limits] == [
        ("task", "active", 0), ("run", "turns", 0), ("attempt", "wall", 60), ("attempt", "turns", 0)
    ]  # fmt: skip
    assert budget.reached(Used(turns=7, wall=7200)) is None
    assert str(budget.reached(Used(turns=8, wall=7200))) == "the attempt's limit of 3 turns"
    assert str(budget.reached(Used(turns=9, wall=7200))) == "the run's limit of 9 turns"
    assert str(budget.reached(Used(turns=6, wall=14341))) == "the attempt's limit of 7200 s of wall time"
    assert "attempt" not in budget.sentence(Used(turns=5))


def test_a_clock_goes_on_where_it_stood_and_leaves_waiting_out() -> None:
    now = [50.0]
    timer = Timer(Clock(1000.0, 100.0), lambda: now[0])
    now[0] = 60.0
    timer.waited(4.0)
    assert timer.clock() == Clock(1010.0, 104.0) and timer.clock().active_s == 906.0
