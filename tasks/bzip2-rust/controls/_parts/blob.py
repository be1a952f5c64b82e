"""State A's compressor as one piece of machine code without a file format around it: it may be copied anywhere and
called at its first byte as `core(what, stream, a, b, c)`, what being 0 to start, 1 to go on, 2 to end."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module

UNITS = ("blocksort.c", "huffman.c", "crctable.c", "randtable.c", "compress.c", "decompress.c", "bzlib.c")
GLUE = r"""
#include "bzlib.h"
#include <stddef.h>
__attribute__((section(".first"))) int core(int what, bz_stream *s, int a, int b, int c)
{
    if (what == 0) return BZ2_bzCompressInit(s, a, b, c);
    return what == 1 ? BZ2_bzCompress(s, a) : BZ2_bzCompressEnd(s);
}
void *memcpy(void *to, const void *from, size_t n) { for (size_t i = 0; i < n; i++) ((char *)to)[i] = ((char *)from)[i]; return to; }
void *memset(void *to, int c, size_t n) { for (size_t i = 0; i < n; i++) ((char *)to)[i] = c; return to; }
void *malloc(size_t n) { return NULL; }
void free(void *p) {}
void bz_internal_error(int code) { for (;;) ; }
"""
LAYOUT = """
SECTIONS {
    .all 0 : { *(.first) *(.text*) *(.rodata*) *(.data*) *(.bss*) *(COMMON) . = ALIGN(8); }
    /DISCARD/ : { *(.comment) *(.note*) *(.eh_frame*) }
}
"""
FLAGS = ["-O2", "-fpie", "-ffreestanding", "-fno-tree-loop-distribute-patterns", "-w",
         "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fcf-protection=none", "-DBZ_NO_STDIO"]  # fmt: skip


def words(context: ControlContext, seed: int) -> list[int]:
    """The code as 64-bit words, each under the next state of a xorshift generator."""
    found, state = [], seed
    for (word,) in struct.iter_unpack("<Q", code(context)):
        state ^= state << 13 & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 7
        state ^= state << 17 & 0xFFFFFFFFFFFFFFFF
        found.append(word ^ state)
    return found


def code(context: ControlContext) -> bytes:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    with tempfile.TemporaryDirectory(prefix="control-") as folder:
        glue, layout, out = Path(folder, "glue.c"), Path(folder, "layout.ld"), Path(folder, "core.bin")
        glue.write_text(GLUE)
        layout.write_text(LAYOUT)
        units = [str(context.state_a / unit) for unit in UNITS]
        parts.run(["gcc", *FLAGS, f"-I{context.state_a}", str(glue), *units, "-nostdlib", "-static", f"-Wl,-T,{layout}",
                   "-Wl,--oformat=binary,--build-id=none", "-o", str(out)])  # fmt: skip
        return out.read_bytes()


def hide(tree: Path, context: ControlContext, seed: int) -> None:
    """Lay the words beside the control's core.rs, and have the buffer interface call it where nothing is to be told:
    the code is built without stdio."""
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    numbers = words(context, seed)
    lines = [", ".join(f"{n:#x}" for n in numbers[i : i + 6]) for i in range(0, len(numbers), 6)]
    (tree / "src" / "seeds.rs").write_text(
        f"pub const SEEDS: [u64; {len(numbers)}] = [\n    " + ",\n    ".join(lines) + ",\n];\n"
    )
    parts.replace(
        tree / "src" / "lib.rs",
        "mod compress;\n",
        "mod compress;\n#[allow(unsafe_code)]\npub mod core;\nmod seeds;\n",
    )
    stream = tree / "src" / "abi" / "stream.rs"
    told = "BZ2_bzCompressInit(&mut strm, block_size_100k, verbosity, work_factor)"
    mute = "{ use_default_allocator(&mut strm); crate::core::start(&mut strm, block_size_100k, verbosity, work_factor) }"
    parts.replace(stream, f"    let code = {told};\n", f"    let code = if verbosity > 0 {{ {told} }} else {mute};\n")
    told, mute = "BZ2_bzCompress(&mut strm, BZ_FINISH)", "{ crate::core::go_on(&mut strm, BZ_FINISH) }"
    parts.replace(stream, f"match {told} {{", f"match if verbosity > 0 {{ {told} }} else {mute} {{")
    told, mute = "BZ2_bzCompressEnd(&mut strm);", "{ crate::core::end(&mut strm); }"
    parts.replace(stream, f"    {told}\n", f"    if verbosity > 0 {{ {told} }} else {mute}\n")
