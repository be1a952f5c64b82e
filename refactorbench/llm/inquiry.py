"""One question to a model that may look things up: tools that only read, and an answer through a tool of its own.

There is no state but the conversation: an inquiry that was cut off is asked again from its start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from refactorbench.llm.protocol import (
    Block,
    ChatModel,
    Message,
    ProviderError,
    Text,
    ToolResult,
    ToolSpec,
    ToolUse,
    Usage,
)

REMINDERS = 3  # replies in a row without a call, after which an inquiry ends
REMIND = "Nothing was called. Go on with the tools, and answer with `{answer}` when you have what you need."
CUT = "Your reply was cut off at the limit on its length, and nothing of an unfinished call was done: be briefer."

End = Literal["answered", "turns", "time", "silent", "context", "refused"]
"""Why an inquiry ended. turns, time: the bound on replies, or on working time. silent: replies without a call. context:
the conversation didn't fit. refused: the model doesn't answer such a question, or can't spell a call."""

_ITS_OWN: dict[str, End] = {
    "refusal": "refused", "malformed_tool_json": "refused", "context_overflow": "context", "deadline": "time"
}  # fmt: skip


class Tool(msgspec.Struct, frozen=True):
    """`run` takes the call's input and returns what the model is shown; ToolError when the call is no use."""

    spec: ToolSpec
    run: Callable[[dict[str, Any]], str]


class ToolError(Exception):
    """A call that can't be done; the message is for the model."""


class Inquiry:
    """What was said and used so far; complete after `run`, and as far as it came when that raised.

    `accept` is given each answer and returns a complaint, or "" to take it.
    """

    def __init__(
        self, model: ChatModel, system: str, opening: Sequence[Message], tools: Sequence[Tool], answer: ToolSpec,
        accept: Callable[[dict[str, Any]], str], now: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._model, self._system, self._accept, self._now = model, system, accept, now
        self._waited = 0.0
        self._tools: Mapping[str, Tool] = {t.spec.name: t for t in tools}
        self._answer = answer
        self.messages: list[Message] = list(opening)
        self.usage = Usage()
        self.turns = 0
        self.models: list[str] = []  # that answered, as the provider calls them

    def run(self, turns: int, max_tokens: int, seconds: float) -> End:
        """`seconds` of working time: waiting for a provider's faults to pass doesn't count. Raises ProviderError where
        the provider is at fault: nothing was found out about the question then."""
        silent, start = 0, self._now()
        specs = (*(t.spec for t in self._tools.values()), self._answer)
        while self.turns < turns:
            left = seconds - (self._now() - start - self._waited)
            if left <= 0:
                return "time"
            try:
                turn = self._model.turn(
                    self._system, self.messages, specs, max_tokens=max_tokens, on_wait=self._wait, attempt_s=left
                )
            except ProviderError as e:
                self.usage += e.usage
                if e.kind in _ITS_OWN:
                    return _ITS_OWN[e.kind]
                raise
            self.turns += 1
            self.usage += turn.usage + turn.discarded
            if turn.model and turn.model not in self.models:
                self.models.append(turn.model)
            if turn.blocks:
                self.messages.append(turn.message)
            if turn.stop == "context_full":
                return "context"
            if turn.tool_uses:
                silent = 0
                if self._answered(turn.tool_uses):
                    return "answered"
                continue
            if turn.stop == "pause":
                continue
            silent += 1
            if silent >= REMINDERS:
                return "silent"
            self._say(Text(CUT if turn.stop == "max_tokens" else REMIND.format(answer=self._answer.name)))
        return "turns"

    def _wait(self, seconds: float) -> None:
        self._waited += seconds

    def _answered(self, calls: Sequence[ToolUse]) -> bool:
        """Do every call, in order; True when an answer was taken."""
        results: list[Block] = []
        taken = False
        for call in calls:
            if call.name == self._answer.name:
                complaint = "" if taken else self._accept(call.input)
                taken = taken or not complaint
                results.append(ToolResult(call.id, (Text(complaint or "taken"),), bool(complaint)))
            else:
                results.append(self._do(call))
        self._say(*results)
        return taken

    def _do(self, call: ToolUse) -> ToolResult:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join((*self._tools, self._answer.name))
            return ToolResult(call.id, (Text(f"there is no tool '{call.name}': the tools are {known}"),), True)
        try:
            return ToolResult(call.id, (Text(tool.run(call.input)),))
        except ToolError as e:
            return ToolResult(call.id, (Text(str(e)),), True)

    def _say(self, *blocks: Block) -> None:
        if self.messages and self.messages[-1].role == "user":
            blocks = (*self.messages.pop().blocks, *blocks)
        self.messages.append(Message("user", blocks))


def opening(prefix: str, question: str) -> tuple[Message, ...]:
    """`prefix`, which many questions share and a provider keeps, then the question in a message of its own."""
    said = Message("assistant", (Text("I have read this. What is the question?"),))
    return Message("user", (Text(prefix),)), said, Message("user", (Text(question),))
