"""What a build leaves: one content-addressed artefact, and the facts its trace showed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

Origin = Literal["target", "toolchain", "other", "tree", "unexplained"]


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
    origin: Origin
    writer: str  # the image that wrote it, if any


class BuildFacts(msgspec.Struct, frozen=True):
    """Facts of one traced build; paths are inside the sandbox; `line`s refer to the trace file."""

    execs: tuple[ExecFact, ...]
    link_inputs: tuple[LinkInput, ...]
    reads: tuple[str, ...]  # files of the submission and of the toolchain that were opened for reading
    writes: tuple[str, ...]
    network: tuple[tuple[int, str], ...]  # (line, text) of connect/sendto attempts beyond unix sockets
    outputs: tuple[LinkInput, ...] = ()  # the recipe's machine-code outputs; `line` is their last opening for writing
    images: tuple[LinkInput, ...] = ()  # what ran, or was mapped to run, from outside the toolchain
    scripts: tuple[LinkInput, ...] = ()  # text from outside the toolchain that a linker read
    evasions: tuple[tuple[int, str], ...] = ()  # (line, text) of calls that a trace can't follow
    malformed: int = 0  # lines of the trace that were not understood
    taken: tuple[str, ...] = ()  # tree paths, as submitted, whose own content was read, mapped or executed
    complete: bool = True  # the trace reaches to the harness's own last command
    bitcode: tuple[tuple[int, str], ...] = ()  # (line, path) of bitcode that the target compiler was made to keep
    lines: int = 0  # of the trace
    outside: tuple[tuple[int, str, str], ...] = ()  # (line, path, reader) of the system's files that no toolchain needs
    watched: tuple[tuple[int, str], ...] = ()  # (line, text) of calls that ask whether a tracer is there
    uncovered: tuple[tuple[int, str], ...] = ()  # (line, image): compiler runs without any whose code was linked


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
    guarded: dict[str, str] = {}  # inside path -> sha256 of each old compiler that a tripwire hid
    drivers_absent: dict[str, str] = {}  # driver that doesn't compile against the product -> the compiler's words
    bitcode: str = ""  # host folder of the bitcode that was kept, in the order of `facts.bitcode`
    bitcode_lost: tuple[tuple[int, str], ...] = ()  # bitcode that the compiler wrote and something took away
    language: str = ""  # of the target compiler's units in debug information, "" for a reference build
    old_stack: tuple[str, ...] = ()  # names of the old stack's compilers
    scripts_run: tuple[str, ...] = ()  # those of `facts.images` that are text behind a "#!"
    runtime_objects: tuple[str, ...] = ()  # host paths of the toolchain's own objects and archives that were linked
    evidence_why: str = ""  # why the evidence build doesn't count, "" when it does or there was none


def artefact_dir(cache: Path, digest: str) -> Path:
    return cache / "artefacts" / digest
