"""One verifier in a process of its own: `python -P -m refactorbench.verification.child`.

Messages are msgpack behind a 4-byte length: one Start comes in on stdin, then Progress, Chunk and one last Finished or
Failed go out on the descriptor that was stdout. The process dies with the thread that started it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from typing import IO

import msgspec

from refactorbench.errors import TaskError
from refactorbench.verification.bench import BenchSpec
from refactorbench.verification.model import ChunkResult, Plan, VerifierResult

PROGRESS_S = 1.0
PR_SET_PDEATHSIG = 1


class Start(msgspec.Struct, frozen=True, tag=True):
    plan: Plan
    bench: BenchSpec
    done: dict[int, ChunkResult]
    parent: int  # the process that must be alive for this one to be


class Progress(msgspec.Struct, frozen=True, tag=True):
    executed: int


class Chunk(msgspec.Struct, frozen=True, tag=True):
    result: ChunkResult


class Finished(msgspec.Struct, frozen=True, tag=True):
    result: VerifierResult


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The task's own file is at fault (task) or this program is (not task)."""

    task: bool
    cause: str


Message = Start | Progress | Chunk | Finished | Failed


def send(stream: IO[bytes], message: Message) -> None:
    raw = msgspec.msgpack.encode(message)
    stream.write(len(raw).to_bytes(4, "big") + raw)
    stream.flush()


def receive(stream: IO[bytes]) -> Message | None:
    """Return the next message, or None at the end of the stream (a message cut short included)."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    size = int.from_bytes(head, "big")
    raw = stream.read(size)
    message: Message | None = msgspec.msgpack.decode(raw, type=Message) if len(raw) == size else None
    return message


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent is gone; SIGINT is the parent's to handle."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.getppid() != parent:  # it died before the call
        os._exit(1)


def hunt(start: Start, out: IO[bytes]) -> VerifierResult:
    # imported here: reading Start must not wait for Hypothesis, and the parent never loads it
    from refactorbench.verification import draw, scope
    from refactorbench.verification.fuzz import FuzzVerifier

    plan = start.plan
    rules, named = scope.load(plan)
    strategy = draw.combined(named)
    verifier = FuzzVerifier(
        plan,
        start.bench.open(),
        rules,
        lambda k, n: draw.draw_chunk(strategy, draw.chunk_seed(plan.seed, plan.verifier, k), n),
    )
    last = time.monotonic()

    def progress(executed: int) -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS_S:
            last = time.monotonic()
            send(out, Progress(executed))

    return verifier.hunt(start.done, lambda chunk: send(out, Chunk(chunk)), progress)


def main() -> None:
    sys.dont_write_bytecode = True
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a strategy prints must not be taken for a message
    start = receive(sys.stdin.buffer)
    if not isinstance(start, Start):
        raise SystemExit("this program is started by the verification stage: use `refactorbench verify`")
    die_with(start.parent)
    try:
        send(out, Finished(hunt(start, out)))
    except TaskError as e:
        send(out, Failed(True, str(e)))
    except Exception as e:
        send(out, Failed(False, f"{type(e).__name__}: {e}"))


if __name__ == "__main__":
    main()
