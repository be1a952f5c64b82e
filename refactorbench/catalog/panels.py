"""Panels: who judges and who verifies. The fingerprint is part of every score."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from refactorbench.catalog.models import Panel
from refactorbench.catalog.toml import Problems, load_toml
from refactorbench.errors import TaskError, did_you_mean
from refactorbench.scoring import VERIFIERS


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


def _faults(panel: Panel, name: str) -> list[str]:
    faults = []
    if panel.name != name:
        faults.append(f"name is '{panel.name}', but the file is {name}.toml: scores would show the wrong panel")
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
