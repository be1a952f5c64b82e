"""The decision's full table, and how rarely noise gets through it."""

from __future__ import annotations

import random
from collections.abc import Iterable

import msgspec
import pytest

from refactorbench.errors import HarnessError
from refactorbench.observe.model import Check, Observation, OutputFile
from refactorbench.sandbox.protocol import Limits
from refactorbench.verification.confirm import ORDER, confirm, decide, gather, over_limits
from refactorbench.verification.model import Evidence, Reason, Side, Trial
from refactorbench.verification.scope import Rules
from verification.products import LIMITS, bench, broken, check, faulty, flaky, hang, seen, upper, wrong_on_z

GOOD, BAD, WORSE, DEAD = seen(b"right"), seen(b"wrong"), seen(b"wrong", 3), seen(b"", 99)
SLOW = seen(b"right", wall_ms=1001)
FAULT = None


def evidence(
    reference: Iterable[Observation | None] = [GOOD] * 5,
    submission: Iterable[Observation | None] = [BAD] * 3,
    dead: Observation | None = DEAD,
    **more: str,
) -> Evidence:
    sides = {Side.REFERENCE: iter(reference), Side.SUBMISSION: iter(submission), Side.BROKEN: iter([dead])}
    trials = tuple(Trial(side, o, "" if o else "gone") for side in ORDER for o in [next(sides[side])])
    return Evidence(check(b"x"), trials, **more)


TABLE = {
    "clean failure": (evidence(), Reason.UPHELD),
    "identifies the tree, though all else holds": (evidence(identifies="names /proc"), Reason.IDENTIFIES_TREE),
    "denied by a rule": (evidence(denied="huge"), Reason.OUT_OF_SCOPE),
    "both, and identity is named": (evidence(identifies="x", denied="huge"), Reason.IDENTIFIES_TREE),
    "fault on the reference": (evidence(reference=[GOOD, GOOD, FAULT, GOOD, GOOD]), Reason.HARNESS),
    "fault on the submission": (evidence(submission=[BAD, FAULT, BAD]), Reason.HARNESS),
    "fault on the broken product": (evidence(dead=FAULT), Reason.HARNESS),
    "a fault outranks a pass": (evidence(submission=[GOOD, FAULT, BAD]), Reason.HARNESS),
    "reference fails once of five, first": (evidence(reference=[BAD, *[GOOD] * 4]), Reason.REFERENCE_UNSTABLE),
    "reference fails once of five, last": (evidence(reference=[*[GOOD] * 4, BAD]), Reason.REFERENCE_UNSTABLE),
    "reference hits a limit every time": (evidence(reference=[hang()] * 5), Reason.INADMISSIBLE),
    "reference hits a limit once": (evidence(reference=[*[GOOD] * 4, hang()]), Reason.INADMISSIBLE),
    "reference can't start": (evidence(reference=[Observation("launch", 2, b"", b"", ())] * 5), Reason.INADMISSIBLE),
    "passes once, first": (evidence(submission=[GOOD, BAD, BAD]), Reason.NOT_REPRODUCED),
    "passes once, last": (evidence(submission=[BAD, BAD, GOOD]), Reason.NOT_REPRODUCED),
    "never fails": (evidence(submission=[GOOD] * 3), Reason.NOT_REPRODUCED),
    "two signatures": (evidence(submission=[BAD, BAD, WORSE]), Reason.SIGNATURE_VARIES),
    "broken product passes": (evidence(dead=GOOD), Reason.TESTS_NOTHING),
    "hang beside a quick reference": (evidence(submission=[hang()] * 3), Reason.UPHELD),
    "hang beside a slow reference": (evidence([*[GOOD] * 4, SLOW], [hang()] * 3), Reason.INADMISSIBLE),
    "a slow reference matters for hangs only": (evidence([SLOW] * 5), Reason.UPHELD),
    "a hang and a wrong answer": (evidence(submission=[hang(), BAD, BAD]), Reason.SIGNATURE_VARIES),
    "other limits too": (evidence(submission=[hang("output")] * 3), Reason.UPHELD),
    "can't start where the reference does": (
        evidence(submission=[Observation("launch", 2, b"", b"", ())] * 3),
        Reason.UPHELD,
    ),
    "signal": (evidence(submission=[Observation("signal", 11, b"", b"", ())] * 3), Reason.UPHELD),
}


@pytest.mark.parametrize("name", TABLE)
def test_decision(name: str) -> None:
    given, reason = TABLE[name]
    decision = decide(given, LIMITS)
    assert decision.reason is reason
    assert decision.upheld == (reason is Reason.UPHELD)
    assert decision.explanation
    assert bool(decision.signature) or not decision.upheld


def test_every_reason_is_in_the_table() -> None:
    assert {reason for _, reason in TABLE.values()} == set(Reason)


@pytest.mark.parametrize("missing", range(len(ORDER)))
def test_a_missing_trial_leaves_the_question_open(missing: int) -> None:
    whole = evidence()
    cut = msgspec.structs.replace(whole, trials=whole.trials[:missing] + whole.trials[missing + 1 :])
    assert decide(cut, LIMITS).reason is Reason.HARNESS
    assert decide(whole, LIMITS).reason is Reason.UPHELD


def test_the_order_is_interleaved_five_to_three() -> None:
    assert [s.value[0] for s in ORDER] == ["r", "s", "r", "s", "r", "s", "r", "r", "b"]


def test_what_a_killed_program_had_written_does_not_split_the_signature() -> None:
    killed = [Observation("limit", 0, out, b"", (), "wall") for out in (b"", b"r", b"rig")]
    assert decide(evidence(submission=killed), LIMITS).signature == "limit:wall"


@pytest.mark.parametrize(
    ("o", "words"),
    [
        (seen(wall_ms=1000), ""),
        (seen(wall_ms=1001), "tenth of the time"),
        (seen(b"x" * (1 << 19)), ""),
        (seen(b"x" * ((1 << 19) + 1)), "half of the output"),
        (Observation("exit", 0, b"", b"", (OutputFile(b"f", "file", 0o644, 0, bytes(1 << 20)),)), ""),
        (
            Observation("exit", 0, b"", b"", (OutputFile(b"f", "file", 0o644, 0, bytes(1 + (1 << 20))),)),
            "half of the disk",
        ),
        (hang("cpu"), "cpu limit"),
    ],
)
def test_margins_of_the_reference(o: Observation, words: str) -> None:
    said = over_limits(o, Limits(output_mb=1, disk_mb=2))
    assert words in said
    assert bool(said) == bool(words)


def test_each_trial_gets_a_fresh_sandbox() -> None:
    on = bench(wrong_on_z)
    _, decision = confirm(check(b"az"), on, Rules({}), LIMITS)
    assert decision.upheld
    assert on.opened == {Side.REFERENCE: 5, Side.SUBMISSION: 3, Side.BROKEN: 1}


def test_an_input_out_of_scope_is_not_run() -> None:
    on = bench(wrong_on_z)
    got = gather(check(b"az"), on, Rules({"text": lambda c: b"z" in c.stdin}))
    assert (got.denied, sum(on.opened.values())) == ("text", 0)
    assert decide(got, LIMITS).reason is Reason.OUT_OF_SCOPE


def test_a_fault_is_asked_again_once() -> None:
    faults = iter([True, False])
    once = faulty(wrong_on_z, lambda _: next(faults, False))
    assert confirm(check(b"az"), bench(once), Rules({}), LIMITS)[1].upheld
    always = faulty(wrong_on_z, lambda _: True)
    assert confirm(check(b"az"), bench(always), Rules({}), LIMITS)[1].reason is Reason.HARNESS


def test_only_faults_of_the_harness_become_trials() -> None:
    def bug(_: Check) -> Observation:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        confirm(check(b"az"), bench(bug), Rules({}), LIMITS)
    with pytest.raises(HarnessError):
        faulty(upper, lambda _: True)(check())


def upheld_share(submission_flake: float, reference_flake: float, runs: int, seed: int) -> float:
    rng, other = random.Random(seed), seen(b"noise", 1)
    on = bench(flaky(upper, submission_flake, rng, other), flaky(upper, reference_flake, rng, other), broken)
    c = check(b"az")
    return sum(confirm(c, on, Rules({}), LIMITS)[1].upheld for _ in range(runs)) / runs


@pytest.mark.parametrize(
    ("flake", "low", "high"), [(0.5, 0.11, 0.14), (0.10, 0.0003, 0.002), (0.05, 0, 0.0005), (0.01, 0, 0)]
)
def test_a_flaky_submission_is_upheld_at_the_cube_of_its_rate(flake: float, low: float, high: float) -> None:
    assert low <= upheld_share(flake, 0, 10_000, 7) <= high


def test_noise_on_both_sides_upholds_none_of_a_thousand() -> None:
    for flake in (0.01, 0.05):
        assert upheld_share(flake, flake, 1_000, 11) == 0
    # the control: a real difference under the same noise is upheld most of the time
    rng, other = random.Random(3), seen(b"noise", 1)
    on = bench(flaky(wrong_on_z, 0.01, rng, other), flaky(upper, 0.01, rng, other), broken)
    assert sum(confirm(check(b"az"), on, Rules({}), LIMITS)[1].upheld for _ in range(100)) > 80
