"""A sandbox that stays: one program whose stdin and stdout are pipes to the host, and whose processes can be seen."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

from refactorbench.errors import HarnessError, UsageError
from refactorbench.sandbox.limits import MIB, WatchedScope, open_scope, tree
from refactorbench.sandbox.ownership import disk_used, given_to_nobody
from refactorbench.sandbox.process import SandboxProcess, readable
from refactorbench.sandbox.protocol import Command

if TYPE_CHECKING:
    from refactorbench.sandbox.bubblewrap import BubblewrapSandbox


class BubblewrapSession:
    """The `Session` protocol. `command.limits.wall_s` is the caller's to keep; writable mounts belong to the program's
    uid until `close`."""

    def __init__(self, sandbox: BubblewrapSandbox, command: Command) -> None:
        missing = [str(m.source) for m in command.mounts if not m.source.exists()]
        if missing:
            raise UsageError(f"cannot mount {missing[0]} into the sandbox: it does not exist; build or fetch it first")
        self._writable = [m.source for m in command.mounts if m.writable]
        self._limits = command.limits
        self._open = contextlib.ExitStack()
        try:
            self._open.enter_context(given_to_nobody(self._writable, sandbox.root))
            self._start(sandbox, command)
        except BaseException:
            self._open.close()
            raise
        self._before, self._next_disk = disk_used(self._writable), 0.0

    def _start(self, sandbox: BubblewrapSandbox, command: Command) -> None:
        scope = open_scope(command.limits, spare_processes=8, spare_memory_mb=64)
        stdin, self._to = os.pipe()
        self._from, stdout = os.pipe()
        try:
            with command.log.open("ab") as log:
                self._process = SandboxProcess(sandbox.words(command, scope), scope, stdin, stdout, log)
        except BaseException:
            scope.close()
            os.close(self._to)
            os.close(self._from)
            raise
        finally:
            os.close(stdin)
            os.close(stdout)
        self._open.callback(self._end)

    def send(self, data: bytes) -> None:
        """Write to the program's stdin. HarnessError when it is gone."""
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._to, view) :]
        except OSError as e:
            raise HarnessError(f"the agent's sandbox takes no more input: {e.strerror}; start it anew") from e

    def read(self, seconds: float) -> bytes | None:
        """What the program printed; None when nothing came in time, b"" when it has ended."""
        return os.read(self._from, 1 << 16) if readable(self._from, seconds) else None

    def processes(self) -> dict[int, tuple[int, int]]:
        """Host pid -> (parent, start time in ticks) of everything inside, the sandbox's first process included."""
        return {pid: (int(f[1]), int(f[19])) for pid, f in tree(self._process.init)} if self._process.init else {}

    @property
    def init(self) -> int:
        return self._process.init

    def signal(self, pid: int, number: signal.Signals) -> None:
        """Send a signal to a process that `processes` named; one that is gone is passed over."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def over(self) -> str:
        """Name of the limit (memory, disk) that all that runs inside has passed together, "" for none. Memory is the
        kernel's to keep where there is a cgroup; looking at the disk costs a twentieth of the time at most."""
        scope = self._process.scope
        if isinstance(scope, WatchedScope) and scope.usage(self._process.init).memory > self._limits.memory_mb * MIB:
            return "memory"
        now = time.monotonic()
        if now >= self._next_disk:
            if disk_used(self._writable) - self._before > self._limits.disk_mb * MIB:
                return "disk"
            self._next_disk = now + max(0.5, 20 * (time.monotonic() - now))
        return ""

    def close(self) -> None:
        """End all that runs inside and give the mounts back. Calling it twice does nothing."""
        self._open.close()

    def _end(self) -> None:
        os.close(self._to)
        try:
            self._process.end()
        finally:
            os.close(self._from)
