"""What a reply without a fault becomes, and what goes back in the next turn."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from refactorbench.llm.models import open_model
from refactorbench.llm.protocol import Image, Message, Native, Text, ToolResult, ToolSpec, Turn, Usage
from refactorbench.llm.retry import ManualClock

from .check import assert_good, call, good
from .dialects import ANTHROPIC, ASK, CHAT, DIALECTS, KEY, RESPONSES, SYSTEM, TOOLS, Dialect
from .server import Server, stream


def converse(dialect: Dialect, result: ToolResult, **options: Any) -> tuple[Turn, Any]:
    """(first turn, body of the request that follows it with `result`)."""
    with Server([good(dialect), good(dialect)]) as server:
        model, _ = dialect.open(server.url, **options)
        first = model.turn(SYSTEM, ASK, TOOLS, max_tokens=1000)
        journaled = msgspec.json.decode(msgspec.json.encode(first), type=Turn)
        result = msgspec.structs.replace(result, id=first.tool_uses[0].id)
        second = model.turn(SYSTEM, (*ASK, journaled.message, Message("user", (result,))), TOOLS, max_tokens=1000)
    assert second.stop == "tool_use"
    return first, server.seen[1].body


RESULT = ToolResult("", (Text("a.c"),))


def test_a_reply_becomes_its_blocks_with_exact_usage(dialect: Dialect) -> None:
    outcome = call(dialect, [good(dialect)])
    assert_good(outcome.turn, dialect)
    assert (outcome.turn.attempts, outcome.turn.discarded, outcome.posts, outcome.waits) == (1, Usage(), 1, [])


def test_anthropic_gets_its_thinking_back_signature_and_all() -> None:
    _, body = converse(ANTHROPIC, RESULT)
    assistant, user = body["messages"][1:]
    signed = {"type": "thinking", "thinking": "What is there?", "signature": "c2lnbmVk/+=="}
    assert assistant["content"][0] == signed
    assert assistant["content"][2] == {
        "type": "tool_use",
        "id": "toolu_2",
        "name": "bash",
        "input": {"command": "ls -l é"},
    }
    assert user["content"][0]["tool_use_id"] == "toolu_2" and user["content"][0]["content"][0]["text"] == "a.c"


def test_anthropic_prefix_is_cached_at_no_more_than_four_places_and_stays_the_same() -> None:
    with Server([good(ANTHROPIC)] * 2) as server:
        model, _ = ANTHROPIC.open(server.url)
        more = (*ASK, Message("assistant", (Text("Which?"),)), Message("user", (Text("All."),)))
        model.turn(SYSTEM, ASK, TOOLS, max_tokens=10)
        model.turn(SYSTEM, more, TOOLS, max_tokens=10)
    first, second = (s.raw.decode() for s in server.seen)
    assert second.count("cache_control") == 3 and first.count("cache_control") == 2
    assert server.seen[1].body["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert first.count("ephemeral") and server.seen[0].body["tools"] == server.seen[1].body["tools"]
    assert server.seen[0].body["messages"] == server.seen[1].body["messages"][:1]


def test_openai_gets_its_items_back_verbatim_and_stores_nothing() -> None:
    _, body = converse(RESPONSES, RESULT)
    sent = RESPONSES.reply()[-1]["response"]["output"]
    assert body["input"][1:4] == sent
    assert body["input"][4] == {"type": "function_call_output", "call_id": "call_2", "output": "a.c"}
    assert body["store"] is False and body["include"] == ["reasoning.encrypted_content"]
    assert body["instructions"] == SYSTEM and body["max_output_tokens"] == 1000


def test_openai_keeps_one_cache_key_for_a_conversation_and_another_for_the_next() -> None:
    with Server([good(RESPONSES)] * 3) as server:
        model, _ = RESPONSES.open(server.url)
        model.turn(SYSTEM, ASK, TOOLS, max_tokens=10)
        model.turn(SYSTEM, (*ASK, Message("assistant", (Text("Which?"),)), *ASK), TOOLS, max_tokens=10)
        model.turn("Another system prompt.", ASK, TOOLS, max_tokens=10)
    keys = [s.body["prompt_cache_key"] for s in server.seen]
    assert keys[0] == keys[1] != keys[2]


def test_a_chat_server_gets_its_calls_and_thoughts_back() -> None:
    _, body = converse(CHAT, RESULT)
    system, user, assistant, tool = body["messages"]
    assert (system["role"], user) == ("system", {"role": "user", "content": "List the files."})
    assert assistant["reasoning_content"] == "What is there?" and assistant["content"] == "I look first."
    assert json.loads(assistant["tool_calls"][0]["function"]["arguments"]) == {"command": "ls -l é"}
    assert tool == {"role": "tool", "tool_call_id": "call_2", "content": "a.c"}


def test_another_providers_thinking_is_left_out_and_its_calls_are_kept() -> None:
    turns = {d.name: call(d, [good(d)]).turn for d in DIALECTS}
    for giver in DIALECTS:
        for taker in DIALECTS:
            if giver is taker:
                continue
            turn = turns[giver.name]
            answer = Message("user", (ToolResult(turn.tool_uses[0].id, (Text("a.c"),)),))
            outcome = call(taker, [good(taker)], messages=(*ASK, turn.message, answer))
            raw = outcome.server.seen[0].raw.decode()
            assert "What is there?" not in raw and "c2lnbmVk" not in raw and "Z0FBQUFB" not in raw
            assert raw.count(turn.tool_uses[0].id) == 2 and "ls -l" in raw


def test_pictures_are_shown_where_they_are_taken_and_named_where_not(dialect: Dialect) -> None:
    picture = ToolResult("", (Text("A plot:"), Image("image/png", "iVBORw0KGgo=")))
    _, body = converse(dialect, picture)
    shown = "iVBORw0KGgo=" in json.dumps(body)
    assert shown is (dialect is not CHAT)
    assert shown or "not shown images" in json.dumps(body)
    if dialect is CHAT:
        _, body = converse(CHAT, picture, images=True)
        assert "data:image/png;base64,iVBORw0KGgo=" in json.dumps(body["messages"][-1])


def test_effort_and_extra_fields_are_passed_as_they_are_and_none_is_invented(dialect: Dialect) -> None:
    named = call(dialect, [good(dialect)], effort="xhigh", extra={"temperature": 0.5}).server.seen[0].body
    plain = call(dialect, [good(dialect)]).server.seen[0].body
    where = {
        "anthropic": lambda b: b.get("output_config", {}).get("effort"),
        "openai": lambda b: b.get("reasoning", {}).get("effort"),
        "chat": lambda b: b.get("reasoning_effort"),
    }[dialect.name]
    assert (where(named), named["temperature"]) == ("xhigh", 0.5)
    assert where(plain) is None and "temperature" not in plain and "thinking" not in plain


def test_native_tools_go_to_the_provider_they_name_and_others_get_the_schema(dialect: Dialect) -> None:
    own = {"type": "bash_20250124", "name": "bash"}
    spec = ToolSpec("bash", "Runs a command.", {"type": "object"}, (Native("anthropic", own),))
    with Server([good(dialect)]) as server:
        model, _ = dialect.open(server.url)
        model.turn("", ASK, (spec,), max_tokens=10)
    sent = server.seen[0].body["tools"][0]
    assert (sent.get("type") == "bash_20250124") is (dialect is ANTHROPIC)


ARGUMENTS_THAT_PARSE = '{"command": "rm -r /tmp/x"}'


@pytest.mark.parametrize("calls", [1, 2])
def test_the_last_call_before_the_limit_is_dropped_even_where_it_parses(dialect: Dialect, calls: int) -> None:
    turn = call(dialect, [good(dialect, arguments=ARGUMENTS_THAT_PARSE, stop="max_tokens", calls=calls)]).turn
    assert (turn.stop, turn.cut_call, len(turn.tool_uses)) == ("max_tokens", "bash", calls - 1)
    broken = call(dialect, [good(dialect, arguments='{"command": "rm -r ', stop="max_tokens")]).turn
    assert (broken.stop, broken.cut_call, broken.tool_uses) == ("max_tokens", "bash", ())
    whole = call(dialect, [good(dialect, arguments=ARGUMENTS_THAT_PARSE, calls=calls)]).turn
    assert (whole.stop, whole.cut_call, len(whole.tool_uses)) == ("tool_use", "", calls)


def test_thinking_that_nothing_follows_is_not_sent_back(dialect: Dialect) -> None:
    turn = call(dialect, [good(dialect, calls=0, stop="max_tokens", signed=dialect is not ANTHROPIC)]).turn
    only_thought = Message("assistant", tuple(b for b in turn.blocks if not isinstance(b, Text)))
    outcome = call(dialect, [good(dialect)], messages=(*ASK, only_thought, Message("user", (Text("Go on."),))))
    assert "What is there?" not in outcome.server.seen[0].raw.decode()


def test_a_paused_turn_goes_back_as_it_is() -> None:
    events = ANTHROPIC.reply(calls=0, stop="pause_turn")
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "search", "input": {"q": "x"}}
    events[-2:-2] = [
        {"type": "content_block_start", "index": 2, "content_block": search},
        {"type": "content_block_stop", "index": 2},
    ]
    turn = call(ANTHROPIC, [stream(ANTHROPIC.pieces(events))]).turn
    sent = call(ANTHROPIC, [good(ANTHROPIC)], messages=(*ASK, turn.message)).server.seen[0].body["messages"][1]
    assert turn.stop == "pause" and [b["type"] for b in sent["content"]] == ["thinking", "text", "server_tool_use"]
    assert sent["content"][2] == search


def test_items_without_a_number_and_an_end_that_repeats_none_are_a_reply_too() -> None:
    events = RESPONSES.reply()
    for event in events:
        event.pop("output_index", None)
    events[-1]["response"]["output"] = []
    assert_good(call(RESPONSES, [stream(RESPONSES.pieces(events))]).turn, RESPONSES)


def test_no_arguments_are_none_only_where_none_are_required(dialect: Dialect) -> None:
    turn = call(dialect, [good(dialect, arguments="", tool="status")]).turn
    assert turn.tool_uses[0].input == {}
    broken = call(dialect, [good(dialect, arguments="", tool="bash")] * 3)
    assert broken.error.kind == "malformed_tool_json"


def test_a_reply_without_anything_is_an_empty_turn_and_is_not_sent_back(dialect: Dialect) -> None:
    events = {
        "anthropic": [*dialect.reply()[:1], *dialect.reply(stop="end_turn")[-2:]],
        "openai": [{"type": "response.completed", "response": {"id": "r", "output": [], "usage": {"input_tokens": 3}}}],
        "chat": dialect.reply(stop="stop")[-2:],
    }[dialect.name]
    turn = call(dialect, [stream(dialect.pieces(events))]).turn
    assert (turn.blocks, turn.stop) == ((), "end")


def test_calls_wait_for_results_whatever_the_server_calls_its_stop() -> None:
    assert call(CHAT, [good(CHAT, stop="stop")]).turn.stop == "tool_use"
    assert call(ANTHROPIC, [good(ANTHROPIC, stop="end_turn")]).turn.stop == "tool_use"
    assert call(CHAT, [good(CHAT, stop="stop", calls=0)]).turn.stop == "end"


def test_a_chat_server_that_counts_calls_per_reply_gets_unique_ids() -> None:
    with Server([good(CHAT), good(CHAT)]) as server:
        model, _ = CHAT.open(server.url)
        first = model.turn(SYSTEM, ASK, TOOLS, max_tokens=10)
        answer = Message("user", (ToolResult(first.tool_uses[0].id, (Text("a.c"),)),))
        second = model.turn(SYSTEM, (*ASK, first.message, answer), TOOLS, max_tokens=10)
    use = second.tool_uses[0]
    assert use.id != first.tool_uses[0].id and use.native is not None and use.native.data["id"] == use.id


def test_unnumbered_pieces_of_calls_are_told_apart_by_their_ids() -> None:
    events = CHAT.reply(calls=2)
    for event in events:
        for choice in event["choices"]:
            for piece in choice["delta"].get("tool_calls", []):
                del piece["index"]
    assert [u.id for u in call(CHAT, [stream(CHAT.pieces(events))]).turn.tool_uses] == ["call_2", "call_3"]


def test_usage_that_is_not_told_is_estimated_and_says_so() -> None:
    turn = call(CHAT, [stream(CHAT.pieces(CHAT.reply()[:-1]))]).turn
    assert turn.estimated and turn.usage.input > 20 and turn.usage.output > 20
    assert not call(CHAT, [good(CHAT)]).turn.estimated


def test_kinds_of_events_and_blocks_that_are_not_known_do_no_harm() -> None:
    events = ANTHROPIC.reply()
    unknown = {"type": "server_thing", "id": "x", "value": [1, 2.5, None]}
    events[-2:-2] = [
        {"type": "content_block_start", "index": 9, "content_block": unknown},
        {"type": "content_block_stop", "index": 9},
        {"type": "some_new_event", "index": "x"},
    ]
    turn = call(ANTHROPIC, [stream(ANTHROPIC.pieces(events))]).turn
    assert turn.blocks[-1].native.data == unknown  # type: ignore[union-attr]
    assert len(turn.tool_uses) == 1


def test_pause_and_a_full_context_are_told_apart_from_an_end() -> None:
    for reason, stop in (
        ("pause_turn", "pause"),
        ("model_context_window_exceeded", "context_full"),
        ("end_turn", "end"),
    ):
        assert call(ANTHROPIC, [good(ANTHROPIC, stop=reason, calls=0)]).turn.stop == stop


def test_each_server_gets_its_own_key_and_no_other(monkeypatch: pytest.MonkeyPatch, dialect: Dialect) -> None:
    others = {"OPENAI_API_KEY": "sk-other-1", "ANTHROPIC_API_KEY": "sk-other-2", "REFACTORBENCH_CHAT_KEY": "sk-other-3"}
    others |= {"OPENAI_ORG_ID": "org-other", "OPENAI_PROJECT_ID": "proj-other", "ANTHROPIC_AUTH_TOKEN": "sk-other-4"}
    del others[dialect.variable]
    for variable, value in others.items():
        monkeypatch.setenv(variable, value)
    sent = call(dialect, [good(dialect)]).server.seen[0].headers
    assert KEY in (sent.get("x-api-key", ""), sent.get("authorization", "").removeprefix("Bearer "))
    leaked = [v for v in others.values() if any(v in h for h in sent.values())]
    assert not leaked if dialect is not RESPONSES else set(leaked) <= {"org-other", "proj-other"}


def test_a_proxy_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch, dialect: Dialect) -> None:
    with Server([]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert_good(call(dialect, [good(dialect)]).turn, dialect)
    assert proxy.seen == []


def test_nothing_is_asked_before_the_first_turn(dialect: Dialect) -> None:
    with Server([]) as server:
        dialect.open(server.url)
    assert server.seen == []


def test_a_manual_clock_never_really_sleeps() -> None:
    clock = ManualClock()
    clock.sleep(1e9)
    assert clock.now() == 1000.0 + 1e9


def test_a_chat_server_that_wants_no_key_is_sent_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"OPENAI_API_KEY": "sk-other-1", "ANTHROPIC_API_KEY": "sk-other-2"}
    for variable, value in keys.items():
        monkeypatch.setenv(variable, value)
    with Server([good(CHAT)]) as server:
        open_model(f"chat/m@{server.url}/v1", environ=keys).turn("", ASK, (), max_tokens=10)
    assert server.seen[0].headers["authorization"] == "Bearer none"
