"""Writable trees of a sandbox: whose they are, and how much they hold."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from refactorbench.errors import HarnessError

NOBODY = 65534


@contextlib.contextmanager
def given_to_nobody(trees: list[Path], root: bool) -> Iterator[None]:
    """As root, make `trees` belong to the program's uid, and afterwards to the former owner of each tree's top."""
    if not root:
        yield
        return
    owners = []
    try:
        for top in trees:
            info = top.lstat()
            owners.append((top, info.st_uid, info.st_gid))
            _chown(top, NOBODY, NOBODY)
        yield
    finally:
        for top, uid, gid in owners:
            _chown(top, uid, gid)


def _chown(top: Path, uid: int, gid: int) -> None:
    os.chown(top, uid, gid, follow_symlinks=False)
    if not top.is_dir() or top.is_symlink():
        return
    done = subprocess.run(["chown", "-Rh", f"{uid}:{gid}", "--", str(top)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"cannot give {top} to uid {uid}, so that it is writable: {done.stderr.strip()[-300:]}")


def disk_used(trees: list[Path]) -> int:
    """Bytes allocated below `trees`; what vanishes meanwhile is skipped."""
    total = 0
    stack = [os.fsencode(t) for t in trees]
    while stack:
        with contextlib.suppress(OSError), os.scandir(stack.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(os.fsencode(entry.path))
    return total
