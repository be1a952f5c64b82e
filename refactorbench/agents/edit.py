"""The edit tool: view, create, str_replace, insert, undo_edit. A text is replaced only where it stands exactly once; a
refusal says how often it was found, what stands nearby and how to go on."""

from __future__ import annotations

import base64
import difflib
import hashlib
import itertools
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from refactorbench.agents.act import Act, Change
from refactorbench.agents.confined import Box, Refused
from refactorbench.llm.protocol import Image

IMAGES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
LARGEST_IMAGE = 3 << 20
MOST_ENTRIES = 300  # of a folder's listing
NEAR = 3  # lines shown around a place
LONGEST_LINE = 2000  # characters shown of one line
COMPARED = 200  # places that are held against a text
ALIKE_LINES, ALIKE_LENGTH = 20_000, 300  # lines, and characters of a line, that one may be likened to


class EditFailed(Refused):
    """An edit whose text was not found, or not exactly once."""


def decode(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def encode(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def printable(text: str) -> str:
    """Text for a model: bytes that are no UTF-8 are spelled out."""
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


def image_kind(data: bytes) -> str:
    """By its first bytes, whatever its name: a provider refuses what isn't what it is said to be. "" for no image."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in IMAGES.items() if data.startswith(magic)), "")


def one_line(name: str) -> str:
    """A file's name for a list with one name a line: what would end the line is spelled out."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in printable(name))


def numbered(lines: list[str], first: int) -> str:
    """Lines with their real numbers, the first one being number `first`."""
    return "\n".join(f"{first + i:6}\t{_clip(line)}" for i, line in enumerate(lines))


def _clip(line: str) -> str:
    line = printable(line)
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[:LONGEST_LINE]} [{len(line) - LONGEST_LINE} more characters of this line are not shown]"


def around(lines: list[str], at: int, width: int = 1) -> str:
    """Line `at` (from 0) and `width` lines, with NEAR lines before and after."""
    first = max(0, at - NEAR)
    return numbered(lines[first : at + width + NEAR], first + 1)


class Editor:
    """`store` keeps contents for undo_edit; `tolerant` lets white space at both ends of lines differ; `cut` characters
    of a file are shown at most; `images`: whether the model is shown images; `replace_files`: whether create may."""

    def __init__(
        self, box: Box, store: Path, history: Iterable[Change] = (), tolerant: bool = False, cut: int = 30_000,
        images: bool = False, replace_files: bool = False,
    ) -> None:  # fmt: skip
        self.box, self._store, self.tolerant, self._cut, self._images = box, store, tolerant, cut, images
        self._replace_files = replace_files
        store.mkdir(parents=True, exist_ok=True)
        self.history: list[Change] = []
        for change in history:
            self.remember(change)

    def remember(self, change: Change) -> None:
        if change.undone:
            self._forget(msgspec.structs.replace(change, undone=False))
        else:
            self.history.append(change)

    def _forget(self, change: Change) -> None:
        """Drop the last step that equals `change`: the same edit may have been made and taken back before."""
        at = len(self.history) - 1 - self.history[::-1].index(change)
        del self.history[at]

    def view(self, path: str, view_range: Sequence[int] | None = None) -> Act:
        """A file with line numbers, a folder two levels deep, or an image."""
        fd = self.box.open(path)
        info = os.fstat(fd)
        os.close(fd)
        if stat.S_ISDIR(info.st_mode):
            return Act(self._listing(path))
        raw = self.box.read(path)
        kind = image_kind(raw)
        if kind and self._images and info.st_size <= LARGEST_IMAGE:
            return Act(f"{path}, an image:", images=(Image(kind, base64.b64encode(raw).decode()),))
        if b"\0" in raw[:8192]:
            raise Refused(f"{path} is binary ({len(raw)} bytes). Look at it with `od -c {path} | head`.")
        lines = decode(raw).split("\n")
        if lines[-1] == "":
            lines.pop()
        first, last = self._range(view_range, len(lines), path)
        return Act(self._window(path, lines, first, last))

    def _range(self, given: Sequence[int] | None, total: int, path: str) -> tuple[int, int]:
        if given is None:
            return 1, total
        first, last = given
        last = total if last == -1 else last
        if not 1 <= first <= max(total, 1) or last < first:
            raise Refused(
                f"view_range {list(given)} doesn't fit: {path} has {total} lines. Give [first, last] with "
                f"1 <= first <= last, or [first, -1] to read to the end."
            )
        return first, min(last, total)

    def _window(self, path: str, lines: list[str], first: int, last: int) -> str:
        if not lines:
            return f"{path} is empty."
        shown: list[str] = []
        size = 0
        for line in lines[first - 1 : last]:
            size += min(len(line), LONGEST_LINE) + 8
            if shown and size > self._cut:
                break
            shown.append(line)
        end = first + len(shown) - 1
        text = f"{path}, lines {first} to {end} of {len(lines)}:\n{numbered(shown, first)}"
        if end < last:
            text += f"\n[lines {end + 1} to {last} are not shown: see them with view_range [{end + 1}, {last}].]"
        return text

    def _listing(self, path: str) -> str:
        found: list[str] = []
        self._list(path, 2, found)
        more = len(found) - MOST_ENTRIES
        text = "\n".join([f"{path}, two levels deep, hidden entries left out:", *found[:MOST_ENTRIES]])
        return text + (f"\n[{more} more entries are not shown: list a folder below.]" if more > 0 else "")

    def _list(self, path: str, depth: int, found: list[str]) -> None:
        fd = self.box.open(path)
        try:
            names = sorted(n for n in os.listdir(fd) if not n.startswith("."))  # noqa: PTH208 - a descriptor
            for name in names:
                try:
                    info = os.stat(name, dir_fd=fd, follow_symlinks=False)
                except FileNotFoundError:  # gone since it was listed
                    continue
                below = f"{path.rstrip('/')}/{name}"
                if stat.S_ISDIR(info.st_mode):
                    found.append(one_line(below) + "/")
                    if depth > 1:
                        self._list(below, depth - 1, found)
                else:
                    found.append(one_line(below))
        finally:
            os.close(fd)

    def create(self, path: str, text: str) -> Act:
        """Write a new file; folders on the way are made. One that exists is refused, or replaced where allowed."""
        before = self._content(path)
        if before is not None and not self._replace_files:
            raise Refused(
                f"{path} exists ({len(before)} bytes), and create is for new files. Change it with str_replace or "
                f"insert, or remove it first: rm {path}"
            )
        change = self._write(path, before, encode(text))
        what = "is written" if before is None else "is replaced as a whole; undo_edit brings the former one back"
        return Act(
            f"{path} {what} ({text.count(chr(10)) + (not text.endswith(chr(10)))} lines).", "edited", change=change
        )

    def str_replace(self, path: str, old: str, new: str) -> Act:
        """Replace the one place where `old` stands. EditFailed says what was found instead."""
        text = decode(self.box.read(path))
        if not old:
            raise EditFailed("old_str is empty. Give the text to be replaced, or use insert or create.")
        if old == new:
            raise EditFailed("old_str and new_str are the same, so nothing would change. Correct one of them.")
        count = text.count(old)
        if count > 1:
            raise EditFailed(self._many(text, old, path, count))
        if count == 0 and self.tolerant:
            return self._tolerant(path, text, old, new)
        if count == 0:
            raise EditFailed(missing(text, old, path))
        at = text.index(old)
        return self._replaced(path, text, at, at + len(old), new)

    def _replaced(self, path: str, text: str, start: int, end: int, new: str) -> Act:
        changed = text[:start] + new + text[end:]
        change = self._write(path, encode(text), encode(changed))
        line = changed.count("\n", 0, start)
        shown = around(changed.split("\n"), line, new.count("\n") + 1)
        return Act(f"{path} is edited. It now reads:\n{shown}", "edited", change=change)

    def _many(self, text: str, old: str, path: str, count: int) -> str:
        places: list[int] = []
        at = -1
        while (at := text.find(old, at + 1)) >= 0 and len(places) < 20:
            places.append(text.count("\n", 0, at) + 1)
        shown = ", ".join(map(str, places)) + (" and more" if count > len(places) else "")
        return (
            f"old_str stands {count} times in {path}, at lines {shown}, so it is not clear which one is meant; nothing "
            "was changed. Add lines before or after it, in old_str and in new_str, until it stands there once."
        )

    def _tolerant(self, path: str, text: str, old: str, new: str) -> Act:
        """Match whole lines by their text without white space at both ends; indent `new` as the place is."""
        lines = text.split("\n")
        wanted = [line.strip() for line in old.strip("\n").split("\n")]
        stripped = [line.strip() for line in lines]
        at = places_of(stripped, wanted)
        if len(at) != 1 or not any(wanted):
            more = f" White space aside it stands {len(at)} times." if at else ""
            raise EditFailed(missing(text, old, path) + more)
        first = next(i for i, w in enumerate(wanted) if w)
        have, said = _indent(lines[at[0] + first]), _indent(old.strip("\n").split("\n")[first])
        start = sum(len(line) + 1 for line in lines[: at[0]])
        end = start + len("\n".join(lines[at[0] : at[0] + len(wanted)]))
        return self._replaced(path, text, start, end, _reindent(new.strip("\n"), said, have))

    def insert(self, path: str, line: int, text: str) -> Act:
        """Insert `text` as lines of its own after line number `line` (0: at the top)."""
        before = decode(self.box.read(path))
        lines = before.split("\n")
        total = len(lines) - (lines[-1] == "")
        if not 0 <= line <= total:
            raise EditFailed(
                f"insert_line {line} doesn't fit: {path} has {total} lines. Give 0 for the top, {total} for the end."
            )
        head = "".join(f"{one}\n" for one in lines[:line])  # also mends a last line without an end
        tail = "\n".join(lines[line:])
        body = text if text.endswith("\n") or not tail else text + "\n"
        change = self._write(path, encode(before), encode(head + body + tail))
        shown = around((head + body + tail).split("\n"), line, body.count("\n"))
        return Act(f"{path} is edited. It now reads:\n{shown}", "edited", change=change)

    def undo(self, path: str) -> Act:
        """Take back this tool's last edit of a file."""
        clean = self.box.check(path)
        last = next((c for c in reversed(self.history) if c.path == clean), None)
        if last is None:
            raise Refused(f"there is no edit of {path} to undo: only edits that this tool made can be taken back.")
        now = self._content(path)
        if _digest(now) != last.after:
            raise Refused(
                f"{path} was changed by something else since its last edit, so undoing that would lose the change. "
                "Look at it with view and edit it instead."
            )
        if last.before:
            self.box.write(path, self._kept(path, last.before))
        else:
            self.box.remove(path)
        self._forget(last)
        what = "reads as before its last edit" if last.before else "is removed: it did not exist before its last edit"
        return Act(f"{path} {what}.", "edited", change=Change(clean, last.before, last.after, undone=True))

    def _kept(self, path: str, digest: str) -> bytes:
        place = self._store / digest
        data = place.read_bytes() if place.is_file() else b""
        if _digest(data) != digest:
            raise Refused(f"what {path} held before its last edit is no longer there: edit it instead.")
        return data

    def _content(self, path: str) -> bytes | None:
        self.box.check(path)
        try:
            return self.box.read(path)
        except Refused:
            try:
                with self.box.parent(path) as (folder, name):
                    os.stat(name, dir_fd=folder, follow_symlinks=False)
            except (Refused, FileNotFoundError):
                return None
            raise

    def _write(self, path: str, before: bytes | None, after: bytes) -> Change:
        if before is not None:
            kept = self._store / _digest(before)
            if not kept.exists():
                kept.with_suffix(".part").write_bytes(before)
                kept.with_suffix(".part").rename(kept)
        self.box.write(path, after, folders=True)
        change = Change(self.box.check(path), _digest(before), _digest(after))
        self.history.append(change)
        return change


def _digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()


def places_of(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where `wanted` stands in `lines` as a whole, from 0; the first COMPARED places."""
    text, old = "\n" + "\n".join(lines) + "\n", "\n" + "\n".join(wanted) + "\n"
    found: list[int] = []
    at, seen, line = text.find(old), 0, 0
    while at >= 0 and wanted and len(found) < COMPARED:
        line, seen = line + text.count("\n", seen, at), at
        found.append(line)
        at = text.find(old, at + 1)
    return found


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _reindent(text: str, said: str, have: str) -> str:
    lines = text.split("\n")
    return "\n".join(have + line.removeprefix(said) if line.strip() else line for line in lines)


def nearest(wanted: str, lines: Iterable[str]) -> list[str]:
    """The one of `lines` that is most like `wanted`, if any is; long ones aren't looked at."""
    if len(wanted) > ALIKE_LENGTH:
        return []
    some = {line for line in itertools.islice(lines, ALIKE_LINES) if len(line) <= ALIKE_LENGTH}
    return difflib.get_close_matches(wanted, sorted(some), n=1)


def missing(text: str, old: str, path: str) -> str:
    """Why `old` is not in `text`: the place that comes nearest, and the first line that differs there."""
    lines, wanted = text.split("\n"), old.split("\n")
    head = f"old_str stands 0 times in {path}; nothing was changed."
    start = next((i for i, w in enumerate(wanted) if w.strip()), None)
    if start is None:
        return f"{head} It is white space only: include lines with text."
    places = [i for i, line in enumerate(lines) if line.strip() == wanted[start].strip()]
    if not places:
        near = nearest(wanted[start].strip(), (line.strip() for line in lines))
        if not near:
            return f"{head} Not even its line {wanted[start].strip()[:120]!r} is there. View the file first."
        at = next(i for i, line in enumerate(lines) if line.strip() == near[0])
        return (
            f"{head} The line that comes nearest to {wanted[start].strip()[:120]!r} stands here:\n{around(lines, at)}"
        )

    def agreeing(at: int) -> int:
        pairs = zip(wanted[start:], lines[at:], strict=False)
        return next((n for n, (w, have) in enumerate(pairs) if w != have), len(wanted) - start)

    at = max(places[:COMPARED], key=agreeing)
    off = agreeing(at)
    if start + off >= len(wanted) or at + off >= len(lines):
        return f"{head} Its lines stand at line {at + 1}, but not as a part like this:\n{around(lines, at, off)}"
    said, have = wanted[start + off], lines[at + off]
    how = " (they differ in white space only)" if said.split() == have.split() else ""
    return (
        f"{head} Line {at + off + 1} of the file is {printable(have)[:200]!r} where old_str has {said[:200]!r}{how}. "
        f"The file reads there:\n{around(lines, at, off + 1)}\nCopy the text from here, without the line numbers."
    )
