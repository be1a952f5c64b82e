"""Collecting a submission: a plain copy, with what was left out listed by name."""

from __future__ import annotations

import fnmatch
import os
import shutil
import stat
from pathlib import Path

from refactorbench.errors import HarnessError, UsageError
from refactorbench.hashing import walk

LARGEST_TREE = 4 << 30
MOST_FILES = 200_000


def excluded(rel: str, patterns: tuple[str, ...]) -> bool:
    """True if `rel` or a folder above it matches; a pattern without a slash matches at the tree's top only."""
    parts = rel.split("/")
    heads = ["/".join(parts[: i + 1]) for i in range(len(parts))]
    return any(fnmatch.fnmatchcase(head, pattern.rstrip("/")) for head in heads for pattern in patterns)


def collect(source: Path, dest: Path, exclude: tuple[str, ...], may_be_empty: bool = False) -> tuple[str, ...]:
    """Copy the tree `source` to the new folder `dest`; return what was left out (excluded folders, special files).

    Links and executable bits are kept; nothing outside `source` is followed. UsageError when the tree can't be read,
    is beyond 200,000 entries or 4 GiB, or holds no file. Of an agent's tree, which `may_be_empty`, what is beyond is
    left out; so are, of any, paths too long for the system.
    """
    if not source.is_dir():
        raise UsageError(f"--submission {source} is not a folder: name the root of the migrated tree")
    if dest.resolve().is_relative_to(source.resolve()):
        raise UsageError(f"the run directory lies inside --submission {source}: give --out a folder elsewhere")
    try:
        return _copy(source, dest, exclude, may_be_empty)
    except PermissionError as e:
        raise UsageError(
            f"cannot copy {e.filename} ({e.strerror}), so {source} can't be graded: change its mode"
        ) from e
    except OSError as e:
        raise HarnessError(f"cannot copy {source} to {dest}: {e.strerror}; free some space and resume") from e


def _copy(source: Path, dest: Path, exclude: tuple[str, ...], may_be_empty: bool) -> tuple[str, ...]:
    left_out: list[str] = []
    total = count = 0
    dest.mkdir(parents=True)
    too_deep: list[bytes] = []
    for raw, info in walk(source, too_deep=too_deep):
        rel = os.fsdecode(raw)
        if excluded(rel, exclude):
            if not excluded(os.path.dirname(rel), exclude) or "/" not in rel:  # noqa: PTH120 - surrogate-safe text
                left_out.append(rel)
            continue
        target = dest / rel
        if stat.S_ISDIR(info.st_mode):
            target.mkdir(exist_ok=True)
            continue
        count += 1
        total += info.st_size
        if count > MOST_FILES or total > LARGEST_TREE:
            if may_be_empty:
                left_out.append(f"{rel} (beyond {MOST_FILES} files or 4 GiB)")
                continue
            raise UsageError(f"{source} holds more than {MOST_FILES} files or 4 GiB: remove build products and retry")
        if stat.S_ISLNK(info.st_mode):
            target.symlink_to(os.readlink(source / rel))  # noqa: PTH115
        elif stat.S_ISREG(info.st_mode):
            shutil.copyfile(source / rel, target, follow_symlinks=False)
            target.chmod(0o755 if info.st_mode & 0o100 else 0o644)
        else:
            left_out.append(rel)
    if count == 0 and not may_be_empty:
        raise UsageError(f"--submission {source} holds no files, so there is nothing to grade: name the migrated tree")
    left_out += [f"{os.fsdecode(raw[:100])}... (its path is too long)" for raw in too_deep]
    return tuple(sorted(left_out))
