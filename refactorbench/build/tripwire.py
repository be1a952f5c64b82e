"""Tripwires: the old stack's compilers, wherever the toolchain's mounts hold them, hidden by a program that refuses."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from refactorbench.build.places import digest
from refactorbench.build.toolchain import Toolchain
from refactorbench.observe.worker_build import static_program
from refactorbench.sandbox.protocol import Mount

SOURCE = Path(__file__).with_name("tripwire.c")
REFUSED = 97
# Where programs lie on a Debian system; libraries' own folders are not searched.
PROGRAM_FOLDERS = ("bin", "sbin", "games", "local", "libexec", "lib/gcc", "lib/gcc-cross", "lib/tcc")
VERSIONED = r"(?:[a-z0-9_]+-linux-gnu[a-z0-9]*-)?{}(?:-?[0-9][0-9.]*)?"


def program(cache: Path) -> Path:
    """The compiled tripwire; ToolMissing or HarnessError as for every static program."""
    return static_program(SOURCE, cache)


def _programs(top: Path) -> Iterator[Path]:
    """Candidate program files of a mounted folder, links left out: what they lead to is found where it lies."""
    folders = [top / f for f in PROGRAM_FOLDERS] + sorted((top / "lib").glob("llvm-*/bin")) + [top / "lib" / "rustlib"]
    if not any(f.is_dir() for f in folders):
        folders = [top]
    for folder in folders:
        for here, _, files in os.walk(folder):
            for name in files:
                path = Path(here, name)
                if not path.is_symlink() and os.access(path, os.X_OK):
                    yield path


def old_compilers(names: Iterable[str], toolchain: Toolchain) -> dict[str, Path]:
    """Inside path -> host file of every program in the toolchain's mounts that is one of `names`, versions and target
    prefixes aside ("clang" finds clang-14, "as" x86_64-linux-gnu-as), and of further hard links to them."""
    known = re.compile("|".join(VERSIONED.format(re.escape(n)) for n in names) or "(?!)")
    found: dict[str, Path] = {}
    others: list[tuple[str, Path]] = []
    for mount in toolchain.mounts:
        if not mount.source.is_dir():
            continue
        for path in _programs(mount.source):
            inside = posixpath.join(mount.target, path.relative_to(mount.source))
            if known.fullmatch(path.name):
                found[inside] = path
            else:
                others.append((inside, path))
    inodes = {(p.stat().st_dev, p.stat().st_ino) for p in found.values() if p.stat().st_nlink > 1}
    if inodes:
        found |= {i: p for i, p in others if (p.stat().st_dev, p.stat().st_ino) in inodes}
    return dict(sorted(found.items()))


def mounts(guarded: Iterable[str], tripwire: Path) -> tuple[Mount, ...]:
    return tuple(Mount(tripwire, inside) for inside in guarded)


def digests(guarded: dict[str, Path]) -> dict[str, str]:
    """Inside path -> sha256 of the compiler that the tripwire hides: a copy under another name is known by it."""
    return {inside: digest(path) for inside, path in guarded.items()}


