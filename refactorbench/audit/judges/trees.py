"""A tree as judges see it: everything that lies in it, nothing left out as noise, no link followed; read in bounded
memory whatever its files are."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec

from refactorbench.audit.ground import NEAR, Refused, open_inside
from refactorbench.audit.judges.shown import folded, shown
from refactorbench.errors import did_you_mean
from refactorbench.hashing import walk
from refactorbench.llm.inquiry import ToolError

Side = Literal["state-a", "submission"]
SIDES: tuple[Side, ...] = ("state-a", "submission")

CHUNK = 1 << 20
LINE = 2000  # bytes of a line that are read to be shown
QUOTED = 4 << 20  # bytes of a line that a quote is looked for in
SHORTEST = 8  # characters of a quote, white space aside, that isn't a whole line
QUOTE_LINES = 40


class Entry(msgspec.Struct, frozen=True):
    raw: bytes  # path relative to the tree
    mode: int
    size: int


class Tree:
    """One tree, walked once. Paths are shown as text: bytes that are no UTF-8 as \\xNN, invisible characters marked."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def entries(self) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        for raw, info in walk(self.root):
            path = path_shown(raw)
            while path in found:  # two names that look alike are two entries
                path += "⟨same name⟩"
            found[path] = Entry(raw, info.st_mode, info.st_size)
        return found

    @cached_property
    def folders(self) -> dict[str, list[str]]:
        """Folder ("" is the tree) -> its entries' shown paths, sorted."""
        found: dict[str, list[str]] = {"": []}
        for path, entry in self.entries.items():
            if stat.S_ISDIR(entry.mode):
                found.setdefault(path, [])
        for path, entry in self.entries.items():
            found.setdefault(path_shown(os.path.dirname(entry.raw)), []).append(path)  # noqa: PTH120 - bytes paths
        return found

    @cached_property
    def digests(self) -> dict[str, str]:
        """Shown path -> sha256 of every regular file."""
        return {path: self._digest(path) for path, e in self.entries.items() if stat.S_ISREG(e.mode)}

    def _digest(self, path: str) -> str:
        total = hashlib.sha256()
        for chunk in self.chunks(path):
            total.update(chunk)
        return total.hexdigest()

    def file(self, path: str) -> Entry:
        """The regular file `path`; ToolError says what else it is."""
        named = path.strip("/") if path.strip("/") in self.entries else path.removeprefix("./")
        entry = self.entries.get(named)
        if entry is None:
            raise ToolError(f"there is no '{shown(path)}' in this tree{near(path, self.entries)}")
        if not stat.S_ISREG(entry.mode):
            raise ToolError(f"'{path}' is {kind_of(entry.mode)}, no file to read")
        return entry

    def chunks(self, path: str) -> Iterator[bytes]:
        entry = self.file(path)
        try:
            with open_inside(self.root, os.fsdecode(entry.raw)) as f:
                while chunk := f.read(CHUNK):
                    yield chunk
        except Refused as e:
            raise ToolError(str(e)) from e

    def lines(self, path: str, first: int, count: int, most: int = LINE) -> tuple[list[bytes], int]:
        """Lines `first`.. (1-based), each up to `most` bytes, and how many lines the file has."""
        wanted: list[bytes] = []
        number, part, ended = 1, bytearray(), True
        for chunk in self.chunks(path):
            ended = chunk.endswith(b"\n")
            if number >= first + count or number + chunk.count(b"\n") < first:
                number += chunk.count(b"\n")
                continue
            for n, piece in enumerate(chunk.split(b"\n")):
                if n:
                    if first <= number < first + count:
                        wanted.append(bytes(part))
                    part.clear()
                    number += 1
                if first <= number < first + count:
                    part += piece[: most - len(part)]
        if not ended and first <= number < first + count:
            wanted.append(bytes(part))
        return wanted, number - 1 if ended else number


def near(path: str, known: Collection[str]) -> str:
    """A suggestion, where looking for one is quick."""
    return did_you_mean(path[:200], known) if len(known) <= 2000 else ""


def path_shown(raw: bytes) -> str:
    return shown(raw.decode("utf-8", "backslashreplace")).replace("\n", "⟨U+000A⟩").replace("\t", "⟨U+0009⟩")


def kind_of(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a link, and links are not followed" if stat.S_ISLNK(mode) else "no regular file"


def decoded(raw: bytes) -> str:
    return shown(raw.decode("utf-8", "backslashreplace").replace("\r", "⟨U+000D⟩"))


def quote_stands(tree: Tree, path: str, line: int, quote: str) -> str:
    """Why `quote` doesn't stand within three lines of `line` of the file `path`, white space aside; "" when it does."""
    wanted = folded(quote)
    size = quote.strip("\n").count("\n")
    if size >= QUOTE_LINES:
        return f"the quote has {size + 1} lines: quote the few that tell"
    try:
        first = max(1, line - NEAR)
        window, total = tree.lines(path, first, line - first + NEAR + size + 1, QUOTED)
    except ToolError as e:
        return str(e)
    if not 1 <= line <= total:
        return f"'{path}' has {total} lines, and no line {line}"
    texts = [folded(decoded(raw)) for raw in window]
    if len(wanted) < SHORTEST and wanted not in texts:
        return f"the quote is too short to tell anything: give {SHORTEST} characters or a whole line"
    return "" if wanted and wanted in "".join(texts) else f"the quote doesn't stand at {path}:{line}"


def found_in(
    chunks: Iterable[bytes], needles: list[bytes], ignore_case: bool, width: int
) -> Iterator[tuple[int, bytes]]:
    """(line number, excerpt of `width` bytes) of every line that holds a needle. Lines longer than a chunk are looked
    through piece by piece."""
    wanted = [n.lower() for n in needles] if ignore_case else needles
    overlap = max(len(n) for n in needles) - 1
    number, told, rest = 1, 0, b""
    for chunk in chunks:
        block = rest + chunk
        low = block.lower() if ignore_case else block
        if any(n in low for n in wanted):
            for at, line in enumerate(block.split(b"\n")):
                low = line.lower() if ignore_case else line
                places = [p for p in (low.find(n) for n in wanted) if p >= 0]
                if places and told != number + at:  # the end of a block is looked at twice
                    told = number + at
                    start = max(0, min(places) - 80) if len(line) > width else 0
                    yield told, line[start : start + width]
        number += block.count(b"\n")
        tail = block[block.rfind(b"\n") + 1 :]
        rest = tail if len(tail) < CHUNK else tail[len(tail) - overlap :]
