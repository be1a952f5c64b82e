"""What the adapters share: which blocks go back to which provider, and the reading of a call's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from refactorbench.llm.protocol import (
    Block,
    ErrorKind,
    Image,
    Message,
    ProviderError,
    StopReason,
    Text,
    Thinking,
    ToolResult,
    ToolSpec,
    ToolUse,
)

NO_IMAGE = Text("[an image stood here; this model is not shown images]")

_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")


def native_of(block: Text | ToolUse | Thinking, provider: str) -> dict[str, Any] | None:
    """The provider's own spelling of `block`, where this provider made it."""
    return block.native.data if block.native is not None and block.native.provider == provider else None


def sendable(messages: Sequence[Message], provider: str, images: bool) -> list[Message]:
    """The conversation as `provider` takes it.

    Other providers' thinking is left out, and so is thinking that nothing follows in its message (refused by all, and
    of no use to any), empty text, and pictures where the model is shown none. Messages that become empty go too.
    """
    result = []
    for message in messages:
        blocks = [_shown(b, images) for b in message.blocks if not _is_foreign(b, provider) and not _is_blank(b)]
        while blocks and _is_thought(blocks[-1]):
            blocks.pop()
        if blocks:
            result.append(Message(message.role, tuple(blocks)))
    return result


def _is_thought(block: Block) -> bool:
    """False for the other things that a provider wants back, such as its own tools' calls."""
    return isinstance(block, Thinking) and block.native.data.get("type", "thinking") in _THOUGHTS


def _is_foreign(block: Block, provider: str) -> bool:
    return isinstance(block, Thinking) and block.native.provider != provider


def _is_blank(block: Block) -> bool:
    return isinstance(block, Text) and not block.text.strip() and block.native is None


def _shown(block: Block, images: bool) -> Block:
    if images:
        return block
    if isinstance(block, Image):
        return NO_IMAGE
    if isinstance(block, ToolResult):
        return msgspec.structs.replace(
            block, content=tuple(NO_IMAGE if isinstance(c, Image) else c for c in block.content)
        )
    return block


def native_tool(spec: ToolSpec, provider: str) -> dict[str, Any] | None:
    return next((n.data for n in spec.native if n.provider == provider), None)


def arguments(text: str, name: str, tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """The arguments of a call of `name`. Nothing at all means none only where none is required."""
    if not text.strip() and not any(spec.schema.get("required") for spec in tools if spec.name == name):
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as e:
        said = f"the arguments of a call of '{name}' are no JSON object ({e}): {text[:200]!r}"
        raise fault("malformed_tool_json", said) from e


def finished(blocks: list[Block], stop: StopReason) -> StopReason:
    """Calls that are complete wait for results, whatever the server calls its stop; a promised call must be there."""
    calls = any(isinstance(b, ToolUse) for b in blocks)
    if stop == "tool_use" and not calls:
        raise fault("malformed_stream", "the reply announces a tool call and holds none")
    return "tool_use" if calls and stop == "end" else stop


def unique_calls(blocks: list[Block]) -> None:
    ids = [b.id for b in blocks if isinstance(b, ToolUse)]
    if len(set(ids)) != len(ids) or "" in ids:
        raise fault("malformed_stream", f"the reply's calls have the ids {ids}: each must have its own")


def fault(kind: ErrorKind, text: str) -> ProviderError:
    return ProviderError(text, kind=kind, retryable=True)


def data_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{image.data}"
