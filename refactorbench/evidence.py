"""What the pipeline gathers for the stages: recorded answers, traced samples, fresh checks, verifiers' benches.

It stands beside the pipeline because no act may import another: here stage II's counts become stage I's evidence.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from refactorbench.agents.records import Answered, read_entries
from refactorbench.audit.conduct import Action, leads
from refactorbench.audit.ground import Evidence
from refactorbench.audit.judges import JudgePanel
from refactorbench.audit.judges.judge import Keep, LlmJudge
from refactorbench.audit.judges.offline import OfflinePanel
from refactorbench.audit.stage import gather, taken_in
from refactorbench.audit.verdict import Opened
from refactorbench.audit.witnesses import build as build_eye
from refactorbench.audit.witnesses.state_a import StateA
from refactorbench.behaviour.fresh import FreshResult, draw_checks, replay_fresh
from refactorbench.behaviour.memorisation import memorisation
from refactorbench.behaviour.model import BehaviourResult
from refactorbench.catalog.python import generator
from refactorbench.catalog.recordings import Recording
from refactorbench.errors import HarnessError
from refactorbench.hashing import tree_digest
from refactorbench.observe.executor import RESTARTS
from refactorbench.observe.model import Check
from refactorbench.observe.spec import base_env, find_library
from refactorbench.options import RunOptions
from refactorbench.sandbox.protocol import Worker
from refactorbench.sandbox.trace import TraceFull
from refactorbench.verification.bench import BenchSpec
from refactorbench.verification.model import ChunkResult, Plan

if TYPE_CHECKING:
    from refactorbench.pipeline import Builds, Stored
    from refactorbench.prepare import Prepared

TRACED_SAMPLE = 60  # recorded checks that are run once more under the tracer, beside every fresh one
QUICK_FRESH = 4  # a quick look traces one fresh check in so many
COMMANDS = {"bash": "command", "run": "text"}  # actions of the scaffolds that run something -> where it stands
_KEPT: dict[tuple[str, bytes, bytes], StateA] = {}
_KEEPING = threading.Lock()
Say = Callable[[str], None]
OpenTraced = Callable[[str, Path | None], Callable[[], Worker]]


def fresh_checks(p: Prepared, seed: int) -> list[Check]:
    """The fresh checks of a run: the same seed draws the same ones."""
    return draw_checks(generator(p.loaded).draw, seed, p.loaded.task.fresh_checks)


def fresh(
    p: Prepared, options: RunOptions, submission: Callable[[], Worker], reference: Callable[[], Worker]
) -> FreshResult:
    return replay_fresh(
        fresh_checks(p, options.seed),
        options.seed,
        submission,
        reference,
        limits=p.loaded.task.limits,
        jobs=options.jobs,
    )


def answers(recording: Recording) -> Iterator[bytes]:
    """Every recorded output: stdout, stderr and the files that a check left, in the recording's order."""
    for module in recording.manifest.modules:
        for row in recording.rows(module.id):
            inputs = {f.data for f in row.check.files}
            yield row.observation.stdout
            yield row.observation.stderr
            yield from (f.data for f in row.observation.files if f.data not in inputs)


def known(p: Prepared) -> StateA:
    """What is known of State A and its recorded answers. The last one is kept: reading it takes seconds, and whoever
    grades many trees of one task needs it for each."""
    key = (str(p.state_a), msgspec.json.encode(p.loaded.task), msgspec.json.encode(p.recording.manifest))
    with _KEEPING:
        if key not in _KEPT:
            _KEPT.clear()
            _KEPT[key] = StateA(p.state_a, p.loaded.task, answers(p.recording))
        return _KEPT[key]


def traced_sample(p: Prepared, seed: int, quick: bool) -> list[Check]:
    """The checks that are run under the tracer: a seeded sample of the recorded ones and every fresh one; of the latter
    every fourth in a quick look."""
    recording = p.recording
    places = [(m.id, seq) for m in recording.manifest.modules for seq in range(m.checks)]
    chosen = set(random.Random(seed).sample(places, min(TRACED_SAMPLE, len(places))))
    sample = [
        row.check for m in recording.manifest.modules for row in recording.rows(m.id) if (m.id, row.seq) in chosen
    ]
    return [c for c in (*sample, *fresh_checks(p, seed)[:: QUICK_FRESH if quick else 1]) if c.observer == "process"]


def trace(
    checks: list[Check], open_traced: Callable[[Path], Worker], folder: Path, name: str, stop: threading.Event
) -> tuple[Path, ...]:
    """Run `checks` one after another under the tracer until `stop`; what they answer has been judged already.

    A worker that breaks leaves its trace; the next one goes on, with the check that was running, in a trace of its own.
    A trace that passes its bound says so in its last line and is the last one. HarnessError when one check broke
    RESTARTS + 1 workers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{name}*.trace"):
        old.unlink()
    paths: list[Path] = []
    at = failures = 0
    while at < len(checks) and not stop.is_set():
        paths.append(folder / (f"{name}-{len(paths)}.trace" if paths else f"{name}.trace"))
        with open_traced(paths[-1]) as worker:
            try:
                while at < len(checks) and not stop.is_set():
                    worker.observe(checks[at])
                    at, failures = at + 1, 0
            except TraceFull:
                break
            except HarnessError:
                failures += 1
                if failures > RESTARTS:
                    raise
    return tuple(p for p in paths if p.is_file())


def traces(
    p: Prepared, options: RunOptions, folder: Path, builds: Builds, open_traced: OpenTraced
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Trace the sample on both sides; return (submission's, State A's) traces."""
    sample = traced_sample(p, options.seed, options.quick)
    stop = threading.Event()

    def side(name: str, product: str) -> tuple[Path, ...]:
        return trace(sample, lambda path: open_traced(product, path)(), folder, name, stop)

    with ThreadPoolExecutor(min(2, options.jobs)) as pool:
        own = pool.submit(side, "submission", builds.target.product)
        theirs = pool.submit(side, "state-a", builds.reference.product)
        try:
            return own.result(), theirs.result()
        except BaseException:
            stop.set()  # an interrupted run doesn't wait for what is left of the sample
            raise


def gather_run(
    p: Prepared,
    options: RunOptions,
    submission: Path,
    folder: Path,
    builds: Builds,
    behaviour: BehaviourResult | None,
    fresh_result: FreshResult | None,
    open_traced: OpenTraced,
    journal: Path,
) -> Opened:
    """Stage I's docket on one run: the traced sample, the memorisation counts, three witnesses, proofs re-opened, and
    what the agent's `journal` shows, where there is one."""
    own: tuple[Path, ...] = ()
    theirs: tuple[Path, ...] = ()
    if builds.target.status == "built":
        own, theirs = traces(p, options, folder, builds, open_traced)
    counts = None
    if behaviour is not None and fresh_result is not None and builds.target.status == "built":
        m = memorisation(behaviour, p.recording, fresh_result)
        counts = (m.fixed_failed, m.fixed_total, m.fresh_failed, m.fresh_total)
    evidence = Evidence(
        p.loaded,
        submission,
        p.state_a,
        reads=taken_in(builds.target, p.loaded.task, submission),
        traces=own,
        state_a_traces=theirs,
        memorisation=counts,
        reopen_build=partial(build_eye.reopen, report=builds.target),
        know=partial(known, p),
    )
    conduct = leads(actions(journal), p.loaded.task)
    return gather(evidence, builds.target, partial(build_eye.witness, builds.target, p.loaded), conduct)


def actions(journal: Path) -> Iterator[Action]:
    """The commands in an agent's journal; none where there is no journal."""
    for line, entry in enumerate(read_entries(journal) if journal.is_file() else (), 1):
        if isinstance(entry, Answered) and (key := COMMANDS.get(entry.call.name)):
            yield Action(line, str(entry.call.input.get(key, "")))


def judges(p: Prepared, options: RunOptions, submission: Path, opened: Opened, keep: Keep, say: Say) -> JudgePanel:
    """The panel's judges over one submission; models are opened when the first question is put."""
    if p.panel.judges.kind == "none":
        return OfflinePanel()
    digest = tree_digest(submission)
    return LlmJudge(
        p.loaded, p.panel, p.state_a, submission, digest, opened, options.seed, keep, say, prices=options.prices
    ).panel  # fmt: skip


def bench(p: Prepared, reference: str, submission: str, broken: str) -> BenchSpec:
    """The three products as stage III opens them, under the same limits, libraries and environment as the checks."""
    runtime = p.loaded.task.runtime
    return BenchSpec(
        sandbox=p.sandbox.name,
        reference=reference,
        submission=submission,
        broken=broken,
        limits=p.loaded.task.limits,
        libraries=tuple(str(find_library(name)) for name in runtime.libraries),
        env=base_env(runtime),
        deny_exec_memory=runtime.deny_exec_memory,
    )


def chunks_done(stored: Stored, seats: list[Plan]) -> dict[str, dict[int, ChunkResult]]:
    """The verifiers' chunks that the journal holds already."""
    done: dict[str, dict[int, ChunkResult]] = {s.verifier: {} for s in seats}
    for name in stored.journal.units("verify/"):
        _, verifier, k = name.split("/")
        if verifier in done:
            chunk = msgspec.json.decode(stored.file(name).read_bytes(), type=ChunkResult)
            done[verifier][int(k)] = chunk
    return done
