"""Replay a trace: which image ran where, and which run of an image read, wrote, loaded and removed which file.

Files are nodes, so that renames and hard links keep their history; a path in a descriptor's annotation is the kernel's
own answer and outranks what can be derived from arguments.
"""

from __future__ import annotations

import posixpath
import re
from typing import Literal

import msgspec

from refactorbench.build.family import FORKS, Family
from refactorbench.build.model import ExecFact
from refactorbench.build.places import TREE, Places
from refactorbench.build.trace import Call, Trace, descriptor, string, strings

Role = Literal["compiler", "linker", "transform", "driver", "tool", "harness", "foreign"]
PREFIX = re.compile(r"^(?:[a-z0-9_]+-(?:pc-)?linux-gnu[a-z0-9]*-|rust-|llvm-)?(.*?)(?:-\d+(?:\.\d+)*)?$")
ROLES: dict[str, Role] = {
    **dict.fromkeys(("rustc",), "compiler"),
    **dict.fromkeys(("ld", "ld.bfd", "ld.gold", "gold", "ld.lld", "lld", "collect2", "mold"), "linker"),
    **dict.fromkeys(("strip", "objcopy", "ar", "ranlib"), "transform"),
    **dict.fromkeys(("gcc", "cc", "lto-wrapper"), "driver"),
}
EVASIVE = {"process_vm_writev", "pidfd_getfd", "userfaultfd", "io_uring_setup", "mount", "setns", "open_by_handle_at"}
ANSWERED_ELSEWHERE = re.compile(r"/(?:proc|dev|sys)(?:/|$)")
OTHER_MEMORY = re.compile(r"/proc/\d+(?:/task/\d+)?/mem")


class Node:
    """One file. `initial` is where it lay before the build, "" when the build made it; `fresh` writers began anew."""

    __slots__ = ("initial", "writers")

    def __init__(self, initial: str) -> None:
        self.initial = initial
        self.writers: list[Write] = []


class Access(msgspec.Struct, frozen=True):
    line: int
    node: Node
    path: str


class Run:
    """One image from its execve to its end, threads and plain forks included."""

    __slots__ = ("argv", "image", "line", "loads", "reads", "role", "sha256", "writes")

    def __init__(self, line: int, image: str, argv: tuple[str, ...], role: Role, sha256: str) -> None:
        self.line, self.image, self.argv, self.role, self.sha256 = line, image, argv, role, sha256
        self.reads: list[Access] = []
        self.writes: list[Access] = []
        self.loads: list[Access] = []


class Write(msgspec.Struct, frozen=True):
    line: int
    run: Run
    path: str
    fresh: bool


class Started(msgspec.Struct, frozen=True):
    """An execve that succeeded: `node` is the image's file where it lies outside the toolchain."""

    fact: ExecFact
    node: Node | None


class _Task:
    """A process or thread: its run and its working directory (shared between threads).

    It has several runs where the trace can't tell which program it is a thread of: what it does counts for each.
    """

    __slots__ = ("cwd", "runs")

    def __init__(self, runs: list[Run], cwd: list[str]) -> None:
        self.runs, self.cwd = runs, cwd


class World:
    """State after the whole trace. `compiler` is the inside path of the target compiler proper."""

    def __init__(self, places: Places, compilers: frozenset[str]) -> None:
        self.places, self._compilers = places, compilers
        self.files: dict[str, Node] = {}
        self.runs: list[Run] = []
        self.execs: list[ExecFact] = []
        self.started: list[Started] = []
        self.network: list[tuple[int, str]] = []
        self.evasions: list[tuple[int, str]] = []
        self._tasks: dict[int, _Task] = {}
        self._family: Family[_Task] = Family(())

    def replay(self, trace: Trace) -> None:
        self._family = Family(trace.calls)
        for call in trace.calls:
            task = self._tasks.get(call.pid) or self._met(call)
            first = descriptor(call.args[0]) if call.args else None
            if first and call.args[0].startswith(b"AT_FDCWD"):
                task.cwd[0] = first[0]
            handler = HANDLERS.get(call.name)
            if handler is not None:
                handler(self, call, task)

    def _met(self, call: Call) -> _Task:
        """A process that no clone has named: the first one, or one whose clone lacks its pid."""
        parents = self._family.parents(call.pid)
        runs = list(dict.fromkeys(run for parent in parents for run in parent.runs))
        cwd = list(parents[0].cwd) if parents else [TREE]
        task = self._tasks[call.pid] = _Task(runs or [self._start(call.line, "", (), "tool", "")], cwd)
        return task

    def _start(self, line: int, image: str, argv: tuple[str, ...], role: Role, sha256: str) -> Run:
        run = Run(line, image, argv, role, sha256)
        self.runs.append(run)
        return run

    def node(self, path: str) -> Node:
        """The file at `path` now; one that nothing has touched yet counts as having been there."""
        found = self.files.get(path)
        if found is None:
            found = self.files[path] = Node(path)
        return found

    def role(self, image: str) -> Role:
        zone = self.places.zone(image)
        if zone == "harness":
            return "harness"
        if zone != "toolchain":
            return "foreign"
        if image in self._compilers:
            return "compiler"
        match = PREFIX.match(posixpath.basename(image))
        role = ROLES.get(match[1] if match else "", "tool")
        return "tool" if role == "compiler" else role

    def _at(self, task: _Task, call: Call, index: int, *, by_descriptor: bool) -> str | None:
        """The path argument at `index`, relative to the descriptor argument before it where there is one."""
        if index >= len(call.args):
            return None
        path = string(call.args[index])
        base = task.cwd[0]
        if by_descriptor:
            place = descriptor(call.args[index - 1])
            if place is not None:
                base = place[0]
                if path == "":
                    return base
        return None if path is None else posixpath.join(base, path)

    def _name(self, path: str) -> str:
        """Canonical name of a directory entry: its folder's links are followed, its own are not."""
        folder, entry = posixpath.split(path.rstrip("/"))
        return posixpath.join(self.places.resolve(folder, "/"), entry)

    # --- the calls

    def _opened(self, call: Call, task: _Task) -> None:
        by_descriptor = call.name in ("openat", "openat2")
        flags = call.args[1 + by_descriptor] if len(call.args) > 1 + by_descriptor else b""
        if call.name == "creat":
            flags = b"O_WRONLY|O_CREAT|O_TRUNC"
        writes = b"O_WRONLY" in flags or b"O_RDWR" in flags
        asked = self._at(task, call, int(by_descriptor), by_descriptor=by_descriptor) or ""
        if writes and OTHER_MEMORY.fullmatch(call.result_path or posixpath.normpath(asked)):
            self.evasions.append((call.line, call.text))
        path = call.result_path
        if not call.ok or not path or (b"O_DIRECTORY" in flags and b"O_TMPFILE" not in flags) or b"O_PATH" in flags:
            return
        if ANSWERED_ELSEWHERE.match(path):
            return
        if call.deleted:  # a file without a name: its own node, known by the kernel's label
            path += " (deleted)"
        elif not path.startswith("/"):
            return  # a pipe or socket opened again through /proc
        fresh = b"O_TRUNC" in flags or b"O_EXCL" in flags or b"O_TMPFILE" in flags
        known = path in self.files or path in self.places.initial or self.places.zone(path) != "tree"
        node = self.node(path)
        if not known and b"O_CREAT" in flags and not node.writers:
            node.initial, fresh = "", True
        for run in task.runs:
            if writes:
                node.writers.append(Write(call.line, run, path, fresh))
                run.writes.append(Access(call.line, node, path))
            if not writes or (b"O_RDWR" in flags and not fresh):
                run.reads.append(Access(call.line, node, path))

    def _memfd(self, call: Call, task: _Task) -> None:
        if call.ok:
            node = self.files[call.result_path + " (deleted)"] = Node("")
            node.writers += [Write(call.line, run, call.result_path, True) for run in task.runs]

    def _renamed(self, call: Call, task: _Task) -> None:
        at = call.name != "rename"
        old = self._at(task, call, int(at), by_descriptor=at)
        new = self._at(task, call, 3 if at else 1, by_descriptor=at)
        if not call.ok or old is None or new is None:
            return
        source, target = self._name(old), self._name(new)
        if call.name == "renameat2" and b"RENAME_EXCHANGE" in call.args[-1]:
            self.files[source], self.files[target] = self.node(target), self.node(source)
            return
        if source not in self.files:
            moved = [p for p in self.files if p.startswith(source + "/")]
            if moved or not self._was_file(source):
                for path in moved:
                    self.files[target + path[len(source) :]] = self.files.pop(path)
                return
        self.files[target] = self.node(source)
        self.files.pop(source, None)

    def _was_file(self, path: str) -> bool:
        was = self.places.was(path)
        return was is not None and was.is_file()

    def _linked(self, call: Call, task: _Task) -> None:
        at = call.name == "linkat"
        old = self._at(task, call, int(at), by_descriptor=at)
        new = self._at(task, call, 3 if at else 1, by_descriptor=at)
        if not call.ok or new is None:
            return
        target = self._name(new)
        source = "" if old is None else self._name(old)
        if not source or ANSWERED_ELSEWHERE.match(source) or (source not in self.files and not self._was_file(source)):
            # A name for something that was never opened by one (O_TMPFILE, /proc/self/fd): its giver answers for it.
            node = self.files[target] = Node("")
            node.writers += [Write(call.line, run, target, True) for run in task.runs]
            return
        self.files[target] = self.node(source)

    def _unlinked(self, call: Call, task: _Task) -> None:
        at = call.name == "unlinkat"
        path = self._at(task, call, int(at), by_descriptor=at)
        if call.ok and path is not None:
            self.files.pop(self._name(path), None)

    def _symlinked(self, call: Call, task: _Task) -> None:
        at = call.name == "symlinkat"
        target = string(call.args[0]) if call.args else None
        path = self._at(task, call, 2 if at else 1, by_descriptor=at)
        if call.ok and target is not None and path is not None:
            self.places.links[self._name(path)] = target

    def _truncated(self, call: Call, task: _Task) -> None:
        path = self._at(task, call, 0, by_descriptor=False)
        if call.ok and path is not None:
            name = self.places.resolve(path, "/")
            self.node(name).writers.extend(Write(call.line, run, name, False) for run in task.runs)

    def _moved_to(self, call: Call, task: _Task) -> None:
        if not call.ok or not call.args:
            return
        if call.name == "fchdir":
            place = descriptor(call.args[0])
            task.cwd[0] = place[0] if place else task.cwd[0]
        else:
            path = string(call.args[0])
            task.cwd[0] = self.places.resolve(path, task.cwd[0]) if path else task.cwd[0]

    def _cloned(self, call: Call, task: _Task) -> None:
        text = b" ".join(call.args)
        if b"CLONE_NEWUSER" in text or b"CLONE_NEWNS" in text:
            self.evasions.append((call.line, call.text))
        child = _Task(list(task.runs), task.cwd if b"CLONE_FS" in text else list(task.cwd))
        pid = self._family.cloned(call, child)
        if pid:
            self._tasks[pid] = child

    def _executed(self, call: Call, task: _Task) -> None:
        at = call.name == "execveat"
        path = self._at(task, call, int(at), by_descriptor=at) or ""
        argv = strings(call.args[1 + at]) if len(call.args) > 1 + at else ()
        nameless = at and bool(call.args) and (descriptor(call.args[0]) or ("", False))[1]
        image = f"{path} (deleted)" if nameless else self.places.resolve(path, task.cwd[0])
        zone = self.places.zone(image)
        node = self.files.get(image) if zone not in ("toolchain", "harness") else None
        if node is None and zone == "tree" and self._was_file(image):
            node = self.node(image)
        host = self.places.host(image)
        sha256 = self.places.digest(self.places.was(node.initial) if node and not node.writers else host)
        tripwire = image in self.places.guarded
        self.execs.append(fact := ExecFact(call.line, image, argv, call.ok, sha256, tripwire))
        if call.ok:
            self.started.append(Started(fact, node))
            task.runs = [self._start(call.line, image, argv, self.role(image), sha256)]

    def _mapped(self, call: Call, task: _Task) -> None:
        if len(call.args) < 5 or b"PROT_EXEC" not in call.args[2] or not call.ok:
            return
        place = descriptor(call.args[4])
        if place is None:
            return
        path = place[0] + (" (deleted)" if place[1] else "")
        for run in task.runs:
            if path != run.image:
                run.loads.append(Access(call.line, self.node(path), path))

    def _sent(self, call: Call, task: _Task) -> None:
        if re.search(r"sa_family=AF_(?!UNIX|UNSPEC|NETLINK)", call.text):
            self.network.append((call.line, call.text))

    def _evaded(self, call: Call, task: _Task) -> None:
        text = b" ".join(call.args)
        if call.name == "ptrace" and not re.search(rb"PTRACE_(ATTACH|SEIZE|POKE)", text):
            return
        if call.name == "unshare" and not re.search(rb"CLONE_NEW(USER|NS)", text):
            return
        self.evasions.append((call.line, call.text))


HANDLERS = {
    **dict.fromkeys(("open", "openat", "openat2", "creat"), World._opened),
    "memfd_create": World._memfd,
    **dict.fromkeys(("rename", "renameat", "renameat2"), World._renamed),
    **dict.fromkeys(("link", "linkat"), World._linked),
    **dict.fromkeys(("unlink", "unlinkat"), World._unlinked),
    **dict.fromkeys(("symlink", "symlinkat"), World._symlinked),
    "truncate": World._truncated,
    **dict.fromkeys(("chdir", "fchdir"), World._moved_to),
    **dict.fromkeys(FORKS, World._cloned),
    **dict.fromkeys(("execve", "execveat"), World._executed),
    "mmap": World._mapped,
    **dict.fromkeys(("connect", "sendto", "sendmsg", "sendmmsg"), World._sent),
    **dict.fromkeys((*EVASIVE, "ptrace", "unshare"), World._evaded),
}
