"""When the tests run as root, those of the sandbox run once more as an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

USER = 1000
HERE = Path(__file__).resolve()


@pytest.mark.skipif(os.geteuid() != 0, reason="this run is an ordinary user's already")
def test_the_same_holds_for_an_ordinary_user() -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to other users
        run_as_user(Path(folder))


def run_as_user(top: Path) -> None:
    repository = HERE.parents[2]
    for part in ("refactorbench", "tests/sandbox", "tests/security"):
        shutil.copytree(repository / part, top / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(repository / "pyproject.toml", top)
    (top / "cache").mkdir()
    for folder in (top, *top.rglob("*")):
        os.chown(folder, USER, USER)
    command = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", sys.executable, "-m", "pytest"]
    command += ["-p", "no:cacheprovider", f"--basetemp={top}/tmp", "tests/sandbox", "tests/security"]
    env = {"PATH": os.environ["PATH"], "HOME": str(top), "PYTHONPATH": str(top)}
    env["REFACTORBENCH_CACHE"] = str(top / "cache")
    done = subprocess.run(command, cwd=top, env=env, capture_output=True, text=True, check=False)
    if done.returncode == 126 or ("Permission denied" in done.stderr and not done.stdout):
        pytest.skip(f"uid {USER} can't run {sys.executable}: {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
