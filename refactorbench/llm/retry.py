"""Who retries what: the one owner of retries. Client libraries' own are off.

A provider makes single attempts; `RetriedModel` turns them into turns. Nothing of a failed attempt reaches the caller
but its cost, so no call of a tool is ever carried out twice.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from refactorbench.llm.protocol import ContextOverflow, ErrorKind, Message, ProviderError, Text, ToolSpec, Turn, Usage

PROBE_AFTER = 3  # server errors in a row, after which a request of a few tokens tells an outage from an overflow
OVERFLOW_FROM_TOKENS = 4096  # smaller conversations fit everywhere: what fails is no overflow in disguise


class Clock(Protocol):
    def now(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...
    def wall(self) -> float: ...


class SystemClock:
    """`now` is `time.monotonic`, `wall` seconds since the epoch."""

    now = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)
    wall = staticmethod(time.time)


class ManualClock:
    """For tests and rehearsals: sleeping moves the clock and nothing else."""

    def __init__(self, now: float = 1000.0, wall: float = 1_800_000_000.0) -> None:
        self._now, self._offset = now, wall - now
        self.slept: list[float] = []

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._now += seconds

    def wall(self) -> float:
        return self._now + self._offset


_RETRIES: Mapping[ErrorKind, int] = {
    "refusal": 2,
    "malformed_tool_json": 2,
    "malformed_stream": 6,
    "truncated_stream": 10,
    "conflict": 10,
    "timeout": 10,
}


class Policy(msgspec.Struct, frozen=True):
    """Bounds of one turn. Waits double from `first_s` to `cap_s`; Retry-After may ask for more, up to what is left.

    `patience_s` bounds the time that faults may cost in all, failed attempts included; `attempts` their number;
    `retries` those of one kind. `unseen_retries` bounds refused connections while the server has never answered: an
    address that is wrong isn't waited for.
    """

    first_s: float = 1.0
    cap_s: float = 120.0
    patience_s: float = 3600.0
    attempts: int = 60
    unseen_retries: int = 4
    retries: Mapping[ErrorKind, int] = msgspec.field(default_factory=lambda: _RETRIES)


class Request(msgspec.Struct, frozen=True):
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    max_tokens: int

    def estimated_tokens(self) -> int:
        return len(msgspec.json.encode(self)) // 4


class Provider(Protocol):
    """One attempt at a time. `left_s`: seconds until the attempt is to be cut off."""

    name: str
    images: bool

    def attempt(self, request: Request, left_s: float | None) -> Turn:
        """Return the complete reply, or raise ProviderError with what the attempt cost, as far as it was told."""
        ...


_PROBE = Request("", (Message("user", (Text("Reply with the word ok."),)),), (), 16)


class RetriedModel:
    """A `ChatModel` over a `Provider`."""

    def __init__(self, provider: Provider, policy: Policy | None = None, clock: Clock | None = None) -> None:
        self.name, self.images = provider.name, provider.images
        self._provider = provider
        self._policy = policy or Policy()
        self._clock: Clock = clock or SystemClock()
        self._jitter = random.Random(provider.name)
        self._seen = False

    def turn(
        self,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        max_tokens: int,
        deadline: float | None = None,
        on_wait: Callable[[float], None] | None = None,
        attempt_s: float | None = None,
    ) -> Turn:
        request = Request(system, tuple(messages), tuple(tools), max_tokens)
        tally = _Tally(on_wait or (lambda seconds: None))
        while True:
            left = self._left(deadline, tally, None)
            start = self._clock.now()
            try:
                turn = self._provider.attempt(request, _nearer(left, attempt_s))
            except ProviderError as error:
                self._failed(request, error, tally, start, deadline, attempt_s)
                continue
            self._seen = True
            return tally.finish(turn, request)

    def _failed(
        self, request: Request, error: ProviderError, tally: _Tally, start: float, deadline: float | None,
        attempt_s: float | None,
    ) -> None:  # fmt: skip
        """Account for a failed attempt and wait for the next one; raises when there shall be none."""
        tally.add(error)
        self._seen = self._seen or error.kind not in ("connection", "timeout", "deadline")
        if error.kind == "deadline" or not error.retryable:
            raise tally.final(error, self.name)
        disguised = self._is_disguised(request, error, tally, deadline, attempt_s)
        tally.lost(self._clock.now() - start)
        if disguised:
            raise tally.final(
                ContextOverflow(
                    f"this conversation fails again and again ({error}) while a short one is answered: it is taken as "
                    "not fitting into the model's context",
                    status=error.status,
                ),
                self.name,
            )
        wait = self._wait(error, tally)
        left = self._left(deadline, tally, error)
        if left is not None and wait >= left:
            raise tally.final(_out_of_time(error), self.name)
        start = self._clock.now()
        self._clock.sleep(wait)
        tally.lost(self._clock.now() - start)

    def _left(self, deadline: float | None, tally: _Tally, error: ProviderError | None) -> float | None:
        left = None if deadline is None else deadline - self._clock.now()
        if left is not None and left <= 0:
            raise tally.final(_out_of_time(error), self.name)
        return left

    def _wait(self, error: ProviderError, tally: _Tally) -> float:
        """Seconds until the next attempt: at least what was asked for. Raises the last error when a bound is met."""
        p, kind = self._policy, error.kind
        bound = p.retries.get(kind, p.attempts)
        if kind == "connection" and not self._seen:
            bound = p.unseen_retries
        backoff = min(p.cap_s, p.first_s * 2.0 ** (tally.kinds[kind] - 1)) * self._jitter.uniform(0.75, 1.0)
        wait = max(backoff, error.retry_after or 0.0)
        if tally.kinds[kind] > bound or tally.attempts >= p.attempts or tally.waited + wait > p.patience_s:
            raise tally.final(error, self.name)
        return wait

    def _is_disguised(
        self, request: Request, error: ProviderError, tally: _Tally, deadline: float | None, attempt_s: float | None
    ) -> bool:
        """Gateways report an overflow as 502 or the like. An outage hits a short request too; an overflow doesn't."""
        if error.kind != "server":
            tally.servers, tally.short_answered = 0, False
            return False
        tally.servers += 1
        if tally.short_answered:
            return True
        if tally.servers != PROBE_AFTER or request.estimated_tokens() < OVERFLOW_FROM_TOKENS:
            return False
        try:
            left = None if deadline is None else max(0.001, deadline - self._clock.now())
            answer = self._provider.attempt(_PROBE, _nearer(left, attempt_s))
        except ProviderError as e:
            tally.usage += e.usage
        else:
            tally.usage += answer.usage
            tally.short_answered = True
        return False


class _Tally:
    """What a turn's failed attempts came to."""

    def __init__(self, on_wait: Callable[[float], None]) -> None:
        self._on_wait = on_wait
        self.attempts = 0
        self.kinds: Counter[str] = Counter()
        self.usage = Usage()
        self.waited = 0.0
        self.servers = 0
        self.short_answered = False

    def add(self, error: ProviderError) -> None:
        self.attempts += 1
        self.kinds[error.kind] += 1
        self.usage += error.usage

    def lost(self, seconds: float) -> None:
        self.waited += seconds
        self._on_wait(seconds)

    def final(self, error: ProviderError, name: str) -> ProviderError:
        """`error` with the whole turn's cost and the model's name."""
        tries = f" (after {self.attempts} attempts and {self.waited:.0f} s)" if self.attempts > 1 else ""
        error.args = (f"{name}: {error}{tries}",)
        error.usage, error.attempts = self.usage, max(1, self.attempts)
        return error

    def finish(self, turn: Turn, request: Request) -> Turn:
        usage, estimated = turn.usage, turn.usage.total == 0
        if estimated:
            usage = Usage(input=request.estimated_tokens(), output=len(msgspec.json.encode(turn.blocks)) // 4)
        return msgspec.structs.replace(
            turn,
            usage=usage,
            estimated=estimated,
            discarded=self.usage,
            attempts=self.attempts + 1,
            waited_s=self.waited,
        )


def _nearer(one: float | None, other: float | None) -> float | None:
    return min((s for s in (one, other) if s is not None), default=None)


def _out_of_time(error: ProviderError | None) -> ProviderError:
    return ProviderError(
        f"the deadline came before a reply{f'; the last attempt: {error}' if error else ''}",
        kind="deadline",
        retryable=True,
        retry_after=error.retry_after if error else None,
        status=error.status if error else None,
    )
