"""Compile the package's static C programs once per source digest into the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from refactorbench.errors import HarnessError, ToolMissing
from refactorbench.paths import cache_dir

FLAGS = ("-O2", "-static", "-std=gnu11", "-Wall", "-Wextra")
_PACKAGE = Path(__file__).resolve().parent.parent
LAUNCH_SOURCE = _PACKAGE / "sandbox" / "launch.c"
WORKER_SOURCE = _PACKAGE / "observe" / "worker.c"


def source_digest(source: Path) -> str:
    """sha256 over the source, its own headers (NAME_*.h beside it) and the compiler flags."""
    texts = [source, *sorted(source.parent.glob(f"{source.stem}_*.h"))]
    return hashlib.sha256(b"\0".join(t.read_bytes() for t in texts) + "\0".join(FLAGS).encode()).hexdigest()


def static_program(source: Path, cache: Path | None = None) -> Path:
    """Return the compiled program of `source`, building it when the cache has none.

    Two processes may build at once: each renames its own complete file into place. ToolMissing when there is no C
    compiler or no static C library; HarnessError when the compiler refuses or the cache can't be written.
    """
    folder = (cache or cache_dir()) / "programs"
    program = folder / f"{source.stem}-{source_digest(source)[:16]}"
    if program.exists():
        return program
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise ToolMissing("no C compiler (cc), which setting up the sandbox needs: apt-get install gcc libc6-dev")
    temp = ""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, temp = tempfile.mkstemp(prefix=f".{program.name}.", dir=folder)
        os.close(handle)
        done = subprocess.run([compiler, *FLAGS, "-o", temp, str(source)], capture_output=True, text=True, check=False)
        if done.returncode:
            if "cannot find -lc" in done.stderr or "No such file or directory" in done.stderr:
                raise ToolMissing(
                    f"{compiler} has no static C library or headers for {source.name}: install them with: "
                    f"apt-get install libc6-dev linux-libc-dev\n{done.stderr[-500:]}"
                )
            raise HarnessError(f"{compiler} refused {source.name}, so no sandbox can start:\n{done.stderr[-2000:]}")
        Path(temp).chmod(0o755)
        Path(temp).replace(program)
    except OSError as e:
        raise HarnessError(f"cannot write {program}: {e.strerror}; free space or set REFACTORBENCH_CACHE") from e
    finally:
        if temp:
            Path(temp).unlink(missing_ok=True)
    return program
