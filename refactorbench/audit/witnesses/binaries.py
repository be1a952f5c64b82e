"""Machine and virtual-machine code by its headers, parsed rather than matched, also behind a short repeating xor key.

`x ^ shift(x, k)` cancels any key whose length divides k, so one regular expression per k finds a known header at every
offset of a blob without knowing the key.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator

import msgspec

MOST_KEY = 16
MOST_ROWS = 1 << 18
MOST_KEYS = 64  # distinct keys tried per blob


class Code(msgspec.Struct, frozen=True):
    """`form` ("ELF", "ar", "PE", ...) at `offset`; `size` bytes belong to it, as far as its headers tell."""

    form: str
    offset: int
    size: int


class Tries:
    """How many rows of headers are read in one blob: forged headers could each point at all of it. `left` < 0 when that
    cut the search."""

    def __init__(self) -> None:
        self.left = MOST_ROWS
        self.passed: set[int] = set()  # places in chains of members and sections that led to nothing

    def row(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def step(self, here: int) -> bool:
        """False where a chain has been already."""
        known = here in self.passed
        self.passed.add(here)
        return not known and self.row()


def find(data: bytes, tries: Tries | None = None) -> Code | None:
    """Return the first piece of executable code in `data` whose headers hold together, else None."""
    tries = tries or Tries()
    for m in _MAGIC.finditer(data):
        for magic, (form, parse) in _PARSERS.items():
            if m[0].startswith(magic):
                size = parse(data, m.start(), tries)
                if size:
                    return Code(form, m.start(), size)
    return None


def _elf(data: bytes | memoryview, at: int, tries: Tries) -> int:
    """Size of an ELF file that holds executable code, else 0."""
    head = data[at : at + 64]
    if len(head) < 52 or head[4] not in (1, 2) or head[5] not in (1, 2) or head[6] != 1:
        return 0
    order, wide = "<>"[head[5] - 1], head[4] == 2
    try:
        fields = struct.unpack_from(order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"), head, 16)
    except struct.error:
        return 0
    kind, machine, version, _, phoff, shoff, _, ehsize, phentsize, phnum, shentsize, shnum, _ = fields
    if kind not in (1, 2, 3, 4) or not machine or version != 1 or ehsize != (64 if wide else 52):
        return 0
    size = 0
    for i in range(min(shnum, 4096) if shentsize == (64 if wide else 40) else 0):
        row = data[at + shoff + i * shentsize : at + shoff + (i + 1) * shentsize]
        if len(row) < shentsize or not tries.row():
            break
        _, what, flags, _, offset, length = struct.unpack_from(order + ("IIQQQQ" if wide else "IIIIII"), row)
        if what == 1 and flags & 4 and length and at + offset + length <= len(data):
            size = max(size, offset + length, shoff + shnum * shentsize)
    for i in range(min(phnum, 256) if phentsize == (56 if wide else 32) else 0):
        row = data[at + phoff + i * phentsize : at + phoff + (i + 1) * phentsize]
        if len(row) < phentsize or not tries.row():
            break
        if wide:
            what, flags, offset, _, _, length = struct.unpack_from(order + "IIQQQQ", row)
        else:
            what, offset, _, _, length, _, flags = struct.unpack_from(order + "IIIIIII", row)
        if what == 1 and flags & 1 and length and at + offset + length <= len(data):
            size = max(size, offset + length)
    return size


def _ar(data: bytes, at: int, tries: Tries) -> int:
    """Size up to the end of the first member that is code itself (ELF, bitcode, COFF), else 0."""
    here, view = at + 8, memoryview(data)
    while here + 60 <= len(data) and data[here + 58 : here + 60] == b"`\n" and tries.step(here):
        try:
            size = int(data[here + 48 : here + 58])
        except ValueError:
            return 0
        if size < 0:
            return 0
        member = view[here + 60 : here + 60 + size]
        if member[:4] == b"\x7fELF" and _elf(member, 0, tries):
            return here + 60 + size - at
        if member[:4] == b"BC\xc0\xde" and _bitcode(member, 0, tries):
            return here + 60 + size - at
        here += 60 + size + size % 2
    return 0


def _pe(data: bytes, at: int, tries: Tries) -> int:
    if len(data) < at + 64:
        return 0
    where = at + int(struct.unpack_from("<I", data, at + 60)[0])
    if data[where : where + 4] != b"PE\0\0" or len(data) < where + 24:
        return 0
    machine, sections = struct.unpack_from("<HH", data, where + 4)
    known = machine in (0x14C, 0x8664, 0x1C0, 0x1C4, 0xAA64)
    return where + 24 - at if known and 0 < sections < 97 else 0


def _coff(data: bytes, at: int, tries: Tries) -> int:
    """A COFF object: only at the start of a blob, its magic is too short elsewhere."""
    if at or len(data) < 20:
        return 0
    machine, sections, _, symbols, count, optional, _ = struct.unpack_from("<HHIIIHH", data)
    if (
        machine not in (0x14C, 0x8664, 0xAA64)
        or not 0 < sections < 4096
        or optional
        or symbols + 18 * count > len(data)
    ):
        return 0
    for i in range(sections):
        row = data[20 + 40 * i : 60 + 40 * i]
        if len(row) < 40 or not tries.row():
            return 0
        size, offset = struct.unpack_from("<II", row, 16)
        if struct.unpack_from("<I", row, 36)[0] & 0x20 and size and offset and offset + size <= len(data):
            return offset + size
    return 0


def _macho(data: bytes, at: int, tries: Tries) -> int:
    order = "<" if data[at] in (0xCE, 0xCF) else ">"
    if len(data) < at + 28:
        return 0
    _, cpu, _, kind, commands, length, _ = struct.unpack_from(order + "7I", data, at)
    known = cpu & 0x00FFFFFF in (7, 12, 18) and 0 < kind < 13 and 0 < commands < 1000 and 8 * commands <= length
    return 28 + length if known and at + 28 + length <= len(data) else 0


def _wasm(data: bytes, at: int, tries: Tries) -> int:
    here = at + 8
    while here < len(data) and tries.step(-here):
        section, here = data[here], here + 1
        size = shift = 0
        while here < len(data) and shift < 35:
            byte, here = data[here], here + 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if section > 13 or not size or here + size > len(data):
            return 0
        here += size
        if section == 10:
            return here - at
    return 0


def _class(data: bytes, at: int, tries: Tries) -> int:
    """A Java class file: the constant pool parses to its end, and the class has a method."""
    if len(data) < at + 10:
        return 0
    major, pool = struct.unpack_from(">HH", data, at + 6)
    here, i = at + 10, 1
    if not 45 <= major <= 80:
        return 0
    widths = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
    while i < pool:
        if here + 3 > len(data) or not tries.row():
            return 0
        tag = data[here]
        if tag == 1:
            here += 3 + int(struct.unpack_from(">H", data, here + 1)[0])
        elif tag in widths:
            here += 1 + widths[tag]
        else:
            return 0
        i += 2 if tag in (5, 6) else 1
    return here - at if pool > 4 and here + 8 <= len(data) else 0


def _bitcode(data: bytes | memoryview, at: int, tries: Tries) -> int:
    """LLVM bitcode: the first block is the identification block (13) or a module (8)."""
    if len(data) < at + 16:
        return 0
    word = int(struct.unpack_from("<I", data, at + 4)[0])
    return 16 if word & 3 == 1 and word >> 2 & 255 in (8, 13) else 0


def _pyc(data: bytes, at: int) -> int:
    """CPython byte code, only at the start: magic ends in CR LF, flags are known, a code object follows."""
    if at or len(data) < 64:
        return 0
    flags = int(struct.unpack_from("<I", data, 4)[0])
    return len(data) if flags in (0, 1, 3) and data[16] in (0x63, 0xE3) and 3000 < data[0] + 256 * data[1] < 4000 else 0


_PARSERS: dict[bytes, tuple[str, Callable[[bytes, int, Tries], int]]] = {
    b"\x7fELF": ("ELF", _elf),
    b"!<arch>\n": ("ar", _ar),
    b"!<thin>\n": ("ar", _ar),
    b"MZ": ("PE", _pe),
    b"\x4c\x01": ("COFF", _coff),
    b"\x64\x86": ("COFF", _coff),
    b"\x64\xaa": ("COFF", _coff),
    b"\xfe\xed\xfa\xce": ("Mach-O", _macho),
    b"\xfe\xed\xfa\xcf": ("Mach-O", _macho),
    b"\xce\xfa\xed\xfe": ("Mach-O", _macho),
    b"\xcf\xfa\xed\xfe": ("Mach-O", _macho),
    b"\0asm\1\0\0\0": ("WebAssembly", _wasm),
    b"\xca\xfe\xba\xbe": ("Java class", _class),
    b"BC\xc0\xde": ("LLVM bitcode", _bitcode),
}
_MAGIC = re.compile(b"|".join(re.escape(m) for m in _PARSERS), re.DOTALL)


def find_byte_code(data: bytes, tries: Tries | None = None) -> Code | None:
    """Like `find`, with the forms that only a whole file can be (CPython byte code)."""
    size = _pyc(data, 0) if data[2:4] == b"\r\n" else 0
    return Code("Python byte code", 0, size) if size else find(data, tries)


def _elf_template() -> dict[int, int]:
    """Known plain bytes of a little-endian 64-bit ELF header at most places it can hold code."""
    zero = (*range(8, 16), 17, 19, 21, 22, 23, 28, 29, 30, 31, *range(33, 40), 44, 45, 46, 47, *range(48, 52),
            53, 55, 57, 59, 61)  # fmt: skip
    fixed = dict(enumerate(b"\x7fELF\x02\x01\x01"))
    return fixed | {20: 1, 52: 64, 58: 64} | dict.fromkeys(zero, 0)


_TEMPLATES = {
    "elf": _elf_template(),
    "ar": dict(enumerate(b"!<arch>\n/               ")),
    "dos": dict(enumerate(b"This program cannot be run in DOS mode.")),
    "wasm": dict(enumerate(b"\0asm\1\0\0\0\1")),
}


def _difference(template: dict[int, int], k: int) -> tuple[re.Pattern[bytes], int] | None:
    """The pattern of template[i] ^ template[i + k], None when under 6 bytes of it are known."""
    known = {i: v ^ template[i + k] for i, v in template.items() if i + k in template}
    if len(known) < 6:
        return None
    last = max(known)
    body = b"".join(re.escape(bytes([known[i]])) if i in known else b"." for i in range(min(known), last + 1))
    return re.compile(body, re.DOTALL), min(known)


_DIFFERENCES = {
    (name, k): found
    for name, template in _TEMPLATES.items()
    for k in range(1, MOST_KEY + 1)
    if (found := _difference(template, k)) is not None
}


def xor_keys(data: bytes) -> Iterator[bytes]:
    """Yield repeating keys of up to 16 bytes, aligned to the start of `data`, under which code appears in it."""
    if len(data) < 128:
        return
    number = int.from_bytes(data, "little")
    tried: set[bytes] = set()
    for k in range(1, MOST_KEY + 1):
        mixed = (number ^ number >> 8 * k).to_bytes(len(data), "little")
        for name, template in _TEMPLATES.items():
            if (name, k) not in _DIFFERENCES:
                continue
            pattern, first = _DIFFERENCES[name, k]
            for m in pattern.finditer(mixed):
                key = _key_at(data, m.start() - first, k, template)
                if key is None or not any(key) or key in tried:
                    continue
                tried.add(key)
                yield key
                if len(tried) >= MOST_KEYS:
                    return


def _key_at(data: bytes, at: int, k: int, template: dict[int, int]) -> bytes | None:
    """The key of length k that makes `template` stand at `at`, or None where its bytes contradict each other."""
    key: dict[int, int] = {}
    for i, plain in template.items():
        if not 0 <= at + i < len(data):
            return None
        value = data[at + i] ^ plain
        if key.setdefault((at + i) % k, value) != value:
            return None
    return bytes(key[i] for i in range(k)) if len(key) == k else None


def reversed_code(data: bytes) -> bool:
    return b"FLE\x7f" in data and find(data[::-1]) is not None
