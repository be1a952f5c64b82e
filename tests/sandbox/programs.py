"""Small C programs for the tests of the sandbox, and the fixtures that hold them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from refactorbench.observe.model import Check, InputFile, Observation
from refactorbench.sandbox import BubblewrapSandbox, Command, Completed, Limits, Mount, Worker, WorkerSpec

# small and quick: what a test waits for is bounded by these
LIMITS = Limits(wall_s=5, cpu_s=2, memory_mb=64, processes=16, file_mb=4, disk_mb=8, output_mb=1)


STAYS = f"stays-{os.getpid()}"  # in the command line of what these tests leave behind, and of nobody else's


def left_behind() -> list[str]:
    """Command lines of processes on the host that were told to stay."""
    found = []
    for process in Path("/proc").glob("[1-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if words[1:2] == [b"stay"] and STAYS.encode() in words:
                found.append(repr(words))
    return found


def compile_c(source: Path, target: Path, *flags: str) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-O1", "-w", *flags, "-o", str(target), str(source)], check=True)
    target.chmod(0o755)
    return target


@pytest.fixture(scope="session")
def sandbox() -> BubblewrapSandbox:
    return BubblewrapSandbox()


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product tree with /product/bin/probe."""
    top = tmp_path_factory.mktemp("probe") / "product"
    compile_c(Path(__file__).with_name("probe.c"), top / "bin/probe", "-static")
    return top


@pytest.fixture(scope="session")
def spec(product: Path) -> WorkerSpec:
    return WorkerSpec(product, (), LIMITS)


@pytest.fixture(scope="session")
def worker(sandbox: BubblewrapSandbox, spec: WorkerSpec) -> Iterator[Worker]:
    """One worker for all tests: none may leave it unusable or changed for the next."""
    with sandbox.open_worker(spec) as opened:
        yield opened


def check(*words: str, program: str = "bin/probe", **fields: object) -> Check:
    argv = tuple(w.encode() for w in ("probe", *words))
    made = Check(f"test/{'-'.join(words)}", "test", "process", program, argv)
    return msgspec.structs.replace(made, **fields)


def ended(seen: Observation) -> tuple[str, int | str]:
    return seen.ended, seen.limit if seen.ended == "limit" else seen.code


def tree(seen: Observation) -> dict[str, tuple[str, int, int, bytes]]:
    """path -> (kind, mode, mtime, data or target)."""
    return {f.path.decode(): (f.kind, f.mode, f.mtime, f.data or f.target) for f in seen.files}


def run_probe(
    sandbox: BubblewrapSandbox, product: Path, folder: Path, *words: str, trace: Path | None = None,
    limits: Limits = LIMITS, writable: Path | None = None,
) -> tuple[Completed, str]:  # fmt: skip
    """`probe WORDS` by Sandbox.run; returns how it ended and what it printed."""
    mounts = (Mount(product, "/product"), *((Mount(writable, "/build/tree", True),) if writable else ()))
    cwd = "/build/tree" if writable else "/tmp"
    log = folder / "log"
    command = Command(("/product/bin/probe", *words), mounts, cwd, {"ONLY": "this"}, limits, log, trace)
    done = sandbox.run(command)
    return done, log.read_text(errors="replace")


__all__ = [
    "LIMITS",
    "InputFile",
    "check",
    "compile_c",
    "ended",
    "product",
    "run_probe",
    "sandbox",
    "spec",
    "tree",
    "worker",
]
