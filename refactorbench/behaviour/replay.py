"""Replay: the recorded checks put to a submission, compared, re-run where they differ.

A replay is cut into units that are done one after another and can be stored one by one; `combine` counts what the
recording expects, so a unit that is missing leaves its checks `not_run` and never a smaller denominator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from refactorbench.behaviour.model import (
    QUARANTINED,
    UNREPRODUCED,
    BehaviourResult,
    CheckResult,
    ModuleResult,
    Selection,
    Unit,
    UnitResult,
)
from refactorbench.behaviour.pool import OpenWorker, Pool, in_order
from refactorbench.behaviour.rerun import EARLY_AFTER, Confirmation, Ruling, confirm
from refactorbench.catalog.recordings import Recording, Row
from refactorbench.errors import HarnessError
from refactorbench.observe.compare import compare, signature
from refactorbench.observe.explain import explain_all
from refactorbench.outcome import Outcome, Status, harness_error

UNIT = 500  # checks
EXPLAINED = 20  # results per module that keep their explanation in a BehaviourResult; a UnitResult keeps all

ALL = Selection()


class _Mismatch(msgspec.Struct, frozen=True):
    row: Row
    signature: str
    difference: str


def units(recording: Recording, size: int = UNIT) -> tuple[Unit, ...]:
    """Cut the recording into units of at most `size` checks; a module's units must be replayed in their order."""
    return tuple(
        Unit(m.id, index, start, min(start + size, m.checks))
        for m in recording.manifest.modules
        for index, start in enumerate(range(0, m.checks, size))
    )


def _selected(recording: Recording, unit: Unit, selection: Selection) -> Iterator[Row]:
    checks = recording.entry(unit.module).checks
    for row in recording.rows(unit.module, unit.start, unit.stop):
        if selection.takes(row.check.id, unit.module, row.seq, checks):
            yield row


def replay_unit(
    recording: Recording,
    unit: Unit,
    open_submission: OpenWorker,
    open_reference: OpenWorker,
    *,
    jobs: int = 1,
    selection: Selection = ALL,
    confirmed_before: int = 0,
    on_check: Callable[[], None] = lambda: None,
) -> UnitResult:
    """Replay one unit: every selected check once, then the re-runs of those that differ.

    `confirmed_before` is the sum of `confirmed` over the module's earlier units (see rerun.py's shortening). The
    reference is opened only when something differs. A check whose worker fails twice is an error of the harness.
    """
    expected, forgiven, chain = 0, dict[str, int](), hashlib.sha256()
    results: list[tuple[int, CheckResult]] = []
    mismatches: list[_Mismatch] = []
    with Pool(open_submission, jobs) as submission:
        rows = _selected(recording, unit, selection)
        for row, answer in in_order(lambda r: submission.answer(r.check), rows, jobs, submission.stop):
            expected += 1
            chain.update(row.fingerprint.encode())
            on_check()
            if isinstance(answer, HarnessError):
                results.append((row.seq, _result(row, harness_error(str(answer)))))
                continue
            compared = compare(row.observation, answer, row.check.rules)
            for rule, count in compared.forgiven.items():
                forgiven[rule] = forgiven.get(rule, 0) + count
            if not compared.equal:
                found = compared.differences
                mismatches.append(_Mismatch(row, signature(found), explain_all(found)))
        confirmed = 0
        if mismatches:
            with Pool(open_reference, jobs) as reference:
                ruled, confirmed = _rerun_all(mismatches, submission, reference, jobs, confirmed_before)
            results += [(m.row.seq, r) for m, r in zip(mismatches, ruled, strict=True)]
    kept = tuple(r for _, r in sorted(results, key=lambda pair: pair[0]))
    passed = expected - sum(not r.outcome.passed for r in kept)
    return UnitResult(unit, expected, passed, chain.hexdigest(), kept, forgiven, confirmed)


def _rerun_all(
    mismatches: Sequence[_Mismatch], submission: Pool, reference: Pool, jobs: int, confirmed: int
) -> tuple[list[CheckResult], int]:
    """Return one result per mismatch, and how many of these were fully confirmed fails.

    One after another until the module has enough of them for the shortening, so that the number of jobs changes
    nothing; then the rest side by side.
    """
    before = confirmed
    results: list[CheckResult] = []

    def rerun(m: _Mismatch, early: bool) -> Confirmation | HarnessError:
        try:
            return confirm(m.row.check, m.row.observation, m.signature, submission.observe, reference.observe, early)
        except HarnessError as e:
            return e

    def full_fail(c: Confirmation | HarnessError) -> bool:
        return isinstance(c, Confirmation) and c.full and c.ruling is Ruling.FAIL

    def stop() -> None:
        submission.stop()
        reference.stop()

    left = list(mismatches)
    while left and confirmed < EARLY_AFTER:
        m = left.pop(0)
        done = rerun(m, False)
        confirmed += full_fail(done)
        results.append(_ruled(m, done))
    for m, done in in_order(lambda m: rerun(m, True), left, jobs, stop):
        confirmed += full_fail(done)
        results.append(_ruled(m, done))
    return results, confirmed - before


def _result(row: Row, outcome: Outcome) -> CheckResult:
    return CheckResult(row.check.id, row.check.module, outcome)


def _ruled(m: _Mismatch, done: Confirmation | HarnessError) -> CheckResult:
    if isinstance(done, HarnessError):
        outcome, reruns, flag = harness_error(f"while re-running a mismatch: {done}"), 0, ""
    else:
        outcome, flag = _outcome(done)
        reruns = len(done.signatures)
    return CheckResult(m.row.check.id, m.row.check.module, outcome, m.difference, m.signature, reruns, flag)


def _outcome(done: Confirmation) -> tuple[Outcome, str]:
    runs, fails = len(done.signatures), done.fails
    again = f"{fails} of {runs} re-runs differed"
    if done.ruling is Ruling.QUARANTINED:
        unclean = sum(not c for c in done.clean)
        return harness_error(
            f"State A itself left its recording in {unclean} of {len(done.clean)} re-runs"
        ), QUARANTINED
    if done.ruling is Ruling.UNREPRODUCED:
        return Outcome(Status.PASS, f"differed once and then hardly or never again: {again}"), UNREPRODUCED
    if done.ruling is Ruling.FAIL:
        return Outcome(Status.FAIL, f"differs from State A: {again}, all alike"), ""
    return Outcome(Status.NONDETERMINISTIC, f"differs from State A, but not always alike: {again}"), ""


def combine(
    results: Iterable[UnitResult], recording: Recording, selection: Selection = ALL, size: int = UNIT
) -> BehaviourResult:
    """Count stage II from its units, in any order. Checks of missing units are `not_run`.

    HarnessError when a unit comes twice, or doesn't belong to this recording, selection and size.
    """
    by_name: dict[str, UnitResult] = {}
    for r in results:
        if r.unit.name in by_name:
            raise HarnessError(f"unit {r.unit.name} has two results, so none can be trusted: start the run anew")
        by_name[r.unit.name] = r
    modules: list[ModuleResult] = []
    kept: list[CheckResult] = []
    forgiven: dict[str, int] = {}
    for entry in recording.manifest.modules:
        found: list[CheckResult] = []
        expected = 0
        fingerprints = list(recording.fingerprints(entry.id))
        for unit in units(recording, size):
            if unit.module != entry.id:
                continue
            selected = [
                (id_, print_)
                for seq, (id_, print_) in enumerate(fingerprints[unit.start : unit.stop], unit.start)
                if selection.takes(id_, entry.id, seq, entry.checks)
            ]
            expected += len(selected)
            result = by_name.pop(unit.name, None)
            if result is None:
                missing = Outcome(Status.NOT_RUN, f"{unit.name} was not replayed")
                found += [CheckResult(id_, entry.id, missing) for id_, _ in selected]
                continue
            _belongs(result, unit, selected)
            found += result.results
            for rule, count in result.forgiven.items():
                forgiven[rule] = forgiven.get(rule, 0) + count
        modules.append(_count(entry.id, entry.checks, expected, found))
        kept += [r if i < EXPLAINED else msgspec.structs.replace(r, difference="") for i, r in enumerate(found)]
    if by_name:
        raise HarnessError(f"unit {min(by_name)} isn't in this recording: start the run anew")
    return BehaviourResult(tuple(modules), tuple(kept), forgiven, selection)


def _belongs(result: UnitResult, unit: Unit, selected: Sequence[tuple[str, str]]) -> None:
    ids = {id_ for id_, _ in selected}
    seen = {r.id for r in result.results}
    failed = sum(not r.outcome.passed for r in result.results)
    chain = hashlib.sha256("".join(print_ for _, print_ in selected).encode()).hexdigest()
    if (
        result.unit != unit
        or result.fingerprint != chain
        or result.expected != len(ids)
        or result.passed != len(ids) - failed
        or len(seen) != len(result.results)
        or not seen <= ids
    ):
        raise HarnessError(
            f"the stored result of {unit.name} doesn't belong to this recording and selection, so it can't be counted: "
            "start the run anew in another directory"
        )


def _count(module: str, recorded: int, expected: int, found: Sequence[CheckResult]) -> ModuleResult:
    def of(status: Status) -> int:
        return sum(r.outcome.status is status for r in found)

    quarantined = sum(r.flag == QUARANTINED for r in found)
    return ModuleResult(
        id=module,
        recorded=recorded,
        expected=expected,
        passed=expected - sum(not r.outcome.passed for r in found),
        failed=of(Status.FAIL),
        nondeterministic=of(Status.NONDETERMINISTIC),
        unreproduced=sum(r.flag == UNREPRODUCED for r in found),
        quarantined=quarantined,
        errors=of(Status.ERROR) - quarantined,
        not_run=of(Status.NOT_RUN),
    )


def replay(
    recording: Recording,
    open_submission: OpenWorker,
    open_reference: OpenWorker,
    *,
    jobs: int = 1,
    selection: Selection = ALL,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    sink: Callable[[CheckResult], None] = lambda result: None,
    size: int = UNIT,
) -> BehaviourResult:
    """Replay every unit and combine them. `on_progress` gets (checks done, at most this many); `sink` every result
    that isn't a plain pass, in order, with its explanation."""
    done = 0
    total = recording.total
    finished: list[UnitResult] = []
    confirmed: dict[str, int] = {}

    def count() -> None:
        nonlocal done
        done += 1
        on_progress(done, total)

    for unit in units(recording, size):
        result = replay_unit(
            recording,
            unit,
            open_submission,
            open_reference,
            jobs=jobs,
            selection=selection,
            confirmed_before=confirmed.get(unit.module, 0),
            on_check=count,
        )
        confirmed[unit.module] = confirmed.get(unit.module, 0) + result.confirmed
        for r in result.results:
            sink(r)
        finished.append(result)
    return combine(finished, recording, selection, size)
