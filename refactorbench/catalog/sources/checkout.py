"""State A as an agent gets it: the tree, the instruction beside it, one baseline commit."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import msgspec

from refactorbench.catalog.models import LoadedTask
from refactorbench.errors import HarnessError, UsageError

BASELINE = {
    "GIT_AUTHOR_NAME": "State A",
    "GIT_AUTHOR_EMAIL": "state-a@invalid",
    "GIT_AUTHOR_DATE": "2000-01-01T00:00:00+0000",
    "GIT_COMMITTER_NAME": "State A",
    "GIT_COMMITTER_EMAIL": "state-a@invalid",
    "GIT_COMMITTER_DATE": "2000-01-01T00:00:00+0000",
    "GIT_CONFIG_GLOBAL": "/dev/null",  # the caller's configuration (hooks, signing, line ends) must not matter
    "GIT_CONFIG_NOSYSTEM": "1",
}


class Checkout(msgspec.Struct, frozen=True):
    """`commit` is "" when git isn't installed; `note` says what was done, for the user."""

    tree: Path
    instruction: Path
    commit: str
    note: str


def checkout(loaded: LoadedTask, tree: Path, dest: Path) -> Checkout:
    """Lay State A's `tree` into dest/tree and the instruction into dest/INSTRUCTION.md.

    dest/tree becomes a git repository with one commit without history, the same one everywhere, if git is installed.
    UsageError when `dest` has anything in it; on an error what was laid out is removed again.
    """
    if dest.exists() and (not dest.is_dir() or any(dest.iterdir())):
        raise UsageError(f"{dest} is not empty: nothing was written; name a new folder")
    made = not dest.exists()
    work, instruction = dest / "tree", dest / "INSTRUCTION.md"
    try:
        dest.mkdir(parents=True, exist_ok=True)
        shutil.copytree(tree, work, symlinks=True)
        instruction.write_text(loaded.instruction)
        commit = _baseline(work)
    except (OSError, shutil.Error, HarnessError) as e:
        shutil.rmtree(work, ignore_errors=True)
        with contextlib.suppress(OSError):
            instruction.unlink(missing_ok=True)
        if made:
            shutil.rmtree(dest, ignore_errors=True)
        if isinstance(e, HarnessError):
            raise
        raise HarnessError(f"cannot lay State A out in {dest}: {e}; free some space or name another folder") from e
    note = f"baseline commit {commit[:12]}" if commit else "git is not installed: no baseline commit was made"
    return Checkout(work, instruction, commit, note)


def _baseline(work: Path) -> str:
    if not shutil.which("git"):
        return ""
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | BASELINE
    steps = (
        ("init", "-q", "--template=", "-b", "main"),
        ("add", "-A", "-f"),  # State A's own ignore rules must not drop any of its files
        ("commit", "-q", "--allow-empty", "-m", "State A"),
        ("rev-parse", "HEAD"),
    )
    out = b""
    for step in steps:
        done = subprocess.run(
            ["git", "-C", str(work), "-c", "core.autocrlf=false", *step], env=env, capture_output=True, check=False
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            raise HarnessError(f"git {step[0]} failed while the baseline was committed in {work}: {said}; check git")
        out = done.stdout
    return out.decode().strip()
