"""Stage III: six verifiers side by side, each in a process of its own; the result doesn't depend on their order.

The unit of work is a chunk: `on_chunk` gets each one when it is complete, `done` takes them back when a run resumes.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import IO

from refactorbench.catalog.models import Briefs, Direction, Panel, VerifierSeat
from refactorbench.errors import HarnessError, TaskError
from refactorbench.sandbox.protocol import Limits
from refactorbench.verification.bench import BenchSpec
from refactorbench.verification.child import Chunk, Failed, Finished, Progress, Start, receive, send
from refactorbench.verification.fuzz import combine, contiguous, state
from refactorbench.verification.model import ChunkResult, Defect, Plan, StageResult, VerifierResult

Done = Mapping[str, Mapping[int, ChunkResult]]  # verifier id -> chunk number -> chunk
OnStageChunk = Callable[[str, ChunkResult], None]
OnStageProgress = Callable[[str, int], None]  # verifier id, inputs executed so far

DROPPED_VARIABLES = ("HYPOTHESIS_", "PYTEST_", "CI")  # would choose a profile of Hypothesis
LOG_TAIL = 2000  # bytes of a dead child's stderr that are shown
# A child reports each second at most; between two reports lie at most a drawn chunk and the trials of a confirmation.
QUIET_S, QUIET_RUNS = 120.0, 25


def plans(briefs: Briefs, panel: Panel, module: Path, limits: Limits, seed: int) -> list[Plan]:
    """Seat the panel's verifiers on the task's directions, in order; TaskError when the numbers differ."""
    if len(panel.verifier) != len(briefs.direction):
        raise TaskError(
            f"panel '{panel.name}' has {len(panel.verifier)} verifiers and task '{briefs.task}' has "
            f"{len(briefs.direction)} directions, so they can't be seated: give each direction one verifier"
        )
    return [
        _plan(seat, direction, briefs, module, limits, seed)
        for seat, direction in zip(panel.verifier, briefs.direction, strict=True)
    ]


def _plan(seat: VerifierSeat, direction: Direction, briefs: Briefs, module: Path, limits: Limits, seed: int) -> Plan:
    return Plan(
        verifier=seat.id,
        direction=direction.id,
        title=direction.title,
        strategy=direction.strategy,
        module=str(module.resolve()),
        deny=briefs.scope.deny_rules,
        budget=seat.budget,
        cap_s=seat.cap_s,
        seed=seed,
        engine=f"hypothesis {metadata.version('hypothesis')}",
        limits=limits,
    )


def verify(
    plans: Iterable[Plan],
    bench: BenchSpec,
    *,
    jobs: int,
    done: Done,
    on_chunk: OnStageChunk,
    on_progress: OnStageProgress = lambda _id, _n: None,
) -> StageResult:
    """Run every plan, `jobs` at a time, and return their results in the order of the plans.

    `on_chunk` is called from one thread at a time, and a chunk counts once it has returned. Raises TaskError when a
    strategy is at fault; whatever it raises itself ends the stage. Verifiers never outlive this call.
    """
    seats = list(plans)
    lock = threading.Lock()
    children = Children()

    def one(plan: Plan) -> VerifierResult:
        def record(chunk: ChunkResult) -> None:
            with lock:
                on_chunk(plan.verifier, chunk)

        def progress(executed: int) -> None:
            with lock:
                on_progress(plan.verifier, executed)

        return run_verifier(plan, bench, done.get(plan.verifier, {}), record, progress, children)

    pool = ThreadPoolExecutor(max(1, jobs))
    try:
        futures = [pool.submit(one, plan) for plan in seats]
        results = {plan.verifier: future.result() for plan, future in zip(seats, futures, strict=True)}
    finally:
        children.stop()
        pool.shutdown(cancel_futures=True)
    return StageResult(results, defects(results.values()))


def defects(results: Iterable[VerifierResult]) -> tuple[Defect, ...]:
    """One entry per failure signature, in the order of the first verifier that found it."""
    by_signature: dict[str, list[VerifierResult]] = {}
    for result in results:
        if result.counterexample is not None:
            by_signature.setdefault(result.counterexample.signature, []).append(result)
    found = []
    for signature, finders in by_signature.items():
        smallest = min((r.counterexample.size, r.counterexample.id) for r in finders if r.counterexample)
        found.append(Defect(signature, smallest[1], tuple(r.verifier for r in finders)))
    return tuple(found)


def run_verifier(
    plan: Plan,
    bench: BenchSpec,
    done: Mapping[int, ChunkResult],
    on_chunk: Callable[[ChunkResult], None],
    on_progress: Callable[[int], None] = lambda _: None,
    children: Children | None = None,
) -> VerifierResult:
    """Run one verifier in a child process; a child that dies or falls silent gives an error of the harness.

    A hunt that was over already is put together from `done`, and nothing is started.
    """
    chunks = contiguous(done)
    if state(plan, chunks) != "open":
        return combine(plan, chunks)
    children = children or Children()
    with tempfile.TemporaryFile() as log:
        process = children.start(log)
        try:
            return _converse(process, Start(plan, bench, chunks, os.getpid()), on_chunk, on_progress, log)
        finally:
            children.end(process)


def _converse(
    process: subprocess.Popen[bytes],
    start: Start,
    on_chunk: Callable[[ChunkResult], None],
    on_progress: Callable[[int], None],
    log: IO[bytes],
) -> VerifierResult:
    assert process.stdin and process.stdout
    chunks = dict(start.done)
    silence_s = QUIET_S + QUIET_RUNS * (start.plan.limits.wall_s + 5)
    watchdog = Watchdog(process, silence_s)
    try:
        with contextlib.suppress(BrokenPipeError):  # it died at once: the log says why
            send(process.stdin, start)
        while True:
            message = receive(process.stdout)
            watchdog.fed()
            match message:
                case Progress(executed):
                    on_progress(executed)
                case Chunk(result):
                    on_chunk(result)
                    chunks[result.k] = result
                case Finished(result):
                    return result
                case Failed(True, cause):
                    raise TaskError(cause)
                case Failed(_, cause):
                    return combine(start.plan, chunks, cause)
                case _:
                    break
    finally:
        watchdog.stop()
    status = process.wait()
    if watchdog.bit:
        return combine(start.plan, chunks, f"the verifier's process said nothing for {silence_s:.0f} s and was ended")
    return combine(start.plan, chunks, f"the verifier's process ended with status {status}: {_tail(log)}")


def _tail(log: IO[bytes]) -> str:
    log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL))
    return log.read().decode(errors="replace").strip() or "it left no message"


class Watchdog:
    """Kills a process that isn't heard of for `silence_s` seconds; `bit` says that it did."""

    def __init__(self, process: subprocess.Popen[bytes], silence_s: float) -> None:
        self.bit = False
        self._process, self._silence_s = process, silence_s
        self._heard, self._over = threading.Event(), False
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while self._heard.wait(self._silence_s):
            if self._over:
                return
            self._heard.clear()
        self.bit = True
        self._process.kill()

    def fed(self) -> None:
        self._heard.set()

    def stop(self) -> None:
        self._over = True
        self._heard.set()
        self._thread.join()


class Children:
    """The verifiers' processes that are running; after `stop` none is left and none can be started."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def start(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        env = {k: v for k, v in os.environ.items() if not k.startswith(DROPPED_VARIABLES)}
        # sets of bytes iterate alike in every run, and Hypothesis has no folder to leave anything in
        env |= {"PYTHONHASHSEED": "0", "HYPOTHESIS_STORAGE_DIRECTORY": "/dev/null/none"}
        with self._lock:
            if self._stopped:
                raise HarnessError("the stage was stopped before this verifier began: resume the run")
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "refactorbench.verification.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=env,
            )
            self._running.add(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        with self._lock:
            self._running.discard(process)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.kill()
