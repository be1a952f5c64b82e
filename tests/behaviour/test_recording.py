from collections import Counter
from pathlib import Path

import msgspec
import pytest
from scripted import LIMITS, Answer, Opened, broken, echo, make_check, make_task, modules, seen

from refactorbench.behaviour.recording import Pass, Recorded, halved, record, refusal, store
from refactorbench.catalog.recordings import load_recording
from refactorbench.errors import HarnessError, TaskError
from refactorbench.observe.model import Check, Observation, OutputFile
from refactorbench.sandbox.protocol import Limits

CHECKS = modules(m=12, n=4)


def three(*answers: Answer) -> dict[str, Pass]:
    names = ("plain", "reversed", "other-build", "loaded")
    orders = ("given", "reversed", "shuffled", "shuffled")
    return {
        n: Pass(Opened(a), o, jobs)  # type: ignore[arg-type]
        for n, a, o, jobs in zip(names, answers, orders, (1, 1, 1, 2), strict=False)
    }


def run(*answers: Answer, checks: list[Check] = CHECKS, rules: tuple[str, ...] = ()) -> Recorded:
    return record(checks, three(*answers), limits=LIMITS, seed=1, allowed_rules=rules)


def except_for(id_: str, answer: Answer) -> Answer:
    return lambda c: answer(c) if c.id == id_ else echo(c)


def test_what_agrees_is_recorded_in_the_order_of_the_checks() -> None:
    ticks: list[tuple[int, int]] = []
    passes = three(echo, echo, echo, echo)
    recorded = record(CHECKS, passes, limits=LIMITS, seed=1, on_progress=lambda d, t: ticks.append((d, t)))
    assert recorded.rows == tuple((c, echo(c)) for c in CHECKS)
    assert recorded.dropped == {} and recorded.passes == ("plain", "reversed", "other-build", "loaded")
    assert ticks[-1] == (64, 64)


def test_each_pass_has_its_order_and_asks_everything_once() -> None:
    passes = three(echo, echo, echo)
    record(CHECKS, passes, limits=LIMITS, seed=1)
    ids = [c.id for c in CHECKS]
    asked = [p.open_worker.asked for p in passes.values()]  # type: ignore[attr-defined]
    assert asked[0] == ids and asked[1] == ids[::-1] and asked[2] not in (ids, ids[::-1])
    assert all(Counter(a) == Counter(ids) for a in asked)


def test_what_moves_is_dropped_with_dimension_and_passes() -> None:
    clock = iter(range(100))
    recorded = run(*[except_for("m/0003", lambda c: seen(b"%d" % next(clock), stderr=b"%d" % next(clock)))] * 3)
    assert recorded.dropped == {"m/0003": "moves in stderr, stdout under reversed, other-build"}
    assert len(recorded.rows) == 15 and "m/0003" not in {c.id for c, _ in recorded.rows}


def test_one_deviating_build_is_enough_to_drop() -> None:
    recorded = run(echo, echo, except_for("m/0003", lambda c: seen(b"sanitizer")))
    assert recorded.dropped == {"m/0003": "moves in stdout under other-build"}


def test_a_rule_is_put_on_a_check_only_when_it_is_allowed_and_makes_all_passes_agree() -> None:
    def at(n: int) -> Answer:
        return except_for("m/0003", lambda c: seen(b"at 0x%08x" % n))

    moving = (at(1), at(2), at(3))
    assert run(*moving).dropped and run(*moving, rules=("mtime-any",)).dropped
    recorded = run(*moving, rules=("mtime-any", "printed-addresses"))
    assert recorded.dropped == {}
    assert {c.id: c.rules for c, _ in recorded.rows if c.rules} == {"m/0003": ("printed-addresses",)}
    spoilt = (at(1), at(2), except_for("m/0003", lambda c: seen(b"no address")))
    assert run(*spoilt, rules=("printed-addresses",)).dropped


@pytest.mark.parametrize(
    ("observation", "reason"),
    [
        (seen(wall_ms=1001), "1001 ms, more than a tenth"),
        (seen(ended="limit", limit="wall"), "ended by limit wall"),
        (seen(ended="launch"), "ended by launch"),
        (seen(bytes(1025 << 10)), "stdout: 1049600 bytes, more than half of the limit of 2 MiB"),
        (seen(stderr=bytes(1025 << 10)), "stderr"),
        (seen(files=(OutputFile(b"f", "file", 0o644, 1, bytes(1025 << 10)),)), "file b'f'"),
        (seen(files=tuple(OutputFile(b"%d" % i, "file", 0o644, 1, bytes(600 << 10)) for i in range(3))), "files: "),
    ],
)
def test_state_a_must_stay_far_from_the_limits(observation: Observation, reason: str) -> None:
    limits = Limits(wall_s=10, output_mb=2, file_mb=2, disk_mb=3)
    answer = except_for("m/0003", lambda c: observation)
    recorded = record(CHECKS, three(answer, answer, answer), limits=limits, seed=1)
    assert list(recorded.dropped) == ["m/0003"] and reason in recorded.dropped["m/0003"]


def test_at_the_bar_is_within_it() -> None:
    limits = Limits(wall_s=10, output_mb=2)
    edge = seen(bytes(1 << 20), wall_ms=1000)
    assert refusal(edge, limits) == ""
    assert record(CHECKS, three(lambda c: edge, lambda c: edge, lambda c: edge), limits=limits, seed=1).dropped == {}


def test_one_slow_moment_of_three_drops_nothing() -> None:
    slow = except_for("m/0003", lambda c: msgspec.structs.replace(echo(c), wall_ms=5000))
    assert run(slow, echo, echo).dropped == {}
    assert run(slow, slow, echo).dropped.keys() == {"m/0003"}


def test_halved_limits_leave_time_and_output_alone() -> None:
    assert halved(Limits()) == Limits(memory_mb=256, processes=32, file_mb=32, disk_mb=64)


def test_two_passes_unknown_rules_and_doubled_ids_are_refused() -> None:
    with pytest.raises(TaskError, match="give 3 or more"):
        run(echo, echo)
    with pytest.raises(TaskError, match="did you mean 'mtime-any'"):
        run(echo, echo, echo, rules=("mtime-ani",))
    with pytest.raises(TaskError, match="'m/0003' is generated twice"):
        run(echo, echo, echo, checks=[*CHECKS, CHECKS[3]])


def test_a_module_is_never_lost_silently() -> None:
    def launch(check: Check) -> Observation:
        return seen(ended="launch", limit="Permission denied") if check.module == "n" else echo(check)

    with pytest.raises(
        TaskError, match=r"module 'n': every check is dropped, the first one .n/0000. because: State A ended"
    ):
        run(launch, launch, launch)
    assert len(run(*[except_for("n/0000", launch)] * 3).dropped) == 1


def test_a_broken_sandbox_ends_the_recording() -> None:
    with pytest.raises(HarnessError, match="gone"):
        run(echo, echo, broken)


def test_what_is_stored_is_loaded_with_its_passes_drops_and_rules(tmp_path: Path) -> None:
    loaded = make_task(tmp_path)
    checks = [*CHECKS, make_check("n/ruled", rules=("mtime-any",))]
    moving = iter(range(9))
    recorded = run(*[except_for("m/0003", lambda c: seen(b"%d" % next(moving)))] * 3, checks=checks)
    store(loaded, recorded, executor="1", seed=1, coverage={"total": 0.9})
    recording = load_recording(loaded)
    m = recording.manifest
    assert recording.total == 16 and m.dropped.keys() == {"m/0003"} and m.rules == {"mtime-any": 1}
    assert m.passes == recorded.passes and m.coverage == {"total": 0.9} and m.seed == 1
