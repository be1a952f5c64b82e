"""How long a single attempt may take, whoever asks and for whatever reason."""

from __future__ import annotations

import pytest

from refactorbench.llm.protocol import ContextOverflow, Message, ProviderError, Text, Turn, Usage
from refactorbench.llm.retry import ManualClock, Request, RetriedModel

LONG = (Message("user", (Text("word " * 8000),)),)


class Failing:
    """Fails on long conversations, takes all the time that it gets for short ones, and notes how much that is."""

    name, images = "test", False

    def __init__(self, clock: ManualClock) -> None:
        self.clock, self.given = clock, []

    def attempt(self, request: Request, left_s: float | None) -> Turn:
        self.given.append(left_s)
        if request.estimated_tokens() > 1000:
            raise ProviderError("gateway", kind="server", retryable=True)
        self.clock.sleep(left_s or 10_000.0)
        return Turn((Text("ok"),), "end", Usage(input=1))


@pytest.mark.parametrize(
    ("attempt_s", "deadline", "most"),
    [(60.0, None, 60.0), (60.0, 1030.0, 30.0), (None, 1500.0, 500.0), (None, None, None)],
)
def test_no_attempt_goes_past_its_own_time_nor_the_deadline_the_short_question_included(
    attempt_s: float | None, deadline: float | None, most: float | None
) -> None:
    clock = ManualClock(now=1000.0)
    provider = Failing(clock)
    with pytest.raises(ProviderError) as e:
        RetriedModel(provider, clock=clock).turn("", LONG, (), max_tokens=9, deadline=deadline, attempt_s=attempt_s)
    assert len(provider.given) >= 4 and all(most is None or (g is not None and g <= most) for g in provider.given)
    assert (provider.given[3] is None) is (most is None)
    assert isinstance(e.value, ContextOverflow) is (attempt_s is not None and deadline is None)
