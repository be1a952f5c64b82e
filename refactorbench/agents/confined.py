"""Files of the agent's box, opened from the host: what the agent put there can't lead out of it.

A path is walked one name at a time with descriptors that follow no link; a link is read and walked again by the names
it holds, so it may point to another place of the box and nowhere else. Nothing can be swapped in between.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import posixpath
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

MOST_LINKS = 40
LARGEST = 8 << 20  # bytes of a file that is read whole
PIECE = 1 << 20
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Refused(Exception):
    """Something an agent asked for is not done; the message is written for the agent and says how to go on."""


class Place(msgspec.Struct, frozen=True):
    """A folder of the host as the agent sees it: `inside` is its absolute path in the sandbox."""

    inside: str
    host: Path
    writable: bool


class Box:
    """The places an agent's tools may reach. All paths are absolute and as seen in the sandbox."""

    def __init__(self, places: tuple[Place, ...]) -> None:
        self.places = places
        self._longest_first = sorted(places, key=lambda p: -len(p.inside))

    def place(self, path: str) -> Place | None:
        return next((p for p in self._longest_first if path == p.inside or path.startswith(p.inside + "/")), None)

    def check(self, path: str) -> str:
        """The path without `.`, `..` and doubled slashes; Refused when it is relative or lies outside."""
        if "\0" in path or not path.startswith("/"):
            raise Refused(f"{path!r} is not an absolute path. Give the whole path, for example {self.example(path)}.")
        clean = posixpath.normpath(path)
        if self.place(clean) is None:
            folders = ", ".join(p.inside for p in self.places)
            raise Refused(f"{path} lies outside of what this tool reaches: {folders}. Use a path below one of them.")
        return clean

    def example(self, path: str) -> str:
        name = posixpath.normpath(path.replace("\0", "")).lstrip("./") or "file"
        return f"{self.places[0].inside}/{name}"

    @contextmanager
    def parent(self, path: str, write: bool = False) -> Iterator[tuple[int, str]]:
        """Yield (descriptor of the folder, last name) of an existing or new entry. The name may be a link's; "." for a
        place itself. Refused for what is outside, a missing folder, and a write where only reading is allowed."""
        fd, name, place = self._walk(self.check(path), path)
        try:
            if write and not place.writable:
                raise Refused(f"{path} is read-only: only files below {self.writable()} can be changed.")
            yield fd, name
        finally:
            os.close(fd)

    def writable(self) -> str:
        return " and ".join(p.inside for p in self.places if p.writable)

    def _walk(self, path: str, said: str) -> tuple[int, str, Place]:
        for _ in range(MOST_LINKS):
            place = self.place(path)
            if place is None:
                raise Refused(f"{said} leads to {path}, which lies outside of what this tool reaches.")
            names = [n for n in path.removeprefix(place.inside).split("/") if n] or ["."]
            onward, fd = self._descend(place, names, said)
            if not onward:
                return fd, names[-1], place
            path = onward
        raise Refused(f"{said} goes through more than {MOST_LINKS} links: name the file itself.")

    def _descend(self, place: Place, names: list[str], said: str) -> tuple[str, int]:
        """Return (path that a link on the way stands for or "", folder of the last name)."""
        fd, seen = os.open(place.host, FOLDER), place.inside
        try:
            for number, name in enumerate(names):
                target = _link(fd, name)
                if target is not None:
                    onward = posixpath.normpath(posixpath.join(seen, target, *names[number + 1 :]))
                    os.close(fd)
                    return onward, -1
                if number == len(names) - 1:
                    return "", fd
                below = os.open(name, FOLDER, dir_fd=fd)
                os.close(fd)
                fd, seen = below, f"{seen}/{name}"
        except OSError as e:
            os.close(fd)
            what = {errno.ENOENT: "does not exist", errno.ENOTDIR: "is not a folder"}.get(e.errno or 0, str(e.strerror))
            raise Refused(f"{said}: {seen}/{name} {what}. Look with `ls {seen}`.") from None
        raise AssertionError("a path has at least one name")

    def open(self, path: str) -> int:
        """A descriptor of a regular file or folder, for reading. Refused for anything else."""
        with self.parent(path) as (folder, name):
            try:
                fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            except OSError as e:
                near = _near(folder, name)
                hint = f" There is {near}." if near and e.errno == errno.ENOENT else ""
                why = "does not exist" if e.errno == errno.ENOENT else f"can't be opened ({e.strerror})"
                raise Refused(f"{path} {why}.{hint}") from None
            mode = os.fstat(fd).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                os.close(fd)
                raise Refused(f"{path} is neither a file nor a folder, so there is nothing to show.")
            return fd

    def read(self, path: str, largest: int = LARGEST) -> bytes:
        """A file's content, at most `largest` bytes. Refused for folders and larger files."""
        data = self.head(path, largest + 1)
        if len(data) > largest:
            raise Refused(f"{path} holds more than {largest} bytes, too much for this tool: use sed or head on it.")
        return data

    def head(self, path: str, size: int) -> bytes:
        """The first `size` bytes of a file."""
        with self._file(path) as f:
            return f.read(size)

    def copy(self, path: str, dest: Path, largest: int) -> None:
        """Copy a file's content to the host's `dest`. Refused for folders and files of more than `largest` bytes."""
        with self._file(path) as f, dest.open("wb") as out:
            left = largest
            while left >= 0 and (piece := f.read(PIECE)):
                left -= len(piece)
                out.write(piece)
            if left < 0:
                raise Refused(f"{path} holds more than {largest} bytes, too much to be copied.")

    def _file(self, path: str) -> BinaryIO:
        fd = self.open(path)
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            os.close(fd)
            raise Refused(f"{path} is a folder: name a file in it.")
        return os.fdopen(fd, "rb")

    def write(self, path: str, data: bytes, folders: bool = False) -> None:
        """Replace a file's content at once; its mode stays. With `folders`, missing ones are made."""
        try:
            if folders:
                self._make_folders(posixpath.dirname(self.check(path)))
            self._write(path, data)
        except OSError as e:
            raise Refused(f"{path} can't be written ({e.strerror}). Look at its folder with `ls -ld`.") from None

    def _write(self, path: str, data: bytes) -> None:
        with self.parent(path, write=True) as (folder, name):
            owner, mode = os.fstat(folder), 0o644
            try:
                before = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if not stat.S_ISREG(before.st_mode):
                    raise Refused(f"{path} is not a regular file, so it can't be written: remove it first.")
                mode = stat.S_IMODE(before.st_mode)
            except FileNotFoundError:
                pass
            temporary, fd = _new_file(folder)
            with os.fdopen(fd, "wb") as f:
                f.write(data)
                if os.geteuid() == 0:
                    os.fchown(f.fileno(), owner.st_uid, owner.st_gid)
                os.fchmod(f.fileno(), mode)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)

    def _make_folders(self, path: str) -> None:
        place = self.place(path)
        if place is None or path == place.inside:
            return
        try:
            os.close(self.open(path))
        except Refused:
            self._make_folders(posixpath.dirname(path))
            with self.parent(path, write=True) as (folder, name):
                os.mkdir(name, 0o755, dir_fd=folder)
                if os.geteuid() == 0:
                    owner = os.fstat(folder)
                    os.chown(name, owner.st_uid, owner.st_gid, dir_fd=folder, follow_symlinks=False)

    def remove(self, path: str) -> None:
        with self.parent(path, write=True) as (folder, name):
            os.unlink(name, dir_fd=folder)


def _new_file(folder: int) -> tuple[str, int]:
    """(name, descriptor) of a file that nobody else has made: what lies there may be a pipe, or a link."""
    for number in range(1000):
        with contextlib.suppress(FileExistsError):
            name = f".edit-{number}.new"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            return name, os.open(name, flags, 0o600, dir_fd=folder)
    raise FileExistsError(errno.EEXIST, "too many files .edit-N.new lie in the folder")


def _link(folder: int, name: str) -> str | None:
    """The target if the entry is a link, else None; a missing entry is none."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as e:
        if e.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _near(folder: int, name: str) -> str:
    found = difflib.get_close_matches(name, sorted(os.listdir(folder))[:5000], n=3)
    return ", ".join(found)
