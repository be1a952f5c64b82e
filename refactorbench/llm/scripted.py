"""A model that plays a file of turns: for rehearsals and tests, with no provider, no key and no cost.

One JSON object a line; a line is a reply or a fault:

    {"think": "...", "say": "...", "calls": [{"name": "bash", "input": {"command": "ls"}}], "usage": {"input": 10}}
    {"say": "Done.", "stop": "end", "repeat": true}
    {"fault": {"status": 529, "retry_after": 2}}
    {"fault": {"kind": "truncated_stream", "usage": {"input": 10}}}

`stop` is "tool_use" where there are calls and "end" elsewhere, unless given; `takes_s` is how long the reply takes; a
line with `repeat` is played for ever. A reply remembers its line inside the conversation, so that a conversation that
was taken up again after a kill goes on where it stood.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from refactorbench.errors import UsageError
from refactorbench.llm.blocks import fault
from refactorbench.llm.faults import RETRYABLE, from_status
from refactorbench.llm.protocol import (
    Block,
    ContextOverflow,
    ErrorKind,
    Message,
    Native,
    ProviderError,
    StopReason,
    Text,
    Thinking,
    ToolUse,
    Turn,
    Usage,
)
from refactorbench.llm.retry import Clock, Request, SystemClock

PROVIDER = "scripted"


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    input: dict[str, Any] = {}


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`status` and `message` as an HTTP server would answer, or else the `kind` itself."""

    status: int | None = None
    message: str = ""
    kind: ErrorKind | None = None
    retry_after: float | None = None
    usage: Usage = Usage()


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    think: str = ""
    say: str = ""
    calls: tuple[Call, ...] = ()
    stop: StopReason | None = None
    cut_call: str = ""
    usage: Usage = Usage()
    takes_s: float = 0.0
    repeat: bool = False
    fault: Fault | None = None


def load_script(path: Path) -> tuple[Step, ...]:
    """The turns of `path`; UsageError names the line that isn't one."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as e:
        raise UsageError(f"cannot read the script {path}: {e.strerror}; scripted/FILE names a file of turns") from e
    steps = []
    for n, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            step = msgspec.json.decode(line, type=Step)
        except msgspec.MsgspecError as e:
            raise UsageError(f"{path}:{n} is no turn: {e}; nothing was played: correct the line") from e
        if step.fault is not None and (step.fault.status is None) == (step.fault.kind is None):
            raise UsageError(f"{path}:{n}: a fault has either a status or a kind; nothing was played: correct the line")
        steps.append(step)
    if not steps:
        raise UsageError(f"the script {path} holds no turn: write at least one line")
    return tuple(steps)


class Scripted:
    images = True

    def __init__(self, name: str, steps: Sequence[Step], clock: Clock | None = None) -> None:
        self.name = name
        self._steps = tuple(steps)
        self._clock: Clock = clock or SystemClock()
        self._next = 0
        self.requests: list[Request] = []

    def attempt(self, request: Request, left_s: float | None) -> Turn:
        self.requests.append(request)
        n = self._place(request.messages)
        if n >= len(self._steps):
            raise UsageError(
                f"{self.name}: all {len(self._steps)} turns of the script are played and one more is asked for: add "
                'turns, or let the last one have "repeat": true'
            )
        step = self._steps[n]
        self._next = n if step.repeat else n + 1
        if left_s is not None and step.takes_s >= left_s:
            self._clock.sleep(left_s)
            self._next = n  # it wasn't played: the next attempt gets it
            raise ProviderError("cut off at the deadline", kind="deadline", retryable=True)
        if step.takes_s:
            self._clock.sleep(step.takes_s)
        if step.fault is not None:
            raise self._error(step.fault)
        return self._reply(n, step)

    def _place(self, messages: Sequence[Message]) -> int:
        """After the last line that the conversation holds, and after the faults that were played since."""
        held = (b for m in messages for b in m.blocks if isinstance(b, Thinking) and b.native.provider == PROVIDER)
        last = max((int(b.native.data["line"]) for b in held), default=-1)
        after = last if last >= 0 and self._steps[min(last, len(self._steps) - 1)].repeat else last + 1
        return max(self._next, after)

    def _error(self, played: Fault) -> ProviderError:
        if played.status is not None:
            error = from_status(played.status, {"message": played.message}, {}, self._clock.wall())
        elif played.kind == "context_overflow":
            error = ContextOverflow(played.message or "scripted overflow")
        else:
            assert played.kind is not None
            error = fault(played.kind, played.message or "scripted fault")
            error.retryable = played.kind in RETRYABLE
        error.usage = played.usage
        if played.retry_after is not None:
            error.retry_after = played.retry_after
        return error

    def _reply(self, n: int, step: Step) -> Turn:
        blocks: list[Block] = [Thinking(step.think, Native(PROVIDER, {"line": n}))]
        if step.say:
            blocks.append(Text(step.say))
        blocks += [ToolUse(f"s{n}_{i}", call.name, call.input) for i, call in enumerate(step.calls)]
        stop: StopReason = step.stop or ("tool_use" if step.calls else "end")
        return Turn(tuple(blocks), stop, step.usage, model=self.name, request_id=f"s{n}", cut_call=step.cut_call)
