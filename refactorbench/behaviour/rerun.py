"""The re-run rule: what a first mismatch turns out to be.

The check runs 20 times more on both sides, interleaved (submission, State A, submission, ...), each in fresh scratch;
with exactly one further fail, another 20.

- State A differs from its recording even once: quarantined, a harness error, whatever the submission did.
- No further fail, or one in 40: unreproduced; counted, forgiven.
- Two or more further fails, all with the first one's signature and never a pass: fail.
- Anything else: nondeterministic, which is a fail too.

One shortening, so that a submission that fails thousands of checks doesn't cost 40 runs for each: once a module has 10
fully confirmed fails, a further mismatch ends as a fail after 5 re-runs if all 5 fail with the first one's signature
and State A is clean in all 5. A check that passes even once in those 5 gets the full number. The result's `reruns`
says how many there were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

import msgspec

from refactorbench.observe.compare import differences, signature
from refactorbench.observe.model import Check, Observation

ROUND = 20
EARLY = 5
EARLY_AFTER = 10  # fully confirmed fails in the module

Observe = Callable[[Check], Observation]


class Ruling(StrEnum):
    AGAIN = "again"
    FAIL = "fail"
    NONDETERMINISTIC = "nondeterministic"
    UNREPRODUCED = "unreproduced"
    QUARANTINED = "quarantined"


class Confirmation(msgspec.Struct, frozen=True):
    """`signatures` of the submission's re-runs in order, "" for a pass; `clean` tells State A's."""

    ruling: Ruling
    signatures: tuple[str, ...]
    clean: tuple[bool, ...]

    @property
    def fails(self) -> int:
        return sum(s != "" for s in self.signatures)

    @property
    def full(self) -> bool:
        return len(self.signatures) >= ROUND


def decide(first: str, submission: Sequence[str], clean: Sequence[bool], early: bool = False) -> Ruling:
    """Rule on the re-runs so far: signatures of the submission ("" for a pass) and whether State A was clean.

    `first` is the first mismatch's signature; `early` allows the shortening. Total: AGAIN asks for another re-run.
    """
    if not all(clean):
        return Ruling.QUARANTINED
    runs, fails = len(submission), sum(s != "" for s in submission)
    steady = all(s == first for s in submission)
    if runs < ROUND:
        return Ruling.FAIL if early and runs == EARLY and steady else Ruling.AGAIN
    if fails == 0:
        return Ruling.UNREPRODUCED
    if fails == 1:
        return Ruling.AGAIN if runs < 2 * ROUND else Ruling.UNREPRODUCED
    if ROUND < runs < 2 * ROUND:
        return Ruling.AGAIN
    return Ruling.FAIL if steady else Ruling.NONDETERMINISTIC


def confirm(
    check: Check, expected: Observation, first: str, submission: Observe, reference: Observe, early: bool = False
) -> Confirmation:
    """Re-run `check` on both sides until `decide` rules. HarnessError of either side passes through."""
    signatures: list[str] = []
    clean: list[bool] = []
    ruling = Ruling.AGAIN
    while ruling is Ruling.AGAIN:
        signatures.append(signature(differences(expected, submission(check), check.rules)))
        clean.append(not differences(expected, reference(check), check.rules))
        ruling = decide(first, signatures, clean, early)
    return Confirmation(ruling, tuple(signatures), tuple(clean))
