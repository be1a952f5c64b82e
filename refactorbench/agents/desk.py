"""What every scaffold works with: the sandbox's shell, the files, selfcheck and the clock; laid out once, opened again
after a restart."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from refactorbench.agents.act import Act
from refactorbench.agents.confined import Box, Place, Refused
from refactorbench.agents.edit import EditFailed
from refactorbench.agents.records import Answered, Entry
from refactorbench.agents.selfcheck import SelfCheck
from refactorbench.agents.shell import OUTPUT, SESSION, Ran, Shell, ShellState, session_command
from refactorbench.build.toolchain import Toolchain
from refactorbench.catalog.models import Task
from refactorbench.errors import HarnessError
from refactorbench.sandbox.protocol import Command, Limits, Mount, Sandbox

TREE, HOME, TMP, SHM = "/build/tree", "/build/home", "/tmp", "/dev/shm"
STATE_A, REFERENCE, INSTRUCTION = "/build/state-a", "/build/reference", "/build/INSTRUCTION.md"
MEMORY_MB, PROCESSES, FILE_MB, DISK_MB = 8192, 1024, 2048, 8192


class Layout(msgspec.Struct, frozen=True):
    """Where things are on the host. `folder` is the agent's own, kept from start to start."""

    folder: Path
    work: Path
    state_a: Path
    reference: Path
    instruction: Path
    log: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def tmp(self) -> Path:
        return self.folder / "tmp"

    @property
    def shm(self) -> Path:
        return self.folder / "shm"

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def session(self) -> Path:
        return self.folder / "session"

    def make(self) -> None:
        for made in (self.home, self.tmp, self.shm, self.output, self.session):
            made.mkdir(parents=True, exist_ok=True)

    @property
    def kept(self) -> dict[str, Path]:
        """What checkpoints hold: all that commands can write to but their outputs, which the host only reads."""
        return {"tree": self.work, "home": self.home, "tmp": self.tmp, "shm": self.shm}

    def box(self) -> Box:
        return Box(
            (
                Place(TREE, self.work, True),
                Place(HOME, self.home, True),
                Place(TMP, self.tmp, True),
                Place(OUTPUT, self.output, False),
                Place(STATE_A, self.state_a, False),
                Place(REFERENCE, self.reference, False),
            )
        )

    def command(self, toolchain: Toolchain, hours: float) -> Command:
        """The agent's sandbox: both toolchains, the tree, State A and its product; no network, no grader."""
        mounts = (
            *toolchain.mounts,
            Mount(self.work, TREE, True),
            Mount(self.home, HOME, True),
            Mount(self.tmp, TMP, True),
            Mount(self.shm, SHM, True),
            Mount(self.output, OUTPUT, True),
            Mount(self.session, SESSION),
            Mount(self.state_a, STATE_A),
            Mount(self.reference, REFERENCE),
            Mount(self.instruction, INSTRUCTION),
        )
        env = {
            "PATH": toolchain.path, "HOME": HOME, "TMPDIR": TMP, "LC_ALL": "C.UTF-8", "TZ": "UTC", "TERM": "dumb",
            "PAGER": "cat", "GIT_PAGER": "cat", "CARGO_NET_OFFLINE": "true",
        }  # fmt: skip
        limits = Limits(hours * 3600, hours * 7200, MEMORY_MB, PROCESSES, FILE_MB, DISK_MB)
        return session_command(Command((), mounts, TREE, env, limits, self.log, symlinks=toolchain.symlinks))


class Desk:
    """`notice` is told with the next observation: what a restart has cost. `longer`: how to give a command more time,
    where a scaffold has a way."""

    def __init__(
        self, layout: Layout, toolchain: Toolchain, task: Task, sandbox: Sandbox, entries: Sequence[Entry],
        left: Callable[[], str], now: Callable[[], float], cut: int,
    ) -> None:  # fmt: skip
        state = shell_state(entries)
        self.layout, self.box, self.left, self.now = layout, layout.box(), left, now
        self.sandbox, self.toolchain = sandbox, toolchain
        command = layout.command(toolchain, task.budget_hours)
        self.shell = Shell(lambda: sandbox.open_session(command), layout.session, layout.output, state, cut)
        self.selfcheck = SelfCheck(task, sandbox, self.box, TREE, layout.reference, layout.folder / "selfcheck")
        self.notice, self.longer = "", ""
        if state.background:
            jobs = "\n".join(f"  {job}" for job in state.background)
            self.notice = (
                "[The machine was restarted before this. Files, working directory, variables and functions are as they "
                f"were; what ran in the background is lost, start it again if you need it:\n{jobs}]\n"
            )

    def run(self, command: str, wanted_s: float, most_s: float) -> Act:
        """Run a shell command for at most `wanted_s` seconds, or `most_s` where less is left of the budget."""
        limit_s = min(wanted_s, most_s)
        ran = self.shell.run(command, limit_s)
        return Act(self._told(ran, limit_s), "ok" if ran.ended in ("exit", "shell") else "stopped")

    def _told(self, ran: Ran, limit_s: float) -> str:
        body = ran.output if ran.output.endswith("\n") or not ran.output else ran.output + "\n"
        why = {
            "exit": f"[exit status {ran.status}]",
            "shell": f"[exit status {ran.status}; the command ended the shell itself. A new one was started where the "
            "last command had left it; background jobs go on. Use a subshell, ( ... ), for exit or set -e.]",
            "time": f"[ended after {limit_s:g} s, its limit, with all that it had started; the shell goes on. "
            f"{self.longer or 'For more, '}start it with & and look at its output in {ran.path}.]",
            "memory": f"[ended: more than {MEMORY_MB} MiB of memory were in use; the shell goes on.]",
            "disk": f"[ended: the files have grown by more than {DISK_MB} MiB; the shell goes on. Remove some.]",
            "output": f"[ended: it had printed more than 64 MiB; the shell goes on. Its output is in {ran.path}.]",
            "sandbox": "[ended together with all other processes, the shell's included. A new one was started where "
            "the last command had left it; background jobs are lost.]",
        }[ran.ended]
        return body + why

    def take_notice(self) -> str:
        notice, self.notice = self.notice, ""
        return notice

    def close(self) -> None:
        self.shell.close()


def answered(do: Callable[[], Act]) -> Act:
    """What an action came to, or why it couldn't be done: files may change or go while they are looked at, and what an
    agent gives may fit no file's name. HarnessError when it is this machine's disk that fails."""
    try:
        return do()
    except EditFailed as e:
        return Act(str(e), "edit_failed")
    except Refused as e:
        return Act(str(e), "refused")
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO):
            raise HarnessError(f"the agent's files can't be written: {e}; free some space and resume") from e
        return Act(f"this can't be done ({e.strerror}). Look at the files with ls -l and try another way.", "refused")
    except (ValueError, RecursionError) as e:
        said = str(e)[:200].encode(errors="replace").decode()
        return Act(f"this can't be done with what was given ({said}). Correct the call.", "refused")


def shell_state(entries: Sequence[Entry]) -> ShellState:
    last = next((e for e in reversed(entries) if isinstance(e, Answered)), None)
    return last.shell if last else ShellState()
