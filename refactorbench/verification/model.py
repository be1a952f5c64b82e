"""What stage III works with: plans, candidates and their confirmation, chunks, results. All can be stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Literal, Protocol

import msgspec

from refactorbench.observe.model import Check, Observation
from refactorbench.outcome import Outcome
from refactorbench.sandbox.protocol import Limits

CHUNK = 500  # inputs drawn at a time: the unit of work that a kill can lose


class Side(StrEnum):
    REFERENCE = "reference"
    SUBMISSION = "submission"
    BROKEN = "broken"  # the reference's layout with nothing behind it


class Reason(StrEnum):
    """Why a divergence was upheld or refused; `HARNESS` is neither: nothing can be said."""

    UPHELD = "upheld"
    IDENTIFIES_TREE = "identifies_tree"
    OUT_OF_SCOPE = "out_of_scope"
    HARNESS = "harness"
    INADMISSIBLE = "inadmissible"  # the reference didn't start, or isn't well within the limits
    REFERENCE_UNSTABLE = "reference_unstable"
    NOT_REPRODUCED = "not_reproduced"
    SIGNATURE_VARIES = "signature_varies"
    TESTS_NOTHING = "tests_nothing"


class Plan(msgspec.Struct, frozen=True):
    """One verifier's work. `strategy` is a name in STRATEGIES of the file `module`, "" for all of them; `deny` names
    predicates in its DENY. `budget` counts inputs executed on both sides; `cap_s` is seconds of work; `engine` is what
    draws the inputs, with its version: another one draws others."""

    verifier: str
    direction: str
    title: str
    strategy: str
    module: str
    deny: tuple[str, ...]
    budget: int
    cap_s: float
    seed: int
    engine: str
    limits: Limits


class Trial(msgspec.Struct, frozen=True):
    """One run of a candidate in a fresh sandbox: an observation, or the harness's fault in words."""

    side: Side
    observation: Observation | None
    fault: str = ""


class Evidence(msgspec.Struct, frozen=True):
    """Everything a decision rests on; `identifies` and `denied` name the scope rule that refuses the input, or ""."""

    check: Check
    trials: tuple[Trial, ...] = ()
    identifies: str = ""
    denied: str = ""

    def of(self, side: Side) -> tuple[Trial, ...]:
        return tuple(t for t in self.trials if t.side is side)


class Decision(msgspec.Struct, frozen=True):
    reason: Reason
    signature: str
    explanation: str

    @property
    def upheld(self) -> bool:
        return self.reason is Reason.UPHELD


class Divergence(msgspec.Struct, frozen=True):
    """One input on which the two sides differed, and what its confirmation said. `trials` are observation digests
    (or "fault: ...") by side, in the order in which they ran."""

    check: Check
    decision: Decision
    trials: tuple[tuple[Side, str], ...]


class Counterexample(msgspec.Struct, frozen=True):
    """An upheld divergence: `check` is minimised, `original` as drawn; sizes in bytes of input.

    `expected` is the reference's observation of `check`, `got` the submission's; their clocks are set to zero.
    """

    id: str
    verifier: str
    direction: str
    signature: str
    explanation: str
    check: Check
    original: Check
    size: int
    original_size: int
    expected: Observation
    got: Observation
    shrink_runs: int


class ChunkResult(msgspec.Struct, frozen=True):
    """Chunk `k` of a verifier: counts, 8-byte digests of the inputs that were executed, what was found.

    drawn = executed + denied + duplicates + inadmissible + left; `left` were drawn and not looked at: after a find, at
    the budget or the cap, or beyond the chunk's memory. `seconds` and `found_after_s` are clocks.
    """

    k: int
    drawn: int
    executed: int
    denied: int
    duplicates: int
    inadmissible: int
    left: int
    digests: bytes
    divergences: tuple[Divergence, ...] = ()
    counterexample: Counterexample | None = None
    capped: bool = False
    reopened: int = 0  # times that both sandboxes were opened anew after a fault
    seconds: float = 0.0
    found_after_s: float | None = None


Ended = Literal["found", "budget", "cap", "exhausted", "unstable", "fault", "open"]


class Activity(msgspec.Struct, frozen=True):
    """What a verifier did: inputs are pairs executed on both sides; `refused` counts by reason; seconds are clocks."""

    ended: Ended
    chunks: int
    drawn: int
    executed: int
    denied: int
    duplicates: int
    inadmissible: int
    divergences: int
    refused: dict[str, int]
    seconds: float
    first_found_s: float | None


class VerifierResult(msgspec.Struct, frozen=True):
    """outcome: pass (survived), fail (a counterexample is upheld), error (harness: no statement can be made)."""

    verifier: str
    direction: str
    title: str
    seed: int
    engine: str
    outcome: Outcome
    activity: Activity
    counterexample: Counterexample | None
    refusals: tuple[Divergence, ...]


class Defect(msgspec.Struct, frozen=True):
    """One failure signature; `found_by` in seat order; `counterexample` is the id of the smallest one."""

    signature: str
    counterexample: str
    found_by: tuple[str, ...]


class StageResult(msgspec.Struct, frozen=True):
    verifiers: dict[str, VerifierResult]  # in seat order
    defects: tuple[Defect, ...]

    @property
    def outcomes(self) -> dict[str, Outcome]:
        return {name: result.outcome for name, result in self.verifiers.items()}


OnChunk = Callable[[ChunkResult], None]
OnProgress = Callable[[int], None]  # inputs executed so far


class Verifier(Protocol):
    """Hunts for one counterexample. Work is cut into chunks: those in `done` aren't repeated, each new one is handed
    to `on_chunk` when it is complete. Raises TaskError for a faulty strategy; harness faults are in the outcome."""

    @property
    def id(self) -> str: ...

    def hunt(
        self, done: Mapping[int, ChunkResult], on_chunk: OnChunk, on_progress: OnProgress = ...
    ) -> VerifierResult: ...


class ScriptedVerifier:
    """A verifier that hands out the chunks and the result it was made with."""

    def __init__(self, result: VerifierResult, chunks: tuple[ChunkResult, ...] = ()) -> None:
        self.result, self.chunks = result, chunks

    @property
    def id(self) -> str:
        return self.result.verifier

    def hunt(
        self, done: Mapping[int, ChunkResult], on_chunk: OnChunk, on_progress: OnProgress = lambda _: None
    ) -> VerifierResult:
        for chunk in self.chunks:
            if chunk.k not in done:
                on_chunk(chunk)
                on_progress(chunk.executed)
        return self.result
