"""The content-addressed cache of State A: `sources/<sha256>/<archive>` and `trees/<tree_sha256>/`.

Everything enters by rename after its digest was checked, so what lies under a digest has that digest; a lock per entry
lets any number of processes ask for the same thing at once.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from refactorbench.catalog.models import StateASource
from refactorbench.errors import HarnessError, TaskError
from refactorbench.hashing import sha256_file, tree_digest

Progress = Callable[[str], None]


@contextmanager
def lock(cache: Path, name: str) -> Iterator[None]:
    """Hold the cache's lock `name`; waits while another process holds it, and a kill releases it."""
    path = cache / "locks" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


@contextmanager
def scratch(cache: Path, what: str) -> Iterator[Path]:
    """A folder on the cache's own file system (so that a rename out of it is atomic), removed afterwards.

    Folders that a killed process left behind are removed too: a living one holds a lock on its own.
    """
    parent = cache / "tmp"
    parent.mkdir(parents=True, exist_ok=True)
    with lock(cache, "scratch"):
        for old in parent.iterdir():
            if (held := _hold(old)) is not None:
                shutil.rmtree(old, ignore_errors=True)
                os.close(held)
        folder = Path(tempfile.mkdtemp(prefix=f"{what}-", dir=parent))
        held = _hold(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            os.close(held)


def _hold(folder: Path) -> int | None:
    """An open, locked descriptor of `folder`, None when another process holds it or it is gone."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def archive_path(source: StateASource, cache: Path) -> Path:
    return cache / "sources" / source.sha256 / source.archive


def tree_path(source: StateASource, cache: Path) -> Path:
    return cache / "trees" / source.tree_sha256


def keep_archive(source: StateASource, cache: Path, file: Path) -> Path:
    """Move `file` into the cache; HarnessError when it isn't the pinned archive."""
    found = sha256_file(file)
    if found != source.sha256:
        raise HarnessError(
            f"{source.archive}: sha256 is {found}, the task pins {source.sha256}: not used. {by_hand(source, cache)}"
        )
    path = archive_path(source, cache)
    path.parent.mkdir(parents=True, exist_ok=True)
    return file.replace(path)


def cached_archive(source: StateASource, cache: Path) -> Path | None:
    """The archive where it is cached, also when a person put it there; HarnessError when its digest is wrong."""
    path = archive_path(source, cache)
    if not path.is_file():
        return None
    found = sha256_file(path)
    if found != source.sha256:
        raise HarnessError(
            f"{path} is damaged: sha256 {found}, expected {source.sha256}; delete it to fetch it anew, "
            "or put the right archive there"
        )
    return path


def by_hand(source: StateASource, cache: Path) -> str:
    """The way out that needs no mirror, as a sentence."""
    return (
        f"An archive of {source.package} {source.version} ({source.suite}) with sha256 {source.sha256} placed at "
        f"{archive_path(source, cache)} is used as well"
    )


def cached_tree(source: StateASource, cache: Path) -> Path | None:
    """The unpacked tree when it is there and intact; a damaged one is set aside for unpacking anew."""
    path = tree_path(source, cache)
    if not path.is_dir():
        return None
    if tree_digest(path) == source.tree_sha256:
        return path
    with scratch(cache, "damaged") as folder:
        path.rename(folder / "tree")
    return None


def keep_tree(source: StateASource, cache: Path, archive: Path) -> Path:
    """Unpack `archive` into the cache; TaskError when the tree isn't the pinned one."""
    path = tree_path(source, cache)
    with scratch(cache, "unpack") as folder:
        tree = folder / "tree"
        unpack(archive, tree, source.strip)
        found = tree_digest(tree)
        if found != source.tree_sha256:
            raise TaskError(
                f"{source.archive} unpacks (strip = {source.strip}) to a tree with digest {found}, but tree_sha256 is "
                f"{source.tree_sha256}: it is not the State A that was recorded; correct task.toml's state_a"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        tree.rename(path)
    return path


def unpack(archive: Path, dest: Path, strip: int) -> None:
    """Unpack a tar archive into the new folder `dest`, dropping `strip` leading folders of every name.

    Only files, folders and links that stay inside are accepted; modes become 0755 or 0644, owners the caller's.
    Written out because tarfile's own filters are missing in some Python 3.11. TaskError names the member refused.
    """
    dest.mkdir(parents=True)
    links: list[tuple[Path, str]] = []
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = _inside(member.name, strip, archive)
                if name is None:
                    continue
                target = dest / name
                target.parent.mkdir(parents=True, exist_ok=True)
                if member.issym():
                    _refuse_outside(name, member.linkname, archive)
                    links.append((target, member.linkname))
                else:
                    _member(tar, member, target, dest, strip, archive)
        for target, link in links:  # last, so that no member can be written through one
            target.symlink_to(link)
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as e:
        raise TaskError(f"{archive}: two members claim {e.filename}: refused") from e
    except (tarfile.TarError, EOFError, OSError) as e:
        if isinstance(e, OSError) and e.errno is not None:
            raise HarnessError(f"cannot unpack {archive}: {e.strerror}; free some space and run again") from e
        raise TaskError(f"{archive} is not a tar archive that can be read: {e}; name another one in state_a") from e
    for folder, _, _ in os.walk(dest):
        Path(folder).chmod(0o755)  # whatever the umask: sandboxes read it as another user


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, dest: Path, strip: int, archive: Path) -> None:
    if member.isdir():
        target.mkdir(exist_ok=True)
        return
    if member.islnk():
        original = _inside(member.linkname, strip, archive)
        if original is None or not (dest / original).is_file():
            raise TaskError(f"{archive}: '{member.name}' links to '{member.linkname}', which is not in the tree")
        shutil.copy2(dest / original, target)  # a copy: later writes to one name must not change the other
        return
    content = tar.extractfile(member) if member.isfile() else None
    if content is None:
        raise TaskError(f"{archive}: '{member.name}' is neither file, folder nor link: refused")
    with target.open("wb") as f:
        shutil.copyfileobj(content, f)
    target.chmod(0o755 if member.mode & stat.S_IXUSR else 0o644)
    os.utime(target, (member.mtime, member.mtime))


def _inside(name: str, strip: int, archive: Path) -> PurePosixPath | None:
    """`name` without its first `strip` folders, None when nothing is left; TaskError when it leads outside."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise TaskError(f"{archive}: member '{name}' leads outside the tree: refused")
    rest = path.parts[strip:]
    return PurePosixPath(*rest) if rest else None


def _refuse_outside(name: PurePosixPath, link: str, archive: Path) -> None:
    depth = len(name.parts) - 1
    for part in PurePosixPath(link).parts:
        depth += -1 if part == ".." else 1
        if depth < 0 or part == "/":
            raise TaskError(f"{archive}: link '{name}' points to '{link}', outside the tree: refused")
