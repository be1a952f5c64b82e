"""What all adapters do alike: one streamed request per attempt, its events gathered into a reply, that into a turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, ClassVar, Protocol

import httpx2
import msgspec

from refactorbench.llm.blocks import fault, finished, unique_calls
from refactorbench.llm.protocol import Block, ProviderError, StopReason, Turn, Usage
from refactorbench.llm.retry import Request
from refactorbench.llm.transport import Wire


class Access(msgspec.Struct, frozen=True):
    """A model and how it is reached. `name` as the user gave it, `model` as its provider calls it; `effort` and `extra`
    are passed on as they are; `images`: whether it is shown images. Without an event for `idle_s` a stream is dead."""

    name: str
    model: str
    base_url: str
    api_key: str = ""
    auth_token: str = ""
    effort: str | None = None
    extra: Mapping[str, Any] = {}
    images: bool = True
    idle_s: float | None = None

    def __repr__(self) -> str:
        return f"Access({self.name})"  # the default one would show the key


class Reply(Protocol):
    """A reply as its events come in. `usage` is what was told of its cost so far, also where it never ends well."""

    @property
    def usage(self) -> Usage: ...

    def add(self, event: dict[str, Any]) -> None: ...

    def turn(self) -> Turn:
        """The turn, once everything is there that makes it whole; ProviderError before."""
        ...


class Adapter(ABC):
    """The `Provider` protocol over a client library: `sdk_error` is the base of that library's errors."""

    sdk_error: ClassVar[type[Exception]]

    def __init__(self, access: Access) -> None:
        self.name, self.images, self.access = access.name, access.images, access
        self._wire = Wire(access.base_url, (access.api_key, access.auth_token), self.sdk_error, access.idle_s)
        self._create = self.creator(self._wire.client())  # loads now what would cost the first turn time

    @abstractmethod
    def creator(self, http: httpx2.Client) -> Callable[..., Any]:
        """The client library's function that opens a stream, its own retries off."""

    @abstractmethod
    def body(self, request: Request) -> dict[str, Any]:
        """The request as this provider spells it, without the `extra` fields."""

    @abstractmethod
    def reply(self, request: Request) -> Reply: ...

    def attempt(self, request: Request, left_s: float | None) -> Turn:
        body = self.body(request) | ({"extra_body": dict(self.access.extra)} if self.access.extra else {})
        reply = self.reply(request)
        try:
            with closing(self._wire.events(lambda: self._create(**body), left_s)) as events:
                for event in events:
                    reply.add(event)
            return reply.turn()
        except ProviderError as e:
            e.usage = reply.usage
            raise


def whole(blocks: list[Block], stop: StopReason, usage: Usage, *, model: str, request_id: str, cut_call: str) -> Turn:
    """The turn of a reply that is complete; ProviderError where its calls couldn't be told apart or are not there."""
    unique_calls(blocks)
    stop = finished(blocks, stop)
    try:
        msgspec.json.encode(blocks)
    except (ValueError, RecursionError) as e:  # half of a character, or more digits than a number may have
        raise fault("malformed_stream", f"the reply holds what can't be written down: {e}") from e
    return Turn(tuple(blocks), stop, usage, model=model, request_id=request_id, cut_call=cut_call)


def shares(
    told: Mapping[str, Any], prompt: str, completion: str, *, read: int, written: int = 0, reasoning: int
) -> Usage:
    """Disjoint classes from the totals called `prompt` and `completion`, which cached tokens and reasoning are in."""
    return Usage(
        input=max(0, (told.get(prompt) or 0) - read - written),
        cache_read=read,
        cache_write=written,
        output=max(0, (told.get(completion) or 0) - reasoning),
        reasoning=reasoning,
    )
