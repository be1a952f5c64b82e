"""strace around a sandbox, and taking the harness's own lines out of what it wrote.

A finished trace holds the program's lines only (`PID call(...) = result`, pids as the host sees them; a pid that the
kernel answered in the sandbox's numbering is followed by its translation). In a worker's trace a line

    PID chdir("/.check/ID") = -1 ENOENT (No such file or directory)

comes before the lines of check ID.
"""

from __future__ import annotations

from pathlib import Path

from refactorbench.errors import HarnessError
from refactorbench.sandbox.need import need

CALLS = (
    "execve,execveat,open,openat,openat2,creat,memfd_create,connect,sendto,rename,renameat,renameat2,link,linkat,symlink,"
    "symlinkat,mmap,mprotect,chdir,fchdir,clone,clone3,fork,vfork,unlink,unlinkat,truncate,ptrace,process_vm_writev,"
    "io_uring_setup,pidfd_getfd,process_madvise,userfaultfd,mount,unshare,setns,open_by_handle_at,sendmsg,sendmmsg"
)
MARK = b' chdir("/.check/'
RUN_BYTES = 32 << 20  # of a worker's trace: honest products leave a few KiB per check
CUT = "the trace was cut here: "  # the last line of a worker's trace that passed its bound


class TraceFull(HarnessError):
    """A worker's trace passed its bound: what ran until then is in it, and no further check is traced."""


def strace_words(trace: Path, refusals: bool) -> list[str]:
    """The tracer stays outside the sandbox; --seccomp-bpf lets calls that aren't traced run at full speed, but a call
    that the sandbox's own filter refuses is then never seen: with `refusals` the tracer does without."""
    options = ["-f", *([] if refusals else ["--seccomp-bpf"]), "-qq", "-y", "--decode-pids=pidns"]
    options += ["-e", f"trace={CALLS}", "-e", "signal=none"]
    return [need("strace", "strace"), *options, "-s", "4096", "-o", str(trace), "--"]


def _pid(line: bytes) -> bytes:
    return line.split(b" ", 1)[0]


def strip_command(trace: Path, launch: str) -> None:
    """Take out bwrap and the launcher. They live to the end, so their pids are not used again."""
    own: set[bytes] = set()
    started, image = False, f' execve("{launch}", '.encode()
    temp = trace.with_name(trace.name + ".raw")
    trace.replace(temp)
    with temp.open("rb") as raw, trace.open("wb") as out:
        for line in raw:
            pid = _pid(line)
            if not started:
                own.add(pid)
                started = image in line and line.rstrip().endswith(b"= 0")
            elif pid not in own:
                out.write(line)
    temp.unlink()


def strip_worker(trace: Path, cut: str = "") -> None:
    """Take out the worker and, per check, what happened before the program's own execve; end with why it was cut.

    Between a mark and the next successful or refused execve of a file under /product every new pid is one of ours: the
    check's first process and the program before it is the program.
    """
    own: set[bytes] = set()
    setup: set[bytes] = set()
    marked = ready = False
    temp = trace.with_name(trace.name + ".raw")
    trace.replace(temp)
    with temp.open("rb") as raw, trace.open("wb") as out:
        for line in raw:
            pid = _pid(line)
            if MARK in line and (pid in own or not marked):
                own.add(pid)
                marked, ready = True, False
                setup.clear()
                out.write(line)
            elif not marked:
                own.add(pid)
            elif pid in own:
                continue
            elif not ready:
                if b' execve("/product/' in line:
                    ready = True
                    setup.discard(pid)
                    out.write(line)
                else:
                    setup.add(pid)
            elif pid not in setup:
                out.write(line)
        if cut:
            out.write(f"{CUT}{cut}\n".encode())
    temp.unlink()
