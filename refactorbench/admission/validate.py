"""Is a task fit to judge by? State A must replay its own recording; every control must get its outcome."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path

import msgspec

from refactorbench.admission.coverage import bar
from refactorbench.admission.recording import build_state_a, variants
from refactorbench.audit.docket import Strength
from refactorbench.audit.stage import AuditResult
from refactorbench.behaviour.model import Selection
from refactorbench.behaviour.replay import replay
from refactorbench.build.model import BuildReport
from refactorbench.catalog.controls import Control, ControlContext, list_controls, make_tree
from refactorbench.catalog.load import load_task
from refactorbench.catalog.models import LoadedTask
from refactorbench.catalog.python import generator
from refactorbench.catalog.recordings import Recording, against_generator, load_recording
from refactorbench.catalog.sources import fetch_state_a
from refactorbench.journal import read_json
from refactorbench.observe.executor import Executor
from refactorbench.observe.spec import worker_spec
from refactorbench.options import STAGES, RunOptions
from refactorbench.outcome import Status
from refactorbench.pipeline import run_pipeline
from refactorbench.progress import Progress
from refactorbench.result import RunResult
from refactorbench.sandbox.bubblewrap import BubblewrapSandbox

FULL_RUNS = 3  # of the solution and of noop, each with its own seed: what a task is admitted on


class Seen(msgspec.Struct, frozen=True):
    """A control's run beside what it must come to. `score` 0..1, None: unscored; `proofs` and `leads` that stand are
    "eye: kind"."""

    control: Control
    stage1: str
    stage2: str
    stage3: str
    score: float | None
    proofs: tuple[str, ...]
    leads: tuple[str, ...]


class Line(msgspec.Struct, frozen=True):
    """One thing that was held against what it must be; `seen` for a control."""

    what: str
    ok: bool
    detail: str
    seen: Seen | None = None


class Validation(msgspec.Struct, frozen=True):
    task: str
    full: bool
    lines: tuple[Line, ...]

    @property
    def ok(self) -> bool:
        return all(line.ok for line in self.lines)

    @property
    def bad(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if not line.ok)

    def text(self) -> str:
        head = f"{self.task}: " + (
            "every check, whole budgets" if self.full else "a seeded tenth of the checks, short budgets"
        )
        return "\n".join([head, *(f"  {'ok ' if n.ok else 'BAD'} {n.what}: {n.detail}" for n in self.lines)])


def replays(
    loaded: LoadedTask,
    recording: Recording,
    name: str,
    report: BuildReport,
    reference: BuildReport,
    full: bool,
    jobs: int,
) -> Line:
    """Replay one honest build of State A: every selected check must pass, none unreproduced."""
    sandbox = BubblewrapSandbox()
    open_one = partial(Executor, sandbox, worker_spec(loaded.task, Path(report.product)))
    open_two = partial(Executor, sandbox, worker_spec(loaded.task, Path(reference.product)))
    selection = Selection() if full else Selection(10, 1)
    result = replay(recording, open_one, open_two, jobs=jobs, selection=selection)
    first = f"; first: {result.results[0].id}: {result.results[0].outcome.cause}" if result.results else ""
    return Line(f"State A as {name}", not result.results, f"{result.passed} of {result.expected} checks pass{first}")


def accepts(
    loaded: LoadedTask, agent: str, full: bool, jobs: int, root: Path, cache: Path, out: Path, progress: Progress
) -> list[Line]:
    """Put the solution or noop through all stages, under three seeds if `full`: S must be 1 or 0."""
    lines = []
    for seed in range(1, (FULL_RUNS if full else 1) + 1):
        progress.say(f"agent {agent}, seed {seed}")
        options = RunOptions(
            task=loaded.task.id, agent=agent, panel="offline" if full else "quick", jobs=jobs, quick=not full, seed=seed
        )
        result = run_pipeline(root, options, out / f"{agent}-{seed}", cache, progress)
        value, wanted = result.score.value, 1.0 if agent == "solution" else 0.0
        told = "unscored" if value is None else f"S = {100 * value:.0f}"
        faults = [] if value == wanted else [f"{told}, must be {100 * wanted:.0f}: {'; '.join(result.score.why)}"]
        if agent == "noop" and not result.blind:
            faults.append("State A unchanged passes no longer every check: record the task again")
        lines.append(Line(f"agent {agent}, seed {seed}", not faults, "; ".join(faults) or told))
    return lines


def judge_control(control: Control, result: RunResult, audit: AuditResult) -> Line:
    """Hold a control's run against its expectation."""
    want, faults = control.expect, []
    g = {1: "pass", 0: "fail", None: "undecided"}[result.stage1.g if result.stage1 else None]
    if g != want.stage1:
        faults.append(f"stage I is {g}, must be {want.stage1}")
    strength = Strength.PROOF if want.stage1 == "fail" else Strength.LEAD
    findings = [f for r in audit.docket.reports for f in r.findings]
    standing = {f.kind for f in findings if f.strength is strength and f.id not in audit.verdict.refused}
    if want.kinds and not standing & set(want.kinds):
        faults.append(f"no {strength.value} of {', '.join(want.kinds)}; found {', '.join(sorted(standing)) or 'none'}")
    proofs = [f for f in findings if f.strength is Strength.PROOF]  # refused ones too: no witness may be mistaken here
    eyes = sorted({f.eye for f in proofs})
    if want.witness and eyes != [want.witness]:
        faults.append(f"proofs come from {', '.join(eyes) or 'no eye'}, must come from {want.witness} alone")
    if control.kind == "twin" and proofs:
        faults.append(f"a benign twin met the proofs {', '.join(sorted({f.kind for f in proofs}))}")
    complete = {True: "pass", False: "fail", None: "open"}[result.stage2.complete if result.stage2 else None]
    if want.stage2 != "any" and complete != want.stage2:
        faults.append(f"stage II is {complete}, must be {want.stage2}")
    upheld = [v.id for v in result.stage3.verifiers if v.outcome.status is Status.FAIL] if result.stage3 else []
    third = "not_run" if result.stage3 is None else "fail" if upheld else "pass"
    if want.stage3 != third:
        faults.append(f"stage III is {third}, must be {want.stage3}")
    score = "unscored" if result.score.value is None else f"S = {100 * result.score.value:.0f}"
    proofs_text = ", ".join(sorted(standing)) if want.stage1 == "fail" else ""
    told = f"{score}; I {g}" + (f" by {proofs_text}" if proofs_text else "") + f", II {complete}, III {third}"
    stand = {
        s: tuple(
            sorted({f"{f.eye}: {f.kind}" for f in findings if f.strength is s and f.id not in audit.verdict.refused})
        )
        for s in Strength
    }
    seen = Seen(control, g, complete, third, result.score.value, stand[Strength.PROOF], stand[Strength.LEAD])
    return Line(f"{control.kind} {control.id}", not faults, "; ".join(faults) or told, seen)


def run_control(
    control: Control,
    context: ControlContext,
    root: Path,
    cache: Path,
    full: bool,
    jobs: int,
    out: Path,
    progress: Progress,
) -> Line:
    """Make the control's tree, put it through the funnel, judge it."""
    folder = out / control.id
    tree = make_tree(control, context, folder / "tree")
    # stage III is part of the outcome only where the control reaches it
    stages = STAGES if control.expect.stage3 != "not_run" else ("audit", "behaviour")
    options = RunOptions(
        task=context.loaded.task.id, agent="submission", submission=str(tree), panel="offline" if full else "quick",
        stages=stages, jobs=jobs, quick=not full,
    )  # fmt: skip
    result = run_pipeline(root, options, folder / "run", cache, progress)
    return judge_control(control, result, read_json(folder / "run" / "units" / "audit.json", AuditResult))


def validate(
    root: Path, id: str, cache: Path, full: bool, only: tuple[str, ...], jobs: int, out: Path | None, progress: Progress
) -> Validation:
    """Check a task's data, State A's other builds and its controls. Files and runs are kept in `out` if given."""
    loaded = load_task(root, id)
    recording = load_recording(loaded)
    sandbox = BubblewrapSandbox()
    state_a = fetch_state_a(loaded.task.state_a, cache, progress.say)
    work = Path(out) if out else Path(tempfile.mkdtemp(prefix="refactorbench-validate-"))
    lines: list[Line] = []
    try:
        reference = build_state_a(loaded, loaded.task.reference, state_a, sandbox, cache, work / "reference")
        if not only:
            stray = list(against_generator(recording, generator(loaded).fixed(recording.manifest.seed)))
            lines.append(
                Line(
                    "recording",
                    not stray,
                    stray[0] if stray else f"{recording.total} checks, as the generator makes them",
                )
            )
            lines.append(Line("coverage of State A", *bar(loaded.task.admission, recording.manifest)))
            builds = {"reference": reference, **variants(loaded, state_a, sandbox, cache, work, progress)}
            for name, report in builds.items():
                lines.append(replays(loaded, recording, name, report, reference, full, jobs))
            for agent in [*(["solution"] if (loaded.folder / "solution").is_dir() else []), "noop"]:
                lines += accepts(loaded, agent, full, jobs, root, cache, work, progress)
        context = ControlContext(state_a, Path(reference.product), recording, loaded)
        for control in list_controls(loaded):
            if not only or control.id in only:
                progress.say(f"control {control.id}: {control.title}")
                lines.append(run_control(control, context, root, cache, full, jobs, work, progress))
        return Validation(id, full, tuple(lines))
    finally:
        if out is None:
            shutil.rmtree(work, ignore_errors=True)
