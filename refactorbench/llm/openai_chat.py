"""OpenAI-compatible chat completions at a base URL: vLLM, llama.cpp, Ollama and the like."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import httpx2
import msgspec
import openai

from refactorbench.llm.adapter import Adapter, shares, whole
from refactorbench.llm.blocks import arguments, data_url, fault, native_of, native_tool, sendable
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

PROVIDER = "chat"
_STOPS: dict[str, StopReason] = {
    "stop": "end",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
}
_THOUGHTS = ("reasoning_content", "reasoning")  # servers differ in the name; it goes back under the one it came by


class OpenAIChat(Adapter):
    sdk_error = openai.OpenAIError

    def creator(self, http: httpx2.Client) -> Callable[..., Any]:
        client = openai.OpenAI(
            api_key=self.access.api_key or "none",  # the library insists on one
            organization="",  # another party's server: what the environment holds for OpenAI isn't for it
            project="",
            base_url=self.access.base_url,
            max_retries=0,
            http_client=http,
        )
        return client.chat.completions.create

    def reply(self, request: Request) -> _Reply:
        known = {b.id for m in request.messages for b in m.blocks if isinstance(b, ToolUse)}
        return _Reply(request.tools, known)

    def body(self, request: Request) -> dict[str, Any]:
        messages = [m for message in sendable(request.messages, PROVIDER, self.images) for m in _messages(message)]
        if request.system:
            messages.insert(0, {"role": "system", "content": request.system})
        body: dict[str, Any] = {
            "model": self.access.model,
            "messages": messages,
            "max_tokens": request.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = [_tool(spec) for spec in request.tools]
        if self.access.effort:
            body["reasoning_effort"] = self.access.effort
        return body


def _messages(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "assistant":
        yield _assistant(message.blocks)
        return
    parts: list[dict[str, Any]] = []
    for block in message.blocks:
        if isinstance(block, ToolResult):
            text = "\n".join(c.text for c in block.content if isinstance(c, Text))
            yield {"role": "tool", "tool_call_id": block.id, "content": text}
            parts += [_part(c) for c in block.content if isinstance(c, Image)]  # a tool message holds text only
        elif isinstance(block, Text | Image):
            parts.append(_part(block))
    if len(parts) == 1 and parts[0]["type"] == "text":
        yield {"role": "user", "content": parts[0]["text"]}  # the form that every server takes
    elif parts:
        yield {"role": "user", "content": parts}


def _assistant(blocks: Sequence[Block]) -> dict[str, Any]:
    text = "\n".join(b.text for b in blocks if isinstance(b, Text))
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    for block in blocks:
        if isinstance(block, Thinking):
            message |= block.native.data
        elif isinstance(block, ToolUse):
            said = msgspec.json.encode(block.input).decode()
            plain = {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": said}}
            message.setdefault("tool_calls", []).append(native_of(block, PROVIDER) or plain)
    return message


def _part(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    return {"type": "image_url", "image_url": {"url": data_url(block)}}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.schema}
    return dict(native_tool(spec, PROVIDER) or {"type": "function", "function": function})


class _Function(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | None = None


class _Piece(msgspec.Struct, frozen=True):
    index: int | None = None
    id: str | None = None
    function: _Function = _Function()


class _Choice(msgspec.Struct, frozen=True):
    delta: dict[str, Any] | None = None
    finish_reason: str | None = None
    index: int = 0


class _Chunk(msgspec.Struct, frozen=True):
    id: str | None = None
    model: str | None = None
    choices: list[_Choice] = []
    usage: dict[str, Any] | None = None


class _Call:
    def __init__(self) -> None:
        self.id = self.name = self.arguments = ""


class _Reply:
    """A reply as its chunks come in; a turn only once a reason for its end was told."""

    def __init__(self, tools: Sequence[ToolSpec], known: set[str]) -> None:
        self._tools, self._known = tools, known
        self._text = self._thought = self._thought_key = ""
        self._calls: dict[int, _Call] = {}
        self._reason: str | None = None
        self._id = self._model = ""
        self.usage = Usage()

    def add(self, data: dict[str, Any]) -> None:
        try:
            chunk = msgspec.convert(data, _Chunk)
            for choice in chunk.choices[:1]:
                self._reason = choice.finish_reason or self._reason
                self._grow(choice.delta or {})
        except msgspec.ValidationError as e:
            raise fault("malformed_stream", f"a chunk is of no known shape: {e}") from e
        self._id, self._model = chunk.id or self._id, chunk.model or self._model
        if chunk.usage:
            self.usage = _usage(chunk.usage)

    def _grow(self, delta: dict[str, Any]) -> None:
        if delta.get("refusal"):
            raise fault("refusal", "the model's reply is a refusal")
        self._text += msgspec.convert(delta.get("content") or "", str)
        for key in _THOUGHTS:
            if isinstance(delta.get(key), str) and self._thought_key in ("", key):
                self._thought, self._thought_key = self._thought + delta[key], key
        for piece in msgspec.convert(delta.get("tool_calls") or [], list[_Piece]):
            call = self._call(piece)
            call.id = piece.id or call.id
            call.name += piece.function.name or ""
            call.arguments += piece.function.arguments or ""

    def _call(self, piece: _Piece) -> _Call:
        """The call that `piece` belongs to; servers that number none begin each with a new id."""
        index = piece.index
        if index is None:
            last = len(self._calls) - 1
            begins = last < 0 or (piece.id is not None and piece.id != self._calls[last].id)
            index = last + 1 if begins else last
        return self._calls.setdefault(index, _Call())

    def turn(self) -> Turn:
        if self._reason is None:
            raise fault("truncated_stream", "the stream ended before a finish_reason")
        if self._reason == "content_filter":
            raise fault("refusal", "the model's reply was stopped by the provider's content filter")
        if self._reason not in _STOPS:
            raise fault("malformed_stream", f"finish_reason '{self._reason}' is unknown")
        stop = _STOPS[self._reason]
        calls = [self._calls[i] for i in sorted(self._calls)]
        cut_call = calls.pop().name if calls and stop == "max_tokens" else ""
        blocks: list[Block] = []
        if self._thought:
            blocks.append(Thinking(self._thought, Native(PROVIDER, {self._thought_key: self._thought})))
        if self._text:
            blocks.append(Text(self._text))
        blocks += [self._use(call) for call in calls]
        return whole(blocks, stop, self.usage, model=self._model, request_id=self._id, cut_call=cut_call)

    def _use(self, call: _Call) -> ToolUse:
        """Servers that count calls per reply, or give no id at all, get ids that are unique in the conversation."""
        if not call.name:
            raise fault("malformed_stream", "a tool call has no name")
        id_, n = call.id, len(self._known)
        while not id_ or id_ in self._known:
            id_, n = f"call_{n}", n + 1
        self._known.add(id_)
        function = {"name": call.name, "arguments": call.arguments or "{}"}
        native = Native(PROVIDER, {"id": id_, "type": "function", "function": function})
        return ToolUse(id_, call.name, arguments(call.arguments, call.name, self._tools), native)


def _usage(told: Mapping[str, Any]) -> Usage:
    ins, outs = told.get("prompt_tokens_details") or {}, told.get("completion_tokens_details") or {}
    read, reasoning = ins.get("cached_tokens") or 0, outs.get("reasoning_tokens") or 0
    return shares(told, "prompt_tokens", "completion_tokens", read=read, reasoning=reasoning)
