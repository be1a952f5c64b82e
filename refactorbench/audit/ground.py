"""Grounding: the host re-opens every PROOF before it counts. A witness that lies, or is mistaken, is refused here.

Re-opening has two parts: the anchor holds (bytes, line or figure are really there, read anew and never through
a link), and what the finding's kind claims about them is true when looked at again.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from refactorbench import stats
from refactorbench.audit.docket import (
    BytesAnchor,
    Docket,
    Eye,
    EyeReport,
    Finding,
    StatAnchor,
    Strength,
    TextAnchor,
    TraceAnchor,
)
from refactorbench.audit.kinds import KINDS
from refactorbench.audit.verdict import Opened
from refactorbench.audit.witnesses import runtime, source, steps
from refactorbench.audit.witnesses.state_a import StateA
from refactorbench.build.trace import line_text
from refactorbench.catalog.models import LoadedTask
from refactorbench.errors import HarnessError

NEAR = 3  # lines around the one a text anchor names


class Refused(Exception):
    """A finding doesn't stand; the message says why."""


class Evidence:
    """What the host itself holds about a submission, apart from what any witness says.

    `reads` and `answers` as in witnesses/source.py, `answers` as a function that starts the recorded outputs;
    `memorisation` as in witnesses/runtime.py; `reopen_build` is the build witness's own re-opening; `know` gives
    what is known of State A where the caller keeps it.
    """

    def __init__(
        self,
        loaded_task: LoadedTask,
        submission: Path,
        state_a: Path,
        reads: set[str] | None = None,
        answers: Callable[[], Iterable[bytes]] | None = None,
        traces: tuple[Path, ...] = (),
        state_a_traces: tuple[Path, ...] = (),
        memorisation: tuple[int, int, int, int] | None = None,
        reopen_build: Callable[[Finding], bool] | None = None,
        know: Callable[[], StateA] | None = None,
    ) -> None:
        self.loaded_task, self.submission, self.state_a = loaded_task, submission, state_a
        self.reads, self.answers = reads, answers
        self.traces, self.state_a_traces, self.memorisation = traces, state_a_traces, memorisation
        self.reopen_build, self._know = reopen_build, know

    @cached_property
    def known(self) -> StateA:
        if self._know is not None:
            return self._know()
        return StateA(self.state_a, self.loaded_task.task, self.answers() if self.answers else None)

    @cached_property
    def source_again(self) -> EyeReport:
        return source.witness(self.submission, self.state_a, self.loaded_task, None, self.reads, known=self.known)

    @cached_property
    def runtime_again(self) -> EyeReport:
        return runtime.witness(self.traces, self.state_a_traces, None, self.loaded_task)


def ground(docket: Docket, evidence: Evidence) -> Opened:
    """Re-open every PROOF of `docket`; those that don't stand are refused with the reason."""
    refused = {}
    for report in docket.reports:
        for finding in report.findings:
            if finding.strength is Strength.PROOF and (why := why_refused(finding, report.eye, evidence)):
                refused[finding.id] = why
    return Opened(docket, refused)


def reopen(finding: Finding, evidence: Evidence) -> bool:
    """True when a PROOF stands."""
    return not why_refused(finding, finding.eye, evidence)


def why_refused(finding: Finding, reporter: Eye, evidence: Evidence) -> str:
    """Return why `finding`, reported by `reporter`, doesn't stand; "" when it does."""
    kind = KINDS.get(finding.kind)
    if kind is None:
        return f"{finding.kind!r} is no kind of finding"
    if finding.eye is not reporter or kind.eye is not reporter:
        return f"{finding.kind} is for the {kind.eye} witness, the {reporter} witness reported it"
    if kind.strength is not Strength.PROOF:
        return f"{finding.kind} is a LEAD at most"
    try:
        if reporter is Eye.SOURCE:
            _source(finding, evidence)
        elif reporter is Eye.RUNTIME:
            _runtime(finding, evidence)
        elif evidence.reopen_build is None or not evidence.reopen_build(finding):
            return "the build witness's anchor could not be re-opened"
    except (Refused, OSError, HarnessError) as e:
        return str(e)
    return ""


def open_inside(root: Path, path: str) -> BinaryIO:
    """The regular file `path` below `root`, opened; no component is a link. Refused for anything else."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise Refused(f"{path!r} is no path inside the tree")
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in pure.parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        file = os.open(pure.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError as e:
        raise Refused(f"{path!r} can't be read inside the tree: {e.strerror}") from e
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise Refused(f"{path!r} is no regular file")
    return os.fdopen(file, "rb")


def read_inside(root: Path, path: str, start: int = 0) -> bytes:
    """What `open_inside` opens, from byte `start` on, up to steps.MOST bytes."""
    with open_inside(root, path) as f:
        f.seek(start)
        return f.read(steps.MOST)


def open_text(root: Path, anchor: TextAnchor) -> None:
    """Refused unless the quote stands within three lines of where it is said to be, white space aside."""
    quote = "".join(anchor.quote.split())
    if not quote:
        raise Refused("an empty quote")
    lines = read_inside(root, anchor.path).decode("utf-8", "replace").split("\n")
    if not 1 <= anchor.line <= len(lines):
        raise Refused(f"{anchor.path} has no line {anchor.line}")
    last = anchor.line + NEAR + anchor.quote.count("\n")
    window = "".join("".join(lines[max(0, anchor.line - 1 - NEAR) : last]).split())
    if quote not in window:
        raise Refused(f"{anchor.quote[:60]!r} doesn't stand at {anchor.path}:{anchor.line}")


def open_bytes(root: Path, anchor: BytesAnchor) -> bytes:
    """Do the decode steps again and return the decoded layer. Refused unless the piece has the digest."""
    try:
        start, decode = steps.start_of(anchor.decode)
        layer = steps.apply(decode, read_inside(root, anchor.path, start))
    except (steps.DecodeError, ValueError) as e:
        raise Refused(f"{anchor.path} doesn't decode as said: {e}") from e
    piece = layer[anchor.offset : anchor.offset + anchor.size] if anchor.offset >= 0 else b""
    if not piece or len(piece) != anchor.size or hashlib.sha256(piece).hexdigest() != anchor.sha256:
        raise Refused(f"the {anchor.size} bytes at {anchor.offset} of {anchor.path} are others than said")
    return layer


def open_trace(logs: Iterable[Path], anchor: TraceAnchor) -> Path:
    """Return the trace. Refused unless it is one of the host's and the line reads as quoted."""
    log = next((p for p in logs if p.name == anchor.log), None)
    if log is None:
        raise Refused(f"there is no trace {anchor.log!r}")
    if not anchor.quote or line_text(log, anchor.line) != anchor.quote:
        raise Refused(f"line {anchor.line} of {anchor.log} reads otherwise")
    return log


def _source(finding: Finding, evidence: Evidence) -> None:
    anchor = finding.anchor
    if isinstance(anchor, StatAnchor):
        figures = source.migration_figures(evidence.submission, evidence.known)
        if (finding.kind, anchor.name) != ("not-migrated", "not-migrated") or anchor.values != figures:
            raise Refused(f"{anchor.name} is {figures} when counted again, not {anchor.values}")
        if not source.not_migrated(figures):
            raise Refused("the tree has target code, and not all old sources are there")
        return
    if not isinstance(anchor, BytesAnchor):
        raise Refused("a PROOF of the source witness needs an anchor in bytes or in figures")
    layer = open_bytes(evidence.submission, anchor)
    stands = source.confirms(finding.kind, anchor, layer, evidence.known, evidence.reads)
    if not stands and finding.kind in source.SUMS:
        stands = any((f.kind, f.anchor) == (finding.kind, anchor) for f in evidence.source_again.findings)
    if not stands:
        raise Refused(f"what stands in {anchor.path} is not what {finding.kind} says")


def _runtime(finding: Finding, evidence: Evidence) -> None:
    anchor = finding.anchor
    if isinstance(anchor, StatAnchor):
        counts = evidence.memorisation
        if (finding.kind, anchor.name) != ("answers-memorised", "memorisation") or anchor.values != counts:
            raise Refused(f"the counts of stage II are {counts}, not {anchor.values}")
        if not stats.memorised(*counts):
            raise Refused("the counts are no evidence of memorisation")
        return
    if not isinstance(anchor, TraceAnchor):
        raise Refused("a PROOF of the run-time witness needs an anchor in a trace or in figures")
    open_trace(evidence.traces, anchor)
    if not any((f.kind, f.anchor) == (finding.kind, anchor) for f in evidence.runtime_again.findings):
        raise Refused(f"line {anchor.line} of {anchor.log} is not what {finding.kind} says")
