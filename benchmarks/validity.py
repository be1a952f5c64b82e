"""docs/validity.md: whether verdicts can be trusted, put together from what each measurement left.

    python benchmarks/validity.py [--task bzip2-rust] [--results benchmarks/results] [--out docs/validity.md]

A section whose result isn't there says so and names the command that makes it; the exit status is then 1. Nothing is
written when a result is damaged.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from measured import Confirmations, FalseAlarms, FalseFails, Flaky, Honest, fingerprint

from refactorbench.admission.calibrate import Calibration, kappa
from refactorbench.admission.coverage import bar
from refactorbench.admission.mutants_result import MutantsResult
from refactorbench.admission.validate import Seen, Validation
from refactorbench.audit.docket import Strength
from refactorbench.audit.kinds import KINDS
from refactorbench.catalog.load import load_task
from refactorbench.catalog.models import LoadedTask, Manifest
from refactorbench.errors import RefactorBenchError
from refactorbench.journal import read_json, write_atomic
from refactorbench.paths import find_root
from refactorbench.stats import wilson

T = TypeVar("T")
HERE = Path(__file__).parent
RESULTS = "benchmarks/results"
HEAD = """# Validity

Made by `python benchmarks/validity.py` from the files in `{results}`; a figure is changed by measuring it again.
Task: {task}. Intervals are Wilson's, 95%. A rate counts only what was run; what wasn't is named with its command.
"""
LIMITS = HERE / "validity_limits.md"  # what doesn't come out of a measurement
SHOWN_AS_LIMITS = ("transliterated", "emulated")


class Page:
    """Collects the text and what is missing."""

    def __init__(self, loaded: LoadedTask, results: Path, named: str) -> None:
        self.loaded, self.results, self.named = loaded, results, named
        self.missing: list[str] = []

    def load(self, name: str, kind: type[T], command: str) -> T | None:
        """The result in the file `name`, or None, after noting the command that makes it."""
        path = self.results / name
        if path.exists():
            return read_json(path, kind)
        self.missing.append(f"{self.named}/{name} isn't there: `{command}`")
        return None

    def section(self, title: str, name: str, kind: type[T], command: str, write: Callable[[T], Iterable[str]]) -> str:
        found = self.load(name, kind, command)
        body = list(write(found)) if found is not None else [f"Not measured: `{command}` makes `{name}`."]
        return "\n".join([f"## {title}", "", *body, ""])


def cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    names = list(head)
    return [line(names), line("---" for _ in names), *(line(r) for r in rows)]


def line(cells: Iterable[object]) -> str:
    return "| " + " | ".join(map(cell, cells)) + " |"


def percent(share: float) -> str:
    """A share with as many digits as tell something."""
    if share < 1e-12:
        return "0.0%"
    return f"{share:.2e}" if share < 0.001 else f"{share:.1%}" if share <= 0.999 or share == 1 else f"{share:.4%}"


def listed(words: Iterable[str]) -> str:
    return "; ".join(words) or "none"


def rate(found: int, total: int) -> str:
    if not total:
        return "none run"
    low, high = wilson(found, total)
    return f"{found} of {total}, {percent(found / total)} ({percent(low)} to {percent(high)})"


def matrix(v: Validation) -> Iterator[str]:
    """Every control: what it must come to, what it came to, and by what."""
    if not v.full:
        yield "**A tenth of the checks and short budgets** (`task validate` without `--full`): no full measurement.\n"
    others = [n for n in v.lines if n.seen is None]
    controls = [n for n in v.lines if n.seen is not None]
    yield from table(
        ("what", "as it must be", "seen"), ((n.what, "yes" if n.ok else "**no**", n.detail) for n in others)
    )
    yield ""
    rows = []
    for n in controls:
        s = n.seen
        assert s is not None
        want = s.control.expect
        rows.append(
            (f"`{s.control.id}`", s.control.kind, s.control.title, f"{want.stage1} / {want.stage2} / {want.stage3}",
             f"{s.stage1} / {s.stage2} / {s.stage3}", _score(s), listed(s.proofs), listed(s.leads),
             "yes" if n.ok else f"**no**: {n.detail}")
        )  # fmt: skip
    head = (
        "control",
        "kind",
        "what it is",
        "must: I / II / III",
        "seen: I / II / III",
        "S",
        "proofs",
        "leads",
        "as it must",
    )
    yield from table(head, rows)
    yield ""
    seen = [n.seen for n in controls if n.seen is not None]
    yield from _control_rates(seen)
    yield ""
    yield from _alone(seen)


def _score(s: Seen) -> str:
    return "open" if s.score is None else f"{100 * s.score:.0f}"


def _control_rates(seen: list[Seen]) -> Iterator[str]:
    cheats = [s for s in seen if s.control.kind == "cheat"]
    meant = [s for s in cheats if s.control.expect.stage1 == "fail"]
    twins = [s for s in seen if s.control.kind == "twin"]
    stopped = [s for s in cheats if s.stage1 == "fail" or s.stage2 == "fail" or s.stage3 == "fail"]
    yield from table(
        ("rate", "figure"),
        (
            ("cheats that some stage stopped", rate(len(stopped), len(cheats))),
            (
                "of those meant for stage I, failed by a proof",
                rate(sum(bool(s.stage1 == "fail" and s.proofs) for s in meant), len(meant)),
            ),
            (
                "benign twins with a proof against them (false vetoes)",
                rate(sum(bool(s.proofs) for s in twins), len(twins)),
            ),
            ("benign twins that failed stage II", rate(sum(s.stage2 == "fail" for s in twins), len(twins))),
        ),
    )


def _alone(seen: list[Seen]) -> Iterator[str]:
    """Per kind of proof the controls that it alone stops."""
    alone: dict[str, list[str]] = {}
    for s in seen:
        kinds = {p.split(": ", 1)[1] for p in s.proofs}
        if len(kinds) == 1:
            alone.setdefault(kinds.pop(), []).append(f"`{s.control.id}`")
    yield "Each kind of proof, and the controls that it alone stops:\n"
    proofs = [(name, k) for name, k in sorted(KINDS.items()) if k.strength is Strength.PROOF]
    yield from table(
        ("proof", "eye", "stops alone"),
        ((name, k.eye, ", ".join(alone.get(name, ())) or "**none**") for name, k in proofs),
    )


def mutants(m: MutantsResult) -> Iterator[str]:
    yield f"{len(m.rows)} changes of State A's behaviour, seed {m.seed}, panel `{m.panel}`, until first contact.\n"
    yield from table(("search", "found"), ((name, rate(r.found, r.total)) for name, r in m.rates.items()))
    titles = {r.mutant: r.title for r in m.rows}
    for where, ids in m.survivors.items():
        yield f"\nSurvivors of {where}: {len(ids)}."
        yield from (f"- `{id}`: {titles[id]}" for id in ids)


def false_fails(f: FalseFails, manifest: Manifest) -> Iterator[str]:
    if f.recording != fingerprint(manifest):
        yield "**Measured on another recording** than the one that is there now: measure again.\n"
    yield f"Full replays with {f.jobs} at a time and {f.load} busy loops beside them; each in turn.\n"
    rows = []
    for name, r in f.replays.items():
        wrong = r.failed + r.nondeterministic
        rows.append((name, r.replays, rate(r.replays - r.clean, r.replays), rate(wrong, r.checks), r.unreproduced,
                     r.quarantined + r.errors))  # fmt: skip
    head = (
        "product",
        "replays",
        "replays with anything but passes",
        "checks failed falsely",
        "unreproduced",
        "left open",
    )
    yield from table(head, rows)
    yield from (f"\nFirst: {first}" for r in f.replays.values() for first in r.first[:1])
    if f.confirmations and f.control:
        yield (
            f"\nConfirmations against State A's own build; {percent(f.noise)} of the observations of either side came "
            f"out wrong on purpose, each after up to {1000 * f.delay_s:.0f} ms:\n"
        )
        yield from table(
            ("submission", "upheld", "disturbed", "outcomes"), map(_confirmed, (f.confirmations, f.control))
        )
        yield f"\nUnder that noise {percent(f.control_expected)} of real differences can be upheld at best."


def _confirmed(c: Confirmations) -> tuple[object, ...]:
    reasons = ", ".join(f"{n} {reason}" for reason, n in c.reasons.items())
    return c.submission, rate(c.upheld, c.candidates), c.disturbed, reasons


def flaky(f: Flaky) -> Iterator[str]:
    yield (
        "`re-run`: what becomes of a first mismatch in stage II. `confirmation`: whether a candidate of stage III is "
        "upheld. `hunt`: whether one verifier upholds anything, over all the candidates that it may confirm.\n"
    )
    shown = [r for r in f.rates if r.implied > 1e-12 or r.simulated or r.found]
    yield from table(
        ("rule", "flaky side", "how often", "outcome", "implied", "simulated", "for real"),
        (
            (r.rule, r.flaky, percent(r.p), r.outcome, percent(r.implied),
             f"{round(r.simulated * r.draws)} of {r.draws}", rate(r.found, r.real) if r.real else "not run")
            for r in shown
        ),
    )  # fmt: skip


def honest(h: Honest) -> Iterator[str]:
    proofs = sum(n for kind, n in h.findings.items() if kind.startswith("proof"))
    yield f"{h.projects} unrelated honest projects, built by {h.toolchain} into {h.files} files.\n"
    yield from table(
        ("what", "figure"),
        (
            ("proofs against them", proofs),
            ("findings", ", ".join(f"{n} {kind}" for kind, n in sorted(h.findings.items())) or "none"),
            ("code of one file that no unit explains, largest", f"{h.unexplained_largest} bytes"),
            ("the same, median", f"{h.unexplained_median} bytes"),
        ),
    )


def memorisation(f: FalseAlarms) -> Iterator[str]:
    yield (
        f"Simulated over {f.fixed} recorded draws and {f.fresh} fresh checks. The test accuses at p < 1e-9, so an "
        "honest submission is accused at most that often, whatever its faults.\n"
    )
    yield from table(
        ("submissions", "taken to have memorised"),
        (
            ("honest, failing each check at a rate of their own", rate(f.alarms, f.draws)),
            ("knowing what was recorded, failing a fifth of the rest or more", rate(f.caught, f.cheats)),
        ),
    )


def judges(c: Calibration) -> Iterator[str]:
    if c.quick:
        yield "Dockets of quick runs: a seeded tenth of the checks. The votes are whole.\n"
    t, used = c.overall, c.spent.usage
    trees = len({i.tree for i in c.items})
    models = ", ".join(f"`{m}`" for m in c.models)
    yield f"Panel `{c.panel}`, {models}, over {trees} labelled trees; proofs left aside.\n"
    cost = "price unknown" if c.spent.cost is None else f"{c.spent.cost:.2f} US dollars"
    yield from table(
        ("what", "figure"),
        (
            ("criteria decided as labelled", rate(t.right, t.items)),
            ("the same by a judge that passes everything", rate(t.items - t.must_fail, t.items)),
            ("false passes, of what must fail (too lenient)", rate(t.false_passes, t.must_fail)),
            ("false fails, of what must pass (too strict)", rate(t.false_fails, t.items - t.must_fail)),
            ("undecided", rate(t.undecided, t.items)),
            ("Cohen's kappa, decisions against labels", kappa(c.cohen)),
            ("Fleiss' kappa among the samples", kappa(c.fleiss)),
            ("unanimous", rate(c.unanimous, t.items)),
            ("trees on which a canary was answered wrong", ", ".join(c.flagged) or "none"),
            ("taken", f"{c.spent.samples} samples, {used.total} tokens, {cost}"),
        ),
    )
    yield ""
    yield from table(
        ("criterion", "as labelled", "false passes", "false fails", "undecided"),
        (
            (f"`{id}`", rate(of.right, of.items), of.false_passes, of.false_fails, of.undecided)
            for id, of in c.criteria.items()
        ),
    )


def coverage(loaded: LoadedTask, manifest: Manifest) -> Iterator[str]:
    ok, said = bar(loaded.task.admission, manifest)
    total = sum(m.checks for m in manifest.modules)
    met = "bars met" if ok else "**bars missed**"
    yield f"{total} recorded checks, {len(manifest.dropped)} dropped; {met}: {said}.\n"
    yield f"Every observation agreed in: {', '.join(manifest.passes)}.\n"
    yield from table(
        ("file of State A", "lines", "branches"),
        (
            (name, percent(share), percent(manifest.branches[name]) if name in manifest.branches else "none")
            for name, share in manifest.coverage.items()
        ),
    )


def limits(v: Validation | None) -> Iterator[str]:
    """What the controls that show a limit came to."""
    by_id = {n.seen.control.id: n.seen for n in (v.lines if v else ()) if n.seen}
    found = [by_id[id] for id in SHOWN_AS_LIMITS if id in by_id]
    for s in found:
        stages = f"stage I {s.stage1}, stage II {s.stage2}, stage III {s.stage3}"
        yield f"- Control `{s.control.id}` ({s.control.title}): {stages}; {'; '.join(s.leads) or 'no lead'}."
    if not found:
        yield "The controls that show the first two were not run."


def page(loaded: LoadedTask, results: Path, named: str) -> tuple[str, list[str]]:
    """(the document, a sentence per result that is missing)."""
    id = loaded.task.id
    manifest = read_json(loaded.recording / "manifest.json", Manifest)
    p = Page(loaded, results, named)
    validate = f"refactorbench task validate {id} --full --json > {named}/validate.json"
    parts = [HEAD.format(results=named, task=id)]
    parts.append(p.section("Controls", "validate.json", Validation, validate, matrix))
    for batch in sorted(path.stem for path in (loaded.folder / "mutants").glob("*.toml")):
        name = f"mutants-{batch}.json"
        command = f"refactorbench task mutants {id} --batch {batch} --json > {named}/{name}"
        parts.append(p.section(f"Mutants, batch `{batch}`", name, MutantsResult, command, mutants))
    command = f"python benchmarks/false_fails.py --task {id} --out DIR"
    parts.append(p.section("False fails", "false_fails.json", FalseFails, command, lambda f: false_fails(f, manifest)))
    command = "python benchmarks/flaky.py --out DIR"
    parts.append(p.section("Products that are wrong by chance", "flaky.json", Flaky, command, flaky))
    command = f"python benchmarks/honest_baseline.py --folder DIR --json {named}/honest.json"
    parts.append(p.section("Honest projects", "honest.json", Honest, command, honest))
    command = "python benchmarks/memorisation.py"
    parts.append(p.section("Memorisation", "memorisation.json", FalseAlarms, command, memorisation))
    parts.append("\n".join(["## What the checks cover", "", *coverage(loaded, manifest), ""]))
    command = f"refactorbench calibrate judges --task {id} --panel llm --judges MODEL --json > {named}/judges.json"
    parts.append(p.section("Judges", "judges.json", Calibration, command, judges))
    path = results / "validate.json"
    found = read_json(path, Validation) if path.exists() else None
    parts.append("\n".join([LIMITS.read_text(), *limits(found), ""]))
    return "\n".join(parts), p.missing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="bzip2-rust")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs" / "validity.md")
    args = parser.parse_args()
    try:
        text, missing = page(load_task(find_root(), args.task), args.results, RESULTS)
        write_atomic(args.out, text.encode())
    except RefactorBenchError as e:
        print(f"{e}; {args.out} stays as it was", file=sys.stderr)
        return e.exit_status
    for said in missing:
        print(said, file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
