"""Workers of one product, shared by threads: each check runs in one of them; a worker that fails is replaced."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TypeVar

from refactorbench.errors import HarnessError
from refactorbench.observe.model import Check, Observation
from refactorbench.sandbox.protocol import Worker

OpenWorker = Callable[[], Worker]
AHEAD = 8  # answers per job that may wait for a slower one before them
T = TypeVar("T")
R = TypeVar("R")


class Pool:
    """At most `jobs` workers, opened when they are needed and closed with the pool."""

    def __init__(self, open_worker: OpenWorker, jobs: int = 1) -> None:
        self._open, self.jobs = open_worker, max(1, jobs)
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        self._busy: set[Worker] = set()
        self._stopped = False

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.stop()
        with ExitStack() as stack:  # closes all of them, also when one can't be closed
            while (worker := self._idle_one()) is not None:
                stack.callback(worker.close)

    def _idle_one(self) -> Worker | None:
        try:
            return self._idle.get_nowait()
        except Empty:
            return None

    def observe(self, check: Check) -> Observation:
        """Observe in an idle worker; after a HarnessError once more in a new one, whose HarnessError passes through."""
        try:
            return self._observe(check, self._idle_one())
        except HarnessError:
            return self._observe(check, None)

    def _observe(self, check: Check, idle: Worker | None) -> Observation:
        worker = idle or self._open()
        self._busy.add(worker)
        try:
            if self._stopped:
                raise HarnessError("stopped before the check ended: resume the run")
            observation = worker.observe(check)
        except BaseException:
            worker.close()
            raise
        finally:
            self._busy.discard(worker)
        self._idle.put(worker)
        return observation

    def stop(self) -> None:
        """From any thread: observe nothing more, and end what is running where the workers can be interrupted."""
        self._stopped = True
        for worker in tuple(self._busy):
            interrupt = getattr(worker, "interrupt", None)
            if interrupt is not None:
                interrupt()

    def answer(self, check: Check) -> Observation | HarnessError:
        try:
            return self.observe(check)
        except HarnessError as e:
            return e


def in_order(
    function: Callable[[T], R], items: Iterable[T], jobs: int, stop: Callable[[], None] = lambda: None
) -> Iterator[tuple[T, R]]:
    """Yield (item, function(item)) in the order of `items`, `jobs` at a time; few items are held at once.

    When the iteration ends early (closed, an exception, an interrupt), `stop` is called before what runs is awaited.
    """
    if jobs <= 1:
        for item in items:
            yield item, function(item)
        return
    waiting: deque[tuple[T, Future[R]]] = deque()
    done = False
    with ThreadPoolExecutor(jobs) as threads:
        try:
            for item in items:
                waiting.append((item, threads.submit(function, item)))
                if len(waiting) >= jobs * AHEAD:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
            done = True
        finally:
            if not done:
                stop()
                threads.shutdown(cancel_futures=True)
