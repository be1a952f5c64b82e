"""Assembly text is found in bitcode of the real compiler; damage is an error, never a crash or a silent nothing."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from refactorbench.build.bitcode import instructions, read
from refactorbench.build.toolchain import find

SOURCE = """
#[cfg(with_asm)]
std::arch::global_asm!(".globl hidden", "hidden:", "xor eax, eax", "inc eax", "ret");
#[no_mangle]
pub fn plain(x: u64) -> u64 { x.wrapping_mul(3) }
#[cfg(with_asm)]
#[no_mangle]
pub fn inline(mut x: u64) -> u64 { unsafe { std::arch::asm!("add {0}, 5", "shl {0}, 2", inout(reg) x) }; x }
pub static TABLE: [u8; 2000] = [7; 2000];
#[cfg(with_asm)]
#[link_section = ".text.data"]
#[used]
static CODE: [u8; 4] = [0x31, 0xc0, 0xff, 0xc3];
#[link_section = ".init_array"]
#[used]
static START: extern "C" fn() = start;
extern "C" fn start() {}
pub static NAMES: [&str; 2] = ["a string", "ret"];
"""


@pytest.fixture(scope="module")
def bitcode(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, list[Path]]:
    """With and without assembly in the source -> the bitcode files that rustc keeps."""
    rustc = next(t.path for t in find(("rust",)).tools if t.name == "rustc")
    made = {}
    for with_asm in (True, False):
        folder = tmp_path_factory.mktemp("bitcode")
        (folder / "x.rs").write_text(SOURCE)
        flags = ["--cfg", "with_asm"] if with_asm else []
        argv = [rustc, "--crate-type", "lib", "-O", "-C", "save-temps", *flags, "x.rs"]
        subprocess.run(argv, cwd=folder, check=True, capture_output=True)
        made[with_asm] = sorted(folder.glob("*.no-opt.bc"))
    return made


def test_module_level_and_inline_assembly_is_found(bitcode: dict[bool, list[Path]]) -> None:
    found = [block for path in bitcode[True] for block in read(path).assembly]
    module = [b.text for b in found if b.module]
    inline = [b.text for b in found if not b.module]
    assert len(module) == 1
    assert "xor eax, eax" in module[0]
    assert [instructions(t) for t in module] == [3]
    assert [instructions(t) for t in inline] == [2]
    assert {".text.data", ".init_array"} <= {name for path in bitcode[True] for name in read(path).placed}


def test_a_crate_without_assembly_has_none(bitcode: dict[bool, list[Path]]) -> None:
    assert bitcode[False]
    assert [block for path in bitcode[False] for block in read(path).assembly] == []
    assert ".text.data" not in {name for path in bitcode[False] for name in read(path).placed}


def test_what_is_no_bitcode_is_refused(tmp_path: Path) -> None:
    for data in (b"", b"BC", b"\x7fELF" + b"\0" * 80):
        (tmp_path / "x").write_bytes(data)
        with pytest.raises(ValueError, match="bitcode"):
            read(tmp_path / "x")


def test_damaged_bitcode_ends_in_an_answer_or_a_value_error(bitcode: dict[bool, list[Path]], tmp_path: Path) -> None:
    rng = random.Random(3)
    good = max(bitcode[True], key=lambda p: p.stat().st_size).read_bytes()
    refused = 0
    for _ in range(40):
        data = bytearray(good[: rng.randrange(8, len(good))])
        for _ in range(rng.randrange(0, 4)):
            data[rng.randrange(4, len(data))] ^= 1 << rng.randrange(8)
        (tmp_path / "x").write_bytes(data)
        try:
            read(tmp_path / "x")
        except ValueError:
            refused += 1
    assert refused


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("\t.text\n\t.globl f\nf:\n\t# nothing\n", 0),
        ("f: mov eax, 1; ret", 2),
        ("/* mov */ nop // ret", 1),
        (".byte 1,2,3,4,5,6,7,8,9", 3),
        (".irp b, " + ",".join(["0x90"] * 100), 1000),
        (".macro m\nnop\n.endm", 1001),
        (".dc.b 1,2,3,4,5,6,7,8,9", 3),
        (".uleb128 1,2,3,4,5", 2),
        (".float 1,2,3,4,5", 2),
        ('.include "old.s"', 1000),
        ('.ascii "\\x48\\x31\\xc0\\xc3"', 2),
        ('.incbin "x"', 1000),
        ("\t.size f, .-f\n\t.p2align 4,,10\n", 0),
    ],
)
def test_instructions_are_counted_labels_and_directives_are_not(text: str, count: int) -> None:
    assert instructions(text) == count
