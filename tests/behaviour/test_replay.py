import random
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from scripted import Answer, Opened, broken, echo, make_check, make_recording, modules, seen, wrong

from refactorbench.behaviour.model import Selection, Unit, UnitResult
from refactorbench.behaviour.replay import combine, replay, replay_unit, units
from refactorbench.behaviour.rerun import EARLY, EARLY_AFTER, ROUND
from refactorbench.errors import HarnessError
from refactorbench.observe.model import Check, Observation
from refactorbench.outcome import Owner, Status
from refactorbench.scoring import score

PASSED_ONE = (1, "all 7 required criteria passed")


def failing(*ids: str, answer: Answer = wrong) -> Answer:
    return lambda check: answer(check) if check.id in ids else echo(check)


def flaky(rate: float, seed: int) -> Answer:
    rng = random.Random(seed)
    return lambda check: wrong(check) if rng.random() < rate else echo(check)


def test_state_a_against_itself_passes_everything_and_the_reference_stays_closed(tmp_path: Path) -> None:
    recording = make_recording(tmp_path, modules(m=30, n=12))
    submission, reference = Opened(echo), Opened(echo)
    result = replay(recording, submission, reference, jobs=2, size=10)
    assert [(m.id, m.recorded, m.expected, m.passed, m.rate) for m in result.modules] == [
        ("m", 30, 30, 30, 1.0),
        ("n", 12, 12, 12, 1.0),
    ]
    assert result.results == () and result.verdict() == (True, "all 42 recorded checks passed")
    assert Counter(submission.asked) == Counter(c.id for c in modules(m=30, n=12))
    assert submission.opened == submission.closed <= 2 * 5 and reference.opened == 0


def test_a_steady_difference_is_a_confirmed_fail_with_its_explanation(tmp_path: Path) -> None:
    recording = make_recording(tmp_path, modules(m=30))
    told: list[str] = []
    ticks: list[tuple[int, int]] = []
    result = replay(
        recording,
        Opened(failing("m/0007")),
        Opened(echo),
        sink=lambda r: told.append(r.id),
        on_progress=lambda d, t: ticks.append((d, t)),
    )
    (row,) = result.results
    assert (row.id, row.outcome.status, row.reruns, row.signature) == ("m/0007", Status.FAIL, ROUND, "stdout:changed")
    assert "- line 1 | tool m/0007" in row.difference and "+ line 1 | wrong" in row.difference
    assert told == ["m/0007"] and ticks[-1] == (30, 30) and len(ticks) == 30
    assert result.verdict()[0] is False and result.passed == 29 and result.missing_to_full == 1


def test_a_killed_module_is_not_complete(tmp_path: Path) -> None:
    recording = make_recording(tmp_path, modules(m=30, n=10))
    done = [replay_unit(recording, u, Opened(echo), Opened(echo)) for u in units(recording, 10)]
    assert combine(done, recording, size=10).verdict()[0] is True
    cut = combine(done[:-2], recording, size=10)
    assert [(m.expected, m.passed, m.not_run) for m in cut.modules] == [(30, 20, 10), (10, 0, 10)]
    assert {r.outcome.status for r in cut.results} == {Status.NOT_RUN}
    assert [r.id for r in cut.results][:2] == ["m/0020", "m/0021"]
    assert cut.verdict() == (None, "20 of 40 recorded checks have no verdict")
    assert score(PASSED_ONE, cut.verdict(), None).value is None


def test_units_in_any_order_and_through_json_combine_to_the_same(tmp_path: Path) -> None:
    recording = make_recording(tmp_path, modules(m=30, n=10))
    submission = failing("m/0001", "m/0020", "n/0003")
    done = [replay_unit(recording, u, Opened(submission), Opened(echo)) for u in units(recording, 10)]
    stored = [msgspec.json.decode(msgspec.json.encode(r), type=UnitResult) for r in reversed(done)]
    assert combine(stored, recording, size=10) == combine(done, recording, size=10)
    assert combine(done, recording, size=10) == replay(recording, Opened(submission), Opened(echo), size=10)


def test_results_of_another_recording_selection_or_size_are_refused(tmp_path: Path) -> None:
    recording = make_recording(tmp_path / "1", modules(m=20))
    other = make_recording(tmp_path / "2", modules(m=20), lambda c: seen(b"other"))
    done = [replay_unit(recording, u, Opened(echo), Opened(echo)) for u in units(recording, 10)]
    assert combine(done, recording, size=10).passed == 20
    for case in (
        lambda: combine(done, other, size=10),
        lambda: combine(done, recording, Selection(2, 1), size=10),
        lambda: combine(done, recording, size=20),
        lambda: combine(done[:1], recording, size=5),
        lambda: combine([done[0], done[0]], recording, size=10),
        lambda: combine([msgspec.structs.replace(done[0], passed=9)], recording, size=10),
        lambda: combine([msgspec.structs.replace(done[0], expected=9)], recording, size=10),
        lambda: combine([msgspec.structs.replace(done[0], unit=Unit("m", 9, 90, 100))], recording, size=10),
        lambda: combine([msgspec.structs.replace(done[0], unit=Unit("m", 0, 0, 9))], recording, size=10),
    ):
        with pytest.raises(HarnessError, match="start the run anew"):
            case()


def test_a_forged_result_for_an_unknown_or_doubled_id_is_refused(tmp_path: Path) -> None:
    recording = make_recording(tmp_path, modules(m=10))
    (unit,) = units(recording)
    done = replay_unit(recording, unit, Opened(failing("m/0001")), Opened(echo))
    assert combine([done], recording).passed == 9
    stranger = msgspec.structs.replace(done.results[0], id="m/9999")
    for results, passed in (((stranger,), 9), ((done.results[0], done.results[0]), 8)):
        with pytest.raises(HarnessError, match="doesn't belong"):
            combine([msgspec.structs.replace(done, results=results, passed=passed)], recording)


def test_a_selection_is_seeded_takes_about_its_share_and_something_of_every_module(tmp_path: Path) -> None:
    recording = make_recording(tmp_path, modules(m=600, small=3))
    asked = []
    for seed in (1, 1, 2):
        submission = Opened(echo)
        result = replay(recording, submission, Opened(echo), selection=Selection(10, seed), size=100)
        asked.append(submission.asked)
        assert result.verdict()[0] is True
        assert result.modules[0].recorded == 600 and 35 <= result.modules[0].expected <= 90
        assert result.modules[1].expected >= 1
        assert result.expected == len(submission.asked)
    assert asked[0] == asked[1] != asked[2]


def test_what_a_rule_forgave_is_counted_once_per_difference(tmp_path: Path) -> None:
    checks = [make_check(f"m/{i}", rules=("printed-addresses",)) for i in range(5)] + [make_check("m/plain")]

    def at(address: bytes, broken_id: str = "") -> Answer:
        return lambda c: seen(b"at 0x" + address if c.rules and c.id != broken_id else b"plain")

    recording = make_recording(tmp_path, checks, at(b"aaaaaaaa"))
    result = replay(recording, Opened(at(b"bbbbbbbb")), Opened(at(b"cccccccc")))
    assert result.verdict()[0] is True and result.forgiven == {"printed-addresses": 5}
    assert replay(recording, Opened(at(b"aaaaaaaa")), Opened(echo)).forgiven == {"printed-addresses": 0}
    assert replay(recording, Opened(at(b"bbbbbbbb", "m/2")), Opened(at(b"c" * 8))).passed == 5


def test_full_confirmation_shortens_only_after_ten_in_the_module(tmp_path: Path) -> None:
    recording = make_recording(tmp_path, modules(m=40, n=12))
    results = {jobs: replay(recording, Opened(wrong), Opened(echo), jobs=jobs, size=15) for jobs in (1, 3)}
    assert results[1] == results[3]
    for module in ("m", "n"):
        reruns = [r.reruns for r in results[1].results if r.module == module]
        assert reruns == [ROUND] * EARLY_AFTER + [EARLY] * (len(reruns) - EARLY_AFTER)
    assert results[1].passed == 0 and {r.outcome.status for r in results[1].results} == {Status.FAIL}


def test_a_check_that_passes_once_is_never_shortened_into_a_fail(tmp_path: Path) -> None:
    recording = make_recording(tmp_path, modules(m=20))
    turns = Counter[str]()

    def alternating(check: Check) -> Observation:
        turns[check.id] += 1
        return echo(check) if check.id == "m/0019" and turns[check.id] == 4 else wrong(check)

    last = replay(recording, Opened(alternating), Opened(echo)).results[-1]
    assert (last.id, last.outcome.status, last.reruns) == ("m/0019", Status.NONDETERMINISTIC, ROUND)


def test_only_the_first_explanations_of_a_module_are_kept_but_the_sink_gets_all(tmp_path: Path) -> None:
    recording = make_recording(tmp_path, modules(m=60))
    told: list[str] = []
    result = replay(recording, Opened(wrong), Opened(echo), sink=lambda r: told.append(r.difference))
    assert len([d for d in told if d]) == 60
    assert [bool(r.difference) for r in result.results] == [True] * 20 + [False] * 40


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_a_flaky_submission_fails_or_is_unscored_and_never_passes_quietly(tmp_path: Path, rate: float) -> None:
    recording = make_recording(tmp_path, modules(m=400))
    result = replay(recording, Opened(flaky(rate, 3)), Opened(echo))
    (m,) = result.modules
    q = 1 - rate
    mismatches = m.nondeterministic + m.unreproduced
    assert abs(mismatches - 400 * rate) < 4 * (400 * rate * q) ** 0.5
    assert abs(m.unreproduced - mismatches * (q**20 + 20 * rate * q**39)) < 8
    assert m.failed == 0 and m.passed == 400 - m.nondeterministic
    assert result.verdict()[0] is False


def once_each(*ids: str) -> Answer:
    left = set(ids)

    def answer(check: Check) -> Observation:
        if check.id in left:
            left.remove(check.id)
            return wrong(check)
        return echo(check)

    return answer


@pytest.mark.parametrize(("times", "complete"), [(3, True), (4, None)])
def test_three_unreproduced_differences_are_forgiven_and_four_make_the_run_unscored(
    tmp_path: Path, times: int, complete: bool | None
) -> None:
    recording = make_recording(tmp_path, modules(m=20, n=20))
    ids = ["m/0001", "n/0002", "m/0003", "n/0004"][:times]
    result = replay(recording, Opened(once_each(*ids)), Opened(echo))
    assert result.verdict()[0] is complete
    assert result.unreproduced == times and result.passed == 40
    assert {(r.outcome.status, r.flag, r.reruns) for r in result.results} == {(Status.PASS, "unreproduced", ROUND)}
    assert (score(PASSED_ONE, result.verdict(), None).all_checks) is complete


def test_unreproduced_differences_hide_no_confirmed_fail(tmp_path: Path) -> None:
    recording = make_recording(tmp_path, modules(m=20))
    steady = failing("m/0009")
    shaky = once_each("m/0001", "m/0002", "m/0003", "m/0004")
    both = Opened(lambda c: steady(c) if c.id == "m/0009" else shaky(c))
    assert replay(recording, both, Opened(echo)).verdict()[0] is False


def test_an_unsteady_state_a_quarantines_the_check_and_the_run_is_unscored(tmp_path: Path) -> None:
    recording = make_recording(tmp_path, modules(m=20))
    result = replay(recording, Opened(failing("m/0001")), Opened(flaky(0.5, 5)))
    (row,) = result.results
    assert (row.outcome.status, row.outcome.owner, row.flag) == (Status.ERROR, Owner.HARNESS, "quarantined")
    assert result.modules[0].quarantined == 1 and result.verdict()[0] is None
    assert replay(recording, Opened(failing("m/0001")), Opened(echo)).verdict()[0] is False  # its negative control


def test_a_broken_sandbox_is_retried_once_and_then_an_error_of_the_harness(tmp_path: Path) -> None:
    recording = make_recording(tmp_path, modules(m=5))
    assert replay(recording, Opened(broken, echo), Opened(echo)).verdict()[0] is True

    def one_breaks(check: Check) -> Observation:
        return broken(check) if check.id == "m/0002" else echo(check)

    submission = Opened(one_breaks)
    result = replay(recording, submission, Opened(echo))
    assert submission.asked.count("m/0002") == 2 and submission.opened == submission.closed
    (row,) = result.results
    assert (row.id, row.outcome.owner) == ("m/0002", Owner.HARNESS)
    assert result.modules[0].errors == 1 and result.verdict()[0] is None
    (unit,) = units(recording)
    assert replay_unit(recording, unit, Opened(one_breaks), Opened(echo)).open == 1


def test_a_reference_that_breaks_while_re_running_leaves_no_evidence(tmp_path: Path) -> None:
    recording = make_recording(tmp_path, modules(m=5))
    result = replay(recording, Opened(failing("m/0002")), Opened(broken))
    assert result.results[0].outcome.owner is Owner.HARNESS and result.verdict()[0] is None


def test_every_id_ends_with_exactly_one_outcome(tmp_path: Path) -> None:
    recording = make_recording(tmp_path, modules(m=50, n=30))

    def mixed(check: Check) -> Observation:
        kind = int(check.id[-1])
        return broken(check) if kind == 1 else wrong(check) if kind == 2 else echo(check)

    done = [replay_unit(recording, u, Opened(mixed), Opened(echo), jobs=2) for u in units(recording, 25)]
    result = combine(done[:-1], recording, size=25)
    for m in result.modules:
        parts = (m.passed, m.failed, m.nondeterministic, m.quarantined, m.errors, m.not_run)
        assert sum(parts) == m.expected == m.recorded
        assert sum(1 for _ in result.outcomes()[m.id]) == m.recorded
    assert len({r.id for r in result.results}) == len(result.results)
