"""The one executor: recording, replay, re-runs and verifiers all observe checks through it."""

from __future__ import annotations

import contextlib
import hashlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import islice
from types import TracebackType

from refactorbench.errors import HarnessError
from refactorbench.observe.model import Check, Observation
from refactorbench.observe.wire import WIRE_VERSION
from refactorbench.observe.worker_build import WORKER_SOURCE, source_digest
from refactorbench.sandbox.protocol import Sandbox, Worker, WorkerSpec

EXECUTOR_VERSION = hashlib.sha256(f"{WIRE_VERSION} {source_digest(WORKER_SOURCE)}".encode()).hexdigest()[:16]
RESTARTS = 2
CHUNK = 8  # checks that one thread takes at a time
READ_AHEAD = 2  # chunks in flight for each thread


class Executor:
    """A worker that is replaced when it breaks, and the host's own observer for `tree` checks.

    A check whose worker broke is run again on a new one; the HarnessError is raised when that has failed `restarts`
    times running. Fits the Worker protocol; not safe for concurrent use, but for `interrupt`.
    """

    def __init__(self, sandbox: Sandbox, spec: WorkerSpec, restarts: int = RESTARTS) -> None:
        self._sandbox, self._spec, self._restarts = sandbox, spec, restarts
        self._worker: Worker | None = None
        self._failures = 0
        self._stopped = False

    def observe(self, check: Check) -> Observation:
        return next(self.observe_many((check,)))

    def observe_many(self, checks: Iterable[Check]) -> Iterator[Observation]:
        """Observations in the order of `checks`, with a few of them in flight at once."""
        source = iter(checks)
        pending: deque[Check] = deque()

        def feed() -> Iterator[Check]:
            yield from tuple(pending)
            for check in source:
                pending.append(check)
                yield check

        while True:
            try:
                for seen in self._pass(feed()):
                    pending.popleft()
                    self._failures = 0
                    yield seen
                return
            except HarnessError:
                self._drop()
                self._failures += 1
                if self._stopped or self._failures > self._restarts:
                    raise

    def _pass(self, checks: Iterator[Check]) -> Iterator[Observation]:
        """Observe until a worker breaks; runs of `process` checks are pipelined, `tree` checks are answered here."""
        ahead = next(checks, None)
        while ahead is not None:
            if ahead.observer == "tree":
                from refactorbench.observe.tree import observe_tree  # costs an ELF parser, seldom needed

                yield observe_tree(self._spec.product, ahead)
                ahead = next(checks, None)
                continue
            following: list[Check] = []
            yield from self._many(_while_process(ahead, checks, following))
            ahead = following[0] if following else None

    def _many(self, checks: Iterator[Check]) -> Iterator[Observation]:
        if self._worker is None:
            self._worker = self._sandbox.open_worker(self._spec)
        many = getattr(self._worker, "observe_many", None)
        yield from many(checks) if many else map(self._worker.observe, checks)

    def interrupt(self) -> None:
        """From any thread: make a running observation fail soon, and allow no restart."""
        self._stopped = True
        stop = getattr(self._worker, "interrupt", None)
        if stop is not None:
            stop()

    def _drop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def close(self) -> None:
        self._drop()

    def __enter__(self) -> Executor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _while_process(first: Check, checks: Iterator[Check], following: list[Check]) -> Iterator[Check]:
    """`first` and what comes after it up to a check for another observer, which is left in `following`."""
    yield first
    for check in checks:
        if check.observer != "process":
            following.append(check)
            return
        yield check


_Chunk = tuple[list[Check], "Future[list[Observation]]"]


class _Crew:
    """`jobs` threads, each with a worker of its own that it opens when it gets its first chunk."""

    def __init__(self, open_worker: Callable[[], Worker], jobs: int) -> None:
        self._open_worker = open_worker
        self._todo: queue.SimpleQueue[_Chunk | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._workers: list[Worker] = []
        self._threads = [threading.Thread(target=self._work, name=f"observer-{n}", daemon=True) for n in range(jobs)]
        for thread in self._threads:
            thread.start()

    def submit(self, checks: list[Check]) -> _Chunk:
        chunk: _Chunk = (checks, Future())
        self._todo.put(chunk)
        return chunk

    def _work(self) -> None:
        with contextlib.ExitStack() as stack:
            worker: Worker | None = None
            while (chunk := self._todo.get()) is not None:
                checks, future = chunk
                if self._stop.is_set():
                    continue
                try:
                    if worker is None:
                        worker = stack.enter_context(self._open_worker())
                        self._workers.append(worker)
                    many = getattr(worker, "observe_many", None)
                    future.set_result(list(many(checks) if many else map(worker.observe, checks)))
                except BaseException as e:  # handed to the thread that waits for it
                    future.set_exception(e)

    def close(self) -> None:
        """Returns when all threads have ended and closed their workers; what is still running is interrupted."""
        self._stop.set()
        for _ in self._threads:
            self._todo.put(None)
        for worker in tuple(self._workers):
            stop = getattr(worker, "interrupt", None)
            if stop is not None:
                stop()
        for thread in self._threads:
            thread.join()


def observe_all(
    checks: Iterable[Check], open_worker: Callable[[], Worker], jobs: int
) -> Iterator[tuple[Check, Observation]]:
    """Observe on `jobs` workers at once; pairs come in the order of `checks`, which is read only a little ahead.

    The first exception of a worker is raised in its check's place. However the iteration ends (exhausted, closed, an
    exception, KeyboardInterrupt), all workers have been closed and their processes are gone when it has.
    """
    source = iter(checks)
    crew = _Crew(open_worker, jobs)
    flying: deque[_Chunk] = deque()
    try:
        while True:
            while len(flying) < jobs * READ_AHEAD and (chunk := list(islice(source, CHUNK))):
                flying.append(crew.submit(chunk))
            if not flying:
                return
            done, future = flying.popleft()
            yield from zip(done, future.result(), strict=True)
    finally:
        crew.close()
