"""The same recorded checks as this program replays, as a parametrised pytest with one subprocess each: for comparison.

    python benchmarks/as_pytest.py [--task bzip2-rust] [--one-in 10]

Both sides take the same seeded share of the recorded process checks, on State A's own build, one after another.
Prints seconds for each and their ratio. The pytest side has no sandbox at all, so it does less.
"""

from __future__ import annotations

import argparse
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from refactorbench.admission.recording import build_state_a
from refactorbench.behaviour.model import Selection
from refactorbench.catalog.load import load_task
from refactorbench.catalog.recordings import Recording, load_recording
from refactorbench.catalog.sources import fetch_state_a
from refactorbench.observe.executor import Executor
from refactorbench.observe.model import Check
from refactorbench.observe.spec import worker_spec
from refactorbench.paths import cache_dir, find_root
from refactorbench.sandbox import BubblewrapSandbox, WorkerSpec

SAFE = ("compress-levels", "compress-shapes", "decompress-valid", "driver-stream", "driver-buff")  # need no sandbox
SUITE = '''
import os, pickle, subprocess
import pytest
ROWS, PRODUCT = pickle.load(open(os.environ["ROWS"], "rb"))

@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0])
def test_check(row, tmp_path):
    _, program, argv, stdin, files, env, code, stdout, stderr, after = row
    for path, data, mode in files:
        (tmp_path / os.fsdecode(path)).write_bytes(data)
        (tmp_path / os.fsdecode(path)).chmod(mode)
    run = PRODUCT + "/" + program
    done = subprocess.run(argv, executable=run, input=stdin, cwd=tmp_path, env=env, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, stdout, stderr)
    assert {os.fsencode(p.name): p.read_bytes() for p in tmp_path.iterdir()} == after
'''


def chosen(recording: Recording, spec: WorkerSpec, one_in: int) -> tuple[list[Check], list[tuple[Any, ...]]]:
    """Return the checks that both sides take, and their rows as plain values for the pytest side."""
    selection = Selection(one_in, 1)
    checks, rows = [], []
    for m in recording.manifest.modules:
        for r in recording.rows(m.id) if m.id in SAFE else ():
            check, seen = r.check, r.observation
            plain = check.stdin_kind == check.stdout == "pipe" and all(f.kind == "file" for f in check.files)
            if not (plain and seen.ended == "exit" and selection.takes(check.id, m.id, r.seq, m.checks)):
                continue
            checks.append(check)
            files = [(f.path, f.data, f.mode) for f in check.files]
            env = {**dict(spec.env), **dict(check.env)}
            after = {f.path: f.data for f in seen.files}
            answer = (seen.code, seen.stdout, seen.stderr, after)
            rows.append((check.id, check.program, check.argv, check.stdin, files, env, *answer))
    return checks, rows


def with_pytest(top: Path) -> float:
    """Seconds that pytest takes for the suite in `top`."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(top / "test_suite.py")]
    start = time.monotonic()
    env = {**os.environ, "ROWS": str(top / "rows")}
    done = subprocess.run(command, cwd=top, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"the pytest side fails, so nothing is compared:\n{done.stdout[-2000:]}")
    return time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="bzip2-rust")
    parser.add_argument("--one-in", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    loaded = load_task(find_root(), args.task)
    sandbox = BubblewrapSandbox()
    state_a = fetch_state_a(loaded.task.state_a, cache_dir(), print)
    with tempfile.TemporaryDirectory() as scratch:
        top = Path(scratch)
        report = build_state_a(loaded, loaded.task.reference, state_a, sandbox, cache_dir(), top / "build")
        spec = worker_spec(loaded.task, Path(report.product))
        checks, rows = chosen(load_recording(loaded), spec, args.one_in)
        (top / "test_suite.py").write_text(SUITE)
        (top / "rows").write_bytes(pickle.dumps((rows, report.product)))
        ours, theirs = [], []
        for _ in range(args.rounds):
            start = time.monotonic()
            with Executor(sandbox, spec) as worker:
                seen = sum(1 for _ in worker.observe_many(checks))
            ours.append(time.monotonic() - start)
            theirs.append(with_pytest(top))
        one, two = statistics.median(ours), statistics.median(theirs)
        print(f"{seen} checks: replay {one:.2f} s, pytest {two:.2f} s, ratio {one / two:.2f} ({args.rounds} rounds)")


if __name__ == "__main__":
    main()
