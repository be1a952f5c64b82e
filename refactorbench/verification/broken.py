"""A product that is deliberately broken: every program prints nothing and exits 99, every library is gone.

An input on which even this passes tests nothing.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import stat
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

from refactorbench.errors import HarnessError
from refactorbench.hashing import tree_digest

BROKEN_STATUS = 99
_BASE, _HEADERS = 0x400000, 64 + 56
# exit_group(99), as machine code, with the machine's ELF number
_CODE = {
    "x86_64": (62, bytes.fromhex("bf63000000b8e70000000f05")),
    "aarch64": (183, bytes.fromhex("600c8052c80b8052010000d4")),
}
_LIBRARY = (".so", ".a", ".rlib", ".dylib")


def program(machine: str | None = None) -> bytes:
    """Return a static ELF program for `machine` (default: this one) that exits 99; HarnessError for an unknown one."""
    machine = machine or platform.machine()
    if machine not in _CODE:
        raise HarnessError(
            f"machine '{machine}': no broken product can be made for it, so no counterexample can be confirmed: "
            f"run stage III on one of {', '.join(_CODE)}"
        )
    number, code = _CODE[machine]
    size = _HEADERS + len(code)
    ident = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    header = struct.pack("<HHIQQQIHHHHHH", 2, number, 1, _BASE + _HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return ident + header + segment + code


def _is_library(name: str) -> bool:
    return name.endswith(_LIBRARY) or ".so." in name


@contextlib.contextmanager
def broken_product(product: Path, cache: Path) -> Iterator[Path]:
    """Yield a broken copy of `product`: same paths, modes and links. HarnessError when the disk refuses.

    It lies under `cache` by the product's digest, so that one is left behind at most, and is laid anew when missing.
    """
    target = cache / "broken" / tree_digest(product)
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".laying-") as folder:
            made = Path(folder) / "product"
            lay_broken(product, made)
            with contextlib.suppress(FileExistsError):  # another run was first
                made.rename(target)
    yield target


def lay_broken(product: Path, target: Path) -> None:
    dead = program()
    try:
        for folder, _, names in os.walk(product):
            here = target / Path(folder).relative_to(product)
            here.mkdir()
            for name in names:
                _lay(Path(folder) / name, here / name, dead)
    except OSError as e:
        raise HarnessError(f"cannot lay the broken product at {target}: {e}; free some space and resume") from e


def _lay(source: Path, target: Path, dead: bytes) -> None:
    if source.is_symlink():
        target.symlink_to(source.readlink())
        return
    if _is_library(source.name):
        return
    mode = source.stat().st_mode
    if mode & 0o111:
        target.write_bytes(dead)
    else:
        shutil.copyfile(source, target)
    target.chmod(stat.S_IMODE(mode))
