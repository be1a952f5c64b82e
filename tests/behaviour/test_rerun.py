import random
from itertools import product

import pytest
from scripted import echo, make_check, seen, wrong

from refactorbench.behaviour.rerun import EARLY, ROUND, Ruling, confirm, decide
from refactorbench.errors import HarnessError
from refactorbench.observe.compare import differences, signature
from refactorbench.observe.model import Check, Observation

A, B = "stdout:changed", "code:0>1"
F, N, U, Q, MORE = Ruling.FAIL, Ruling.NONDETERMINISTIC, Ruling.UNREPRODUCED, Ruling.QUARANTINED, Ruling.AGAIN


def runs(total: int, *failed: str) -> tuple[str, ...]:
    return (*failed, *[""] * (total - len(failed)))


@pytest.mark.parametrize(
    ("submission", "early", "ruling"),
    [
        (runs(20), False, U),
        (runs(20, A), False, MORE),
        (runs(20, B), False, MORE),
        (runs(20, A, A), False, N),
        (runs(20, *[A] * 19), False, N),  # one pass
        (runs(20, *[A] * 20), False, F),
        (runs(20, *[A] * 20), True, F),
        (runs(20, *[B] * 20), False, N),  # one signature, but not the first mismatch's
        (runs(20, *[A] * 19, B), False, N),
        (runs(21, A), False, MORE),
        (runs(39, A), False, MORE),
        (runs(39, A, A), False, MORE),
        (runs(40, A), False, U),
        (runs(40, A, A), False, N),
        (runs(40, A, *[A] * 20), False, N),
        (runs(0), True, MORE),
        (runs(4, *[A] * 4), True, MORE),
        (runs(5, *[A] * 5), True, F),
        (runs(5, *[A] * 5), False, MORE),
        (runs(5, *[A] * 4), True, MORE),
        (runs(5, *[A] * 4, B), True, MORE),
        (runs(5, *[B] * 5), True, MORE),
        (runs(6, *[A] * 6), True, MORE),  # what wasn't steady at five gets the full number
        (runs(19, *[A] * 19), False, MORE),
    ],
)
def test_the_table(submission: tuple[str, ...], early: bool, ruling: Ruling) -> None:
    clean = (True,) * len(submission)
    assert decide(A, submission, clean, early) is ruling
    for at in range(len(submission)):
        assert decide(A, submission, (*clean[:at], False, *clean[at + 1 :]), early) is Q


def test_the_rule_is_total_and_never_fails_what_passed_once() -> None:
    for total, fails, first, early in product(range(41), range(41), (A, B), (True, False)):
        if fails > total:
            continue
        ruling = decide(first, runs(total, *[A] * fails), (True,) * total, early)
        if ruling is F:
            assert fails == total >= EARLY and first == A
        if ruling in (N, U):
            assert total >= ROUND
        if total == 2 * ROUND:
            assert ruling is not MORE


def run(submission: list[Observation], reference: list[Observation], early: bool = False) -> tuple[object, list[str]]:
    order: list[str] = []
    check = make_check("m/1")
    first = signature(differences(echo(check), wrong(check)))

    def one(name: str, answers: list[Observation]) -> Observation:
        order.append(name)
        return answers.pop(0)

    done = confirm(check, echo(check), first, lambda c: one("S", submission), lambda c: one("A", reference), early)
    return done, order


GOOD, BAD = echo(make_check("m/1")), seen(b"wrong")


def test_both_sides_are_interleaved_and_a_steady_fail_is_fully_confirmed() -> None:
    done, order = run([BAD] * 20, [GOOD] * 20)
    assert done.ruling is F and done.full and done.fails == 20 and "".join(order) == "SA" * 20


def test_the_shortening_stops_after_five() -> None:
    done, order = run([BAD] * 20, [GOOD] * 20, early=True)
    assert done.ruling is F and not done.full and len(order) == 10


def test_one_further_fail_buys_another_twenty() -> None:
    done, order = run([BAD] + [GOOD] * 39, [GOOD] * 40)
    assert done.ruling is U and len(order) == 80


def test_an_unclean_state_a_ends_it_at_once() -> None:
    done, order = run([BAD] * 20, [GOOD, BAD])
    assert done.ruling is Q and len(order) == 4


def test_a_broken_worker_is_no_evidence() -> None:
    def broken(_: Check) -> Observation:
        raise HarnessError("gone")

    with pytest.raises(HarnessError, match="gone"):
        confirm(make_check("m/1"), GOOD, A, lambda c: BAD, broken)


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.1, 0.5, 1.0])
def test_flakes_are_ruled_at_the_implied_rates(rate: float) -> None:
    """Of first mismatches: unreproduced with q^20 + 20 p q^19 q^20 (q = 1 - p), the rest nondeterministic or fail."""
    rng, trials, q = random.Random(11), 3000, 1 - rate
    found = []
    for _ in range(trials):
        signatures: list[str] = []
        while (ruling := decide(A, signatures, (True,) * len(signatures))) is MORE:
            signatures.append(A if rng.random() < rate else "")
        found.append(ruling)
    implied = q**20 + 20 * rate * q**39
    share = found.count(U) / trials
    assert abs(share - implied) <= 4 * (implied * (1 - implied) / trials) ** 0.5 + 1e-9
    assert found.count(F) == (trials if rate == 1.0 else 0)
    assert found.count(N) == trials - found.count(U) - found.count(F)
