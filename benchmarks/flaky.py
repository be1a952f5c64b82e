"""What becomes of a product that is wrong by chance: the rates that the rules imply, simulated, and measured for real.

    python benchmarks/flaky.py --out DIR [--draws 100000] [--real 200] [--seed 1]

Stage II: a check differed once and is run 20 times more on both sides (another 20 after one further fail). Stage III: a
candidate is upheld after 5 of 5 clean runs of the reference and 3 of 3 alike fails of the submission. The simulation
puts seeded draws through the rules' own code; for real, a small program that is wrong at those rates runs in the
sandbox. A second start with the same --out goes on; the summary is written to --summary at the end.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import msgspec
from measured import Flaky, Rate
from noise import begin, each, told

from refactorbench.behaviour import rerun
from refactorbench.behaviour.rerun import ROUND, Ruling
from refactorbench.journal import Journal, write_json
from refactorbench.observe.compare import differences, signature
from refactorbench.observe.model import Check, Observation
from refactorbench.progress import Progress
from refactorbench.sandbox import BubblewrapSandbox, Limits, WorkerSpec
from refactorbench.verification import confirm as stage3
from refactorbench.verification.bench import BenchSpec
from refactorbench.verification.broken import lay_broken
from refactorbench.verification.confirm import ORDER, REFERENCE_TRIALS, SUBMISSION_TRIALS
from refactorbench.verification.fuzz import UNREPRODUCED_MAX
from refactorbench.verification.model import Evidence, Reason, Side, Trial
from refactorbench.verification.scope import Rules

RESULTS = Path(__file__).with_name("results")
RATES = (0.10, 0.05, 0.01)
POWER = 0.5  # measured for real too, where upholding is frequent enough to be seen
FOR_REAL = {  # the cases whose outcomes are frequent enough to be seen in some hundred runs
    ("re-run", "submission"), ("re-run", "both"),
    ("confirmation", "submission"), ("confirmation", "reference, real difference"),
}  # fmt: skip
LIMITS = Limits()
CHECK = Check("flaky/1", "flaky", "process", "bin/tool", (b"tool",))
RIGHT, WRONG, OTHER, DEAD = (
    Observation("exit", 0, text, b"", ()) for text in (b"right\n", b"wrong\n", b"other\n", b"")
)
SIGNATURE = signature(differences(RIGHT, WRONG))
SIGNIFICANT = 1e-5  # two-sided: a share this unlikely under the implied rate disagrees with it
PROGRAM = r"""
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
int main(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  uint64_t x = (uint64_t)t.tv_sec * 1000000007u + (uint64_t)t.tv_nsec * 2654435761u + (uint64_t)getpid();
  for (int i = 0; i < 3; i++) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
  }
  puts((x >> 11) * 0x1p-53 < RATE ? "wrong" : TEXT);
  return 0;
}
"""

Outcomes = dict[str, float]


def implied_rerun(p: float, r: float) -> Outcomes:
    """Rates of the re-run rule's rulings after a first mismatch, where each run of the submission differs with
    probability `p`, always alike, and each of State A with `r`."""
    q, clean = 1 - p, 1 - r
    none, one, all_ = q**ROUND, ROUND * p * q ** (ROUND - 1), p**ROUND
    once, twice = clean**ROUND, clean ** (2 * ROUND)
    found = {
        Ruling.UNREPRODUCED: none * once + one * q**ROUND * twice,
        Ruling.NONDETERMINISTIC: (1 - none - one - all_) * once + one * (1 - q**ROUND) * twice,
        Ruling.FAIL: all_ * once,
    }
    return {str(k): v for k, v in found.items()} | {str(Ruling.QUARANTINED): 1 - sum(found.values())}


def implied_upheld(p: float, r: float, differs: bool) -> float:
    """Rate at which a candidate is upheld: the submission is wrong with probability `p` and the reference with `r`, in
    the same way; where it `differs`, the submission always gives yet another answer."""
    steady = (1 - r) ** REFERENCE_TRIALS, r**REFERENCE_TRIALS
    if differs:
        return sum(steady)
    return steady[0] * p**SUBMISSION_TRIALS + steady[1] * (1 - p) ** SUBMISSION_TRIALS


def implied_hunt(p: float) -> float:
    """Rate at which a verifier upholds something of a submission wrong with probability `p`, however long it hunts."""
    return 1 - (1 - p**SUBMISSION_TRIALS) ** (UNREPRODUCED_MAX + 1)


def marks(p: float, n: int, rng: random.Random) -> int:
    """`n` independent bits, each 1 with probability `p`; drawn by the gaps between them, which is quick where `p` is
    small."""
    if p <= 0 or p >= 1:
        return (1 << n) - 1 if p >= 1 else 0
    bits, at = 0, -1
    while True:
        at += 1 + int(math.log(1 - rng.random()) / math.log1p(-p))
        if at >= n:
            return bits
        bits |= 1 << at


@lru_cache(1 << 16)
def ruled(fails: int, unclean: int, runs: int) -> Ruling:
    """The rule's ruling on so many runs, given as bits: the submission's fails and State A's unclean ones."""
    signatures = [SIGNATURE if fails >> i & 1 else "" for i in range(runs)]
    return rerun.decide(SIGNATURE, signatures, [not unclean >> i & 1 for i in range(runs)])


def draw_rerun(p: float, r: float, rng: random.Random) -> str:
    """One ruling. Between its rounds the rule only asks for more or stops at an unclean State A, which the round's end
    finds as well."""
    fails = unclean = runs = 0
    while True:
        fails |= marks(p, ROUND, rng) << runs
        unclean |= marks(r, ROUND, rng) << runs
        runs += ROUND
        ruling = ruled(fails, unclean, runs)
        if ruling is not Ruling.AGAIN:
            return ruling.value


@cache
def decided(reference: int, submission: int, differs: bool) -> Reason:
    """The decision over trials that came out wrong where a bit is set."""
    answer = OTHER if differs else RIGHT
    seen = {
        Side.REFERENCE: iter([WRONG if reference >> i & 1 else RIGHT for i in range(REFERENCE_TRIALS)]),
        Side.SUBMISSION: iter([WRONG if submission >> i & 1 else answer for i in range(SUBMISSION_TRIALS)]),
        Side.BROKEN: iter([DEAD]),
    }
    return stage3.decide(Evidence(CHECK, tuple(Trial(s, next(seen[s])) for s in ORDER)), LIMITS).reason


def draw_reason(p: float, r: float, differs: bool, rng: random.Random) -> Reason:
    return decided(marks(r, REFERENCE_TRIALS, rng), marks(p, SUBMISSION_TRIALS, rng), differs)


def draw_hunt(p: float, rng: random.Random) -> bool:
    """Whether one of the candidates is upheld that a verifier may confirm before it is called unstable."""
    unreproduced = 0
    while unreproduced <= UNREPRODUCED_MAX:
        reason = draw_reason(p, 0, False, rng)
        if reason is Reason.UPHELD:
            return True
        unreproduced += reason is Reason.NOT_REPRODUCED
    return False


def tail(found: int, total: int, p: float) -> float:
    """Two-sided exact p of `found` of `total` under a chance of `p` each: twice the smaller tail, at most 1."""
    if p <= 0 or p >= 1:
        return 1.0 if found == (total if p >= 1 else 0) else 0.0
    mean, wide = total * p, 12 * math.sqrt(total * p * (1 - p)) + 60  # what lies beyond is below 1e-30
    first, last = max(0, int(mean - wide)), min(total, int(mean + wide) + 1)
    at = math.lgamma(total + 1)
    below = above = 0.0
    for k in range(first, last + 1):
        log = at - math.lgamma(k + 1) - math.lgamma(total - k + 1) + k * math.log(p) + (total - k) * math.log1p(-p)
        share = math.exp(log) if log > -700 else 0.0
        below += share if k <= found else 0.0
        above += share if k >= found else 0.0
    return min(1.0, 2 * min(below, above))


def agrees(found: int, total: int, p: float) -> bool:
    return tail(found, total, p) >= SIGNIFICANT


class Case(msgspec.Struct, frozen=True):
    """A rule, what is flaky, and how often. `p` is the submission's rate, `r` the reference's."""

    rule: str
    flaky: str
    rate: float
    p: float
    r: float
    differs: bool = False

    def implied(self) -> Outcomes:
        if self.rule == "re-run":
            return implied_rerun(self.p, self.r)
        return {"upheld": implied_hunt(self.p) if self.rule == "hunt" else implied_upheld(self.p, self.r, self.differs)}

    def one(self, rng: random.Random) -> str:
        if self.rule == "re-run":
            return draw_rerun(self.p, self.r, rng)
        if self.rule == "hunt":
            return "upheld" if draw_hunt(self.p, rng) else "refused"
        return str(draw_reason(self.p, self.r, self.differs, rng))

    def simulated(self, draws: int, seed: int) -> Counter[str]:
        rng = random.Random(f"{seed}/{self.name}")
        return Counter(self.one(rng) for _ in range(draws))

    @property
    def name(self) -> str:
        return f"{self.rule}/{self.flaky}/{self.rate:g}"


def cases(rates: tuple[float, ...] = RATES) -> Iterator[Case]:
    for p in rates:
        yield Case("re-run", "submission", p, p, 0)
        yield Case("re-run", "reference", p, 1, p)  # beside a submission that always differs
        yield Case("re-run", "both", p, p, p)
        yield Case("confirmation", "submission", p, p, 0)
        yield Case("confirmation", "reference", p, 0, p)
        yield Case("confirmation", "both", p, p, p)
        yield Case("confirmation", "reference, real difference", p, 0, p, True)
        yield Case("hunt", "submission", p, p, 0)


class Real:
    """The program at each rate, compiled once, and the products made of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sandbox = folder, BubblewrapSandbox()
        self.broken = folder / "broken"
        if not self.broken.exists():
            lay_broken(self.product(0), self.broken)

    def product(self, rate: float, text: str = "right") -> Path:
        top = self.folder / f"{text}-{rate:g}"
        if not top.exists():
            (top / "bin").mkdir(parents=True)
            define = [f"-DRATE={rate}", f'-DTEXT="{text}"']
            subprocess.run(
                ["cc", "-O1", "-static", *define, "-x", "c", "-o", str(top / "bin/tool"), "-"],
                input=PROGRAM.encode(), check=True,
            )  # fmt: skip
        return top

    def spec(self, rate: float, text: str = "right") -> WorkerSpec:
        return WorkerSpec(self.product(rate, text), (), LIMITS)

    def rerun(self, case: Case) -> dict[str, Any]:
        """One mismatch put through the re-run rule; the submission's own first mismatch is taken as seen."""
        with (
            self.sandbox.open_worker(self.spec(case.p)) as submission,
            self.sandbox.open_worker(self.spec(case.r)) as reference,
        ):
            done = rerun.confirm(CHECK, RIGHT, SIGNATURE, submission.observe, reference.observe)
        return {"outcome": str(done.ruling)}

    def confirm(self, case: Case) -> dict[str, Any]:
        submission = self.product(case.p, "other" if case.differs else "right")
        spec = BenchSpec("bubblewrap", str(self.product(case.r)), str(submission), str(self.broken), LIMITS)
        return {"outcome": str(stage3.confirm(CHECK, spec.open(), Rules({}), LIMITS)[1].reason)}

    def measure(self, case: Case, journal: Journal, runs: int, progress: Progress) -> Counter[str]:
        def one(n: int) -> dict[str, Any]:
            progress.tick(f"for real: {case.name}", n, runs)
            return self.rerun(case) if case.rule == "re-run" else self.confirm(case)

        return Counter(row["outcome"] for row in each(journal, case.name, runs, one))


def measure(args: argparse.Namespace, journal: Journal, progress: Progress) -> Flaky:
    real = Real(args.out / "products")
    rates = []
    listed = [
        *cases(),
        Case("confirmation", "submission", POWER, POWER, 0),
        Case("re-run", "submission", POWER, POWER, 0),
    ]
    for case in listed:
        progress.say(f"{case.name}: simulating {args.draws}")
        simulated = case.simulated(args.draws, args.seed)
        wanted = args.real if (case.rule, case.flaky) in FOR_REAL else 0
        runs = max(wanted, len(journal.units(case.name + "/")))  # what was measured before counts
        seen = real.measure(case, journal, runs, progress)
        for outcome, implied in case.implied().items():
            rates.append(
                Rate(
                    rule=case.rule, flaky=case.flaky, p=case.rate, outcome=outcome, implied=implied,
                    simulated=simulated[outcome] / args.draws, draws=args.draws, found=seen[outcome], real=runs,
                )
            )  # fmt: skip
    return Flaky(args.seed, tuple(rates))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the rows, one a run for real")
    parser.add_argument("--summary", type=Path, default=RESULTS / "flaky.json")
    parser.add_argument("--draws", type=int, default=100_000)
    parser.add_argument("--real", type=int, default=200, help="runs for real of each case but the hunts")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    journal = begin(args.out / "rows.jsonl", {"program": hashlib.sha256(PROGRAM.encode()).hexdigest()})
    found = measure(args, journal, Progress())
    write_json(args.summary, found)
    odd = []
    for r in found.rates:
        fits = agrees(round(r.simulated * r.draws), r.draws, r.implied) and agrees(r.found, r.real, r.implied)
        odd += [] if fits else [r]
        rates = f"implied {r.implied:9.3e}, simulated {r.simulated:9.3e}, real {r.found} of {r.real}"
        print(f"{r.rule:12} {r.flaky:27} {r.p:4.0%} {r.outcome:16} {rates}{'' if fits else '  DISAGREES'}")
    return 1 if odd else 0


if __name__ == "__main__":
    sys.exit(told(main))
