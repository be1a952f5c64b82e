"""Panels: who judges and who verifies. The fingerprint is part of every score."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from refactorbench.catalog.models import JudgeSeat, Panel
from refactorbench.catalog.toml import Problems, load_toml
from refactorbench.errors import TaskError, UsageError, did_you_mean
from refactorbench.scoring import VERIFIERS

SEATS = 3  # samples per criterion: a panel never shrinks
PROMPTS = ("1",)  # versions of the judges' prompts that this program has


def list_panels(root: Path) -> tuple[str, ...]:
    return tuple(sorted(p.stem for p in (root / "verifiers" / "panels").glob("*.toml")))


def load_panel(root: Path, name: str) -> Panel:
    """Return verifiers/panels/<name>.toml; TaskError tells all that is wrong with it, or which panels there are."""
    known = list_panels(root)
    if name not in known:
        raise TaskError(
            f"panel '{name}' is unknown{did_you_mean(name, known)}: the panels here are {', '.join(known) or '(none)'}"
        )
    path = root / "verifiers" / "panels" / f"{name}.toml"
    panel = load_toml(path, Panel)
    Problems(f"{path}: {p}" for p in _faults(panel, name)).raise_if_any(f"panel {name}")
    return panel


def chosen_panel(root: Path, name: str, judges: tuple[str, ...]) -> Panel:
    """The panel `name` with `judges` as its models, where they are named for this run; its fingerprint holds them.
    UsageError where it names none and none are given, or where it has nobody to ask."""
    panel = load_panel(root, name)
    if judges:
        if panel.judges.kind == "none":
            raise UsageError(
                f"--judges {','.join(judges)} is for a panel with judges, and '{name}' has none: nothing is started; "
                "name one whose [judges] have kind = \"llm\" (--panel llm)"
            )
        panel = msgspec.structs.replace(panel, judges=msgspec.structs.replace(panel.judges, models=judges))
        Problems(_judge_faults(panel.judges)).raise_if_any("--judges")
    if panel.judges.kind == "llm" and not panel.judges.models:
        raise UsageError(
            f"panel '{name}' puts the criteria to a model and names none: nothing is started; name one (--judges "
            "anthropic/NAME) or three of different families (--judges A,B,C), or take --panel offline"
        )
    return panel


def _judge_faults(seat: JudgeSeat) -> list[str]:
    faults = []
    if len(seat.models) not in (0, 1, SEATS) or len(set(seat.models)) != len(seat.models):
        faults.append(
            f"judges.models are {', '.join(seat.models)}: one is asked three times, or three different ones once each"
        )
    if seat.kind == "none" and seat != JudgeSeat("none"):
        faults.append('judges.kind is "none", so its other keys would mean nothing: leave them out, or write "llm"')
    bounds = {"turns": (2, 1000), "max_tokens": (256, 10**6), "reading": (4_000, 10**8), "cap_s": (1, 86_400)}
    for key, (low, high) in bounds.items():
        if not low <= getattr(seat, key) <= high:
            faults.append(f"judges.{key} is {getattr(seat, key)}: it must lie from {low} to {high}")
    return faults


def _faults(panel: Panel, name: str) -> list[str]:
    faults = _judge_faults(panel.judges)
    if panel.name != name:
        faults.append(f"name is '{panel.name}', but the file is {name}.toml: scores would show the wrong panel")
    if panel.prompt_version not in PROMPTS:
        faults.append(f"prompt_version is '{panel.prompt_version}', and the prompts here are {', '.join(PROMPTS)}")
    ids = [seat.id for seat in panel.verifier]
    if len(set(ids)) != VERIFIERS or len(ids) != VERIFIERS:
        faults.append(f"verifier ids are {', '.join(ids) or 'missing'}: the score counts {VERIFIERS} different ones")
    for seat in panel.verifier:
        if seat.budget < 1 or not 0 < seat.cap_s <= 3600:
            faults.append(
                f"verifier '{seat.id}' has budget = {seat.budget}, cap_s = {seat.cap_s}: one that does no work would "
                "survive for nothing; give at least 1 input and a cap of up to 3600 s"
            )
    return faults


def panel_fingerprint(panel: Panel) -> str:
    """sha256 over the canonical content: panels with different fingerprints never share a leaderboard."""
    return hashlib.sha256(msgspec.json.encode(panel, order="sorted")).hexdigest()


def panel_label(panel: Panel) -> str:
    """What stands beside every score: the name and the first 12 digits of the fingerprint."""
    return f"{panel.name}-{panel_fingerprint(panel)[:12]}"
