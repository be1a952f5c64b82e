"""The score, pure and total: S = g · 1[r_i = 1 for every module i] · (0.4 + 0.6 · s/6) (arXiv 2608.23564)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from refactorbench.outcome import Outcome

VERIFIERS = 6
BEHAVIOUR_SHARE = 0.4
VERIFICATION_SHARE = 0.6


class Score(msgspec.Struct, frozen=True):
    """`value` is in 0..1, or None when unscored; `low`/`high` bound it while verifiers are in error."""

    value: float | None
    low: float
    high: float
    g: int | None
    all_checks: bool | None
    survived: int | None
    why: tuple[str, ...]

    @property
    def scored(self) -> bool:
        return self.value is not None


def formula(g: int, all_checks: bool, survived: int, verifiers: int = VERIFIERS) -> float:
    """Return S in 0..1, rounded to 4 places; `survived` of `verifiers` completed and upheld nothing."""
    if not g or not all_checks:
        return 0.0
    return round(BEHAVIOUR_SHARE + VERIFICATION_SHARE * survived / verifiers, 4)


def gate(required: Iterable[Outcome]) -> tuple[int | None, str]:
    """Return (g, why): 0 if any required criterion failed, None if any is undecided (or none exists), else 1."""
    outcomes = list(required)
    failed = sum(o.counts_against_submission for o in outcomes)
    if failed:
        return 0, f"{failed} of {len(outcomes)} required criteria failed"
    # A moot criterion stands beside a failed one; where none failed, nothing says that it would have passed.
    undecided = [o for o in outcomes if not o.passed]
    if undecided or not outcomes:
        return None, undecided[0].cause if undecided else "no required criterion was audited"
    return 1, f"all {len(outcomes)} required criteria passed"


def modules_complete(modules: Mapping[str, Iterable[Outcome]]) -> tuple[bool | None, str]:
    """Return (every r_i = 1, why); None when harness errors or checks that did not run leave it open."""
    total = failed = opened = 0
    empty = []
    for module, iterable in modules.items():
        outcomes = list(iterable)
        if not outcomes:
            empty.append(module)
        for o in outcomes:
            total += 1
            if o.counts_against_submission:
                failed += 1
            elif not o.passed:
                opened += 1
    if failed:
        return False, f"{failed} of {total} recorded checks failed"
    if empty or not total:
        return None, f"no recorded check ran{' in ' + ', '.join(sorted(empty)) if total else ''}"
    if opened:
        return None, f"{opened} of {total} recorded checks have no verdict"
    return True, f"all {total} recorded checks passed"


def score(g: tuple[int | None, str], checks: tuple[bool | None, str], verifiers: Mapping[str, Outcome] | None) -> Score:
    """Combine the three stages; a decided zero outranks what is open above or below it.

    `verifiers` maps verifier id to pass (survived), fail (counterexample upheld) or an error; None when stage III
    was not run. Six count: of more, the broken and the surviving ones, in this order.
    """
    why = [f"stage I: {g[1]}", f"stage II: {checks[1]}"]
    if g[0] == 0 or checks[0] is False:
        return Score(0.0, 0.0, 0.0, g[0], checks[0], None, tuple(why))
    open_stage = g[0] is None or checks[0] is None
    if verifiers is None or not verifiers:
        why.append("stage III: not run")
        low = 0.0 if open_stage else formula(1, True, 0)
        return Score(None, low, 1.0, g[0], checks[0], None, tuple(why))
    broken = min(VERIFIERS, sum(o.counts_against_submission for o in verifiers.values()))
    survived = min(VERIFIERS - broken, sum(o.passed for o in verifiers.values()))
    errored = VERIFIERS - survived - broken
    in_error = f", {errored} in error" if errored else ""
    why.append(f"stage III: {survived} of {VERIFIERS} verifiers found nothing{in_error}")
    low = 0.0 if open_stage else formula(1, True, survived)
    high = formula(1, True, survived + errored)
    value = None if open_stage or errored else formula(1, True, survived)
    return Score(value, low, high, g[0], checks[0], survived, tuple(why))
