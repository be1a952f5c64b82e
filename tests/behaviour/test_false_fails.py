"""Full replays are counted as they came out: a fail, a forgiven difference and what stayed open are told apart."""

import sys
from pathlib import Path

from scripted import Opened, broken, echo, make_recording, modules, seen, wrong

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from false_fails import confirmations, row, tally

from refactorbench.behaviour.replay import replay
from refactorbench.observe.model import Check, Observation


def replayed(tmp_path: Path, submission: Opened) -> dict[str, object]:
    recording = make_recording(tmp_path, modules(m=20, n=10))
    return row(replay(recording, submission, Opened(echo)), 1.5)


def once(id: str) -> Opened:
    """A submission that is wrong the first time that it sees the check `id`."""
    left = [id]

    def answer(check: Check) -> Observation:
        return seen(b"noise") if check.id in left and not left.remove(check.id) else echo(check)  # type: ignore[func-returns-value]

    return Opened(answer)


def test_replays_are_clean_only_when_every_check_passed_at_once(tmp_path: Path) -> None:
    def bad(check: Check) -> Observation:
        return wrong(check) if check.id == "m/0003" else echo(check)

    def lost(check: Check) -> Observation:
        return broken(check) if check.id == "n/0001" else echo(check)

    kinds = {"good": Opened(echo), "bad": Opened(bad), "once": once("m/0004"), "lost": Opened(lost)}
    rows = {name: replayed(tmp_path / name, opened) for name, opened in kinds.items()}
    assert tally([rows["good"]] * 2).clean == 2 and tally([rows["good"]] * 2).checks == 60
    found = tally(list(rows.values()))
    assert (found.replays, found.clean, found.checks) == (4, 1, 120)
    assert (found.failed, found.nondeterministic, found.unreproduced, found.quarantined, found.errors) == (
        1,
        0,
        1,
        0,
        1,
    )
    assert found.seconds == 1.5 and found.first[0].startswith("m/0003: fail: differs from State A")


def test_confirmations_are_counted_by_outcome() -> None:
    rows = [
        {"reason": reason, "disturbed": n} for n, reason in enumerate(("upheld", "not_reproduced", "not_reproduced"))
    ]
    found = confirmations(rows, "other")
    assert (found.candidates, found.upheld, found.disturbed) == (3, 1, 2)
    assert found.reasons == {"not_reproduced": 2, "upheld": 1} and confirmations(rows[1:], "other").upheld == 0
