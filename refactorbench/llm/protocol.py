"""What every chat model understands, whoever serves it.

A conversation is a tuple of messages; a message is a role and a tuple of blocks. All types are frozen and survive
msgspec's JSON both ways, so a conversation can be journaled turn by turn and taken up again.

Errors of a turn
    CredentialsMissing (UsageError, exit 2)    before anything starts: which variable to set
    ProviderError      (HarnessError, exit 3)  the provider gave no turn; `kind` says why, `owner` is always "provider"
    └── ContextOverflow                        the conversation doesn't fit: fold or summarise it, never replay it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from refactorbench.errors import HarnessError, UsageError

Role = Literal["user", "assistant"]

StopReason = Literal["end", "tool_use", "max_tokens", "context_full", "pause"]
"""end: the model ended its turn. tool_use: it waits for results. max_tokens: cut at the limit on output. context_full:
cut since the context is full. pause: the provider paused a long turn; send the conversation back as it is."""

ErrorKind = Literal[
    "rate_limit",  # 429
    "overloaded",  # 503 529
    "server",  # the other 5xx, 520-524 of gateways included
    "timeout",  # 408 425, and a stream without a byte for too long
    "conflict",  # 409
    "connection",  # refused, reset, no such host
    "truncated_stream",  # a stream that ended before its last event
    "malformed_stream",  # bytes that are no such protocol, or a reply with nothing in it
    "malformed_tool_json",  # arguments of a tool call that are no JSON object
    "refusal",  # safety refusals, after they came back
    "context_overflow",
    "auth",  # 401 403
    "quota",  # no credit left: waiting doesn't help
    "bad_request",  # the other 4xx
    "deadline",  # `deadline` came first; the caller may ask again with a later one
]


class Native(msgspec.Struct, frozen=True):
    """One provider's own spelling of a block or tool, `data` verbatim as it came or shall be sent."""

    provider: str
    data: dict[str, Any]


class Text(msgspec.Struct, frozen=True, tag="text", omit_defaults=True):
    text: str
    native: Native | None = None


class Image(msgspec.Struct, frozen=True, tag="image", omit_defaults=True):
    """`data` is base64; `media_type` is for example "image/png"."""

    media_type: str
    data: str


class ToolUse(msgspec.Struct, frozen=True, tag="tool_use", omit_defaults=True):
    """A call that is complete: one that was cut off or is no JSON object never becomes a block."""

    id: str
    name: str
    input: dict[str, Any]
    native: Native | None = None


class ToolResult(msgspec.Struct, frozen=True, tag="tool_result", omit_defaults=True):
    """The answer to the call `id`; belongs into the user message that follows the call, each call answered once."""

    id: str
    content: tuple[Text | Image, ...]
    is_error: bool = False


class Thinking(msgspec.Struct, frozen=True, tag="thinking", omit_defaults=True):
    """What a provider wants back intact (thinking with its signature, encrypted reasoning); `text` is for readers.

    Sent back verbatim to the provider that made it and left out for any other.
    """

    text: str
    native: Native


Block = Text | Image | ToolUse | ToolResult | Thinking


class Message(msgspec.Struct, frozen=True):
    role: Role
    blocks: tuple[Block, ...]


class ToolSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """`schema` is the JSON schema of the input. `native` is sent instead to the providers that it names."""

    name: str
    description: str
    schema: dict[str, Any]
    native: tuple[Native, ...] = ()


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens by class. The classes are disjoint: `input` was read uncached, `output` excludes `reasoning`."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, f) + getattr(other, f) for f in self.__struct_fields__))

    @property
    def prompt(self) -> int:
        """Tokens that were read: how full the context was."""
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        return self.prompt + self.output + self.reasoning


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One reply.

    `usage` is this reply's (`estimated` from its size where the server tells none); `discarded` is what attempts cost
    that were thrown away, as far as the provider told: both count against a budget. `cut_call` names the tool whose
    call was cut off at a limit and is therefore not in `blocks`. `model` is what the provider says that answered.
    `waited_s` is what was reported through `on_wait`.
    """

    blocks: tuple[Block, ...]
    stop: StopReason
    usage: Usage
    discarded: Usage = Usage()
    attempts: int = 1
    waited_s: float = 0.0
    model: str = ""
    request_id: str = ""
    cut_call: str = ""
    estimated: bool = False

    @property
    def message(self) -> Message:
        """The assistant message to append to the conversation. A turn may be empty: then append nothing."""
        return Message("assistant", self.blocks)

    @property
    def text(self) -> str:
        return "\n".join(b.text for b in self.blocks if isinstance(b, Text))

    @property
    def tool_uses(self) -> tuple[ToolUse, ...]:
        return tuple(b for b in self.blocks if isinstance(b, ToolUse))


class ProviderError(HarnessError):
    """The provider gave no turn. `retryable`: another attempt later may succeed (those within the bound were made).

    `retry_after` is in seconds, as the provider asked. `usage` is what the failed attempts cost, as far as it was told.
    """

    owner = "provider"

    def __init__(
        self,
        message: str,
        *,
        kind: ErrorKind,
        retryable: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
        usage: Usage | None = None,
        attempts: int = 1,
    ) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.retryable = retryable
        self.retry_after = retry_after
        self.status = status
        self.usage = usage or Usage()
        self.attempts = attempts


class ContextOverflow(ProviderError):
    """The conversation and the room for the reply don't fit into the model's context."""

    def __init__(
        self, message: str, *, status: int | None = None, usage: Usage | None = None, attempts: int = 1
    ) -> None:
        super().__init__(message, kind="context_overflow", status=status, usage=usage, attempts=attempts)


class CredentialsMissing(UsageError):
    """A model was named whose key isn't in the environment; the message says which variable to set."""


class ChatModel(Protocol):
    """`name` as the user gave it ("anthropic/NAME"); `images`: whether it is shown images (left out otherwise)."""

    name: str
    images: bool

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
        """Return the next reply. `max_tokens` bounds it, thinking included.

        `deadline` is a reading of `time.monotonic` (or the injected clock) that no attempt and no wait goes past. Time
        that the provider's faults cost (failed attempts and the waits after them, seconds) is told to `on_wait` once it
        has passed, so that an agent's clock can leave it out; `attempt_s` bounds each attempt alone, whatever was
        waited. Raises ProviderError and ContextOverflow.
        """
        ...
