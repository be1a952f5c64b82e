import pytest

from refactorbench.outcome import PASS, Outcome, Owner, Status, harness_error

# status, owner -> passed, counts against the submission, prevents a verdict
TABLE = {
    (Status.PASS, None): (True, False, False),
    (Status.FAIL, None): (False, True, False),
    (Status.NONDETERMINISTIC, None): (False, True, False),
    (Status.NOT_RUN, None): (False, False, True),
    (Status.MOOT, None): (False, False, False),
    (Status.UNDECIDED, None): (False, False, True),
    (Status.ERROR, Owner.SUBMISSION): (False, True, False),
    (Status.ERROR, Owner.HARNESS): (False, False, True),
    (Status.ERROR, Owner.PROVIDER): (False, False, True),
    (Status.ERROR, None): (False, False, True),  # an unknown error is the harness's
}


@pytest.mark.parametrize(("given", "wanted"), TABLE.items(), ids=lambda v: "-".join(str(x) for x in v))
def test_who_owns_a_failure_decides_what_it_means(
    given: tuple[Status, Owner | None], wanted: tuple[bool, bool, bool]
) -> None:
    outcome = Outcome(given[0], "because", given[1])
    assert (outcome.passed, outcome.counts_against_submission, outcome.prevents_verdict) == wanted


def test_the_table_holds_every_status() -> None:
    assert {status for status, _ in TABLE} == set(Status)
    assert {owner for status, owner in TABLE if status is Status.ERROR} == {None, *Owner}


def test_no_outcome_both_counts_and_prevents() -> None:
    for status in Status:
        for owner in (None, *Owner):
            outcome = Outcome(status, owner=owner)
            assert outcome.passed + outcome.counts_against_submission + outcome.prevents_verdict <= 1


def test_shorthands() -> None:
    assert PASS.passed
    assert harness_error("disk full") == Outcome(Status.ERROR, "disk full", Owner.HARNESS)
