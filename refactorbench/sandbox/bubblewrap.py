"""The embedded sandbox: bubblewrap namespaces, as root and as an ordinary user.

As root the harness first enters a user namespace that maps every id to itself, so that all that follows is privileged
over its own namespaces only; the program then runs as uid 65534 (nobody on the host too), and writable mounts are given
to that uid for the time of the run. As an ordinary user the program runs with that user's kernel id, shown as 65534.
Either way it holds no capability, sees loopback only, and dies with its pid namespace.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from refactorbench.errors import HarnessError, ToolMissing, UsageError
from refactorbench.observe.worker_build import LAUNCH_SOURCE, static_program
from refactorbench.sandbox import limits as bounds
from refactorbench.sandbox.limits import MIB, CgroupScope, WatchedScope, open_scope
from refactorbench.sandbox.protocol import Command, Completed, Limits, Worker, WorkerSpec

NOBODY = 65534
GRACE_S = 2.0
SWEEP_S = 10.0
LAUNCH = "/.launch"  # where the launcher lies inside until it hides itself
DEVICES = ("null", "zero", "full", "random", "urandom")
TRACED = (
    "execve,execveat,open,openat,openat2,creat,memfd_create,connect,sendto,rename,renameat,renameat2,link,linkat,symlink,"
    "symlinkat,mmap,mprotect,chdir,fchdir,clone,clone3,fork,vfork,unlink,unlinkat,truncate,ptrace,process_vm_writev,"
    "io_uring_setup,mount,unshare,setns,open_by_handle_at,sendmsg,sendmmsg"
)


def need(program: str, package: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise ToolMissing(f"{program} is not installed, so no sandbox can be started: apt-get install {package}")
    return found


def strace_prefix(trace: Path) -> list[str]:
    """The tracer stays outside the sandbox; --seccomp-bpf lets untraced calls run at full speed."""
    strace = need("strace", "strace")
    options = ["-f", "--seccomp-bpf", "--decode-pids=pidns", "-qq", "-y", "-e", f"trace={TRACED}"]
    options += ["-e", "signal=none", "-s", "4096"]
    return [strace, *options, "-o", str(trace), "--"]


def namespaces(root: bool) -> list[str]:
    """bwrap arguments for the namespaces; the id the program sees is the same in both user modes."""
    args = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    args += ["--hostname", "sandbox"]
    if not root:
        args += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
    return [*args, "--as-pid-1", "--die-with-parent", "--new-session", "--clearenv"]


def devices() -> list[str]:
    args = ["--perms", "0755", "--tmpfs", "/dev"]
    for name in DEVICES:
        args += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        args += ["--symlink", f"/proc/self/fd/{number}", f"/dev/{name}"]
    args += ["--symlink", "/proc/self/fd", "/dev/fd", "--perms", "1777", "--tmpfs", "/dev/shm"]
    return [*args, "--remount-ro", "/dev"]


@contextlib.contextmanager
def given_to_nobody(trees: list[Path], root: bool) -> Iterator[None]:
    """As root, make `trees` belong to the program's uid, and afterwards to the former owner of each."""
    if not root:
        yield
        return
    owners = []
    for top in trees:
        info = top.lstat()
        owners.append((top, info.st_uid, info.st_gid))
        _chown(top, NOBODY, NOBODY)
    try:
        yield
    finally:
        for top, uid, gid in owners:
            _chown(top, uid, gid)


def _chown(top: Path, uid: int, gid: int) -> None:
    os.chown(top, uid, gid, follow_symlinks=False)
    if top.is_dir() and not top.is_symlink():
        for folder, names, files, fd in os.fwalk(os.fsencode(top)):
            for name in names + files:
                try:
                    os.chown(name, uid, gid, dir_fd=fd, follow_symlinks=False)
                except OSError as e:
                    where = os.fsdecode(folder + b"/" + name)
                    raise HarnessError(f"cannot give {where} to uid {uid}, so that it is writable: {e.strerror}") from e


def disk_used(trees: list[Path]) -> int:
    """Bytes allocated below `trees`; what vanishes meanwhile is skipped."""
    total = 0
    stack = [os.fsencode(t) for t in trees]
    while stack:
        with contextlib.suppress(OSError), os.scandir(stack.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(os.fsencode(entry.path))
    return total


class _Run:
    """One running command: the handles by which it is watched and ended."""

    def __init__(
        self, process: subprocess.Popen[bytes], info: int, report: int, scope: CgroupScope | WatchedScope
    ) -> None:
        self.process, self.scope = process, scope
        self._info, self._report = info, report
        self.init = 0  # pid of the namespace's first process, as the host sees it
        self._pidfd = -1

    def find_init(self) -> None:
        """Read the first process's pid from bwrap; stays 0 when bwrap ended before it made one."""
        text = b""
        while b"}" not in text:
            if not select.select([self._info], [], [], 30.0)[0]:
                raise HarnessError("bwrap did not start its sandbox within 30 s; nothing was run")
            piece = os.read(self._info, 4096)
            if not piece:
                return
            text += piece
        self.init = msgspec.json.decode(text[: text.index(b"}") + 1])["child-pid"]
        with contextlib.suppress(ProcessLookupError):
            self._pidfd = os.pidfd_open(self.init)

    def terminate(self) -> None:
        """SIGTERM to the whole tree (its process 1, the launcher, is immune), then a grace for it to end."""
        for pid in [pid for pid, _ in bounds.tree(self.init)] if self.init else []:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_S)

    def sweep(self) -> None:
        """Kill the namespace and prove that it is empty: its first process ends only after all others are gone."""
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            if not select.select([self._pidfd], [], [], SWEEP_S)[0]:
                raise bounds.require_dead(SWEEP_S, f"the sandbox's process tree (first process {self.init})")
        try:
            self.process.wait(SWEEP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def ending(self) -> tuple[str, int] | None:
        """What the launcher reported, or None when it was killed before it could."""
        os.set_blocking(self._report, False)
        with contextlib.suppress(BlockingIOError):
            words = os.read(self._report, 64).decode().split()
            if len(words) == 2:
                return words[0], int(words[1])
        return None

    def close(self) -> None:
        for fd in (self._info, self._report, self._pidfd):
            if fd >= 0:
                os.close(fd)
        self.scope.close()


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
        return {"implementation": self.name, "version": version[-1], "limits": bounds.mechanism(), "user": mode}

    def own_namespace(self) -> bool:
        """Root only: whether a user namespace with a fresh /proc can be had (not in a chroot or a masked container)."""
        with self._lock:
            if self._userns is None:
                probe = [str(self.launch), "enter", "-u", "--", self.bwrap, *namespaces(True), "--cap-add", "ALL"]
                probe += ["--proc", "/proc", "--ro-bind", str(self.launch), LAUNCH, LAUNCH]
                done = subprocess.run(probe, capture_output=True, check=False)
                self._userns = b"usage: launch" in done.stderr
            return self._userns

    def enter(self, scope: CgroupScope | WatchedScope) -> list[str]:
        """The command's first words on the host: join the scope's cgroups, and as root an own user namespace."""
        words = [str(self.launch), "enter", *(["-u"] if self.root and self.own_namespace() else [])]
        for join in scope.joins:
            words += ["-c", str(join)]
        return [*words, "--"]

    def run(self, command: Command) -> Completed:
        """Run one command to its end. HarnessError when the sandbox can't be started or swept."""
        missing = [str(m.source) for m in command.mounts if not m.source.exists()]
        if missing:
            raise UsageError(f"cannot mount {missing[0]} into the sandbox: it does not exist; build or fetch it first")
        writable = [m.source for m in command.mounts if m.writable]
        with given_to_nobody(writable, self.root):
            result = self._run(command, writable)
        if command.trace is not None:
            strip_own_lines(command.trace)
        return result

    def _words(self, command: Command, scope: CgroupScope | WatchedScope, info: int, report: int) -> list[str]:
        limit = command.limits
        words = self.enter(scope)
        if command.trace is not None:
            words += strace_prefix(command.trace)
        words += [self.bwrap, *namespaces(self.root), "--cap-add", "ALL", "--json-status-fd", str(info)]
        words += ["--size", str(limit.disk_mb * MIB), "--perms", "1777", "--tmpfs", "/tmp"]
        words += ["--proc", "/proc", *devices()]
        for folder in _parents(command):
            words += ["--perms", "0755", "--dir", folder]
        for mount in command.mounts:
            words += ["--bind" if mount.writable else "--ro-bind", str(mount.source), mount.target]
        for target, path in command.symlinks:
            words += ["--symlink", target, path]
        words += ["--ro-bind", str(self.launch), LAUNCH, "--remount-ro", "/", "--chdir", command.cwd]
        for name, value in command.env.items():
            words += ["--setenv", name, value]
        watched = isinstance(scope, WatchedScope)
        numbers = [report, NOBODY if self.root else 0, max(1, round(limit.cpu_s)), limit.file_mb * MIB]
        numbers += [limit.processes if watched else 0, limit.memory_mb * MIB if watched else 0]
        return [*words, "--", LAUNCH, "run", LAUNCH, *map(str, numbers), "--", *command.argv]

    def _run(self, command: Command, writable: list[Path]) -> Completed:
        scope = open_scope(command.limits, spare_processes=8, spare_memory_mb=64)
        info_r, info_w = os.pipe()
        report_r, report_w = os.pipe()
        start = time.monotonic()
        try:
            with command.log.open("wb") as log:
                process = subprocess.Popen(
                    self._words(command, scope, info_w, report_w), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    pass_fds=(info_w, report_w), start_new_session=True, env={"PATH": os.defpath},
                )  # fmt: skip
        except OSError as e:
            for fd in (info_r, report_r):
                os.close(fd)
            scope.close()
            raise HarnessError(f"cannot start {command.argv[0]} in a sandbox: {e}") from e
        finally:
            os.close(info_w)
            os.close(report_w)
        run = _Run(process, info_r, report_r, scope)
        try:
            run.find_init()
            limit = self._watch(run, command.limits, writable, start)
            if limit:
                run.terminate()
        finally:
            run.sweep()
            ending, used = run.ending(), scope.usage(0)
            run.close()
        wall = time.monotonic() - start
        return _completed(command, process.returncode, limit, ending, used.oom, wall)

    def _watch(self, run: _Run, limit: Limits, writable: list[Path], start: float) -> str:
        """Wait for the end; return the name of the limit that was passed first, or ""."""
        deadline, pause, next_disk = start + limit.wall_s, 0.005, start
        disk_before = disk_used(writable)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return "wall"
            try:
                run.process.wait(min(pause, left))
                return ""
            except subprocess.TimeoutExpired:
                pause = min(pause * 2, 0.2)
            used = run.scope.usage(run.init)
            if used.cpu_s > limit.cpu_s:
                return "cpu"
            if isinstance(run.scope, WatchedScope) and used.memory > limit.memory_mb * MIB:
                return "memory"
            now = time.monotonic()
            if now >= next_disk:
                if disk_used(writable) - disk_before > limit.disk_mb * MIB:
                    return "disk"
                next_disk = now + max(0.5, 20 * (time.monotonic() - now))  # looking costs a twentieth at most

    def open_worker(self, spec: WorkerSpec) -> Worker:
        raise HarnessError("the worker is not part of this build of the sandbox")


def _parents(command: Command) -> list[str]:
    """Folders above the mounts and links: bwrap would make them for its own user only."""
    places = [m.target for m in command.mounts] + [path for _, path in command.symlinks]
    return sorted({str(folder) for place in places for folder in Path(place).parents} - {"/", "/dev", "/proc", "/tmp"})


def _completed(
    command: Command, returncode: int, limit: str, ending: tuple[str, int] | None, oom: int, wall: float
) -> Completed:
    if limit:
        return Completed("limit", 0, limit, wall)
    if ending is None:
        if oom:
            return Completed("limit", 0, "memory", wall)
        tail = command.log.read_bytes()[-500:].decode(errors="replace")
        raise HarnessError(f"the sandbox of {command.argv[0]} ended with {returncode} before its program did: {tail}")
    ended, code = ending
    if ended == "launch":
        return Completed("launch", code, os.strerror(code), wall)
    if oom and (ended, code) != ("exit", 0):
        return Completed("limit", 0, "memory", wall)
    if (ended, code) == ("signal", signal.SIGXCPU):
        return Completed("limit", 0, "cpu", wall)
    return Completed(ended, code, "", wall)


def strip_own_lines(trace: Path) -> None:
    """Take bwrap's and the launcher's lines out of `trace`. They live to the end, so their pids are not used again."""
    own: set[bytes] = set()
    temp = trace.with_name(trace.name + ".raw")
    trace.replace(temp)
    with temp.open("rb") as raw, trace.open("wb") as out:
        started = False
        for line in raw:
            pid = line.split(b" ", 1)[0]
            if not started:
                own.add(pid)
                started = f' execve("{LAUNCH}", '.encode() in line and line.rstrip().endswith(b"= 0")
            elif pid not in own:
                out.write(line)
    temp.unlink()
