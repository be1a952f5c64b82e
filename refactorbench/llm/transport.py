"""The wire under the client libraries: one connection per attempt, cut at its deadline, every fault translated.

Imported only once a model was named: the client libraries take their time to load.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2

from refactorbench.llm.faults import from_status
from refactorbench.llm.protocol import ErrorKind, ProviderError

CONNECT_S = 30.0
IDLE_S = 600.0  # without an event for this long a stream is dead: models think long, and some say nothing meanwhile
LARGEST = 256 << 20  # bytes of one reply's stream: each token of it may come with some hundred bytes around
SECRET_FROM = 8  # shorter ones are made up for servers that want none; their letters are anywhere


class Guard:
    """Cuts the connection of one attempt after `left_s`, or when `idle_s` passed without an event.

    A read time-out alone doesn't do: keep-alive bytes reset it for ever. Shutting the socket down ends a blocked read.
    """

    def __init__(self, left_s: float | None, idle_s: float) -> None:
        self.fired: ErrorKind | None = None
        self._end = None if left_s is None else time.monotonic() + left_s
        self._idle_s = idle_s
        self._last = time.monotonic()
        self._stream: Any = None
        self._over = False
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._watch, name="model-guard", daemon=True)

    def __enter__(self) -> Guard:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        with self._wake:
            self._over = True
            self._wake.notify()
        self._thread.join()

    def touch(self) -> None:
        self._last = time.monotonic()

    def connected(self, stream: Any) -> None:
        """`stream` is the connection that the attempt uses from here on."""
        with self._wake:
            self._stream = stream
            if self.fired:
                self._cut()

    def _watch(self) -> None:
        with self._wake:
            while not self._over:
                now, idle_end = time.monotonic(), self._last + self._idle_s
                end = idle_end if self._end is None else min(idle_end, self._end)
                if now >= end:
                    self.fired = "deadline" if end == self._end else "timeout"
                    self._cut()
                    return
                self._wake.wait(end - now)

    def _cut(self) -> None:
        sock = self._stream.get_extra_info("socket") if self._stream is not None else None
        if sock is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not the TLS layer's: it isn't safe beside a read


class Wire:
    """What an adapter talks through. `secrets` never reach a message; a proxy is used except for this machine."""

    def __init__(
        self, base_url: str, secrets: tuple[str, ...], sdk_error: type[Exception], idle_s: float | None = None
    ) -> None:
        self._base_url = base_url
        self._secrets = tuple(s for s in secrets if len(s) >= SECRET_FROM)
        self._sdk_error = sdk_error
        self._idle_s = idle_s or IDLE_S
        self._local = threading.local()

    def client(self) -> httpx2.Client:
        """The HTTP client to hand to a client library. Redirects are not followed: the key would go along."""
        local = is_loopback(self._base_url)
        plain = local and self._base_url.startswith("http:")  # no certificates to load where none count
        return httpx2.Client(
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else True,
            timeout=httpx2.Timeout(self._idle_s, connect=CONNECT_S),
            limits=httpx2.Limits(max_keepalive_connections=0),  # a connection that the guard knows, and none gone stale
            follow_redirects=False,
            trust_env=not local,
            event_hooks={"request": [self._on_request], "response": [self._on_response]},
        )

    def events(self, open_stream: Callable[[], Any], left_s: float | None) -> Generator[dict[str, Any]]:
        """Yield a stream's events as plain data; whatever goes wrong on the way is a ProviderError."""
        with Guard(left_s, self._idle_s) as guard:
            self._local.guard = guard
            try:
                stream = open_stream()
            except (self._sdk_error, httpx2.HTTPError, OSError, ValueError) as e:
                raise self._translate(e, guard) from e
            with stream:
                yield from self._read(stream, guard)

    def _read(self, stream: Any, guard: Guard) -> Iterator[dict[str, Any]]:
        events = iter(stream)
        while True:
            try:
                event = next(events, None)
                data = event.to_dict(mode="json", warnings=False) if event is not None else None
            except Exception as e:  # whatever a library makes of a server's bytes is the server's fault
                raise self._translate(e, guard) from e
            if guard.fired:
                raise _cut_off(guard.fired)
            if data is None:
                return
            if stream.response.num_bytes_downloaded > LARGEST:
                raise ProviderError(f"a reply of more than {LARGEST} bytes", kind="malformed_stream", retryable=True)
            guard.touch()
            yield data

    def _on_request(self, request: httpx2.Request) -> None:
        guard: Guard = self._local.guard

        def trace(name: str, info: Mapping[str, Any]) -> None:
            if name.endswith(("connect_tcp.complete", "start_tls.complete")):
                guard.connected(info["return_value"])

        request.extensions["trace"] = trace

    def _on_response(self, response: httpx2.Response) -> None:
        if "network_stream" in response.extensions:
            self._local.guard.connected(response.extensions["network_stream"])

    def _translate(self, e: Exception, guard: Guard) -> ProviderError:
        if guard.fired:
            return _cut_off(guard.fired)
        root = e if isinstance(e, httpx2.HTTPError) else e.__cause__
        status, body = getattr(e, "status_code", None), getattr(e, "body", None)
        if status is not None or body is not None:
            headers = getattr(getattr(e, "response", None), "headers", {})
            error = from_status(status, body, headers, time.time(), fallback=str(e))
            error.args = (self._scrub(str(error)),)
            return error
        if isinstance(root, httpx2.ConnectError | httpx2.ConnectTimeout):
            return _transport("connection", f"no connection to {self._base_url}", root)
        if isinstance(root, httpx2.TimeoutException):
            return _transport("timeout", "no byte came for too long", root)
        if isinstance(root, httpx2.RemoteProtocolError | httpx2.ReadError):
            return _transport("truncated_stream", "the connection was dropped", root)
        if isinstance(root, httpx2.TransportError | OSError):
            return _transport("connection", "the connection failed", root)
        return _transport("malformed_stream", "what came is not of this protocol", e)

    def _scrub(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _cut_off(kind: ErrorKind) -> ProviderError:
    text = "cut off at the deadline" if kind == "deadline" else "no event came for too long: the stream was cut off"
    return ProviderError(text, kind=kind, retryable=True)


def _transport(kind: ErrorKind, text: str, e: BaseException) -> ProviderError:
    return ProviderError(f"{text}: {type(e).__name__}: {e}"[:400], kind=kind, retryable=True)
