"""The seam at which untrusted code runs: a sandbox either runs one command or holds one worker that observes checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from signal import Signals
from types import TracebackType
from typing import Protocol

import msgspec

from refactorbench.observe.model import Check, Observation


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds on submitted code; sizes in MiB, times in seconds."""

    wall_s: float = 10.0
    cpu_s: float = 10.0
    memory_mb: int = 512
    processes: int = 64
    file_mb: int = 64
    disk_mb: int = 128
    output_mb: int = 64  # of stdout and stderr each


class Mount(msgspec.Struct, frozen=True):
    """`source` on the host appears at `target` inside; read-only unless `writable`."""

    source: Path
    target: str
    writable: bool = False


class Command(msgspec.Struct, frozen=True):
    """One command run to its end in a fresh sandbox (builds, drivers, agents).

    The sandbox holds `mounts` and nothing else of the host; environment exactly `env`; loopback network only.
    """

    argv: tuple[str, ...]
    mounts: tuple[Mount, ...]
    cwd: str
    env: Mapping[str, str]
    limits: Limits
    log: Path  # stdout and stderr together
    trace: Path | None = None  # strace output of the whole process tree, when asked for
    symlinks: tuple[tuple[str, str], ...] = ()  # (target, path), e.g. ("usr/lib", "/lib")


class Completed(msgspec.Struct, frozen=True):
    """`ended` as in Observation; wall in seconds."""

    ended: str
    code: int
    limit: str
    wall_s: float


class WorkerSpec(msgspec.Struct, frozen=True):
    """A long-lived worker over one product tree. `product` appears at /product; `libraries` are files or directories
    bound read-only at their own path; nothing else exists in the root but /work (noexec scratch), /tmp, /proc, /dev."""

    product: Path
    libraries: tuple[Path, ...]
    limits: Limits
    env: tuple[tuple[bytes, bytes], ...] = ()  # the task's base environment of every check
    trace: Path | None = None  # strace of everything the worker starts
    deny_exec_memory: bool = True  # refuse memfd execution and anonymous, writable or late executable memory


class Worker(Protocol):
    """Observes checks one after another; not safe for concurrent use."""

    def observe(self, check: Check) -> Observation:
        """Run one check in fresh scratch. HarnessError when the sandbox fails, never for the submission."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Worker: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Session(Protocol):
    """A program that stays, reached through pipes; its processes and what they use can be seen from the host."""

    @property
    def init(self) -> int:
        """Host pid of the sandbox's first process."""
        ...

    def send(self, data: bytes) -> None: ...

    def read(self, seconds: float) -> bytes | None:
        """What the program printed; None when nothing came in time, b"" when it has ended."""
        ...

    def processes(self) -> dict[int, tuple[int, int]]:
        """Host pid -> (parent, start time in ticks) of everything inside."""
        ...

    def signal(self, pid: int, number: Signals) -> None: ...

    def over(self) -> str:
        """Name of the limit (memory, disk) that all that runs inside has passed together, "" for none."""
        ...

    def close(self) -> None: ...


class Sandbox(Protocol):
    name: str

    def describe(self) -> dict[str, str]:
        """Facts for the lock: implementation, version, which limits mechanism, user mode."""
        ...

    def run(self, command: Command) -> Completed: ...

    def open_worker(self, spec: WorkerSpec) -> Worker: ...

    def open_session(self, command: Command) -> Session:
        """Start `command` as a program that stays; its wall limit is the caller's to keep."""
        ...
