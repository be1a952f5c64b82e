"""Mutants: small behaviour changes of State A, all in one tree, of which one at a time is in force at run time.

A batch is tasks/<id>/mutants/<name>.toml. Its mutants carry numbers from 1 in their order; 0 stands for none.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from refactorbench.catalog.models import Closed, LoadedTask
from refactorbench.catalog.toml import Problems, load_toml
from refactorbench.errors import UsageError, did_you_mean
from refactorbench.hashing import sha256_file

PRELUDE = Path(__file__).with_name("mutants_prelude.c")
MOST = 65535  # numbers that the prelude can note
ENCODING, ERRORS = "utf-8", "surrogateescape"
_ID = re.compile(r"[a-z0-9][a-z0-9_.-]*", re.IGNORECASE)
Kind = Literal["expr", "stmt", "text"]


class Edit(Closed, frozen=True):
    """A change at `old`, which begins on line `line` (from 1, of the file as State A has it) and stands there once.

    kind: expr (`new` is the value instead of the expression `old`), stmt (`new` is run instead of the statement that
    begins with `old`), text (`new` replaces `old`; `@` in it stands for "this mutant is in force").
    """

    file: str
    line: int
    old: str
    new: str
    kind: Kind = "expr"


class Mutant(Closed, frozen=True):
    """One behaviour change: the edit named here and `more`. `shown`: its author saw an input that tells it apart."""

    id: str
    title: str
    file: str
    line: int
    old: str
    new: str
    kind: Kind = "expr"
    more: tuple[Edit, ...] = ()
    shown: bool = False

    @property
    def edits(self) -> tuple[Edit, ...]:
        return (Edit(self.file, self.line, self.old, self.new, self.kind), *self.more)


class _File(Closed, frozen=True):
    schema: Literal["refactorbench.mutants/1"]
    mutant: tuple[Mutant, ...]


class Batch(msgspec.Struct, frozen=True):
    name: str
    sha256: str
    mutants: tuple[Mutant, ...]

    def numbered(self, only: Sequence[str] = ()) -> list[tuple[int, Mutant]]:
        """(number, mutant) of all, or of those named; UsageError for an id that isn't there."""
        ids = [m.id for m in self.mutants]
        for id in only:
            if id not in ids:
                raise UsageError(
                    f"--only {id}: batch '{self.name}' has no such mutant{did_you_mean(id, ids)}: "
                    f"its ids are {', '.join(ids)}"
                )
        return [(k, m) for k, m in enumerate(self.mutants, 1) if not only or m.id in only]


def load_batch(loaded: LoadedTask, name: str = "") -> Batch:
    """The batch `name`, or the only one there is; UsageError when that leaves a choice, TaskError for a wrong file."""
    folder = loaded.folder / "mutants"
    names = sorted(p.stem for p in folder.glob("*.toml"))
    if not name and len(names) != 1:
        raise UsageError(f"{folder} holds {len(names)} batches ({', '.join(names) or 'none'}): name one by --batch")
    name = name or names[0]
    if name not in names:
        raise UsageError(
            f"--batch {name}: {folder} holds no {name}.toml{did_you_mean(name, names)}: "
            f"the batches are {', '.join(names) or '(none)'}"
        )
    path = folder / f"{name}.toml"
    mutants = load_toml(path, _File).mutant
    problems = Problems()
    for id, times in Counter(m.id for m in mutants).items():
        if times > 1:
            problems.append(f"{path}: mutant id '{id}' occurs {times} times, so one would hide the other: rename one")
        if not _ID.fullmatch(id):
            problems.append(f"{path}: mutant id '{id}' can't name a result: use letters, digits, '-', '_' and '.'")
    if not 1 <= len(mutants) <= MOST:
        problems.append(f"{path}: {len(mutants)} mutants: a batch has from 1 to {MOST}")
    problems.raise_if_any(str(path))
    return Batch(name, sha256_file(path), mutants)


class _Place(msgspec.Struct, frozen=True):
    """An edit in its file's text: it covers start <= offset < end, nothing for a statement that is put before."""

    start: int
    end: int
    number: int
    mutant: str
    edit: Edit

    @property
    def order(self) -> tuple[int, bool, int, int]:
        """Outer places before inner ones; what is put before a statement comes before what changes the statement."""
        return self.start, self.start < self.end, -self.end, -self.number


class _Unfit(Exception):
    """Two edits that can't both be made."""


def apply(batch: Batch, state_a: Path, dest: Path) -> None:
    """Lay State A into the new folder `dest` with all mutants of `batch` in it, none in force by itself.

    TaskError tells every edit that can't be made, by mutant, file and line.
    """
    problems = Problems()
    places: dict[str, list[_Place]] = {}
    texts: dict[str, str] = {}
    for number, mutant in batch.numbered():
        for edit in mutant.edits:
            if edit.file not in texts and (fault := _read(state_a, edit.file, texts)):
                problems.append(f"mutant '{mutant.id}': {fault}")
            elif edit.file in texts:
                found = _find(texts[edit.file], edit)
                if isinstance(found, str):
                    problems.append(f"mutant '{mutant.id}', {edit.file}, line {edit.line}: {found}")
                else:
                    end = found if edit.kind == "stmt" else found + len(edit.old)
                    places.setdefault(edit.file, []).append(_Place(found, end, number, mutant.id, edit))
    changed: dict[str, str] = {}
    for file, listed in places.items():
        try:
            changed[file] = _render(texts[file], 0, len(texts[file]), sorted(listed, key=lambda p: p.order))
        except _Unfit as e:
            problems.append(f"{file}: {e}")
    problems.raise_if_any(f"batch '{batch.name}' of mutants")
    shutil.copytree(state_a, dest, symlinks=True)
    prelude = PRELUDE.read_text()
    for file, text in changed.items():
        path = dest / file
        path.chmod(0o644)
        path.write_bytes((prelude + text).encode(ENCODING, ERRORS))


def _read(state_a: Path, file: str, texts: dict[str, str]) -> str:
    """Put the file's text into `texts`; return what is wrong with the name, or ""."""
    path = state_a / file
    if not path.resolve().is_relative_to(state_a.resolve()) or path.is_symlink() or not path.is_file():
        return f"file '{file}' is no file of State A, so it can't be applied: correct the name"
    texts[file] = path.read_bytes().decode(ENCODING, ERRORS)
    return ""


def _find(text: str, edit: Edit) -> int | str:
    """The offset of `old`, or what is wrong in words."""
    lines = text.count("\n") + (not text.endswith("\n"))
    if not 1 <= edit.line <= lines:
        return f"the file has {lines} lines, so it can't be applied: correct the line"
    if not edit.old:
        return "old is empty, so there is no place to apply it: name the text that is changed"
    if edit.kind == "text" and "@" not in edit.new:
        return "new has no '@', so the change would always be in force: write '@' where the condition belongs"
    start = _line_start(text, edit.line)
    at = list(_hits(text, edit.old, start, _line_start(text, edit.line + 1)))
    if len(at) == 1:
        return at[0]
    shown = text[start : _line_start(text, edit.line + 1)].strip()
    if at:
        return f"old '{edit.old}' stands {len(at)} times in '{shown}', so its place is unknown: make it longer"
    elsewhere = [text.count("\n", 0, hit) + 1 for hit in _hits(text, edit.old, 0, len(text))]
    where = f"it begins on line {', '.join(map(str, elsewhere[:5]))}" if elsewhere else "it is nowhere in the file"
    return f"old '{edit.old}' doesn't begin there but '{shown}' stands there; {where}: correct line or old"


def _line_start(text: str, line: int) -> int:
    at = 0
    for _ in range(line - 1):
        at = text.find("\n", at) + 1
        if not at:
            return len(text)
    return at


def _hits(text: str, old: str, low: int, high: int) -> Iterator[int]:
    """Offsets from `low` up to `high` at which `old` begins, overlapping ones too."""
    at = text.find(old, low)
    while 0 <= at < high:
        yield at
        at = text.find(old, at + 1)


def _render(text: str, start: int, end: int, places: Sequence[_Place]) -> str:
    """text[start:end] with the edits made; `places` are sorted and lie in it."""
    out, left = [], list(places)
    while left:
        outer = left.pop(0)
        inside = []
        while left and left[0].start < outer.end:
            if left[0].end > outer.end:
                raise _Unfit(
                    f"mutants '{outer.mutant}' (line {outer.edit.line}) and '{left[0].mutant}' (line "
                    f"{left[0].edit.line}) change texts that overlap, so both can't be made: let one hold the other"
                )
            inside.append(left.pop(0))
        inner = _render(text, outer.start, outer.end, inside)
        out += [text[start : outer.start], _wrapped(outer, inner)]
        start = outer.end
    return "".join([*out, text[start:end]])


def _wrapped(place: _Place, inner: str) -> str:
    edit, condition = place.edit, f"rb_is({place.number})"
    if edit.kind == "expr":
        return f"({condition}?({edit.new}):({inner}))"
    if edit.kind == "stmt":
        return f"if({condition}){{{edit.new}}}else "
    if inner == edit.old:
        return edit.new.replace("@", condition)
    if edit.new.count(edit.old) != 1:
        raise _Unfit(
            f"another mutant changes what mutant '{place.mutant}' (line {edit.line}) replaces, so both can't be made: "
            "let its new hold its old once, or change another text"
        )
    before, after = edit.new.split(edit.old)
    return before.replace("@", condition) + inner + after.replace("@", condition)
