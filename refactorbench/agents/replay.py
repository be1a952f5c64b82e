"""A model that plays a recorded run's turns: it knows its place by the replies that the conversation holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from refactorbench.errors import UsageError
from refactorbench.llm.protocol import Message, ToolSpec, Turn


class Recorded:
    """The `ChatModel` protocol over turns that were made before."""

    images = True

    def __init__(self, name: str, turns: Sequence[Turn]) -> None:
        self.name, self._turns = name, tuple(turns)
        self._next: int | None = None

    def turn(
        self,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        max_tokens: int,
        deadline: float | None = None,
        on_wait: Callable[[float], None] | None = None,
        attempt_s: float | None = None,
    ) -> Turn:
        """The next turn; UsageError when all are played and the run hasn't ended."""
        held = [m.blocks for m in messages if m.role == "assistant"]
        if self._next is None:  # a conversation that was folded holds fewer, but its last one is among them
            places = [i for i, t in enumerate(self._turns) if held and t.blocks == held[-1]]
            self._next = min((i for i in places if i >= len(held) - 1), default=-1) + 1
        if self._next >= len(self._turns):
            raise UsageError(f"{self.name}: all {len(self._turns)} turns are played and the run has not ended there")
        turn = self._turns[self._next]
        self._next += 1
        return turn
