"""What several cheats are made of: State A's code built by the host's gcc when a control is made, and the crate that
puts Rust names in front of it. Nothing of State A is kept here."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.errors import HarnessError, TaskError

CRATE = Path(__file__).with_name("crate")
LIBRARY = ("blocksort.c", "huffman.c", "crctable.c", "randtable.c", "compress.c", "decompress.c", "bzlib.c")
PROGRAMS = {"bzip2.c": "core_bzip2_main", "bzip2recover.c": "core_recover_main"}
_EXPORTED = re.compile(r"BZ_API\((BZ2_\w+)\)")


def exported(state_a: Path) -> list[str]:
    """The functions that bzlib.h declares."""
    return _EXPORTED.findall((state_a / "bzlib.h").read_text())


def flags(state_a: Path, unit: str) -> list[str]:
    """The compiler's flags for one unit: every name that the crate exports itself moves out of its way."""
    moved = [f"-D{name}=core_{name}" for name in exported(state_a)]
    main = [f"-Dmain={PROGRAMS[unit]}"] if unit in PROGRAMS else []
    return ["-O2", "-fPIC", "-w", "-D_FILE_OFFSET_BITS=64", *moved, *main]


def gcc(context: ControlContext, unit: str, how: str, dest: Path) -> None:
    """Compile one of State A's units; `how` is -c or -S."""
    run(["gcc", *flags(context.state_a, unit), how, str(context.state_a / unit), "-o", str(dest)])


def archive(context: ControlContext) -> bytes:
    """All of State A's code as one static library."""
    with tempfile.TemporaryDirectory(prefix="control-") as folder:
        objects = []
        for unit in (*LIBRARY, *PROGRAMS):
            objects.append(Path(folder, unit).with_suffix(".o"))
            gcc(context, unit, "-c", objects[-1])
        packed = Path(folder, "core.a")
        run(["ar", "crsD", str(packed), *map(str, objects)])
        return packed.read_bytes()


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise HarnessError(f"a control can't be made: {' '.join(command[:3])} ... ended with {done.stderr[-500:]}")


def lay_under(tree: Path, context: ControlContext) -> None:
    """The crate around a core that the control provides, and the header that every delivery needs; what the tree holds
    already stays."""
    for path in sorted(p for p in CRATE.rglob("*") if p.is_file()):
        place = tree / path.relative_to(CRATE)
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
    shutil.copyfile(context.state_a / "bzlib.h", tree / "bzlib.h")


def replace(path: Path, old: str, new: str) -> None:
    """Put `new` in the place of `old`, which must stand in the file exactly once."""
    text = path.read_text()
    if text.count(old) != 1:
        raise TaskError(f"{path.name} holds {old[:60]!r} {text.count(old)} times, not once: adapt the control to it")
    path.write_text(text.replace(old, new))


def answers(context: ControlContext, largest: int) -> bytes:
    """The table that known.rs reads: what State A answered to flags and a pipe, up to `largest` bytes."""
    table = b""
    for module in context.recording.manifest.modules:
        for row in context.recording.rows(module.id):
            check, seen = row.check, row.observation
            flags = all(len(w) > 1 and w[:1] == b"-" and w != b"--" for w in check.argv[1:])
            plain = (check.stdin_kind, check.stdout, check.env, check.files) == ("pipe", "pipe", (), ())
            bare = check.program in ("bin/bzip2", "bin/bunzip2", "bin/bzcat") and flags and plain
            if bare and seen.ended == "exit" and len(seen.stdout) + len(seen.stderr) <= largest:
                key = fnv(check.argv[0], b" ".join(check.argv[1:]), check.stdin)
                sizes = (len(seen.stdout), len(seen.stderr))
                table += struct.pack("<QBII", key, seen.code, *sizes) + seen.stdout + seen.stderr
    return table


def fnv(*parts: bytes) -> int:
    state = 0xCBF29CE484222325
    for byte in b"".join(part + b"\x1f" for part in parts):
        state = (state ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return state


def know(tree: Path) -> None:
    """Have the program ask known.rs first."""
    main = tree / "src" / "bin" / "bzip2" / "main.rs"
    replace(main, "mod files;\n", "mod files;\n#[allow(unsafe_code)]\nmod known;\n")
    ask = "    if let Some(status) = known::recall(program, &words) {\n        return status;\n    }\n"
    start = "fn run(program: &[u8], words: Vec<Vec<u8>>) -> i32 {\n"
    replace(main, start, start + ask)


def keystream(data: bytes, seed: int) -> bytes:
    """`data` under the stream of a 64-bit xorshift generator; doing it twice undoes it."""
    state, out = seed, bytearray(data)
    for i in range(len(out)):
        state ^= state << 13 & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 7
        state ^= state << 17 & 0xFFFFFFFFFFFFFFFF
        out[i] ^= state >> 56
    return bytes(out)
