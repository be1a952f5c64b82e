"""What a path inside a build sandbox means: which zone it is in, which host file it is, where its links lead."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Literal

from refactorbench.hashing import sha256_file, walk
from refactorbench.sandbox.protocol import Mount

TREE = "/build/tree"
HOME = "/build/home"
TMP = "/build/tmp"
HARNESS = "/build/harness"
Zone = Literal["tree", "toolchain", "harness", "outside"]
LINK_DEPTH = 40


def below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def regular(path: Path) -> bool:
    """Whether `path` itself (no link followed) is a regular file: nothing else of a submission may be opened."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def digest(path: Path) -> str:
    """sha256 of a file, remembered while it is the same file: a toolchain is large and each build asks for it."""
    info = path.stat()
    return _digest(path, info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


@lru_cache(maxsize=4096)
def _digest(path: Path, *state: int) -> str:
    return sha256_file(path)


def head(path: Path, size: int = 64) -> bytes | None:
    """The first bytes of a regular file, None where there is none."""
    if not regular(path):
        return None
    with path.open("rb") as f:
        return f.read(size)


class Places:
    """`mounts` and `symlinks` are the sandbox's; `clean` is the submission as it was before the build, on the host;
    `guarded` are inside paths that were over-mounted by tripwires."""

    def __init__(
        self,
        mounts: Iterable[Mount],
        symlinks: Iterable[tuple[str, str]],
        clean: Path,
        guarded: Iterable[str] = (),
    ) -> None:
        self._mounts = sorted(((m.target, m.source, m.writable) for m in mounts), key=lambda m: -len(m[0]))
        self.links = {path: target for target, path in symlinks}
        self.clean = clean
        self.guarded = frozenset(guarded)
        self.initial = frozenset(posixpath.join(TREE, os.fsdecode(rel)) for rel, _ in walk(clean))

    def host(self, inside: str) -> Path | None:
        """The host file at an inside path after the build; None where nothing of the host is mounted."""
        for target, source, _ in self._mounts:
            if below(inside, target):
                rest = inside[len(target) :].lstrip("/")
                return source / rest if rest else source
        return None

    def zone(self, inside: str) -> Zone:
        if below(inside, HARNESS) or inside in self.guarded:
            return "harness"
        for target, _, writable in self._mounts:
            if below(inside, target):
                return "tree" if writable else "toolchain"
        return "outside"

    def resolve(self, path: str, base: str) -> str:
        """The path that the kernel would reach from folder `base`, as far as links that still exist tell.

        `base` is resolved already: nested folders would otherwise cost the cube of their depth.
        """
        absolute = path.startswith("/")
        todo = list(reversed(PurePosixPath(path).parts[absolute:]))
        done = "/" if absolute else base
        followed = 0
        while todo:
            part = todo.pop()
            if part == "..":
                done = posixpath.dirname(done)
                continue
            here = posixpath.join(done, part)
            target = self._link(here) if followed < LINK_DEPTH else None
            if target is None:
                done = here
                continue
            followed += 1
            parts = PurePosixPath(target).parts
            if target.startswith("/"):
                done, parts = "/", parts[1:]
            todo += reversed(parts)
        return done

    def _link(self, inside: str) -> str | None:
        if inside in self.links:
            return self.links[inside]
        host = self.host(inside)
        try:
            return str(host.readlink()) if host is not None and host.is_symlink() else None
        except OSError:
            return None

    def was(self, inside: str) -> Path | None:
        """The submission's own file at an inside path, as handed in."""
        if inside not in self.initial:
            return None
        return self.clean / posixpath.relpath(inside, TREE)

    def digest(self, path: Path | None) -> str:
        """sha256 of a regular host file, "" where there is none (any more)."""
        return digest(path) if path is not None and regular(path) else ""
