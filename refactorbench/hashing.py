"""Digests of files and trees; the tree digest is independent of location, times and owner."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

LONGEST_PATH = 3500  # bytes, of 4095: the tree may be copied to a place with a longer name


def sha256_file(path: Path) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def walk(
    root: Path, moving: bool = False, too_deep: list[bytes] | None = None
) -> Iterator[tuple[bytes, os.stat_result]]:
    """Yield (path relative to root as bytes, lstat) of everything below `root`, sorted; links are not followed.

    With `moving` what vanishes while it is looked at is passed over. What lies so deep that its path is too long for
    the system is an OSError, or, where `too_deep` is given, left out and added there.
    """
    passed_over = (FileNotFoundError, NotADirectoryError) if moving else ()
    top = os.fsencode(root)
    stack = [top]
    found: list[tuple[bytes, os.stat_result]] = []
    while stack:
        with contextlib.suppress(*passed_over), os.scandir(stack.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(*passed_over):
                    info = entry.stat(follow_symlinks=False)
                    rel = os.path.relpath(entry.path, top)
                    if too_deep is not None and len(entry.path) > LONGEST_PATH:
                        too_deep.append(rel)
                        continue
                    found.append((rel, info))
                    if stat.S_ISDIR(info.st_mode):
                        stack.append(entry.path)
    yield from sorted(found)


def tree_digest(root: Path) -> str:
    """sha256 over each entry's path, kind, executable bit and content (link target for links)."""
    total = hashlib.sha256()
    top = os.fsencode(root)
    for rel, info in walk(root):
        full = top + b"/" + rel
        if stat.S_ISREG(info.st_mode):
            kind = b"x" if info.st_mode & 0o100 else b"f"
            with open(full, "rb") as f:  # noqa: PTH123 - bytes paths
                content = hashlib.file_digest(f, "sha256").digest()
        elif stat.S_ISLNK(info.st_mode):
            kind, content = b"l", hashlib.sha256(os.readlink(full)).digest()  # noqa: PTH115 - bytes paths
        else:
            kind, content = (b"d" if stat.S_ISDIR(info.st_mode) else b"o"), b""
        total.update(len(rel).to_bytes(4, "big") + rel + kind + content)
    return total.hexdigest()
