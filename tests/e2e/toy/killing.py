"""Kill one run again and again, then let it end: a process of its own, which inherits every orphan of what it kills.

`python -m e2e.toy.killing SPEC` with SPEC = {"command": [...], "out": DIR, "kills": [[unit, seconds], ...]}: each kill
falls `seconds` after `unit` is in the journal (at once for "") and the process has the journal open. Prints
{"hit": [stage, ...], "left": [...], "status": n, "said": text}.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
GONE_S = 20.0
STAGES = ("agent", "build", "replay", "fresh", "audit", "verify")


def done_units(out: Path) -> list[str]:
    with contextlib.suppress(OSError):
        lines = (out / "journal.jsonl").read_bytes().split(b"\n")
        return [json.loads(line)["unit"] for line in lines[:-1]]
    return []


def has_open(pid: int, file: Path) -> bool:
    with contextlib.suppress(OSError):
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if fd.readlink() == file:
                    return True
    return False


def stage_in_flight(out: Path) -> str:
    """The stage of the first unit without a record; those of a stage come one after another in the journal."""
    done = done_units(out)
    if "audit" in done:
        return "verify" if "verification" not in done else "end"
    if not {"fresh", "audit"}.isdisjoint(done):
        return "audit"
    replayed = sum(u.startswith("replay/") for u in done)
    return "fresh" if replayed == 4 else "replay" if "build" in done else "build" if "agent" in done else "agent"


def start(spec: dict[str, Any], out: Path) -> subprocess.Popen[bytes]:
    more = ["--resume", str(out)] if (out / "options.json").is_file() else [*spec["new"], "--out", str(out)]
    return subprocess.Popen(
        [*spec["command"], *more], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip


def orphans() -> list[str]:
    """Wait until no child is left, orphans of killed processes included; return the words of those that stay."""
    deadline = time.monotonic() + GONE_S
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.02)
        except ChildProcessError:
            return []
    children = [pid for f in Path("/proc/self/task").glob("*/children") for pid in f.read_text().split()]
    return [Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for pid in children]


def kill_once(spec: dict[str, Any], out: Path, unit: str, seconds: float) -> str:
    """Start the run, kill its leader at the instant asked for; return the stage that was in flight."""
    process = start(spec, out)
    began = False
    while process.poll() is None:
        began = began or has_open(process.pid, out / "journal.jsonl")
        if began and (not unit or unit in done_units(out)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            break
        time.sleep(0.01)
    process.kill()
    ended = process.wait() != -signal.SIGKILL
    assert process.stdout is not None
    process.stdout.close()
    return "end" if ended else stage_in_flight(out)


def main() -> None:
    spec = json.loads(sys.argv[1])
    out = Path(spec["out"]).resolve()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    hit, left = [], []
    for unit, seconds in spec["kills"]:
        hit.append(kill_once(spec, out, unit, seconds))
        left += orphans()
    last = start(spec, out)
    said = last.communicate()[0].decode(errors="replace")
    left += orphans()
    print(json.dumps({"hit": hit, "left": left, "status": last.returncode, "said": said}))


if __name__ == "__main__":
    main()
