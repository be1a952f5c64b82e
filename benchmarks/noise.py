"""What disturbs a measurement on purpose: load, delays, observations that come out wrong; and where its rows are."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from refactorbench.errors import RefactorBenchError, UsageError
from refactorbench.journal import Journal, Record
from refactorbench.observe.model import Check, Observation
from refactorbench.sandbox.protocol import Worker
from refactorbench.verification.bench import Bench
from refactorbench.verification.model import Side

LOOP = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"  # ends with whoever started it

Wrong = Callable[[Observation], Observation]
WRONG: Mapping[str, Wrong] = {  # how an observation comes out wrong; each kind has another signature
    "stdout": lambda o: msgspec.structs.replace(o, stdout=o.stdout + b"#"),
    "stderr": lambda o: msgspec.structs.replace(o, stderr=o.stderr + b"noise\n"),
    "code": lambda o: msgspec.structs.replace(o, ended="exit", code=o.code ^ 64),
    "killed": lambda o: Observation("limit", 0, o.stdout, o.stderr, o.files, "wall", 10_000),
}


@contextlib.contextmanager
def load(processes: int) -> Iterator[None]:
    """Keep so many processes busy meanwhile."""
    running = [subprocess.Popen([sys.executable, "-c", LOOP, str(os.getpid())]) for _ in range(processes)]
    try:
        yield
    finally:
        for p in running:
            p.kill()
            p.wait()


class NoisyBench:
    """A bench whose reference and submission come out wrong with probability `rate`, after up to `delay_s` seconds.
    `steady` names a kind that the submission's observations always have: a real difference under the same noise."""

    def __init__(self, bench: Bench, rng: random.Random, rate: float, delay_s: float, steady: str = "") -> None:
        self.bench, self.rng, self.rate, self.delay_s, self.steady = bench, rng, rate, delay_s, steady
        self.disturbed = 0

    def open(self, side: Side) -> Worker:
        return NoisyWorker(self.bench.open(side), side, self)

    def through(self, side: Side, seen: Observation) -> Observation:
        time.sleep(self.rng.uniform(0, self.delay_s))
        if side is Side.BROKEN:
            return seen
        if self.steady and side is Side.SUBMISSION:
            seen = WRONG[self.steady](seen)
        if self.rng.random() < self.rate:
            self.disturbed += 1
            return WRONG[self.rng.choice(sorted(WRONG))](seen)
        return seen


class NoisyWorker:
    def __init__(self, worker: Worker, side: Side, noise: NoisyBench) -> None:
        self.worker, self.side, self.noise = worker, side, noise

    def observe(self, check: Check) -> Observation:
        return self.noise.through(self.side, self.worker.observe(check))

    def close(self) -> None:
        self.worker.close()

    def __enter__(self) -> NoisyWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def begin(path: Path, head: dict[str, Any]) -> Journal:
    """Open the rows of a measurement; UsageError when those that are there were measured on something else."""
    journal = Journal(path)
    before = journal.done("head")
    if before is None:
        journal.append(Record("head", time.time(), head))
    elif before.data != head:
        keys = sorted(k for k in before.data.keys() | head.keys() if before.data.get(k) != head.get(k))
        journal.close()
        raise UsageError(
            f"{path} was measured with another {', '.join(keys)}, so its rows can't be added to: give another --out"
        )
    return journal


def each(journal: Journal, prefix: str, count: int, measure: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows `prefix`/0 ... of `measure`, those that are there already as they are."""
    rows = []
    for n in range(count):
        unit = f"{prefix}/{n:05d}"
        done = journal.done(unit)
        if done is None:
            done = Record(unit, time.time(), measure(n))
            journal.append(done)
        rows.append(done.data)
    return rows


def told(main: Callable[[], int]) -> int:
    """The exit status of `main`; what went wrong in a line. An interrupted measurement goes on with the same --out."""
    try:
        return main()
    except RefactorBenchError as e:
        print(e, file=sys.stderr)
        return e.exit_status
    except KeyboardInterrupt:
        print("interrupted: what was measured is kept", file=sys.stderr)
        return 130
