"""One call against a server, with everything that must hold of any outcome asserted on the way."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from refactorbench.llm.protocol import Message, ProviderError, Text, Thinking, ToolUse, Turn
from refactorbench.llm.retry import ManualClock

from .dialects import ASK, SYSTEM, TEXT, THOUGHT, TOOLS, Dialect
from .server import Reply, Server, stream

BIG = (Message("user", (Text("word " * 8000),)),)
"""A conversation that could be too long for a model."""


class Outcome:
    """`took` is in real seconds; `clock` the model's."""

    def __init__(
        self, result: Turn | ProviderError, server: Server, clock: Any, waits: list[float], took: float
    ) -> None:
        self.result, self.server, self.clock, self.waits, self.took = result, server, clock, waits, took

    @property
    def turn(self) -> Turn:
        assert isinstance(self.result, Turn), self.result
        return self.result

    @property
    def error(self) -> ProviderError:
        assert isinstance(self.result, ProviderError), self.result
        return self.result

    @property
    def posts(self) -> int:
        return len(self.server.seen)


def good(dialect: Dialect, **how: Any) -> Reply:
    return stream(dialect.pieces(dialect.reply(**how)))


def call(dialect: Dialect, replies: Iterable[Reply] | Reply, **options: Any) -> Outcome:
    """Ask once, `within` seconds. Whatever comes of it, every wait was reported and nothing more was asked."""
    within = options.pop("within", None)
    messages = options.pop("messages", ASK)
    waits: list[float] = []
    result: Turn | ProviderError
    with Server(replies) as server:
        model, clock = dialect.open(server.url, **options)
        start = time.monotonic()
        deadline = None if within is None else clock.now() + within
        try:
            result = model.turn(SYSTEM, messages, TOOLS, max_tokens=1000, deadline=deadline, on_wait=waits.append)
        except ProviderError as e:
            result = e
        took = time.monotonic() - start
    assert server.unexpected == 0, "more was asked than there are replies"
    if isinstance(clock, ManualClock):
        assert abs(sum(waits) - sum(clock.slept)) < 1e-6, "every wait is reported"
    if isinstance(result, Turn):
        assert abs(sum(waits) - result.waited_s) < 1e-6
    return Outcome(result, server, clock, waits, took)


def assert_good(turn: Turn, dialect: Dialect) -> None:
    """The canonical reply, once, whole, with exact usage."""
    thinking, text, use = turn.blocks
    assert isinstance(thinking, Thinking) and thinking.text == THOUGHT
    assert isinstance(text, Text) and text.text == TEXT
    assert isinstance(use, ToolUse) and (use.name, use.input) == ("bash", {"command": "ls -l é"})
    assert (turn.stop, turn.usage, turn.estimated, turn.cut_call) == ("tool_use", dialect.usage, False, "")
    assert turn.model == "model-1" and turn.request_id
