"""Anthropic Messages through the official library: streamed, cached, thinking blocks returned intact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anthropic
import httpx2
import msgspec

from refactorbench.llm.adapter import Adapter, whole
from refactorbench.llm.blocks import arguments, fault, native_of, native_tool, sendable
from refactorbench.llm.protocol import (
    Block,
    Image,
    Message,
    Native,
    StopReason,
    Text,
    Thinking,
    ToolResult,
    ToolSpec,
    ToolUse,
    Turn,
    Usage,
)
from refactorbench.llm.retry import Request

PROVIDER = "anthropic"
_STOPS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "pause_turn": "pause",
    "model_context_window_exceeded": "context_full",
}
_CACHE = {"cache_control": {"type": "ephemeral"}}
_CACHED_MESSAGES = 2  # the newest is written, the one before it is what the last turn wrote


class AnthropicMessages(Adapter):
    sdk_error = anthropic.AnthropicError

    def creator(self, http: httpx2.Client) -> Callable[..., Any]:
        a = self.access
        client = anthropic.Anthropic(
            api_key=a.api_key or None,
            auth_token=a.auth_token or None,
            base_url=a.base_url,
            max_retries=0,
            http_client=http,
        )
        return client.messages.create

    def reply(self, request: Request) -> _Reply:
        return _Reply(request.tools)

    def body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.access.model,
            "max_tokens": request.max_tokens,
            "messages": _messages(request.messages),
            "stream": True,
        }
        if request.system:
            body["system"] = [{"type": "text", "text": request.system, **_CACHE}]
        if request.tools:
            body["tools"] = [_tool(spec) for spec in request.tools]
            if not request.system:
                body["tools"][-1] |= _CACHE
        if self.access.effort:
            body["output_config"] = {"effort": self.access.effort}
            body["thinking"] = {"type": "adaptive"}
        return body


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = [
        {"role": m.role, "content": [_block(b) for b in m.blocks]} for m in sendable(messages, PROVIDER, images=True)
    ]
    for message in [m for m in result if m["role"] == "user"][-_CACHED_MESSAGES:]:
        message["content"][-1] |= _CACHE
    return result


def _block(block: Block) -> dict[str, Any]:
    match block:
        case Image():
            source = {"type": "base64", "media_type": block.media_type, "data": block.data}
            return {"type": "image", "source": source}
        case ToolResult():
            content = [_block(c) for c in block.content if not isinstance(c, Text) or c.text.strip()]
            return {"type": "tool_result", "tool_use_id": block.id, "content": content, "is_error": block.is_error}
        case Thinking():
            return dict(block.native.data)
        case Text():
            return dict(native_of(block, PROVIDER) or {"type": "text", "text": block.text})
        case ToolUse():
            plain = {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
            return dict(native_of(block, PROVIDER) or plain)


def _tool(spec: ToolSpec) -> dict[str, Any]:
    plain = {"name": spec.name, "description": spec.description, "input_schema": spec.schema}
    return dict(native_tool(spec, PROVIDER) or plain)


class _Tokens(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_details: dict[str, Any] | None = None


class _Head(msgspec.Struct, frozen=True):
    id: str = ""
    model: str = ""
    usage: _Tokens = _Tokens()


class _Start(msgspec.Struct, frozen=True, tag="message_start"):
    message: _Head


class _BlockStart(msgspec.Struct, frozen=True, tag="content_block_start"):
    index: int
    content_block: dict[str, Any]


class _BlockDelta(msgspec.Struct, frozen=True, tag="content_block_delta"):
    index: int
    delta: dict[str, Any]


class _BlockStop(msgspec.Struct, frozen=True, tag="content_block_stop"):
    index: int


class _Why(msgspec.Struct, frozen=True):
    stop_reason: str | None = None


class _MessageDelta(msgspec.Struct, frozen=True, tag="message_delta"):
    delta: _Why
    usage: _Tokens = _Tokens()


class _Stop(msgspec.Struct, frozen=True, tag="message_stop"):
    pass


_Event = _Start | _BlockStart | _BlockDelta | _BlockStop | _MessageDelta | _Stop
_KNOWN = frozenset(
    ("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta")
) | {"message_stop"}


class _Reply:
    """A reply as its events come in; a turn only once the last of them is there."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = tools
        self._counts: dict[str, int] = {}
        self._head = _Head()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._json: dict[int, str] = {}
        self._open: set[int] = set()
        self._reason: str | None = None
        self._complete = False

    @property
    def usage(self) -> Usage:
        c = self._counts
        thinking = c.get("thinking", 0)
        return Usage(
            input=c.get("input_tokens", 0),
            cache_read=c.get("cache_read_input_tokens", 0),
            cache_write=c.get("cache_creation_input_tokens", 0),
            output=c.get("output_tokens", 0) - thinking,
            reasoning=thinking,
        )

    def add(self, data: dict[str, Any]) -> None:
        if data.get("type") not in _KNOWN:
            return  # kinds of events may be added to the protocol at any time
        try:
            event = msgspec.convert(data, _Event)
        except msgspec.ValidationError as e:
            raise fault("malformed_stream", f"event {data.get('type')}: {e}") from e
        match event:
            case _Start():
                self._head = event.message
                self._count(event.message.usage)
            case _BlockStart():
                self._blocks[event.index] = dict(event.content_block)
                self._open.add(event.index)
            case _BlockDelta():
                self._grow(event.index, event.delta)
            case _BlockStop():
                self._open.discard(event.index)
            case _MessageDelta():
                self._reason = event.delta.stop_reason or self._reason
                self._count(event.usage)
            case _Stop():
                self._complete = True

    def _count(self, tokens: _Tokens) -> None:
        """Counts are running totals: a later one replaces, and none leaves what was told."""
        told = {f: getattr(tokens, f) for f in tokens.__struct_fields__[:4]}
        told["thinking"] = (tokens.output_tokens_details or {}).get("thinking_tokens")
        self._counts |= {k: v for k, v in told.items() if isinstance(v, int)}

    def _grow(self, index: int, delta: dict[str, Any]) -> None:
        block = self._blocks.get(index)
        if block is None or index not in self._open:
            raise fault("malformed_stream", f"a piece came for block {index}, which isn't open")
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                block["text"] = block.get("text", "") + text
            case {"type": "thinking_delta", "thinking": str(text)}:
                block["thinking"] = block.get("thinking", "") + text
            case {"type": "signature_delta", "signature": str(text)}:
                block["signature"] = text
            case {"type": "input_json_delta", "partial_json": str(text)}:
                self._json[index] = self._json.get(index, "") + text
            case {"type": "citations_delta", "citation": citation}:
                block["citations"] = [*(block.get("citations") or []), citation]

    def turn(self) -> Turn:
        if not self._complete or self._reason is None:
            raise fault("truncated_stream", "the stream ended before message_stop")
        if self._open:
            raise fault("malformed_stream", f"blocks {sorted(self._open)} never ended")
        if self._reason == "refusal":
            raise fault("refusal", "the model's reply was stopped as a refusal (stop_reason: refusal)")
        if self._reason not in _STOPS:
            raise fault("malformed_stream", f"stop_reason '{self._reason}' is unknown")
        stop = _STOPS[self._reason]
        indexes = sorted(self._blocks)
        cut_call = self._drop_cut(indexes) if stop in ("max_tokens", "context_full") else ""
        blocks = [self._finished(i) for i in indexes]
        head = self._head
        return whole(blocks, stop, self.usage, model=head.model, request_id=head.id, cut_call=cut_call)

    def _drop_cut(self, indexes: list[int]) -> str:
        """Drop the last block where it was cut in the middle: a call, even one that parses, or unsigned thinking."""
        last = self._blocks[indexes[-1]] if indexes else {}
        if last.get("type") == "tool_use":
            indexes.pop()
            return str(last.get("name", ""))
        if last.get("type") == "thinking" and not last.get("signature"):
            indexes.pop()
        return ""

    def _finished(self, index: int) -> Block:
        block = self._blocks[index]
        match block:
            case {"type": "text", "text": str(text)}:
                return Text(text, Native(PROVIDER, block) if block.get("citations") else None)
            case {"type": "thinking", "thinking": str(text)}:
                return Thinking(text, Native(PROVIDER, block))
            case {"type": "tool_use", "id": str(id_), "name": str(name)}:
                if index in self._json or not block.get("input"):
                    block["input"] = arguments(self._json.get(index, ""), name, self._tools)
                more = block.keys() - {"type", "id", "name", "input"}
                return ToolUse(id_, name, block["input"], Native(PROVIDER, block) if more else None)
            case {"type": str(kind)} if kind not in ("text", "thinking", "tool_use"):
                if index in self._json:
                    block["input"] = arguments(self._json[index], kind, ())
                return Thinking("", Native(PROVIDER, block))
            case _:
                raise fault("malformed_stream", f"block {index} is no block: {str(block)[:200]}")
