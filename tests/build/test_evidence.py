"""Code is equal modulo relocation, and only then: two links with other sections agree, one changed instruction doesn't."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from refactorbench.build.evidence import same_code, same_product

PROGRAM = """
#include <stdio.h>
static int numbers[64];
const char *name = "tool";
__attribute__((noinline)) int twice(int x) { return x * %d; }
int main(int argc, char **argv) { numbers[argc] = twice(argc); puts(name); return numbers[argc] == 7 || argv == 0; }
"""
EXTRA = 'const char padding[100] __attribute__((section(".shift"), used)) = "moves what follows";\n'


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """plain; debug: with debug information and a further loaded section; changed: one constant differs; stripped."""
    folder = tmp_path_factory.mktemp("evidence")
    made = {}
    for name, text, flags in (
        ("plain", PROGRAM % 2, []),
        ("debug", PROGRAM % 2 + EXTRA, ["-g"]),
        ("changed", PROGRAM % 5, []),
        ("longer", PROGRAM % 2 + "int more(int x) { return x / 3; }\n", []),
        ("stripped", PROGRAM % 2, ["-s"]),
    ):
        (folder / f"{name}.c").write_text(text)
        subprocess.run(["gcc", "-O2", *flags, "-o", name, f"{name}.c"], cwd=folder, check=True)
        made[name] = folder / name
    return made


@pytest.mark.parametrize("other", ["plain", "debug", "stripped"])
def test_the_same_code_behind_other_sections_is_equal(programs: dict[str, Path], other: str) -> None:
    assert programs["plain"].read_bytes() != programs["debug"].read_bytes()
    assert same_code(programs["plain"], programs[other]) == ""


@pytest.mark.parametrize("other", ["changed", "longer"])
def test_other_code_is_not(programs: dict[str, Path], other: str) -> None:
    assert ".text" in same_code(programs["plain"], programs[other])


def test_a_distance_to_another_place_is_a_difference(programs: dict[str, Path], tmp_path: Path) -> None:
    data = bytearray(programs["plain"].read_bytes())
    code = data.index(b"\xe8", data.index(b"\xf3\x0f\x1e\xfa") if b"\xf3\x0f\x1e\xfa" in data else 0x1000)
    data[code + 1] ^= 0x10
    (tmp_path / "bent").write_bytes(data)
    assert same_code(programs["plain"], tmp_path / "bent") != ""


def test_a_product_is_equal_when_every_program_and_library_is(programs: dict[str, Path], tmp_path: Path) -> None:
    for side, name in (("product", "plain"), ("evidence", "debug"), ("other", "changed")):
        (tmp_path / side / "bin").mkdir(parents=True)
        (tmp_path / side / "bin" / "tool").write_bytes(programs[name].read_bytes())
        (tmp_path / side / "tool.h").write_text("/* no code */")
    assert same_product(tmp_path / "product", tmp_path / "evidence") == ""
    assert "bin/tool" in same_product(tmp_path / "product", tmp_path / "other")
    (tmp_path / "evidence" / "bin" / "tool").write_bytes(b"\x7fELF damaged")
    assert "bin/tool" in same_product(tmp_path / "product", tmp_path / "evidence") or "read as ELF" in same_product(
        tmp_path / "product", tmp_path / "evidence"
    )
    (tmp_path / "evidence" / "bin" / "tool").unlink()
    assert "not in the evidence build" in same_product(tmp_path / "product", tmp_path / "evidence")
