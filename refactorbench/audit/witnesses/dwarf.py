"""Which compilation unit owns which machine code, by the debug information of the evidence build.

Code is explained when a unit of the target language covers it, or when it stands under a name that the toolchain's own
run-time objects define and is about as long as there (the precompiled standard library has code without units). A unit
that names no language says nothing: its debug information lies in another file. All reading is bounded and every
failure is a ValueError: the files are the submission's.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from elftools.common.exceptions import DWARFError, ELFError
from elftools.dwarf.ranges import BaseAddressEntry
from elftools.elf.elffile import ELFFile

LANGUAGES = {
    0x1: "C89", 0x2: "C", 0x4: "C++", 0x8: "Fortran 90", 0xC: "C99", 0x10: "Objective-C", 0x13: "D", 0x16: "Go",
    0x1A: "C++11", 0x1C: "Rust", 0x1D: "C11", 0x21: "C++14", 0x2B: "C++17", 0x2C: "C17", 0x2E: "C++20",
    0x8001: "assembler",
}  # fmt: skip
MAX_UNITS, MAX_RANGES, MAX_SYMBOLS, MAX_BYTES = 20_000, 2_000_000, 2_000_000, 512 << 20
PADDING = re.compile(rb"(?:[\x90\xcc\x00]|\x66*\x2e?\x0f\x1f[\x00\x40\x44\x80\x84\x04]|\x66+\x90)")
SHF_EXECINSTR, SHT_SYMTAB, STT_FUNC = 4, 2, 2
# Made by the compiler driver for each link, or by rustc without a unit of its own.
GENERATED = frozenset(
    (
        "main",
        "_init",
        "_fini",
        "_start",
        "frame_dummy",
        "register_tm_clones",
        "deregister_tm_clones",
        "__do_global_dtors_aux",
    )
)
LINKER_SECTIONS = (".plt", ".plt.got", ".plt.sec", ".iplt", ".init", ".fini")
PF_X, PF_W = 1, 2
EXECUTABLE_DATA = 256  # bytes in an executable segment beside the code sections that may be headers and alignment
UNSAID = "no language"
KNOWN_SIZES, KNOWN_MORE = 4, 1024  # times and bytes by which code may be longer than what the toolchain has by its name
SMALL_GAP = 16  # bytes between functions that are alignment more likely than code


class Unit(msgspec.Struct, frozen=True):
    """A unit of another language: its code `size` in bytes, and its functions that the toolchain doesn't define."""

    name: str
    producer: str
    language: str
    address: int
    size: int
    functions: tuple[str, ...]


class Units(msgspec.Struct, frozen=True):
    """Of one ELF file: unit count and code bytes by language, units of other languages, code that nothing explains.
    `complete`: its units tell of all code, none has its debug information elsewhere."""

    count: dict[str, int]
    size: dict[str, int]
    foreign: tuple[Unit, ...]
    unexplained: tuple[tuple[str, int], ...]  # (nearest symbol, bytes), largest first
    code: int  # bytes of code in all
    complete: bool = True

    @property
    def unexplained_bytes(self) -> int:
        return sum(n for _, n in self.unexplained)


def inspect(path: Path, language: str, runtime: Mapping[str, int]) -> Units:
    """Read one ELF file of the evidence build; `runtime` is `defined` over the toolchain's objects. ValueError when it
    can't be read within bounds."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path.name} has more than {MAX_BYTES >> 20} MiB")
    try:
        with path.open("rb") as f:
            return _inspect(ELFFile(f), language, runtime)
    except (
        ELFError,
        DWARFError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        OSError,
        MemoryError,
        struct.error,
    ) as e:
        raise ValueError(f"{path.name} can't be read: {type(e).__name__}: {e}") from e


def _inspect(elf: ELFFile, language: str, runtime: Mapping[str, int]) -> Units:
    symbols = _symbols(elf)
    starts = [s[0] for s in symbols]
    count: dict[str, int] = {}
    size: dict[str, int] = {}
    foreign: list[Unit] = []
    explained: list[tuple[int, int]] = []
    complete = True
    for spoken, name, producer, ranges in _units(elf):
        count[spoken] = count.get(spoken, 0) + 1
        owned = sum(high - low for low, high in ranges)
        size[spoken] = size.get(spoken, 0) + owned
        if spoken == language:
            explained += ranges
            continue
        inside = [
            s for low, high in ranges for s in symbols[bisect_right(starts, low - 1) : bisect_right(starts, high - 1)]
        ]
        strange = tuple(dict.fromkeys(s[2] for s in inside if not _known(s[2], s[1], runtime)))
        if spoken == UNSAID:
            complete &= not strange
        elif owned and (strange or not inside):
            foreign.append(Unit(name, producer, spoken, min(low for low, _ in ranges), owned, strange[:20]))
        else:
            explained += ranges
    explained += [(at, at + length) for at, length, name in symbols if length and _known(name, length, runtime)]
    gaps, code = _gaps(elf, explained, symbols)
    return Units(count, size, tuple(foreign), tuple(gaps), code, complete and size.get(language, 0) > 0)


def _known(name: str, length: int, runtime: Mapping[str, int]) -> bool:
    """Whether the toolchain has code of this name that is about as long: a name alone explains nothing."""
    plain = re.sub(r"\.llvm\.\d+$", "", name)
    if plain not in runtime and name not in GENERATED:
        return False
    return length <= KNOWN_SIZES * runtime.get(plain, 0) + KNOWN_MORE


def _symbols(elf: ELFFile) -> list[tuple[int, int, str]]:
    """(address, size, name) of everything named in code, by address."""
    table: Any = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
    if table is None:
        return []
    if table.num_symbols() > MAX_SYMBOLS:
        raise ValueError(f"more than {MAX_SYMBOLS} symbols")
    code = {i for i, s in enumerate(elf.iter_sections()) if s["sh_flags"] & SHF_EXECINSTR}
    named = (s for s in table.iter_symbols() if s["st_shndx"] in code and s["st_info"]["type"] != "STT_SECTION")
    return sorted((s["st_value"], s["st_size"], s.name) for s in named)


def _units(elf: ELFFile) -> Iterator[tuple[str, str, str, list[tuple[int, int]]]]:
    """(language, name, producer, code ranges) of each compilation unit."""
    if not elf.has_dwarf_info():
        return
    info = elf.get_dwarf_info()
    lists = info.range_lists()
    for number, unit in enumerate(info.iter_CUs()):
        if number >= MAX_UNITS:
            raise ValueError(f"more than {MAX_UNITS} compilation units")
        top = unit.get_top_DIE()
        values = dict(top.attributes)
        spoken = values["DW_AT_language"].value if "DW_AT_language" in values else None
        ranges = _ranges(values, lists, unit)
        yield (
            UNSAID if spoken is None else LANGUAGES.get(spoken, f"language {spoken:#x}"),
            _text(values, "DW_AT_name"),
            _text(values, "DW_AT_producer"),
            ranges,
        )


def _text(values: dict[str, Any], name: str) -> str:
    value = values[name].value if name in values else b""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _ranges(values: dict[str, Any], lists: Any, unit: Any) -> list[tuple[int, int]]:
    """Code ranges that are really there: the linker leaves address 0 for what it threw away."""
    low = values["DW_AT_low_pc"].value if "DW_AT_low_pc" in values else 0
    found: list[tuple[int, int]] = []
    if "DW_AT_ranges" in values and lists is not None:
        base = low
        for entry in lists.get_range_list_at_offset(values["DW_AT_ranges"].value, unit):
            if isinstance(entry, BaseAddressEntry):
                base = entry.base_address
                continue
            shift = 0 if getattr(entry, "is_absolute", False) else base
            found.append((entry.begin_offset + shift, entry.end_offset + shift))
            if len(found) > MAX_RANGES:
                raise ValueError(f"more than {MAX_RANGES} ranges")
    elif "DW_AT_high_pc" in values:
        high = values["DW_AT_high_pc"]
        found.append((low, high.value if high.form == "DW_FORM_addr" else low + high.value))
    return [(a, b) for a, b in found if 0 < a < b]


def _gaps(
    elf: ELFFile, explained: list[tuple[int, int]], symbols: list[tuple[int, int, str]]
) -> tuple[list[tuple[str, int]], int]:
    """Code that no explained range covers, by the name at or before it; and the size of all code."""
    starts = [s[0] for s in symbols]
    found: dict[str, int] = {}
    total = 0
    for section in elf.iter_sections():
        if not section["sh_flags"] & SHF_EXECINSTR or section.name in LINKER_SECTIONS:
            continue
        at, data = section["sh_addr"], section.data()
        end = at + len(data)
        total += len(data)
        inside = sorted((max(a, at), min(b, end)) for a, b in explained if a < end and b > at)
        for low, high in [*inside, (end, end)]:
            gap = data[at - section["sh_addr"] : max(at, low) - section["sh_addr"]]
            size = len(PADDING.sub(b"", gap))
            if size >= SMALL_GAP:
                index = bisect_right(starts, low - 1) - 1
                first = bisect_right(starts, at + SMALL_GAP) - 1
                name = symbols[max(first, 0)][2] if symbols and index >= 0 else section.name
                found[name] = found.get(name, 0) + size
            at = max(at, high)
    return sorted(found.items(), key=lambda kv: (-kv[1], kv[0])), total


# --- what is executable


def executable_data(path: Path) -> list[str]:
    """What an ELF file maps executable beside its code sections, as sentences. ValueError when it can't be read."""
    try:
        with path.open("rb") as f:
            elf = ELFFile(f)
            return [*_executable_segments(elf), *_executable_stack(elf)]
    except (ELFError, KeyError, TypeError, AttributeError, IndexError, OSError, MemoryError, struct.error) as e:
        raise ValueError(f"{path.name} can't be read: {type(e).__name__}: {e}") from e


def code_sections(path: Path) -> set[str]:
    """Names of the executable sections of an ELF file. ValueError when it can't be read."""
    try:
        with path.open("rb") as f:
            return {s.name for s in ELFFile(f).iter_sections() if s["sh_flags"] & SHF_EXECINSTR}
    except (ELFError, KeyError, TypeError, AttributeError, IndexError, OSError, MemoryError, struct.error) as e:
        raise ValueError(f"{path.name} can't be read: {type(e).__name__}: {e}") from e


def _executable_segments(elf: ELFFile) -> Iterator[str]:
    code = [(s["sh_addr"], s["sh_addr"] + s["sh_size"]) for s in elf.iter_sections() if s["sh_flags"] & SHF_EXECINSTR]
    for segment in elf.iter_segments():
        if segment["p_type"] != "PT_LOAD" or not segment["p_flags"] & PF_X:
            continue
        if segment["p_flags"] & PF_W:
            yield f"the segment at {segment['p_vaddr']:#x} is writable and executable"
        start, data = segment["p_vaddr"], bytearray(segment.data())
        for low, high in code:
            first, last = max(0, low - start), min(len(data), high - start)
            data[first:last] = bytes(max(0, last - first)) if last > first else data[first:last]
        other = len(PADDING.sub(b"", bytes(data)))
        if other > EXECUTABLE_DATA:
            yield f"the executable segment at {start:#x} holds {other} bytes that are no code"


def _executable_stack(elf: ELFFile) -> Iterator[str]:
    if any(s["p_type"] == "PT_GNU_STACK" and s["p_flags"] & PF_X for s in elf.iter_segments()):
        yield "the stack is executable"


# --- names that the toolchain's own objects define


def defined(paths: Iterable[Path]) -> dict[str, int]:
    """Names of code in the toolchain's objects and archives, which are trusted, with its largest size in bytes (0 for a
    label); one that can't be read gives none."""
    names: dict[str, int] = {}
    for path in paths:
        data = path.read_bytes()
        for member in _members(data):
            for name, size in _object_names(member):
                names[name] = max(size, names.get(name, 0))
    return names


def _members(data: bytes) -> Iterator[bytes]:
    if data[:8] != b"!<arch>\n":
        yield data
        return
    at = 8
    while at + 60 <= len(data):
        size = int(data[at + 48 : at + 58].strip() or b"0")
        yield data[at + 60 : at + 60 + size]
        at += 60 + size + (size & 1)


def _object_names(data: bytes) -> Iterator[tuple[str, int]]:
    """Names and sizes of functions and labels that a 64-bit little-endian ELF object defines."""
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
        return
    offset, entry, number = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * entry) for i in range(number)]
    for header in headers:
        if header[1] != SHT_SYMTAB:
            continue
        strings = headers[header[6]]
        table = data[strings[4] : strings[4] + strings[5]]
        for name, info, _, index, _, size in struct.iter_unpack("<IBBHQQ", data[header[4] : header[4] + header[5]]):
            if index and info & 15 in (0, STT_FUNC, 10) and name:
                yield table[name : table.index(b"\0", name)].decode(errors="replace"), size
