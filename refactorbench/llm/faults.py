"""What went wrong at the provider, as one kind of a closed list. Pure: status, body and headers in; error out."""

from __future__ import annotations

import email.utils
import math
import re
from collections.abc import Mapping
from typing import Any

from refactorbench.llm.protocol import ContextOverflow, ErrorKind, ProviderError

RETRYABLE: frozenset[ErrorKind] = frozenset(
    (
        "rate_limit",
        "overloaded",
        "server",
        "timeout",
        "conflict",
        "connection",
        "truncated_stream",
        "malformed_stream",
        "malformed_tool_json",
        "refusal",  # the same request is often answered at the second try
    )
)

# An error inside a stream comes with status 200, or none: its word stands for the status.
_STATUS_OF_WORD = {
    "overloaded_error": 529,
    "server_is_overloaded": 529,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "timeout_error": 504,
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "bad_request_error": 400,
    "badrequesterror": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "billing_error": 402,
}
_OVERFLOW_WORDS = frozenset(("context_length_exceeded", "exceed_context_size_error", "request_too_large"))
_OVERFLOW = re.compile(
    r"prompt is too long|input is too long|context[ _]length|context[ _]limit|context[ _]window|context[ _]size"
    r"|maximum context|too many (input )?tokens|input tokens? (count )?exceed|reduce the length|context shift"
    r"|request too large",
    re.IGNORECASE,
)
_OVERFLOW_429 = re.compile(r"request too large for", re.IGNORECASE)  # more than a minute's tokens: never gets through
_QUOTA_WORDS = frozenset(("insufficient_quota", "billing_error", "billing_hard_limit_reached"))
_QUOTA = re.compile(r"credit balance is too low|exceeded your current quota", re.IGNORECASE)
_REFUSAL_WORDS = frozenset(
    ("content_filter", "content_policy_violation", "bio_policy", "misalignment_policy_violation", "invalid_prompt")
)
_REFUSAL = re.compile(
    r"usage polic|content management policy|content policy|content filter|safety (system|polic|reason|filter)"
    r"|(was|been|is) flagged",
    re.IGNORECASE,
)


def from_status(
    status: int | None, body: Any, headers: Mapping[str, str], wall: float, *, fallback: str = ""
) -> ProviderError:
    """The error for a reply with `status` (None or below 300: an error inside a stream) and `body` (JSON data or text).

    `wall` is the time of day in seconds since the epoch, for a Retry-After that is a date.
    """
    words, text = _words(body)
    text = text or fallback
    code = status if status is not None and status >= 300 else _status_of(body, words)
    kind = _kind(code, words, text)
    said = f"HTTP {status}" if status is not None and status >= 300 else "an error inside the stream"
    message = f"{said}{_first_line(words, text)}"
    if kind == "context_overflow":
        return ContextOverflow(f"the conversation doesn't fit into the model's context: {message}", status=code)
    return ProviderError(
        f"{message}{_REMEDY.get(kind, '')}",
        kind=kind,
        retryable=kind in RETRYABLE,
        retry_after=retry_after(headers, wall),
        status=code,
    )


_REMEDY: dict[ErrorKind, str] = {
    "auth": "; the key was refused: set one that may use this model",
    "quota": "; waiting doesn't help: top up the account, or name another model",
    "bad_request": "; the request itself is refused, the model's name and the effort included: correct it",
}


def _kind(code: int | None, words: frozenset[str], text: str) -> ErrorKind:
    if code not in (401, 403, 404) and _is_overflow(code, words, text):
        return "context_overflow"
    if code == 402 or words & _QUOTA_WORDS or (code in (400, 403, 429) and _QUOTA.search(text)):
        return "quota"
    if words & _REFUSAL_WORDS or (code in (400, 403, 422) and _REFUSAL.search(text)):
        return "refusal"
    if code is None:
        return "server"  # the stream had begun, so the request was fine
    exact: dict[int, ErrorKind] = {
        401: "auth",
        403: "auth",
        408: "timeout",
        409: "conflict",
        425: "timeout",
        429: "rate_limit",
        503: "overloaded",
        529: "overloaded",
    }
    return exact.get(code) or ("server" if code >= 500 else "bad_request")


def _is_overflow(code: int | None, words: frozenset[str], text: str) -> bool:
    if words & _OVERFLOW_WORDS or code == 413:
        return True
    return bool((_OVERFLOW_429 if code == 429 else _OVERFLOW).search(text))


def _error(body: Any) -> Any:
    inner = body.get("error") if isinstance(body, dict) else None
    return inner or body


def _words(body: Any) -> tuple[frozenset[str], str]:
    """(`type` and `code` of an error body in lower case, its message); for anything else no words and its text."""
    error = _error(body)
    if not isinstance(error, dict):
        return frozenset(), error if isinstance(error, str) else ""
    words = frozenset(str(error[k]).lower() for k in ("type", "code") if isinstance(error.get(k), str))
    return words, str(error.get("message") or "")


def _status_of(body: Any, words: frozenset[str]) -> int | None:
    error = _error(body)
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, (int, str)) and re.fullmatch(r"[45]\d\d", str(code)):
        return int(code)
    return next((_STATUS_OF_WORD[w] for w in sorted(words) if w in _STATUS_OF_WORD), None)


def _first_line(words: frozenset[str], text: str) -> str:
    line = " ".join(text.split())
    line = line if len(line) <= 300 else f"{line[:297]}..."
    named = f" ({', '.join(sorted(words))})" if words else ""
    return f"{named}: {line}" if line else named


def retry_after(headers: Mapping[str, str], wall: float) -> float | None:
    """Seconds that the provider asks to wait, from `retry-after-ms` or `retry-after` (seconds or a date); else None.

    A date is held against the reply's own `date`, so that a wrong clock on this machine doesn't matter.
    """
    ms = _number(headers.get("retry-after-ms"))
    if ms is not None:
        return ms / 1000
    said = headers.get("retry-after")
    seconds = _number(said)
    if seconds is not None or not said:
        return seconds
    until, now = _date(said), _date(headers.get("date") or "")
    return max(0.0, until - (now if now is not None else wall)) if until is not None else None


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _date(text: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
