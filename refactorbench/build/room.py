"""The build sandbox: what is mounted where, with which environment, and how one recipe is run in it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

from refactorbench.build import tripwire
from refactorbench.build.places import HARNESS, HOME, TMP, TREE, Places
from refactorbench.build.toolchain import Toolchain
from refactorbench.catalog.models import Recipe
from refactorbench.errors import HarnessError
from refactorbench.sandbox.protocol import Command, Completed, Limits, Mount, Sandbox

WRAPPER = Path(__file__).with_name("rustc_wrapper.sh")
END = f"{HARNESS}/end"
# The last command is the harness's own, so that a trace says by itself whether it is whole.
RUN = f"""#!/bin/sh
sh {HARNESS}/recipe.sh
exec {END} $?
"""
EVIDENCE_FLAGS = "REFACTORBENCH_EVIDENCE_FLAGS"  # how a recipe names the options that the wrapper adds
DISK_MB, FILE_MB, PROCESSES = 16384, 4096, 512
CORES = 8  # cpu seconds that a second of wall time may use at most


class Room(msgspec.Struct, frozen=True):
    """One build's folders on the host and what is mounted of them; `guarded`: inside path -> hidden compiler."""

    folder: Path
    toolchain: Toolchain
    mounts: tuple[Mount, ...]
    guarded: dict[str, Path]
    wraps_rustc: bool

    @property
    def tree(self) -> Path:
        return self.folder / "tree"

    @property
    def log(self) -> Path:
        return self.folder / "build.log"

    @property
    def trace(self) -> Path:
        return self.folder / "trace.txt"

    @property
    def ended(self) -> str:
        return END

    def places(self, clean: Path) -> Places:
        return Places(self.mounts, self.toolchain.symlinks, clean, self.guarded)


def remove(folder: Path) -> None:
    """Remove what a build left, whatever modes and depth it gave it. HarnessError when something of it stays."""
    for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):  # they know no limit on a path's length
        if folder.is_dir():
            subprocess.run([*command, "--", str(folder)], capture_output=True, check=False)
    if folder.exists():
        raise HarnessError(f"cannot remove {folder}, so no clean build can start: remove it, or use another --out")


def _special(folder: str, names: list[str]) -> list[str]:
    """Names that are neither file, folder nor link: nothing can be built from them, and copying them could hang."""
    modes = {name: Path(folder, name).lstat().st_mode for name in names}
    return [n for n, m in modes.items() if not (stat.S_ISREG(m) or stat.S_ISDIR(m) or stat.S_ISLNK(m))]


def prepare(
    folder: Path, tree: Path, script: bytes, toolchain: Toolchain, cache: Path, guarded: dict[str, Path],
    wraps_rustc: bool,
) -> Room:  # fmt: skip
    """Lay out a fresh room in `folder` (emptied first) with a clean copy of `tree`."""
    remove(folder)
    harness = folder / "harness"
    harness.mkdir(parents=True)
    program = tripwire.program(cache)
    (harness / "recipe.sh").write_bytes(script)
    (harness / "run").write_text(RUN)
    shutil.copyfile(program, harness / "end")
    shutil.copyfile(WRAPPER, harness / "rustc")
    for name in ("end", "run", "rustc"):
        (harness / name).chmod(0o755)
    shutil.copytree(tree, folder / "tree", symlinks=True, ignore=_special)
    for name in ("home", "tmp"):
        (folder / name).mkdir()
    mounts = (
        *toolchain.mounts,
        *tripwire.mounts(guarded, program),
        Mount(harness, HARNESS),
        Mount(folder / "tree", TREE, True),
        Mount(folder / "home", HOME, True),
        Mount(folder / "tmp", TMP, True),
    )
    return Room(folder, toolchain, mounts, guarded, wraps_rustc)


def environment(room: Room, extra: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a build; `extra` is the recipe's and wins except over the wrapper."""
    env = {"PATH": room.toolchain.path, "HOME": HOME, "TMPDIR": TMP, "LC_ALL": "C", "TZ": "UTC", **extra}
    if room.wraps_rustc:
        # An empty workspace wrapper outranks one that the tree configures.
        env |= {"RUSTC_WRAPPER": f"{HARNESS}/rustc", "RUSTC_WORKSPACE_WRAPPER": "", "CARGO_NET_OFFLINE": "true"}
    return env


def run(room: Room, recipe: Recipe, env: Mapping[str, str], sandbox: Sandbox, traced: bool) -> Completed:
    """Run the recipe in the room; HarnessError when the sandbox fails."""
    (room.folder / "harness" / "flags").write_text(env.get(EVIDENCE_FLAGS, "") + "\n")
    env = {name: value for name, value in env.items() if name != EVIDENCE_FLAGS}
    limits = Limits(
        wall_s=recipe.wall_s, cpu_s=recipe.wall_s * CORES, memory_mb=recipe.memory_mb, processes=PROCESSES,
        file_mb=FILE_MB, disk_mb=DISK_MB,
    )  # fmt: skip
    command = Command(
        ("/bin/sh", f"{HARNESS}/run"), room.mounts, TREE, environment(room, env), limits, room.log,
        room.trace if traced else None, room.toolchain.symlinks,
    )  # fmt: skip
    return sandbox.run(command)


def tail(log: Path, size: int = 600) -> str:
    """The end of a log as text."""
    if not log.is_file():
        return ""
    with log.open("rb") as f:
        f.seek(max(0, os.fstat(f.fileno()).st_size - size))
        return f.read().decode(errors="replace").strip()


def cause(done: Completed, log: Path) -> str:
    """Why a build ended as it did, "" when it ended well."""
    if done.ended == "exit" and done.code == 0:
        return ""
    how = {
        "exit": f"the recipe ended with status {done.code}",
        "signal": f"the recipe was ended by signal {done.code}",
        "limit": f"the recipe passed its limit of {done.limit}",
        "launch": "the recipe could not be started",
    }[done.ended]
    return f"{how}: {tail(log)}"
