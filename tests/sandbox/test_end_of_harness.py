"""However the harness ends, nothing that it started in a sandbox goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .programs import LIMITS, STAYS, left_behind

SCRIPT = """
import msgspec, sys
from pathlib import Path
from refactorbench.observe.executor import Executor, observe_all
from refactorbench.observe.model import Check
from refactorbench.sandbox import BubblewrapSandbox, Command, Mount, WorkerSpec
from refactorbench.sandbox.protocol import Limits

how, product, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
stays = sys.argv[4]
limits, box = Limits(wall_s=60), BubblewrapSandbox()
box.own_namespace()
print("ready", flush=True)
if how == "checks":
    argv = (b"probe", b"stay", b"60", stays.encode())
    checks = [Check(f"m/{n}", "m", "process", "bin/probe", argv) for n in range(4)]
    list(observe_all(checks, lambda: Executor(box, WorkerSpec(product, (), limits)), 2))
else:
    trace = folder / "trace" if how == "traced" else None
    argv = ("/product/bin/probe", "stay", "60", stays)
    box.run(Command(argv, (Mount(product, "/product"),), "/tmp", {}, limits, folder / "log", trace))
"""


def until(true: Callable[[], object], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def sandboxes(harness: int) -> list[str]:
    """cgroups that carry this harness's pid."""
    return [str(p) for p in Path("/sys/fs/cgroup").glob(f"**/refactorbench-{harness}-*")]


@pytest.mark.parametrize("how", ["command", "traced", "checks"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_a_harness_that_was_stopped(
    product: Path, tmp_path: Path, how: str, number: signal.Signals
) -> None:
    assert not left_behind()
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    harness = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, how, str(product), str(tmp_path), STAYS], stderr=subprocess.PIPE, env=env
    )
    try:
        assert until(left_behind, 20), "the control: it ran"
        harness.send_signal(number)
        _, said = harness.communicate(timeout=LIMITS.wall_s + 10)
    finally:
        harness.kill()
    assert until(lambda: not left_behind(), 5)
    if number == signal.SIGINT:
        assert b"KeyboardInterrupt" in said
        assert not sandboxes(harness.pid)


# Kills harnesses at instants while their sandboxes are being made; inherits and prints what they leave.
EARLY = """
import ctypes, os, subprocess, sys, time
from pathlib import Path
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
for n in range(int(sys.argv[1])):
    harness = subprocess.Popen(sys.argv[2:], stdout=subprocess.PIPE)
    harness.stdout.readline()
    time.sleep(n * 0.001)
    harness.kill()
    harness.wait()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.005)
        except ChildProcessError:
            break
    else:
        children = [pid for f in Path("/proc/self/task").glob("*/children") for pid in f.read_text().split()]
        print(n, *[Path(f"/proc/{pid}/cmdline").read_text()[:40] for pid in children])
"""


@pytest.mark.parametrize("how", ["command", "traced", "checks"])
def test_nothing_outlives_a_harness_that_was_killed_while_it_made_its_sandbox(
    product: Path, tmp_path: Path, how: str
) -> None:
    harness = [sys.executable, "-c", SCRIPT, how, str(product), str(tmp_path), STAYS]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", EARLY, "25", *harness], capture_output=True, text=True, env=env, check=True)
    assert done.stdout == ""
