"""How often an honest product is failed: full replays under load, and confirmations of one build against another.

    python benchmarks/false_fails.py --out DIR [--replays 50] [--confirmations 1000] [--jobs 1] [--load 2]

State A's reference and the task's solution are replayed in full, in turn, with busy loops beside them: no check may
fail. Then inputs of the verifiers are put through stage III's confirmation with State A's own build as the reference
and another honest build of it (clang -O0; gcc -O0 where there is no clang) as the submission, while one observation in
twenty comes out wrong on purpose: none may be upheld. The control has a submission that always differs, under the same
noise. A second start with the same --out goes on; the summary is written to --summary at the end.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from measured import Confirmations, FalseFails, Replays, fingerprint
from noise import NoisyBench, begin, each, load, told

from refactorbench.admission.recording import build_state_a, variants
from refactorbench.agents.collect import collect
from refactorbench.behaviour.model import BehaviourResult
from refactorbench.behaviour.replay import replay
from refactorbench.build.builder import build_tree
from refactorbench.build.model import BuildReport
from refactorbench.build.toolchain import find
from refactorbench.catalog.load import load_panel, load_task
from refactorbench.catalog.models import LoadedTask
from refactorbench.catalog.recordings import Recording, load_recording
from refactorbench.catalog.sources import fetch_state_a
from refactorbench.errors import HarnessError, TaskError
from refactorbench.journal import Journal, write_json
from refactorbench.observe.executor import Executor
from refactorbench.observe.model import Check
from refactorbench.observe.spec import worker_spec
from refactorbench.paths import cache_dir, find_root
from refactorbench.progress import Progress
from refactorbench.sandbox import BubblewrapSandbox
from refactorbench.verification import draw, scope
from refactorbench.verification.bench import BenchSpec
from refactorbench.verification.broken import broken_product
from refactorbench.verification.confirm import REFERENCE_TRIALS, SUBMISSION_TRIALS, confirm
from refactorbench.verification.model import CHUNK, Plan
from refactorbench.verification.stage import plans

RESULTS = Path(__file__).with_name("results")
PREFERRED = ("clang-O0", "O0", "gcc-O0")  # the builds that differ most from State A's own
CONTROL = 50  # candidates of the control
STEADY = "code"  # its difference: noise of any kind gives another signature, or takes it away
SHOWN = 5


class Products(msgspec.Struct, frozen=True):
    loaded: LoadedTask
    recording: Recording
    sandbox: BubblewrapSandbox
    reference: BuildReport
    solution: BuildReport | None
    other: BuildReport
    other_name: str


def build(root: Path, id: str, cache: Path, folder: Path, progress: Progress) -> Products:
    """State A's own build, its other one, and the solution's where there is one."""
    loaded, sandbox = load_task(root, id), BubblewrapSandbox()
    state_a = fetch_state_a(loaded.task.state_a, cache, progress.say)
    reference = build_state_a(loaded, loaded.task.reference, state_a, sandbox, cache, folder / "reference")
    other_name, other = "", None
    for v in sorted((v for v in loaded.task.variants if v.id in PREFERRED), key=lambda v: PREFERRED.index(v.id)):
        one = msgspec.structs.replace(loaded, task=msgspec.structs.replace(loaded.task, variants=(v,)))
        other_name, other = v.id, variants(one, state_a, sandbox, cache, folder, progress).get(v.id)
        if other:
            break
    if not other:
        raise TaskError(f"{id} has no variant of {', '.join(PREFERRED)}: State A can't be held against another build")
    solution = None
    if (loaded.folder / "solution").is_dir():
        progress.say("building the solution")
        tree = folder / "solution"
        if not tree.exists():
            collect(loaded.folder / "solution", tree, loaded.task.exclude)
        solution = build_tree(
            tree, loaded.task.target, loaded=loaded, sandbox=sandbox, toolchain=find(loaded.task.target.toolchain),
            cache=cache, workdir=folder / "target", role="target",
        )  # fmt: skip
        if solution.status != "built":
            raise HarnessError(f"the solution of {id} doesn't build: {solution.cause}")
    return Products(loaded, load_recording(loaded), sandbox, reference, solution, other, other_name)


def replayed(p: Products, report: BuildReport, jobs: int, what: str, progress: Progress, n: int) -> dict[str, Any]:
    """One full replay as a row."""

    def opened(of: BuildReport) -> partial[Executor]:
        return partial(Executor, p.sandbox, worker_spec(p.loaded.task, Path(of.product)))

    start = time.monotonic()
    tick = partial(progress.tick, f"replay {n + 1} of {what}")
    result = replay(p.recording, opened(report), opened(p.reference), jobs=jobs, on_progress=tick)
    return row(result, time.monotonic() - start)


def row(result: BehaviourResult, seconds: float) -> dict[str, Any]:
    modules = result.modules
    counts = {
        key: sum(getattr(m, key) for m in modules)
        for key in ("expected", "failed", "nondeterministic", "unreproduced", "quarantined", "errors", "not_run")
    }
    first = [f"{r.id}: {r.outcome.status}: {r.outcome.cause}; {r.difference}" for r in result.results[:SHOWN]]
    return {**counts, "seconds": round(seconds, 2), "first": first}


def tally(rows: list[dict[str, Any]]) -> Replays:
    def total(*keys: str) -> int:
        return sum(r[key] for r in rows for key in keys)

    bad = ("failed", "nondeterministic", "unreproduced", "quarantined", "errors", "not_run")
    return Replays(
        replays=len(rows),
        clean=sum(not any(r[key] for key in bad) for r in rows),
        checks=total("expected"),
        failed=total("failed"),
        nondeterministic=total("nondeterministic"),
        unreproduced=total("unreproduced"),
        quarantined=total("quarantined"),
        errors=total("errors", "not_run"),
        seconds=statistics.median(r["seconds"] for r in rows),
        first=tuple(f for r in rows for f in r["first"])[:SHOWN],
    )


def candidates(plan: Plan, n: int) -> tuple[scope.Rules, list[Check]]:
    """`n` distinct inputs in scope that a verifier would draw, and the rules that say what is in scope."""
    rules, named = scope.load(plan)
    strategy = draw.combined(named)
    found: dict[str, Check] = {}
    k = 0
    while len(found) < n:
        for check in draw.draw_chunk(strategy, draw.chunk_seed(plan.seed, plan.verifier, k), CHUNK)[0]:
            if not scope.identifies_tree(check) and not rules.denied(check):
                found.setdefault(check.input_digest(), check)
        k += 1
    return rules, list(found.values())[:n]


def confirmations(rows: list[dict[str, Any]], submission: str) -> Confirmations:
    reasons = Counter(r["reason"] for r in rows)
    return Confirmations(
        submission=submission,
        candidates=len(rows),
        upheld=reasons["upheld"],
        disturbed=sum(r["disturbed"] > 0 for r in rows),
        reasons=dict(sorted(reasons.items())),
    )


def confirm_all(
    p: Products, args: argparse.Namespace, journal: Journal, progress: Progress
) -> tuple[Confirmations, Confirmations]:
    """The other build against State A's own, and the control."""
    root, limits = p.loaded.root, p.loaded.task.limits
    module = root / "verifiers" / p.loaded.briefs.module
    free = plans(p.loaded.briefs, load_panel(root, "offline"), module, limits, args.seed)[-1]
    rules, checks = candidates(free, args.confirmations)
    spec = worker_spec(p.loaded.task, Path(p.reference.product))
    with broken_product(Path(p.reference.product), cache_dir()) as broken:
        bench = BenchSpec(
            "bubblewrap", p.reference.product, p.other.product, str(broken), limits,
            tuple(map(str, spec.libraries)), spec.env, spec.deny_exec_memory,
        ).open()  # fmt: skip

        def one(n: int, kind: str, steady: str) -> dict[str, Any]:
            progress.tick(f"confirmations ({kind})", n, args.confirmations)
            noisy = NoisyBench(bench, random.Random(f"{args.seed}/{kind}/{n}"), args.noise, args.delay, steady)
            _, decision = confirm(checks[n], noisy, rules, limits)
            return {"reason": decision.reason.value, "disturbed": noisy.disturbed, "why": decision.explanation[:200]}

        honest = each(journal, "honest", len(checks), partial(one, kind="honest", steady=""))
        control = each(journal, "control", min(CONTROL, len(checks)), partial(one, kind="control", steady=STEADY))
    return confirmations(honest, f"State A as {p.other_name}"), confirmations(control, "always another exit status")


def head(p: Products, args: argparse.Namespace) -> dict[str, Any]:
    """What the rows are about: none may be added that were measured on something else."""
    return {
        "task": p.loaded.task.id,
        "recording": fingerprint(p.recording.manifest),
        "reference": p.reference.artefact,
        "solution": p.solution.artefact if p.solution else "",
        "other": p.other.artefact,
        "seed": args.seed, "load": args.load, "jobs": args.jobs, "noise": args.noise, "delay": args.delay,
    }  # fmt: skip


def measure(p: Products, args: argparse.Namespace, journal: Journal, progress: Progress) -> FalseFails:
    products = {"State A": p.reference, **({"solution": p.solution} if p.solution else {})}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in products}
    honest = control = None
    with load(args.load):
        for n in range(1, args.replays + 1):  # in turn, so that what else runs here falls on all alike
            for name, report in products.items():
                one = partial(replayed, p, report, args.jobs, f"{name}, of {args.replays}", progress)
                rows[name] = each(journal, f"replay/{name}", n, one)
        if args.confirmations:
            honest, control = confirm_all(p, args, journal, progress)
    kept = (1 - args.noise) ** (REFERENCE_TRIALS + SUBMISSION_TRIALS)
    return FalseFails(
        task=p.loaded.task.id, recording=head(p, args)["recording"], seed=args.seed, load=args.load, jobs=args.jobs,
        noise=args.noise, delay_s=args.delay, replays={name: tally(found) for name, found in rows.items() if found},
        confirmations=honest, control=control, control_expected=round(kept, 4),
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="bzip2-rust")
    parser.add_argument("--out", type=Path, required=True, help="folder of the rows, one a replay or confirmation")
    parser.add_argument("--summary", type=Path, default=RESULTS / "false_fails.json")
    parser.add_argument("--replays", type=int, default=50, help="of each product")
    parser.add_argument("--confirmations", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--load", type=int, default=len(os.sched_getaffinity(0)), help="busy loops beside it")
    parser.add_argument("--noise", type=float, default=0.05, help="share of observations that come out wrong")
    parser.add_argument("--delay", type=float, default=0.02, help="seconds that one is held up at most")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    progress = Progress()
    p = build(find_root(), args.task, cache_dir(), args.out / "build", progress)
    journal = begin(args.out / "rows.jsonl", head(p, args))
    found = measure(p, args, journal, progress)
    write_json(args.summary, found)
    for name, r in found.replays.items():
        bad = f"{r.failed} failed, {r.nondeterministic} nondeterministic, {r.unreproduced} unreproduced"
        print(f"{name}: {r.clean} of {r.replays} replays clean, {r.checks} checks: {bad}; {r.seconds:.1f} s each")
        print("".join(f"  {line}\n" for line in r.first), end="")
    for c in filter(None, (found.confirmations, found.control)):
        print(f"{c.submission}: {c.upheld} of {c.candidates} upheld ({c.disturbed} disturbed); {c.reasons}")
    wrong = any(r.clean < r.replays for r in found.replays.values())
    return 1 if wrong or (found.confirmations and found.confirmations.upheld) else 0


if __name__ == "__main__":
    sys.exit(told(main))
