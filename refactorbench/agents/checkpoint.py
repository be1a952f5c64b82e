"""Checkpoints of the agent's files: contents stored once by digest, a manifest per checkpoint.

Taking one costs a look at each entry and the bytes that changed. An entry counts as unchanged while size, times and
inode are those of the last look; a change time can't be set by a program. The last two checkpoints are kept. What a
checkpoint needs is on the disk before it has a name, and each content is hashed again when it is laid out. Paths too
long for the system, which only relative steps reach, are not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec

from refactorbench.errors import HarnessError
from refactorbench.hashing import walk

PIECE = 1 << 20
MANY = 50  # new contents, from which on the whole file system is synced at once
QUIETLY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Item(msgspec.Struct, frozen=True, array_like=True):
    """One entry. kind: d folder, f file (`data` is a digest), l link (`data` is its target), h hard link (`data` is the
    path it shares its content with), p fifo. `mode` is the permissions, `mtime` in nanoseconds."""

    path: bytes
    kind: str
    mode: int
    mtime: int
    data: bytes


class Manifest(msgspec.Struct, frozen=True, array_like=True):
    """Per place (its name, its own mode) the entries below it, parents first."""

    places: dict[str, tuple[Item, ...]]
    modes: dict[str, int]


Seen = tuple[int, int, int, int, int]  # inode, size, mtime, ctime, mode


class Checkpoints:
    """`places` are folders of the host by name; `folder` holds contents and manifests."""

    def __init__(self, folder: Path, places: Mapping[str, Path]) -> None:
        self._places = dict(sorted(places.items()))
        self._contents, self._manifests = folder / "contents", folder / "manifests"
        for made in (self._contents, self._manifests):
            made.mkdir(parents=True, exist_ok=True)
        self._known: dict[tuple[str, bytes], tuple[Seen, bytes]] = {}
        self._kept: list[str] = []
        self._unsynced: list[Path] = []

    def take(self) -> str:
        """Store what is there; return the checkpoint's digest. HarnessError when the disk is full.

        Where the harness is no root, entries that their owner may not read are made readable first.
        """
        known: dict[tuple[str, bytes], tuple[Seen, bytes]] = {}
        try:
            try:
                places = {name: self._look(name, top, known) for name, top in self._places.items()}
            except PermissionError:
                for top in self._places.values():
                    subprocess.run(["chmod", "-R", "u+rX", "--", str(top)], capture_output=True, check=False)
                places = {name: self._look(name, top, known) for name, top in self._places.items()}
            modes = {name: stat.S_IMODE(top.stat().st_mode) for name, top in self._places.items()}
            raw = msgspec.msgpack.encode(Manifest(places, modes))
            digest = hashlib.sha256(raw).hexdigest()
            if not (self._manifests / digest).exists():
                self._sync()
                part = self._manifests / "part"
                part.write_bytes(raw)
                sync(part)
                part.rename(self._manifests / digest)
                sync(self._manifests)
        except (OSError, subprocess.CalledProcessError) as e:
            raise HarnessError(f"cannot keep a checkpoint of the agent's files: {e}; free some space and resume") from e
        self._known = known
        return digest

    def _sync(self) -> None:
        """Wait until all contents that were stored since the last checkpoint are on the disk."""
        if len(self._unsynced) > MANY:
            subprocess.run(["sync", "-f", str(self._contents)], capture_output=True, check=True)
        elif self._unsynced:
            for content in [*self._unsynced, self._contents]:
                sync(content)
        self._unsynced.clear()

    def _look(self, name: str, top: Path, known: dict[tuple[str, bytes], tuple[Seen, bytes]]) -> tuple[Item, ...]:
        items: list[Item] = []
        real = os.fsencode(top.resolve())
        first: dict[int, bytes] = {}  # inode -> path of a content with several names
        for rel, info in walk(top, moving=True, too_deep=[]):
            with contextlib.suppress(FileNotFoundError):  # gone since it was listed
                item = self._item(name, real + b"/" + rel, rel, info, first, known)
                if item is not None:
                    items.append(item)
        return tuple(items)

    def _item(
        self, name: str, full: bytes, rel: bytes, info: os.stat_result, first: dict[int, bytes],
        known: dict[tuple[str, bytes], tuple[Seen, bytes]],
    ) -> Item | None:  # fmt: skip
        mode = stat.S_IMODE(info.st_mode)
        if stat.S_ISDIR(info.st_mode):
            return Item(rel, "d", mode, info.st_mtime_ns, b"")
        if stat.S_ISLNK(info.st_mode):
            return Item(rel, "l", mode, info.st_mtime_ns, os.readlink(full))  # noqa: PTH115 - bytes paths
        if stat.S_ISFIFO(info.st_mode):
            return Item(rel, "p", mode, info.st_mtime_ns, b"")
        if not stat.S_ISREG(info.st_mode):
            return None  # sockets: whoever listens on one is lost with the machine
        if info.st_nlink > 1 and info.st_ino in first:
            return Item(rel, "h", mode, info.st_mtime_ns, first[info.st_ino])
        seen: Seen = (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns, mode)
        before = self._known.get((name, rel))
        digest = before[1] if before and before[0] == seen else self._store(full)
        if info.st_nlink > 1:
            first[info.st_ino] = rel
        known[name, rel] = seen, digest
        return Item(rel, "f", mode, info.st_mtime_ns, digest)

    def _store(self, full: bytes) -> bytes:
        """Copy a content and name it by what was copied: the file may be written to meanwhile."""
        total, part = hashlib.sha256(), self._contents / "part"
        with os.fdopen(os.open(full, QUIETLY), "rb") as source, part.open("wb") as dest:
            # a job of the agent's may have put a link in a folder's place since, and links lead out of its box
            if os.readlink(f"/proc/self/fd/{source.fileno()}") != os.fsdecode(full):  # noqa: PTH115 - of a descriptor
                raise FileNotFoundError(full)
            _write(source, dest, total)
        place = self._contents / total.hexdigest()
        if place.exists():
            part.unlink()
        else:
            part.rename(place)
            self._unsynced.append(place)
        return total.digest()

    def keep(self, digest: str) -> None:
        """The journal names this checkpoint now: forget those before the last two, and contents that only they hold."""
        if self._kept and self._kept[-1] == digest:
            return
        self._kept = [*self._kept[-1:], digest]
        gone = {p.name for p in self._manifests.iterdir()} - set(self._kept)
        if not gone:
            return
        wanted = {item.data.hex() for d in self._kept for item in self._items(d) if item.kind == "f"}
        dropped = {item.data.hex() for d in gone for item in self._items(d) if item.kind == "f"} - wanted
        for content in dropped:
            (self._contents / content).unlink(missing_ok=True)
        for name in gone:
            (self._manifests / name).unlink()

    def _read(self, digest: str) -> Manifest:
        raw = (self._manifests / digest).read_bytes() if (self._manifests / digest).is_file() else b""
        if hashlib.sha256(raw).hexdigest() != digest:
            raise HarnessError(f"checkpoint {digest[:12]} of the agent's files is damaged: start the run anew")
        return msgspec.msgpack.decode(raw, type=Manifest)

    def _items(self, digest: str) -> list[Item]:
        try:
            manifest = self._read(digest)
        except HarnessError:
            return []  # a manifest that a kill cut off is only to be removed
        return [item for items in manifest.places.values() for item in items]

    def restore(self, digest: str) -> None:
        """Make every place what it was; what else is there is removed, and what belongs to no checkpoint any more too.

        HarnessError when the checkpoint is damaged.
        """
        manifest = self._read(digest)
        for name, top in self._places.items():
            empty(top)
            _lay_out(os.fsencode(top), manifest.places[name], self._contents)
            top.chmod(manifest.modes[name])
        self._known = {}
        self._kept = [digest]
        wanted = {item.data.hex() for items in manifest.places.values() for item in items if item.kind == "f"}
        for folder, names in ((self._manifests, {digest}), (self._contents, wanted)):
            for left in folder.iterdir():
                if left.name not in names:
                    left.unlink()


def sync(place: Path) -> None:
    """Wait until a file's content, or a folder's names, are on the disk."""
    fd = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def empty(top: Path) -> None:
    """Leave `top` as a folder with nothing in it, whatever modes and depth were in it."""
    if top.is_dir():
        for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):  # they know no limit on a path's length
            subprocess.run([*command, "--", str(top)], capture_output=True, check=False)
    top.mkdir(parents=True, exist_ok=True)
    if any(top.iterdir()):
        raise HarnessError(f"cannot empty {top}, so the agent's files can't be restored: remove it and resume")


def _write(source: BinaryIO, dest: BinaryIO, total: hashlib._Hash) -> None:
    """Copy and hash; zeros become holes, so that a file takes no more room here than it did where it was."""
    while piece := source.read(PIECE):
        total.update(piece)
        if piece.count(0) == len(piece):
            dest.seek(len(piece), os.SEEK_CUR)
        else:
            dest.write(piece)
    dest.truncate()


def _copy(source: Path, full: bytes, digest: bytes) -> None:
    total = hashlib.sha256()
    try:
        with source.open("rb") as content, open(full, "xb") as dest:  # noqa: PTH123 - bytes paths
            _write(content, dest, total)
    except FileNotFoundError:
        raise HarnessError(f"content {source.name[:12]} of a checkpoint is missing: start the run anew") from None
    if total.digest() != digest:
        raise HarnessError(f"content {source.name[:12]} of a checkpoint is damaged: check the disk, start the run anew")


def _lay_out(top: bytes, items: tuple[Item, ...], contents: Path) -> None:
    for item in items:
        full = top + b"/" + item.path
        if item.kind == "d":
            os.mkdir(full, 0o700)  # noqa: PTH102 - bytes paths
        elif item.kind == "l":
            os.symlink(item.data, full)  # noqa: PTH211 - bytes paths
        elif item.kind == "p":
            os.mkfifo(full, item.mode)
        elif item.kind == "h":
            os.link(top + b"/" + item.data, full)
        else:
            _copy(contents / item.data.hex(), full, item.data)
            os.chmod(full, item.mode)  # noqa: PTH101 - bytes paths
    for item in reversed(items):  # folders after what is in them, whose making changes their times
        full = top + b"/" + item.path
        if item.kind == "d":
            os.chmod(full, item.mode)  # noqa: PTH101 - bytes paths
        os.utime(full, ns=(item.mtime, item.mtime), follow_symlinks=False)
