"""Why this score: a run's result in plain words."""

from __future__ import annotations

from refactorbench.outcome import Outcome, Status
from refactorbench.result import RunResult, StageOne, StageThree, StageTwo

MEANING = {
    0: "0: it was not migrated, or it is not the same system any more",
    40: "40: migrated and every recorded check passes, but every verifier found a difference",
    100: "100: migrated, every recorded check passes, and no verifier found a difference",
}


def mark(outcome: Outcome) -> str:
    return {"pass": "pass", "fail": "FAIL"}.get(outcome.status.value, outcome.status.value.upper())


def stage_one(one: StageOne) -> list[str]:
    g = {1: "passed", 0: "FAILED", None: "UNDECIDED"}[one.g]
    lines = [f"stage I   {g}: {one.without_vote} of {len(one.criteria)} criteria decided without a vote"]
    for c in one.criteria:
        tail = f"  ({c.outcome.cause})" if c.outcome.cause else ""
        narrow = "  narrow, in the human queue" if c.narrow else ""
        lines.append(f"    {mark(c.outcome):4} {c.id}: {c.title}{tail}{narrow}")
    return lines


def stage_two(two: StageTwo) -> list[str]:
    word = {True: "passed", False: "FAILED", None: "OPEN"}[two.complete]
    lines = [f"stage II  {word}: {two.passed} of {two.expected} recorded checks" + ("" if two.credited else "  (not credited)")]
    if two.note:
        lines.append(f"    note: {two.note}")
    for m in two.modules:
        odd = [f"{n} {w}" for n, w in ((m.failed, "failed"), (m.nondeterministic, "nondeterministic"),
               (m.unreproduced, "unreproduced"), (m.open, "without a verdict")) if n]  # fmt: skip
        lines.append(f"    {m.passed:5d}/{m.expected:<5d} {m.id}" + (f"  {', '.join(odd)}" if odd else ""))
    if two.forgiven:
        lines.append("    forgiven by rule: " + ", ".join(f"{k} {v}" for k, v in sorted(two.forgiven.items())))
    lines.append(f"    fresh checks, never priced: {two.fresh_total - two.fresh_failed}/{two.fresh_total} passed")
    return lines


def stage_three(three: StageThree) -> list[str]:
    survived = sum(v.outcome.passed for v in three.verifiers)
    lines = [f"stage III {survived} of {len(three.verifiers)} verifiers upheld nothing"]
    for v in three.verifiers:
        word = {Status.PASS: "held off", Status.FAIL: "BROKEN"}.get(v.outcome.status, "ERROR")
        found = f"  counterexample {v.counterexample}" if v.counterexample else ""
        cause = f"  ({v.outcome.cause})" if v.outcome.cause and not v.outcome.passed else ""
        lines.append(f"    {word:8} {v.id} {v.title}: {v.inputs} inputs{found}{cause}")
    return lines


def meaning(r: RunResult) -> str:
    """The last line: what S says, in a sentence."""
    if r.score.value is None:
        return (
            f"unscored, S is between {100 * r.score.low:.0f} and {100 * r.score.high:.0f}: " + "; ".join(r.score.why)
        )
    s = round(100 * r.score.value)
    said = MEANING.get(s, f"{s}: migrated and every recorded check passes; some verifiers found differences")
    blind = "; BLIND: every recorded check passes although nothing was migrated" if r.blind else ""
    return f"S = {said}{blind}"


def why(r: RunResult) -> str:
    """Return the whole explanation; the last line is the score's meaning."""
    lines = [f"{r.task} ({r.task_status})  agent {r.agent}  panel {r.panel}" + ("" if r.comparable else "  NOT COMPARABLE")]
    if r.removed:
        lines.append(f"    left out of the submission: {', '.join(r.removed[:8])}" + (" ..." if len(r.removed) > 8 else ""))
    lines.append(f"build     {mark(r.build)}" + (f": {r.build.cause}" if r.build.cause else f": artefact {r.artefact[:12]}"))
    if r.stage1:
        lines += stage_one(r.stage1)
    if r.stage2:
        lines += stage_two(r.stage2)
    if r.stage3:
        lines += stage_three(r.stage3)
    return "\n".join([*lines, meaning(r)])
