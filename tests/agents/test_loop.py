"""The loop on a scaffold without a sandbox: what comes next, when it ends, what is folded, and that a restart at any
record changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from refactorbench.agents.act import Act
from refactorbench.agents.budget import Budget, Limit, Timer, used
from refactorbench.agents.checkpoint import Checkpoints
from refactorbench.agents.conversation import Malformed, Texts, conversation, fold
from refactorbench.agents.loop import REASON, AttemptOver, Loop
from refactorbench.agents.records import AgentJournal, Answered, Clock, Entry, Folded, Replied, Started, Told
from refactorbench.agents.shell import ShellState
from refactorbench.errors import HarnessError
from refactorbench.llm.protocol import (
    ContextOverflow,
    Image,
    Message,
    ProviderError,
    Text,
    ToolResult,
    ToolSpec,
    ToolUse,
    Turn,
    Usage,
)
from refactorbench.llm.retry import ManualClock, Request, RetriedModel

Reply = Turn | Exception


def turn(*calls: str, text: str = "", stop: str = "", **more: object) -> Turn:
    """A reply that calls `do` once per word."""
    uses = tuple(ToolUse(f"c{n}", "do", {"what": c}) for n, c in enumerate(calls))
    blocks = ((Text(text),) if text else ()) + uses
    return Turn(blocks, stop or ("tool_use" if calls else "end"), Usage(input=10, output=5), **more)  # type: ignore[arg-type]


class Model:
    """Plays replies by how many the conversation has seen; keeps what it was asked."""

    name, images = "played", False

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.replies, self.asked = list(replies), list[tuple[Message, ...]]()
        self.waits: list[float] = []

    def turn(
        self, system: str, messages: Sequence[Message], tools: Sequence[ToolSpec], *, max_tokens: int,
        deadline: float | None = None, on_wait: Callable[[float], None] | None = None, attempt_s: float | None = None,
    ) -> Turn:  # fmt: skip
        self.asked.append(tuple(messages))
        if self.waits and on_wait:
            on_wait(self.waits.pop(0))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


class Scaffold:
    name, system, tools, max_tokens = "fake", "system", (), 1000

    def __init__(self, texts: Texts = Texts("go on", "cut{what}"), **more: object) -> None:  # noqa: B008
        self.texts, self.keep_last, self.fold_at, self.folds, self.actions = texts, 0, 0, True, 0
        self.done: list[str] = []
        self.tick: Callable[[], None] = lambda: None
        for key, value in more.items():
            setattr(self, key, value)

    def calls(self, turn: Turn) -> tuple[ToolUse, ...]:
        if "gibberish" in turn.text:
            raise Malformed("write it so")
        return turn.tool_uses

    def act(self, call: ToolUse, limit_s: float) -> Act:
        self.done.append(call.input["what"])
        self.tick()
        return Act(f"did {call.input['what']}", "final" if call.input["what"] == "submit" else "ok")

    def shell_state(self) -> ShellState:
        return ShellState(calls=len(self.done))

    def interface(self) -> Mapping[str, str | int]:
        return {"n": len(self.done)}


class Bench:
    def __init__(self, folder: Path) -> None:
        (folder / "tree").mkdir(exist_ok=True)
        self.folder, self.now = folder, 100.0
        self.checkpoints = Checkpoints(folder / "kept", {"tree": folder / "tree"})

    def loop(self, model: Model, scaffold: Scaffold, limits: Sequence[Limit] = ()) -> Loop:
        journal = AgentJournal(self.folder / "journal.jsonl")
        if not journal.entries:
            journal.append(Started("fake", "played", "t", "1", {}, "system", "begin", self.checkpoints.take(), 0.0))
        before = next((e.clock for e in reversed(journal.entries) if isinstance(e, Replied | Answered | Told)), Clock())
        timer = Timer(before, lambda: self.now)
        budget = Budget(limits, used(journal.entries, timer.clock()))
        return Loop(scaffold, model, journal, self.checkpoints, budget, timer, lambda u: 0.5, lambda _: None)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_it_goes_on_until_the_agent_says_that_it_is_done(bench: Bench) -> None:
    model, scaffold = Model([turn("a", "b"), turn("submit", "c")]), Scaffold()
    assert bench.loop(model, scaffold).run().reason == "done"
    assert scaffold.done == ["a", "b", "submit"]
    results = [b for b in model.asked[1][-1].blocks if isinstance(b, ToolResult)]
    assert [r.id for r in results] == ["c0", "c1"] and results[0].content == (Text("did a"),)


def test_the_end_of_a_turn_is_not_the_end_and_work_rearms_the_reminder(bench: Bench) -> None:
    quiet = turn(text="I think")
    model, scaffold = Model([quiet, quiet, turn("a"), quiet, quiet, turn("submit")]), Scaffold()
    assert bench.loop(model, scaffold).run().reason == "done"
    assert model.asked[1][-1] == Message("user", (Text("go on"),))


def test_three_turns_in_a_row_without_an_action_are_idle(bench: Bench) -> None:
    model = Model([turn("a")] + [turn(text="I think")] * 9)
    stopped = bench.loop(model, Scaffold()).run()
    assert (stopped.reason, len(model.asked)) == ("idle", 4)


def test_three_malformed_replies_in_a_row_end_it_and_two_do_not(bench: Bench) -> None:
    bad = turn(text="gibberish")
    model = Model([bad, bad, turn("a"), bad, bad, bad, turn("submit")])
    stopped = bench.loop(model, Scaffold()).run()
    assert (stopped.reason, len(model.asked)) == ("format", 6)
    assert model.asked[1][-1].blocks == (Text("write it so"),)


def test_a_reply_that_was_cut_says_so_and_a_paused_one_goes_back_as_it_is(bench: Bench) -> None:
    model = Model([
        turn(text="half", stop="max_tokens", cut_call="do"), turn(text="wait", stop="pause"), turn("submit"),
    ])  # fmt: skip
    assert bench.loop(model, Scaffold()).run().reason == "done"
    assert "cut in a call of do" in model.asked[1][-1].blocks[0].text  # type: ignore[union-attr]
    assert model.asked[2][-1].role == "assistant"


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        (Limit("run", "turns", 2), "turns"), (Limit("run", "tokens", 30), "tokens"), (Limit("run", "cost", 1.0), "cost"),
        (Limit("task", "active", 20), "time"), (Limit("run", "wall", 30, reserve=10), "time"),
    ],
)  # fmt: skip
def test_limits_end_it_before_the_next_turn_and_name_their_owner(bench: Bench, limit: Limit, reason: str) -> None:
    scaffold = Scaffold()

    def tick() -> None:
        bench.now += 10

    scaffold.tick = tick
    model = Model([turn("x")] * 9)
    loose = Limit("attempt", limit.what, 1e9)
    stopped = bench.loop(model, scaffold, (loose, limit)).run()
    assert (stopped.reason, len(model.asked)) == (reason, 2) and stopped.reason in REASON
    assert f"the {limit.owner}'s limit" in stopped.note


@pytest.mark.parametrize(
    "limit",
    [
        Limit("attempt", "turns", 2), Limit("attempt", "tokens", 30), Limit("attempt", "cost", 1.0),
        Limit("attempt", "active", 20), Limit("attempt", "wall", 30, reserve=10),
    ],
)  # fmt: skip
def test_an_attempts_limit_ends_no_run_and_counts_from_the_attempts_start(bench: Bench, limit: Limit) -> None:
    replies = [*[turn("x")] * 4, turn("submit")]
    model, scaffold = Model(replies), Scaffold()

    def tick() -> None:
        bench.now += 10

    scaffold.tick = tick
    for asked in (2, 4):
        with pytest.raises(AttemptOver, match=r"the attempt's limit of .* the run is not over: --resume goes on"):
            bench.loop(model, scaffold, (limit,)).run()
        assert len(model.asked) == asked
    assert bench.loop(model, scaffold, (limit,)).run().reason == "done" and len(scaffold.done) == 5
    (bench.folder / "journal.jsonl").unlink()
    with_run = (limit, Limit("run", limit.what, 3 * limit.most))
    with pytest.raises(AttemptOver):  # of two limits the nearer one ends it
        bench.loop(Model(replies), scaffold, with_run).run()


@pytest.mark.parametrize("what", ["turns", "tokens", "cost"])
def test_what_the_last_reply_that_was_paid_asks_for_is_still_done(bench: Bench, what: str) -> None:
    limit = Limit("run", what, {"turns": 2, "tokens": 30, "cost": 1.0}[what])  # type: ignore[arg-type]
    scaffold = Scaffold()
    assert bench.loop(Model([turn("a"), turn("b", "submit")]), scaffold, (limit,)).run().reason == "done"
    assert scaffold.done == ["a", "b", "submit"]


def test_one_action_a_turn_answers_the_other_calls_and_does_none_of_them(bench: Bench) -> None:
    model, scaffold = Model([turn("a", "submit", "c"), turn("submit")]), Scaffold(actions=1)
    assert bench.loop(model, scaffold).run().reason == "done" and scaffold.done == ["a", "submit"]
    results = [b for b in model.asked[1][-1].blocks if isinstance(b, ToolResult)]
    assert [(r.id, r.is_error) for r in results] == [("c0", False), ("c1", True), ("c2", True)]
    assert all("Not done: 1 of a turn's calls" in str(r.content) for r in results[1:])
    (bench.folder / "journal.jsonl").unlink()
    two = Scaffold(actions=2)
    assert bench.loop(Model([turn("a", "b", "c"), turn("submit")]), two).run().reason == "done"
    assert two.done == ["a", "b", "submit"]


def test_waiting_for_a_provider_is_no_working_time(bench: Bench) -> None:
    model = Model([turn("a"), turn("submit")])
    model.waits = [500.0]
    real = model.turn

    def slow(*args: object, **more: object) -> Turn:
        bench.now += 500 if len(model.asked) == 0 else 0
        return real(*args, **more)  # type: ignore[arg-type]

    model.turn = slow  # type: ignore[method-assign, assignment]
    assert bench.loop(model, Scaffold(), (Limit("task", "active", 60),)).run().reason == "done"


class Provider:
    """Answers after `busy_s`; until then it asks to wait for `wait_s`."""

    name, images = "busy", False

    def __init__(self, clock: ManualClock, busy_s: float, wait_s: float, takes_s: float = 0.0) -> None:
        self.clock, self.ready, self.attempts = clock, clock.now() + busy_s, 0
        self.wait_s, self.takes_s = wait_s, takes_s

    def attempt(self, request: Request, left_s: float | None) -> Turn:
        self.attempts += 1
        assert self.attempts < 20
        if self.clock.now() < self.ready:
            raise ProviderError("busy", kind="rate_limit", retryable=True, retry_after=self.wait_s, status=429)
        if left_s is not None and self.takes_s >= left_s:
            self.clock.sleep(left_s)
            raise ProviderError("cut off", kind="deadline", retryable=True)
        self.clock.sleep(self.takes_s)
        return turn("submit")


@pytest.mark.parametrize(
    ("what", "takes_s", "reason", "attempts"),
    [("active", 0.0, "done", 3), ("active", 400.0, "time", 3), ("wall", 0.0, "time", 1)],
)
def test_a_wait_longer_than_the_working_time_left_is_waited_for_and_one_beyond_the_wall_ends_it(
    bench: Bench, what: str, takes_s: float, reason: str, attempts: int
) -> None:
    clock = ManualClock()
    provider = Provider(clock, busy_s=600, wait_s=400, takes_s=takes_s)
    loop = bench.loop(Model([]), Scaffold(), (Limit("task", what, 300),))  # type: ignore[arg-type]
    loop.model, loop.timer = RetriedModel(provider, clock=clock), Timer(now=clock.now)
    stopped = loop.run()
    assert (stopped.reason, provider.attempts) == (reason, attempts)
    assert reason == "done" or "the task's limit of 300 s" in stopped.note


def test_an_overflow_is_folded_and_never_asked_again_as_it_was(bench: Bench) -> None:
    full = ContextOverflow("too long")
    model = Model([turn("a"), turn("b"), turn("c"), turn("d"), full, turn("submit")])
    assert bench.loop(model, Scaffold()).run().reason == "done"
    assert model.asked[4] != model.asked[5]
    assert "left out to save space" in str(model.asked[5]) and "left out" not in str(model.asked[4])


def test_what_cannot_be_folded_ends_it(bench: Bench) -> None:
    replies: list[Reply] = [turn("a"), turn("b"), *[ContextOverflow("too long")] * 9]
    model = Model(replies)
    assert bench.loop(model, Scaffold()).run().reason == "context"
    assert len(set(map(str, model.asked))) == len(model.asked)
    other = Model([turn("a"), *[turn("b")] * 8, ContextOverflow("x"), turn("submit")])
    (bench.folder / "journal.jsonl").unlink()
    assert bench.loop(other, Scaffold(folds=False)).run().reason == "context"


def test_many_folds_in_a_row_come_to_an_end_and_keep_calls_with_their_results(bench: Bench) -> None:
    model = Model([*[turn("x" * 50)] * 20, *[ContextOverflow("too long")] * 30])
    assert bench.loop(model, Scaffold()).run().reason == "context"
    for messages in model.asked:
        called = [b.id for m in messages for b in m.blocks if isinstance(b, ToolUse)]
        answered = [b.id for m in messages for b in m.blocks if isinstance(b, ToolResult)]
        assert called == answered and messages[0].role == "user"
    assert "actions that you took before" in str(model.asked[-1])


def test_a_providers_fault_is_raised_and_the_run_can_go_on(bench: Bench) -> None:
    with pytest.raises(ProviderError):
        bench.loop(Model([turn("a"), ProviderError("down", kind="server")]), Scaffold()).run()
    scaffold = Scaffold()
    assert bench.loop(Model([turn("submit")]), scaffold).run().reason == "done"
    assert scaffold.done == ["submit"]


def test_a_picture_that_is_refused_is_left_out_and_any_other_refusal_is_the_providers(bench: Bench) -> None:
    class Showing(Scaffold):
        def act(self, call: ToolUse, limit_s: float) -> Act:
            found = super().act(call, limit_s)
            return msgspec.structs.replace(found, images=(Image("image/png", "AAAA"),) if call.input["what"] == "a" else ())

    refused = ProviderError("could not process image", kind="bad_request", status=400)
    model = Model([turn("a"), refused, turn("submit")])
    assert bench.loop(model, Showing()).run().reason == "done"
    assert "AAAA" in str(model.asked[1]) and "AAAA" not in str(model.asked[2])
    (bench.folder / "journal.jsonl").unlink()
    with pytest.raises(ProviderError):
        bench.loop(Model([turn("b"), refused]), Showing()).run()


def test_only_the_last_five_observations_stay_whole() -> None:
    entries: list[Entry] = [Started("f", "m", "t", "1", {}, "s", "begin", "", 0.0)]
    for n in range(8):
        call = ToolUse("", "do", {"what": str(n)})
        entries += [
            Replied(turn(text=f"think {n}"), Clock()),
            Answered(call, f"saw {n}", "ok", Clock(), "", ShellState()),
        ]
    seen = [m.blocks[0].text for m in conversation(entries, 5) if m.role == "user"][1:]  # type: ignore[union-attr]
    assert [s.startswith("saw") for s in seen] == [False] * 3 + [True] * 5
    assert all("saw" in m.blocks[0].text for m in conversation(entries)[2::2])  # type: ignore[union-attr]


def test_half_of_the_observations_is_folded_by_size() -> None:
    entries: list[Entry] = [Started("f", "m", "t", "1", {}, "s", "begin", "", 0.0)]
    for size in (10, 10, 1000, 10, 10, 10):
        call = ToolUse("c", "do", {})
        entries += [Replied(turn("x"), Clock()), Answered(call, "x" * size, "ok", Clock(), "", ShellState())]
    folded = fold(entries)
    assert folded == Folded(7, 1020, "observations")
    assert fold(entries[:1]) is None


REPLIES = [turn("a", "b"), turn(text="I think"), turn("c"), turn(text="gibberish"), turn("d", "e"), turn("submit")]


@pytest.mark.parametrize("after", range(1, 16))
def test_a_run_that_ended_at_any_record_goes_on_as_if_it_had_not(tmp_path: Path, after: int) -> None:
    (tmp_path / "cut").mkdir()
    cut, model, scaffold = Bench(tmp_path / "cut"), Model(REPLIES), Scaffold()
    Bench(tmp_path).loop(model, scaffold).run()
    lines = (tmp_path / "journal.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) == 16
    (tmp_path / "cut" / "journal.jsonl").write_bytes(b"".join(lines[:after]) + lines[after][:7])
    played = sum(b'"type":"replied"' in line for line in lines[:after])
    answered = sum(b'"type":"answered"' in line for line in lines[:after])
    again = Scaffold()
    again.done = scaffold.done[:answered]
    cut.loop(Model(REPLIES[played:]), again).run()
    assert again.done == scaffold.done
    assert [strip(e) for e in AgentJournal(tmp_path / "cut" / "journal.jsonl").entries] == [
        strip(e) for e in AgentJournal(tmp_path / "journal.jsonl").entries
    ]


def strip(entry: Entry) -> Entry:
    if isinstance(entry, Started):
        return msgspec.structs.replace(entry, checkpoint="")
    if isinstance(entry, Answered):
        return msgspec.structs.replace(entry, clock=Clock(), checkpoint="")
    return msgspec.structs.replace(entry, clock=Clock()) if hasattr(entry, "clock") else entry


def test_a_journal_that_cannot_be_written_is_the_machines_fault(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = bench.loop(Model([turn("a")]), Scaffold())

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("refactorbench.agents.records.os.fsync", fail)
    with pytest.raises(HarnessError, match="No space left"):
        loop.run()
    monkeypatch.undo()
    assert len(AgentJournal(bench.folder / "journal.jsonl").entries) == 1
