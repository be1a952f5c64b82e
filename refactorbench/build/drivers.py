"""Compile the task's C drivers against a delivered library, in a sandbox: the library is the submission's."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath

from refactorbench.build.toolchain import find
from refactorbench.catalog.models import Drivers
from refactorbench.errors import TaskError
from refactorbench.sandbox.protocol import Command, Limits, Mount, Sandbox

LIMITS = Limits(wall_s=300.0, cpu_s=300.0, memory_mb=1024, processes=64, file_mb=64, disk_mb=256)
SCRIPT = r"""
for source in /build/sources/*.c; do
    name=$(basename "$source" .c)
    if gcc -O1 -I"/build/product/$1" "$source" -o "/build/out/$name" -L"/build/product/$2" -l":$3" \
        -Wl,-rpath,'$ORIGIN/../lib' -Wl,--allow-shlib-undefined 2> "/build/out/$name.log"
    then rm -f "/build/out/$name.log"
    else rm -f "/build/out/$name"
    fi
done
exit 0
"""


def compile_drivers(
    drivers: Drivers, task_folder: Path, product: Path, sandbox: Sandbox, folder: Path
) -> dict[str, str]:
    """Add product/drivers/NAME for every source; return those that are absent with the compiler's words.

    TaskError when a source isn't there; ToolMissing without a C compiler.
    """
    sources, out = folder / "sources", folder / "out"
    for made in (sources, out):
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
    for name in drivers.sources:
        if not (task_folder / name).is_file():
            raise TaskError(f"drivers.sources names {name}, which is not in {task_folder}: correct the name")
        shutil.copyfile(task_folder / name, sources / PurePosixPath(name).name)
    toolchain = find(("gcc",))
    header, library = PurePosixPath(drivers.header), PurePosixPath(drivers.library)
    mounts = (
        *toolchain.mounts,
        Mount(sources, "/build/sources"),
        Mount(product, "/build/product"),
        Mount(out, "/build/out", True),
    )
    argv = ("/bin/sh", "-c", SCRIPT, "drivers", str(header.parent), str(library.parent), library.name)
    env = {"PATH": toolchain.path, "HOME": "/tmp", "LC_ALL": "C"}
    log = folder / "drivers.log"
    sandbox.run(Command(argv, mounts, "/build/out", env, LIMITS, log, symlinks=toolchain.symlinks))
    absent: dict[str, str] = {}
    place = product / "drivers"
    place.mkdir(exist_ok=True)
    for source in sorted(sources.iterdir()):
        built = out / source.stem
        if built.is_file() and not built.is_symlink():
            shutil.copyfile(built, place / source.stem)
            (place / source.stem).chmod(0o755)
        else:
            said = out / f"{source.stem}.log"
            absent[source.stem] = said.read_text(errors="replace")[-600:].strip() if said.is_file() else "not compiled"
    return absent
