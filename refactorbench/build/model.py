"""What a build leaves: one content-addressed artefact, and the facts its trace showed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec


class ExecFact(msgspec.Struct, frozen=True):
    """One execve attempt. `image` is the resolved path, `sha256` its content where it existed; `line` in the trace."""

    line: int
    path: str
    argv: tuple[str, ...]
    ok: bool
    sha256: str
    tripwire: bool


class LinkInput(msgspec.Struct, frozen=True):
    """A file that the linker or the target compiler read as object code.

    origin: target (written by the target compiler in this build), toolchain (in the toolchain's own files),
    other (written by any other image in this build), tree (lay in the submission), unexplained.
    """

    line: int
    path: str
    sha256: str
    origin: Literal["target", "toolchain", "other", "tree", "unexplained"]
    writer: str  # the image that wrote it, if any


class BuildFacts(msgspec.Struct, frozen=True):
    """Facts of one traced build; paths are inside the sandbox; `line`s refer to the trace file."""

    execs: tuple[ExecFact, ...]
    link_inputs: tuple[LinkInput, ...]
    reads: tuple[str, ...]  # files of the submission and of the toolchain that were opened for reading
    writes: tuple[str, ...]
    network: tuple[tuple[int, str], ...]  # (line, text) of connect/sendto attempts beyond unix sockets


class BuildReport(msgspec.Struct, frozen=True):
    """`status`: built | failed (the recipe failed where the canary builds) | harness (the canary fails too)."""

    status: Literal["built", "failed", "harness"]
    cause: str
    artefact: str  # digest, or "" when not built
    product: str  # host path of the product tree, or ""
    log: str
    trace: str
    facts: BuildFacts
    evidence_product: str  # host path of the evidence build's product tree, "" when it has none
    evidence_equal: bool  # its machine code equals the artefact's
    wall_s: float
    toolchain: dict[str, str]  # tool -> version and path found


def artefact_dir(cache: Path, digest: str) -> Path:
    return cache / "artefacts" / digest
