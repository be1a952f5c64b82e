"""The source witness: every file of a submission by content, through every layer that opens.

Nothing is skipped by name or folder. Files that are State A's and that the instruction keeps are allowed by digest.
State A's own source is PROOF wherever it lies. Code in a file that neither the build nor the product takes in can't
carry the old stack into the product (honest trees hold such files as test fixtures), so that is a LEAD.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from refactorbench.audit.docket import BytesAnchor, Eye, EyeReport, Finding, StatAnchor, TextAnchor
from refactorbench.audit.kinds import SOURCE_KINDS
from refactorbench.audit.witnesses import answers, binaries, content, decode, languages, texts
from refactorbench.audit.witnesses.reading import OTHER_SYSTEMS, Anchor, Hit, Reader, Sum, anchor, is_foreign, shown
from refactorbench.audit.witnesses.state_a import StateA, regular_files
from refactorbench.catalog.models import LoadedTask
from refactorbench.hashing import walk

SUMS = frozenset({"recorded-answers", "source-remains"})  # may rest on several files: only looking at all shows them
MOST_PER_KIND = 40  # findings shown; the rest is counted
MOST_CODE = 1 << 20  # bytes of a file that is held against State A's functions
_BLOCK = 1 << 20
_OVERLAP = 1 << 16  # what stands across the end of a window, up to this size, is seen in the next
_DEFINING = 1 << 20  # bytes of a file in which code of the target must begin
_CACHE_TAG = b"Signature: 8a477f597d28d172789f06886806bc55"


def witness(
    submission: Path,
    state_a: Path,
    loaded_task: LoadedTask,
    recording_answers: Iterable[bytes] | None,
    build_reads: set[str] | None,
    bounds: decode.Bounds | None = None,
    known: StateA | None = None,
) -> EyeReport:
    """Look at the whole submission.

    `recording_answers`: recorded outputs, one item per output, or None without a recording. `build_reads`: paths
    relative to the submission that the build or the product takes in from it, None when no build could be traced.
    `known`: what is known of State A and its recorded answers, where the caller has read them already.
    """
    known = known or StateA(state_a, loaded_task.task, recording_answers)
    look = _Look(submission, known, build_reads, bounds or decode.Bounds())
    look.tree()
    return look.report()


class _Look:
    def __init__(self, root: Path, known: StateA, reads: set[str] | None, bounds: decode.Bounds) -> None:
        self.root, self.known, self.reads = root, known, reads
        self.decoder = decode.Decoder(bounds)
        self.hits: dict[str, list[Hit]] = {}
        self.total = Sum()
        names = ("files", "links", "bytes", "kept", "repeated", "unread", "target_files", "old_sources_left")
        self.counts = dict.fromkeys(names, 0)
        self.old_left: set[str] = set()
        self._plain: set[tuple[bytes, bool, bool, bool]] = set()
        self._aside = _Aside(root)

    def tree(self) -> None:
        """What the build takes in comes first and small files before large ones, so that padding costs only itself."""
        files = []
        for raw, info in walk(self.root):
            path = os.fsdecode(raw)
            if stat.S_ISREG(info.st_mode):
                files.append((not self._read(path), info.st_size, path))
                self.hits[path] = []
            elif stat.S_ISLNK(info.st_mode):
                self._link(path)
            elif not stat.S_ISDIR(info.st_mode):
                why = "a device, pipe or socket can't be read"
                self._say("not-fully-read", TextAnchor(path, 1, "special file"), why)
            self._name(path)
        for _, _, path in sorted(files):
            self._file(path)
        self._answers()
        self._scattered()
        self._migrated()
        self._resembles()

    def _read(self, path: str) -> bool:
        return self.reads is not None and path in self.reads

    def _say(self, kind: str, where: Anchor, why: str) -> None:
        path = "" if isinstance(where, StatAnchor) else where.path
        self.hits.setdefault(path, []).append(Hit(kind, where, why))

    def _name(self, path: str) -> None:
        if words := next(texts.grader_text(os.path.basename(os.fsencode(path))), None):  # noqa: PTH119 - bytes
            self._say("grader-text", TextAnchor(path, 1, shown(path)), f"a name says {words[0][:80]!r}")

    def _link(self, path: str) -> None:
        self.counts["links"] += 1
        target = str((self.root / path).readlink())
        landing = Path(os.path.realpath(self.root / path))
        if Path(target).is_absolute() or not landing.is_relative_to(self.root.resolve()):
            why = f"{shown(path)} points to {shown(target)}, outside the tree"
            self._say("link-out", TextAnchor(path, 1, target), why)

    def _file(self, path: str) -> None:
        self.counts["files"] += 1
        read, aside = self._read(path), self._aside(path)
        with (self.root / path).open("rb") as f:
            for start, data in windows(f, self.decoder.bounds.layer):
                self.counts["bytes"] += len(data)
                if start or not self._is_state_a(path, data, aside and not read):
                    self._window(path, start, data, read, aside)

    def _window(self, path: str, start: int, data: bytes, read: bool, aside: bool) -> None:
        key = (hashlib.sha256(data).digest(), read, aside, texts.is_build_file(path))
        if key in self._plain:
            self.counts["repeated"] += 1
            return
        if self.decoder.exhausted:
            self.counts["unread"] += 1
            why = f"{shown(path)} wasn't looked into: the work on the tree had reached {self.decoder.bounds.tree} bytes"
            self._say("not-fully-read", anchor(path, _from(start), data, 0, 64), why)
            return
        before = len(self.hits[path])
        reader = Reader(path, self.known, self.decoder, self.total, self.hits[path].append, read, aside, start)
        reader.look(data)
        if len(self.hits[path]) == before:
            self._plain.add(key)

    def _is_state_a(self, path: str, data: bytes, aside: bool) -> bool:
        """True when the file is State A's own, told if it should have gone."""
        digest = hashlib.sha256(data).hexdigest()
        if digest in self.known.kept:
            self.counts["kept"] += 1
            return True
        whole = anchor(path, (), data, 0, len(data))
        if digest in self.known.sources:
            self.old_left.add(digest)
            why = f"{shown(path)} is State A's {self.known.sources[digest]}, which the instruction doesn't keep"
            self._say("old-source-in-history" if aside else "source-remains", whole, why)
            return True
        if digest in self.known.files:
            self._say("state-a-left", whole, f"{shown(path)} is State A's {self.known.files[digest]}, unchanged")
            return True
        return False

    def _answers(self) -> None:
        stored = self.total.stored
        if len(stored) < answers.FEWEST_TOLD:
            return
        where = next(iter(stored.values()))
        kind = "recorded-answers" if len(stored) >= answers.FEWEST_ANSWERS else "few-recorded-answers"
        self._say(kind, where, f"pieces of {len(stored)} distinct recorded answers are stored, one in {where.path}")

    def _scattered(self) -> None:
        """State A's code that no file alone holds enough of: functions in files of their own, pieces to be included."""
        total = self.total
        found = self.known.fingerprints.scattered(total.functions, frozenset(total.pieces))
        if not found or any(hit.kind == "source-remains" for hits in self.hits.values() for hit in hits):
            return
        where = next(iter(total.functions.values()), None) or total.piece_anchor
        if where is not None:
            self._say("source-remains", where, f"over several files stands code of State A's {', '.join(found[:6])}")

    def _migrated(self) -> None:
        self.counts["old_sources_left"] = len(self.old_left)
        figures = migration_figures(self.root, self.known)
        self.counts["target_files"] = figures[0]
        if not_migrated(figures):
            why = f"{figures[0]} files define target code; {figures[1]} of {figures[2]} old sources remain"
            self._say("not-migrated", StatAnchor("not-migrated", figures), why)

    def _resembles(self) -> None:
        """All that defines code of the target, held against State A's functions."""
        texts = ((p, (self.root / p).read_bytes()) for p, info in regular_files(self.root) if info.st_size <= MOST_CODE)
        stack = self.known.task.to_stack
        code = {p: text for p, text in texts if content.is_text(text) and languages.defines(stack, text)}
        if found := self.known.resemblance.find(code.items()):
            lines = code[found.path].decode("utf-8", "replace").split("\n")
            at = next(i for i, line in enumerate(lines) if line.strip())
            names = ", ".join(found.functions[:4]) + (" ..." if len(found.functions) > 4 else "")
            why = f"{len(found.functions)} functions of State A's show through, most of them in {found.path}: {names}"
            self._say("resembles-state-a", TextAnchor(found.path, at + 1, lines[at][:120]), why)

    def report(self) -> EyeReport:
        findings: list[Finding] = []
        seen: dict[str, int] = {}
        for hit in (hit for hits in self.hits.values() for hit in hits):
            seen[hit.kind] = seen.get(hit.kind, 0) + 1
            if seen[hit.kind] <= MOST_PER_KIND:
                id = f"source-{len(findings) + 1:03d}"
                findings.append(Finding(id, Eye.SOURCE, hit.kind, SOURCE_KINDS[hit.kind].strength, hit.anchor, hit.why))
        return EyeReport(Eye.SOURCE, "looked", tuple(findings), self._covered(seen))

    def _covered(self, seen: dict[str, int]) -> dict[str, str]:
        layers, bounds = self.total.layers, self.decoder.bounds
        covered = {name: str(n) for name, n in self.counts.items()}
        covered["layers"] = str(sum(layers.values()))
        covered |= {f"layers {name}": str(n) for name, n in sorted(layers.items())}
        covered["work"] = str(self.decoder.spent)
        covered |= {f"more {kind}": str(n - MOST_PER_KIND) for kind, n in seen.items() if n > MOST_PER_KIND}
        covered |= {f"bound {name}": str(getattr(bounds, name)) for name in bounds.__struct_fields__}
        covered["state_a_functions"] = str(len(self.known.fingerprints.known))
        covered["recorded_answers"] = str(self.known.index.answers)
        covered["build_reads"] = "unknown" if self.reads is None else str(len(self.reads))
        return covered


def windows(f: BinaryIO, most: int) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of a file in windows of up to `most` bytes; what a large file has of empty blocks is left out."""
    data = f.read(most + 1)
    if len(data) <= most:
        if data:
            yield 0, data
        return
    empty, at, start, window = bytes(_BLOCK), 0, 0, bytearray()
    step = most - min(_OVERLAP, most // 4)
    f.seek(0)
    while block := f.read(_BLOCK):
        if block == empty[: len(block)]:
            if window:
                yield start, bytes(window)
            window = bytearray()
        else:
            if not window:
                start = at
            window += block
            while len(window) >= most:
                yield start, bytes(window[:most])
                start, window = start + step, window[step:]
        at += len(block)
    if window:
        yield start, bytes(window)


def confirms(kind: str, anchor: BytesAnchor, layer: bytes, known: StateA, reads: set[str] | None) -> bool:
    """Look again, for whoever re-opens a PROOF: is what `kind` says true of the decoded `layer` at `anchor`?"""
    read = reads is not None and anchor.path in reads
    functions = languages.c_functions(layer) if content.is_text(layer) else []
    if kind == "source-remains":
        return hashlib.sha256(layer).hexdigest() in known.sources or known.fingerprints.match(functions) is not None
    if kind == "binary-code":
        code = binaries.find_byte_code(layer)
        return read and code is not None and code.offset == anchor.offset and code.form not in OTHER_SYSTEMS
    if kind == "compiled-assembly":
        return read and languages.compiled_assembly(layer) is not None
    if kind == "foreign-source-built":
        unit = not anchor.decode and languages.c_unit(layer, functions)
        return read and unit and is_foreign(known.task.to_stack, layer, functions)
    return False


def migration_figures(root: Path, known: StateA) -> tuple[int, int, int]:
    """(files that define code of the target stack, old sources still there by digest, old sources of State A).

    Where the target's language isn't known to this witness the first figure is 1: nothing is concluded from it."""
    target, left = 0, set()
    aside = _Aside(root)
    for path, info in regular_files(root):
        if info.st_size > decode.Bounds().layer or aside(path):
            continue
        data = (root / path).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if digest in known.sources:
            left.add(known.sources[digest])
        elif digest not in known.files and content.is_text(data):
            target += languages.defines(known.task.to_stack, data[:_DEFINING]) is not False
    return target, len(left), len(set(known.sources.values()))


def not_migrated(figures: tuple[int, ...]) -> bool:
    """No code of the target at all, or every old source still there."""
    target, left, old = figures
    return not target or (old > 0 and left == old)


def _from(start: int) -> tuple[str, ...]:
    return (f"from:{start}",) if start else ()


class _Aside:
    """True of a path inside version control data or inside a build tool's own cache folder (tagged as one)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders: dict[str, bool] = {"": False}

    def __call__(self, path: str) -> bool:
        return self._folder(os.path.dirname(path))  # noqa: PTH120 - surrogate-safe text

    def _folder(self, folder: str) -> bool:
        known = []
        while folder not in self._folders:
            known.append(folder)
            folder = os.path.dirname(folder)  # noqa: PTH120
        for inner in reversed(known):
            self._folders[inner] = self._folders[os.path.dirname(inner)] or self._tagged(self.root / inner)  # noqa: PTH120
        return self._folders[known[0] if known else folder]

    @staticmethod
    def _tagged(folder: Path) -> bool:
        if folder.name == ".git" and (folder / "HEAD").is_file():
            return True
        tag = folder / "CACHEDIR.TAG"
        if not tag.is_file() or tag.is_symlink():
            return False
        with tag.open("rb") as f:
            return f.read(len(_CACHE_TAG)) == _CACHE_TAG
