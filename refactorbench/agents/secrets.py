"""Secrets of the harness's own environment never reach a file: their values are replaced on every write.

Only values that are really set here are looked for. What merely looks like a key may be a test's data, and a journal
from which a run goes on must hold it as it was; exports for others mask that too.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

NAMES = re.compile(r"(?i)(?:key|token|secret|password|passwd|credential|auth)")
PLACES = re.compile(r"(?i)(?:dir|file|path|sock|home)$")
SHORTEST = 8
LOOKS_LIKE = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{30,}|xox[abprs]-[A-Za-z0-9-]{10,})\b"
    r"|(?i:\bbearer\s+[A-Za-z0-9._~+/-]{16,}=*)"
)


def values(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Value -> name of what is secret in an environment, longest first."""
    found = {v: n for n, v in environ.items() if NAMES.search(n) and len(v) >= SHORTEST and not _is_place(n, v)}
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


def _is_place(name: str, value: str) -> bool:
    """True for a path, such as a socket's or a folder's; a key may begin with a slash as well."""
    return value.startswith("/") and (bool(PLACES.search(name)) or Path(value).exists())


def scrubber(environ: Mapping[str, str] = os.environ) -> Callable[[bytes], bytes]:
    """A function that replaces secret values in lines of JSON, also where a string holds JSON itself (the arguments of
    a call, as a provider spelled them), which writes some characters in more than one way."""
    spelled: dict[bytes, bytes] = {}
    for value, name in values(environ).items():
        value = value.encode(errors="surrogateescape").decode(errors="replace")
        mark = f"[secret {re.sub('[^A-Za-z0-9_]', '_', name)}]".encode()
        once = _escaped(value), json.dumps(value)[1:-1], json.dumps(value)[1:-1].replace("/", "\\/")
        for text in (value, *once):
            spelled.setdefault(_escaped(text).encode(), mark)

    def scrub(line: bytes) -> bytes:
        for value, mark in spelled.items():
            line = line.replace(value, mark)
        return line

    return scrub


def _escaped(text: str) -> str:
    return msgspec.json.encode(text).decode()[1:-1]


def masked(text: str) -> str:
    """Text for others: what looks like a key is masked as well."""
    return LOOKS_LIKE.sub("[looks like a secret]", text)
