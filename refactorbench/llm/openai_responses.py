"""OpenAI Responses through the official library: streamed, nothing stored there, reasoning items returned intact."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import httpx2
import msgspec
import openai

from refactorbench.llm.adapter import Adapter, shares, whole
from refactorbench.llm.blocks import arguments, data_url, fault, native_of, native_tool, sendable
from refactorbench.llm.faults import from_status
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

PROVIDER = "openai"


class OpenAIResponses(Adapter):
    sdk_error = openai.OpenAIError

    def creator(self, http: httpx2.Client) -> Callable[..., Any]:
        a = self.access
        client = openai.OpenAI(api_key=a.api_key, base_url=a.base_url, max_retries=0, http_client=http)
        return client.responses.create

    def reply(self, request: Request) -> _Reply:
        return _Reply(request.tools)

    def body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.access.model,
            "input": list(_items(sendable(request.messages, PROVIDER, images=True))),
            "max_output_tokens": request.max_tokens,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": _cache_key(request),
            "stream": True,
        }
        if request.system:
            body["instructions"] = request.system
        if request.tools:
            body["tools"] = [_tool(spec) for spec in request.tools]
        if self.access.effort:
            body["reasoning"] = {"effort": self.access.effort}
        return body


def _cache_key(request: Request) -> str:
    """The same for all turns of a conversation, so that they reach the machine that holds its prefix."""
    head = msgspec.json.encode((request.system, request.tools, request.messages[:1]))
    return hashlib.sha256(head).hexdigest()[:32]


def _items(messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
    custom = {b.id for m in messages for b in m.blocks if isinstance(b, ToolUse) and _is_custom(b)}
    for message in messages:
        parts: list[dict[str, Any]] = []
        for block in message.blocks:
            if isinstance(block, Text | Image) and (message.role == "user" or isinstance(block, Image)):
                parts.append(_part(block))
                continue
            if parts:
                yield {"role": "user", "content": parts}
                parts = []
            yield _item(block, custom)
        if parts:
            yield {"role": "user", "content": parts}


def _item(block: Block, custom: set[str]) -> dict[str, Any]:
    match block:
        case ToolResult():
            kind = "custom_tool_call_output" if block.id in custom else "function_call_output"
            only_text = all(isinstance(c, Text) for c in block.content)
            parts = [_part(c) for c in block.content]
            return {
                "type": kind,
                "call_id": block.id,
                "output": "\n".join(p["text"] for p in parts) if only_text else parts,
            }
        case Thinking():
            return dict(block.native.data)
        case ToolUse():
            said = msgspec.json.encode(block.input).decode()
            call = {"type": "function_call", "call_id": block.id, "name": block.name, "arguments": said}
            return dict(native_of(block, PROVIDER) or call)
        case Text():
            text = {"role": "assistant", "content": [{"type": "output_text", "text": block.text}]}
            return dict(native_of(block, PROVIDER) or text)
        case Image():
            return {"role": "user", "content": [_part(block)]}


def _part(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text}
    return {"type": "input_image", "image_url": data_url(block), "detail": "auto"}


def _is_custom(call: ToolUse) -> bool:
    return (native_of(call, PROVIDER) or {}).get("type") == "custom_tool_call"


def _tool(spec: ToolSpec) -> dict[str, Any]:
    plain = {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.schema,
        "strict": False,
    }
    return dict(native_tool(spec, PROVIDER) or plain)


class _Response(msgspec.Struct, frozen=True):
    id: str = ""
    model: str = ""
    output: list[dict[str, Any]] = []
    usage: dict[str, Any] | None = None
    incomplete_details: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class _ItemDone(msgspec.Struct, frozen=True):
    item: dict[str, Any]
    output_index: int | None = None  # llama.cpp tells none


class _Reply:
    """A reply as its events come in; whole items only, so a call that is cut off never looks like a call."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = tools
        self._done: dict[int, dict[str, Any]] = {}
        self._end: _Response | None = None
        self._why = ""
        self.usage = Usage()

    def add(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        try:
            if kind == "response.output_item.done":
                done = msgspec.convert(event, _ItemDone)
                self._done[len(self._done) if done.output_index is None else done.output_index] = done.item
            elif kind in ("response.completed", "response.incomplete", "response.failed"):
                self._end = msgspec.convert(event.get("response"), _Response)
                self._why = str(kind).removeprefix("response.")
                self.usage = _usage(self._end.usage or {})
        except msgspec.ValidationError as e:
            raise fault("malformed_stream", f"event {kind}: {e}") from e
        if kind == "error" or self._why == "failed":
            said = event if kind == "error" else (self._end.error if self._end else None)
            # the event's own type says nothing: an error's word is its code
            body = {k: v for k, v in (said or {}).items() if k in ("code", "message")}
            raise from_status(None, body, {}, 0.0, fallback="the response failed")

    def turn(self) -> Turn:
        if self._end is None:
            raise fault("truncated_stream", "the stream ended before response.completed")
        reason = (self._end.incomplete_details or {}).get("reason")
        if reason == "content_filter":
            raise fault("refusal", "the model's reply was stopped by the provider's content filter")
        if self._why == "incomplete" and reason != "max_output_tokens":
            raise fault("malformed_stream", f"the response is incomplete for the unknown reason {reason!r}")
        stop: StopReason = "max_tokens" if self._why == "incomplete" else "end"
        items = self._end.output or [self._done[i] for i in sorted(self._done)]
        cut_call = ""
        if stop == "max_tokens" and items and items[-1].get("status") != "completed":
            last = items.pop()
            cut_call = str(last.get("name", "")) if last.get("type") in ("function_call", "custom_tool_call") else ""
            if last.get("type") == "message":
                items.append(last)  # text that was cut is still text
        blocks = [self._block(item) for item in items]
        end = self._end
        return whole(blocks, stop, self.usage, model=end.model, request_id=end.id, cut_call=cut_call)

    def _block(self, item: dict[str, Any]) -> Block:
        native = Native(PROVIDER, item)
        match item:
            case {"type": "message", "content": list(parts)}:
                if any(p.get("type") == "refusal" for p in parts):
                    raise fault("refusal", "the model's reply is a refusal")
                return Text("".join(str(p.get("text", "")) for p in parts), native)
            case {"type": "function_call", "call_id": str(id_), "name": str(name), "arguments": str(said)}:
                return ToolUse(id_, name, arguments(said, name, self._tools), native)
            case {"type": "custom_tool_call", "call_id": str(id_), "name": str(name), "input": str(said)}:
                return ToolUse(id_, name, {"input": said}, native)
            case {"type": "reasoning"}:
                summary = item.get("summary") or []
                return Thinking("\n".join(str(p.get("text", "")) for p in summary), native)
            case {"type": str(kind)} if kind not in ("message", "function_call", "custom_tool_call"):
                return Thinking("", native)
            case _:
                raise fault("malformed_stream", f"an output item is of no known shape: {str(item)[:200]}")


def _usage(told: Mapping[str, Any]) -> Usage:
    ins, outs = told.get("input_tokens_details") or {}, told.get("output_tokens_details") or {}
    read, written = ins.get("cached_tokens") or 0, ins.get("cache_write_tokens") or 0
    reasoning = outs.get("reasoning_tokens") or 0
    return shares(told, "input_tokens", "output_tokens", read=read, written=written, reasoning=reasoning)
