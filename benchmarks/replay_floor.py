"""Replay against the floor: the same trivial checks through the worker and through a loop in C that does the least.

    python benchmarks/replay_floor.py [--checks 1000] [--rounds 5]

Rounds alternate, so that other load on the machine falls on both; the medians are compared. CPU counts the host's
process and everything in the sandbox. Then 1,000 and 10,000 checks show whether the host's memory grows.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from refactorbench.observe.model import Check
from refactorbench.observe.worker_build import WORKER_SOURCE, static_program
from refactorbench.sandbox import BubblewrapSandbox, Limits, WorkerSpec
from refactorbench.sandbox.limits import open_scope
from refactorbench.sandbox.process import SandboxProcess
from refactorbench.sandbox.worker import WORKER, BubblewrapWorker, worker_words

PROGRAM = """
#include <stdio.h>
int main(void) { FILE *f = fopen("out", "w"); fputs("file\\n", f); fclose(f); puts("hello"); return 0; }
"""


def product(top: Path) -> WorkerSpec:
    """A product of one small static program."""
    (top / "product/bin").mkdir(parents=True)
    (top / "hello.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O2", "-static", "-o", top / "product/bin/hello", top / "hello.c"], check=True)
    return WorkerSpec(top / "product", (), Limits())


def cpu_below() -> float:
    """CPU seconds of this process and of all children that have ended and been waited for."""
    own, below = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime


def run_floor(sandbox: BubblewrapSandbox, spec: WorkerSpec, floor: Path, count: int) -> tuple[float, float]:
    """Return (seconds, CPU seconds) of `count` runs in a sandbox that is set up as a worker's."""
    scope = open_scope(spec.limits, 8, 512)
    words = worker_words(sandbox, spec, False, sandbox.enter(scope, None))
    words = [str(floor) if word == str(static_program(WORKER_SOURCE)) else word for word in words]
    at = len(words) - 1 - words[::-1].index(WORKER)
    words = [*words[: at + 1], str(count), words[at + 1], "/product/bin/hello"]
    before = cpu_below()
    with tempfile.TemporaryFile() as out:
        process = SandboxProcess(words, scope, subprocess.DEVNULL, out, sys.stderr.buffer)
        process.popen.wait()
        process.end()
        out.seek(0)
        return float(out.read()), cpu_below() - before


def run_worker(sandbox: BubblewrapSandbox, spec: WorkerSpec, count: int) -> tuple[float, float]:
    check = Check("bench/hello", "bench", "process", "bin/hello", (b"hello",))
    before = cpu_below()
    with sandbox.open_worker(spec) as worker:
        assert isinstance(worker, BubblewrapWorker)
        start = time.perf_counter()
        for seen in worker.observe_many(check for _ in range(count)):
            assert (seen.ended, seen.code, seen.stdout, seen.files[0].data) == ("exit", 0, b"hello\n", b"file\n")
        wall = time.perf_counter() - start
    return wall, cpu_below() - before


def memory_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--checks", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--memory", action=argparse.BooleanOptionalAction, default=True)
    arg = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        top.chmod(0o755)
        spec, sandbox = product(top), BubblewrapSandbox()
        floor = static_program(Path(__file__).with_name("floor.c"), top)
        walls: dict[str, list[float]] = {"floor": [], "replay": []}
        cpus: dict[str, list[float]] = {"floor": [], "replay": []}
        for _ in range(arg.rounds):
            for name in walls:
                run = (
                    run_floor(sandbox, spec, floor, arg.checks)
                    if name == "floor"
                    else run_worker(sandbox, spec, arg.checks)
                )
                walls[name].append(run[0])
                cpus[name].append(run[1])
        print(f"{sandbox.describe()}")
        for name in walls:
            wall, cpu = statistics.median(walls[name]), statistics.median(cpus[name])
            print(f"{name:7} {arg.checks / wall:8.0f} checks/s {1e3 * cpu / arg.checks:8.3f} ms CPU per check")
        print(f"ratio   {statistics.median(walls['replay']) / statistics.median(walls['floor']):8.2f} wall", end="")
        print(f" {statistics.median(cpus['replay']) / statistics.median(cpus['floor']):8.2f} CPU")
        if arg.memory:
            run_worker(sandbox, spec, 100)
            start = memory_kib()
            for count in (1000, 10000):
                run_worker(sandbox, spec, count)
                print(f"host memory after {count:6} more checks: {memory_kib() - start:+d} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
