"""The score is total, bounded, monotone, and nothing but evidence about the submission can zero or cost it."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refactorbench.outcome import PASS, Outcome, Owner, Status, harness_error
from refactorbench.scoring import VERIFIERS, formula, gate, modules_complete, score

FAIL = Outcome(Status.FAIL, "wrong bytes")
LOST = harness_error("out of disk")
OUTCOMES = st.builds(Outcome, st.sampled_from(Status), st.just("cause"), st.sampled_from([None, *Owner]))
ALL = tuple(Outcome(s, "cause", o) for s in Status for o in (None, *Owner))
REACHABLE = {0.0, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0}

properties = settings(deadline=None, max_examples=300)


def rank(outcome: Outcome) -> int:
    """0: counts against the submission; 1: says nothing; 2: passed."""
    return 0 if outcome.counts_against_submission else 2 if outcome.passed else 1


def seats(survived: int, broken: int, errored: int) -> dict[str, Outcome]:
    outcomes = [PASS] * survived + [FAIL] * broken + [LOST] * errored
    return {f"v{i}": o for i, o in enumerate(outcomes, 1)}


@pytest.mark.parametrize(("survived", "wanted"), [(0, 0.4), (1, 0.5), (2, 0.6), (3, 0.7), (4, 0.8), (5, 0.9), (6, 1.0)])
def test_formula_values(survived: int, wanted: float) -> None:
    assert formula(1, True, survived) == wanted
    assert formula(0, True, survived) == formula(1, False, survived) == formula(0, False, survived) == 0.0


def test_formula_of_a_part_of_the_panel() -> None:
    assert formula(1, True, 3, verifiers=4) == 0.85


@pytest.mark.parametrize(
    ("required", "wanted"),
    [
        ([PASS], 1),
        ([PASS, PASS], 1),
        ([PASS, FAIL], 0),
        ([FAIL, LOST], 0),  # a proven fail outranks what is undecided
        ([PASS, Outcome(Status.UNDECIDED, "1:1")], None),
        ([PASS, LOST], None),
        ([PASS, Outcome(Status.ERROR, "?")], None),
        ([PASS, Outcome(Status.NOT_RUN)], None),
        ([PASS, Outcome(Status.MOOT)], None),
        ([FAIL, Outcome(Status.MOOT)], 0),
        ([Outcome(Status.ERROR, "crash", Owner.SUBMISSION)], 0),
        ([], None),
    ],
)
def test_gate(required: list[Outcome], wanted: int | None) -> None:
    assert gate(required)[0] == wanted


@pytest.mark.parametrize(
    ("modules", "wanted"),
    [
        ({"a": [PASS], "b": [PASS, PASS]}, True),
        ({"a": [PASS], "b": [PASS, FAIL]}, False),
        ({"a": [PASS], "b": [Outcome(Status.NONDETERMINISTIC)]}, False),
        ({"a": [FAIL], "b": [LOST]}, False),
        ({"a": [PASS], "b": [LOST]}, None),
        ({"a": [PASS, Outcome(Status.NOT_RUN)]}, None),
        ({"a": [PASS, Outcome(Status.MOOT)]}, None),
        ({"a": [PASS], "b": []}, None),  # a module that was cut short isn't complete
        ({"a": [FAIL], "b": []}, False),
        ({}, None),
    ],
)
def test_modules(modules: dict[str, list[Outcome]], wanted: bool | None) -> None:
    assert modules_complete(modules)[0] is wanted


@pytest.mark.parametrize("g", [0, 1, None])
@pytest.mark.parametrize("checks", [True, False, None])
@pytest.mark.parametrize("verifiers", [None, {}, seats(6, 0, 0), seats(4, 2, 0), seats(4, 1, 1), seats(3, 0, 0)])
def test_every_combination_of_stages(g: int | None, checks: bool | None, verifiers: dict[str, Outcome] | None) -> None:
    s = score((g, "I"), (checks, "II"), verifiers)
    if g == 0 or checks is False:
        assert (s.value, s.low, s.high, s.survived) == (0.0, 0.0, 0.0, None)
        return
    decided = g == 1 and checks is True
    if not verifiers:
        assert (s.value, s.low, s.high) == (None, 0.4 if decided else 0.0, 1.0)
        return
    survived = sum(o.passed for o in verifiers.values())
    broken = sum(not o.passed and o.counts_against_submission for o in verifiers.values())
    assert s.survived == survived
    assert s.high == formula(1, True, VERIFIERS - broken)
    assert s.low == (formula(1, True, survived) if decided else 0.0)
    assert s.value == (s.low if decided and survived + broken == VERIFIERS else None)


def test_errored_verifiers_leave_bounds() -> None:
    s = score((1, ""), (True, ""), seats(3, 1, 2))
    assert (s.value, s.scored, s.low, s.high) == (None, False, 0.7, 0.9)
    assert "2 in error" in s.why[2]


def test_a_missing_verifier_is_an_error_not_a_survival() -> None:
    assert score((1, ""), (True, ""), seats(5, 0, 0)).value is None
    assert score((1, ""), (True, ""), seats(6, 0, 0)).value == 1.0


def test_a_seventh_verifier_cannot_pay() -> None:
    assert score((1, ""), (True, ""), seats(7, 0, 0)).value == 1.0
    assert score((1, ""), (True, ""), seats(6, 1, 0)).value == 0.9


stage_g = st.tuples(st.sampled_from([0, 1, None]), st.just("I"))
stage_checks = st.tuples(st.sampled_from([True, False, None]), st.just("II"))
panels = st.none() | st.dictionaries(st.sampled_from([f"v{i}" for i in range(8)]), OUTCOMES)


@properties
@given(stage_g, stage_checks, panels)
def test_total_bounded_and_reachable(
    g: tuple[int | None, str], checks: tuple[bool | None, str], verifiers: dict[str, Outcome] | None
) -> None:
    s = score(g, checks, verifiers)
    assert 0.0 <= s.low <= s.high <= 1.0
    assert s.value is None or (s.value == s.low == s.high and s.value in REACHABLE)
    assert s.why


@properties
@given(st.lists(OUTCOMES, max_size=5), st.dictionaries(st.text(max_size=2), st.lists(OUTCOMES, max_size=4)))
def test_gate_and_modules_are_total_and_zero_needs_evidence(
    required: list[Outcome], modules: dict[str, list[Outcome]]
) -> None:
    g, why = gate(required)
    complete, because = modules_complete(modules)
    assert (g == 0) == any(o.counts_against_submission for o in required)
    assert (complete is False) == any(o.counts_against_submission for m in modules.values() for o in m)
    assert g != 1 or all(o.passed for o in required)
    assert isinstance(why, str) and isinstance(because, str)


@properties
@given(stage_g, stage_checks, st.lists(OUTCOMES, min_size=VERIFIERS, max_size=VERIFIERS), st.integers(0, 5), OUTCOMES)
def test_a_better_verifier_never_lowers_the_score(
    g: tuple[int | None, str], checks: tuple[bool | None, str], panel: list[Outcome], seat: int, other: Outcome
) -> None:
    worse, better = sorted((panel[seat], other), key=rank)
    outcomes = []
    for choice in (worse, better):
        panel[seat] = choice
        outcomes.append(score(g, checks, {f"v{i}": o for i, o in enumerate(panel)}))
    assert outcomes[0].low <= outcomes[1].low and outcomes[0].high <= outcomes[1].high


@properties
@given(panels)
def test_a_better_stage_never_lowers_the_score(verifiers: dict[str, Outcome] | None) -> None:
    for (g1, g2), (c1, c2) in itertools.product(
        itertools.combinations_with_replacement((0, None, 1), 2),
        itertools.combinations_with_replacement((False, None, True), 2),
    ):
        worse, better = (score((g, ""), (c, ""), verifiers) for g, c in ((g1, c1), (g2, c2)))
        assert worse.low <= better.low and worse.high <= better.high


def test_no_single_outcome_but_evidence_zeroes() -> None:
    for outcome in ALL:
        g = gate([PASS, outcome])
        assert (score(g, (True, ""), seats(6, 0, 0)).value == 0.0) == outcome.counts_against_submission
        checks = modules_complete({"m": [PASS, outcome]})
        assert (score((1, ""), checks, seats(6, 0, 0)).value == 0.0) == outcome.counts_against_submission
        cost = score((1, ""), (True, ""), {**seats(5, 0, 0), "v6": outcome})
        assert (cost.high < 1.0) == outcome.counts_against_submission
