"""Results of stage II. Denominators come from the recording; only what didn't plainly pass is kept by check."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from refactorbench.outcome import PASS, Outcome, Status
from refactorbench.scoring import modules_complete

UNREPRODUCED = "unreproduced"
QUARANTINED = "quarantined"
UNREPRODUCED_ALLOWED = 3  # per task; more make the run unscored


class Selection(msgspec.Struct, frozen=True):
    """Which recorded checks are replayed: all, or by a seeded hash of the id one in `one_in`, at least one a module."""

    one_in: int = 1
    seed: int = 0

    def _hash(self, word: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{self.seed}\0{word}".encode()).digest()[:8], "big")

    def takes(self, id_: str, module: str, seq: int, checks: int) -> bool:
        """`seq` is the check's place among the `checks` of its module."""
        return self._hash(id_) % self.one_in == 0 or self._hash(module) % checks == seq


class CheckResult(msgspec.Struct, frozen=True):
    """`difference` explains the first mismatch; `signature` names the failure; `reruns` counts the submission's
    observations after it; `flag` is "", unreproduced (forgiven, a pass) or quarantined (State A wasn't clean)."""

    id: str
    module: str
    outcome: Outcome
    difference: str = ""
    signature: str = ""
    reruns: int = 0
    flag: str = ""


class Unit(msgspec.Struct, frozen=True):
    """A resumable piece of replay: the module's rows with start <= seq < stop."""

    module: str
    index: int
    start: int
    stop: int

    @property
    def name(self) -> str:
        return f"replay/{self.module}/{self.index:04d}"


class UnitResult(msgspec.Struct, frozen=True):
    """`expected` checks were selected, `passed` of them (unreproduced ones included) passed; `results` holds every one
    that didn't and the unreproduced ones. `fingerprint` is over the selected rows, so a result can't be taken for
    another recording's. `confirmed` counts fails with full re-runs. `forgiven`: rule -> differences it took away."""

    unit: Unit
    expected: int
    passed: int
    fingerprint: str
    results: tuple[CheckResult, ...]
    forgiven: dict[str, int]
    confirmed: int

    @property
    def open(self) -> int:
        """Checks without a verdict because of the harness: worth running the unit again when resuming."""
        return sum(r.outcome.prevents_verdict for r in self.results)


class ModuleResult(msgspec.Struct, frozen=True):
    """Counts of one module. passed + failed + nondeterministic + quarantined + errors + not_run = expected <= recorded;
    `unreproduced` of the passed ones were forgiven."""

    id: str
    recorded: int
    expected: int
    passed: int
    failed: int
    nondeterministic: int
    unreproduced: int
    quarantined: int
    errors: int
    not_run: int

    @property
    def rate(self) -> float:
        return self.passed / self.expected if self.expected else 0.0


class BehaviourResult(msgspec.Struct, frozen=True):
    """Stage II of one submission. `results` as in UnitResult; every other expected check passed."""

    modules: tuple[ModuleResult, ...]
    results: tuple[CheckResult, ...]
    forgiven: dict[str, int]
    selection: Selection

    @property
    def expected(self) -> int:
        return sum(m.expected for m in self.modules)

    @property
    def passed(self) -> int:
        return sum(m.passed for m in self.modules)

    @property
    def unreproduced(self) -> int:
        return sum(m.unreproduced for m in self.modules)

    @property
    def missing_to_full(self) -> int:
        """Checks that keep the pass rate from 100%."""
        return self.expected - self.passed

    def outcomes(self) -> dict[str, Iterator[Outcome]]:
        """Module -> one outcome per expected check."""
        other: dict[str, list[Outcome]] = {m.id: [] for m in self.modules}
        for r in self.results:
            if r.outcome.status is not Status.PASS:
                other[r.module].append(r.outcome)
        return {m.id: _chain(m.passed, other[m.id]) for m in self.modules}

    def verdict(self) -> tuple[bool | None, str]:
        """(every r_i = 1, why) for scoring. Evidence against the submission outranks what stayed open; a run with more
        than three unreproduced differences and no such evidence has no verdict."""
        complete, why = modules_complete(self.outcomes())
        if complete and self.unreproduced > UNREPRODUCED_ALLOWED:
            return None, (
                f"{self.unreproduced} of {self.expected} checks differed once and could not be reproduced, "
                f"{UNREPRODUCED_ALLOWED} are allowed: grade again, on a quieter machine"
            )
        return complete, why + (
            f" ({self.unreproduced} unreproduced difference(s) forgiven)" if self.unreproduced else ""
        )


def _chain(passed: int, other: list[Outcome]) -> Iterator[Outcome]:
    yield from (PASS for _ in range(passed))
    yield from other
