"""How far a panel's judges can be trusted: their votes over trees whose answers are known, proofs left aside."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from refactorbench.admission.recording import build_state_a
from refactorbench.audit.stage import AuditResult
from refactorbench.audit.verdict import PANEL_SIZE, Spent, Vote, tally
from refactorbench.catalog.controls import ControlContext, list_controls, make_tree
from refactorbench.catalog.labels import Label, Labelled, labelled, read_labels
from refactorbench.catalog.load import chosen_panel, load_task, panel_label
from refactorbench.catalog.recordings import load_recording
from refactorbench.catalog.sources import fetch_state_a
from refactorbench.errors import UsageError, did_you_mean
from refactorbench.journal import read_json
from refactorbench.llm.protocol import Usage
from refactorbench.options import RunOptions
from refactorbench.pipeline import run_pipeline
from refactorbench.progress import Progress
from refactorbench.sandbox.bubblewrap import BubblewrapSandbox
from refactorbench.stats import cohen_kappa, fleiss_kappa, wilson


class Item(msgspec.Struct, frozen=True):
    """One criterion on one tree: what is known, what was voted and what the votes decide: pass | fail | undecided."""

    tree: str
    kind: str
    criterion: str
    label: Label
    votes: tuple[str, ...]
    decision: str
    narrow: bool

    @property
    def right(self) -> bool:
        return self.decision == self.label


class Tally(msgspec.Struct, frozen=True):
    """Counts over items. A false pass lets through what must fail (too lenient), a false fail is too strict."""

    items: int
    right: int
    false_passes: int
    false_fails: int
    undecided: int
    must_fail: int  # of the items: those that false passes are a share of


class Calibration(msgspec.Struct, frozen=True):
    """Shares come with Wilson's 95% interval. `cohen`: the decisions against the labels, over what was decided;
    `fleiss`: among the first three samples of each item; None where they don't exist. `flagged`: trees on which a
    canary was answered wrong."""

    task: str
    panel: str
    models: tuple[str, ...]
    quick: bool
    items: tuple[Item, ...]
    overall: Tally
    criteria: dict[str, Tally]
    accuracy: tuple[float, float, float]  # share, low, high
    cohen: float | None
    fleiss: float | None
    unanimous: int
    flagged: tuple[str, ...]
    missing: dict[str, str]  # tree -> why votes are missing
    spent: Spent

    def text(self) -> str:
        return "\n".join(lines(self))


def items_of(tree: Labelled, audit: AuditResult) -> Iterator[Item]:
    """What the votes alone decide: a proof stands above them in a run, and says nothing about the judges."""
    for id, label in tree.labels.items():
        votes: Sequence[Vote] = (audit.votes or {}).get(id, ())
        count = tally(votes)
        decided = "undecided" if count.decision is None or audit.spoiled else count.decision.value
        yield Item(tree.name, tree.kind, id, label, tuple(v.choice.value for v in votes), decided, count.narrow)


def counted(items: Sequence[Item]) -> Tally:
    return Tally(
        len(items),
        sum(i.right for i in items),
        sum((i.label, i.decision) == ("fail", "pass") for i in items),
        sum((i.label, i.decision) == ("pass", "fail") for i in items),
        sum(i.decision == "undecided" for i in items),
        sum(i.label == "fail" for i in items),
    )


def summed(
    task: str, panel: str, models: tuple[str, ...], quick: bool, judged: Sequence[tuple[Labelled, AuditResult]]
) -> Calibration:
    """Pure: the same votes give the same figures. UsageError where nothing was judged."""
    items = tuple(item for tree, audit in judged for item in items_of(tree, audit))
    if not items:
        raise UsageError(
            "no labelled tree was judged, so there is nothing to calibrate by: name others (--only), or labels"
        )
    overall = counted(items)
    decided = [(i.label, i.decision) for i in items if i.decision != "undecided"]
    threes = [i.votes[:PANEL_SIZE] for i in items if len(i.votes) >= PANEL_SIZE]
    spent = [audit.spent for _, audit in judged]
    costs = [s.cost for s in spent]
    return Calibration(
        task, panel, models, quick, items, overall,
        {c: counted([i for i in items if i.criterion == c]) for c in dict.fromkeys(i.criterion for i in items)},
        (overall.right / overall.items, *wilson(overall.right, overall.items)),
        cohen_kappa(decided), fleiss_kappa(threes), sum(len(set(t)) == 1 for t in threes),
        tuple(tree.name for tree, audit in judged if audit.spoiled),
        {tree.name: next(iter(audit.missing.values())) for tree, audit in judged if audit.missing},
        Spent(
            sum(s.samples for s in spent), sum((s.usage for s in spent), Usage()),
            None if None in costs else sum(c for c in costs if c is not None), sum(s.again for s in spent),
        ),
    )  # fmt: skip


def share(found: int, total: int) -> str:
    if not total:
        return "none"
    low, high = wilson(found, total)
    return f"{found} of {total}, {100 * found / total:.1f}% ({100 * low:.1f}% to {100 * high:.1f}%)"


def kappa(value: float | None) -> str:
    return "not defined, all say the same" if value is None else f"{value:.3f}"


def lines(c: Calibration) -> Iterator[str]:
    t, used = c.overall, c.spent.usage
    leaning = t.false_passes - t.false_fails
    lean = "too lenient" if leaning > 0 else "too strict" if leaning < 0 else "neither too lenient nor too strict"
    yield f"{c.task}, panel {c.panel}, {', '.join(c.models)}" + ("; quick runs" if c.quick else "")
    yield f"  right: {share(t.right, t.items)}; undecided: {t.undecided}"
    yield f"  a judge that passes everything would be right on {share(t.items - t.must_fail, t.items)}"
    yield f"  false passes: {share(t.false_passes, t.must_fail)} of what must fail"
    yield f"  false fails: {share(t.false_fails, t.items - t.must_fail)} of what must pass; on the whole {lean}"
    yield f"  Cohen's kappa against the labels: {kappa(c.cohen)}; Fleiss' among the samples: {kappa(c.fleiss)}"
    yield f"  unanimous: {share(c.unanimous, t.items)}"
    cost = "price unknown" if c.spent.cost is None else f"{c.spent.cost:.2f} US dollars"
    cached = f"{used.cache_read} of {used.prompt} input tokens from a cache"
    yield f"  {c.spent.samples} samples, {used.total} tokens, {cached}, {cost}"
    for id, of in c.criteria.items():
        yield f"  {id}: {of.right} of {of.items} right, {of.false_passes} false passes, {of.false_fails} false fails"
    yield from (f"  {name}: FLAGGED, a canary was answered wrong: its items count as undecided" for name in c.flagged)
    yield from (f"  {name}: votes are missing: {why}" for name, why in c.missing.items())
    for i in c.items:
        if not i.right:
            yield f"    {i.tree} {i.criterion}: {i.decision} ({' '.join(i.votes) or 'no votes'}), must be {i.label}"


class Request(msgspec.Struct, frozen=True):
    """What is calibrated: a panel with judges on a task's trees. `labels`: people's file; `only`: names of trees."""

    task: str
    panel: str
    judges: tuple[str, ...] = ()
    labels: Path | None = None
    only: tuple[str, ...] = ()
    full: bool = False
    jobs: int = 2
    seed: int = 1
    prices: Path | None = None


def calibrate(root: Path, request: Request, cache: Path, out: Path | None, progress: Progress) -> Calibration:
    """Audit every labelled tree under the panel; each is a run below `out`, so that a second start goes on."""
    loaded = load_task(root, request.task)
    panel = chosen_panel(root, request.panel, request.judges)
    if panel.judges.kind == "none":
        raise UsageError(f"panel '{panel.name}' has no judges to calibrate: name one that has (--panel llm)")
    controls = list_controls(loaded)
    people = read_labels(request.labels, loaded.criteria, controls) if request.labels else ()
    beside = request.labels.parent if request.labels else root
    trees = labelled(loaded.criteria, controls, (loaded.folder / "solution").is_dir(), people, beside)
    names = [t.name for t in trees]
    for name in request.only:
        if name not in names:
            raise UsageError(
                f"--only {name} has no labels{did_you_mean(name, names)}: those that have are {', '.join(names)}"
            )
    work = out or Path(tempfile.mkdtemp(prefix="refactorbench-calibrate-"))
    try:
        make = tree_maker(root, request, cache, work, progress)
        judged = []
        for tree in trees:
            if not request.only or tree.name in request.only:
                progress.say(f"calibrating on {tree.name}")
                judged.append((tree, audited(root, request, tree, make, cache, work, progress)))
        return summed(request.task, panel_label(panel), panel.judges.models, not request.full, judged)
    finally:
        if out is None:
            shutil.rmtree(work, ignore_errors=True)


def tree_maker(root: Path, request: Request, cache: Path, work: Path, progress: Progress) -> Callable[[Labelled], Path]:
    """A function that lays out a labelled tree; State A is fetched and built when the first control needs it."""
    loaded = load_task(root, request.task)
    made: list[ControlContext] = []

    def context() -> ControlContext:
        if not made:
            state_a = fetch_state_a(loaded.task.state_a, cache, progress.say)
            built = build_state_a(
                loaded, loaded.task.reference, state_a, BubblewrapSandbox(), cache, work / "reference"
            )  # fmt: skip
            made.append(ControlContext(state_a, Path(built.product), load_recording(loaded), loaded))
        return made[0]

    def make(tree: Labelled) -> Path:
        if tree.path or tree.kind == "solution":
            return Path(tree.path) if tree.path else loaded.folder / "solution"
        control = next(c for c in list_controls(loaded) if c.id == tree.name)
        shutil.rmtree(work / tree.name / "tree", ignore_errors=True)
        return make_tree(control, context(), work / tree.name / "tree")

    return make


def audited(
    root: Path, request: Request, tree: Labelled, make: Callable[[Labelled], Path], cache: Path, work: Path,
    progress: Progress,
) -> AuditResult:  # fmt: skip
    """Stage I on one tree, or as far as a former start came."""
    run = work / tree.name / "run"
    began = (run / "units" / "agent.json").is_file()
    place = work / tree.name / "tree" if began and not tree.path and tree.kind != "solution" else make(tree)
    options = RunOptions(
        task=request.task, agent="submission", submission=str(place.resolve()), panel=request.panel, stages=("audit",),
        jobs=request.jobs, quick=not request.full, seed=request.seed, judges=request.judges,
        prices=str(request.prices or ""),
    )  # fmt: skip
    run_pipeline(root, options, run, cache, progress)
    return read_json(run / "units" / "audit.json", AuditResult)
