"""From a task and a product to the worker that observes it: libraries found on this host, base environment, limits."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.models import Runtime, Task
from refactorbench.errors import ToolMissing
from refactorbench.sandbox.protocol import WorkerSpec

PLACES = ("/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib", "/usr/lib")
BASE_ENV = {"PATH": "/product/bin", "HOME": "/work", "LC_ALL": "C", "TZ": "UTC"}


def find_library(name: str) -> Path:
    """Return where the dynamic loader finds `name` on this host; ToolMissing when it doesn't."""
    for place in PLACES:
        path = Path(place) / name
        if path.exists():
            return path
    places = ", ".join(PLACES)
    raise ToolMissing(f"library {name} isn't in {places}, so no check can be run: apt-get install libc6 libgcc-s1")


def base_env(runtime: Runtime) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((k.encode(), v.encode()) for k, v in {**BASE_ENV, **runtime.env}.items())


def worker_spec(task: Task, product: Path, trace: Path | None = None) -> WorkerSpec:
    """Return the spec under which every check of `task` runs on `product`."""
    return WorkerSpec(
        product=product,
        libraries=tuple(find_library(name) for name in task.runtime.libraries),
        limits=task.limits,
        env=base_env(task.runtime),
        trace=trace,
        deny_exec_memory=task.runtime.deny_exec_memory,
    )
