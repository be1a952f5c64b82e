"""Progress of long work: one rewritten line at a terminal, plain lines elsewhere; silent for what is quick."""

from __future__ import annotations

import sys
import time
from typing import TextIO

QUIET_S = 2.0  # what ends within this shows nothing
PLAIN_EVERY_S = 15.0
TERMINAL_EVERY_S = 0.2


_CONTROL = {c: f"\\x{c:02x}" for c in (*range(32), *range(127, 160)) if c not in (9, 10)}


def printable(text: str) -> str:
    """`text` with control characters and stray bytes escaped: names of submitted files must not steer a terminal."""
    return text.translate(_CONTROL).encode("utf-8", "backslashreplace").decode()


class Progress:
    """`say` prints a line; `tick` shows how far a long piece of work is."""

    def __init__(self, stream: TextIO | None = None, clock: object = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._clock = clock if callable(clock) else time.monotonic
        self._what = ""
        self._since = self._last = 0.0
        self._open = False

    def say(self, line: str) -> None:
        self._clear()
        print(printable(line), file=self._stream, flush=True)

    def tick(self, what: str, done: int, total: int) -> None:
        """Show `what` at `done` of `total`; cheap enough to be called for each check."""
        now = self._clock()
        if what != self._what:
            self._what, self._since, self._last = what, now, now
        every = TERMINAL_EVERY_S if self._terminal else PLAIN_EVERY_S
        if now - self._since < QUIET_S or now - self._last < every:
            return
        self._last = now
        line = f"   {what}: {done} of {total}"
        if done:
            line += f", about {(now - self._since) / done * (total - done):.0f} s left"
        if self._terminal:
            self._stream.write("\r\x1b[K" + line)
            self._stream.flush()
            self._open = True
        else:
            print(printable(line), file=self._stream, flush=True)

    def end(self) -> None:
        """Leave the line to others: what is printed next starts at its beginning."""
        self._clear()

    def _clear(self) -> None:
        if self._open:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._open = False
