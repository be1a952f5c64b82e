"""One file of a submission, layer by layer: what stands in it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec

from refactorbench.audit.docket import BytesAnchor, StatAnchor, TextAnchor
from refactorbench.audit.witnesses import answers, binaries, content, decode, headless, languages, pictures, texts
from refactorbench.audit.witnesses.fingerprints import Match
from refactorbench.audit.witnesses.state_a import FEWEST_TABLE, StateA

OPAQUE_BYTES = 4096
OPAQUE_TABLE_BYTES = 32768  # of numbers written out in source: tables of honest code are this large
OPAQUE_BITS = 7.2
FEWEST_FOREIGN = 30  # tokens in functions
FEWEST_STATEMENTS = 4  # in a text that may be a piece of old code
FEWEST_TRAILING = 512  # bytes after the end of a picture
OTHER_SYSTEMS = frozenset({"PE", "COFF", "Mach-O"})  # can't be linked or run where a submission is graded
_ARCHIVE_STEPS = frozenset({"from", "at", "gzip", "zlib", "bz2", "xz", "lzma", "zstd", "zip", "tar", "pack"})
_CODE_KINDS = {"binary-code", "binary-unread"}

Anchor = BytesAnchor | TextAnchor | StatAnchor


class Hit(msgspec.Struct, frozen=True):
    """A finding before it has an id."""

    kind: str
    anchor: Anchor
    why: str


class Sum:
    """What adds up over the files of a tree."""

    def __init__(self) -> None:
        self.stored: dict[int, BytesAnchor] = {}  # answer -> where a piece of it stands
        self.functions: dict[int, BytesAnchor] = {}  # State A's function -> a layer that holds it
        self.pieces: set[int] = set()
        self.piece_anchor: BytesAnchor | None = None  # the layer that holds most of them
        self.most_pieces = 0
        self.layers: dict[str, int] = {}  # last step -> layers


class Reader:
    """Reads one file. A kind is told once per file, at the place where it was seen first."""

    def __init__(
        self,
        path: str,
        known: StateA,
        decoder: decode.Decoder,
        total: Sum,
        say: Callable[[Hit], None],
        read: bool,
        aside: bool,
        start: int = 0,
    ) -> None:
        """`read`: the build takes the file in; `aside`: it is version control data or a cache; `start`: where in the
        file the bytes begin."""
        self.path, self.known, self.decoder, self.total, self._say = path, known, decoder, total, say
        self.read, self.aside = read, aside
        self.first = (f"from:{start}",) if start else ()
        self.told: set[str] = set()

    def say(self, kind: str, anchor: Anchor, why: str) -> None:
        if kind not in self.told:
            self.told.add(kind)
            self._say(Hit(kind, anchor, why))

    def look(self, data: bytes) -> None:
        later: list[tuple[str, decode.Layer, int]] = []
        for layer in self.decoder.layers(data):
            name = layer.steps[-1].partition(":")[0] if layer.steps else "files"
            self.total.layers[name] = self.total.layers.get(name, 0) + 1
            text = content.is_text(layer.data)
            self._code(layer)
            if text:
                self._text(layer)
            else:
                self._hidden(layer)
                if (at := headless.machine_code(layer.data)) >= 0:
                    later.append(("raw-code", layer, at))
                if self._opaque(layer):
                    later.append(("opaque-data", layer, 0))
            self._stored(layer)
        for kind, layer, at in later:
            self._unexplained(kind, layer, at)
        for cut in self.decoder.cuts:
            why = f"{self._place(cut.steps)}: stopped at the bound {cut.bound}"
            self.say("not-fully-read", self._bytes(decode.Layer((), data), 0, 64), why)
        if not self.first:
            self._plain(data)

    def _place(self, steps: tuple[str, ...]) -> str:
        return " > ".join((shown(self.path), *steps))

    def _bytes(self, layer: decode.Layer, offset: int, size: int) -> BytesAnchor:
        return anchor(self.path, self.first + layer.steps, layer.data, offset, size)

    def _opaque(self, layer: decode.Layer) -> bool:
        numbers = bool(layer.steps) and layer.steps[-1] in content.INT_FORMS
        enough = OPAQUE_TABLE_BYTES if numbers else OPAQUE_BYTES
        return len(layer.data) >= enough and content.entropy(layer.data) > OPAQUE_BITS

    def _unexplained(self, kind: str, layer: decode.Layer, at: int) -> None:
        if self.told & _CODE_KINDS:
            return
        size = len(layer.data)
        if kind == "raw-code":
            why = f"from byte {at} on {self._place(layer.steps)} is distributed like machine code, without a header"
            self.say(kind, self._bytes(layer, at, size - at), why)
        elif layer.steps not in self.decoder.opened:
            why = f"{size} bytes of {self._place(layer.steps)} look like noise and nothing opens them"
            self.say(kind, self._bytes(layer, 0, size), why)

    def _code(self, layer: decode.Layer) -> None:
        tries = binaries.Tries()
        code = binaries.find_byte_code(layer.data, tries)
        if code is None:
            if tries.left < 0:
                self.decoder.cuts.append(decode.Cut(layer.steps, f"{binaries.MOST_ROWS} rows of headers"))
            return
        native = code.form not in OTHER_SYSTEMS
        kind = "binary-code" if self.read and native else "binary-unread"
        how = "hidden in " if is_hidden(layer.steps) else ""
        told = "the build takes it in" if self.read else "the build doesn't take it in"
        why = f"{code.form} code {how}{self._place(layer.steps)}; {told}"
        self.say(kind, self._bytes(layer, code.offset, code.size), why)

    def _hidden(self, layer: decode.Layer) -> None:
        end = pictures.media_end(layer.data)
        if end and len(layer.data) - end >= FEWEST_TRAILING:
            why = f"{len(layer.data) - end} bytes follow the end of the picture or sound {self._place(layer.steps)}"
            self.say("hidden-data", self._bytes(layer, end, len(layer.data) - end), why)
        if layer.steps and layer.steps[-1].startswith("lsb"):
            self.say("hidden-data", self._bytes(layer, 0, 64), f"{self._place(layer.steps)} holds more than noise")

    def _text(self, layer: decode.Layer) -> None:
        functions = languages.c_functions(layer.data)
        match, held = self.known.fingerprints.read(functions)
        if match is not None:
            self._remains(layer, match)
        if "comments" in layer.steps:
            return
        target = languages.defines(self.known.task.to_stack, layer.data)
        self._pieces(layer, held, bool(target))
        if match is None and is_foreign(self.known.task.to_stack, layer.data, functions):
            built = self.read and not layer.steps and languages.c_unit(layer.data, functions)
            first = functions[0]
            place, name = self._place(layer.steps), _show(first.name)
            where = self._bytes(layer, first.offset, first.end - first.offset)
            why = f"{place} defines {len(functions)} old-language functions, first {name}"
            self.say("foreign-source-built" if built else "foreign-source", where, why)
        assembly = languages.compiled_assembly(layer.data)
        if assembly is not None:
            marks = f"{assembly[0]} instructions, a compiler's marks: {', '.join(assembly[1])}"
            kind = "compiled-assembly" if self.read else "inline-assembly"
            self.say(kind, self._bytes(layer, 0, len(layer.data)), f"{self._place(layer.steps)}: {marks}")
        self._words(layer, bool(target))

    def _words(self, layer: decode.Layer, target: bool) -> None:
        """What a text says to its reader, or hides from one."""
        found = next(texts.grader_text(layer.data), None)
        if found is None and target:
            found = next(texts.grader_places(layer.data), None)
        if found is not None:
            where = self._bytes(layer, found.start(), len(found[0]))
            self.say("grader-text", where, f"{self._place(layer.steps)} says {_show(found[0])!r}")
        if not is_hidden(layer.steps) and (at := texts.unseen(layer.data)) >= 0:
            why = f"{self._place(layer.steps)} holds many characters that show nothing"
            self.say("hidden-data", self._bytes(layer, at, 64), why)

    def _remains(self, layer: decode.Layer, match: Match) -> None:
        names = ", ".join(match.functions[:4]) + (" ..." if len(match.functions) > 4 else "")
        why = f"{self._place(layer.steps)} holds {len(match.functions)} functions of State A's {match.path}: {names}"
        kind = "old-source-in-history" if self.aside and not self.read else "source-remains"
        if "comments" in layer.steps:
            kind = "source-in-comments"
        self.say(kind, self._bytes(layer, 0, len(layer.data)), why)

    def _pieces(self, layer: decode.Layer, held: list[int], target: bool) -> None:
        """Functions of State A's that stand here alone, and pieces of them without a header, for the sum."""
        if self.aside and not self.read:
            return
        for number in held:
            self.total.functions.setdefault(number, self._bytes(layer, 0, len(layer.data)))
        if target or len(_statements(layer.data)) < FEWEST_STATEMENTS:
            return
        pieces = self.known.fingerprints.pieces(languages.tokens(layer.data))
        self.total.pieces |= pieces
        if len(pieces) > self.total.most_pieces:
            self.total.most_pieces = len(pieces)
            self.total.piece_anchor = self._bytes(layer, 0, len(layer.data))

    def _stored(self, layer: decode.Layer) -> None:
        if self.read:
            for s in self.known.index.scan(layer.data):
                self.total.stored.setdefault(s.answer, self._bytes(layer, s.offset, answers.PIECE))

    def _plain(self, data: bytes) -> None:
        """What matters only in the file as it stands."""
        if not content.is_text(data):
            return
        if texts.is_build_file(self.path) and (fetch := next(texts.fetches(self.path, data), None)):
            self.say("network-fetch", self._line(data, fetch.start()), f"{shown(self.path)} asks for {_show(fetch[0])}")
        target = languages.defines(self.known.task.to_stack, data)
        assembly = next(texts.inline_assembly(data), None)
        if assembly and target:
            self.say("inline-assembly", self._line(data, assembly.start()), f"{shown(self.path)} holds inline assembly")
        elif not target and languages.instruction_lines(data) >= languages.FEWEST_INSTRUCTIONS:
            self.say("inline-assembly", self._line(data, 0), f"{shown(self.path)} is assembly text")
        for offset, _, numbers in content.int_lists(data) if self.known.tables else ():
            if len(numbers) >= FEWEST_TABLE and (origin := self.known.tables.get(hash(tuple(numbers)))):
                why = f"{shown(self.path)} holds a table of State A's {origin}"
                self.say("copied-table", self._line(data, offset), why)

    def _line(self, data: bytes, offset: int) -> TextAnchor:
        end = data.find(b"\n", offset)
        quote = data[offset : end if end >= 0 else None][:120]
        return TextAnchor(self.path, languages.line_of(data, offset), quote.decode("utf-8", "replace"))


def anchor(path: str, steps: tuple[str, ...], data: bytes, offset: int, size: int) -> BytesAnchor:
    piece = data[offset : offset + size]
    return BytesAnchor(path, offset, len(piece), hashlib.sha256(piece).hexdigest(), steps)


def shown(path: str) -> str:
    """A path for people: whatever would break a line is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in path)


def is_hidden(steps: tuple[str, ...]) -> bool:
    """True when a step is no ordinary archive or compression."""
    return any(s.partition(":")[0] not in _ARCHIVE_STEPS for s in steps)


def is_foreign(to_stack: str, text: bytes, functions: list[languages.Function]) -> bool:
    """New code of the old language: enough of it, and not in a text of the target language."""
    return sum(len(f.tokens) for f in functions) >= FEWEST_FOREIGN and not languages.defines(to_stack, text)


def _statements(text: bytes) -> list[bytes]:
    return text.split(b";\n", FEWEST_STATEMENTS)[1:]


def _show(text: bytes) -> str:
    return text[:80].decode("utf-8", "replace")
