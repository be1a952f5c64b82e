"""Where inputs meet the two trees: opens workers per side, and runs one input on a pair of them at once."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Protocol

import msgspec

from refactorbench.errors import HarnessError
from refactorbench.observe.model import Check, Observation
from refactorbench.sandbox.bubblewrap import BubblewrapSandbox
from refactorbench.sandbox.protocol import Limits, Sandbox, Worker, WorkerSpec
from refactorbench.verification.model import Side


class Bench(Protocol):
    """Opens a worker over one side's product in a sandbox of its own; HarnessError when it can't."""

    def open(self, side: Side) -> Worker: ...


class BenchSpec(msgspec.Struct, frozen=True):
    """A bench as data, to be opened in another process. Paths are host paths; `opener` is `module:function`, called
    with this; `sandbox` names the implementation."""

    sandbox: str
    reference: str
    submission: str
    broken: str
    limits: Limits
    libraries: tuple[str, ...] = ()
    env: tuple[tuple[bytes, bytes], ...] = ()
    deny_exec_memory: bool = True
    opener: str = "refactorbench.verification.bench:sandbox_bench"

    def open(self) -> Bench:
        module, _, name = self.opener.partition(":")
        opener: Callable[[BenchSpec], Bench] = getattr(importlib.import_module(module), name)
        return opener(self)


class SandboxBench:
    """The three products behind one sandbox. All appear at the same path: nothing inside tells which one it is."""

    def __init__(self, sandbox: Sandbox, spec: BenchSpec) -> None:
        self.sandbox = sandbox
        self._specs = {
            side: WorkerSpec(
                product=Path(product),
                libraries=tuple(map(Path, spec.libraries)),
                limits=spec.limits,
                env=spec.env,
                deny_exec_memory=spec.deny_exec_memory,
            )
            for side, product in (
                (Side.REFERENCE, spec.reference),
                (Side.SUBMISSION, spec.submission),
                (Side.BROKEN, spec.broken),
            )
        }

    def open(self, side: Side) -> Worker:
        return self.sandbox.open_worker(self._specs[side])


Product = Callable[[Check], Observation]


class ScriptedBench:
    """Products as functions of a check; counts the workers it opened per side."""

    def __init__(self, products: Mapping[Side, Product]) -> None:
        self.products = dict(products)
        self.opened = dict.fromkeys(Side, 0)

    def open(self, side: Side) -> Worker:
        self.opened[side] += 1
        return ScriptedWorker(self.products[side])


class ScriptedWorker:
    def __init__(self, product: Product) -> None:
        self.observe = product

    def close(self) -> None:
        pass

    def __enter__(self) -> ScriptedWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Pair:
    """Two long-lived workers, reference and submission, that observe each input at the same time.

    `first` is opened first and runs in the calling thread: drawn from the seed, so neither place nor order tells which
    side a product is on. After a HarnessError the pair is of no further use; `reopen` starts both anew.
    """

    def __init__(self, bench: Bench, first: Side) -> None:
        self._bench = bench
        self._order = (first, Side.SUBMISSION if first is Side.REFERENCE else Side.REFERENCE)
        self._thread = ThreadPoolExecutor(1)
        self._workers: list[Worker] = []

    def reopen(self) -> None:
        self._close_workers()
        for side in self._order:
            self._workers.append(self._bench.open(side))

    def observe(self, check: Check) -> tuple[Observation, Observation]:
        """Return (the reference's observation, the submission's)."""
        if not self._workers:
            self.reopen()
        here, there = self._workers
        future = self._thread.submit(there.observe, check)
        try:
            mine = here.observe(check)
        finally:
            future.exception()  # wait: a worker must not be closed while it is in use
        theirs = future.result()
        return (mine, theirs) if self._order[0] is Side.REFERENCE else (theirs, mine)

    def _close_workers(self) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.close()

    def __enter__(self) -> Pair:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown()
        self._close_workers()


def sandbox_bench(spec: BenchSpec) -> Bench:
    """Open the named embedded sandbox; HarnessError for a name that this program doesn't have."""
    if spec.sandbox != "bubblewrap":
        raise HarnessError(f"sandbox '{spec.sandbox}' is unknown, so no input can be run: use 'bubblewrap'")
    return SandboxBench(BubblewrapSandbox(), spec)
