import random
from pathlib import Path

from scripted import LIMITS, Answer, Opened, broken, echo, make_check, make_recording, wrong

from refactorbench.behaviour.fresh import replay_fresh
from refactorbench.behaviour.memorisation import Memorisation, judge, memorisation
from refactorbench.behaviour.model import Selection
from refactorbench.behaviour.replay import ALL, replay

FIXED = [make_check(f"m/draw-{i:03d}") for i in range(300)]
TABLE = [make_check(f"m/table-{i:03d}") for i in range(50)]
FRESH = [make_check(f"fresh/{i:05d}", module="m") for i in range(100)]
RECORDED = {c.argv for c in (*FIXED, *TABLE)}


def measure(tmp_path: Path, submission: Answer, selection: Selection = ALL) -> Memorisation:
    recording = make_recording(tmp_path, [*TABLE, *FIXED])
    behaviour = replay(recording, Opened(submission), Opened(echo), selection=selection)
    fresh = replay_fresh(FRESH, 1, Opened(submission), Opened(echo), limits=LIMITS)
    return memorisation(behaviour, recording, fresh)


def test_answers_taken_from_the_recording_are_proof(tmp_path: Path) -> None:
    found = measure(tmp_path, lambda c: echo(c) if c.argv in RECORDED else wrong(c))
    assert found.values == (0, 300, 100, 100) and found.verdict == "proof" and found.p < 1e-9


def test_honest_and_honestly_bad_submissions_are_clean(tmp_path: Path) -> None:
    assert measure(tmp_path / "1", echo).values == (0, 300, 0, 100)
    bad = measure(tmp_path / "2", lambda c: wrong(c) if c.argv[1][-1:] in b"123" else echo(c))
    assert bad.values == (90, 300, 30, 100) and bad.verdict == "clean"
    assert measure(tmp_path / "3", wrong).verdict == "clean"


def test_tables_count_on_no_side(tmp_path: Path) -> None:
    found = measure(tmp_path, lambda c: wrong(c) if b"table" in c.argv[1] else echo(c))
    assert found.values == (0, 300, 0, 100)


def test_what_was_not_selected_counts_on_no_side(tmp_path: Path) -> None:
    found = measure(tmp_path, wrong, Selection(3, 1))
    assert found.fixed_failed == found.fixed_total and 60 < found.fixed_total < 140


def test_what_the_harness_left_open_counts_on_no_side(tmp_path: Path) -> None:
    found = measure(tmp_path, lambda c: broken(c) if c.argv[1][-1:] == b"1" else echo(c))
    assert found.values == (0, 270, 0, 90)


def test_without_evidence_it_is_untested() -> None:
    assert judge(0, 0, 40, 40).verdict == "untested"
    assert judge(3, 300, 0, 0).verdict == "untested"


def test_the_rate_of_false_alarms_of_an_honest_split_is_zero_in_a_thousand() -> None:
    """A random split of one stream with any rate of failures, fixed and fresh of the tasks' usual sizes."""
    rng = random.Random(13)
    alarms = 0
    for _ in range(1000):
        rate, fixed, fresh = rng.random(), rng.randrange(50, 600), rng.randrange(20, 200)
        fails = [rng.random() < rate for _ in range(fixed + fresh)]
        alarms += judge(sum(fails[:fixed]), fixed, sum(fails[fixed:]), fresh).verdict == "proof"
    assert alarms == 0


def test_a_submission_that_knows_the_recorded_answers_of_a_hard_quarter_is_caught() -> None:
    """Power: fresh checks fail at 30%, their recorded twins never; 300 and 100 checks are enough nearly always."""
    rng = random.Random(17)
    caught = sum(judge(0, 300, sum(rng.random() < 0.3 for _ in range(100)), 100).verdict == "proof" for _ in range(200))
    assert caught >= 190
