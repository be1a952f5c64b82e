"""The table of kinds, and that the criteria that ship name no other."""

from __future__ import annotations

import tomllib
from pathlib import Path

import alone
import pytest

from refactorbench.audit.docket import Eye, Strength
from refactorbench.audit.kinds import KINDS, RUNTIME_KINDS, SOURCE_KINDS
from refactorbench.audit.witnesses.build import BUILD_KINDS

ROOT = Path(__file__).resolve().parents[2]
CRITERIA = sorted((ROOT / "audit_criteria").glob("*.toml"))


def test_no_kind_belongs_to_two_witnesses() -> None:
    assert len(KINDS) == len(SOURCE_KINDS) + len(BUILD_KINDS) + len(RUNTIME_KINDS)
    for eye, kinds in ((Eye.SOURCE, SOURCE_KINDS), (Eye.BUILD, BUILD_KINDS), (Eye.RUNTIME, RUNTIME_KINDS)):
        assert {k.eye for k in kinds.values()} == {eye}
        assert {k.strength for k in kinds.values()} == {Strength.PROOF, Strength.LEAD}


def test_criteria_are_there() -> None:
    assert CRITERIA


@pytest.mark.parametrize("path", CRITERIA, ids=lambda p: p.stem)
def test_criteria_name_kinds_that_exist_and_every_proof_bears_on_one(path: Path) -> None:
    named = {kind for c in tomllib.loads(path.read_text())["criterion"] for kind in c["kinds"]}
    assert named - set(KINDS) == set()
    assert {name for name, k in KINDS.items() if k.strength is Strength.PROOF} - named == set()


def test_each_proof_of_build_and_run_time_has_what_it_alone_stops() -> None:
    kinds = BUILD_KINDS | RUNTIME_KINDS
    assert alone.CONTROLS.keys() | alone.TREES.keys() == {n for n, k in kinds.items() if k.strength is Strength.PROOF}
    assert not alone.CONTROLS.keys() & alone.TREES.keys()


@pytest.mark.parametrize("kind", alone.CONTROLS)
def test_a_control_that_one_kind_stops_names_no_other(kind: str) -> None:
    path = ROOT / "tasks" / "bzip2-rust" / "controls" / alone.CONTROLS[kind] / "control.toml"
    expect = tomllib.loads(path.read_text())["expect"]
    assert (expect["stage1"], expect["kinds"], expect["witness"]) == ("fail", [kind], KINDS[kind].eye.value)
