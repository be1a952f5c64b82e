"""The fuzz verifier: draws inputs in chunks, runs each on both sides, confirms the first that is told apart.

A chunk depends on the seed, its number and the inputs that earlier chunks executed: never on time, but for the cap. So
a hunt can be cut at any chunk and taken up again.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from refactorbench.errors import HarnessError
from refactorbench.observe.model import Check, Observation
from refactorbench.outcome import Outcome, Status, harness_error
from refactorbench.verification import shrink
from refactorbench.verification.bench import Bench, Pair
from refactorbench.verification.confirm import confirm, failure
from refactorbench.verification.model import (
    CHUNK,
    Activity,
    ChunkResult,
    Counterexample,
    Decision,
    Divergence,
    Ended,
    Evidence,
    OnChunk,
    OnProgress,
    Plan,
    Reason,
    Side,
    VerifierResult,
)
from refactorbench.verification.scope import Rules, identifies_tree

DIGEST = 8  # bytes of an input's digest that are kept: 20,000 inputs collide once in about 1e11 runs
CHUNK_LEAST = 50  # inputs drawn at the end of a budget: some may be duplicates or out of scope
DRY_CHUNKS = 3  # so many chunks on end with hardly a new input: the strategy is exhausted
DRY_SHARE = 0.01
# With a submission that fails one run in ten at random, a candidate is upheld once in 1,000: so few candidates are
# allowed that six verifiers together stay near 3% (0.4% at one in twenty).
UNREPRODUCED_MAX = 4
LIMIT_COST = 20  # runs that a shrinking step counts for when the submission was killed at a limit

# chunk number, how many inputs -> (inputs, how many more were drawn and left out)
Draw = Callable[[int, int], tuple[list[Check], int]]


def state(plan: Plan, chunks: Mapping[int, ChunkResult]) -> Ended:
    """Say whether the hunt is over and why; "open" when there is another chunk to run."""
    done = [chunks[k] for k in sorted(chunks)]
    if any(c.counterexample for c in done):
        return "found"
    if _unreproduced(done) > UNREPRODUCED_MAX:
        return "unstable"
    if sum(c.executed for c in done) >= plan.budget:
        return "budget"
    if any(c.capped for c in done) or sum(c.seconds for c in done) >= plan.cap_s:
        return "cap"
    tail = done[-DRY_CHUNKS:]
    if len(tail) == DRY_CHUNKS and all(c.executed <= DRY_SHARE * c.drawn for c in tail):
        return "exhausted"
    return "open"


def contiguous(done: Mapping[int, ChunkResult]) -> dict[int, ChunkResult]:
    """The chunks from 0 on; what lies behind a gap had other predecessors and is run again."""
    chunks: dict[int, ChunkResult] = {}
    while len(chunks) in done:
        chunks[len(chunks)] = done[len(chunks)]
    return chunks


def _unreproduced(chunks: list[ChunkResult]) -> int:
    return sum(d.decision.reason is Reason.NOT_REPRODUCED for c in chunks for d in c.divergences)


def _outcome(ended: Ended, executed: int, signature: str, fault: str) -> Outcome:
    if ended == "found":
        return Outcome(Status.FAIL, f"a counterexample is upheld: {signature}")
    if fault:
        return harness_error(f"{fault}; run this verifier again alone")
    if ended == "unstable":
        return harness_error(
            f"more than {UNREPRODUCED_MAX} divergences did not reproduce, so neither survival nor a counterexample is "
            "shown: run this verifier again alone on a quiet machine"
        )
    if ended == "open":
        return Outcome(Status.NOT_RUN, "chunks are left to run: resume")
    if not executed:
        return harness_error(
            "no input was executed on both sides, which is no survival: mend the strategy or the scope"
        )
    how = {"budget": "all of the budget", "cap": "capped by the clock"}.get(ended, f"exhausted after {executed} inputs")
    return Outcome(Status.PASS, f"survived {executed} distinct inputs ({how})")


def combine(plan: Plan, chunks: Mapping[int, ChunkResult], fault: str = "") -> VerifierResult:
    """Put a verifier's chunks together; pure. `fault` is what the harness failed at, if it did."""
    done = [chunks[k] for k in sorted(chunks)]
    ended = state(plan, chunks)
    found, before, first = None, 0.0, None
    for chunk in done:
        if chunk.counterexample is not None and chunk.found_after_s is not None:
            found, first = chunk.counterexample, round(before + chunk.found_after_s, 3)
            break
        before += chunk.seconds
    divergences = [d for c in done for d in c.divergences]
    refused = Counter(d.decision.reason.value for d in divergences if not d.decision.upheld)
    executed = sum(c.executed for c in done)
    activity = Activity(
        ended="fault" if fault and ended != "found" else ended,
        chunks=len(done),
        drawn=sum(c.drawn for c in done),
        executed=executed,
        denied=sum(c.denied for c in done),
        duplicates=sum(c.duplicates for c in done),
        inadmissible=sum(c.inadmissible for c in done),
        divergences=len(divergences),
        refused=dict(sorted(refused.items())),
        seconds=round(sum(c.seconds for c in done), 3),
        first_found_s=first,
    )
    return VerifierResult(
        verifier=plan.verifier,
        direction=plan.direction,
        title=plan.title,
        seed=plan.seed,
        engine=plan.engine,
        outcome=_outcome(ended, executed, found.signature if found else "", fault),
        activity=activity,
        counterexample=found,
        refusals=tuple(d for d in divergences if not d.decision.upheld),
    )


class FuzzVerifier:
    """One seat's hunt. `clock` gives seconds; it decides nothing but the cap."""

    def __init__(
        self, plan: Plan, bench: Bench, rules: Rules, draw: Draw, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.plan = plan
        self._bench, self._rules, self._draw, self._clock = bench, rules, draw, clock

    @property
    def id(self) -> str:
        return self.plan.verifier

    def hunt(
        self, done: Mapping[int, ChunkResult], on_chunk: OnChunk, on_progress: OnProgress = lambda _: None
    ) -> VerifierResult:
        chunks = contiguous(done)
        fault = ""
        coin = hashlib.sha256(f"{self.plan.seed}/{self.id}/first".encode()).digest()[0] & 1
        with Pair(self._bench, Side.SUBMISSION if coin else Side.REFERENCE) as pair:
            try:
                while state(self.plan, chunks) == "open":
                    k = len(chunks)
                    chunks[k] = _Chunk(self, k, chunks, pair, on_progress).run()
                    on_chunk(chunks[k])
            except HarnessError as e:
                fault = str(e)
        return combine(self.plan, chunks, fault)


class _Chunk:
    """One chunk while it runs."""

    def __init__(
        self, hunt: FuzzVerifier, k: int, before: Mapping[int, ChunkResult], pair: Pair, on_progress: OnProgress
    ) -> None:
        self.hunt, self.k, self.pair, self.on_progress = hunt, k, pair, on_progress
        self.plan = hunt.plan
        past = list(before.values())
        self.executed_before = sum(c.executed for c in past)
        self.unreproduced = _unreproduced(past)
        self.seen = {c.digests[i : i + DIGEST] for c in past for i in range(0, len(c.digests), DIGEST)}
        self.started = hunt._clock()
        self.deadline = self.started + self.plan.cap_s - sum(c.seconds for c in past)
        self.count: Counter[str] = Counter()
        self.digests: list[bytes] = []
        self.divergences: list[Divergence] = []
        self.counterexample: Counterexample | None = None
        self.found_after_s: float | None = None
        self.capped = False

    def run(self) -> ChunkResult:
        """Raises HarnessError when a sandbox failed twice on one input, or a confirmation can't be carried out."""
        missing = self.plan.budget - self.executed_before
        checks, beyond = self.hunt._draw(self.k, min(CHUNK, max(CHUNK_LEAST, missing)))
        looked_at = 0
        for i, check in enumerate(checks):
            if self._over():
                break
            looked_at += 1
            self._input(msgspec.structs.replace(check, id=f"{self.plan.verifier}/{self.k:04d}-{i:03d}"))
        return ChunkResult(
            k=self.k,
            drawn=len(checks) + beyond,
            executed=self.count["executed"],
            denied=self.count["denied"],
            duplicates=self.count["duplicates"],
            inadmissible=self.count["inadmissible"],
            left=len(checks) + beyond - looked_at,
            digests=b"".join(self.digests),
            divergences=tuple(self.divergences),
            counterexample=self.counterexample,
            capped=self.capped,
            reopened=self.count["reopened"],
            seconds=self.hunt._clock() - self.started,
            found_after_s=self.found_after_s,
        )

    def _over(self) -> bool:
        if self.counterexample is not None or self.unreproduced > UNREPRODUCED_MAX:
            return True
        if self.executed_before + self.count["executed"] >= self.plan.budget:
            return True
        self.capped = self.hunt._clock() >= self.deadline
        return self.capped

    def _input(self, check: Check) -> None:
        digest = bytes.fromhex(check.input_digest())[:DIGEST]
        if digest in self.seen:
            self.count["duplicates"] += 1
            return
        self.seen.add(digest)
        if identifies_tree(check) or self.hunt._rules.denied(check):
            self.count["denied"] += 1
            return
        expected, got = self._observe(check)
        if expected.ended in ("limit", "launch"):
            self.count["inadmissible"] += 1
            return
        self.count["executed"] += 1
        self.digests.append(digest)
        self.on_progress(self.executed_before + self.count["executed"])
        if failure(check, expected, got):
            self._diverged(check)

    def _observe(self, check: Check) -> tuple[Observation, Observation]:
        try:
            return self.pair.observe(check)
        except HarnessError:
            self.count["reopened"] += 1
            self.pair.reopen()
            return self.pair.observe(check)

    def _diverged(self, check: Check) -> None:
        evidence, decision = confirm(check, self.hunt._bench, self.hunt._rules, self.plan.limits)
        if decision.reason is Reason.HARNESS:
            raise HarnessError(f"a divergence can't be confirmed: {decision.explanation}")
        self.divergences.append(Divergence(check, decision, _trials(evidence)))
        self.unreproduced += decision.reason is Reason.NOT_REPRODUCED
        if decision.upheld:
            self.found_after_s = self.hunt._clock() - self.started
            self.counterexample = self._minimised(evidence, decision)

    def _minimised(self, evidence: Evidence, decision: Decision) -> Counterexample:
        shrinker = shrink.Shrinker(evidence.check, lambda c: self._probe(c, decision.signature))
        try:
            small = shrinker.run()
        except HarnessError:
            small = shrinker.best
        original = evidence.check
        if small != original:
            again, verdict = confirm(small, self.hunt._bench, self.hunt._rules, self.plan.limits)
            if verdict.upheld and verdict.signature == decision.signature:
                evidence, decision = again, verdict
        return _counterexample(self.plan, evidence, decision, original, shrinker.runs)

    def _probe(self, check: Check, signature: str) -> int:
        if identifies_tree(check) or self.hunt._rules.denied(check):
            return 0
        self.on_progress(self.executed_before + self.count["executed"])
        expected, got = self.pair.observe(check)
        cost = LIMIT_COST if "limit" in (expected.ended, got.ended) else 1
        same = expected.ended not in ("limit", "launch") and failure(check, expected, got) == signature
        return cost if same else -cost


def _trials(evidence: Evidence) -> tuple[tuple[Side, str], ...]:
    return tuple((t.side, t.observation.digest() if t.observation else f"fault: {t.fault}") for t in evidence.trials)


def _counterexample(plan: Plan, evidence: Evidence, decision: Decision, original: Check, runs: int) -> Counterexample:
    expected, got = (
        msgspec.structs.replace(trial.observation, wall_ms=0)
        for side in (Side.REFERENCE, Side.SUBMISSION)
        if (trial := evidence.of(side)[0]).observation is not None
    )
    return Counterexample(
        id=f"{plan.verifier}-{evidence.check.input_digest()[:12]}",
        verifier=plan.verifier,
        direction=plan.direction,
        signature=decision.signature,
        explanation=decision.explanation,
        check=evidence.check,
        original=original,
        size=shrink.size(evidence.check),
        original_size=shrink.size(original),
        expected=expected,
        got=got,
        shrink_runs=runs,
    )
