"""Input strategies of the directions, and what is out of scope. The inputs come from the task's own generators, whose
choices are Hypothesis draws here, so that they shrink."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st

from refactorbench.catalog.python import load_module
from refactorbench.observe.model import Check

T = TypeVar("T")

_TASK = Path(__file__).resolve().parent.parent / "tasks" / "bzip2-rust"
_generate: Any = load_module(_TASK / "checks" / "generate.py")

PROGRAMS = ("bin/bzip2", "bin/bunzip2", "bin/bzcat", "bin/bzip2recover")
DRIVERS = ("drivers/stream", "drivers/buffer", "drivers/stdio")
MOST_INPUT = 16 << 20  # bytes of one input
MOST_MARKS = 40_000  # block marks in one file: past 50,000 State A's bzip2recover writes beyond its tables
MARKS = (0x314159265359.to_bytes(6, "big"), 0x177245385090.to_bytes(6, "big"))


@functools.lru_cache(4096)
def _integers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


class _Drawn:
    """The generators' source of choices, answered by Hypothesis."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def between(self, low: int, high: int) -> int:
        return self._draw(_integers(low, high))

    def pick(self, items: Sequence[T]) -> T:
        return items[self._draw(_integers(0, len(items) - 1))]

    def blob(self, size: int) -> bytes:
        return self._draw(st.binary(min_size=size, max_size=size))


def _from(*names: str) -> st.SearchStrategy[Check]:
    """Checks of the named modules, each as often as it is named."""
    by_name = {m.name: m for m in _generate.modules()}
    modules = [by_name[name] for name in names]

    @st.composite
    def checks(draw: st.DrawFn) -> Check:
        source = _Drawn(draw)
        check: Check = source.pick(modules).draw(source)
        return check

    return checks()


STRATEGIES: dict[str, st.SearchStrategy[Check]] = {
    "compression": _from("compress-levels", "compress-shapes"),
    "damage": _from("decompress-corrupt", "decompress-corrupt", "decompress-valid"),
    "command_line": _from("options", "messages", "names", "mix", "mix"),
    "library": _from("driver-stream", "driver-errors", "driver-buff", "driver-stdio"),
    "recovery_and_streams": _from("recover", "streams"),
}


def _short_flags(words: Sequence[bytes]) -> Iterator[bytes]:
    """The words that bzip2 reads as flags: those with a dash, up to a lone `--`."""
    for word in words:
        if word == b"--":
            return
        if word.startswith(b"-"):
            yield word


def very_verbose(check: Check) -> bool:
    """Three or more -v, or a driver's verbosity above 2: what is printed then is out of scope."""
    if check.program.startswith("drivers/"):
        return any(_prints_more(check.program, op) for op in check.argv[1:])
    if check.program not in PROGRAMS[:3]:
        return False
    env = dict(check.env)
    words = [*env.get(b"BZIP2", b"").split(), *env.get(b"BZIP", b"").split(), *check.argv[1:]]
    flags = list(_short_flags(words))
    return sum(f == b"--verbose" or (not f.startswith(b"--") and f.count(b"v")) for f in flags) > 2


# (driver, operation) -> which of its parts is the verbosity
_VERBOSITY = {
    ("drivers/stream", b"ci"): 2,
    ("drivers/stream", b"di"): 1,
    ("drivers/buffer", b"c"): 2,
    ("drivers/buffer", b"d"): 2,
    ("drivers/stdio", b"wo"): 3,
    ("drivers/stdio", b"ro"): 2,
}


def _prints_more(program: str, operation: bytes) -> bool:
    """Above 4 every call but BZ2_bzCompressInit refuses its parameters, and prints nothing."""
    part = operation.split(b":")
    at = _VERBOSITY.get((program, part[0]), len(part))
    verbosity = int(part[at]) if at < len(part) and part[at].isdigit() else 0
    return verbosity > 2 and (verbosity <= 4 or part[0] == b"ci")


def unknown_program(check: Check) -> bool:
    """Neither a delivered command nor one of the task's drivers, or without a name of its own."""
    return check.observer == "process" and (check.program not in PROGRAMS + DRIVERS or not check.argv)


def pipe_by_name(check: Check) -> bool:
    """A named pipe among the files: State A waits for a writer, for ever."""
    return any(f.kind == "fifo" for f in check.files)


def enormous(check: Check) -> bool:
    """More input than a check can hold, or more block marks than State A's bzip2recover has room for."""
    data = [check.stdin, *(f.data for f in check.files)]
    if sum(map(len, data)) > MOST_INPUT:
        return True
    return check.program == "bin/bzip2recover" and any(sum(d.count(m) for m in MARKS) > MOST_MARKS for d in data)


def special_mode(check: Check) -> bool:
    """Set-user, set-group and sticky bits: what becomes of them is the system's affair."""
    return any(f.mode & 0o7000 for f in check.files)


DENY: dict[str, Callable[[Check], bool]] = {
    "very_verbose": very_verbose,
    "unknown_program": unknown_program,
    "pipe_by_name": pipe_by_name,
    "enormous": enormous,
    "special_mode": special_mode,
}
