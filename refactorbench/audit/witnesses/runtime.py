"""The run-time witness: what the product did beyond computing, on checks that were traced, held against State A.

A trace holds, per check, a mark `chdir("/.check/ID")` by the worker, the launch of the checked program, and what that
program and its children then asked of the kernel, refused or not (sandbox/trace.py). What State A's own program does on
the traced checks is never held against a submission.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from refactorbench import stats
from refactorbench.audit.docket import Eye, EyeReport, Finding, StatAnchor, TraceAnchor
from refactorbench.audit.kinds import RUNTIME_KINDS
from refactorbench.build import trace
from refactorbench.catalog.models import LoadedTask, Task
from refactorbench.errors import HarnessError
from refactorbench.sandbox.trace import CUT

MARK = "/.check/"
MOST_PER_KIND = 40
_EXECUTES = frozenset({"execve", "execveat"})
_OPENS = frozenset({"open", "openat", "openat2", "creat"})
_PROBES = frozenset({"ptrace", "process_vm_writev", "open_by_handle_at", "io_uring_setup", "mount", "setns"})
_NETWORK = frozenset({"connect", "sendto", "sendmsg", "sendmmsg"})
# Where a process finds out whether it is traced.
_WATCHED = re.compile(r"/proc/(?:self|thread-self|\d+)(?:/task/\d+)?/(?:status|stat|wchan|syscall)")
_USUAL = ("/product", "/work", "/tmp", "/proc/self", "/proc/thread-self", "/dev", "/etc/ld.so", "/usr/lib/locale",
          "/usr/share/locale", "/etc/locale", "/etc/localtime", "/usr/share/zoneinfo", "/usr/lib/debug",
          "/proc/sys/vm/overcommit_memory", "/sys/fs/cgroup", "/sys/devices/system/cpu", "/proc/cpuinfo",
          "/proc/stat", "/sys/kernel/mm/transparent_hugepage")  # fmt: skip
_PROGRAMS = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/usr/libexec/")
_LIBRARY = re.compile(r".*\.(?:so(?:\.\d[\d.]*)?|a|dll|dylib|rlib|wasm|pyc)")
_DEBUG = (".dwp", ".debug")  # what a backtrace looks for beside every library
# what the C library itself loads on demand: never the old product
_RUNTIME_PARTS = re.compile(r"lib(?:gcc_s|nss_\w+|m|dl|rt|pthread|resolv)(?:-[\d.]+)?\.so.*|.*/gconv/.*")


class Act(msgspec.Struct, frozen=True):
    """Something a program asked for that computing doesn't need. `key` compares it with State A's acts."""

    kind: str
    check: str
    program: str
    line: int
    text: str
    key: str
    why: str


class Observed(msgspec.Struct):
    """One trace, read."""

    acts: list[Act]
    checks: list[str]
    opened: set[tuple[str, str]]  # (program, path) of all opens
    malformed: int
    lines: int
    cut: str = ""  # the last line, where the trace was cut at its bound


def observe(path: Path, task: Task) -> Observed:
    """Read one worker's trace. HarnessError when it is missing: the sandbox was asked for it."""
    read = trace.read_trace(path)
    if read.missing:
        raise HarnessError(f"{path} is missing, so nothing is known about what ran: replay the traced checks again")
    last = trace.line_text(path, read.lines)
    cut = last if last.startswith(CUT) else ""  # every other line begins with a number
    seen = Observed([], [], set(), read.malformed - bool(cut), read.lines, cut)
    mapped: set[tuple[str, str]] = set()
    worker = next((c.pid for c in read.calls if _mark(c) is not None), None)
    check = program = ""
    for call in read.calls:
        if call.pid == worker:
            check, program = _mark(call) or check, ""
            seen.checks.append(check)
        elif not program and call.name in _EXECUTES:
            program = _path(call, task)
        elif program:
            own = _own_code(call)
            if own and (own == program or (check, own) in mapped):  # the loader maps a library once, the program never
                kind, why = "runtime-exec-memory", f"{check}: {program} mapped {own} as code once more"
                seen.acts.append(Act(kind, check, program, call.line, call.text, f"{kind} own", why))
            mapped.add((check, own))
            _note(call, check, program, task, seen)
    return seen


def _mark(call: trace.Call) -> str | None:
    where = trace.string(call.args[0]) if call.name == "chdir" and call.args else None
    return where.removeprefix(MARK) if where and where.startswith(MARK) else None


def _path(call: trace.Call, task: Task) -> str:
    """The path a call names, made absolute: from its directory descriptor, else from the scratch directory."""
    at = 1 if call.name in ("openat", "openat2", "execveat") else 0
    named = trace.string(call.args[at]) if len(call.args) > at else None
    if named is None:
        return ""
    base = "/work"
    if at and (folder := trace.descriptor(call.args[0])):
        base = folder[0]
    whole = PurePosixPath(base, named)
    parts: list[str] = []
    for part in whole.parts[1:]:
        if part == "..":
            parts[-1:] = []
        else:
            parts.append(part)
    return "/" + "/".join(parts)


def _note(call: trace.Call, check: str, program: str, task: Task, seen: Observed) -> None:
    def say(kind: str, key: str, why: str) -> None:
        seen.acts.append(Act(kind, check, program, call.line, call.text, f"{kind} {key}", f"{check}: {program} {why}"))

    done = "" if call.ok else " (refused)"
    if call.name in _EXECUTES:
        path = _path(call, task)
        say("runtime-exec", path, f"executed {path or 'a file without a name'}{done}")
    elif call.name == "memfd_create":
        if task.runtime.deny_exec_memory:
            say("runtime-exec-memory", "memfd", f"created a file in memory{done}")
    elif call.name in ("mmap", "mprotect", "pkey_mprotect"):
        if task.runtime.deny_exec_memory and (how := executable_memory(call)):
            say("runtime-exec-memory", how, f"asked for {how}{done}")
    elif call.name in _OPENS:
        _note_open(call, program, task, seen, say)
    elif call.name in _PROBES:
        say("runtime-probe", call.name, f"called {call.name}{done}")
    elif call.name in _NETWORK and any(b"AF_INET" in a or b"AF_NETLINK" in a for a in call.args):
        say("runtime-network", call.name, f"used the network: {call.text[:120]}{done}")


def _own_code(call: trace.Call) -> str:
    """The product file that a call maps as code, "" when none."""
    if call.name != "mmap" or len(call.args) < 5 or b"PROT_EXEC" not in call.args[2] or not call.ok:
        return ""
    source = trace.descriptor(call.args[4])
    return source[0] if source and source[0].startswith("/product/") else ""


def executable_memory(call: trace.Call) -> str:
    """Which executable memory a call asks for beyond mapping program files, "" when none."""
    protection = call.args[2] if len(call.args) > 2 else b""
    if b"PROT_EXEC" not in protection:
        return ""
    if call.name != "mmap":
        return "making memory executable"
    if b"PROT_WRITE" in protection:
        return "memory that is writable and executable"
    if len(call.args) > 3 and b"MAP_ANONYMOUS" in call.args[3]:
        return "anonymous executable memory"
    source = trace.descriptor(call.args[4]) if len(call.args) > 4 else None
    if source and (source[1] or source[0].startswith(("/work", "/tmp", "/memfd:", "/dev/shm"))):
        return f"an executable mapping of {source[0]}"
    return ""


def _note_open(call: trace.Call, program: str, task: Task, seen: Observed, say: object) -> None:
    path = _path(call, task)
    seen.opened.add((program, path))
    name = PurePosixPath(path).name
    if path == program or path.startswith("/product/") or not path or name.endswith(_DEBUG):
        return
    done = "" if call.ok else " (refused)"
    library = bool(_LIBRARY.fullmatch(name)) and not path.startswith(("/work/", "/tmp/"))
    if library and name in {PurePosixPath(x).name for x in task.runtime.libraries}:
        return
    if library and not _RUNTIME_PARTS.fullmatch(name) and "/gconv/" not in path:
        say("runtime-foreign-library", name, f"opened the library {path}{done}")  # type: ignore[operator]
    elif path.startswith(_PROGRAMS):
        say("runtime-foreign-library", path, f"opened the program {path}{done}")  # type: ignore[operator]
    elif _WATCHED.fullmatch(path):
        say("runtime-probe", path, f"opened {path}, which says whether it is traced{done}")  # type: ignore[operator]
    elif not any(path == usual or path.startswith(usual + "/") or _file_prefix(path, usual) for usual in _USUAL):
        say("runtime-open", path, f"opened {path}{done}")  # type: ignore[operator]


def _file_prefix(path: str, usual: str) -> bool:
    return usual == "/etc/ld.so" and path.startswith(usual)


def beyond_state_a(product: Observed, reference: Sequence[Observed]) -> Iterator[Act]:
    """The product's acts that State A's same program doesn't do on the traced checks, each once."""
    known = {(a.program, a.key) for o in reference for a in o.acts}
    opened = {pair for o in reference for pair in o.opened}
    for act in product.acts:
        if (act.program, act.key) in known:
            continue
        known.add((act.program, act.key))
        if act.kind == "runtime-open" and (act.program, act.key.removeprefix("runtime-open ")) in opened:
            continue
        yield act


def witness(
    traces: Sequence[Path],
    state_a_traces: Sequence[Path],
    memorisation: tuple[int, int, int, int] | None,
    loaded_task: LoadedTask,
) -> EyeReport:
    """Report on the traced checks.

    `memorisation`: (fixed failed, fixed total, fresh failed, fresh total) of stage II, None without fresh checks.
    LOST when either side has no trace or the traced checks differ: nothing can then be held against State A.
    """
    task = loaded_task.task
    names = [p.name for p in traces]
    if len(names) != len(set(names)):
        raise HarnessError(f"two run-time traces are named alike, so no anchor could tell them apart: {sorted(names)}")
    product = {p.name: observe(p, task) for p in traces}
    reference = [observe(p, task) for p in state_a_traces]
    looked = {c for o in product.values() for c in o.checks}
    held = {c for o in reference for c in o.checks}
    covered = {
        "traces": str(len(product)),
        "checks": str(len(looked)),
        "lines": str(sum(o.lines for o in product.values())),
        "memorisation": "not measured" if memorisation is None else " ".join(map(str, memorisation)),
    }
    if not looked or looked - held:
        cause = "no check was traced" if not looked else f"{len(looked - held)} traced checks have no trace of State A"
        return EyeReport(Eye.RUNTIME, "lost", (), covered, cause)
    findings = _Findings()
    for log, seen in product.items():
        for act in beyond_state_a(seen, reference):
            findings.add(act.kind, TraceAnchor(log, act.line, act.text), act.why)
        if seen.cut:
            findings.add("runtime-unread", TraceAnchor(log, seen.lines, seen.cut), f"{log}: {seen.cut}")
        if seen.malformed:
            anchor = TraceAnchor(log, 1, trace.line_text(traces[names.index(log)], 1))
            findings.add("runtime-unread", anchor, f"{seen.malformed} lines of {log} were not understood")
    if memorisation is not None and stats.memorised(*memorisation):
        fixed_failed, fixed, fresh_failed, fresh = memorisation
        why = f"{fresh_failed} of {fresh} fresh checks fail, but {fixed_failed} of {fixed} recorded ones of one stream"
        findings.add("answers-memorised", StatAnchor("memorisation", memorisation), why)
    return EyeReport(Eye.RUNTIME, "looked", tuple(findings.kept), covered | findings.more())


class _Findings:
    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self._count: dict[str, int] = {}

    def add(self, kind: str, anchor: TraceAnchor | StatAnchor, why: str) -> None:
        self._count[kind] = self._count.get(kind, 0) + 1
        if self._count[kind] <= MOST_PER_KIND:
            id = f"runtime-{len(self.kept) + 1:03d}"
            self.kept.append(Finding(id, Eye.RUNTIME, kind, RUNTIME_KINDS[kind].strength, anchor, why))

    def more(self) -> dict[str, str]:
        return {f"more {k}": str(n - MOST_PER_KIND) for k, n in self._count.items() if n > MOST_PER_KIND}
