"""What makes the translated controls says what it can't translate, instead of making something else."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from refactorbench.catalog.python import load_module
from refactorbench.errors import HarnessError

CONTROLS = Path(__file__).resolve().parents[2] / "tasks" / "bzip2-rust" / "controls"
LISTING = """
0000000000000000 <first>:
   0:\tmov    eax,edi
   2:\tnop
   3:\t{line}
   6:\tcmp    eax,0xffffffff
   9:\tjne    2 <first+0x2>
   b:\tret
"""


@pytest.fixture
def lift() -> ModuleType:
    return load_module(CONTROLS / "emulated" / "lift.py")


def rust(c: str, name: str = "f") -> str:
    """`c`'s function as Rust, white space made one."""
    front = load_module(CONTROLS / "transliterated" / "cfront.py")
    flow = load_module(CONTROLS / "transliterated" / "rustflow.py")
    return " ".join(flow.Function(front.Unit(c), name).text("fn").split())


def test_instructions_become_numbers_and_what_does_nothing_vanishes(lift: ModuleType) -> None:
    code = lift.lift(LISTING.format(line="sar    DWORD PTR [rsp+rax*4+0x10],1"), ("first",), "fail")
    assert code == bytes.fromhex(
        "01 0000"  # one entry, at the first instruction
        "00 04 0100 0107"  # mov
        "0a 04 03 04 00 04 10000000 02 01000000"  # sar
        "06 04 0100 02 ffffffff"  # cmp
        "21 00 0100"  # jne to what follows the nop
        "17 00"
    )


@pytest.mark.parametrize("line", ["rep stos QWORD PTR es:[rdi],rax", "addsd  xmm0,xmm1", "mov    ah,0x1"])
def test_an_instruction_or_operand_that_is_not_known_is_named(lift: ModuleType, line: str) -> None:
    with pytest.raises(HarnessError, match=re.escape(line.split()[-1])):
        lift.lift(LISTING.format(line=line), ("first",), "fail")


def test_only_the_one_function_may_be_elsewhere(lift: ModuleType) -> None:
    call = "call   8 <first+0x8>\n\t\t\t4: R_X86_64_PLT32\t{name}-0x4"
    assert lift.lift(LISTING.format(line=call.format(name="fail")), ("first",), "fail")[9:11] == bytes([24, 0])
    with pytest.raises(HarnessError, match="memcpy"):
        lift.lift(LISTING.format(line=call.format(name="memcpy")), ("first",), "fail")


def test_a_function_that_is_not_there_is_named(lift: ModuleType) -> None:
    with pytest.raises(HarnessError, match="second"):
        lift.lift(LISTING.format(line="ret"), ("second",), "fail")


def test_c_keeps_its_names_its_promotions_and_its_shape() -> None:
    made = rust(
        "int f ( unsigned char *p, unsigned int n ) { int i; for (i = 0; i < 9; i++) n += p[i] << 3; return n > 4; }"
    )
    assert "while i < 9 { n += (((*p.offset(i as isize)) as i32) << 3) as u32; i += 1; }" in made
    assert made.endswith("return (n > 4) as i32; }")


def test_jumps_out_of_a_loop_stay_jumps_and_jumps_into_one_make_a_machine() -> None:
    out = "int f(int n) { while (1) { do { n--; if (n < 5) goto done; } while (n); } done: return n; }"
    assert "'done: loop {" in rust(out) and "break 'done;" in rust(out) and "'machine" not in rust(out)
    into = "int f(int n) { switch (n) { case 1: while (1) { n++; case 2: if (n > 7) return n; } } return 0; }"
    assert "'machine: loop { match next {" in rust(into)


@pytest.mark.parametrize(
    "c",
    [
        "int f(int n) { for (;n;n--) { if (n == 3) continue; } return n; }",
        "int f(int n) { return g; }",
        "int f(int n) { union { int a; } u; return n; }",
    ],
)
def test_c_that_the_translator_does_not_know_is_refused(c: str) -> None:
    with pytest.raises(HarnessError, match="translator"):
        rust(c)
