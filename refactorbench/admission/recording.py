"""Record a task: State A and its other honest builds observe every check; what agrees in all passes is kept."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec

from refactorbench.admission.coverage import Instrumented, Survey, instrument, survey
from refactorbench.behaviour.recording import Pass, Recorded, halved, record, store
from refactorbench.build.builder import build_tree
from refactorbench.build.model import BuildReport
from refactorbench.build.toolchain import find
from refactorbench.catalog.load import load_task
from refactorbench.catalog.models import LoadedTask, Manifest, Recipe
from refactorbench.catalog.python import generator
from refactorbench.catalog.sources import fetch_state_a
from refactorbench.errors import HarnessError, ToolMissing
from refactorbench.observe.executor import EXECUTOR_VERSION, Executor
from refactorbench.observe.spec import worker_spec
from refactorbench.progress import Progress
from refactorbench.sandbox.bubblewrap import BubblewrapSandbox
from refactorbench.sandbox.protocol import Sandbox

ALLOWED_RULES: tuple[str, ...] = ()  # no normalisation is tried unless the task's generator names it on the check


class RecordSummary(msgspec.Struct, frozen=True):
    """`holes`: a host file that lists the lines no check reaches, "" where coverage wasn't measured; `unlike`: checks
    that ended otherwise than recorded on the build that measures it."""

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
        shares = self.manifest.coverage
        if not shares:
            return ["coverage of State A's lines: not measured, since task.toml has no coverage_env"]
        lines = [f"coverage of State A's lines: {shares['total']:.1%}; not reached: {self.holes}"]
        lines += [f"  {share:6.1%} {name}" for name, share in shares.items() if name != "total"]
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
    """Build every honest variant whose toolchain is here; others are named and left out."""
    built: dict[str, BuildReport] = {}
    for v in loaded.task.variants:
        recipe = msgspec.structs.replace(
            loaded.task.reference, env={**loaded.task.reference.env, **v.env}, toolchain=v.toolchain
        )
        try:
            progress.say(f"building State A as {v.id}")
            built[v.id] = build_state_a(loaded, recipe, state_a, sandbox, cache, work / v.id)
        except ToolMissing as e:
            progress.say(f"variant {v.id} is left out: {e}")
    return built


def instrumented(
    loaded: LoadedTask, state_a: Path, sandbox: Sandbox, cache: Path, work: Path, progress: Progress
) -> Instrumented | None:
    """State A's build for measuring coverage, None where the task doesn't ask for it."""
    if not loaded.task.coverage_env:
        return None
    progress.say("building State A to measure coverage")
    return instrument(loaded, state_a, sandbox, cache, work)


def unlike(recorded: Recorded, found: Survey) -> tuple[str, ...]:
    """Ids of checks that ended otherwise in `found` than recorded: what they covered isn't what they cover."""
    ends = {c.id: o.code if o.ended == "exit" else -o.code for c, o in recorded.rows if c.id in found.ends}
    return tuple(id for id, end in ends.items() if found.ends[id] != end)


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
    put = partial(store, loaded, recorded, executor=EXECUTOR_VERSION, seed=seed)
    manifest = put(coverage={})  # what was recorded is kept if measuring fails
    if measured is None:
        return RecordSummary(manifest)
    progress.say("measuring coverage")
    found = survey(measured, loaded, sandbox, (check for check, _ in recorded.rows))
    holes = work / "coverage" / "holes.txt"
    holes.write_text("".join(f"{hole}\n" for hole in found.holes()))
    return RecordSummary(put(coverage=found.shares()), str(holes), unlike(recorded, found))
