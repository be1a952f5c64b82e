"""Record a task: State A and its other honest builds observe every check; what agrees in all passes is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from refactorbench.admission.coverage import Instrumented, Survey, instrument, survey
from refactorbench.behaviour.recording import Pass, halved, record, store
from refactorbench.build.builder import build_tree
from refactorbench.build.model import BuildReport
from refactorbench.build.toolchain import find
from refactorbench.catalog.load import load_task
from refactorbench.catalog.models import LoadedTask, Manifest, Recipe
from refactorbench.catalog.python import generator
from refactorbench.catalog.recordings import load_recording
from refactorbench.catalog.sources import fetch_state_a
from refactorbench.errors import HarnessError, ToolMissing, UsageError
from refactorbench.journal import write_json
from refactorbench.observe.executor import EXECUTOR_VERSION, Executor
from refactorbench.observe.model import Check, Observation
from refactorbench.observe.spec import worker_spec
from refactorbench.progress import Progress
from refactorbench.sandbox.bubblewrap import BubblewrapSandbox
from refactorbench.sandbox.protocol import Sandbox

ALLOWED_RULES: tuple[str, ...] = ()  # no normalisation is tried unless the task's generator names it on the check


class RecordSummary(msgspec.Struct, frozen=True):
    """`holes`: a host file that lists the lines that no check reaches and the branches that none takes, "" where
    coverage wasn't measured; `unlike`: checks that ended otherwise than recorded on the build that measures it."""

    manifest: Manifest
    holes: str = ""
    unlike: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return sum(m.checks for m in self.manifest.modules)

    def text(self) -> str:
        lines = [
            f"recorded {self.total} checks in {len(self.manifest.modules)} modules; "
            f"passes: {', '.join(self.manifest.passes)}"
        ]
        lines += [f"  {m.checks:5d} {m.id}" for m in self.manifest.modules]
        lines += [f"  dropped {id_}: {why}" for id_, why in sorted(self.manifest.dropped.items())[:20]]
        return "\n".join([*lines, *self._coverage()])

    def _coverage(self) -> list[str]:
        shares, branches = self.manifest.coverage, self.manifest.branches
        if not shares:
            return ["coverage of State A: not measured, since task.toml has no coverage_env"]
        of = {name: format(branches[name], ".1%") if name in branches else "no" for name in shares}
        head = f"coverage of State A: {shares['total']:.1%} of lines, {of['total']} branches; not reached: {self.holes}"
        lines = [head, *(f"  {shares[name]:6.1%} {of[name]:>6} {name}" for name in shares if name != "total")]
        if self.unlike:
            some = ", ".join(self.unlike[:5])
            lines.append(f"  {len(self.unlike)} checks ended otherwise on the build that measures it: {some}")
        return lines


def build_state_a(
    loaded: LoadedTask, recipe: Recipe, state_a: Path, sandbox: Sandbox, cache: Path, work: Path
) -> BuildReport:
    """Build State A by `recipe`; HarnessError when it doesn't build."""
    report = build_tree(
        state_a, recipe, loaded=loaded, sandbox=sandbox, toolchain=find(recipe.toolchain), cache=cache, workdir=work,
        role="reference",
    )  # fmt: skip
    if report.status != "built":
        raise HarnessError(
            f"State A doesn't build here by {recipe.script} with {recipe.env}: {report.cause}; see {report.log}"
        )
    return report


def variants(
    loaded: LoadedTask, state_a: Path, sandbox: Sandbox, cache: Path, work: Path, progress: Progress
) -> dict[str, BuildReport]:
    """Build every honest variant. An optional one whose toolchain isn't here is left out and said to be; ToolMissing
    for any other."""
    built: dict[str, BuildReport] = {}
    for v in loaded.task.variants:
        recipe = msgspec.structs.replace(
            loaded.task.reference, env={**loaded.task.reference.env, **v.env}, toolchain=v.toolchain
        )
        try:
            find(v.toolchain)
        except ToolMissing as e:
            if not v.optional:
                raise ToolMissing(f"variant {v.id} of {loaded.task.id} can't be built: {e}") from e
            progress.say(f"variant {v.id} is left out, and what moves under it with it: {e}")
            continue
        progress.say(f"building State A as {v.id}")
        built[v.id] = build_state_a(loaded, recipe, state_a, sandbox, cache, work / v.id)
    return built


def instrumented(
    loaded: LoadedTask, state_a: Path, sandbox: Sandbox, cache: Path, work: Path, progress: Progress
) -> Instrumented | None:
    """State A's build for measuring coverage, None where the task doesn't ask for it."""
    if not loaded.task.coverage_env:
        return None
    progress.say("building State A to measure coverage")
    return instrument(loaded, state_a, sandbox, cache, work)


def unlike(rows: Iterable[tuple[Check, Observation]], found: Survey) -> tuple[str, ...]:
    """Ids of checks that ended otherwise in `found` than recorded: what they covered isn't what they cover."""
    ends = {c.id: o.code if o.ended == "exit" else -o.code for c, o in rows if c.id in found.ends}
    return tuple(id for id, end in ends.items() if found.ends[id] != end)


def put_coverage(
    loaded: LoadedTask,
    manifest: Manifest,
    rows: Sequence[tuple[Check, Observation]],
    measured: Instrumented,
    sandbox: Sandbox,
    progress: Progress,
) -> RecordSummary:
    """Measure what the recorded checks cover and write that into the manifest, which says the rest as before."""
    progress.say("measuring coverage")
    found = survey(measured, loaded, sandbox, (check for check, _ in rows))
    holes = measured.room.folder.parent / "holes.txt"
    holes.write_text("".join(f"{hole}\n" for hole in (*found.holes(), *found.untaken())))
    manifest = msgspec.structs.replace(manifest, coverage=found.shares(), branches=found.branch_shares())
    write_json(loaded.recording / "manifest.json", manifest)
    return RecordSummary(manifest, str(holes), unlike(rows, found))


def record_coverage(root: Path, id: str, cache: Path, progress: Progress) -> RecordSummary:
    """Measure the coverage of recordings/<id>/ as it stands. UsageError where the task has no coverage_env."""
    loaded, sandbox = load_task(root, id), BubblewrapSandbox()
    recording = load_recording(loaded)
    state_a = fetch_state_a(loaded.task.state_a, cache, progress.say)
    measured = instrumented(loaded, state_a, sandbox, cache, cache / "work" / f"record-{id}" / "coverage", progress)
    if measured is None:
        raise UsageError(
            f"--coverage-only: {loaded.folder / 'task.toml'} has no coverage_env, so there is nothing to measure with: "
            "add the environment of a build with gcc's --coverage"
        )
    rows = [(row.check, row.observation) for m in recording.manifest.modules for row in recording.rows(m.id)]
    return put_coverage(loaded, recording.manifest, rows, measured, sandbox, progress)


def record_task(root: Path, id: str, cache: Path, seed: int, jobs: int, progress: Progress) -> RecordSummary:
    """Write recordings/<id>/ anew. Passes: as given; reversed under load; half the limits; each variant shuffled."""
    loaded = load_task(root, id)
    sandbox = BubblewrapSandbox()
    state_a = fetch_state_a(loaded.task.state_a, cache, progress.say)
    work = cache / "work" / f"record-{id}"
    reference = build_state_a(loaded, loaded.task.reference, state_a, sandbox, cache, work / "reference")
    spec = worker_spec(loaded.task, Path(reference.product))
    measured = instrumented(loaded, state_a, sandbox, cache, work / "coverage", progress)  # first: it may fail
    half = msgspec.structs.replace(spec, limits=halved(spec.limits))
    passes = {
        "reference": Pass(partial(Executor, sandbox, spec), "given", jobs),
        "reversed-loaded": Pass(partial(Executor, sandbox, spec), "reversed", jobs * 2),
        "half-limits": Pass(partial(Executor, sandbox, half), "shuffled", jobs),
    }
    for name, report in variants(loaded, state_a, sandbox, cache, work, progress).items():
        other = msgspec.structs.replace(spec, product=Path(report.product))
        passes[name] = Pass(partial(Executor, sandbox, other), "shuffled", jobs)
    recorded = record(
        generator(loaded).fixed(seed), passes, limits=loaded.task.limits, seed=seed, allowed_rules=ALLOWED_RULES,
        on_progress=partial(progress.tick, "recording"),
    )  # fmt: skip
    # what was recorded is kept if measuring fails
    manifest = store(loaded, recorded, executor=EXECUTOR_VERSION, seed=seed, coverage={})
    if measured is None:
        return RecordSummary(manifest)
    return put_coverage(loaded, manifest, recorded.rows, measured, sandbox, progress)
