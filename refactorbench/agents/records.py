"""The journal of one agent's run: one JSON line per thing that happened, written before the next one is begun.

What a run is can be read back from it at any instant: the conversation, the clock, what was used, the shell's state and
the checkpoint of the files. A line that was cut off by a kill is dropped.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from refactorbench.agents.act import Change, Outcome
from refactorbench.agents.checkpoint import sync
from refactorbench.agents.shell import ShellState
from refactorbench.errors import HarnessError, UsageError
from refactorbench.llm.protocol import Image, ToolUse, Turn


class Clock(msgspec.Struct, frozen=True):
    """Seconds since the start, but those in which this program didn't run; `waited_s` of them were the provider's."""

    wall_s: float = 0.0
    waited_s: float = 0.0

    @property
    def active_s(self) -> float:
        return self.wall_s - self.waited_s


class Started(msgspec.Struct, frozen=True, tag="started"):
    """What the run is: names, every switch of the scaffold, its texts, and the files' first checkpoint."""

    scaffold: str
    model: str
    task: str
    version: str
    switches: dict[str, str | int | float | bool]
    system: str
    first: str
    checkpoint: str
    time: float  # of day
    prices: str = ""  # version, date and digest of the price table, where the model has a price in it


class Replied(msgspec.Struct, frozen=True, tag="replied"):
    turn: Turn
    clock: Clock
    cost: float = 0.0


class Answered(msgspec.Struct, frozen=True, tag="answered", omit_defaults=True):
    """One action and its observation. `call` as it was understood; its id is "" where the reply was plain text."""

    call: ToolUse
    text: str
    outcome: Outcome
    clock: Clock
    checkpoint: str
    shell: ShellState
    is_error: bool = False
    images: tuple[Image, ...] = ()
    change: Change | None = None
    interface: dict[str, str | int] = {}  # what a scaffold keeps of its own, e.g. the open file


class Told(msgspec.Struct, frozen=True, tag="told"):
    """A message of the harness. why: silent | cut | format."""

    text: str
    why: str
    clock: Clock


class Folded(msgspec.Struct, frozen=True, tag="folded"):
    """From here on the first `upto` records are shown with a line per observation, or, for turns, per action.
    `characters` are no longer shown."""

    upto: int
    characters: int
    what: Literal["observations", "turns"]


class Stopped(msgspec.Struct, frozen=True, tag="stopped"):
    """The end. `reason` is one of agents/loop.py's list; `note` names limit and owner."""

    reason: str
    note: str
    clock: Clock


Entry = Started | Replied | Answered | Told | Folded | Stopped

_decoder = msgspec.json.Decoder(Entry)


def read_entries(path: Path) -> list[Entry]:
    """Every whole record. UsageError names the line that is none."""
    lines = path.read_bytes().split(b"\n")
    found: list[Entry] = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            found.append(_decoder.decode(line))
        except msgspec.MsgspecError as e:
            raise UsageError(f"{path}:{number} is no record of an agent's journal ({e}): name another file") from None
    return found


class AgentJournal:
    """`scrub` takes secrets out of each line before it is written."""

    def __init__(self, path: Path, scrub: Callable[[bytes], bytes] = lambda line: line) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self._scrub = path, scrub
        self.entries: list[Entry] = read_entries(path) if path.exists() else []
        self._file = path.open("ab", buffering=0)
        sync(path.parent)
        whole = path.read_bytes().rfind(b"\n") + 1
        self._file.truncate(whole)

    def append(self, entry: Entry) -> Entry:
        """Write, sync, and return the record as it can be read back: what goes on is what was written."""
        line = self._scrub(msgspec.json.encode(entry)) + b"\n"
        size = os.fstat(self._file.fileno()).st_size
        try:
            view = memoryview(line)
            while view:
                view = view[self._file.write(view) :]
            os.fsync(self._file.fileno())
        except OSError as e:
            with contextlib.suppress(OSError):
                self._file.truncate(size)
            raise HarnessError(f"cannot write {self.path}: {e.strerror}; free some space and resume") from e
        written = _decoder.decode(line)
        self.entries.append(written)
        return written

    def close(self) -> None:
        self._file.close()
