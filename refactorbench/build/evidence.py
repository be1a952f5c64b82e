"""Whether the evidence build's machine code is the artefact's: same sources, debug information forced on, never run.

Two links of the same code differ in the distances between sections once debug information adds any, and in the order of
the global offset table. So code is compared modulo relocation: where bytes differ, both sides must hold a 4-byte
distance that leads to the same place. One exception is known and allowed: with debug information rustc makes a
program's `main` touch .debug_gdb_scripts, so `main` (with all that is inlined into it) may differ, and what follows it
may stand a little further on.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import Any

import msgspec
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from refactorbench.hashing import walk

SHF_ALLOC, SHF_EXECINSTR = 2, 4
IMMEDIATES = (0, 1, 2, 4)  # bytes of an instruction behind its distance
MAX_BYTES = 512 << 20
LINKER_MADE = (".plt", ".plt.got", ".plt.sec", ".iplt")  # written by the linker, not from any object
GOT = (".got", ".got.plt")
HEAD, GOOD_FIT, MAX_SHIFT = 64, 0.5, 128  # bytes of a function that are compared to find it again; how well; how far
GDB_SCRIPTS, GDB_SYMBOL = ".debug_gdb_scripts", "__rustc_debug_gdb_scripts_section__"
Place = tuple[str, int | str]


class Section(msgspec.Struct, frozen=True):
    """A loaded section; `data` only of code."""

    name: str
    start: int
    size: int
    data: bytes
    code: bool


class Image(msgspec.Struct, frozen=True):
    """What is compared of one ELF file. `slots`: dynamically relocated address -> (symbol, addend)."""

    sections: tuple[Section, ...]
    slots: dict[int, tuple[str, int]]
    functions: tuple[tuple[int, int, str], ...]  # (address, size, name) of named code, by address

    def code(self) -> dict[str, Section]:
        return {s.name: s for s in self.sections if s.code and s.name not in LINKER_MADE}


def read_image(path: Path) -> Image:
    """ValueError where the file is too large or can't be read as ELF."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path.name} has more than {MAX_BYTES >> 20} MiB")
    try:
        with path.open("rb") as f:
            elf = ELFFile(f)
            return Image(tuple(_sections(elf)), _slots(elf), _functions(elf))
    except (ELFError, ValueError, KeyError, TypeError, AttributeError, OSError, MemoryError) as e:
        raise ValueError(f"{path.name} can't be read as ELF: {e}") from e


def _sections(elf: ELFFile) -> list[Section]:
    found = []
    for s in elf.iter_sections():
        if s["sh_flags"] & SHF_ALLOC:
            code = bool(s["sh_flags"] & SHF_EXECINSTR)
            found.append(Section(s.name, s["sh_addr"], s["sh_size"], s.data() if code else b"", code))
    return found


def _slots(elf: ELFFile) -> dict[int, tuple[str, int]]:
    slots: dict[int, tuple[str, int]] = {}
    for section in elf.iter_sections():
        if isinstance(section, RelocationSection) and section["sh_flags"] & SHF_ALLOC:
            symbols: Any = elf.get_section(section["sh_link"])
            for relocation in section.iter_relocations():
                number = relocation["r_info_sym"]
                name = symbols.get_symbol(number).name if number and symbols else ""
                slots[relocation["r_offset"]] = (name, relocation["r_addend"] if relocation.is_RELA() else 0)
    return slots


def _functions(elf: ELFFile) -> tuple[tuple[int, int, str], ...]:
    table: Any = elf.get_section_by_name(".symtab")
    if table is None:
        return ()
    named = (s for s in table.iter_symbols() if s["st_info"]["type"] == "STT_FUNC" and s["st_size"])
    first = {s["st_value"]: (s["st_value"], s["st_size"], s.name) for s in named}
    return tuple(first[at] for at in sorted(first))


class _Pair:
    """The artefact's image beside the evidence's, and how far each function of the latter's .text stands further on."""

    def __init__(self, ours: Image, theirs: Image) -> None:
        self.ours, self.theirs = ours, theirs
        self.starts: list[int] = []  # offsets in the evidence's .text of `main` and of each function behind it
        self.shifts: list[int] = []
        self.sizes: list[int] = []
        text, twin = ours.code().get(".text"), theirs.code().get(".text")
        if text and twin and _touches_scripts(ours, theirs, twin):
            self._align(text, twin)

    def _align(self, text: Section, twin: Section) -> None:
        names = [name for _, _, name in self.theirs.functions]
        shift = total = twin.size - text.size
        for number in range(names.index("main"), len(names)):
            start, size, _ = self.theirs.functions[number]
            at = start - twin.start
            if not 0 <= at < twin.size:
                continue
            if self.starts:
                shift = _best_shift(text.data, twin.data, at, min(size, HEAD), (shift, total))
            self.starts.append(at)
            self.shifts.append(shift if len(self.starts) > 1 else 0)
            self.sizes.append(size)

    def pieces(self, name: str, section: Section, twin: Section) -> list[tuple[int, int, int]]:
        """(offset in the artefact, offset in the evidence, length) of what has to be equal."""
        if name != ".text" or not self.starts:
            return [(0, 0, section.size)] if section.size == twin.size else []
        found = [(0, 0, self.starts[0])]
        ends = [*self.starts[1:], twin.size]
        for number in range(1, len(self.starts)):
            at, shift = self.starts[number], self.shifts[number]
            moves = number + 1 < len(self.shifts) and self.shifts[number + 1] != shift
            length = min(self.sizes[number], ends[number] - at) if moves else ends[number] - at
            found.append((at - shift, at, length))
        return found

    def _text_offset(self, offset: int) -> int:
        """Where the artefact has what the evidence has at `offset` of .text."""
        number = bisect_right(self.starts, offset) - 1
        return offset - self.shifts[number] if number >= 0 else offset

    def places(self, address: int, image: Image, depth: int = 0) -> set[Place]:
        """What stands at an address: (section, offset), or for a slot of the offset table what it is filled with."""
        found: set[Place] = set()
        for s in image.sections:
            if not s.start <= address <= s.start + s.size:
                continue
            if s.name in GOT and address in image.slots and depth == 0:
                symbol, addend = image.slots[address]
                if symbol:
                    found.add(("symbol", f"{symbol}+{addend}"))
                else:
                    found |= {(f"slot of {name}", offset) for name, offset in self.places(addend, image, 1)}
                continue
            offset = address - s.start
            found.add((s.name, self._text_offset(offset) if s.name == ".text" and image is self.theirs else offset))
        return found


def _touches_scripts(ours: Image, theirs: Image, twin: Section) -> bool:
    """Whether the evidence's `main` loads from .debug_gdb_scripts, a section that the artefact doesn't have."""
    scripts = next((s for s in theirs.sections if s.name == GDB_SCRIPTS), None)
    main = next(((at, size) for at, size, name in theirs.functions if name == "main"), None)
    if scripts is None or main is None or any(s.name == GDB_SCRIPTS for s in ours.sections):
        return False
    low = max(main[0] - twin.start, 0)
    for at in range(low, min(low + main[1], twin.size) - 3):
        target = twin.start + at + 4 + int.from_bytes(twin.data[at : at + 4], "little", signed=True)
        symbol, addend = theirs.slots.get(target, ("", 0))
        if scripts.start in (target, addend) or symbol == GDB_SYMBOL:
            return True
    return False


def _best_shift(text: bytes, twin: bytes, at: int, size: int, likely: tuple[int, ...]) -> int:
    """By how much a function stands further on in `twin`: the first likely shift under which its head fits, else the
    best of those that alignment allows."""
    head = twin[at : at + size]

    def fit(shift: int) -> float:
        if at < shift:
            return 0.0
        other = text[at - shift : at - shift + size]
        return sum(a == b for a, b in zip(head, other, strict=False)) / max(1, size)

    for shift in likely:
        if fit(shift) >= GOOD_FIT:
            return shift
    return max(range(-MAX_SHIFT, MAX_SHIFT + 1), key=lambda s: (fit(s), -abs(s)))


def _same_distance(pair: _Pair, one: Section, other: Section, at: int, twin_at: int) -> int:
    """How far behind `at` a 4-byte distance ends that covers it and leads to the same place on both sides; 0: none."""
    for before in range(min(3, at, twin_at), -1, -1):
        start, twin_start = at - before, twin_at - before
        if start + 4 > one.size or twin_start + 4 > other.size:
            continue
        a = int.from_bytes(one.data[start : start + 4], "little", signed=True)
        b = int.from_bytes(other.data[twin_start : twin_start + 4], "little", signed=True)
        for behind in IMMEDIATES:
            here = pair.places(one.start + start + 4 + behind + a, pair.ours)
            if here and here & pair.places(other.start + twin_start + 4 + behind + b, pair.theirs):
                return 4 - before
    return 0


def same_code(artefact: Path, evidence: Path) -> str:
    """"" when two ELF files hold the same code modulo relocation, else the first difference as a sentence."""
    pair = _Pair(read_image(artefact), read_image(evidence))
    code, twins = pair.ours.code(), pair.theirs.code()
    if code.keys() != twins.keys():
        return f"code sections are {', '.join(sorted(code))} and {', '.join(sorted(twins))}"
    for name, section in code.items():
        twin = twins[name]
        pieces = pair.pieces(name, section, twin)
        if not pieces and section.size:
            return f"{name} has {section.size} and {twin.size} bytes"
        for ours, theirs, length in pieces:
            one, other = section.data[ours : ours + length], twin.data[theirs : theirs + length]
            if len(one) != len(other):
                return f"{name} has {section.size} and {twin.size} bytes"
            at = _first_difference(one, other, 0)
            while at >= 0:
                step = _same_distance(pair, section, twin, ours + at, theirs + at)
                if not step:
                    return f"{name} differs at offset {ours + at}"
                at = _first_difference(one, other, at + step)
    return ""


def _first_difference(one: bytes, other: bytes, start: int) -> int:
    """Offset of the first differing byte at or after `start`, -1 for none; compares in large steps first."""
    step = 1 << 9
    for block in range(start, len(one), step):
        if one[block : block + step] != other[block : block + step]:
            for at in range(block, min(block + step, len(one))):
                if one[at] != other[at]:
                    return at
    return -1


def is_elf(path: Path) -> bool:
    with path.open("rb") as f:
        return f.read(4) == b"\x7fELF"


def same_product(product: Path, evidence: Path) -> str:
    """"" when every ELF file of the product has the same code in the evidence build, else why not."""
    for rel, _ in walk(product):
        name = rel.decode(errors="surrogateescape")
        path = product / name
        if name.startswith("drivers/") or not path.is_file() or not is_elf(path):
            continue
        twin = evidence / name
        if not twin.is_file() or not is_elf(twin):
            return f"{name} is not in the evidence build"
        try:
            difference = same_code(path, twin)
        except ValueError as e:
            return str(e)
        if difference:
            return f"{name}: {difference}"
    return ""
