"""Why this score: a run's result in plain words."""

from __future__ import annotations

from refactorbench.outcome import Outcome, Status
from refactorbench.result import RunResult, StageOne, StageThree, StageTwo

CAUSE = 100  # characters of a cause that a table shows; `show RUN ID` has the rest

LEADS = 5  # from an agent's transcript that the explanation shows


def cut(cause: str, size: int = CAUSE) -> str:
    """`cause` on one line of at most `size` characters."""
    line = " ".join(cause.split())
    return line if len(line) <= size else line[: size - 3] + "..."


def mark(outcome: Outcome) -> str:
    return {"pass": "pass", "fail": "FAIL"}.get(outcome.status.value, outcome.status.value.upper())


def stage_one(one: StageOne) -> list[str]:
    g = {1: "passed", 0: "FAILED", None: "UNDECIDED"}[one.g]
    moot = sum(c.outcome.status is Status.MOOT for c in one.criteria)
    rest = f", {moot} moot (nothing was built, so nothing can be seen)" if moot else ""
    lines = [f"stage I   {g}: {one.without_vote} of {len(one.criteria)} criteria passed without a vote{rest}"]
    if one.judged:
        j = one.judged
        cost = "price unknown" if j.cost is None else f"{j.cost:.2f} US dollars"
        again = f", {j.again} of them asked again on purpose" if j.again else ""
        cached = f"{100 * j.cached:.0f}% of the input from a cache"
        lines.append(f"    {j.samples} samples of judges{again}, {j.tokens} tokens, {cached}, {cost}")
        if j.spoiled:
            lines.append(f"    FLAGGED, no vote counts: {cut(j.spoiled, 3 * CAUSE)}")
    for c in one.criteria:
        tail = f"  ({cut(c.outcome.cause)})" if c.outcome.cause and c.outcome.status is not Status.MOOT else ""
        narrow = "  narrow, in the human queue" if c.narrow else ""
        votes = f"  [{' '.join(c.votes)}]" if c.votes else ""
        lines.append(f"    {mark(c.outcome):4} {c.id}: {c.title}{votes}{tail}{narrow}")
    for told in one.conduct[:LEADS]:
        lines.append(f"    lead, no verdict: {cut(told, 2 * CAUSE)}")
    if len(one.conduct) > LEADS:
        lines.append(f"    {len(one.conduct) - LEADS} more leads from the agent's transcript: `review` shows them")
    return lines


def stage_two(two: StageTwo) -> list[str]:
    word = {True: "passed", False: "FAILED", None: "OPEN"}[two.complete]
    lines = [
        f"stage II  {word}: {two.passed} of {two.expected} recorded checks"
        + ("" if two.credited else "  (not credited)")
    ]
    if two.note:
        lines.append(f"    note: {two.note}")
    for m in two.modules:
        odd = [f"{n} {w}" for n, w in ((m.failed, "failed"), (m.nondeterministic, "nondeterministic"),
               (m.unreproduced, "unreproduced"), (m.open, "without a verdict")) if n]  # fmt: skip
        named = f": {', '.join(m.examples)}" if odd and m.examples else ""
        lines.append(f"    {m.passed:5d}/{m.expected:<5d} {m.id}" + (f"  {', '.join(odd)}{named}" if odd else ""))
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
        cause = f"  ({cut(v.outcome.cause)})" if v.outcome.cause and not v.outcome.passed else ""
        lines.append(f"    {word:8} {v.id} {v.title}: {v.inputs} inputs{found}{cause}")
    return lines


def beside(r: RunResult) -> str:
    """What stands beside every S: the panel, the criteria without a vote, and whether it may be compared."""
    one = r.stage1
    votes = f"; {one.without_vote} of {len(one.criteria)} criteria without a vote" if one else ""
    return f"panel {r.panel}{votes}" + ("" if r.comparable else "; not comparable")


def verdict(r: RunResult) -> str:
    """What a decided S says, in a sentence."""
    if r.stage1 and r.stage1.g == 0:
        failed = sum(c.required and c.outcome.counts_against_submission for c in r.stage1.criteria)
        blind = "; BLIND: every recorded check passes all the same" if r.blind else ""
        return f"it was not migrated, {failed} of {len(r.stage1.criteria)} criteria failed{blind}"
    if r.score.all_checks is False:
        missing = f", {r.stage2.expected - r.stage2.passed} of {r.stage2.expected} recorded checks" if r.stage2 else ""
        return f"it is not the same system any more{missing} do not pass"
    broken = sum(v.outcome.counts_against_submission for v in (r.stage3.verifiers if r.stage3 else ()))
    found = f"{broken} of 6 verifiers found a difference" if broken else "no verifier found a difference"
    return f"migrated, every recorded check passes, and {found}"


def meaning(r: RunResult) -> str:
    """The last line: what S says, in a sentence."""
    if r.score.value is not None:
        return f"S = {100 * r.score.value:.0f} ({beside(r)}): {verdict(r)}"
    between = f"S is between {100 * r.score.low:.0f} and {100 * r.score.high:.0f} ({beside(r)})"
    if r.cause:
        return f"unscored, {between}: {cut(r.cause, 3 * CAUSE)}"
    return f"no score, only a part was asked for; {between}: " + "; ".join(r.score.why)


def why(r: RunResult) -> str:
    """Return the whole explanation; the last line is the score's meaning."""
    stopped = "" if r.stop == "done" else f" (ENDED BY {r.stop.upper()}, see agent.log in the run directory)"
    lines = [
        f"{r.task} ({r.task_status})  agent {cut(r.agent, 60)}{stopped}  panel {r.panel}"
        + ("" if r.comparable else "  NOT COMPARABLE")
    ]
    if r.removed:
        lines.append(
            f"    left out of the submission: {', '.join(r.removed[:8])}" + (" ..." if len(r.removed) > 8 else "")
        )
    lines.append(
        f"build     {mark(r.build)}" + (f": {cut(r.build.cause)}" if r.build.cause else f": artefact {r.artefact[:12]}")
    )
    if r.stage1:
        lines += stage_one(r.stage1)
    if r.stage2:
        lines += stage_two(r.stage2)
    if r.stage3:
        lines += stage_three(r.stage3)
    elif r.stage1 and r.stage2:
        lines.append("stage III not run: it takes both earlier stages (`verify` runs it alone)")
    return "\n".join([*lines, meaning(r)])
