"""The agent's bash: one shell that stays, in a closed sandbox. Directory, environment, functions and background jobs
are kept from command to command; a command that hangs is ended without the shell.

A command's output goes to a file of its own below /build/output, so that background jobs may go on writing to it and
what is cut can be read there. After each command the shell writes what another one needs to go on from there.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from signal import SIGINT, SIGKILL
from typing import Literal

import msgspec

from refactorbench.agents.confined import Box, Place, Refused
from refactorbench.errors import HarnessError
from refactorbench.sandbox.limits import tree
from refactorbench.sandbox.protocol import Command, Session

OUTPUT, SESSION = "/build/output", "/build/session"
HERE = Path(__file__).parent
LARGEST_OUTPUT = 64 << 20  # bytes of one command's output; more ends it
LARGEST_STATE = 1 << 20
KEPT_OUTPUTS = 200
START_S, INTERRUPT_S, SETTLE_S = 30.0, 10.0, 0.05
PAUSE_S = 0.1  # between two interrupts
TTY_NOISE = "tcsetattr: Inappropriate ioctl for device"  # what bash says of a child that we ended

LONGEST_WORD = 100  # bytes of a line that the shell or its keeper says
WORD = re.compile(rb"done (?P<number>[0-9]{1,9}) (?P<status>[0-9]{1,3})|ended (?P<ended>[0-9]{1,3})|ready")

Ended = Literal["exit", "time", "memory", "disk", "output", "shell", "sandbox"]


class ShellState(msgspec.Struct, frozen=True):
    """What a shell needs to go on where another one stood. `background` are command lines that were running."""

    script: str = ""
    cwd: str = ""
    calls: int = 0
    background: tuple[str, ...] = ()


class Ran(msgspec.Struct, frozen=True):
    """One command. `status` as bash has it; `ended` other than "exit" says which limit ended it, or that it took the
    shell ("shell": it called exit or exec) or all of the sandbox with it."""

    status: int
    ended: Ended
    output: str
    path: str  # inside path of the whole output


class Shell:
    """`open_session` starts the sandbox; `folder` is mounted at /build/session and holds what the host tells the shell;
    `outputs` is mounted writable at /build/output; `cut` characters of an output are shown."""

    def __init__(
        self, open_session: Callable[[], Session], folder: Path, outputs: Path, state: ShellState, cut: int = 30_000
    ) -> None:
        self._open_session, self._folder, self.cut = open_session, folder, cut
        self._outputs = Box((Place(OUTPUT, outputs, False),))
        self._outputs_host = outputs
        self.state = state
        self._words: deque[re.Match[bytes]] = deque(maxlen=1000)
        self._rest = b""  # of a line that isn't whole yet
        prepare(folder)
        self._session = self._opened()
        self._outer = self._inner = 0
        self._set_up()

    def _opened(self) -> Session:
        """A new sandbox, noted so that a later start can make sure that it has ended."""
        session = self._open_session()
        started = session.processes().get(session.init, (0, 0))[1]
        (self._folder / "process").write_text(f"{session.init} {started}")
        return session

    def run(self, command: str, limit_s: float) -> Ran:
        """Run one command to its end or for `limit_s` seconds. Refused for one that bash can't be given."""
        if "\0" in command:
            raise Refused("The command holds a NUL character, which bash can't read. Write it without.")
        number = self.state.calls + 1
        path = f"{OUTPUT}/{number}.txt"
        (self._folder / "call").write_text(command, errors="surrogateescape")
        before = set(self._session.processes())
        self._send(f'eval "$(<{SESSION}/call)" </dev/null >|{path} 2>&1 9>&-\n__rb_done {number} $?\n')
        status, ended, lost = self._wait(number, time.monotonic() + limit_s, before)
        if not lost and self._ending():
            status, ended, lost = 137, "sandbox", "sandbox"
        if lost:
            self._renew(sandbox=lost == "sandbox")
        self._keep_state(number, told=not lost)
        return Ran(status, ended, self._shown(path, number, ended not in ("exit", "shell")), path)

    def _send(self, text: str) -> None:
        with contextlib.suppress(HarnessError):  # a sandbox that is gone shows at the next read
            self._session.send(text.encode())

    def _wait(self, number: int, deadline: float, before: set[int]) -> tuple[int, Ended, str]:
        """Return (status, how it ended, what it took with it: "", shell or sandbox). Past a limit, interrupt until the
        shell answers or has ended."""
        why: Ended = "exit"
        interrupts, pause, next_interrupt = 0, 0.01, 0.0
        while True:
            word = self._word(pause)
            pause = PAUSE_S if why != "exit" else min(pause * 1.5, 0.2)
            if word == "gone":
                return 137, "sandbox", "sandbox"
            if word is not None and word["ended"]:
                return int(word["ended"]), "shell" if why == "exit" else why, "shell"
            if word is not None and word["number"] and int(word["number"]) == number:
                return int(word["status"]), why, ""
            if why == "exit":
                why = self._over(number, deadline)
            if why != "exit" and time.monotonic() >= next_interrupt:
                self._interrupt(interrupts, before)
                if interrupts % 5 == 3:  # the shell may have been interrupted while it read this line: then it is lost
                    self._send(f"\n__rb_done {number} 130\n")
                interrupts, next_interrupt = interrupts + 1, time.monotonic() + PAUSE_S
                if interrupts * PAUSE_S > 6 * INTERRUPT_S:
                    raise HarnessError("the agent's shell does not end when it is killed (see dmesg): resume")

    def _ending(self) -> bool:
        """Whether the shell's keeper was killed: its shell may still have told an end before the sandbox goes."""
        try:
            fields = dict(line.split(":\t", 1) for line in Path(f"/proc/{self._outer}/status").read_text().splitlines())
        except (OSError, ValueError):
            return True
        killed = int(fields["ShdPnd"], 16) >> (SIGKILL - 1) & 1
        return bool(killed) or "VmSize" not in fields  # what is ending has no memory any more

    def _over(self, number: int, deadline: float) -> Ended:
        if time.monotonic() >= deadline:
            return "time"
        with contextlib.suppress(OSError):
            if (self._outputs_host / f"{number}.txt").lstat().st_size > LARGEST_OUTPUT:
                return "output"
        over = self._session.over()
        return "memory" if over == "memory" else "disk" if over == "disk" else "exit"

    def _interrupt(self, times: int, before: set[int]) -> None:
        """End what the command started, by SIGINT, then SIGKILL, at last the shell; jobs from before it go on."""
        processes = self._session.processes()
        children: dict[int, list[int]] = {}
        for pid, (parent, _) in processes.items():
            children.setdefault(parent, []).append(pid)
        queue = [pid for pid in children.get(self._inner, []) if pid not in before]
        while queue:
            pid = queue.pop()
            queue += children.get(pid, [])
            self._session.signal(pid, SIGINT if times == 0 else SIGKILL)
        if times % 5 == 0 or times * PAUSE_S >= INTERRUPT_S:
            self._session.signal(self._inner, SIGINT if times * PAUSE_S < INTERRUPT_S else SIGKILL)

    def _word(self, seconds: float) -> re.Match[bytes] | Literal["gone"] | None:
        """What the shell or its keeper said next; "gone" when the sandbox has ended, None after `seconds`. A command
        may find the pipe and write to it too: what is no line of ours is passed over."""
        deadline = time.monotonic() + seconds
        while not self._words:
            left = deadline - time.monotonic()
            piece = self._session.read(left) if left > 0 else None
            if piece is None:
                return None
            if not piece:
                return "gone"
            *lines, last = (self._rest + piece).split(b"\n")
            self._words.extend(said for line in lines if (said := WORD.fullmatch(line)))
            self._rest = last[-LONGEST_WORD:]
        return self._words.popleft()

    def _set_up(self) -> None:
        """Bring a new shell to where the last one stood, and learn its process id."""
        (self._folder / "state").write_text(self.state.script, errors="surrogateescape")
        self._send(f". {SESSION}/init\n")
        deadline = time.monotonic() + START_S
        while (word := self._word(1.0)) == "gone" or word is None or word[0] != b"ready":
            if word == "gone" or time.monotonic() > deadline:
                raise HarnessError("the agent's shell did not start: see agent.log in the run directory, then resume")
        processes = self._session.processes()
        below = [(started, pid) for pid, (parent, started) in processes.items() if parent == self._session.init]
        self._outer = min(below)[1] if below else 0
        self._inner = next((pid for pid, (parent, _) in processes.items() if parent == self._outer), 0)
        if not self._inner:
            raise HarnessError("the agent's shell can't be found among the processes of its sandbox: resume")

    def _renew(self, sandbox: bool) -> None:
        self._words.clear()
        self._rest = b""
        if sandbox:
            self._session.close()
            self._session = self._opened()
        self._set_up()

    def _keep_state(self, number: int, told: bool) -> None:
        """Remember where the shell stands, as it `told`; a new one stands where the last one did."""
        script, cwd = self.state.script, self.state.cwd
        if told:
            with contextlib.suppress(Refused, OSError):
                raw = self._outputs.read(f"{OUTPUT}/.state.new")
                if len(raw) <= LARGEST_STATE:
                    script = raw.decode(errors="surrogateescape").encode(errors="replace").decode()
        with contextlib.suppress(OSError):
            cwd = os.fsdecode(os.readlink(f"/proc/{self._inner}/cwd"))  # noqa: PTH115 - of a process
            cwd = cwd.encode(errors="replace").decode()
        self.state = ShellState(script, cwd, number, self.background())

    def background(self) -> tuple[str, ...]:
        """Command lines of what runs beside the shell, seen twice so that what is just ending doesn't count. What was
        just started bears the shell's own line until it becomes its program: named at the later look, or at a third."""
        seen = self._others()
        for look in (1, 2):
            if not seen or (look == 2 and self._line(self._inner) not in seen.values()):
                break
            time.sleep(SETTLE_S)
            again = self._others()
            seen = {pid: text for pid, text in again.items() if pid in seen}
        return tuple(sorted(seen.values()))

    def _others(self) -> dict[int, str]:
        found = {}
        for pid in set(self._session.processes()) - {self._session.init, self._outer, self._inner}:
            if line := self._line(pid):
                found[pid] = line
        return found

    def _line(self, pid: int) -> str:
        """The command line of a process, "" where it has ended."""
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            return " ".join(w.decode(errors="replace") for w in words)[:200]
        return ""

    def _shown(self, path: str, number: int, stopped: bool) -> str:
        try:
            text = self._outputs.head(path, LARGEST_OUTPUT).decode(errors="replace")
        except Refused:
            return ""  # the redirection itself failed, or the command removed it
        shown = shorten(text, self.cut, path)
        for old in (number - KEPT_OUTPUTS, *([number] if shown == text and not self.state.background else [])):
            with contextlib.suppress(OSError):
                (self._outputs_host / f"{old}.txt").unlink()
        if stopped:
            return "".join(line for line in shown.splitlines(keepends=True) if TTY_NOISE not in line)
        return shown

    def close(self) -> None:
        self._session.close()


def end_leftover(folder: Path) -> None:
    """End the sandbox of a harness that was killed: it goes by itself, but may still be writing. HarnessError when it
    stays."""
    note = folder / "process"
    pid, started = map(int, note.read_text().split()) if note.is_file() and note.read_text() else (0, 0)
    deadline = time.monotonic() + INTERRUPT_S
    while pid and dict(tree(pid)).get(pid, [""] * 20)[19] == str(started):
        if time.monotonic() > deadline:
            raise HarnessError(f"process {pid}, a sandbox of this run, does not end: end it and resume")
        with contextlib.suppress(OSError):
            os.kill(pid, SIGKILL)
        time.sleep(0.01)


def prepare(folder: Path) -> None:
    """Lay out what the sandbox reads at /build/session."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(HERE / "shell.sh", folder / "shell")
    init = (HERE / "shell_init.sh").read_text().replace("@STATE@.new", f"{OUTPUT}/.state.new")
    (folder / "init").write_text(init.replace("@STATE@", f"{SESSION}/state"))
    for name in ("call", "state"):
        (folder / name).touch()


def shorten(text: str, most: int, path: str) -> str:
    """`text` whole if it has at most `most` characters; else its two ends, with a sentence that says what is left out
    between them and how to see it."""
    if len(text) <= most:
        return text
    head, tail = text[: most // 2], text[len(text) - most // 2 :]
    head = head[: head.rfind("\n") + 1] or head
    if text[len(text) - len(tail) - 1] != "\n":
        tail = tail[tail.find("\n") + 1 :] or tail
    first = head.count("\n") + 1
    last = text.count("\n", 0, len(text) - len(tail))
    left_out = len(text) - len(head) - len(tail)
    if last < first:  # inside of one long line
        return (
            f"{head}\n[{left_out} of {len(text)} characters are left out here, all of line {first}. The whole output "
            f"is in {path}; see it with: head -c {len(head) + 4000} {shlex.quote(path)} | tail -c 4000]\n{tail}"
        )
    return (
        f"{head}[lines {first} to {last} ({left_out} of {len(text)} characters) are left out here. The whole output is "
        f"in {path}; see them with: sed -n '{first},{min(last, first + 199)}p' {shlex.quote(path)}]\n{tail}"
    )


def session_command(command: Command) -> Command:
    """The same sandbox with the shell's keeper as its program."""
    return msgspec.structs.replace(command, argv=("/bin/bash", f"{SESSION}/shell"))
