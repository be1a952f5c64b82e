"""What the interface literature measures, from a run's journal: failed edits and how often one is made good, refusals,
roll-backs, malformed replies, turns, folding."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from refactorbench.agents.records import Answered, Entry, Folded, Replied, Started, Stopped, Told, read_entries

CHARACTERS_PER_TOKEN = 4  # a rule of thumb: what was folded was never counted by a provider


class Interface(msgspec.Struct, frozen=True):
    """One run. Counts, but for: `tokens` as the provider told, `folded_tokens` estimated, `hours` of working time,
    `cost` in US dollars, 0 where no price is known."""

    scaffold: str
    model: str
    stop: str
    turns: int = 0
    actions: int = 0
    edits: int = 0  # attempted
    edits_failed: int = 0
    with_failed_edit: bool = False
    recovered: int = 0  # failed edits (runs of them) that a later edit made good
    failures: int = 0  # runs of failed edits
    lint_rollbacks: int = 0
    refusals: int = 0
    stopped_commands: int = 0
    format_errors: int = 0
    reminders: int = 0
    folded_tokens: int = 0
    tokens: int = 0
    cost: float = 0.0
    hours: float = 0.0


def measure(entries: Sequence[Entry]) -> Interface:
    """`entries` begin with Started. A run of failed edits, roll-backs included, is recovered when an edit follows that
    is made."""
    first = entries[0]
    assert isinstance(first, Started)
    replies = [e for e in entries if isinstance(e, Replied)]
    acts = [e for e in entries if isinstance(e, Answered)]
    told = [e for e in entries if isinstance(e, Told)]
    stopped = next((e for e in entries if isinstance(e, Stopped)), None)
    outcomes = [e.outcome for e in acts]
    edits = [o for o in outcomes if o in ("edited", "edit_failed", "lint")]
    runs = [good for good, _ in itertools.groupby(o == "edited" for o in edits)]
    failures = runs.count(False)
    clocks = [e.clock for e in entries if isinstance(e, Replied | Answered | Told | Stopped)]
    return Interface(
        scaffold=first.scaffold,
        model=first.model,
        stop=stopped.reason if stopped else "open",
        turns=len(replies),
        actions=len(acts),
        edits=len(edits),
        edits_failed=len(edits) - edits.count("edited"),
        with_failed_edit=failures > 0,
        recovered=failures - (bool(runs) and not runs[-1]),
        failures=failures,
        lint_rollbacks=outcomes.count("lint"),
        refusals=outcomes.count("refused"),
        stopped_commands=outcomes.count("stopped"),
        format_errors=sum(t.why == "format" for t in told),
        reminders=sum(t.why != "format" for t in told),
        folded_tokens=_folded(entries),
        tokens=sum(r.turn.usage.total + r.turn.discarded.total for r in replies),
        cost=round(sum(r.cost for r in replies), 6),
        hours=round(clocks[-1].active_s / 3600, 4) if clocks else 0.0,
    )


def _folded(entries: Sequence[Entry]) -> int:
    """Characters that were folded, as tokens; those that fall out of the last few are counted where a scaffold keeps
    only so many."""
    characters = sum(e.characters for e in entries if isinstance(e, Folded))
    first = entries[0]
    keep = int(first.switches.get("keep_last", 0)) if isinstance(first, Started) else 0
    if keep:
        texts = [len(e.text) for e in entries if isinstance(e, Answered)]
        characters += sum(texts[:-keep])
    return characters // CHARACTERS_PER_TOKEN


class Row(msgspec.Struct, frozen=True):
    """A scaffold and model over several runs: means, but for counts of runs. `scores` are S where there is one."""

    scaffold: str
    model: str
    settings: str
    runs: int
    score: float | None
    turns: float
    edits: float
    edits_failed: float
    runs_with_failed_edit: int
    recovered: float | None  # share of runs of failed edits that were made good
    lint_rollbacks: float
    refusals: float
    format_errors: float
    reminders: float
    folded_tokens: float
    tokens: float
    cost: float
    hours: float
    ended: str  # the reasons, with how many runs ended by each


def rows(runs: Iterable[tuple[Interface, str, float | None]]) -> tuple[Row, ...]:
    """From (interface, settings, S or None) of each run to one row per scaffold, model and settings."""
    groups: dict[tuple[str, str, str], list[tuple[Interface, float | None]]] = {}
    for run, settings, score in runs:
        groups.setdefault((run.scaffold, run.model, settings), []).append((run, score))
    return tuple(_row(key, members) for key, members in sorted(groups.items()))


def _row(key: tuple[str, str, str], members: list[tuple[Interface, float | None]]) -> Row:
    n, scores = len(members), [s for _, s in members if s is not None]
    failures = sum(m.failures for m, _ in members)

    def mean(field: str) -> float:
        return round(sum(getattr(m, field) for m, _ in members) / n, 4)

    return Row(
        *key,
        runs=n,
        score=round(sum(scores) / len(scores), 4) if scores else None,
        turns=mean("turns"),
        edits=mean("edits"),
        edits_failed=mean("edits_failed"),
        runs_with_failed_edit=sum(m.with_failed_edit for m, _ in members),
        recovered=round(sum(m.recovered for m, _ in members) / failures, 4) if failures else None,
        lint_rollbacks=mean("lint_rollbacks"),
        refusals=mean("refusals"),
        format_errors=mean("format_errors"),
        reminders=mean("reminders"),
        folded_tokens=mean("folded_tokens"),
        tokens=mean("tokens"),
        cost=mean("cost"),
        hours=mean("hours"),
        ended=", ".join(f"{n} {reason}" for reason, n in sorted(Counter(m.stop for m, _ in members).items())),
    )


def of_journal(path: Path) -> Interface | None:
    """The interface of a run's journal, None where there is none yet."""
    entries = read_entries(path) if path.is_file() else []
    return measure(entries) if entries else None


COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("model", lambda r: r.model[-30:]),
    ("settings", lambda r: r.settings or "-"),
    ("runs", lambda r: str(r.runs)),
    ("S", lambda r: "-" if r.score is None else f"{100 * r.score:.0f}"),
    ("turns", lambda r: f"{r.turns:g}"),
    ("edits", lambda r: f"{r.edits:g}"),
    ("failed", lambda r: f"{r.edits_failed:g}"),
    ("made good", lambda r: "-" if r.recovered is None else f"{100 * r.recovered:.0f}%"),
    ("lint", lambda r: f"{r.lint_rollbacks:g}"),
    ("refused", lambda r: f"{r.refusals:g}"),
    ("format", lambda r: f"{r.format_errors:g}"),
    ("reminded", lambda r: f"{r.reminders:g}"),
    ("folded", lambda r: f"{r.folded_tokens:g}"),
    ("tokens", lambda r: f"{r.tokens:g}"),
    ("cost", lambda r: f"{r.cost:g}"),
    ("hours", lambda r: f"{r.hours:g}"),
    ("ended", lambda r: r.ended),
)


def table(found: Sequence[Row]) -> str:
    """A table per scaffold: a row for each model and settings, means over its runs."""
    if not found:
        return "no run of an agent with a model"
    lines: list[str] = []
    for scaffold, rows_ in itertools.groupby(found, key=lambda r: r.scaffold):
        cells = [[head for head, _ in COLUMNS], *([value(r) for _, value in COLUMNS] for r in rows_)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines += ["", scaffold]
        lines += ["  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join(lines[1:])
