"""Streams that break, lie or fall silent never become a reply: the control stands beside each rule."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from refactorbench.llm.protocol import ContextOverflow, ErrorKind, ProviderError, Usage
from refactorbench.llm.retry import SystemClock

from .check import BIG, assert_good, call, good
from .dialects import ANTHROPIC, CHAT, RESPONSES, Dialect
from .garbage import GARBAGE
from .server import Reply, Server, drop, hang, raw, reset, status, stream

# dropped and truncated


@pytest.mark.parametrize("fault", [drop, reset], ids=["drop", "reset"])
def test_a_connection_that_is_dropped_before_a_byte_is_tried_again(dialect: Dialect, fault: Reply) -> None:
    outcome = call(dialect, [fault, fault, good(dialect)])
    assert_good(outcome.turn, dialect)
    assert (outcome.posts, outcome.turn.discarded) == (3, Usage())


def test_an_address_where_nobody_answers_is_given_up_soon_and_an_outage_later_is_not(dialect: Dialect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    model, clock = dialect.open(url)
    with pytest.raises(ProviderError, match=r"no connection to http://127.0.0.1") as e:
        model.turn("", BIG, (), max_tokens=10)
    assert (e.value.kind, e.value.retryable, e.value.attempts, len(clock.slept)) == ("connection", True, 5, 4)
    with Server([good(dialect)]) as server:
        model, clock = dialect.open(server.url)
        model.turn("", BIG, (), max_tokens=10)
    with pytest.raises(ProviderError) as later:
        model.turn("", BIG, (), max_tokens=10)
    assert later.value.kind == "connection" and sum(clock.slept) > 3000


def prefix_usage(dialect: Dialect, events: list[dict[str, Any]]) -> Usage:
    """What a stream that ended after `events` had told of its cost."""
    told = {e.get("type") for e in events}
    if dialect is ANTHROPIC:
        if "message_delta" in told:
            return dialect.usage
        return Usage(input=100, cache_read=40, cache_write=20, output=1) if "message_start" in told else Usage()
    if dialect is CHAT:
        return dialect.usage if any(e.get("usage") for e in events) else Usage()
    return dialect.usage if "response.completed" in told else Usage()


@pytest.mark.parametrize("end", ["cut", "reset", "silent"])
def test_a_stream_that_ends_after_any_of_its_events_is_never_a_reply(dialect: Dialect, end: str) -> None:
    events = dialect.reply()
    last = {"anthropic": len(events), "openai": len(events), "chat": len(events) - 1}[dialect.name]
    for n in range(last):
        short = stream(dialect.pieces(events)[:n], end=end)
        outcome = call(dialect, [short, good(dialect)])
        assert_good(outcome.turn, dialect)
        assert (outcome.posts, outcome.turn.attempts) == (2, 2), n
        if end == "silent":  # what was sent has surely arrived
            assert outcome.turn.discarded == prefix_usage(dialect, events[:n]), n


def test_a_stream_that_ends_in_the_middle_of_an_event_is_never_a_reply(dialect: Dialect) -> None:
    events = dialect.reply()
    closing = {"anthropic": -1, "openai": -1, "chat": -2}[dialect.name]
    whole = b"".join(dialect.encode(e) for e in events)
    sure = len(whole) - sum(len(dialect.encode(e)) for e in events[closing:])
    for at in [*range(1, sure, sure // 12), sure + 5]:
        outcome = call(dialect, [stream([whole[:at]], end="silent"), good(dialect)])
        assert_good(outcome.turn, dialect)
        assert outcome.posts == 2, at


def test_a_stream_with_all_its_events_is_a_reply_even_where_the_connection_just_ends(dialect: Dialect) -> None:
    outcome = call(dialect, [stream(dialect.pieces(dialect.reply()), end="silent")])
    assert_good(outcome.turn, dialect)
    assert outcome.posts == 1


def test_the_cost_of_every_attempt_that_was_thrown_away_is_counted_once() -> None:
    cut = stream(ANTHROPIC.pieces(ANTHROPIC.reply())[:5], end="silent")
    late = stream(ANTHROPIC.pieces(ANTHROPIC.reply())[:-1], end="silent")
    outcome = call(ANTHROPIC, [cut, status(529, {}), late, cut, good(ANTHROPIC)])
    started = Usage(input=100, cache_read=40, cache_write=20, output=1)
    assert outcome.turn.discarded == started + ANTHROPIC.usage + started
    assert outcome.turn.usage == ANTHROPIC.usage and outcome.posts == 5


def test_a_turn_that_fails_for_good_still_tells_what_it_cost() -> None:
    late = stream(ANTHROPIC.pieces(ANTHROPIC.reply())[:-1], end="silent")
    outcome = call(ANTHROPIC, late)
    assert (outcome.error.kind, outcome.posts, outcome.error.attempts) == ("truncated_stream", 11, 11)
    assert outcome.error.usage.total == 11 * ANTHROPIC.usage.total


# malformed


@pytest.mark.parametrize("case", GARBAGE)
def test_bytes_that_are_no_reply_are_asked_for_again_and_not_for_ever(dialect: Dialect, case: str) -> None:
    outcome = call(dialect, [stream([GARBAGE[case]]), good(dialect)])
    assert_good(outcome.turn, dialect)
    assert outcome.posts == 2
    lasting = call(dialect, stream([GARBAGE[case]]))
    assert lasting.error.kind in ("malformed_stream", "truncated_stream") and lasting.posts <= 11


def test_bytes_that_are_no_http_are_asked_for_again(dialect: Dialect) -> None:
    outcome = call(
        dialect, [raw(b"SSH-2.0-x\r\n"), raw(b"HTTP/1.1 200 OK\r\ncontent-length: z\r\n\r\n"), good(dialect)]
    )
    assert_good(outcome.turn, dialect)


@pytest.mark.parametrize(
    "arguments", ['{"command": "ls', "[1]", "ls -l", '{"command": "ls"}}', '{"command": NaN}', "5"]
)
def test_arguments_that_are_no_object_are_asked_for_again_and_never_become_a_call(
    dialect: Dialect, arguments: str
) -> None:
    broken = good(dialect, arguments=arguments)
    outcome = call(dialect, [broken, broken, good(dialect)])
    assert_good(outcome.turn, dialect)
    assert outcome.turn.discarded == dialect.usage + dialect.usage
    lasting = call(dialect, [broken] * 3)
    assert (lasting.error.kind, lasting.error.attempts) == ("malformed_tool_json", 3)
    assert lasting.error.usage == dialect.usage + dialect.usage + dialect.usage


def test_an_announced_call_that_is_not_there_is_asked_for_again() -> None:
    for dialect, stop in ((ANTHROPIC, "tool_use"), (CHAT, "tool_calls")):
        outcome = call(dialect, [good(dialect, calls=0, stop=stop), good(dialect)])
        assert_good(outcome.turn, dialect)


def test_a_reason_to_stop_that_is_not_known_is_no_end() -> None:
    for dialect in (ANTHROPIC, CHAT):
        outcome = call(dialect, [good(dialect, stop="some_new_reason"), good(dialect)])
        assert_good(outcome.turn, dialect)
        assert outcome.posts == 2


def test_two_calls_with_one_id_would_be_answered_wrongly_and_are_asked_for_again() -> None:
    events = ANTHROPIC.reply(calls=2)
    for event in events:
        if event.get("content_block", {}).get("id"):
            event["content_block"]["id"] = "toolu_same"
    outcome = call(ANTHROPIC, [stream(ANTHROPIC.pieces(events)), good(ANTHROPIC)])
    assert_good(outcome.turn, ANTHROPIC)
    assert len(call(ANTHROPIC, [good(ANTHROPIC, calls=2)]).turn.tool_uses) == 2


# errors inside a stream that began well


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("overloaded_error", None),
        ("server_error", None),
        ("rate_limit_exceeded", None),
        ("some_new_word", None),
        ("invalid_request_error", "bad_request"),
        ("authentication_error", "auth"),
        ("insufficient_quota", "quota"),
        ("context_length_exceeded", "context_overflow"),
    ],
)
def test_an_error_inside_a_stream_is_read_by_its_word(dialect: Dialect, word: str, kind: ErrorKind | None) -> None:
    pieces = dialect.pieces([*dialect.reply()[:4], dialect.stream_error(word, "something")])
    if kind is None:
        outcome = call(dialect, [stream(pieces), good(dialect)])
        assert_good(outcome.turn, dialect)
        assert outcome.posts == 2
    else:
        outcome = call(dialect, [stream(pieces)])
        assert outcome.error.kind == kind
        assert isinstance(outcome.error, ContextOverflow) is (kind == "context_overflow")


def test_openais_plain_error_event_is_read_too() -> None:
    event = {"type": "error", "code": "server_error", "message": "x", "param": None, "sequence_number": 3}
    outcome = call(RESPONSES, [stream(RESPONSES.pieces([*RESPONSES.reply()[:2], event])), good(RESPONSES)])
    assert_good(outcome.turn, RESPONSES)
    lasting = {**event, "code": "invalid_request_error"}
    assert call(RESPONSES, [stream(RESPONSES.pieces([lasting]))]).error.kind == "bad_request"


# silence, deadlines


@pytest.mark.parametrize("how", ["before a byte", "in the middle", "keep-alive only"])
def test_a_server_that_falls_silent_is_cut_off_and_asked_again(dialect: Dialect, how: str) -> None:
    pieces = dialect.pieces(dialect.reply())[:4]
    silent = {
        "before a byte": hang,
        "in the middle": stream(pieces, end="hang"),
        "keep-alive only": stream(pieces, end="ping" if dialect is ANTHROPIC else "comments"),
    }[how]
    spare = [good(dialect)] * 5  # a machine that is busy may take a good reply for silence as well
    outcome = call(dialect, [silent, *spare], idle_s=0.5)
    assert_good(outcome.turn, dialect)
    assert outcome.turn.attempts >= 2


def test_a_slow_stream_that_goes_on_is_not_cut_off() -> None:
    pieces = ANTHROPIC.pieces(ANTHROPIC.reply())
    outcome = call(ANTHROPIC, [stream(pieces, pause=0.12)], idle_s=1.5)
    assert_good(outcome.turn, ANTHROPIC)
    assert outcome.posts == 1 and outcome.took > 1.5


@pytest.mark.parametrize("how", ["before a byte", "in the middle", "keep-alive only", "dripping"])
def test_nothing_goes_past_the_deadline(dialect: Dialect, how: str) -> None:
    pieces = dialect.pieces(dialect.reply())[:4]
    slow = {
        "before a byte": hang,
        "in the middle": stream(pieces, end="hang"),
        "keep-alive only": stream(pieces, end="ping"),
        "dripping": stream([dialect.pieces(dialect.reply())[1]] * 10_000, pause=0.02),
    }[how]
    outcome = call(dialect, [slow], clock=SystemClock(), within=0.8)
    assert (outcome.error.kind, outcome.error.retryable) == ("deadline", True) and outcome.posts <= 1
    assert outcome.took < 20


def test_a_wait_that_would_go_past_the_deadline_is_not_begun(dialect: Dialect) -> None:
    outcome = call(dialect, [status(529, {}, {"retry-after": "60"})], within=30)
    assert (outcome.error.kind, outcome.error.retry_after, outcome.clock.slept) == ("deadline", 60.0, [])
    outcome = call(dialect, [status(529, {}, {"retry-after": "60"}), good(dialect)], within=90)
    assert_good(outcome.turn, dialect)


def test_a_deadline_that_is_past_starts_nothing(dialect: Dialect) -> None:
    outcome = call(dialect, [], within=-1)
    assert (outcome.error.kind, outcome.posts) == ("deadline", 0)


# many at once


def test_a_long_chain_of_different_faults_ends_in_the_one_reply(dialect: Dialect) -> None:
    events = dialect.pieces(dialect.reply())
    chain = [
        status(429, {}, {"retry-after": "3"}),
        drop,
        stream(events[:3], end="reset"),
        status(520, "<html>"),
        stream([GARBAGE["no json"]]),
        good(dialect, arguments='{"comm'),
        stream(events[:2], end="silent"),
        status(400, dialect.error("x", "flagged: content policy")),
        reset,
        good(dialect),
    ]
    outcome = call(dialect, chain)
    assert_good(outcome.turn, dialect)
    assert outcome.turn.attempts == outcome.posts == 10
    assert len({s.raw for s in outcome.server.seen}) == 1, "the same was asked each time"
