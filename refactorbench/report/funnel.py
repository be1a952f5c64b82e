"""The stage-by-stage funnel as text and as data."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from refactorbench.report.explain import CAUSE, cut
from refactorbench.store.views import Funnel, find_runs, funnels, open_store, rows_of


def report(places: Iterable[Path]) -> dict[str, Any]:
    """Return {"funnels": [...], "runs": [...]} over every run in `places`."""
    db = open_store(find_runs(places))
    return {"funnels": [msgspec.to_builtins(f) for f in funnels(db)], "runs": rows_of(db)}


def share(n: int, of: int) -> str:
    return f"{n:5d}  {100 * n / of:5.1f}%" if of else f"{n:5d}       -"


def funnel_text(f: Funnel) -> list[str]:
    mean = "-" if f.mean is None else f"{100 * f.mean:.2f}"
    return [
        f"panel {f.panel}" + ("" if f.comparable else "  (quick, partial or never begun: not comparable)"),
        f"  started                      {share(f.started, f.started)}",
        f"  unscored                     {share(f.unscored, f.started)}",
        f"  I    migration happened      {share(f.passed1, f.started)}",
        f"  II   every check passes      {share(f.passed2, f.started)}",
        f"  I+II both                    {share(f.both, f.started)}",
        f"  III  accepted                {share(f.accepted, f.started)}",
        f"  blind (II without I)         {share(f.blind, f.started)}",
        f"  mean score                   {mean:>5}",
    ]


def run_text(r: dict[str, Any]) -> list[str]:
    if r["score"] is None:
        s = f"unscored [{100 * r['low']:.0f}, {100 * r['high']:.0f}]"
    else:
        s = f"S = {100 * r['score']:.0f}"
    gate = "not run" if not r["criteria"] else {1: "pass", 0: "FAIL", None: "undecided"}[r["gate"]]
    marks = [
        m
        for m, on in (("blind", r["blind"]), ("accepted", r["accepted"]), ("not comparable", not r["comparable"]))
        if on
    ]
    stage3 = f"{r['survived']}/{r['verifiers']}" if r["verifiers"] else "-"
    lines = [
        f"  {r['task']} ({r['task_status']})  {r['agent']}  {s}  under {r['panel']}"
        + (f"  [{', '.join(marks)}]" if marks else ""),
        f"      I {gate}"
        f" ({r['without_vote']} of {r['criteria']} criteria without a vote)"
        f"   II {r['checks_passed']}/{r['checks']}   III {stage3}   {r['run']}",
    ]
    if r["cause"]:
        lines.append(f"      unscored because: {cut(r['cause'], 3 * CAUSE)}")
    return lines


def text(data: dict[str, Any]) -> str:
    """Render `report()`'s data for a terminal."""
    lines: list[str] = []
    for f in data["funnels"]:
        lines += [*funnel_text(Funnel(**f)), ""]
    lines.append("runs")
    for r in data["runs"]:
        lines += run_text(r)
    return "\n".join(lines)
