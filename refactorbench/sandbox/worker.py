"""The host's half of a worker: one sandbox over one product tree, requests and answers through two pipes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from refactorbench.errors import HarnessError, UsageError
from refactorbench.observe.model import Check, Observation
from refactorbench.observe.wire import RESPONSE_MAX, RESPONSE_SIZE, decode_response, encode_request
from refactorbench.observe.worker_build import WORKER_SOURCE, static_program
from refactorbench.sandbox.limits import MIB, WatchedScope, open_scope, tree
from refactorbench.sandbox.ownership import NOBODY
from refactorbench.sandbox.process import SandboxProcess, readable
from refactorbench.sandbox.protocol import WorkerSpec
from refactorbench.sandbox.trace import RUN_BYTES, TraceFull, strip_worker

if TYPE_CHECKING:
    from refactorbench.sandbox.bubblewrap import BubblewrapSandbox

BASE_ENV = {b"PATH": b"/product/bin", b"LC_ALL": b"C", b"TZ": b"UTC", b"HOME": b"/work"}
CAPABILITIES = ("SYS_ADMIN", "SETUID", "SETGID", "SETPCAP", "DAC_OVERRIDE", "KILL")
DEVICES = ("null", "zero", "full", "random", "urandom")
WORKER = "/worker"  # outside /r, the root that programs see
ANSWER_S = 60.0  # beyond the wall limit: reading the scratch, sending it
WATCH_S = 0.05
PIPE = 1 << 20
IN_FLIGHT = 4
DENY_MEMORY, LIMIT_PROCESSES, SHARED_MEMORY, MARK = 1, 2, 4, 8  # flags of worker.c
_PT_LOAD, _PT_STACK, _WX = 1, 0x6474E551, 3


def executable_memory(path: Path) -> bool:
    """Whether the kernel would give this ELF file writable executable memory (segment or stack) at its mere start."""
    with path.open("rb") as f:
        head = f.read(64)
        if head[:4] != b"\x7fELF" or len(head) < 64:
            return False
        if head[4] != 2:
            return True  # another word size: the filter could not tell what it calls
        (offset,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
        f.seek(offset)
        table = f.read(size * count)
    for at in range(0, len(table) - 7 if size >= 8 else 0, size or 1):
        kind, flags = struct.unpack_from("<II", table, at)
        if (kind == _PT_LOAD and flags & _WX == _WX) or (kind == _PT_STACK and flags & 1):
            return True
    return False


def _masked(product: Path) -> Iterator[Path]:
    """Product files that must not be started: the filter can't see what the kernel maps for them."""
    for path in sorted(product.rglob("*")):
        if path.is_file() and not path.is_symlink() and executable_memory(path):
            yield path.relative_to(product)


def worker_words(sandbox: BubblewrapSandbox, spec: WorkerSpec, cgroup: bool, words: list[str]) -> list[str]:
    """`words` (from BubblewrapSandbox.enter) completed: the root that programs see at /r, then the worker."""
    limit = spec.limits
    words = [*words, "--cap-drop", "ALL"]
    for name in CAPABILITIES:
        words += ["--cap-add", f"CAP_{name}"]
    words += ["--perms", "0755", "--tmpfs", "/r"]
    folders = {str(p) for library in spec.libraries for p in library.parents} | {"/dev"}
    for folder in sorted(folders - {"/"}):
        words += ["--perms", "0755", "--dir", "/r" + folder]
    for name in ("work", "tmp", "proc"):
        words += ["--dir", f"/r/{name}"]
    for name in DEVICES:
        words += ["--dev-bind", f"/dev/{name}", f"/r/dev/{name}"]
    words += ["--ro-bind", str(spec.product), "/r/product"]
    for library in spec.libraries:
        words += ["--ro-bind", str(library), f"/r{library}"]
    for path in _masked(spec.product) if spec.deny_exec_memory else ():
        words += ["--ro-bind", "/dev/null", f"/r/product/{path}"]
    words += ["--remount-ro", "/r", "--ro-bind", str(static_program(WORKER_SOURCE)), WORKER, "--remount-ro", "/"]
    own_ids = not sandbox.root or sandbox.own_namespace()
    flags = DENY_MEMORY * spec.deny_exec_memory + MARK * (spec.trace is not None)
    flags += SHARED_MEMORY * cgroup + LIMIT_PROCESSES * (own_ids or not cgroup)
    # as an ordinary user the worker and the check's first process count as that user's too
    processes = limit.processes + (0 if sandbox.root else 2)
    numbers = [round(limit.wall_s * 1000), max(1, round(limit.cpu_s)), limit.memory_mb * MIB, limit.file_mb * MIB]
    numbers += [processes, limit.disk_mb * MIB, limit.output_mb * MIB, flags]
    return [*words, "--", WORKER, str(NOBODY if sandbox.root else 0), *map(str, numbers)]


class BubblewrapWorker:
    """Observes checks one after another; `observe_many` keeps a few in flight. It ends with the thread that opened it.

    A check's bounds: memory_mb of private data for each process; of all together with scratch, a cgroup's bound or the
    watcher's. disk_mb for each of /work and /tmp. CPU per process, processes and wall for the whole.
    """

    def __init__(self, sandbox: BubblewrapSandbox, spec: WorkerSpec) -> None:
        self._spec = spec
        self._env = {**BASE_ENV, **dict(spec.env)}
        self._buffer = bytearray()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        for path in (spec.product, *spec.libraries):
            if not path.exists():
                raise UsageError(f"{path} does not exist, so no worker can be started over it: build it first")
        limit = spec.limits
        # the cgroup also holds both scratch file systems and the worker's buffers
        spare = limit.disk_mb + 4 * limit.output_mb + 128
        scope = open_scope(limit, spare_processes=8, spare_memory_mb=spare)
        self._watched = isinstance(scope, WatchedScope)
        request, self._to = os.pipe()
        self._from, response = os.pipe()
        try:
            words = worker_words(sandbox, spec, not self._watched, sandbox.enter(scope, spec.trace, refusals=True))
            self._process = SandboxProcess(words, scope, request, response, self._stderr)
        except BaseException:
            os.close(self._to)
            os.close(self._from)
            scope.close()
            raise
        finally:
            os.close(request)
            os.close(response)
        self._room = self._widen()
        self._oom = 0
        self._open = True

    def _widen(self) -> int:
        """Make both pipes as wide as allowed; return how many bytes of requests fit without anyone reading."""
        for fd in (self._to, self._from):
            with contextlib.suppress(OSError):
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE)
        return fcntl.fcntl(self._to, fcntl.F_GETPIPE_SZ) // 2  # a page can hold less than its size

    def observe(self, check: Check) -> Observation:
        """Run one check in fresh scratch. HarnessError when the sandbox fails, never for the submission; TraceFull when
        the trace has passed its bound."""
        self._send(encode_request(check, self._env))
        return self._receive(check)

    def observe_many(self, checks: Iterable[Check]) -> Iterator[Observation]:
        """Observations in the order of `checks`, reading ahead by as much as fits into the pipe."""
        flying: deque[tuple[Check, int]] = deque()
        load = 0
        try:
            for check in checks:
                request = encode_request(check, self._env)
                # never write what the worker might not be reading: both sides would wait for the other
                while flying and (load + len(request) > self._room or len(flying) == IN_FLIGHT):
                    load -= flying[0][1]
                    seen = self._receive(flying[0][0])
                    flying.popleft()
                    yield seen
                self._send(request)
                flying.append((check, len(request)))
                load += len(request)
            while flying:
                seen = self._receive(flying[0][0])
                flying.popleft()
                yield seen
        finally:
            if flying:  # left early: answers are still to come that nobody will take
                self.close()

    def interrupt(self) -> None:
        """From any thread: end the worker's processes, so that a running observation fails at once."""
        self._process.kill()

    def _send(self, request: bytes) -> None:
        if not self._open:
            raise HarnessError("this worker was closed: open another one")
        try:
            view = memoryview(request)
            while view:
                view = view[os.write(self._to, view) :]
        except OSError as e:
            raise self._broken("takes no more checks" if e.errno == errno.EPIPE else str(e)) from e

    def _receive(self, check: Check) -> Observation:
        deadline = time.monotonic() + self._spec.limits.wall_s + ANSWER_S
        killed = self._fill(RESPONSE_SIZE.size, deadline)
        (size,) = RESPONSE_SIZE.unpack_from(self._buffer)
        if size > RESPONSE_MAX:
            raise self._broken(f"announced an answer of {size} bytes")
        killed |= self._fill(RESPONSE_SIZE.size + size, deadline)
        end = RESPONSE_SIZE.size + size
        answer, self._buffer = self._buffer, self._buffer[end:]
        return self._memory(decode_response(memoryview(answer)[RESPONSE_SIZE.size : end], check.id), killed)

    def _fill(self, size: int, deadline: float) -> bool:
        """Read until `size` bytes are there; True when the check had to be killed for its memory meanwhile."""
        killed = False
        watched = self._watched or self._spec.trace is not None
        while len(self._buffer) < size:
            self._watch_trace()
            wait = WATCH_S if watched else max(0.0, deadline - time.monotonic())
            if not readable(self._from, wait):
                if time.monotonic() >= deadline:
                    raise self._broken(f"gave no answer within {self._spec.limits.wall_s + ANSWER_S:g} s")
                killed |= self._watched and self._watch_memory()
                continue
            piece = os.read(self._from, max(1 << 16, min(size - len(self._buffer), 1 << 24)))
            if not piece:
                raise self._broken("ended")
            self._buffer += piece
        return killed

    def _watch_trace(self) -> None:
        """What is done only to be written down must not fill the host's disk."""
        trace = self._spec.trace
        if trace is not None and trace.exists() and trace.stat().st_size > RUN_BYTES:
            self._cut = f"it had more than {RUN_BYTES >> 20} MiB"
            self.close()
            raise TraceFull(f"{trace.name} has more than {RUN_BYTES >> 20} MiB: what ran after that is not traced")

    def _watch_memory(self) -> bool:
        """Without a cgroup: end the check when what it started holds more memory than the limit."""
        members = list(tree(self._process.init))[1:]
        page = os.sysconf("SC_PAGE_SIZE")
        if sum(int(fields[21]) for _, fields in members) * page <= self._spec.limits.memory_mb * MIB:
            return False
        for pid, fields in members:
            if int(fields[1]) == self._process.init:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
        return True

    def _memory(self, seen: Observation, killed: bool) -> Observation:
        if (seen.ended, seen.code) != ("signal", 9):
            return seen
        oom = self._process.scope.usage(self._process.init).oom
        killed |= oom > self._oom
        self._oom = oom
        return msgspec.structs.replace(seen, ended="limit", code=0, limit="memory") if killed else seen

    def _broken(self, what: str) -> HarnessError:
        self.close()
        return HarnessError(f"a worker {what}: {self._last_words or 'it left no message'}; run its check again")

    _last_words = _cut = ""

    def close(self) -> None:
        """End the worker and all it started; what comes after is an error. Calling it twice does nothing."""
        if not self._open:
            return
        self._open = False
        os.close(self._to)
        try:
            self._process.end()
        finally:
            os.close(self._from)
            self._stderr.seek(0)
            self._last_words = self._stderr.read()[-500:].decode(errors="replace").strip()
            self._stderr.close()
            if self._spec.trace is not None and self._spec.trace.exists():
                strip_worker(self._spec.trace, self._cut)

    def __enter__(self) -> BubblewrapWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
