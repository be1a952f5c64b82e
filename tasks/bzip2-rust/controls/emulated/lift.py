"""From machine code to a byte code: what objdump shows of an object file, instruction by instruction.

Written for what gcc 12 makes of plain integer code for x86-64 under make.py's flags. Whatever else turns up is a
HarnessError that quotes the line.

An instruction is: operation, size in bytes, then its operands. Operands: 1 register; 2 number (4 bytes, signed);
3 memory: base and index register (255 for none), scale, offset (4 bytes, signed). Jumps and calls hold the number of
an instruction (2 bytes). All little-endian.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from refactorbench.errors import HarnessError

_LINE = re.compile(r"^\s*([0-9a-f]+):\t(\S[^\t]*?)\s*$")
_FUNCTION = re.compile(r"^[0-9a-f]+ <(\w+)>:$")
_RELOCATION = re.compile(r"^\s+[0-9a-f]+: (R_X86_64_\w+)\t(\w+)")
_MEMORY = re.compile(r"(?:(BYTE|WORD|DWORD|QWORD) PTR )?\[([^\]]+)\]")
_SIZES = {"BYTE": 1, "WORD": 2, "DWORD": 4, "QWORD": 8}
_LEGACY = ("a", "c", "d", "b")

ARITHMETIC = ("mov", "add", "sub", "and", "or", "xor", "cmp", "test", "shl", "shr", "sar", "imul")  # 0 to 11
WIDENING = {"movzx": 12, "movsx": 13, "movsxd": 13}
LEA, SINGLE = 14, {"neg": 15, "not": 16, "inc": 17, "dec": 18, "push": 19, "pop": 20}
CALL, JUMP, RETURN, FAIL = 21, 22, 23, 24
CONDITIONS = ("e", "ne", "l", "ge", "le", "g", "b", "ae", "be", "a", "s", "ns")
BRANCH, CHOOSE, SET = 32, 48, 64  # and the condition's number
_SAME = {"z": "e", "nz": "ne", "c": "b", "nc": "ae", "nae": "b", "nb": "ae", "na": "be", "nbe": "a"}
_NOTHING = {"nop", "data16", "cs", "endbr64", "xchg ax,ax"}
_EXTEND = {"cdqe": ("movsx", 8, 4), "cwde": ("movsx", 4, 2)}


def registers() -> dict[str, tuple[int, int]]:
    """Name -> (number, size)."""
    found: dict[str, tuple[int, int]] = {}
    for i, x in enumerate(_LEGACY):
        found |= {f"r{x}x": (i, 8), f"e{x}x": (i, 4), f"{x}x": (i, 2), f"{x}l": (i, 1)}
    for i, x in enumerate(("sp", "bp", "si", "di"), 4):
        found |= {f"r{x}": (i, 8), f"e{x}": (i, 4), x: (i, 2), f"{x}l": (i, 1)}
    for i in range(8, 16):
        found |= {f"r{i}": (i, 8), f"r{i}d": (i, 4), f"r{i}w": (i, 2), f"r{i}b": (i, 1)}
    return found


REGISTERS = registers()


def lift(listing: str, entries: tuple[str, ...], failure: str) -> bytes:
    """The byte code of `objdump -dr -M intel`'s listing: number of entries, the instruction that each starts with, then
    the instructions. A call of the function `failure`, which is elsewhere, ends the program."""
    rows: list[tuple[int, str, str]] = []  # address, text, symbol elsewhere
    starts: dict[str, int] = {}
    name = ""
    for line in listing.splitlines():
        if m := _FUNCTION.match(line):
            name = m[1]
        elif m := _RELOCATION.match(line):
            rows[-1] = (rows[-1][0], rows[-1][1], m[2])
        elif m := _LINE.match(line):
            address, text = int(m[1], 16), re.sub(r"\s+(#|<).*", "", m[2])
            starts.setdefault(name, address)
            if text not in _NOTHING and text.split()[0] not in _NOTHING:
                rows.append((address, text, ""))
    numbers: dict[int, int] = {}
    for i, (address, _, _) in reversed(list(enumerate(rows))):
        numbers[address] = i
    places = sorted(numbers)
    missing = [e for e in entries if e not in starts]
    if missing:
        raise HarnessError(f"the object has no function {', '.join(missing)}: adapt the control to State A")

    def number(address: int) -> bytes:
        after = next((p for p in places if p >= address), None)  # what does nothing isn't there
        if after is None:
            raise HarnessError(f"a jump to {address:#x} leads out of the listing: adapt the translator")
        return struct.pack("<H", numbers[after])

    code = b"".join(_instruction(text, symbol, failure, number) for _, text, symbol in rows)
    return bytes([len(entries)]) + b"".join(number(starts[e]) for e in entries) + code


def _instruction(text: str, symbol: str, failure: str, number: Callable[[int], bytes]) -> bytes:
    word, _, rest = text.partition(" ")
    operands = [o.strip() for o in rest.split(",")] if rest.strip() else []
    if symbol:
        if symbol != failure or word not in ("call", "jmp"):
            raise HarnessError(f"{text!r} refers to {symbol}, which the translator doesn't know: adapt the flags")
        return bytes([FAIL, 0])
    if word in ("call", "jmp") and re.fullmatch("[0-9a-f]+", rest.strip()):
        return bytes([CALL if word == "call" else JUMP, 0]) + number(int(rest, 16))
    if word == "ret":
        return bytes([RETURN, 0])
    if word in _EXTEND:
        word, size, narrow = _EXTEND[word]
        return bytes([WIDENING[word], size, narrow, 1, 0, 1, 0])
    if word == "leave":
        return bytes([0, 8, 1, 4, 1, 5, SINGLE["pop"], 8, 1, 5])
    if word[0] == "j" and (at := _condition(word[1:])) is not None:
        return bytes([BRANCH + at, 0]) + number(int(rest, 16))
    made = [_operand(o, text) for o in operands]
    size = next((s for _, s in made if s), 0)
    body = b"".join(code for code, _ in made)
    if word in ARITHMETIC and len(made) == 2:
        return bytes([ARITHMETIC.index(word), size]) + body
    if word in ("shl", "shr", "sar") and len(made) == 1:
        return bytes([ARITHMETIC.index(word), size]) + body + b"\2" + struct.pack("<i", 1)
    if word == "imul" and len(made) == 3:
        return bytes([0, size]) + body[: len(made[0][0])] + made[1][0] + bytes([11, size]) + made[0][0] + made[2][0]
    if word in WIDENING and len(made) == 2:
        return bytes([WIDENING[word], size, made[1][1]]) + body
    if word == "lea" and len(made) == 2:
        return bytes([LEA, size]) + body
    if word in SINGLE and len(made) == 1:
        return bytes([SINGLE[word], size or 8]) + body
    for head, base in (("cmov", CHOOSE), ("set", SET)):
        if word.startswith(head) and (at := _condition(word[len(head) :])) is not None:
            return bytes([base + at, size]) + body
    raise HarnessError(f"the translator doesn't know the instruction {text!r}: it is written for gcc 12; adapt it")


def _condition(word: str) -> int | None:
    word = _SAME.get(word, word)
    return CONDITIONS.index(word) if word in CONDITIONS else None


def _operand(text: str, line: str) -> tuple[bytes, int]:
    """(encoded, size in bytes or 0)."""
    if text in REGISTERS:
        number, size = REGISTERS[text]
        return bytes([1, number]), size
    if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", text):
        value = int(text, 0)
        if value >= 2**63:  # a negative number of 64 bits
            value -= 2**64
        if 2**31 <= value < 2**32:  # of 32 bits
            value -= 2**32
        if -(2**31) <= value < 2**31:
            return b"\2" + struct.pack("<i", value), 0
    if m := _MEMORY.fullmatch(text):
        base, index, scale, offset = 255, 255, 1, 0
        for sign, part in re.findall(r"([-+]?)([^-+]+)", m[2]):
            name, _, factor = part.partition("*")
            if name in REGISTERS and not factor and base == 255:
                base = REGISTERS[name][0]
            elif name in REGISTERS and index == 255:
                index, scale = REGISTERS[name][0], int(factor or "1")
            elif re.fullmatch(r"0x[0-9a-f]+", part):
                offset += int(sign + part, 16)
            else:
                raise HarnessError(f"the translator doesn't know the operand {text!r} of {line!r}: adapt it")
        return struct.pack("<BBBBi", 3, base, index, scale, offset), _SIZES.get(m[1] or "", 0)
    raise HarnessError(f"the translator doesn't know the operand {text!r} of {line!r}: adapt it")
