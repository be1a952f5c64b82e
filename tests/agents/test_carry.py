"""Scripted agents really carry the toy task over, by the real command line, and end in three stages with S = 1.0."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from e2e.toy import TASK, Done, Toy
from e2e.toy import toy as toy

from agents import scripts
from agents.killing import bare_toy, once
from refactorbench.agents.baselines import agent_named
from refactorbench.agents.records import Answered, Told, read_entries
from refactorbench.catalog.load import load_task


class Carried(msgspec.Struct, frozen=True):
    folder: Path
    done: Done
    starts: int


_runs: dict[tuple[Path, str], Carried] = {}


@pytest.fixture(scope="session", params=["thin", "aci"])
def carried(request: pytest.FixtureRequest, toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Carried:
    base, scaffold = tmp_path_factory.getbasetemp(), str(request.param)
    if (base, scaffold) not in _runs:
        (base / f"{scaffold}.jsonl").write_text(getattr(scripts, scaffold)())
        folder = base / "carried" / scaffold
        folder.parent.mkdir(exist_ok=True)
        done = toy.call(
            "run", "--task", TASK, "--agent", scaffold, "--model", f"scripted/{base}/{scaffold}.jsonl", "--panel", "quick",
            "--out", folder, "--jobs", "1", "--set", "turns=50", "--set", "attempt_turns=6", timeout=400,
        )  # fmt: skip
        starts = 1
        while done.status == 3 and "the attempt's limit of 6 turns is reached" in done.err and starts < 4:
            done, starts = toy.call("run", "--resume", folder, timeout=400), starts + 1
        _runs[base, scaffold] = Carried(folder, done, starts)
    return _runs[base, scaffold]


def test_the_port_earns_a_hundred_through_all_stages(carried: Carried) -> None:
    assert carried.done.status == 0, carried.done.err
    assert carried.starts == {"thin": 2, "aci": 3}[carried.folder.name]  # an attempt's limit leaves the run open
    result = json.loads((carried.folder / "result.json").read_text())
    assert result["accepted"] and result["score"]["value"] == 1.0 and result["stop"] == "done"
    assert result["agent"].startswith(carried.folder.name + " scripted/")
    assert sorted(p.name for p in (carried.folder / "submission").iterdir()) == [
        "Cargo.lock",
        "Cargo.toml",
        "README",
        "src",
    ]


def test_the_detours_were_met_as_they_should(carried: Carried) -> None:
    entries = read_entries(carried.folder / "agent" / "journal.jsonl")
    acts = [e for e in entries if isinstance(e, Answered)]
    told = [e.why for e in entries if isinstance(e, Told)]
    checks = [e.text for e in acts if e.call.name == "selfcheck"]
    if carried.folder.name == "thin":
        assert told == ["silent"]
        assert checks[0].startswith("/build/tree holds no target/release/tally: build first")
        assert "2 equal, 1 different" in checks[1] and "- line 1 | nop klm" in checks[1]
        assert "0 different" in checks[2]
        assert sum(e.outcome == "edit_failed" for e in acts) == 1
        assert "kept\n[exit status 0]" in next(e.text for e in acts if "echo $NOTE" in str(e.call.input))
    else:
        assert told == ["format"] and "3 equal, 0 different" in checks[0]
        assert [e.outcome for e in acts if e.call.name == "edit"] == ["edited", "edited", "lint", "edited"]


def test_show_and_report_read_the_run(carried: Carried, toy: Toy) -> None:
    shown = toy.here("show", carried.folder, "agent")
    assert shown.status == 0 and "THOUGHT" in shown.out and "OBSERVATION" in shown.out and "END  done" in shown.out
    assert toy.here("show", carried.folder, "agent", "--page", "9").status == 2
    assert toy.here("show", carried.folder, "agent", "--json").json["schema_version"] == "ATIF-v1.4"
    table = toy.here("report", "--agents", carried.folder).out.splitlines()
    assert len(table) == 3 and table[0] == carried.folder.name
    assert " 100 " in table[2] and "turns=50" in table[2] and table[2].endswith("1 done")


def test_a_runs_journal_can_be_played_again(carried: Carried, toy: Toy, tmp_path: Path) -> None:
    journal = carried.folder / "agent" / "journal.jsonl"
    agent = agent_named(f"replay:{journal}")
    assert once(toy.root, toy.state_a, tmp_path, "", agent) == "done"
    kept, again = (
        [(e.call, e.outcome) for e in read_entries(p) if isinstance(e, Answered) and e.call.name != "selfcheck"]
        for p in (journal, tmp_path / "agent" / "journal.jsonl")
    )
    assert kept == again and len(kept) > 8


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return bare_toy(tmp_path_factory.mktemp("bare"))


def test_the_agent_sees_state_a_and_both_toolchains_and_nothing_of_the_grader(bare: Toy, tmp_path: Path) -> None:
    looked = "git log --oneline | wc -l; gcc --version | head -1; cargo --version; ls -a /build; ls /build/reference; "
    looked += "touch /build/state-a/x /build/reference/x; env | sort; ls / ; (exec 3<>/dev/tcp/192.0.2.1/80)"
    (tmp_path / "script").write_text(scripts.line("", scripts.bash(looked)) + scripts.line("", ("submit", {})))
    once(bare.root, bare.state_a, tmp_path, f"scripted/{tmp_path / 'script'}")
    text = next(e.text for e in read_entries(tmp_path / "agent" / "journal.jsonl") if isinstance(e, Answered))
    commits = 1 if shutil.which("git") else 0
    assert f"{commits}\ngcc" in text and "gcc" in text and "cargo" in text and text.count("Read-only file system") == 2
    loaded = load_task(bare.root, TASK)
    for hidden in (
        "drivers",
        "recordings",
        "verifiers",
        "audit",
        str(loaded.root),
        str(tmp_path),
        "REFACTORBENCH",
        "ANTHROPIC",
    ):
        assert hidden not in text
    assert "unreachable" in text


def test_a_command_sees_state_a_and_its_product_read_only(bare: Toy, tmp_path: Path) -> None:
    looked = "ls /build /build/reference/bin /build/state-a > seen; touch /build/state-a/x 2>> seen || true"
    assert once(bare.root, bare.state_a, tmp_path, "", agent_named(f"command:{looked}")) == "done"
    seen = (tmp_path / "work" / "seen").read_text()
    assert "tally" in seen and "tally.c" in seen and "Read-only file system" in seen and "drivers" not in seen


def test_a_command_gets_one_commit_and_selfcheck_as_a_command(bare: Toy, tmp_path: Path) -> None:
    script = """
    git log --oneline | wc -l > seen; git status --short | wc -l >> seen
    selfcheck nowhere 2>&1 >> seen | head -1 >> seen; echo '{"args": ["turn"], "stdin": "abc"}' > cases
    selfcheck cases >> seen; echo "status $?" >> seen
    mkdir -p target/release; cp /build/reference/bin/tally target/release/tally
    selfcheck cases >> seen; echo "status $?" >> seen
    echo 'int main(void) { return 3; }' | gcc -x c - -o target/release/tally
    selfcheck cases >> seen; echo "status $?" >> seen
    echo '{"argz": 1}' > cases; selfcheck cases >> seen; echo "status $?" >> seen
    ls -A /build/ask | wc -l >> seen; touch /build/bin/x 2>> seen; true
    """
    (tmp_path / "made" / "bin").mkdir(parents=True)
    tally = tmp_path / "made" / "bin" / "tally"
    subprocess.run(["gcc", "-o", tally, *bare.state_a.glob("*.c")], check=True)
    assert once(bare.root, bare.state_a, tmp_path, "", agent_named(f"command:{script}"), tmp_path / "made") == "done"
    lines = (tmp_path / "work" / "seen").read_text().split("\n")
    commits = "1" if shutil.which("git") else "0"
    assert lines[0] == commits and lines[2] == "usage: selfcheck FILE", lines
    assert "holds no target/release/tally: build first" in lines[3] and lines[4] == "status 2"
    assert lines[5].startswith("1 cases: 1 equal, 0 different") and lines[6] == "status 0"
    assert "0 equal, 1 different" in lines[7] and "status 1" in lines
    assert "the file:1 is no case" in lines[lines.index("status 1") + 1]
    assert lines[lines.index("status 1") + 2 :][:2] == ["status 2", "0"] and "Read-only" in lines[-2]


def test_names_of_agents_and_models_are_told_apart_before_anything_starts(toy: Toy, tmp_path: Path) -> None:
    for given, says in (
        (("--agent", "thin"), "needs --model"), (("--agent", "noop", "--model", "scripted/x"), "has none"),
        (("--agent", "thim", "--model", "scripted/x"), "is unknown (did you mean 'thin'?)"),
        (("--agent", "thin", "--model", "scripted/x", "--set", "windw=3"), "is unknown"),
        (("--agent", "replay:/nowhere"), "no such file"), (("--agent", "aci", "--model", "scripted/x", "--set", "y"), "KEY=VALUE"),
    ):  # fmt: skip
        done = toy.here("run", "--task", TASK, "--out", tmp_path / "x", *given)
        assert done.status == 2 and says in done.err, done.err
