"""The agent-computer interface's view of files: a window with real line numbers, searches that are refused rather than
cut, and edits in several formats. Source of the values: SWE-agent (arXiv 2405.15793)."""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
import stat
from collections.abc import Iterator, Mapping

from refactorbench.agents.confined import LARGEST, Box, Refused
from refactorbench.agents.edit import EditFailed, decode, missing, one_line, places_of, printable

OVERLAP = 2  # lines that stay in sight when scrolling
HUNK = re.compile(r"^@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+[0-9]+(?:,[0-9]+)? @@")


class Window:
    """The open file and the first line shown. `size` lines are shown at once; 0: the whole file."""

    def __init__(self, box: Box, size: int, path: str = "", first: int = 1) -> None:
        self.box, self.size, self.path, self.first = box, size, path, first

    def lines(self) -> list[str]:
        if not self.path:
            raise Refused("No file is open. Open one first: open PATH")
        text = decode(self.box.read(self.path))
        lines = text.split("\n")
        return lines[:-1] if lines[-1] == "" else lines

    def open(self, path: str, line: int | None) -> str:
        before = self.path, self.first
        self.path, self.first = path, 1
        try:
            total = len(self.lines())
            if line is not None and not 1 <= line <= max(1, total):
                raise Refused(f"line {line} doesn't exist: {path} has {total} lines. Give one from 1 to {total}.")
        except Refused:
            self.path, self.first = before
            raise
        if line is not None:
            self.first = line - self.size // 2
        return self.show()

    def goto(self, line: int) -> str:
        total = len(self.lines())
        if not 1 <= line <= max(1, total):
            raise Refused(f"line {line} doesn't exist: {self.path} has {total} lines. Give one from 1 to {total}.")
        self.first = line - self.size // 6
        return self.show()

    def scroll(self, down: bool) -> str:
        self.lines()
        self.first += (self.size - OVERLAP) * (1 if down else -1)
        return self.show()

    def show(self) -> str:
        lines = self.lines()
        size = self.size or max(1, len(lines))
        self.first = max(1, min(self.first, len(lines) - size + 1))
        return window(self.path, lines, self.first, size)


def window(path: str, lines: list[str], first: int, size: int) -> str:
    """`size` lines from `first` on with their numbers; the total, and how many are above and below."""
    shown = lines[first - 1 : first - 1 + size]
    below = len(lines) - (first - 1 + len(shown))
    body = [f"{first + i}:{printable(line)}" for i, line in enumerate(shown)]
    above = [f"({first - 1} lines above)"] if first > 1 else []
    return "\n".join(
        [f"[{path}, {len(lines)} lines in all]", *above, *body, *([f"({below} lines below)"] if below else [])]
    )


class Search:
    """Plain text is looked for, hidden files and folders are left out. More than `most` results are refused."""

    def __init__(self, box: Box, most: int) -> None:
        self.box, self.most = box, most

    def _refuse(self, found: int, what: str) -> None:
        if found > self.most:
            raise Refused(f"{what}: more than {self.most} results, too many to be of use. Look for something narrower.")

    def in_file(self, term: str, path: str) -> str:
        lines = decode(self.box.read(path)).split("\n")
        hits = [(n, line) for n, line in enumerate(lines, 1) if term in line]
        if not hits:
            return f"No line of {path} holds {term!r}."
        self._refuse(len(hits), f"{len(hits)} lines of {path} hold {term!r}")
        body = "\n".join(f"{n}:{printable(line)[:300]}" for n, line in hits)
        return f"{len(hits)} lines of {path} hold {term!r}:\n{body}"

    def in_folder(self, term: str, folder: str) -> str:
        wanted, hits = term.encode(errors="surrogateescape"), []
        for path, data in self._files(folder):
            count = sum(wanted in line for line in data.split(b"\n")) if wanted in data else 0
            if count:
                hits.append((path, count))
        if not hits:
            return f"No file below {folder} holds {term!r}."
        total = sum(count for _, count in hits)
        self._refuse(len(hits), f"{total} lines in {len(hits)} files below {folder} hold {term!r}")
        body = "\n".join(f"{one_line(path)} ({count} lines)" for path, count in hits)
        return f"{total} lines in {len(hits)} files below {folder} hold {term!r}:\n{body}"

    def files(self, name: str, folder: str) -> str:
        pattern = re.sub(r"\*+", "*", re.sub(r"([\[?])", r"[\1]", name))  # only * stands for other text
        found = (path for path, _ in self._files(folder, read=False))
        hits = [path for path in found if fnmatch.fnmatchcase(posixpath.basename(path), pattern)]
        if not hits:
            return f"No file below {folder} is called {name!r}."
        self._refuse(len(hits), f"{len(hits)} files below {folder} are called {name!r}")
        return f"{len(hits)} files below {folder} are called {name!r}:\n" + "\n".join(map(one_line, hits))

    def lines(self, term: str, place: str, folder: bool) -> list[tuple[str, int]]:
        """(path, line number) of every line of the file `place`, or of the files below it, that holds `term`."""
        wanted = term.encode(errors="surrogateescape")
        files = self._files(place) if folder else [(place, self.box.read(place))]
        return sorted(
            (path, n) for path, data in files for n, line in enumerate(data.split(b"\n"), 1) if wanted in line
        )

    def _files(self, folder: str, read: bool = True) -> Iterator[tuple[str, bytes]]:
        """(path, content) of text files below; the content is b"" where it isn't asked for."""
        top = self.box.open(folder)
        try:
            if not stat.S_ISDIR(os.fstat(top).st_mode):
                raise Refused(f"{folder} is not a folder. Name one, or use search_file.")
            for root, dirs, names, fd in os.fwalk(".", dir_fd=top):
                dirs[:] = sorted(d for d in dirs if not d.startswith("."))
                for name in sorted(n for n in names if not n.startswith(".")):
                    path = posixpath.normpath(posixpath.join(folder, root, name))
                    if not read:
                        yield path, b""
                    elif (data := _text(fd, name)) is not None:
                        yield path, data
        finally:
            os.close(top)


class Matches:
    """Results one at a time, each shown in the window. `at` is the one that was shown last. They are looked for anew at
    every step, since edits move them."""

    def __init__(self, search: Search, window: Window, kept: Mapping[str, str | int]) -> None:
        self._search, self._window = search, window
        self.term, self.place = str(kept.get("term", "")), str(kept.get("place", ""))
        self.folder = bool(kept.get("folder", 0))
        self.at = str(kept.get("match_path", "")), int(kept.get("match_line", 0))

    def kept(self) -> dict[str, str | int]:
        """What to know again after a restart."""
        if not self.term:
            return {}
        return {
            "term": self.term, "place": self.place, "folder": int(self.folder), "match_path": self.at[0],
            "match_line": self.at[1],
        }  # fmt: skip

    def first(self, term: str, place: str, folder: bool) -> str:
        if not term:
            raise Refused("The term is empty. Give some text to look for.")
        if not self._search.lines(term, place, folder):
            return f"No line {'below' if folder else 'of'} {place} holds {term!r}."
        self.term, self.place, self.folder, self.at = term, place, folder, ("", 0)
        return self.step(True)

    def step(self, forward: bool) -> str:
        """Show the next result, or the one before."""
        if not self.term:
            raise Refused("Nothing was searched for. Use search_file or search_dir first.")
        found = self._search.lines(self.term, self.place, self.folder)
        onward = [m for m in found if (m > self.at if forward else m < self.at)]
        if not onward:
            side = "after" if forward else "before"
            raise Refused(f"There is no result {side} the last one shown, of {len(found)} for {self.term!r}.")
        self.at = onward[0] if forward else onward[-1]
        number, (path, line) = found.index(self.at) + 1, self.at
        return f"result {number} of {len(found)} for {self.term!r}, line {line}:\n{self._window.open(path, line)}"


def _text(folder: int, name: str) -> bytes | None:
    """A regular text file's content, None for anything else."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as f:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_size > LARGEST:
            return None
        data = f.read(LARGEST)
    return None if b"\0" in data[:8192] else data


def replace_range(lines: list[str], first: int, last: int, new: str, path: str) -> tuple[list[str], int]:
    """Lines `first` to `last` replaced; return (lines, where the edit begins)."""
    if not 1 <= first <= last <= max(1, len(lines)):
        raise EditFailed(
            f"lines {first}:{last} don't fit: {path} has {len(lines)} lines, and first:last are both replaced. Nothing "
            "was changed. Look at the numbers in the window and give them again."
        )
    return [*lines[: first - 1], *(new.split("\n") if new else []), *lines[last:]], first


def replace_text(lines: list[str], old: str, new: str, path: str) -> tuple[list[str], int]:
    """The one place where `old` stands, replaced."""
    text = "\n".join(lines)
    count = text.count(old) if old else 0
    if count == 0:
        raise EditFailed(missing(text, old, path))
    if count > 1:
        raise EditFailed(f"the text stands {count} times in {path}; nothing was changed. Take in more lines around it.")
    at = text.index(old)
    return (text[:at] + new + text[at + len(old) :]).split("\n"), text.count("\n", 0, at) + 1


def apply_diff(lines: list[str], diff: str, path: str) -> tuple[list[str], int]:
    """A unified diff's hunks, each where its numbers say, or at the one other place where its lines stand."""
    result, shift, begin = list(lines), 0, 0
    hunks = _hunks(diff)
    if not hunks:
        raise EditFailed(
            "the diff holds no hunk (a line like @@ -3,4 +3,5 @@ and lines with ' ', '-' or '+' in front)."
        )
    for start, old, new in hunks:
        at = start - 1 + shift
        if result[at : at + len(old)] != old or at < 0:
            places = places_of(result, old)
            if len(places) != 1 or not old:
                why = missing("\n".join(result), "\n".join(old), path)
                raise EditFailed(f"the hunk at line {start} doesn't fit at {len(places)} places. {why}")
            at = places[0]
        result[at : at + len(old)] = new
        shift += len(new) - len(old)
        begin = begin or at + 1
    return result, begin


def _hunks(diff: str) -> list[tuple[int, list[str], list[str]]]:
    found: list[tuple[int, list[str], list[str]]] = []
    for line in diff.split("\n"):
        head = HUNK.match(line)
        if head:
            # a hunk that removes nothing is said to follow the line that it names
            found.append((int(head[1]) + (head[2] == "0"), [], []))
        elif found and line[:1] in (" ", "-", "+", ""):
            _, old, new = found[-1]
            if line[:1] != "+":
                old.append(line[1:])
            if line[:1] != "-":
                new.append(line[1:])
    for _, old, new in found:
        while old and new and old[-1] == new[-1] == "":  # an empty line at the end of the reply is no context
            old.pop(), new.pop()
    return found
