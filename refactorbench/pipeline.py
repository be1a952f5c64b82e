"""A whole run, top to bottom: agent -> build -> audit -> behaviour -> verification -> score.

Each unit of work is done once, stored, then journaled; a second start in the same directory goes on with the first unit
that has no record. The order is fixed: the docket closes when replay has ended, stage I is decided before stage II is
credited, stage III runs only when both passed or when it is asked for alone.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from refactorbench import evidence, summary
from refactorbench.agents.baselines import agent_named
from refactorbench.agents.collect import collect
from refactorbench.agents.protocol import AgentContext
from refactorbench.audit.docket import Docket
from refactorbench.audit.judges.judge import Sample
from refactorbench.audit.judges.offline import OfflinePanel
from refactorbench.audit.stage import AuditResult, conclude
from refactorbench.audit.verdict import Opened, required_outcomes
from refactorbench.behaviour.fresh import FreshResult
from refactorbench.behaviour.model import BehaviourResult, Selection, UnitResult
from refactorbench.behaviour.replay import combine, replay_unit, units
from refactorbench.build.builder import build_tree
from refactorbench.build.model import BuildReport
from refactorbench.catalog.load import chosen_panel, load_task, panel_fingerprint, panel_label
from refactorbench.catalog.recordings import load_recording
from refactorbench.errors import HarnessError, UsageError
from refactorbench.hashing import sha256_file, tree_digest
from refactorbench.journal import Journal, Record, read_json, sweep_temporary, write_json
from refactorbench.observe.executor import RESTARTS, Executor
from refactorbench.observe.spec import base_env, worker_spec
from refactorbench.options import QUICK_ONE_IN, Lock, RunOptions
from refactorbench.paths import RunPaths
from refactorbench.prepare import Prepared, make_lock, prepare, refuse_other_lock, refuse_other_version
from refactorbench.progress import Progress
from refactorbench.result import RunResult
from refactorbench.sandbox.protocol import Worker
from refactorbench.scoring import gate
from refactorbench.verification.broken import broken_product
from refactorbench.verification.model import ChunkResult, StageResult
from refactorbench.verification.reproducer import write as write_reproducer
from refactorbench.verification.stage import plans, verify

T = TypeVar("T")


class Submitted(msgspec.Struct, frozen=True):
    """The collected tree: its digest, who made it, how they stopped, what was left out."""

    agent: str
    stop: str
    note: str
    digest: str
    removed: tuple[str, ...]


class Builds(msgspec.Struct, frozen=True):
    """The reference's build, the target's, and State A's recipe on the submission where the target doesn't exist."""

    reference: BuildReport
    target: BuildReport
    fallback: BuildReport | None

    @property
    def prevented(self) -> bool:
        """True when this machine, and not the submission, is why there is no product."""
        return "harness" in (self.target.status, self.fallback.status if self.fallback else "")

    @property
    def replayed(self) -> BuildReport | None:
        """The build whose product is replayed, or None when there is no product at all."""
        if self.target.status == "built":
            return self.target
        return self.fallback if self.fallback and self.fallback.status == "built" else None


class Stored:
    """One run's directory: units that are done are read back, others are made, stored and journaled."""

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths
        self.journal = Journal(paths.journal)
        self._writing = threading.Lock()
        sweep_temporary(paths.root)

    def file(self, name: str) -> Path:
        return self.paths.root / "units" / f"{name}.json"

    def unit(
        self,
        name: str,
        kind: type[T],
        make: Callable[[], T],
        after: Iterable[str] = (),
        left_open: Callable[[T], bool] = lambda _: False,
    ) -> T:
        """Return the unit's value. It is made where it isn't stored, where one of `after`, which it rests on, was made
        anew since, and where the harness prevented a verdict (`left_open`): a second start is another attempt."""
        with self._writing:
            stands = self.journal.done(name) and not self.journal.outdated(name, after)
        if stands:
            value = read_json(self.file(name), kind)
            if not left_open(value):
                return value
        value = make()
        self.put(name, value)
        return value

    def put(self, name: str, value: object) -> None:
        """Store and journal; the record always points at a complete file."""
        write_json(self.file(name), value)
        with self._writing:
            self.journal.append(Record(name, time.time()))


def run_pipeline(
    root: Path, options: RunOptions, out: Path, cache: Path, progress: Progress, again: frozenset[str] = frozenset()
) -> RunResult:
    """Run (or go on with) everything `options.stages` asks for in directory `out`; return the result. `again`: names of
    judges' samples that are asked once more."""
    paths = RunPaths(out)
    if paths.lock.is_file():
        refuse_other_version(paths)
    prepared = prepare(root, options, cache, out, progress.say)
    lock = make_lock(prepared, options)
    stored = Stored(paths)
    try:
        if not paths.options.is_file():
            write_json(paths.options, options)  # first: it is what makes the folder a run that can be resumed
        if paths.lock.is_file():
            refuse_other_lock(read_json(paths.lock, Lock), lock, paths)
        else:
            write_json(paths.lock, lock)
        result = Run(prepared, options, stored, progress, again).execute()
        write_json(paths.result, result)
        if not stored.journal.done("end"):
            stored.journal.append(Record("end", time.time()))
        return result
    finally:
        stored.journal.close()


class Run:
    """The funnel itself. Every method is one act."""

    def __init__(
        self, prepared: Prepared, options: RunOptions, stored: Stored, progress: Progress, again: frozenset[str]
    ) -> None:
        self.p, self.options, self.stored, self.progress, self.again = prepared, options, stored, progress, again
        self.paths = stored.paths
        self.selection = Selection(QUICK_ONE_IN, options.seed) if options.quick else Selection()

    def execute(self) -> RunResult:
        submitted = self.stored.unit("agent", Submitted, self.migrate)
        builds = self.stored.unit("build", Builds, self.build, ("agent",), lambda b: b.prevented)
        behaviour = self.replay(builds) if {"behaviour", "audit"} & set(self.options.stages) else None
        fresh = self.fresh(builds) if behaviour else None
        audit = self.audit(builds, behaviour, fresh) if "audit" in self.options.stages else None
        if "behaviour" not in self.options.stages:
            behaviour = None
        verification = self.verify(builds) if self.wants_verification(audit, behaviour, builds) else None
        return summary.summarise(
            self.p.loaded, self.p.label, self.options, submitted, builds, audit, behaviour, fresh, verification
        )

    def migrate(self) -> Submitted:
        """Run the agent, or take the tree handed in; collect it into the run directory."""
        shutil.rmtree(self.paths.submission, ignore_errors=True)
        exclude = self.p.loaded.task.exclude
        if self.options.submission:
            removed = collect(Path(self.options.submission), self.paths.submission, exclude)
            return Submitted("submission", "done", "a tree handed in", tree_digest(self.paths.submission), removed)
        self.progress.say(f"agent {self.options.agent}")
        work = self.paths.root / "work"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(self.p.state_a, work, symlinks=True)
        agent = agent_named(self.options.agent, self.options.model, self.options.settings)
        log = self.paths.root / "agent.log"
        report = agent.migrate(
            AgentContext(
                self.p.loaded, self.p.state_a, work, log, self.p.sandbox, self.progress.say, self.paths.agent,
                lambda: Path(self.reference().product),
            )
        )  # fmt: skip
        removed = collect(work, self.paths.submission, exclude, may_be_empty=True)
        shutil.rmtree(work)
        return Submitted(agent.name, report.stop, report.note, tree_digest(self.paths.submission), removed)

    def reference(self) -> BuildReport:
        """State A's own build. HarnessError when there is none."""
        self.progress.say("State A: built once, then kept for later runs")
        reference = build_tree(
            self.p.state_a, self.p.loaded.task.reference, loaded=self.p.loaded, sandbox=self.p.sandbox,
            toolchain=self.p.reference_tools, cache=self.p.cache, workdir=self.paths.build / "reference",
            role="reference",
        )  # fmt: skip
        if reference.status != "built":
            raise HarnessError(f"State A doesn't build on this machine, so nothing can be judged: {reference.cause}")
        return reference

    def build(self) -> Builds:
        """Build the reference (cached by content) and the submission, traced; by State A's recipe if that fails."""
        task = self.p.loaded.task
        make = partial(build_tree, loaded=self.p.loaded, sandbox=self.p.sandbox, cache=self.p.cache)
        reference = self.reference()
        self.progress.say("building the submission, traced")
        target = make(
            self.paths.submission, task.target, toolchain=self.p.target_tools, workdir=self.paths.build / "target",
            role="target",
        )  # fmt: skip
        fallback = None
        if target.status == "failed":
            self.progress.say(f"the target stack builds nothing ({target.cause}); trying State A's recipe on the tree")
            fallback = make(
                self.paths.submission, task.reference, toolchain=self.p.reference_tools,
                workdir=self.paths.build / "fallback", role="reference",
            )  # fmt: skip
        return Builds(reference, target, fallback)

    def opener(self, product: str, trace: Path | None = None) -> Callable[[], Worker]:
        spec = worker_spec(self.p.loaded.task, Path(product), trace)
        # a second worker would begin the trace anew: whoever traces goes on in another file
        restarts = RESTARTS if trace is None else 0
        return lambda: Executor(self.p.sandbox, spec, restarts)

    def replay(self, builds: Builds) -> BehaviourResult:
        """Replay every recorded check; a submission without any product leaves them all not run."""
        built = builds.replayed
        results: list[UnitResult] = []
        if built is not None:
            submission, reference = self.opener(built.product), self.opener(builds.reference.product)
            confirmed: dict[str, int] = {}
            total = self.p.recording.total // self.selection.one_in
            seen = 0

            def one_more() -> None:
                nonlocal seen
                seen += 1
                self.progress.tick("replaying", seen, total)

            for unit in units(self.p.recording):
                make = partial(
                    replay_unit, self.p.recording, unit, submission, reference, jobs=self.options.jobs,
                    selection=self.selection, confirmed_before=confirmed.get(unit.module, 0), on_check=one_more,
                )  # fmt: skip
                result = self.stored.unit(unit.name, UnitResult, make, ("build",), lambda r: r.open > 0)
                confirmed[unit.module] = confirmed.get(unit.module, 0) + result.confirmed
                results.append(result)
                seen = sum(r.expected for r in results)
        return combine(results, self.p.recording, self.selection)

    def fresh(self, builds: Builds) -> FreshResult | None:
        """Draw fresh checks and put them to both sides; None without a product."""
        built = builds.replayed
        if built is None:
            return None
        submission, reference = self.opener(built.product), self.opener(builds.reference.product)
        make = partial(evidence.fresh, self.p, self.options, submission, reference)
        return self.stored.unit("fresh", FreshResult, make, ("build",))

    def audit(self, builds: Builds, behaviour: BehaviourResult | None, fresh: FreshResult | None) -> AuditResult:
        """Witnesses, docket, grounding, votes, verdict: on what the build, every replayed check and the fresh ones
        showed. With judges the docket is a unit of its own, and so is each sample: a vote rests on one docket."""

        def docket() -> Opened:
            self.progress.say("stage I: witnesses")
            return evidence.gather_run(
                self.p, self.options, self.paths.submission, self.paths.audit, builds, behaviour, fresh, self.opener,
                self.paths.agent / "journal.jsonl",
            )  # fmt: skip

        def lost(of: Docket) -> bool:
            return any(r.status == "lost" for r in of.reports)

        criteria, after = self.p.loaded.criteria, ("build", "fresh", *self.stored.journal.units("replay/"))
        if self.p.panel.judges.kind == "none":
            return self.stored.unit(
                "audit", AuditResult, lambda: conclude(criteria, docket(), OfflinePanel()), after,
                lambda a: lost(a.docket),
            )  # fmt: skip
        opened = self.stored.unit("docket", Opened, docket, after, lambda o: lost(o.docket))
        panel = evidence.judges(
            self.p, self.options, self.paths.submission, opened, self.keep_sample, self.progress.say
        )
        after = ("docket", *self.stored.journal.units("judges/"))
        return self.stored.unit(
            "audit", AuditResult, lambda: conclude(criteria, opened, panel), after,
            lambda a: bool(a.missing) or bool(self.again),
        )  # fmt: skip

    def keep_sample(self, name: str, make: Callable[[], Sample]) -> Sample:
        """A sample is a unit. One that is asked again on purpose is kept beside the new one, and counted there."""
        place, former = self.stored.file(name), None
        if name in self.again:
            former = read_json(place, Sample)
            shutil.copyfile(place, place.with_name(f"{place.stem}.was-{former.again + 1}.json"))

        def anew() -> Sample:
            return msgspec.structs.replace(make(), again=former.again + 1) if former else make()

        return self.stored.unit(name, Sample, anew, ("docket",), lambda s: bool(s.lost) or former is not None)

    def wants_verification(self, audit: AuditResult | None, behaviour: BehaviourResult | None, builds: Builds) -> bool:
        """Only after both earlier stages passed, or when asked for alone."""
        if "verification" not in self.options.stages or builds.replayed is None:
            return False
        if audit is not None and gate(required_outcomes(self.p.loaded.criteria, audit.verdict))[0] != 1:
            return False
        return behaviour is None or behaviour.verdict()[0] is True

    def verify(self, builds: Builds) -> StageResult:
        """Stage III; beside the stored result a stand-alone reproducer of each counterexample is written."""
        result = self.stored.unit(
            "verification", StageResult, partial(self.hunt, builds), ("build",),
            lambda r: any(o.prevents_verdict for o in r.outcomes.values()),
        )  # fmt: skip
        env = {k: v for k, v in base_env(self.p.loaded.task.runtime) if k not in (b"PATH", b"HOME")}
        for verifier in result.verifiers.values():
            if verifier.counterexample is not None:
                write_reproducer(verifier.counterexample, self.paths.verification / verifier.counterexample.id, env)
        return result

    def hunt(self, builds: Builds) -> StageResult:
        """Six verifiers side by side; each chunk is a unit."""
        built = builds.replayed
        assert built is not None
        task, briefs = self.p.loaded.task, self.p.loaded.briefs
        seats = plans(
            briefs, self.p.panel, self.p.loaded.root / "verifiers" / briefs.module, task.limits, self.options.seed
        )
        with broken_product(Path(builds.reference.product), self.p.cache) as broken:
            bench = evidence.bench(self.p, builds.reference.product, built.product, str(broken))
            inputs = dict.fromkeys((s.verifier for s in seats), 0)
            total = sum(s.budget for s in seats)

            def keep(verifier: str, chunk: ChunkResult) -> None:
                self.stored.put(f"verify/{verifier}/{chunk.k:04d}", chunk)

            def tick(verifier: str, executed: int) -> None:
                inputs[verifier] = executed
                self.progress.tick("verifiers' inputs", sum(inputs.values()), total)

            return verify(
                seats, bench, jobs=self.options.jobs, done=evidence.chunks_done(self.stored, seats), on_chunk=keep,
                on_progress=tick,
            )  # fmt: skip


def rescore(
    root: Path, paths: RunPaths, reviewed: Callable[[AuditResult], AuditResult] = lambda audit: audit
) -> RunResult:
    """Compute the result anew from a run's stored evidence, running nothing; `reviewed` may put people's verdicts in
    place of the panel's. UsageError when a stage is incomplete."""
    lock, options = read_json(paths.lock, Lock), read_json(paths.options, RunOptions)
    loaded = load_task(root, options.task)
    panel = chosen_panel(root, options.panel, options.judges)
    if panel_fingerprint(panel) != lock.panel_fingerprint:
        raise UsageError(
            f"panel '{options.panel}' is another one than when {paths.root} was graded: its score can't be recomputed; "
            "restore the panel's file, or grade anew"
        )
    recording = load_recording(loaded)
    if sha256_file(loaded.recording / "manifest.json") != lock.recording_sha256:
        raise UsageError(f"recording of {options.task} is another one than {paths.root} was graded with: restore it")
    units_dir = paths.root / "units"

    def stored(name: str, kind: type[T]) -> T:
        if not (units_dir / f"{name}.json").is_file():
            raise UsageError(
                f"{paths.root} has no {name} yet, so there is nothing to score: go on with `refactorbench run --resume "
                f"{paths.root}`"
            )
        return read_json(units_dir / f"{name}.json", kind)

    def maybe(name: str, kind: type[T]) -> T | None:
        return stored(name, kind) if (units_dir / f"{name}.json").is_file() else None

    if not paths.result.is_file():
        raise UsageError(f"{paths.root} has not ended: go on with `refactorbench run --resume {paths.root}`")
    selection = Selection(QUICK_ONE_IN, options.seed) if options.quick else Selection()
    found = [r for r in (maybe(u.name, UnitResult) for u in units(recording)) if r is not None]
    behaviour = combine(found, recording, selection) if "behaviour" in options.stages else None
    audit = maybe("audit", AuditResult)
    return summary.summarise(
        loaded, panel_label(panel), options, stored("agent", Submitted), stored("build", Builds),
        None if audit is None else reviewed(audit), behaviour, maybe("fresh", FreshResult),
        maybe("verification", StageResult),
    )  # fmt: skip
