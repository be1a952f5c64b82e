"""A server on loopback that answers each POST with the next of its replies, byte for byte, faults included."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REASONS = {200: "OK", 302: "Found"}


class Seen:
    """One request as it arrived."""

    def __init__(self, path: str, headers: dict[str, str], raw: bytes) -> None:
        self.path, self.headers, self.raw = path, headers, raw

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


class Peer:
    """What a reply acts on."""

    def __init__(self, sock: socket.socket, over: threading.Event) -> None:
        self._sock, self._over = sock, over

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def stay(self, seconds: float = 60.0) -> bool:
        """Wait; false once the server is being stopped."""
        return not self._over.wait(seconds)

    def reset(self) -> None:
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


Reply = Callable[[Peer, Seen], None]


class Server:
    """`replies` are used up in order; a single callable answers everything."""

    def __init__(self, replies: Iterable[Reply] | Reply) -> None:
        self.seen: list[Seen] = []
        self.unexpected = 0
        self._always = replies if callable(replies) else None
        self._replies: Iterator[Reply] = iter(()) if callable(replies) else iter(list(replies))
        self._over = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                server._answer(self)

            do_GET = do_POST

            def log_message(self, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        raw = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        seen = Seen(handler.path, {k.lower(): v for k, v in handler.headers.items()}, raw)
        self.seen.append(seen)
        reply = self._always or next(self._replies, None)
        handler.close_connection = True
        if reply is None:
            self.unexpected += 1
            return
        with contextlib.suppress(OSError):
            reply(Peer(handler.connection, self._over), seen)

    def __enter__(self) -> Server:
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'X')}", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


def status(code: int, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
    text = body.encode() if isinstance(body, str) else json.dumps(body if body is not None else {}).encode()
    kind = "text/html" if isinstance(body, str) else "application/json"

    def reply(peer: Peer, seen: Seen) -> None:
        peer.send(head(code, {"content-type": kind, "content-length": str(len(text)), **(headers or {})}) + text)

    return reply


ALIVE = {"ping": b'event: ping\ndata: {"type": "ping"}\n\n', "comments": b": keep-alive\n\n"}
SSE = {"content-type": "text/event-stream"}


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""


def stream(pieces: Iterable[bytes], *, end: str = "whole", pause: float = 0.0) -> Reply:
    """An event stream. `end`: whole; or after the pieces given: cut (no last chunk), silent (a stream without a length
    just ends), reset, hang, or ping or comments (either one for ever)."""

    def reply(peer: Peer, seen: Seen) -> None:
        plain = end == "silent"
        peer.send(head(200, {**SSE, "connection": "close"} if plain else {**SSE, "transfer-encoding": "chunked"}))
        for piece in pieces:
            if pause and not peer.stay(pause):
                return
            peer.send(piece if plain else chunked(piece))
        if end == "whole":
            peer.send(b"0\r\n\r\n")
        elif end == "reset":
            peer.reset()
        elif end == "hang":
            peer.stay()
        elif end in ALIVE:
            while peer.stay(0.03):
                peer.send(chunked(ALIVE[end]))

    return reply


def drop(peer: Peer, seen: Seen) -> None:
    """Close without a byte."""


def reset(peer: Peer, seen: Seen) -> None:
    peer.reset()


def hang(peer: Peer, seen: Seen) -> None:
    peer.stay()


def raw(data: bytes) -> Reply:
    return lambda peer, seen: peer.send(data)
