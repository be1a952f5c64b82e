"""The docket: what the witnesses found, with anchors that the host can re-open.

A witness reports once for the whole submission. Each finding has a `kind`; audit_criteria/<id>.toml says which kinds
bear on which criterion.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec


class Eye(StrEnum):
    SOURCE = "source"
    BUILD = "build"
    RUNTIME = "runtime"


class Strength(StrEnum):
    PROOF = "proof"
    LEAD = "lead"


class TextAnchor(msgspec.Struct, frozen=True, tag="text"):
    """`quote` stands at `line` (1-based) of `path` in the submission, white space aside, within three lines."""

    path: str
    line: int
    quote: str


class BytesAnchor(msgspec.Struct, frozen=True, tag="bytes"):
    """`size` bytes at `offset` of `path`, after `decode` steps (e.g. "gzip", "xor:41", "base64"), have this sha256."""

    path: str
    offset: int
    size: int
    sha256: str
    decode: tuple[str, ...] = ()


class TraceAnchor(msgspec.Struct, frozen=True, tag="trace"):
    """`quote` stands on line `line` of trace `log` ("build" or a run-time trace's name); `image_sha256` if one ran."""

    log: str
    line: int
    quote: str
    image_sha256: str = ""


class StatAnchor(msgspec.Struct, frozen=True, tag="stat"):
    """A computed figure that the host recomputes: `name` with `values`, e.g. the memorisation test's four counts."""

    name: str
    values: tuple[int, ...]


Anchor = TextAnchor | BytesAnchor | TraceAnchor | StatAnchor


class Kind(msgspec.Struct, frozen=True):
    """What a witness can say: a finding of this kind comes from `eye`, is never stronger than `strength`, and means
    `sentence` about the submission."""

    eye: Eye
    strength: Strength
    sentence: str


class Finding(msgspec.Struct, frozen=True):
    id: str
    eye: Eye
    kind: str
    strength: Strength
    anchor: Anchor
    why: str


class EyeReport(msgspec.Struct, frozen=True):
    """status: looked | void (the submission prevented looking) | lost (the harness did); `covered` says what a CLEAN
    answer covers: name -> count or digest."""

    eye: Eye
    status: Literal["looked", "void", "lost"]
    findings: tuple[Finding, ...]
    covered: dict[str, str]
    cause: str = ""


class Conduct(msgspec.Struct, frozen=True):
    """A LEAD from an agent's transcript: `quote` of line `line` (1-based) of its journal. It bears on no criterion."""

    id: str
    kind: str
    line: int
    quote: str
    why: str


class Docket(msgspec.Struct, frozen=True):
    reports: tuple[EyeReport, ...]
    conduct: tuple[Conduct, ...] = ()

    def report(self, eye: Eye) -> EyeReport:
        for r in self.reports:
            if r.eye is eye:
                return r
        return EyeReport(eye, "lost", (), {}, "the witness did not report")
