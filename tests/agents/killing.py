"""A scripted run as a process of its own, started over and over in one folder, as the pipeline does it."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from signal import SIGKILL

import msgspec
from e2e.toy import Toy, lay_out

from refactorbench.agents.model_agent import ModelAgent
from refactorbench.agents.protocol import Agent, AgentContext
from refactorbench.agents.records import Answered, Clock, Entry, Replied, Started, Stopped, Told, read_entries
from refactorbench.catalog.load import load_task
from refactorbench.catalog.sources import fetch_state_a
from refactorbench.hashing import walk
from refactorbench.sandbox import BubblewrapSandbox


def script(turns: int, seed: int) -> str:
    """Turns that are not idempotent: what is done twice, or not at all, shows in files, answers or the shell's state."""
    rng = random.Random(seed)
    lines = []
    for n in range(turns):
        kinds = (
            ("bash", {"command": f"echo {n} >> log; wc -l < log; cd ..; cd - > /dev/null"}),
            (
                "bash",
                {"command": f"mkdir -p d{n % 5}; cd d{n % 5}; pwd; export LAST={n}; count=$((count + 1)); echo $count"},
            ),
            ("bash", {"command": "cd /build/tree; sleep 0.05; ls -R . | sort | sha256sum; echo $LAST > /tmp/last; cat /dev/shm/n; echo $LAST > /dev/shm/n"}),
            ("bash", {"command": f"cd /build/tree; mv log log.{n % 3} 2> /dev/null; cat log.* | tail -2; false"}),
            ("edit", {"command": "create", "path": f"/build/tree/new/{n}.txt", "file_text": f"{n}\n" * 3}),
            ("edit", {"command": "insert", "path": "/build/tree/README", "insert_line": 0, "new_str": f"line {n}"}),
            ("edit", {"command": "undo_edit", "path": "/build/tree/README"}),
            ("bash", {"command": f"f() {{ echo f{n} $1; }}; f x; head -c {rng.randrange(200_000)} /dev/zero > big"}),
            ("edit", {"command": "view", "path": "/build/tree"}),
        )
        calls = rng.choices(kinds, k=rng.choice((0, 1, 1, 1, 2)) if n % 7 else 1)
        lines.append({"say": f"turn {n}", "calls": [{"name": name, "input": given} for name, given in calls]})
    lines.append({"say": "done", "calls": [{"name": "submit", "input": {}}]})
    return "".join(json.dumps(line) + "\n" for line in lines)


def once(
    root: Path, state_a: Path, folder: Path, model: str, agent: Agent | None = None, made: Path | None = None
) -> str:
    """One start, of `thin` with `model` unless an agent is given; returns why it stopped. `made` is State A's product
    where it is to be run."""
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(state_a, work, symlinks=True)
    loaded = load_task(root, "toy-rust")
    loaded = msgspec.structs.replace(loaded, task=msgspec.structs.replace(loaded.task, budget_hours=2.0))
    context = AgentContext(
        loaded, state_a, work, folder / "agent.log", BubblewrapSandbox(), lambda _: None, folder / "agent",
        lambda: made or product(folder),
    )  # fmt: skip
    return (agent or ModelAgent("thin", model, {"cut": "2000", "reminders": "9"})).migrate(context).stop


def product(folder: Path) -> Path:
    """Stands for State A's product where it needn't be run; beside what is delivered it holds a driver of the checks."""
    for name in ("bin/tally", "drivers/secret"):
        (folder / "product" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "product" / name).write_text("#!/bin/sh\n")
    return folder / "product"


def start(root: Path, state_a: Path, folder: Path, model: str) -> subprocess.Popen[str]:
    here = str(Path(__file__).parents[1])
    program = f"import sys; sys.path.insert(0, {here!r}); from pathlib import Path; from agents.killing import once; "
    program += f"print(once(Path({str(root)!r}), Path({str(state_a)!r}), Path({str(folder)!r}), {model!r}))"
    return subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip


def finish(toy: Toy, folder: Path, model: str) -> str:
    process = start(toy.root, toy.state_a, folder, model)
    out, err = process.communicate(timeout=1200)
    assert process.returncode == 0, err
    return out.strip()


def bare_toy(where: Path) -> Toy:
    """The toy without a recording: an agent needs none."""
    toy = lay_out(where / "root", where / "cache")
    fetch_state_a(load_task(toy.root, "toy-rust").task.state_a, toy.cache, lambda _: None)
    return toy


def whole_and_killed(toy: Toy, folder: Path, turns: int, kills: int, seed: int) -> tuple[Path, Path, int]:
    """One run to its end, and one that is killed up to `kills` times; return both folders and how often it was hit before
    its end."""
    (folder / "script").write_text(script(turns, seed))
    model, whole, killed = f"scripted/{folder / 'script'}", folder / "whole", folder / "killed"
    whole.mkdir(), killed.mkdir()
    assert finish(toy, whole, model) == "done"
    rng, hit, journal = random.Random(seed), 0, killed / "agent" / "journal.jsonl"
    while hit < kills and not ended(journal):
        process = start(toy.root, toy.state_a, killed, model)
        size, deadline = journal.stat().st_size if journal.exists() else 0, time.monotonic() + 60
        # most of them within its work, the others while it starts or restores; soon, where the end would come too early
        within, soon = rng.random() < 0.8, replies(journal) / turns > hit / kills
        while within and process.poll() is None and time.monotonic() < deadline:
            if journal.exists() and journal.stat().st_size > size:
                break
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.01 if soon else 0.12) if within else rng.uniform(0, 0.4 if soon else 1.0))
        process.kill()
        process.communicate()
        hit += process.returncode == -SIGKILL and not ended(journal)
    assert finish(toy, killed, model) == "done"
    return whole, killed, hit


def ended(journal: Path) -> bool:
    return journal.exists() and b'"type":"stopped"' in journal.read_bytes()


def replies(journal: Path) -> int:
    return journal.read_bytes().count(b'{"type":"replied"') if journal.exists() else 0


def left(folder: Path) -> list[tuple[bytes, int, bytes]]:
    """All files that a run leaves, git's own aside, which notes inodes and times."""
    found = []
    for place in ("work", "agent/home", "agent/tmp", "agent/shm"):
        for rel, info in walk(folder / place):
            path = folder / place / Path(rel.decode())
            if not rel.startswith(b".git"):
                found.append((rel, info.st_mode, path.read_bytes() if path.is_file() else b""))
    return found


def told(folder: Path) -> list[Entry]:
    """The journal without clocks and without what stands for bytes of git's index."""
    found: list[Entry] = []
    for entry in read_entries(folder / "agent" / "journal.jsonl"):
        if isinstance(entry, Started):
            entry = msgspec.structs.replace(entry, checkpoint="", time=0.0)
        elif isinstance(entry, Answered):
            entry = msgspec.structs.replace(entry, checkpoint="", clock=Clock())
        elif isinstance(entry, Replied | Told | Stopped):
            entry = msgspec.structs.replace(entry, clock=Clock())
        found.append(entry)
    return found


def main(turns: int, kills: int, seed: int) -> None:
    """Say whether a run that was killed so often equals the one that was not."""
    with tempfile.TemporaryDirectory() as name:
        where = Path(name)
        whole, killed, hit = whole_and_killed(bare_toy(where / "toy"), where, turns, kills, seed)
        same = told(killed) == told(whole), left(killed) == left(whole)
        print(f"{turns} turns, {hit} kills before the end: transcript equal {same[0]}, files equal {same[1]}")
        for n, (one, other) in enumerate(zip(told(whole), told(killed), strict=False)):
            if one != other:
                print(f"record {n} differs first:\n{one}\n{other}")
                break


if __name__ == "__main__":  # PYTHONPATH=tests python -m agents.killing 200 100 1
    main(*map(int, sys.argv[1:]))
