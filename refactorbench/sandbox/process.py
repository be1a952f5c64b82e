"""One sandbox's processes on the host: started, found, ended, and proved to be gone."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from typing import IO

import msgspec

from refactorbench.errors import HarnessError
from refactorbench.sandbox.limits import CgroupScope, WatchedScope, tree

GRACE_S = 2.0
SWEEP_S = 10.0
START_S = 30.0


def readable(fd: int, seconds: float) -> bool:
    """Wait until `fd` has something to read (or its other end is closed); select() can't take large descriptors."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class SandboxProcess:
    """bwrap and all below it. `words` may name the descriptors {info} and {report}, which are made here."""

    def __init__(
        self,
        words: list[str],
        scope: CgroupScope | WatchedScope,
        stdin: int | IO[bytes],
        stdout: int | IO[bytes],
        stderr: int | IO[bytes],
    ) -> None:
        self.scope = scope
        self.init = 0  # pid of the namespace's first process, as the host sees it; 0 when it never was
        self._pidfd = -1
        self._info, info = os.pipe()
        self._report, report = os.pipe()
        words = [{"{info}": str(info), "{report}": str(report)}.get(word, word) for word in words]
        try:
            self.popen = subprocess.Popen(
                words, stdin=stdin, stdout=stdout, stderr=stderr, bufsize=0, pass_fds=(info, report),
                start_new_session=True, env={"PATH": os.defpath},
            )  # fmt: skip
        except OSError as e:
            self._close()
            raise HarnessError(f"cannot start a sandbox with {words[0]}: {e}") from e
        finally:
            os.close(info)
            os.close(report)
        try:
            self._find_init()
        except BaseException:
            self.end()
            raise

    def _find_init(self) -> None:
        text = b""
        while b"}" not in text:
            if not readable(self._info, START_S):
                raise HarnessError(f"bwrap did not start its sandbox within {START_S:g} s; nothing was run")
            piece = os.read(self._info, 4096)
            if not piece:
                return
            text += piece
        self.init = msgspec.json.decode(text[: text.index(b"}") + 1])["child-pid"]
        with contextlib.suppress(ProcessLookupError):
            self._pidfd = os.pidfd_open(self.init)

    def terminate(self) -> None:
        """SIGTERM to the whole tree (its process 1, the launcher, is immune), then a grace for it to end."""
        for pid in [pid for pid, _ in tree(self.init)] if self.init else []:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(GRACE_S)

    def kill(self) -> None:
        """SIGKILL to the namespace; `end` is still to be called."""
        with contextlib.suppress(OSError):
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def end(self) -> str:
        """Kill the namespace, prove that it is empty, release everything; return what was written to {report}.

        The proof: the kernel ends a namespace's first process only after all its others have been reaped. HarnessError
        when that takes longer than SWEEP_S.
        """
        try:
            self.kill()
            if self._pidfd >= 0 and not readable(self._pidfd, SWEEP_S):
                raise HarnessError(
                    f"process {self.init} of a sandbox is still there {SWEEP_S:g} s after SIGKILL, hanging in the "
                    "kernel (see dmesg); nothing was graded from it"
                )
            try:
                self.popen.wait(SWEEP_S)
            except subprocess.TimeoutExpired:
                self.popen.terminate()  # the guard kills what is left
                self.popen.wait()
            os.set_blocking(self._report, False)
            with contextlib.suppress(BlockingIOError):
                return os.read(self._report, 64).decode(errors="replace")
            return ""
        finally:
            self._close()

    def _close(self) -> None:
        fds, self._pidfd = (self._info, self._report, self._pidfd), -1
        for fd in fds:
            if fd >= 0:
                os.close(fd)
        self.scope.close()
