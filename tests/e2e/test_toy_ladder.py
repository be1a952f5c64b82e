"""The whole ladder on a toy task by the real command line: each tree gets its score, and each command its say."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from e2e.toy import ARCHIVE, TASK, Done, Toy, pack
from e2e.toy import toy as toy

WRONG = ("byte + 13", "byte + 12")
SUBTLE = ("b' ' | b'\\n' | b'\\t'", "b' ' | b'\\n' | b'\\t' | 0x80..=0xff")  # recorded checks hold ASCII only


class Ladder(msgspec.Struct, frozen=True):
    """Four finished runs below `folder`, by name, and what their command line said."""

    toy: Toy
    folder: Path
    done: dict[str, Done]

    def result(self, name: str) -> Any:
        return json.loads((self.folder / name / "result.json").read_text())


_run: dict[Path, Ladder] = {}


@pytest.fixture(scope="session")
def ladder(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Ladder:
    base = tmp_path_factory.getbasetemp()
    if base not in _run:
        folder = base / "ladder"
        given = {
            "solution": ("--agent", "solution"),
            "noop": ("--agent", "noop", "--min-score", "1"),
            "wrong": ("--submission", toy.port(base / "wrong", WRONG), "--min-score", "100"),
            "subtle": ("--submission", _with_leftovers(toy.port(base / "subtle", SUBTLE)), "--min-score", "70"),
        }
        done = {n: toy.call("run", "--task", TASK, "--out", folder / n, *more) for n, more in given.items()}
        _run[base] = Ladder(toy, folder, done)
    return _run[base]


def _with_leftovers(tree: Path) -> Path:
    for name in ("target/release/junk", ".git/HEAD", "src/kept.txt"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("x\n")
    return tree


def test_the_solution_earns_a_hundred(ladder: Ladder) -> None:
    done = ladder.done["solution"]
    assert done.status == 0, done.err
    assert done.out.startswith("grading agent 'solution' on toy-rust (as asked); give --submission DIR")
    assert done.last.startswith("S = 100 (panel offline-") and "4 of 4 criteria without a vote" in done.last
    result = ladder.result("solution")
    assert result["accepted"] and not result["blind"] and result["score"]["survived"] == 6


def test_state_a_handed_back_is_vetoed_and_shown_as_blind(ladder: Ladder) -> None:
    done, result = ladder.done["noop"], ladder.result("noop")
    assert done.status == 1 and "below --min-score" in done.err
    assert done.last.startswith("S = 0 ") and "BLIND" in done.last
    assert result["blind"] and result["stage1"]["g"] == 0
    two = result["stage2"]
    assert (two["complete"], two["credited"], two["built_by"]) == (True, False, "state-a")
    assert result["stage3"] is None
    assert all(len(line) < 200 for line in done.out.splitlines())  # tables cut the causes


def test_a_wrong_port_fails_stage_two_and_is_not_blind(ladder: Ladder) -> None:
    result = ladder.result("wrong")
    assert ladder.done["wrong"].status == 1
    assert result["stage1"]["g"] == 1 and result["stage2"]["complete"] is False and result["stage3"] is None
    assert result["score"]["value"] == 0 and not result["blind"]
    rates = {m["id"]: m["passed"] == m["expected"] for m in result["stage2"]["modules"]}
    assert rates == {"arguments": True, "count": True, "turn": False, "files": False}


def test_a_port_wrong_outside_the_recorded_checks_loses_verifiers(ladder: Ladder) -> None:
    result = ladder.result("subtle")
    assert ladder.done["subtle"].status == 0  # 80 is not below 70
    assert result["stage2"]["complete"] is True
    broken = {v["id"] for v in result["stage3"]["verifiers"] if v["outcome"]["status"] == "fail"}
    assert "v1" in broken and not broken & {"v2", "v3", "v4", "v5"}
    assert result["score"]["value"] == round(0.4 + 0.1 * (6 - len(broken)), 4)


def test_what_was_left_out_of_a_submission_is_listed_and_nothing_else_is_missing(ladder: Ladder) -> None:
    assert ladder.result("subtle")["removed"] == [".git", "target"]
    assert "left out of the submission: .git, target" in ladder.done["subtle"].out
    kept = ladder.folder / "subtle" / "submission"
    assert (kept / "src" / "kept.txt").is_file() and not (kept / "target").exists()
    assert ladder.result("wrong")["removed"] == []


def counterexample(ladder: Ladder) -> str:
    return next(v["counterexample"] for v in ladder.result("subtle")["stage3"]["verifiers"] if v["id"] == "v1")


def test_show_explains_a_run_a_criterion_a_check_and_a_counterexample(ladder: Ladder) -> None:
    run = ladder.folder / "subtle"
    whole = ladder.toy.here("show", run)
    assert whole.status == 0 and whole.last == ladder.done["subtle"].last
    found = ladder.toy.here("show", run, counterexample(ladder))
    assert "counting bytes: fail" in found.out and "reproduce.sh PRODUCT_TREE" in found.out
    passed = ladder.toy.here("show", run, "count/draw-003")
    assert "pass: no difference was seen" in passed.out
    differs = ladder.toy.here("show", ladder.folder / "wrong", "turn/draw-003")
    assert "fail: differs from State A" in differs.out and "stdout" in differs.out
    proof = ladder.toy.here("show", ladder.folder / "noop", "source-clean")
    assert "fail by proof" in proof.out and "tally.c" in proof.out
    for done in (whole, found, passed, differs, proof):
        assert done.status == 0, done.err


def test_reproduce_ends_with_one_where_both_sides_differ_and_with_zero_where_they_do_not(ladder: Ladder) -> None:
    run = ladder.folder / "subtle"
    differs = ladder.toy.call("reproduce", run, counterexample(ladder))
    assert differs.status == 1 and "stdout" in differs.out
    alike = ladder.toy.call("reproduce", run, "count/draw-003", "--json")
    assert alike.status == 0 and alike.json["differs"] is False
    fresh = ladder.toy.call("reproduce", ladder.folder / "wrong", "fresh/00000")
    assert fresh.status in (0, 1) and "tally" in fresh.out


def test_the_stand_alone_reproducer_tells_the_two_products_apart(ladder: Ladder) -> None:
    script = ladder.folder / "subtle" / "verification" / counterexample(ladder) / "reproduce.sh"
    builds = json.loads((ladder.folder / "subtle" / "units" / "build.json").read_text())
    for side, status in (("reference", 0), ("target", 1)):
        done = subprocess.run(["sh", script, builds[side]["product"]], capture_output=True, timeout=60, check=False)
        assert done.returncode == status, done.stdout
    assert not (ladder.folder / "solution" / "verification").exists()


@pytest.mark.parametrize("name", ["solution", "noop", "wrong", "subtle"])
def test_score_computes_the_same_result_from_stored_evidence_and_runs_nothing(ladder: Ladder, name: str) -> None:
    no_tools = {"PATH": "/nowhere"}  # neither bwrap nor strace nor a compiler can be found
    done = ladder.toy.here("score", ladder.folder / name, "--json", env=no_tools)
    assert done.status == 0, done.err
    assert done.json == ladder.result(name)


def test_score_holds_a_stored_run_against_a_bar(ladder: Ladder) -> None:
    assert ladder.toy.here("score", ladder.folder / "subtle", "--min-score", "90").status == 1
    assert ladder.toy.here("score", ladder.folder / "subtle", "--min-score", "40").status == 0


def test_the_funnel_counts_every_run_that_was_started(ladder: Ladder, tmp_path: Path) -> None:
    unfinished = tmp_path / "runs" / "unfinished"
    unfinished.mkdir(parents=True)
    for name in ("options.json", "lock.json", "journal.jsonl"):
        (unfinished / name).write_bytes((ladder.folder / "solution" / name).read_bytes())
    done = ladder.toy.here("report", ladder.folder, tmp_path / "runs", "--json")
    assert done.status == 0, done.err
    (funnel,) = done.json["funnels"]
    counts = {k: funnel[k] for k in ("started", "unscored", "passed1", "passed2", "both", "accepted", "blind")}
    assert counts == {
        "started": 5, "unscored": 1, "passed1": 3, "passed2": 3, "both": 2, "accepted": 1, "blind": 1
    }  # fmt: skip
    broken = ladder.result("subtle")["score"]["value"]
    assert funnel["mean"] == pytest.approx((1.0 + broken) / 4)
    text = ladder.toy.here("report", ladder.folder, tmp_path / "runs").out
    assert "unscored because: the run has not ended" in text
    assert text.count(f"under {funnel['panel']}") == 5
    assert text.count("4 of 4 criteria without a vote") == 3
    assert re.search(r"^  started +5 +100\.0%$", text, re.MULTILINE)
    assert re.search(r"^  blind \(II without I\) +1 +20\.0%$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("command", "stages"), [("build", ()), ("audit", ("stage1",)), ("replay", ("stage2",)), ("verify", ("stage3",))]
)
def test_each_stage_alone_gives_its_part_and_no_score(
    toy: Toy, ladder: Ladder, tmp_path: Path, command: str, stages: tuple[str, ...]
) -> None:
    tree = ladder.folder / "solution" / "submission"
    done = toy.call(
        command, "--task", TASK, "--submission", tree, "--out", tmp_path / "run", "--panel", "quick", "--json"
    )
    assert done.status == 0, done.err
    result = done.json
    assert result["status"] == "partial" and not result["comparable"] and result["build"]["status"] == "pass"
    assert {s for s in ("stage1", "stage2", "stage3") if result[s] is not None} == set(stages)
    assert result["artefact"] == ladder.result("solution")["artefact"]  # built anew, and the same bytes
    last = toy.here("show", tmp_path / "run").last
    assert last.startswith("no score, only a part was asked for")


def test_a_command_migrates_in_a_closed_sandbox_and_a_quick_run_is_labelled(toy: Toy, tmp_path: Path) -> None:
    prepared = base64.b64encode(pack(toy.solution, ".")).decode()
    secret = tmp_path / "secret"
    secret.write_text("x")
    script = (
        f"set -e; rm -rf *; echo {prepared} | base64 -d | tar xz; test -f Cargo.toml; cargo build --release --offline; "
        f"test ! -e {secret}; test ! -e {toy.cache}; test -f ../INSTRUCTION.md; echo mine > $HOME/x; "
        "! bash -c 'echo > /dev/tcp/192.0.2.1/9'; ! touch /usr/x"
    )
    out = tmp_path / "run"
    done = toy.call("run", "--task", TASK, "--agent", f"command:{script}", "--quick", "--out", out)
    assert done.status == 0, done.err + (out / "agent.log").read_text()
    result = json.loads((out / "result.json").read_text())
    assert result["score"]["value"] == 1.0 and result["stop"] == "done" and result["removed"] == [".git", "target"]
    assert not (out / "work").exists() and not (out / "work-home").exists()
    assert "not comparable" in done.last and not result["comparable"] and result["panel"].startswith("quick-")
    replayed = {m["id"]: m["expected"] for m in result["stage2"]["modules"]}
    assert min(replayed.values()) >= 1 and sum(replayed.values()) < 40
    shown = [toy.here("show", out, f"count/draw-{n:03d}").out for n in range(24)]
    assert sum("pass: no difference was seen" in s for s in shown) == replayed["count"]
    assert sum("not run: --quick" in s for s in shown) == 24 - replayed["count"]


def test_a_command_that_fails_is_graded_by_its_tree_and_says_how_it_ended(toy: Toy, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = toy.call("run", "--task", TASK, "--agent", "command:rm -rf *; exit 7", "--stages", "audit", "--out", out)
    result = json.loads((out / "result.json").read_text())
    assert done.status == 0, done.err
    assert result["stop"] == "error" and result["score"]["value"] == 0 and not result["blind"]
    assert json.loads((out / "units" / "agent.json").read_text())["note"] == "the command ended with exit 7"


def test_without_agent_and_submission_the_solution_is_graded_and_the_first_line_says_why(
    toy: Toy, tmp_path: Path
) -> None:
    done = toy.call("build", "--task", TASK, "--out", tmp_path / "run")
    first = done.out.splitlines()[0]
    assert "'solution'" in first and "the task ships one" in first and "--agent solution|noop|command:" in first
    copy = toy.copy(tmp_path / "root")
    for path in sorted(copy.solution.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    copy.solution.rmdir()
    done = copy.call("build", "--task", TASK, "--out", tmp_path / "other")
    assert "'noop'" in done.out.splitlines()[0] and "ships no solution" in done.out.splitlines()[0]


def test_tasks_are_listed_shown_and_checked_out(toy: Toy, tmp_path: Path) -> None:
    (row,) = toy.here("task", "list", "--json").json
    assert (row["id"], row["status"]) == (TASK, "provisional")
    assert "provisional" in toy.here("task", "list").out
    shown = toy.here("task", "show", TASK, "--json").json
    assert shown["task"]["state_a"]["archive"] == ARCHIVE and len(shown["verifiers"]["direction"]) == 6
    assert "verifier v6: free" in toy.here("task", "show", TASK).out
    done = toy.here("task", "checkout", TASK, tmp_path / "mine")
    assert done.status == 0 and (tmp_path / "mine" / "tree" / "tally.c").is_file()
    assert "0.05 hours" in (tmp_path / "mine" / "INSTRUCTION.md").read_text()
    again = toy.here("task", "checkout", TASK, tmp_path / "mine")
    assert again.status == 2 and "not empty" in again.err
    assert toy.here("task", "fetch", TASK).out.strip() == str(toy.state_a)


CONTROL = """
schema = "refactorbench.control/1"
id = "{id}"
kind = "{kind}"
title = "{title}"
base = "{base}"
[expect]
stage1 = "{stage1}"
stage2 = "{stage2}"
"""


def test_validate_holds_builds_and_controls_against_what_they_must_get(toy: Toy, tmp_path: Path) -> None:
    copy = toy.copy(tmp_path / "root")
    controls = copy.root / "tasks" / TASK / "controls"

    def control(id: str, **fields: str) -> None:
        (controls / id).mkdir(parents=True)
        (controls / id / "control.toml").write_text(CONTROL.format(id=id, **fields))

    control("unchanged", kind="cheat", title="State A itself", base="state-a", stage1="fail", stage2="pass")
    done = copy.call("task", "validate", TASK, "--json", timeout=200)
    assert done.status == 0, done.err
    assert [line["what"] for line in done.json["lines"]] == [
        "recording", "coverage of State A", "State A as reference", "State A as gcc-O0", "agent solution, seed 1", "agent noop, seed 1",
        "cheat unchanged",
    ]  # fmt: skip
    control("hopeful", kind="twin", title="said to pass", base="state-a", stage1="pass", stage2="pass")
    done = copy.call("task", "validate", TASK, "--only", "hopeful")
    assert done.status == 2 and "stage I is fail, must be pass" in done.out and "1 of 1 lines" in done.err


def test_validate_refuses_a_solution_that_earns_less_than_all(toy: Toy, tmp_path: Path) -> None:
    copy = toy.copy(tmp_path / "root")
    shutil.copytree(toy.port(tmp_path / "subtle", SUBTLE), copy.solution, dirs_exist_ok=True)
    done = copy.call("task", "validate", TASK, "--json", timeout=200)
    bad = [line for line in done.json["lines"] if not line["ok"]]
    assert done.status == 2 and [line["what"] for line in bad] == ["agent solution, seed 1"]
    assert "must be 100" in bad[0]["detail"] and "verifier" in bad[0]["detail"]


def test_doctor_tells_what_the_machine_has(toy: Toy) -> None:
    done = toy.call("doctor", "--json")
    names = {f["name"]: f["status"] for f in done.json}
    assert names["network"] == "ok" and "bad" not in names.values() and done.status == 0
