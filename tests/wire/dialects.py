"""The three protocols as their servers speak them: the same reply in each, and each one's errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from refactorbench.llm.models import open_model
from refactorbench.llm.protocol import Message, Text, ToolSpec, Usage
from refactorbench.llm.retry import ManualClock, Policy, RetriedModel

SYSTEM = "You carry a repository over."
ASK = (Message("user", (Text("List the files."),)),)
BASH = ToolSpec("bash", "Runs a command.", {"type": "object", "properties": {}, "required": ["command"]})
STATUS = ToolSpec("status", "Tells the time left.", {"type": "object", "properties": {}})
TOOLS = (BASH, STATUS)
ARGUMENTS = '{"command": "ls -l \\u00e9"}'
TEXT = "I look first."
THOUGHT = "What is there?"
KEY = "sk-secret-of-the-test"

Events = list[dict[str, Any]]


@dataclass(frozen=True)
class Dialect:
    name: str
    variable: str
    usage: Usage
    reply: Callable[..., Events]
    encode: Callable[[dict[str, Any]], bytes]
    error: Callable[[str, str], dict[str, Any]]  # (word, message) -> body of an HTTP error
    stream_error: Callable[[str, str], dict[str, Any]]  # the same as an event
    tail: bytes = b""
    suffix: str = ""
    extra: dict[str, str] = field(default_factory=dict)

    def pieces(self, events: Events) -> list[bytes]:
        return [*(self.encode(e) for e in events), *([self.tail] if self.tail else [])]

    def open(self, url: str, **options: Any) -> tuple[RetriedModel, ManualClock]:
        """The model against `url`, on a clock that never really sleeps unless another is given."""
        clock = options.pop("clock", None) or ManualClock()
        policy = options.pop("policy", None) or Policy()
        base = url + self.suffix
        name = f"chat/some/model@{base}" if self.name == "chat" else f"{self.name}/model"
        environ = {self.variable: KEY, "ANTHROPIC_BASE_URL": base, "OPENAI_BASE_URL": base, **self.extra}
        model = open_model(name, environ=environ, clock=clock, policy=policy, **options)
        assert isinstance(model, RetriedModel)
        return model, clock


def named_event(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def plain_event(event: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(event)}\n\n".encode()


def anthropic_reply(
    arguments: str = ARGUMENTS, stop: str = "tool_use", tool: str = "bash", calls: int = 1, signed: bool = True
) -> Events:
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    usage = {"input_tokens": 100, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 20, "output_tokens": 1}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "model-1", "content": [], "usage": usage}
    events: Events = [
        {"type": "message_start", "message": head},
        {"type": "content_block_start", "index": 0, "content_block": thinking},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "What is "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "there?"}},
    ]
    if signed:
        signature = {"type": "signature_delta", "signature": "c2lnbmVk/+=="}
        events.append({"type": "content_block_delta", "index": 0, "delta": signature})
    events += [
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "I look "}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "first."}},
        {"type": "content_block_stop", "index": 1},
    ]
    for n in range(2, 2 + calls):
        use = {"type": "tool_use", "id": f"toolu_{n}", "name": tool, "input": {}}
        events.append({"type": "content_block_start", "index": n, "content_block": use})
        half = len(arguments) // 2
        for part in (arguments[:half], arguments[half:]):
            delta = {"type": "input_json_delta", "partial_json": part}
            events.append({"type": "content_block_delta", "index": n, "delta": delta})
        events.append({"type": "content_block_stop", "index": n})
    told = {"output_tokens": 30, "output_tokens_details": {"thinking_tokens": 12}}
    events.append({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": told})
    events.append({"type": "message_stop"})
    return events


def responses_reply(
    arguments: str = ARGUMENTS, stop: str = "completed", tool: str = "bash", calls: int = 1, signed: bool = True
) -> Events:
    why = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}.get(stop)
    whole = "incomplete" if stop == "max_tokens" else "completed"
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": THOUGHT}]}
    if signed:
        reasoning["encrypted_content"] = "Z0FBQUFB/+=="
    part = {"type": "output_text", "text": TEXT, "annotations": []}
    items: Events = [
        reasoning,
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "phase": "commentary",
            "content": [part],
        },
    ]
    for n in range(2, 2 + calls):
        call = {"type": "function_call", "id": f"fc_{n}", "call_id": f"call_{n}", "name": tool, "arguments": arguments}
        items.append({**call, "status": whole})
    usage = {
        "input_tokens": 160,
        "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 20},
        "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 12},
        "total_tokens": 190,
    }
    response = {"id": "resp_1", "object": "response", "model": "model-1", "output": []}
    events: Events = [{"type": "response.created", "response": {**response, "status": "in_progress"}}]
    for n, item in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": n, "item": item})
        if item["type"] == "message":
            delta = {"type": "response.output_text.delta", "output_index": n, "content_index": 0, "item_id": "msg_1"}
            events.append({**delta, "delta": TEXT})
        events.append({"type": "response.output_item.done", "output_index": n, "item": item})
    status = "incomplete" if why else "completed"
    details = {"reason": why} if why else None
    end = {**response, "status": status, "output": items, "usage": usage, "incomplete_details": details}
    events.append({"type": f"response.{status}", "response": end})
    return [{**e, "sequence_number": n} for n, e in enumerate(events)]


def chat_reply(
    arguments: str = ARGUMENTS, stop: str = "tool_calls", tool: str = "bash", calls: int = 1, signed: bool = True
) -> Events:
    reason = {"max_tokens": "length", "refusal": "content_filter"}.get(stop, stop)
    deltas: Events = [
        {"role": "assistant", "content": None},
        {"reasoning_content": "What is "},
        {"reasoning_content": "there?"},
        {"content": "I look "},
        {"content": "first."},
    ]
    for n in range(calls):
        head = {"index": n, "id": f"call_{n + 2}", "type": "function", "function": {"name": tool, "arguments": ""}}
        deltas.append({"tool_calls": [head]})
        half = len(arguments) // 2
        for part in (arguments[:half], arguments[half:]):
            deltas.append({"tool_calls": [{"index": n, "function": {"arguments": part}}]})
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "model-1"}
    events = [{**chunk, "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    events.append({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    usage = {
        "prompt_tokens": 140,
        "completion_tokens": 30,
        "total_tokens": 170,
        "prompt_tokens_details": {"cached_tokens": 40},
        "completion_tokens_details": {"reasoning_tokens": 12},
    }
    events.append({**chunk, "choices": [], "usage": usage})
    return events


def anthropic_error(word: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": word, "message": message}}


def openai_error(word: str, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": word}}


def responses_stream_error(word: str, message: str) -> dict[str, Any]:
    error = {"code": word, "message": message}
    return {"type": "response.failed", "response": {"id": "resp_1", "status": "failed", "output": [], "error": error}}


ANTHROPIC = Dialect(
    "anthropic",
    "ANTHROPIC_API_KEY",
    Usage(input=100, cache_read=40, cache_write=20, output=18, reasoning=12),
    anthropic_reply,
    named_event,
    anthropic_error,
    anthropic_error,
)
RESPONSES = Dialect(
    "openai",
    "OPENAI_API_KEY",
    Usage(input=100, cache_read=40, cache_write=20, output=18, reasoning=12),
    responses_reply,
    named_event,
    openai_error,
    responses_stream_error,
    suffix="/v1",
)
CHAT = Dialect(
    "chat",
    "REFACTORBENCH_CHAT_KEY",
    Usage(input=100, cache_read=40, output=18, reasoning=12),
    chat_reply,
    plain_event,
    openai_error,
    lambda word, message: {"error": {"message": message, "type": word, "code": word}},
    tail=b"data: [DONE]\n\n",
    suffix="/v1",
)
DIALECTS = (ANTHROPIC, RESPONSES, CHAT)
