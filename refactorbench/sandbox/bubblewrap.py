"""The embedded sandbox: bubblewrap namespaces, as root and as an ordinary user.

As root the harness first enters a user namespace that maps every id to itself, so that all that follows is privileged
over its own namespaces only; the program then runs as uid 65534 (nobody on the host too), and writable mounts are given
to that uid for the time of the run. As an ordinary user the program runs with that user's kernel id, shown as 65534.
Either way it holds no capability, sees loopback only, and dies with its pid namespace.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

from refactorbench.errors import HarnessError, UsageError
from refactorbench.observe.worker_build import LAUNCH_SOURCE, static_program
from refactorbench.sandbox.limits import MIB, CgroupScope, WatchedScope, mechanism, open_scope
from refactorbench.sandbox.need import need
from refactorbench.sandbox.ownership import NOBODY, disk_used, given_to_nobody
from refactorbench.sandbox.process import SandboxProcess
from refactorbench.sandbox.protocol import Command, Completed, Limits, Session, Worker, WorkerSpec
from refactorbench.sandbox.session import BubblewrapSession
from refactorbench.sandbox.trace import strace_words, strip_command
from refactorbench.sandbox.worker import BubblewrapWorker

LAUNCH = "/.launch"  # where the launcher lies inside until it hides itself
TRACE_BYTES = 256 << 20  # honest builds leave a few MiB
DEVICES = ("null", "zero", "full", "random", "urandom")


class BubblewrapSandbox:
    """The `Sandbox` protocol on bubblewrap. Construction checks what is installed (ToolMissing) and starts nothing."""

    name = "bubblewrap"

    def __init__(self) -> None:
        self.bwrap = need("bwrap", "bubblewrap")
        self.launch = static_program(LAUNCH_SOURCE)
        self.root = os.geteuid() == 0
        self._lock = threading.Lock()
        self._userns: bool | None = None

    def describe(self) -> dict[str, str]:
        version = subprocess.run([self.bwrap, "--version"], capture_output=True, text=True, check=False).stdout.split()
        mode = "ordinary user in a user namespace"
        if self.root:
            mode = "root, own user namespace" if self.own_namespace() else "root, host user namespace"
        return {"implementation": self.name, "version": version[-1], "limits": mechanism(), "user": mode}

    def own_namespace(self) -> bool:
        """Root only: whether a user namespace with a fresh /proc can be had (not in a chroot or a masked container)."""
        with self._lock:
            if self._userns is None:
                probe = [str(self.launch), "enter", str(os.getpid()), "-u", "--", self.bwrap, *self.namespaces()]
                probe += ["--cap-add", "ALL", "--proc", "/proc", "--ro-bind", str(self.launch), LAUNCH, LAUNCH]
                done = subprocess.run(probe, capture_output=True, check=False)
                self._userns = b"usage: launch" in done.stderr
            return self._userns

    def enter(self, scope: CgroupScope | WatchedScope, trace: Path | None, refusals: bool = False) -> list[str]:
        """A sandbox's first words: join the scope's cgroups, as root an own user namespace, the tracer, bwrap."""
        words = [str(self.launch), "enter", str(os.getpid()), *(["-u"] if self.root and self.own_namespace() else [])]
        for join in scope.joins:
            words += ["-c", str(join)]
        words += ["--", *(strace_words(trace, refusals) if trace is not None else [])]
        return [*words, self.bwrap, *self.namespaces(), "--json-status-fd", "{info}", "--proc", "/proc"]

    def namespaces(self) -> list[str]:
        """Network, pids, mounts and the rest are new; the id that the program sees is the same in both user modes."""
        words = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        if not self.root:
            words += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
        return [*words, "--hostname", "sandbox", "--as-pid-1", "--die-with-parent", "--new-session", "--clearenv"]

    def run(self, command: Command) -> Completed:
        """Run one command to its end. HarnessError when the sandbox can't be started or swept."""
        missing = [str(m.source) for m in command.mounts if not m.source.exists()]
        if missing:
            raise UsageError(f"cannot mount {missing[0]} into the sandbox: it does not exist; build or fetch it first")
        writable = [m.source for m in command.mounts if m.writable]
        with given_to_nobody(writable, self.root):
            result = self._run(command, writable)
        if command.trace is not None:
            strip_command(command.trace, LAUNCH)
        return result

    def words(self, command: Command, scope: CgroupScope | WatchedScope) -> list[str]:
        limit = command.limits
        words = [*self.enter(scope, command.trace), "--cap-add", "ALL"]
        for folder, more in (("/tmp", []), ("/dev/shm", _dev())):
            words += [*more, "--size", str(limit.disk_mb * MIB), "--perms", "1777", "--tmpfs", folder]
        words += ["--remount-ro", "/dev"]
        for folder in _parents(command):
            words += ["--perms", "0755", "--dir", folder]
        for mount in command.mounts:
            words += ["--bind" if mount.writable else "--ro-bind", str(mount.source), mount.target]
        for target, path in command.symlinks:
            words += ["--symlink", target, path]
        words += ["--ro-bind", str(self.launch), LAUNCH, "--remount-ro", "/", "--chdir", command.cwd]
        for name, value in command.env.items():
            words += ["--setenv", name, value]
        bound = [max(1, round(limit.cpu_s)), limit.file_mb * MIB]
        # where a cgroup bounds the whole tree, a bound per process on top would only be in the way
        bound += [limit.processes, limit.memory_mb * MIB] if isinstance(scope, WatchedScope) else [0, 0]
        words += ["--", LAUNCH, "run", LAUNCH, "{report}", str(NOBODY if self.root else 0), *map(str, bound)]
        return [*words, "--", *command.argv]

    def _run(self, command: Command, writable: list[Path]) -> Completed:
        scope = open_scope(command.limits, spare_processes=8, spare_memory_mb=64)
        start, before, limit = time.monotonic(), disk_used(writable), ""
        try:
            with command.log.open("wb") as log:
                process = SandboxProcess(self.words(command, scope), scope, subprocess.DEVNULL, log, log)
        except BaseException:
            scope.close()
            raise
        used = scope.usage(process.init)
        try:
            limit = _watch(process, command.limits, writable, before, start, command.trace)
            if limit:
                process.terminate()
            used = scope.usage(process.init)
        finally:
            report = process.end()
        wall = time.monotonic() - start
        return _completed(command, process.popen.returncode, limit, report, used.oom, wall)

    def open_session(self, command: Command) -> Session:
        """Start a program that stays. HarnessError when it does not start."""
        return BubblewrapSession(self, command)

    def open_worker(self, spec: WorkerSpec) -> Worker:
        """Start a worker over `spec.product`. HarnessError when it does not start."""
        return BubblewrapWorker(self, spec)


def _dev() -> list[str]:
    words = ["--perms", "0755", "--tmpfs", "/dev"]
    for name in DEVICES:
        words += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        words += ["--symlink", f"/proc/self/fd/{number}", f"/dev/{name}"]
    return [*words, "--symlink", "/proc/self/fd", "/dev/fd"]


def _parents(command: Command) -> list[str]:
    """Folders above the mounts and links: bwrap would make them for its own user only."""
    places = [m.target for m in command.mounts] + [path for _, path in command.symlinks]
    return sorted({str(folder) for place in places for folder in Path(place).parents} - {"/", "/dev", "/proc", "/tmp"})


def _watch(
    process: SandboxProcess, limit: Limits, writable: list[Path], before: int, start: float, trace: Path | None
) -> str:
    """Wait for the end; return the name of the limit that was passed first, or ""."""
    deadline, pause, next_disk = start + limit.wall_s, 0.005, start
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return "wall"
        try:
            process.popen.wait(min(pause, left))
            return ""
        except subprocess.TimeoutExpired:
            pause = min(pause * 2, 0.2)
        used = process.scope.usage(process.init)
        if used.cpu_s > limit.cpu_s:
            return "cpu"
        if isinstance(process.scope, WatchedScope) and used.memory > limit.memory_mb * MIB:
            return "memory"
        if trace is not None and trace.exists() and trace.stat().st_size > TRACE_BYTES:
            return "trace"  # what is done only to be written down: the host's disk and memory are not the submission's
        now = time.monotonic()
        if now >= next_disk:
            if disk_used(writable) - before > limit.disk_mb * MIB:
                return "disk"
            next_disk = now + max(0.5, 20 * (time.monotonic() - now))  # looking costs a twentieth at most


def _completed(command: Command, returncode: int, limit: str, report: str, oom: int, wall: float) -> Completed:
    if limit:
        return Completed("limit", 0, limit, wall)
    words = report.split()
    if len(words) != 2:
        if oom:
            return Completed("limit", 0, "memory", wall)
        tail = command.log.read_bytes()[-500:].decode(errors="replace")
        raise HarnessError(f"the sandbox of {command.argv[0]} ended with {returncode} before its program did: {tail}")
    ended, code = words[0], int(words[1])
    if ended == "launch":
        return Completed("launch", code, os.strerror(code), wall)
    if oom and (ended, code) != ("exit", 0):
        return Completed("limit", 0, "memory", wall)
    if (ended, code) == ("signal", signal.SIGXCPU):
        return Completed("limit", 0, "cpu", wall)
    return Completed(ended, code, "", wall)
