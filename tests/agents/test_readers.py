"""What is read from a journal: the interface's metrics, the transcript, the ATIF trajectory; and no secret in any."""

from __future__ import annotations

from pathlib import Path

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
    assert len(table(found).splitlines()) == 3 and "no run" in table(())


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


def test_the_trajectory_has_what_atif_requires() -> None:
    entries = [*run("ok", "edited"), Told("go on", "silent", Clock()), Stopped("done", "", Clock())]
    t = trajectory(entries, "run-1")
    assert t["schema_version"] == "ATIF-v1.4" and t["session_id"] == "run-1" and t["agent"]["version"] == "1"
    assert [s["step_id"] for s in t["steps"]] == [1, 2, 3, 4, 5]
    assert [s["source"] for s in t["steps"]] == ["system", "user", "agent", "agent", "user"]
    step = t["steps"][2]
    assert step["tool_calls"][0] == {"tool_call_id": "id1", "function_name": "edit", "arguments": {"path": "/a"}}
    assert step["observation"]["results"][0]["source_call_id"] == "id1" and step["reasoning_content"] == "deep"
    assert step["metrics"] == {"prompt_tokens": 40, "completion_tokens": 7, "cached_tokens": 30, "cost_usd": 0.5}
    assert t["final_metrics"]["total_prompt_tokens"] == 80 and t["final_metrics"]["total_steps"] == 5
    assert step["timestamp"] == "2023-11-14T22:13:30.000Z"
    msgspec.json.encode(t)


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
