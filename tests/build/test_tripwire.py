"""Tripwires stand where the old compilers are, under all their names, and nowhere else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from refactorbench.build.toolchain import Toolchain
from refactorbench.build.tripwire import REFUSED, digests, old_compilers, program
from refactorbench.hashing import sha256_file
from refactorbench.paths import cache_dir
from refactorbench.sandbox.protocol import Mount

NAMES = ("cc1", "as", "clang", "tcc")


def toolchain(usr: Path, *programs: str) -> Toolchain:
    for name in programs:
        path = usr / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(0o755)
    return Toolchain((), (Mount(usr, "/usr"),), (), "/usr/bin", "")


def test_compilers_are_found_with_prefix_version_and_in_their_private_folders(tmp_path: Path) -> None:
    tools = toolchain(
        tmp_path, "bin/x86_64-linux-gnu-as", "bin/clang-14", "bin/tcc", "lib/gcc/x86_64-linux-gnu/12/cc1", "lib/llvm-14/bin/clang",
        "bin/gcc", "bin/ld", "bin/ash", "bin/basename", "lib/gcc/x86_64-linux-gnu/12/collect2",
    )  # fmt: skip
    (tmp_path / "bin" / "as").symlink_to("x86_64-linux-gnu-as")
    assert list(old_compilers(NAMES, tools)) == [
        "/usr/bin/clang-14", "/usr/bin/tcc", "/usr/bin/x86_64-linux-gnu-as", "/usr/lib/gcc/x86_64-linux-gnu/12/cc1",
        "/usr/lib/llvm-14/bin/clang",
    ]  # fmt: skip


def test_further_hard_links_are_found_and_data_is_not(tmp_path: Path) -> None:
    tools = toolchain(tmp_path, "bin/tcc", "bin/other")
    os.link(tmp_path / "bin" / "tcc", tmp_path / "bin" / "innocent")
    (tmp_path / "bin" / "as").write_text("not executable")
    (tmp_path / "bin" / "as").chmod(0o644)
    found = old_compilers(NAMES, tools)
    assert list(found) == ["/usr/bin/innocent", "/usr/bin/tcc"]
    assert digests(found)["/usr/bin/innocent"] == sha256_file(tmp_path / "bin" / "tcc")


def test_no_names_guard_nothing(tmp_path: Path) -> None:
    assert old_compilers((), toolchain(tmp_path, "bin/tcc")) == {}


def test_the_program_refuses_and_as_end_it_passes_a_status_on(tmp_path: Path) -> None:
    wire = program(cache_dir())
    refused = subprocess.run([wire, "x.c"], capture_output=True, check=False)
    assert (refused.returncode, refused.stderr[:7]) == (REFUSED, b"refused")
    ended = subprocess.run(["/build/harness/end", "3"], executable=wire, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (3, b"")
