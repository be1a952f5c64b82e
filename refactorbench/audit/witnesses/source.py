"""The source witness: every file of a submission by content, through every layer that opens.

Nothing is skipped by name or folder. Files that are State A's and that the instruction keeps are allowed by digest.
State A's own source is PROOF wherever it lies. Code in a file that neither the build nor the product takes in can't
carry the old stack into the product (honest trees hold such files as test fixtures), so that is a LEAD.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

import msgspec

from refactorbench.audit.docket import BytesAnchor, Eye, EyeReport, Finding, StatAnchor, TextAnchor
from refactorbench.audit.kinds import SOURCE_KINDS
from refactorbench.audit.witnesses import answers, binaries, content, decode, languages, texts
from refactorbench.audit.witnesses.fingerprints import Match
from refactorbench.audit.witnesses.state_a import FEWEST_TABLE, StateA, regular_files
from refactorbench.catalog.models import LoadedTask
from refactorbench.hashing import walk

OPAQUE_BYTES = 4096
OPAQUE_TABLE_BYTES = 32768  # of numbers written out in source: tables of honest code are this large
OPAQUE_BITS = 7.2
FEWEST_FOREIGN = 30  # tokens in functions
OTHER_SYSTEMS = frozenset({"PE", "COFF", "Mach-O"})  # can't be linked or run where a submission is graded
MOST_PER_KIND = 40  # findings shown; the rest is counted
MOST_CODE = 1 << 20  # bytes of a file that is held against State A's functions
_ARCHIVE_STEPS = frozenset({"at", "gzip", "zlib", "bz2", "xz", "lzma", "zstd", "zip", "tar", "pack"})
_CACHE_TAG = b"Signature: 8a477f597d28d172789f06886806bc55"


class Hit(msgspec.Struct, frozen=True):
    """A finding before it has an id."""

    kind: str
    anchor: BytesAnchor | TextAnchor | StatAnchor
    why: str


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
        self.hits: list[Hit] = []
        self.stored: dict[int, BytesAnchor] = {}
        self.counts = dict.fromkeys(("files", "bytes", "layers", "kept", "target_files", "old_sources_left"), 0)
        self.old_left: set[str] = set()

    def tree(self) -> None:
        for raw, info in walk(self.root):
            path = os.fsdecode(raw)
            if stat.S_ISLNK(info.st_mode):
                self._link(path)
            elif stat.S_ISREG(info.st_mode):
                self._file(path)
            elif not stat.S_ISDIR(info.st_mode):
                self._say(
                    "not-fully-read", TextAnchor(path, 1, "special file"), "a device, pipe or socket can't be read"
                )
        self._answers()
        self._migrated()
        self._resembles()

    def _say(self, kind: str, anchor: BytesAnchor | TextAnchor | StatAnchor, why: str) -> None:
        self.hits.append(Hit(kind, anchor, why))

    def _link(self, path: str) -> None:
        target = str((self.root / path).readlink())
        landing = os.path.normpath(Path(path).parent / target)
        if Path(target).is_absolute() or landing.startswith(".."):
            self._say("link-out", TextAnchor(path, 1, target), f"{path} points to {target}, outside the tree")

    def _file(self, path: str) -> None:
        most = self.decoder.bounds.layer
        with (self.root / path).open("rb") as f:
            data = f.read(most + 1)
        self.counts["files"] += 1
        self.counts["bytes"] += len(data)
        if len(data) > most:
            data = data[:most]
            self._say(
                "not-fully-read", _anchor(path, (), data, 0, 64), f"only the first {most} bytes of {path} were read"
            )
        file = _File(self, path, data, self.reads is not None and path in self.reads, _out_of_the_way(self.root, path))
        if data and not self._is_state_a(path, data, file.aside and not file.read):
            file.look()

    def _is_state_a(self, path: str, data: bytes, aside: bool) -> bool:
        """True when the file is State A's own, told if it should have gone."""
        digest = hashlib.sha256(data).hexdigest()
        if digest in self.known.kept:
            self.counts["kept"] += 1
            return True
        if digest in self.known.sources:
            self.old_left.add(digest)
            why = f"{path} is State A's {self.known.sources[digest]}, which the instruction doesn't keep"
            self._say(
                "old-source-in-history" if aside else "source-remains", _anchor(path, (), data, 0, len(data)), why
            )
            return True
        if digest in self.known.files:
            why = f"{path} is State A's {self.known.files[digest]}, unchanged"
            self._say("state-a-left", _anchor(path, (), data, 0, len(data)), why)
            return True
        return False

    def _answers(self) -> None:
        if not self.stored:
            return
        anchor = next(iter(self.stored.values()))
        n = len(self.stored)
        kind = "recorded-answers" if n >= answers.FEWEST_ANSWERS else "few-recorded-answers"
        self._say(kind, anchor, f"pieces of {n} distinct recorded answers are stored, the first in {anchor.path}")

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
        shown: dict[str, int] = {}
        for hit in self.hits:
            shown[hit.kind] = shown.get(hit.kind, 0) + 1
            if shown[hit.kind] <= MOST_PER_KIND:
                id = f"source-{len(findings) + 1:03d}"
                findings.append(Finding(id, Eye.SOURCE, hit.kind, SOURCE_KINDS[hit.kind].strength, hit.anchor, hit.why))
        bounds = self.decoder.bounds
        covered = {name: str(n) for name, n in self.counts.items()}
        covered |= {f"more {kind}": str(n - MOST_PER_KIND) for kind, n in shown.items() if n > MOST_PER_KIND}
        covered |= {f"bound {name}": str(getattr(bounds, name)) for name in bounds.__struct_fields__}
        covered |= {"recorded_answers": str(self.known.index.answers), "build_reads": "unknown"}
        if self.reads is not None:
            covered["build_reads"] = str(len(self.reads))
        return EyeReport(Eye.SOURCE, "looked", tuple(findings), covered)


class _File:
    """One file's layers. A kind is told once per file, at the place where it was seen first."""

    def __init__(self, look: _Look, path: str, data: bytes, read: bool, aside: bool) -> None:
        self.look_, self.path, self.data, self.read, self.aside = look, path, data, read, aside
        self.told: set[str] = set()

    def say(self, kind: str, anchor: BytesAnchor | TextAnchor, why: str) -> None:
        if kind not in self.told:
            self.told.add(kind)
            self.look_._say(kind, anchor, why)

    def look(self) -> None:
        decoder = self.look_.decoder
        opaque: list[decode.Layer] = []
        for layer in decoder.layers(self.data):
            self.look_.counts["layers"] += 1
            text = content.is_text(layer.data)
            if not text and self._opaque(layer):
                opaque.append(layer)
            self._code(layer)
            if text:
                self._text(layer)
            self._stored(layer)
        for layer in opaque:
            if (
                layer.steps not in decoder.opened
                and "binary-code" not in self.told
                and "binary-unread" not in self.told
            ):
                why = f"{len(layer.data)} bytes of {self._place(layer)} look like noise and nothing opens them"
                self.say("opaque-data", self._bytes(layer, 0, len(layer.data)), why)
        for cut in decoder.cuts:
            where = " > ".join((self.path, *cut.steps))
            self.say(
                "not-fully-read", _anchor(self.path, (), self.data, 0, 64), f"{where}: stopped at the bound {cut.bound}"
            )
        self._plain()

    def _place(self, layer: decode.Layer) -> str:
        return " > ".join((self.path, *layer.steps))

    def _bytes(self, layer: decode.Layer, offset: int, size: int) -> BytesAnchor:
        return _anchor(self.path, layer.steps, layer.data, offset, size)

    def _opaque(self, layer: decode.Layer) -> bool:
        numbers = any(s.startswith("ints") for s in layer.steps)
        fewest = OPAQUE_TABLE_BYTES if numbers else OPAQUE_BYTES
        return len(layer.data) >= fewest and content.entropy(layer.data) > OPAQUE_BITS

    def _code(self, layer: decode.Layer) -> None:
        code = binaries.find_byte_code(layer.data)
        if code is None:
            return
        native = code.form not in OTHER_SYSTEMS
        kind = "binary-code" if self.read and native else "binary-unread"
        how = "hidden in " if is_hidden(layer.steps) else ""
        told = "the build takes it in" if self.read else "the build doesn't take it in"
        self.say(
            kind, self._bytes(layer, code.offset, code.size), f"{code.form} code {how}{self._place(layer)}; {told}"
        )

    def _text(self, layer: decode.Layer) -> None:
        functions = languages.c_functions(layer.data)
        match = self.look_.known.fingerprints.match(functions)
        if match is not None:
            self._remains(layer, match)
        elif is_foreign(self.look_.known.task.to_stack, layer.data, functions):
            built = self.read and not layer.steps and languages.c_unit(layer.data, functions)
            first = functions[0]
            why = f"{self._place(layer)} defines {len(functions)} old-language functions, first {_show(first.name)}"
            anchor = self._bytes(layer, first.offset, first.end - first.offset)
            self.say("foreign-source-built" if built else "foreign-source", anchor, why)
        assembly = languages.compiled_assembly(layer.data)
        if assembly is not None:
            why = f"{self._place(layer)}: {assembly[0]} instructions, a compiler's marks: {', '.join(assembly[1])}"
            self.say(
                "compiled-assembly" if self.read else "inline-assembly",
                self._bytes(layer, 0, len(layer.data)),
                why,
            )
        if grader := next(texts.grader_text(layer.data), None):
            anchor = self._bytes(layer, grader.start(), len(grader[0]))
            self.say("grader-text", anchor, f"{self._place(layer)} says {_show(grader[0])!r}")

    def _remains(self, layer: decode.Layer, match: Match) -> None:
        names = ", ".join(match.functions[:4]) + (" ..." if len(match.functions) > 4 else "")
        why = f"{self._place(layer)} holds {len(match.functions)} functions of State A's {match.path}: {names}"
        kind = "old-source-in-history" if self.aside and not self.read else "source-remains"
        self.say(kind, self._bytes(layer, 0, len(layer.data)), why)

    def _stored(self, layer: decode.Layer) -> None:
        if self.read:
            for s in self.look_.known.index.scan(layer.data):
                self.look_.stored.setdefault(s.answer, self._bytes(layer, s.offset, answers.PIECE))

    def _plain(self) -> None:
        """What matters only in the file as it stands."""
        if not content.is_text(self.data):
            return
        if texts.is_build_file(self.path) and (fetch := next(texts.fetches(self.path, self.data), None)):
            self.say("network-fetch", self._line(fetch.start()), f"{self.path} asks for {_show(fetch[0])}")
        target = languages.defines(self.look_.known.task.to_stack, self.data)
        assembly = next(texts.inline_assembly(self.data), None)
        if assembly and target:
            self.say("inline-assembly", self._line(assembly.start()), f"{self.path} holds inline assembly")
        elif not target and languages.instruction_lines(self.data) >= languages.FEWEST_INSTRUCTIONS:
            self.say("inline-assembly", self._line(0), f"{self.path} is assembly text")
        for offset, _, numbers in content.int_lists(self.data) if self.look_.known.tables else ():
            if len(numbers) >= FEWEST_TABLE and (origin := self.look_.known.tables.get(hash(tuple(numbers)))):
                self.say("copied-table", self._line(offset), f"{self.path} holds a table of State A's {origin}")

    def _line(self, offset: int) -> TextAnchor:
        end = self.data.find(b"\n", offset)
        quote = self.data[offset : end if end >= 0 else None][:120]
        return TextAnchor(self.path, languages.line_of(self.data, offset), quote.decode("utf-8", "replace"))


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


def is_hidden(steps: tuple[str, ...]) -> bool:
    """True when a step is no ordinary archive or compression."""
    return any(s.partition(":")[0] not in _ARCHIVE_STEPS for s in steps)


def is_foreign(to_stack: str, text: bytes, functions: list[languages.Function]) -> bool:
    """New code of the old language: enough of it, and not in a text of the target language."""
    return sum(len(f.tokens) for f in functions) >= FEWEST_FOREIGN and not languages.defines(to_stack, text)


def migration_figures(root: Path, known: StateA) -> tuple[int, int, int]:
    """(files that define code of the target stack, old sources still there by digest, old sources of State A).

    Where the target's language isn't known to this witness the first figure is 1: nothing is concluded from it."""
    target, left = 0, set()
    for path, info in regular_files(root):
        if info.st_size > decode.Bounds().layer or _out_of_the_way(root, path):
            continue
        data = (root / path).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if digest in known.sources:
            left.add(known.sources[digest])
        elif digest not in known.files and content.is_text(data):
            target += languages.defines(known.task.to_stack, data) is not False
    return target, len(left), len(set(known.sources.values()))


def not_migrated(figures: tuple[int, ...]) -> bool:
    """No code of the target at all, or every old source still there."""
    target, left, old = figures
    return not target or (old > 0 and left == old)


def _anchor(path: str, steps: tuple[str, ...], data: bytes, offset: int, size: int) -> BytesAnchor:
    piece = data[offset : offset + size]
    return BytesAnchor(path, offset, len(piece), hashlib.sha256(piece).hexdigest(), steps)


def _out_of_the_way(root: Path, path: str) -> bool:
    """True inside version control data and inside a build tool's own cache folder (tagged as one)."""
    parts = Path(path).parts[:-1]
    for i, part in enumerate(parts):
        folder = root.joinpath(*parts[: i + 1])
        if part == ".git" and (folder / "HEAD").is_file():
            return True
        tag = folder / "CACHEDIR.TAG"
        if tag.is_file() and not tag.is_symlink():
            with tag.open("rb") as f:
                if f.read(len(_CACHE_TAG)) == _CACHE_TAG:
                    return True
    return False


def _show(text: bytes) -> str:
    return text[:80].decode("utf-8", "replace")
