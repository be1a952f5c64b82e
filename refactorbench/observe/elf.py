"""A small ELF reader for files that may be hostile: no loop and no name is longer than its bound.

It sees what the dynamic loader sees (program headers and the dynamic segment, not section headers, which a file may
lack or forge). General ELF libraries follow counts and sizes out of the file, which a forged header turns into endless
loops.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec

MAX_SYMBOLS = 1 << 18
MAX_SEGMENTS = 1 << 10
MAX_DYNAMIC = 1 << 12
MAX_NAME = 1 << 10

MACHINES = {3: "i386", 21: "ppc64", 22: "s390", 40: "arm", 62: "x86-64", 183: "aarch64", 243: "riscv"}
TYPES = {1: "relocatable", 2: "executable", 3: "shared", 4: "core"}
SYMBOL_TYPES = {0: "notype", 1: "object", 2: "func", 6: "tls", 10: "ifunc"}

_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_SONAME, _DT_TEXTREL, _DT_FLAGS = 4, 5, 6, 14, 22, 30
_DT_GNU_HASH = 0x6FFFFEF5
_DF_TEXTREL = 4
_EXPORTED_BINDINGS = (1, 2, 10)  # global, weak, unique
_VISIBLE = (0, 3)  # default, protected


class Malformed(ValueError):
    """The file isn't ELF, or what it says about itself can't be true."""


class Segment(msgspec.Struct, frozen=True):
    kind: int
    flags: int
    offset: int
    address: int
    file_size: int


class Symbol(msgspec.Struct, frozen=True):
    name: bytes
    kind: str


class Elf:
    """Facts of one ELF file given as bytes. Every method raises Malformed for what can't be read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        if data[:4] != b"\x7fELF":
            raise Malformed("no ELF magic")
        if len(data) < 52 or data[4] not in (1, 2) or data[5] not in (1, 2):
            raise Malformed("damaged ELF header")
        self.bits = 32 * data[4]
        self._order = "<" if data[5] == 1 else ">"
        layout = "HHIQQQIHHH" if self.bits == 64 else "HHIIIIIHHH"
        kind, machine, _, _, phoff, _, _, _, phentsize, phnum = self._unpack(layout, 16)
        self.kind = TYPES.get(kind, str(kind))
        self.machine = MACHINES.get(machine, str(machine))
        self.segments = tuple(self._segments(phoff, phentsize, phnum))
        self.dynamic = self._dynamic()

    def _unpack(self, layout: str, offset: int) -> tuple[int, ...]:
        try:
            return struct.unpack_from(self._order + layout, self.data, offset)
        except (struct.error, OverflowError) as e:
            raise Malformed(f"nothing to read at offset {offset}") from e

    def _segments(self, phoff: int, entsize: int, count: int) -> Iterator[Segment]:
        if count > MAX_SEGMENTS:
            raise Malformed(f"{count} program headers")
        for i in range(count):
            at = phoff + i * entsize
            if self.bits == 64:
                kind, flags, offset, address, _, size = self._unpack("IIQQQQ", at)
            else:
                kind, offset, address, _, size, _, flags = self._unpack("IIIIIII", at)
            yield Segment(kind, flags, offset, address, size)

    def _dynamic(self) -> dict[int, int]:
        """Tag -> value; of a repeated tag (only DT_NEEDED may be) the first."""
        found: dict[int, int] = {}
        word = 8 if self.bits == 64 else 4
        for s in self.segments:
            if s.kind == _PT_DYNAMIC:
                for i in range(min(s.file_size // (2 * word), MAX_DYNAMIC)):
                    tag, value = self._unpack("QQ" if word == 8 else "II", s.offset + i * 2 * word)
                    if tag == 0:
                        break
                    found.setdefault(tag, value)
        return found

    def _offset(self, address: int) -> int:
        for s in self.segments:
            if s.kind == _PT_LOAD and s.address <= address < s.address + s.file_size:
                return s.offset + address - s.address
        raise Malformed(f"address {address:#x} is in no loaded segment")

    def _name(self, index: int) -> bytes:
        start = self._offset(self.dynamic.get(_DT_STRTAB, 0)) + index
        end = self.data.find(b"\0", start, start + MAX_NAME)
        if end < 0:
            raise Malformed(f"a name at offset {start} doesn't end")
        return self.data[start:end]

    @property
    def soname(self) -> bytes:
        return self._name(self.dynamic[_DT_SONAME]) if _DT_SONAME in self.dynamic else b""

    @property
    def stack(self) -> str:
        """exec | noexec | unmarked (then the platform's default holds, on x86 an executable stack)."""
        marks = [s.flags & 1 for s in self.segments if s.kind == _PT_GNU_STACK]
        return "unmarked" if not marks else "exec" if any(marks) else "noexec"

    @property
    def textrel(self) -> bool:
        return _DT_TEXTREL in self.dynamic or bool(self.dynamic.get(_DT_FLAGS, 0) & _DF_TEXTREL)

    def _symbol_count(self) -> int:
        if _DT_HASH in self.dynamic:
            return self._unpack("II", self._offset(self.dynamic[_DT_HASH]))[1]
        if _DT_GNU_HASH not in self.dynamic:
            return 0
        base = self._offset(self.dynamic[_DT_GNU_HASH])
        buckets, first, bloom, _ = self._unpack("IIII", base)
        if buckets > MAX_SYMBOLS:
            raise Malformed(f"{buckets} hash buckets")
        table = base + 16 + bloom * (self.bits // 8)
        last = max(self._unpack(f"{buckets}I", table), default=0)
        if last < first:
            return first
        chain = table + 4 * buckets + 4 * (last - first)
        for length in range(MAX_SYMBOLS):
            if self._unpack("I", chain + 4 * length)[0] & 1:
                return last + length + 1
        raise Malformed("an endless hash chain")

    def exported(self) -> Iterator[Symbol]:
        """Yield the dynamic symbols that this file defines and others can bind to."""
        count = self._symbol_count()
        if count > MAX_SYMBOLS:
            raise Malformed(f"{count} dynamic symbols")
        table = self._offset(self.dynamic.get(_DT_SYMTAB, 0)) if count else 0
        for i in range(1, count):
            if self.bits == 64:
                name, info, other, section = self._unpack("IBBH", table + 24 * i)
            else:
                name, _, _, info, other, section = self._unpack("IIIBBH", table + 16 * i)
            if section != 0 and info >> 4 in _EXPORTED_BINDINGS and other & 3 in _VISIBLE:
                yield Symbol(self._name(name), SYMBOL_TYPES.get(info & 15, str(info & 15)))
