"""When the tests run as root, those of the sandbox run once more as an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

USER = "1000"
REPOSITORY = Path(__file__).resolve().parents[2]
# the shell makes the user start the interpreter: setpriv itself still could where the user can't
AS_USER = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "sh", "-c", 'exec "$@"', "sh"]


def run_as_user(top: Path) -> subprocess.CompletedProcess[str]:
    for part in ("refactorbench", "tests/sandbox", "tests/security"):
        shutil.copytree(REPOSITORY / part, top / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", top)
    (top / "cache").mkdir()
    for path in (top, *top.rglob("*")):
        os.chown(path, int(USER), int(USER))
    env = {"PATH": os.environ["PATH"], "HOME": str(top), "REFACTORBENCH_CACHE": str(top / "cache")}
    env["PYTHONPATH"] = f"{top}:{sysconfig.get_path('purelib')}"
    for python in (sys.executable, "/usr/bin/python3"):
        probe = [*AS_USER, python, "-c", "import pytest, msgspec, hypothesis"]
        if subprocess.run(probe, env=env, cwd=top, capture_output=True, check=False).returncode == 0:
            break
    else:
        pytest.skip(f"no Python that uid {USER} may run finds the test's packages")
    command = [*AS_USER, python, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={top}/tmp", "tests"]
    return subprocess.run(command, cwd=top, env=env, capture_output=True, text=True, check=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="this run is an ordinary user's already")
def test_the_same_holds_for_an_ordinary_user() -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to other users
        done = run_as_user(Path(folder))
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-1000:]
    assert " passed" in done.stdout and "failed" not in done.stdout
