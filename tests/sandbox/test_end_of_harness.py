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
