"""Assembly text inside LLVM bitcode: what a compiler was given to pass through, wherever it came from.

Module-level and inline assembly are read from bitcode that rustc keeps under `-C save-temps`, so that text pasted by a
macro, an include or a build script is seen like text in the tree. The container is described in LLVM's "Bitcode File
Format"; only the blocks that can hold assembly are entered, all others are skipped by their stated length.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

WRAPPER, MAGIC = b"\xde\xc0\x17\x0b", b"BC\xc0\xde"
BLOCKINFO, MODULE, CONSTANTS, FUNCTION = 0, 8, 11, 12
ENTERED = {BLOCKINFO, MODULE, CONSTANTS, FUNCTION}
SETBID, MODULE_ASM, DECLAREBLOCKS = 1, 4, 1
SECTION_NAME, VARIABLE = 5, 7
VARIABLE_SECTION = 8  # where a variable's record says which section it is placed in, from 1; 0: none
INLINE_ASM = {30: 2, 28: 1, 23: 1}  # record code -> where the text's length stands
CHAR6 = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._"
DEPTH = 8
LONG_DIRECTIVE = 100  # characters of a directive that count as an instruction
MAX_BYTES = 256 << 20
DATA = re.compile(
    r"\.(byte|value|h?word|short|long|xword|int|quad|octa|ascii|asciz|string\w*|[248]byte|dcb?\.?\w*|ds\.\w|fill|skip|space|zero"
    r"|org|float|double|single|tfloat|[us]leb128|insn|inst)\b(.*)",
    re.DOTALL,
)
MORE = re.compile(r"\.(?:incbin|include|irpc?|rept?|macro|altmacro)\b")  # text that brings in, or makes, more of itself


class Assembly(msgspec.Struct, frozen=True):
    """One block of assembly text; `module` is False for an `asm!` inside a function."""

    module: bool
    text: str


class _Op(msgspec.Struct, frozen=True):
    kind: str  # literal | fixed | vbr | array | char6 | blob
    value: int = 0


class _Reader:
    """Bits of a stream; ValueError where it ends too early or contradicts itself."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.end = data, 0, len(data) * 8
        self.abbreviations: dict[int, list[list[_Op]]] = {}
        self.found: list[Assembly] = []
        self.sections: list[str] = []
        self.placed: list[int] = []  # sections of variables, as numbers

    def fixed(self, width: int) -> int:
        first, last = self.at >> 3, (self.at + width + 7) >> 3
        if self.at + width > self.end:
            raise ValueError("bitcode ends too early")
        value = int.from_bytes(self.data[first:last], "little") >> (self.at & 7)
        self.at += width
        return value & ((1 << width) - 1)

    def vbr(self, width: int) -> int:
        result = shift = 0
        while True:
            piece = self.fixed(width)
            result |= (piece & ((1 << (width - 1)) - 1)) << shift
            if not piece >> (width - 1):
                return result
            shift += width - 1
            if shift > 64:
                raise ValueError("a number in the bitcode is too long")

    def align(self) -> None:
        self.at = (self.at + 31) & ~31

    def definition(self) -> list[_Op]:
        ops: list[_Op] = []
        for _ in range(self.vbr(5)):
            if self.fixed(1):
                ops.append(_Op("literal", self.vbr(8)))
                continue
            kind = {1: "fixed", 2: "vbr", 3: "array", 4: "char6", 5: "blob"}.get(self.fixed(3))
            if kind is None:
                raise ValueError("unknown abbreviation in the bitcode")
            ops.append(_Op(kind, self.vbr(5) if kind in ("fixed", "vbr") else 0))
        return ops

    def scalar(self, op: _Op) -> int:
        if op.kind == "literal":
            return op.value
        if op.kind == "char6":
            return CHAR6[self.fixed(6)]
        return (self.fixed if op.kind == "fixed" else self.vbr)(op.value) if op.value else 0

    def record(self, ops: list[_Op], block: int) -> list[int]:
        values: list[int] = []
        index = 0
        while index < len(ops):
            op = ops[index]
            if op.kind == "array":
                count, element = self.vbr(6), ops[index + 1]
                width = 6 if element.kind == "char6" else element.value if element.kind == "fixed" else 0
                if width and values and not _wanted(block, values[0]):
                    self.at += count * width  # data of the program, not assembly
                else:
                    values += [self.scalar(element) for _ in range(min(count, self.end - self.at))]
                index += 2
            elif op.kind == "blob":
                count = self.vbr(6)
                self.align()
                self.at += count * 8
                self.align()
                index += 1
            else:
                values.append(self.scalar(op))
                index += 1
        return values

    def keep(self, block: int, values: list[int]) -> None:
        if not values or not _wanted(block, values[0]):
            return
        if block == MODULE and values[0] == SECTION_NAME:
            self.sections.append(bytes(v & 0xFF for v in values[1:]).decode(errors="backslashreplace"))
            return
        if block == MODULE and values[0] == VARIABLE:
            self.placed += [values[VARIABLE_SECTION]] if len(values) > VARIABLE_SECTION else []
            return
        if block == MODULE:
            text = bytes(v & 0xFF for v in values[1:])
        else:
            at = 1 + INLINE_ASM[values[0]]
            size = values[at] if at < len(values) else 0
            text = bytes(v & 0xFF for v in values[at + 1 : at + 1 + size])
        if text.strip():
            self.found.append(Assembly(block == MODULE, text.decode(errors="backslashreplace")))

    def block(self, block: int, width: int, end: int, depth: int) -> None:
        """Read one block up to bit `end`; `width` is the size of its abbreviation ids."""
        known = list(self.abbreviations.get(block, []))
        about = -1
        while self.at + width <= end:
            code = self.fixed(width)
            if code == 0:
                return
            if code == 1:
                inner, inner_width = self.vbr(8), self.vbr(4)
                self.align()
                inner_end = self.fixed(32) * 32 + self.at
                if inner in ENTERED and depth < DEPTH and inner_width:
                    self.block(inner, inner_width, min(inner_end, end), depth + 1)
                self.at = inner_end
                continue
            if code == 2:
                ops = self.definition()
                (self.abbreviations.setdefault(about, []) if block == BLOCKINFO else known).append(ops)
                continue
            if code == 3:
                first, count = self.vbr(6), self.vbr(6)
                values = [first] + [self.vbr(6) for _ in range(min(count, self.end - self.at))]
            elif code - 4 < len(known):
                values = self.record(known[code - 4], block)
            else:
                raise ValueError("a record in the bitcode uses no known abbreviation")
            if block == BLOCKINFO and values[:1] == [SETBID] and len(values) > 1:
                about = values[1]
            if block == FUNCTION and values[:1] != [DECLAREBLOCKS]:
                return  # a function's constants stand before its first instruction
            self.keep(block, values)


def _wanted(block: int, code: int) -> bool:
    if block == MODULE:
        return code in (MODULE_ASM, SECTION_NAME, VARIABLE)
    return block == CONSTANTS and code in INLINE_ASM


class Passed(msgspec.Struct, frozen=True):
    """What a compiler was given to pass through: non-empty assembly text, and sections that variables are placed in."""

    assembly: tuple[Assembly, ...]
    placed: tuple[str, ...]


def read(path: Path) -> Passed:
    """Read a bitcode file. ValueError when it isn't readable bitcode."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES >> 20} MiB of bitcode")
    data = path.read_bytes()
    if data[:4] == WRAPPER:
        data = data[int.from_bytes(data[8:12], "little") :]
    if data[:4] != MAGIC:
        raise ValueError("no bitcode")
    reader = _Reader(data)
    reader.at = 32
    try:
        reader.block(-1, 2, reader.end, 0)
    except (IndexError, RecursionError) as e:
        raise ValueError(f"damaged bitcode: {e}") from e
    names = [reader.sections[n - 1] for n in reader.placed if 0 < n <= len(reader.sections)]
    return Passed(tuple(reader.found), tuple(names))


def instructions(text: str) -> int:
    """How many instructions assembly text holds; code that is spelled as data counts by its operands."""
    total = 0
    for statement in re.split(r"[\n;]", re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)):
        words = re.sub(r"^\s*(?:[\w.$@\"]+:\s*)+", "", statement.split("#", 1)[0].split("//", 1)[0]).strip()
        data = DATA.match(words)
        if MORE.match(words):
            total += 1000  # what they bring in isn't seen here
        elif data:
            total += 1 + (data[2].count(",") + data[2].count("\\")) // 4
        elif words and not words.startswith("."):
            total += 1
        else:
            total += len(words) // LONG_DIRECTIVE  # .irp and its like can carry a program
    return total
