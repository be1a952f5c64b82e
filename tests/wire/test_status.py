"""What each status becomes, how long is waited, and what never gets through: the control stands beside each rule."""

from __future__ import annotations

import email.utils
import itertools
import time

import pytest

from refactorbench.llm.protocol import ContextOverflow, ErrorKind, Usage
from refactorbench.llm.retry import ManualClock, Policy

from .check import BIG, assert_good, call, good
from .dialects import CHAT, KEY, Dialect
from .server import Peer, Reply, Seen, Server, status

# status


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


# how long is waited


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


# overflow, as itself and disguised


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


# refusals


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
