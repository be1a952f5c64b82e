"""Fifty seeded kills over all stages: what is resumed ends as if nothing had happened, and no process is left behind."""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from e2e.toy import TASK, Toy, pack
from e2e.toy import toy as toy
from e2e.toy.killing import STAGES
from refactorbench.hashing import tree_digest

RUNS, KILLS, SEED = 5, 10, 20240607
BRIEF = ("replay", "fresh")  # stages so short that a late kill falls into the next one
PER_STAGE = 6  # kills that are aimed at each stage; the others fall anywhere
SUBTLE = ("b' ' | b'\\n' | b'\\t'", "b' ' | b'\\n' | b'\\t' | 0x80..=0xff")

# Facts of one trace, or of one moment: everything else that is stored is the same in every run of the same inputs.
CLOCKS = {"wall_s", "wall_ms", "seconds", "found_after_s", "first_found_s", "at"}
OF_ONE_TRACE = {"facts", "bitcode_lost", "trace", "trace lines", "lines", "line"}


class Plain(msgspec.Struct, frozen=True):
    """A run that nobody killed; `took`: unit -> (the unit before it, seconds)."""

    out: Path
    agent: str
    took: dict[str, tuple[str, float]]


@pytest.fixture(scope="module")
def plain(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Plain:
    base = tmp_path_factory.mktemp("plain")
    tree = base64.b64encode(pack(toy.port(base / "tree", SUBTLE), ".")).decode()
    agent = f"command:sleep 1; rm -rf *; echo {tree} | base64 -d | tar xz"
    process = subprocess.Popen(
        [*command(agent), "--out", str(base / "run")], env=toy.env(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    _, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    records = [json.loads(line) for line in (base / "run" / "journal.jsonl").read_text().splitlines()]
    began = (base / "run" / "lock.json").stat().st_mtime
    times = [("", began), *((r["unit"], r["at"]) for r in records if r["unit"] != "end")]
    return Plain(base / "run", agent, {two[0]: (one[0], two[1] - one[1]) for one, two in pairwise(times)})


def command(agent: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "refactorbench",
        "run",
        "--jobs",
        "2",
        "--panel",
        "quick",
        "--task",
        TASK,
        "--agent",
        agent,
    ]


def instants(plain: Plain) -> list[list[tuple[str, float]]]:
    """Draw RUNS x KILLS instants, each as (unit that is done, seconds later), in the order of the run."""
    rng = random.Random(SEED)
    units = list(plain.took)
    aimed = [s for s in STAGES for _ in range(PER_STAGE)]
    drawn = []
    for n in range(RUNS * KILLS):
        of_stage = [u for u in units if n >= len(aimed) or stage_of(u) == aimed[n]]
        (unit,) = rng.choices(of_stage, [plain.took[u][1] for u in of_stage])
        drawn.append((units.index(unit), rng.random() * (0.3 if stage_of(unit) in BRIEF else 0.8)))
    rng.shuffle(drawn)
    runs = [sorted(drawn[k::RUNS]) for k in range(RUNS)]
    return [[(plain.took[units[n]][0], share * plain.took[units[n]][1]) for n, share in run] for run in runs]


def stage_of(unit: str) -> str:
    return "verify" if unit == "verification" else unit.partition("/")[0]


def kill_and_resume(toy: Toy, plain: Plain, out: Path, kills: list[tuple[str, float]]) -> Any:
    words = command(plain.agent)
    spec = {"command": words[:6], "new": words[6:], "out": str(out), "kills": kills}
    driver = subprocess.run(
        [sys.executable, "-m", "e2e.toy.killing", json.dumps(spec)], env={**toy.env(), "PYTHONPATH": _path()},
        stdout=subprocess.PIPE, timeout=500, check=True,
    )  # fmt: skip
    return json.loads(driver.stdout)


def _path() -> str:
    tests = str(Path(__file__).resolve().parents[1])
    return os.pathsep.join(filter(None, (tests, os.environ.get("PYTHONPATH", ""))))


def bare(value: Any, names: set[str]) -> Any:
    """`value` without the keys in `names`, at any depth."""
    if isinstance(value, dict):
        return {k: bare(v, names) for k, v in value.items() if k not in names}
    return [bare(v, names) for v in value] if isinstance(value, list) else value


def units_of(run: Path) -> dict[str, Any]:
    found = {}
    for path in sorted((run / "units").rglob("*")):
        if path.is_file():
            text = path.read_text().replace(str(run), "RUN")  # a run knows its own folder
            name = str(path.relative_to(run))
            found[name] = bare(
                json.loads(text), CLOCKS | (OF_ONE_TRACE if name[6:] in ("build.json", "audit.json") else set())
            )
    return found


def test_fifty_kills_change_nothing_and_leave_nothing(toy: Toy, plain: Plain, tmp_path: Path) -> None:
    outs = [tmp_path / str(n) / "run" for n in range(RUNS)]
    for out in outs:
        out.parent.mkdir()
    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(lambda pair: kill_and_resume(toy, plain, *pair), zip(outs, instants(plain), strict=True)))
    hit = [stage for t in told for stage in t["hit"]]
    print({s: hit.count(s) for s in (*STAGES, "end")})
    assert [t["left"] for t in told] == [[]] * RUNS
    assert [t["status"] for t in told] == [0] * RUNS, [t["said"] for t in told]
    assert set(STAGES) <= set(hit)
    assert len(hit) - hit.count("end") >= 0.8 * RUNS * KILLS
    for out in outs:
        assert (out / "result.json").read_bytes() == (plain.out / "result.json").read_bytes()
        assert units_of(out) == units_of(plain.out)
        assert tree_digest(out / "verification") == tree_digest(plain.out / "verification")
        assert tree_digest(out / "submission") == tree_digest(plain.out / "submission")
        assert not list(out.rglob(".*.tmp")) and not (out / "work").exists()


def test_the_comparison_sees_another_result(plain: Plain, tmp_path: Path) -> None:
    other = tmp_path / "run"
    (other / "units").mkdir(parents=True)
    whole = units_of(plain.out)
    for change in ('"executed": 20', '"status": "fail"'):
        text = (plain.out / "units" / "verification.json").read_text()
        assert change in text
        (other / "units" / "verification.json").write_text(
            text.replace(change, change.replace("20", "21").replace("fail", "pass"), 1)
        )
        name = "units/verification.json"
        assert units_of(other)[name] != whole[name]
