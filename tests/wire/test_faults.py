"""Every fault of the wire, injected, and what must come of it: the one good reply, or the one right error.

Each rule has its control: the neighbouring case that must go the other way.
"""

from __future__ import annotations

import email.utils
import itertools
import socket
import time
from typing import Any

import pytest

from refactorbench.llm.protocol import ContextOverflow, ErrorKind, Message, ProviderError, Text, Usage
from refactorbench.llm.retry import ManualClock, Policy, SystemClock

from .check import assert_good, call, good
from .dialects import ANTHROPIC, CHAT, KEY, RESPONSES, Dialect
from .server import Peer, Reply, Seen, Server, drop, hang, raw, reset, status, stream

BIG = (Message("user", (Text("word " * 8000),)),)


# --- status ---------------------------------------------------------------------------------------------------------


RETRIED = (408, 409, 425, 429, 500, 501, 502, 503, 504, 520, 521, 522, 523, 524, 529)
KINDS: dict[int, ErrorKind] = {
    400: "bad_request",
    401: "auth",
    402: "quota",
    403: "auth",
    404: "bad_request",
    405: "bad_request",
    422: "bad_request",
}


@pytest.mark.parametrize("code", RETRIED)
def test_passing_states_are_retried_once_each(dialect: Dialect, code: int) -> None:
    outcome = call(dialect, [status(code, dialect.error("x", "try later")), good(dialect)])
    assert_good(outcome.turn, dialect)
    assert (outcome.posts, outcome.turn.attempts, outcome.turn.discarded) == (2, 2, Usage())
    assert 0.7 < outcome.turn.waited_s <= 1.0 and len(outcome.clock.slept) == 1


@pytest.mark.parametrize("code", KINDS)
def test_lasting_states_are_asked_once(dialect: Dialect, code: int) -> None:
    outcome = call(dialect, [status(code, dialect.error("x", "no such thing"))])
    assert (outcome.error.kind, outcome.error.retryable, outcome.error.status) == (KINDS[code], False, code)
    assert (outcome.posts, outcome.clock.slept, outcome.error.owner) == (1, [], "provider")
    assert "no such thing" in str(outcome.error) and outcome.error.exit_status == 3


def test_a_gateways_page_is_read_by_its_status(dialect: Dialect) -> None:
    page = "<html><head><title>502 Bad Gateway</title></head></html>"
    outcome = call(dialect, [status(502, page), status(524, page), good(dialect)])
    assert_good(outcome.turn, dialect)
    assert outcome.posts == 3


def test_a_redirect_is_not_followed_with_the_key(dialect: Dialect) -> None:
    with Server([]) as elsewhere:
        outcome = call(dialect, [status(302, {}, {"location": elsewhere.url + "/v1/messages"})])
    assert (outcome.error.kind, outcome.posts, elsewhere.seen) == ("bad_request", 1, [])


def test_a_message_never_holds_the_key(dialect: Dialect) -> None:
    outcome = call(dialect, [status(401, dialect.error("invalid_api_key", f"wrong key {KEY}"))])
    assert KEY not in str(outcome.error) and "***" in str(outcome.error)


# --- how long is waited ---------------------------------------------------------------------------------------------


def date(seconds: float) -> str:
    return email.utils.formatdate(seconds, usegmt=True)


NOW = time.time()
ASKED: dict[str, tuple[dict[str, str], float]] = {
    "seconds": ({"retry-after": "7"}, 7.0),
    "fraction": ({"retry-after": "7.5"}, 7.5),
    "milliseconds": ({"retry-after-ms": "7250", "retry-after": "99"}, 7.25),
    "date": ({"retry-after": date(1_000_000_090), "date": date(1_000_000_000)}, 90.0),
    "minutes": ({"retry-after": "1800"}, 1800.0),
}
NOT_ASKED: dict[str, dict[str, str]] = {
    "none": {},
    "zero": {"retry-after": "0"},
    "past date": {"retry-after": date(1_000_000_000), "date": date(1_000_000_090)},
    "negative": {"retry-after": "-5"},
    "no number": {"retry-after": "soon"},
    "infinite": {"retry-after": "1e999"},
    "not a number": {"retry-after-ms": "nan"},
}


@pytest.mark.parametrize("case", ASKED)
def test_what_the_provider_asks_to_wait_is_waited(dialect: Dialect, case: str) -> None:
    headers, seconds = ASKED[case]
    outcome = call(dialect, [status(429, dialect.error("x", "slow down"), headers), good(dialect)])
    assert outcome.clock.slept == [seconds]
    assert_good(outcome.turn, dialect)


@pytest.mark.parametrize("case", NOT_ASKED)
def test_where_nothing_sensible_is_asked_the_own_wait_holds(dialect: Dialect, case: str) -> None:
    outcome = call(dialect, [status(429, dialect.error("x", "slow down"), NOT_ASKED[case]), good(dialect)])
    assert len(outcome.clock.slept) == 1 and 0.7 < outcome.clock.slept[0] <= 1.0


def test_a_date_is_held_against_this_machines_clock_where_the_reply_has_none() -> None:
    clock = ManualClock(wall=time.time())
    headers = {"retry-after": date(time.time() + 300)}
    outcome = call(CHAT, [status(503, {}, headers), good(CHAT)], clock=clock)
    assert 290 < outcome.clock.slept[0] <= 300


def test_more_than_the_patience_that_is_left_is_not_waited(dialect: Dialect) -> None:
    outcome = call(dialect, [status(429, {}, {"retry-after": "7200"})])
    assert (outcome.error.kind, outcome.error.retryable, outcome.error.retry_after) == ("rate_limit", True, 7200.0)
    assert (outcome.posts, outcome.clock.slept) == (1, [])


def test_waits_grow_to_a_cap_and_end(dialect: Dialect) -> None:
    outcome = call(dialect, status(529, {}), policy=Policy(patience_s=600.0))
    slept = outcome.clock.slept
    assert outcome.error.kind == "overloaded" and outcome.error.attempts == outcome.posts == len(slept) + 1
    assert all(later > earlier for earlier, later in itertools.pairwise(slept[:7]))
    assert max(slept) <= 120 and 480 < sum(slept) <= 600


def test_each_kind_starts_its_own_waits(dialect: Dialect) -> None:
    outcome = call(dialect, [status(529, {}), status(529, {}), status(408, {}), good(dialect)])
    assert outcome.clock.slept[1] > 1.4 and outcome.clock.slept[2] <= 1.0


# --- dropped and truncated ------------------------------------------------------------------------------------------


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


# --- malformed ------------------------------------------------------------------------------------------------------


GARBAGE: dict[str, bytes] = {
    "no json": b'event: message_start\ndata: {"type": "mess\n\n',
    "html": b"<html>welcome</html>",
    "no utf-8": b"event: message_start\ndata: \xff\xfe\xfa\n\n",
    "null": b"event: message_start\ndata: null\n\n",
    "number": b"event: message_start\ndata: 5\n\n",
    "list": b"event: message_start\ndata: [1, 2]\n\n",
    "shape": b'event: content_block_start\ndata: {"type": "content_block_start", "index": "x", "choices": 5}\n\n',
    "orphan": b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "x"}}\n\n',
    "item": b'event: response.output_item.done\ndata: {"type": "response.output_item.done", "output_index": 0, "item": 5}\n\n',
}


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


# --- errors inside a stream that began well -------------------------------------------------------------------------


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


# --- overflow, as itself and disguised ------------------------------------------------------------------------------


OVERFLOWS: list[tuple[int, str, str]] = [
    (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    (400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"),
    (400, "context_length_exceeded", "Your input exceeds the limit"),
    (400, "BadRequestError", "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"),
    (400, "exceed_context_size_error", "the request exceeds the available context size (4096 tokens)"),
    (413, "request_too_large", "Request exceeds the maximum size"),
    (413, "x", "Payload Too Large"),
    (422, "x", "Input is too long for requested model."),
    (429, "rate_limit_exceeded", "Request too large for model-1 on tokens per min (TPM): Limit 30000, Requested 45000"),
    (500, "api_error", "context window exceeded"),
    (502, "x", "upstream: context_length_exceeded"),
    (503, "x", "the prompt is too long for this deployment"),
]
NO_OVERFLOWS: list[tuple[int, str, str, ErrorKind]] = [
    (400, "invalid_request_error", "max_tokens: 200000 > 64000, the maximum number of output tokens", "bad_request"),
    (400, "invalid_request_error", "messages: at least one message is required", "bad_request"),
    (401, "authentication_error", "no access to the long context window", "auth"),
    (404, "not_found_error", "model: context-length-model", "bad_request"),
]


@pytest.mark.parametrize("case", OVERFLOWS, ids=lambda c: f"{c[0]} {c[2][:20]}")
def test_an_overflow_is_never_replayed_whatever_it_looks_like(dialect: Dialect, case: tuple[int, str, str]) -> None:
    code, word, message = case
    outcome = call(dialect, [status(code, dialect.error(word, message))])
    assert isinstance(outcome.error, ContextOverflow)
    assert (outcome.posts, outcome.clock.slept, outcome.error.retryable) == (1, [], False)


@pytest.mark.parametrize("case", NO_OVERFLOWS, ids=lambda c: c[2][:20])
def test_what_only_resembles_an_overflow_is_none(dialect: Dialect, case: tuple[int, str, str, ErrorKind]) -> None:
    code, word, message, kind = case
    assert call(dialect, [status(code, dialect.error(word, message))]).error.kind == kind


def test_rate_limits_that_speak_of_tokens_are_waited_for(dialect: Dialect) -> None:
    text = "Rate limit reached: too many tokens per minute; see the billing page to raise it"
    outcome = call(dialect, [status(429, dialect.error("rate_limit_error", text)), good(dialect)])
    assert_good(outcome.turn, dialect)


def failing_when_long(dialect: Dialect, code: int) -> Reply:
    fine, bad = good(dialect), status(code, "<html>Bad Gateway</html>")

    def reply(peer: Peer, seen: Seen) -> None:
        (bad if len(seen.raw) > 20_000 else fine)(peer, seen)

    return reply


@pytest.mark.parametrize("code", [500, 502, 524])
def test_an_overflow_that_a_gateway_reports_as_its_own_error_is_found_by_a_short_question(
    dialect: Dialect, code: int
) -> None:
    outcome = call(dialect, failing_when_long(dialect, code), messages=BIG)
    assert isinstance(outcome.error, ContextOverflow) and "short one is answered" in str(outcome.error)
    assert outcome.posts == 5 and [len(s.raw) > 20_000 for s in outcome.server.seen] == [True, True, True, False, True]
    assert outcome.error.usage == dialect.usage, "the short question's cost is counted"


def test_an_outage_that_hits_short_questions_too_is_waited_for(dialect: Dialect) -> None:
    outcome = call(dialect, [status(502, {})] * 6 + [good(dialect)], messages=BIG)
    assert_good(outcome.turn, dialect)
    assert outcome.posts == 7 and outcome.turn.discarded == Usage()


def test_an_outage_that_ends_with_the_short_question_is_no_overflow(dialect: Dialect) -> None:
    outcome = call(dialect, [status(502, {})] * 3 + [good(dialect), good(dialect)], messages=BIG)
    assert_good(outcome.turn, dialect)
    assert outcome.turn.discarded == dialect.usage


def test_no_short_question_is_asked_about_a_short_conversation(dialect: Dialect) -> None:
    outcome = call(dialect, [status(502, {})] * 5 + [good(dialect)])
    assert len({len(s.raw) for s in outcome.server.seen}) == 1 and outcome.posts == 6


# --- refusals -------------------------------------------------------------------------------------------------------


REFUSALS = ["This request was flagged by our content policy.", "Output blocked: violates our usage policies"]


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_is_asked_about_twice_more(dialect: Dialect, text: str) -> None:
    refused = status(400, dialect.error("invalid_request_error", text))
    outcome = call(dialect, [refused, refused, good(dialect)])
    assert_good(outcome.turn, dialect)
    lasting = call(dialect, [refused] * 3)
    assert (lasting.error.kind, lasting.posts) == ("refusal", 3)


def test_a_reply_that_stops_as_a_refusal_is_no_reply(dialect: Dialect) -> None:
    refused = good(dialect, stop="refusal", calls=0)
    outcome = call(dialect, [refused, good(dialect)])
    assert_good(outcome.turn, dialect)
    assert outcome.turn.discarded == (dialect.usage if dialect is not CHAT else outcome.turn.discarded)
    lasting = call(dialect, [refused] * 3)
    assert (lasting.error.kind, lasting.posts) == ("refusal", 3)


def test_an_account_without_credit_is_not_waited_for(dialect: Dialect) -> None:
    texts = [(400, "invalid_request_error", "Your credit balance is too low"), (429, "insufficient_quota", "quota")]
    for code, word, text in texts:
        outcome = call(dialect, [status(code, dialect.error(word, text))])
        assert (outcome.error.kind, outcome.posts) == ("quota", 1)


# --- silence, deadlines ---------------------------------------------------------------------------------------------


def took(start: float) -> float:
    return time.monotonic() - start


@pytest.mark.parametrize("how", ["before a byte", "in the middle", "keep-alive only"])
def test_a_server_that_falls_silent_is_cut_off_and_asked_again(dialect: Dialect, how: str) -> None:
    pieces = dialect.pieces(dialect.reply())[:4]
    silent = {
        "before a byte": hang,
        "in the middle": stream(pieces, end="hang"),
        "keep-alive only": stream(pieces, end="ping" if dialect is ANTHROPIC else "comments"),
    }[how]
    start = time.monotonic()
    outcome = call(dialect, [silent, good(dialect)], idle_s=0.4)
    assert_good(outcome.turn, dialect)
    assert outcome.posts == 2 and took(start) < 10


def test_a_slow_stream_that_goes_on_is_not_cut_off(dialect: Dialect) -> None:
    events = dialect.reply()
    outcome = call(dialect, [stream(dialect.pieces(events), pause=0.05)], idle_s=0.6)
    assert_good(outcome.turn, dialect)
    assert outcome.posts == 1


@pytest.mark.parametrize("how", ["before a byte", "in the middle", "keep-alive only", "dripping"])
def test_nothing_goes_past_the_deadline(dialect: Dialect, how: str) -> None:
    pieces = dialect.pieces(dialect.reply())[:4]
    slow = {
        "before a byte": hang,
        "in the middle": stream(pieces, end="hang"),
        "keep-alive only": stream(pieces, end="ping"),
        "dripping": stream([dialect.pieces(dialect.reply())[1]] * 10_000, pause=0.02),
    }[how]
    clock = SystemClock()
    start = time.monotonic()
    outcome = call(dialect, [slow], clock=clock, deadline=clock.now() + 0.5)
    assert (outcome.error.kind, outcome.error.retryable, outcome.posts) == ("deadline", True, 1)
    assert 0.4 < took(start) < 5


def test_a_wait_that_would_go_past_the_deadline_is_not_begun(dialect: Dialect) -> None:
    clock = ManualClock()
    outcome = call(dialect, [status(529, {}, {"retry-after": "60"})], clock=clock, deadline=clock.now() + 30)
    assert (outcome.error.kind, outcome.error.retry_after, clock.slept) == ("deadline", 60.0, [])
    fits = ManualClock()
    outcome = call(
        dialect, [status(529, {}, {"retry-after": "60"}), good(dialect)], clock=fits, deadline=fits.now() + 90
    )
    assert_good(outcome.turn, dialect)


def test_a_deadline_that_is_past_starts_nothing(dialect: Dialect) -> None:
    outcome = call(dialect, [], deadline=999.0)
    assert (outcome.error.kind, outcome.posts) == ("deadline", 0)


# --- many at once ---------------------------------------------------------------------------------------------------


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
