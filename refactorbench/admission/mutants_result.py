"""What a batch of mutants came to: per mutant the first contact of each search, and rates with their intervals."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from refactorbench.admission.mutants_model import Mutant
from refactorbench.stats import wilson

SHOWN = 20  # characters of a rate's name


class Contact(msgspec.Struct, frozen=True):
    """One search for one mutant, ended at the first confirmed difference.

    `ran`: inputs up to and with that one, else all `inputs`; `reached`: how many of all could reach the mutant, of
    which alone those up to `ran` were run; `unconfirmed`: differences before that a second run didn't show, or that the
    build showed with no mutant in force too; `seconds` is a clock.
    """

    found: bool
    ran: int
    inputs: int
    reached: int
    check: str = ""
    module: str = ""
    difference: str = ""
    unconfirmed: int = 0
    seconds: float = 0.0


class StageTwo(msgspec.Struct, frozen=True):
    found: bool
    check: str
    module: str
    ran: int
    reached: int
    difference: str


class Hunt(msgspec.Struct, frozen=True):
    """`found_at` counts inputs from 1, None where none told the mutant apart."""

    found_at: int | None
    inputs: int
    reached: int
    difference: str


class Row(msgspec.Struct, frozen=True):
    mutant: str
    title: str
    shown: bool
    stage2: StageTwo | None
    verifiers: dict[str, Hunt]


class Rate(msgspec.Struct, frozen=True):
    """`low` and `high` are Wilson's 95% interval."""

    found: int
    total: int
    low: float
    high: float

    def __str__(self) -> str:
        return (
            f"{self.found:3d} of {self.total:3d}  {self.found / self.total:6.1%}  ({self.low:.1%} to {self.high:.1%})"
        )


class MutantsResult(msgspec.Struct, frozen=True):
    """`rates`: "stage II", one per verifier, "together" (any verifier, where all have run). `survivors`: of stage II
    and of all verifiers. Mutants that were not run are in no rate."""

    task: str
    batch: str
    seed: int
    panel: str
    rows: tuple[Row, ...]
    rates: dict[str, Rate]
    survivors: dict[str, tuple[str, ...]]

    def text(self) -> str:
        lines = [f"{self.task}, mutants '{self.batch}': {len(self.rows)}, seed {self.seed}, panel {self.panel}"]
        lines += [f"  {name:{SHOWN}} {rate}" for name, rate in self.rates.items()]
        titles = {r.mutant: r for r in self.rows}
        for where, ids in self.survivors.items():
            lines.append(f"survivors of {where}: {len(ids)}")
            lines += [f"  {id}: {titles[id].title}{_reach(titles[id], where)}" for id in ids]
        return "\n".join(lines)


def _reach(row: Row, where: str) -> str:
    if where == "stage II":
        assert row.stage2
        said = f"{row.stage2.reached} checks reach it"
    else:
        said = "inputs that reach it: " + ", ".join(f"{v} {h.reached}" for v, h in row.verifiers.items())
    return f" ({said}{'' if row.shown else '; not shown to differ'})"


def _rate(found: Iterable[bool]) -> Rate:
    marks = list(found)
    return Rate(sum(marks), len(marks), *wilson(sum(marks), len(marks)))


def row(mutant: Mutant, stage2: Contact | None, hunts: dict[str, Contact]) -> Row:
    second = None
    if stage2:
        second = StageTwo(stage2.found, stage2.check, stage2.module, stage2.ran, stage2.reached, stage2.difference)
    verifiers = {v: Hunt(c.ran if c.found else None, c.inputs, c.reached, c.difference) for v, c in hunts.items()}
    return Row(mutant.id, mutant.title, mutant.shown, second, verifiers)


def summarise(task: str, batch: str, seed: int, panel: str, rows: tuple[Row, ...], seats: list[str]) -> MutantsResult:
    """Count; `seats` are the verifiers that must all have run for a mutant to count in "together"."""
    rates: dict[str, Rate] = {}
    survivors: dict[str, tuple[str, ...]] = {}
    if replayed := [r for r in rows if r.stage2]:
        rates["stage II"] = _rate(bool(r.stage2 and r.stage2.found) for r in replayed)
        survivors["stage II"] = tuple(r.mutant for r in replayed if r.stage2 and not r.stage2.found)
    for seat in seats:
        if hunted := [r.verifiers[seat] for r in rows if seat in r.verifiers]:
            rates[seat] = _rate(h.found_at is not None for h in hunted)
    if whole := [r for r in rows if all(seat in r.verifiers for seat in seats)]:
        found = {r.mutant: any(h.found_at is not None for h in r.verifiers.values()) for r in whole}
        rates["together"] = _rate(found.values())
        survivors["all verifiers"] = tuple(m for m, hit in found.items() if not hit)
    return MutantsResult(task, batch, seed, panel, rows, rates, survivors)
