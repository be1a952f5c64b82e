"""How memory, processes and CPU of a sandbox are bounded: cgroup v2 where delegated, v1 as root, else a watcher.

A *scope* belongs to one sandbox. Its cgroups hold the whole process tree, tmpfs pages included, so their memory bound
is memory + disk. Without cgroups the bounds are rlimits per process, and the tree's sums are watched from outside.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from refactorbench.sandbox.protocol import Limits

MIB = 1 << 20
_LABEL = "refactorbench"
FOREIGN_AGE_S = 3600
_counter = itertools.count()


class Usage(msgspec.Struct, frozen=True):
    """`memory` in bytes now, `cpu_s` since the start, `oom` kills so far."""

    memory: int
    cpu_s: float
    oom: int


class Scope(Protocol):
    name: str
    joins: tuple[Path, ...]  # files that a process writes "0" to in order to enter

    def usage(self, init: int) -> Usage:
        """What the tree below process `init` uses."""
        ...

    def close(self) -> None:
        """Remove what was made; the tree must be dead."""
        ...


def tree(init: int) -> Iterator[tuple[int, list[str]]]:
    """Yield (pid, fields of /proc/PID/stat after the name) of `init` and all its descendants."""
    stats: dict[int, list[str]] = {}
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names only
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as f:  # noqa: PTH123
                fields = f.read().rpartition(")")[2].split()
                stats[int(name)] = fields
                children.setdefault(int(fields[1]), []).append(int(name))
    todo = [init]
    while todo:
        pid = todo.pop()
        if pid in stats:
            yield pid, stats[pid]
        todo.extend(children.get(pid, ()))


class WatchedScope:
    """No cgroups: sums over the process tree. CPU of children that were reaped counts through their parents."""

    name = "rlimits"
    joins: tuple[Path, ...] = ()
    _tick = os.sysconf("SC_CLK_TCK")
    _page = os.sysconf("SC_PAGE_SIZE")

    def __init__(self) -> None:
        self._cpu = 0.0

    def usage(self, init: int) -> Usage:
        memory, ticks = 0, 0
        for _, fields in tree(init):
            memory += int(fields[21]) * self._page
            ticks += sum(int(fields[i]) for i in (11, 12, 13, 14))
        self._cpu = max(self._cpu, ticks / self._tick)
        return Usage(memory, self._cpu, 0)

    def close(self) -> None:
        pass


class CgroupScope:
    """Version 1 (one folder per controller) or 2 (one folder); made on construction, OSError when that is refused."""

    def __init__(self, version: int, homes: dict[str, Path], memory: int, processes: int) -> None:
        self.name = f"cgroup v{version}"
        self._v2 = version == 2
        leaf = f"{_LABEL}-{pid_namespace()}-{os.getpid()}-{next(_counter)}"
        self._dirs = {controller: home / leaf for controller, home in homes.items()}
        try:
            for folder in dict.fromkeys(self._dirs.values()):
                folder.mkdir()
            if self._v2:
                self._put("memory", "memory.max", memory)
                self._put("memory", "memory.swap.max", 0, optional=True)
            else:
                self._put("memory", "memory.limit_in_bytes", memory)
                self._put("memory", "memory.memsw.limit_in_bytes", memory, optional=True)
            self._put("pids", "pids.max", processes)
        except OSError:
            self.close()
            raise
        self.joins = tuple(folder / "cgroup.procs" for folder in dict.fromkeys(self._dirs.values()))

    def _put(self, controller: str, file: str, value: int, optional: bool = False) -> None:
        path = self._dirs[controller] / file
        if not optional or path.exists():
            path.write_text(str(value))

    def _get(self, controller: str, file: str, key: str = "") -> int:
        try:
            text = (self._dirs[controller] / file).read_text()
        except (KeyError, OSError):
            return 0
        if not key:
            return int(text)
        pairs = (line.split() for line in text.splitlines())
        return next((int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] == key), 0)

    def usage(self, init: int) -> Usage:
        if self._v2:
            memory, cpu = self._get("memory", "memory.current"), self._get("memory", "cpu.stat", "usage_usec") / 1e6
            return Usage(memory, cpu, self._get("memory", "memory.events", "oom_kill"))
        cpu = self._get("cpuacct", "cpuacct.usage") / 1e9
        oom = self._get("memory", "memory.oom_control", "oom_kill")
        return Usage(self._get("memory", "memory.usage_in_bytes"), cpu, oom)

    def close(self) -> None:
        for folder in dict.fromkeys(self._dirs.values()):
            for _ in range(100):
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.01)  # a task that has just died leaves its cgroup a moment later
                else:
                    break


def _own() -> dict[str, str]:
    """Controller (or "" for v2) -> path of this process's cgroup."""
    found: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _mounts() -> dict[str, Path]:
    """Controller (or "" for v2) -> mount point."""
    found: dict[str, Path] = {}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, options, *_ = line.split()
        if kind == "cgroup2":
            found.setdefault("", Path(point))
        elif kind == "cgroup":
            for option in options.split(","):
                found.setdefault(option, Path(point))
    return found


def _homes() -> Iterator[tuple[int, dict[str, Path]]]:
    """Candidate parents of new cgroups, best first: v2 beside or below this process's own, then v1 below it."""
    own, mounts = _own(), _mounts()
    if "" in mounts and "" in own:
        here = mounts[""] / own[""].lstrip("/")
        for home in (here.parent, here) if here != mounts[""] else (here,):
            with contextlib.suppress(OSError):
                if {"memory", "pids"} <= set((home / "cgroup.subtree_control").read_text().split()):
                    yield 2, {"memory": home, "pids": home}
    if {"memory", "pids"} <= mounts.keys():
        for below in (own, {}):
            names = [str(c) for c in ("memory", "pids", "cpuacct") if c in mounts]
            homes = {c: mounts[c] / below.get(c, "/").lstrip("/") for c in names}
            if all(home.is_dir() for home in homes.values()):
                yield 1, homes


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def pid_namespace() -> int:
    """A number for the pid namespace: process ids mean something within it only."""
    return Path("/proc/self/ns/pid").stat().st_ino


def sweep(homes: dict[str, Path]) -> None:
    """Remove cgroups of harness processes that are gone (killed before they could).

    Those of another pid namespace (a container beside this one) are removed only when they have long been empty:
    whether their owner lives can't be seen from here.
    """
    own = str(pid_namespace())
    for home in homes.values():
        for left in home.glob(f"{_LABEL}-*-*-*"):
            space, owner = left.name.split("-")[1:3]
            with contextlib.suppress(OSError, ValueError):
                if space != own:
                    if time.time() - left.stat().st_mtime > FOREIGN_AGE_S:
                        left.rmdir()  # refused while anything runs in it
                elif not _alive(int(owner)):
                    for pid in (left / "cgroup.procs").read_text().split():
                        os.kill(int(pid), 9)
                    left.rmdir()


def open_scope(limits: Limits, spare_processes: int = 0, spare_memory_mb: int = 0) -> CgroupScope | WatchedScope:
    """The best scope that this machine allows; the spares are for the harness's own processes inside it."""
    memory = (limits.memory_mb + limits.disk_mb + spare_memory_mb) * MIB
    for version, homes in _homes():
        try:
            sweep(homes)
            return CgroupScope(version, homes, memory, limits.processes + spare_processes)
        except OSError:
            continue
    return WatchedScope()


def mechanism() -> str:
    """`cgroup v2`, `cgroup v1` or `rlimits`: what a new sandbox would get."""
    scope = open_scope(Limits())
    try:
        return scope.name
    finally:
        scope.close()
