"""One criterion, check, verifier or counterexample of a run, with its evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from refactorbench.audit.judges.judge import Sample
from refactorbench.audit.stage import AuditResult
from refactorbench.behaviour.fresh import FreshResult
from refactorbench.behaviour.model import Selection, UnitResult
from refactorbench.behaviour.replay import units
from refactorbench.catalog.load import load_task
from refactorbench.catalog.recordings import load_recording
from refactorbench.errors import UsageError, did_you_mean
from refactorbench.journal import read_json
from refactorbench.observe.model import Check
from refactorbench.options import QUICK_ONE_IN, RunOptions
from refactorbench.paths import RunPaths
from refactorbench.result import RunResult
from refactorbench.verification.model import StageResult, VerifierResult


def result_of(paths: RunPaths) -> RunResult:
    """The stored result; UsageError when the run has not ended."""
    if not paths.result.is_file():
        raise UsageError(f"{paths.root} has no result yet: go on with `refactorbench run --resume {paths.root}`")
    return read_json(paths.result, RunResult)


def stored(paths: RunPaths, name: str, kind: Any) -> Any:
    path = paths.root / "units" / f"{name}.json"
    return read_json(path, kind) if path.is_file() else None


def replay_units(paths: RunPaths) -> list[UnitResult]:
    return [read_json(p, UnitResult) for p in sorted((paths.root / "units" / "replay").glob("*/*.json"))]


def check_named(root: Path, paths: RunPaths, id: str) -> Check | None:
    """Return the recorded check `id` of the run's task, or None."""
    recording = load_recording(load_task(root, read_json(paths.options, RunOptions).task))
    module = id.partition("/")[0]
    if module not in {m.id for m in recording.manifest.modules}:
        return None
    return next((row.check for row in recording.rows(module) if row.check.id == id), None)


def criterion(root: Path, paths: RunPaths, id: str) -> dict[str, Any] | None:
    loaded = load_task(root, read_json(paths.options, RunOptions).task)
    audit: AuditResult | None = stored(paths, "audit", AuditResult)
    verdict = next((c for c in audit.verdict.criteria if c.id == id), None) if audit else None
    if audit is None or verdict is None:
        return None
    findings = [f for r in audit.docket.reports for f in r.findings if f.id in verdict.findings]
    eyes = next(c.eyes for c in loaded.criteria.criterion if c.id == id)
    covered = {r.eye.value: r.covered for r in audit.docket.reports if r.eye in eyes}
    refused = {f: why for f, why in audit.verdict.refused.items() if f in verdict.findings}
    found = {"criterion": verdict, "findings": findings, "refused": refused, "covered": covered}
    samples = [read_json(f, Sample) for f in sorted((paths.root / "units" / "judges" / id).glob("[0-9].json"))]
    return found | ({"samples": samples} if samples else {})


def check(root: Path, paths: RunPaths, id: str) -> dict[str, Any] | None:
    results = [r for u in replay_units(paths) for r in u.results]
    fresh: FreshResult | None = stored(paths, "fresh", FreshResult)
    results += list(fresh.results) if fresh else []
    hit = next((r for r in results if r.id == id), None)
    if hit is not None:
        return {"check": hit}
    known = check_named(root, paths, id)
    return (
        None if known is None else {"check": {"id": id, "module": known.module, "outcome": silent(root, paths, known)}}
    )


def silent(root: Path, paths: RunPaths, known: Check) -> str:
    """What it means that no result names a recorded check: it passed, wasn't chosen by --quick, or wasn't run."""
    options = read_json(paths.options, RunOptions)
    recording = load_recording(load_task(root, options.task))
    checks = recording.entry(known.module).checks
    seq = next(n for n, id in enumerate(recording.ids(known.module)) if id == known.id)
    chosen = Selection(QUICK_ONE_IN, options.seed).takes(known.id, known.module, seq, checks)
    if options.quick and not chosen:
        return "not run: --quick replays a tenth of the checks, and not this one"
    unit = next(u for u in units(recording) if u.module == known.module and u.start <= seq < u.stop)
    done = stored(paths, unit.name, UnitResult) is not None
    return "pass: no difference was seen" if done else "not run"


def verifier(paths: RunPaths, id: str) -> dict[str, Any] | None:
    stage: StageResult | None = stored(paths, "verification", StageResult)
    for v in stage.verifiers.values() if stage else ():
        if v.verifier == id or (v.counterexample and v.counterexample.id == id):
            script = paths.verification / v.counterexample.id / "reproduce.sh" if v.counterexample else None
            return {"verifier": v, "reproducer": str(script) if script and script.is_file() else ""}
    return None


def module(paths: RunPaths, id: str) -> dict[str, Any] | None:
    """Every check of module `id` that didn't plainly pass, or None when the run has no such module."""
    units = [u for u in replay_units(paths) if u.unit.module == id]
    return {"module": id, "checks": [r for u in units for r in u.results]} if units else None


def find(root: Path, paths: RunPaths, id: str) -> dict[str, Any]:
    """Return what `id` names in the run; UsageError with a suggestion when nothing has that id."""
    found = criterion(root, paths, id) or verifier(paths, id) or module(paths, id) or check(root, paths, id)
    if found is None:
        result = result_of(paths)
        known = [c.id for c in result.stage1.criteria] if result.stage1 else []
        known += [n for v in (result.stage3.verifiers if result.stage3 else ()) for n in (v.id, v.counterexample) if n]
        known += [r.id for u in replay_units(paths) for r in u.results]
        raise UsageError(
            f"{paths.root} has nothing named '{id}'{did_you_mean(id, known)}: name a criterion, module, "
            "check, verifier or counterexample"
        )
    return found


def text(found: dict[str, Any]) -> str:
    """Render one of `find`'s answers for people."""
    if "verifier" in found:
        return _verifier(found["verifier"], found["reproducer"])
    if "module" in found:
        rows = [f"  {r.outcome.status.value:16} {r.id}  {r.flag}".rstrip() for r in found["checks"]]
        return "\n".join([f"{found['module']}: {len(rows)} checks that didn't plainly pass", *rows])
    if "check" in found:
        data = msgspec.to_builtins(found["check"])
        lines = [f"{data['id']}  (module {data['module']})"]
        outcome = data["outcome"]
        lines.append(f"  {outcome if isinstance(outcome, str) else outcome['status'] + ': ' + outcome['cause']}")
        lines += [f"  {line}" for line in data.get("difference", "").splitlines()]
        return "\n".join(lines)
    c = found["criterion"]
    lines = [f"{c.id}: {c.outcome.status.value} by {c.by}" + (f"\n  {c.outcome.cause}" if c.outcome.cause else "")]
    for f in found["findings"]:
        lines += [f"  {f.strength.value} {f.kind} ({f.eye.value}): {f.why}", f"    at {msgspec.to_builtins(f.anchor)}"]
        if f.id in found["refused"]:
            lines.append(f"    refused: {found['refused'][f.id]}")
    lines += [
        f"  covered by {eye}: " + ", ".join(f"{k} {v}" for k, v in what.items())
        for eye, what in found["covered"].items()
    ]
    lines += [line for s in found.get("samples", ()) for line in _sample(s)]
    return "\n".join(lines)


def _sample(s: Sample) -> list[str]:
    """One judge's vote with what it rests on; the transcript is in the run's units/judges."""
    lines = [f"  judge {s.n + 1} ({s.model}): {'no vote' if s.lost else s.choice.value}: {s.lost or s.reason}"]
    lines += [f"    asked again on purpose, the former answers are kept beside it: {s.again}"] if s.again else []
    lines += [f"    sent back: {why}" for why in s.sent_back]
    lines += [f"    {c.kind} {c.what}" + (f"  DOESN'T STAND: {c.why}" if c.why else "") for c in s.checked]
    return lines


def _verifier(v: VerifierResult, reproducer: str) -> str:
    a = v.activity
    lines = [
        f"{v.verifier} {v.title}: {v.outcome.status.value}" + (f": {v.outcome.cause}" if v.outcome.cause else ""),
        f"  {a.executed} inputs on both sides, {a.denied} out of scope, {a.duplicates} repeated, "
        f"{a.divergences} divergences",
    ]
    lines += [f"  refused {n}: {why}" for why, n in sorted(a.refused.items())]
    if v.counterexample:
        ce = v.counterexample
        lines.append(f"  counterexample {ce.id}: {ce.size} bytes of input, {ce.original_size} before minimising")
        lines += [f"    {line}" for line in ce.explanation.splitlines()]
        lines += [f"    stand-alone: sh {reproducer} PRODUCT_TREE"] if reproducer else []
    return "\n".join(lines)
