"""Whether a divergence counts: trials in fresh sandboxes, and a pure decision over them.

Upheld only if the input is in scope and can't tell which tree it runs on, the reference passes 5 of 5 (against
itself), the submission fails 3 of 3 with one signature, and a deliberately broken reference is told apart. A fault of
the harness on the way is no refusal: it leaves the question open.
"""

from __future__ import annotations

from collections import Counter

from refactorbench.errors import HarnessError
from refactorbench.observe.compare import differences, signature
from refactorbench.observe.explain import explain_all
from refactorbench.observe.model import Check, Observation
from refactorbench.sandbox.protocol import Limits
from refactorbench.verification.bench import Bench
from refactorbench.verification.model import Decision, Evidence, Reason, Side, Trial
from refactorbench.verification.scope import Rules, identifies_tree

REFERENCE_TRIALS = 5
SUBMISSION_TRIALS = 3
ORDER = (*(Side.REFERENCE, Side.SUBMISSION) * SUBMISSION_TRIALS, *(Side.REFERENCE,) * 2, Side.BROKEN)
MIB = 1 << 20


def over_limits(o: Observation, limits: Limits) -> str:
    """Say why a reference isn't well within the limits (a tenth of the time, half of the sizes), or ""."""
    if o.ended == "limit":
        return f"the reference hits the {o.limit} limit"
    if o.ended == "launch":
        return "the reference can't be started with this input"
    if o.wall_ms > min(limits.wall_s, limits.cpu_s) * 100:
        return "the reference needs more than a tenth of the time limit"
    if max(len(o.stdout), len(o.stderr)) > limits.output_mb * MIB / 2:
        return "the reference needs more than half of the output limit"
    if sum(len(f.data) for f in o.files) > limits.disk_mb * MIB / 2:
        return "the reference needs more than half of the disk limit"
    return ""


def failure(check: Check, expected: Observation, got: Observation) -> str:
    """Return the signature of how `got` fails `expected`, "" when it doesn't."""
    found = differences(expected, got, check.rules)
    if found and got.ended == "limit" and expected.ended != "limit":
        # what had been written when it was killed is a matter of timing
        return f"limit:{got.limit}"
    return signature(found)


def explain(check: Check, expected: Observation, got: Observation) -> str:
    if got.ended == "limit":
        return f"the submission hits the {got.limit} limit; the reference is well within it"
    return explain_all(differences(expected, got, check.rules))


def _observations(trials: tuple[Trial, ...]) -> list[Observation]:
    return [t.observation for t in trials if t.observation is not None]


def _refusal(evidence: Evidence, limits: Limits) -> tuple[Reason, str] | None:
    """The rules that need no signature, in their order: scope, faults, the reference."""
    if evidence.identifies:
        return Reason.IDENTIFIES_TREE, evidence.identifies
    if evidence.denied:
        return Reason.OUT_OF_SCOPE, f"rule '{evidence.denied}' puts this input out of scope"
    fault = next((t for t in evidence.trials if t.observation is None), None)
    if fault is not None:
        return Reason.HARNESS, f"a run on the {fault.side} side failed: {fault.fault}"
    counts = Counter(t.side for t in evidence.trials)
    if counts != Counter(ORDER):
        return Reason.HARNESS, f"the trials are incomplete: {len(evidence.trials)} of {len(ORDER)}"
    reference = _observations(evidence.of(Side.REFERENCE))
    reasons = [r for r in (over_limits(o, limits) for o in reference) if r]
    unstable = [d for d in (differences(reference[0], o, evidence.check.rules) for o in reference[1:]) if d]
    hung = any(o.ended == "limit" for o in _observations(evidence.of(Side.SUBMISSION)))
    # being slow disqualifies an input only where time or size is what the submission failed on
    if reasons and (hung or any(o.ended in ("limit", "launch") for o in reference)):
        return Reason.INADMISSIBLE, reasons[0]
    if unstable:
        return Reason.REFERENCE_UNSTABLE, f"the reference differs from itself: {explain_all(unstable[0])}"
    return None


def decide(evidence: Evidence, limits: Limits) -> Decision:
    """Decide from the evidence alone; incomplete trials and faults give HARNESS, never a refusal."""
    check = evidence.check
    refusal = _refusal(evidence, limits)
    if refusal is not None:
        return Decision(refusal[0], "", refusal[1])
    expected = _observations(evidence.of(Side.REFERENCE))[0]
    submission = _observations(evidence.of(Side.SUBMISSION))
    signatures = [failure(check, expected, got) for got in submission]
    failed = [s for s in signatures if s]
    if len(failed) < SUBMISSION_TRIALS:
        why = f"the submission failed {len(failed)} of {SUBMISSION_TRIALS} fresh runs"
        return Decision(Reason.NOT_REPRODUCED, failed[0] if failed else "", why)
    if len(set(failed)) > 1:
        ways = " / ".join(sorted(set(failed)))
        return Decision(Reason.SIGNATURE_VARIES, failed[0], f"the submission failed in several ways: {ways}")
    broken = _observations(evidence.of(Side.BROKEN))[0]
    if not differences(expected, broken, check.rules):
        return Decision(Reason.TESTS_NOTHING, failed[0], "a product that does nothing passes this input")
    return Decision(Reason.UPHELD, failed[0], explain(check, expected, submission[0]))


def trial(side: Side, check: Check, bench: Bench) -> Trial:
    """Run `check` once in a sandbox opened for it alone."""
    try:
        with bench.open(side) as worker:
            return Trial(side, worker.observe(check))
    except HarnessError as e:
        return Trial(side, None, str(e))


def gather(check: Check, bench: Bench, rules: Rules) -> Evidence:
    """Run the trials, interleaved; an input that is out of scope isn't run at all."""
    evidence = Evidence(check, (), identifies_tree(check), rules.denied(check))
    if evidence.identifies or evidence.denied:
        return evidence
    return Evidence(check, tuple(trial(side, check, bench) for side in ORDER))


def confirm(check: Check, bench: Bench, rules: Rules, limits: Limits) -> tuple[Evidence, Decision]:
    """Gather and decide; once more from the beginning when the harness failed."""
    evidence = gather(check, bench, rules)
    decision = decide(evidence, limits)
    if decision.reason is Reason.HARNESS:
        evidence = gather(check, bench, rules)
        decision = decide(evidence, limits)
    return evidence, decision
