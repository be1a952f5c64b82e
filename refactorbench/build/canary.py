"""The canary: a program that any working toolchain builds. Where it fails too, a failed build says nothing."""

from __future__ import annotations

from pathlib import Path

from refactorbench.build import room as rooms
from refactorbench.build.toolchain import Toolchain
from refactorbench.catalog.models import Recipe
from refactorbench.sandbox.protocol import Sandbox

RUST = {
    "Cargo.toml": '[package]\nname = "canary"\nversion = "0.1.0"\nedition = "2021"\n\n'
    '[lib]\ncrate-type = ["cdylib", "rlib"]\n',
    "src/lib.rs": "#[no_mangle]\npub extern \"C\" fn canary() -> i32 {\n    7\n}\n",
    "src/main.rs": 'fn main() {\n    println!("{}", canary::canary());\n}\n',
}
C = {"canary.c": '#include <stdio.h>\nint main(void) { return puts("7") < 0; }\n'}
SCRIPTS = {
    "rust": "set -e\ncargo build --release --offline\ntarget/release/canary >&2\n",
    "gcc": "set -e\ngcc -O1 -o canary canary.c\n./canary >&2\n",
    "clang": "set -e\nclang -O1 -o canary canary.c\n./canary >&2\n",
}
WALL_S = 300.0


def canary(
    of: Recipe, toolchain: Toolchain, sandbox: Sandbox, cache: Path, folder: Path, guarded: dict[str, Path],
    wraps_rustc: bool,
) -> str:  # fmt: skip
    """Build a minimal program of the recipe's toolchain in the same kind of sandbox; return "" or why it failed."""
    kind = next((k for k in ("rust", "clang", "gcc") if k in of.toolchain), "")
    if not kind:
        return ""
    source = folder / "canary-source"
    for name, text in (RUST if kind == "rust" else C).items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    recipe = Recipe(script="", outputs={}, toolchain=of.toolchain, env=of.env, wall_s=WALL_S)
    room = rooms.prepare(folder / "canary", source, SCRIPTS[kind].encode(), toolchain, cache, guarded, wraps_rustc)
    return rooms.cause(rooms.run(room, recipe, of.env, sandbox, traced=False), room.log)
