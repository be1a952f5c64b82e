"""Stage I put together, over small trees and hand-written traces."""

from __future__ import annotations

from pathlib import Path

import audit_trees as trees
import msgspec
import pytest

from refactorbench import scoring
from refactorbench.audit import stage
from refactorbench.audit.docket import Eye, EyeReport, Finding, Strength, TraceAnchor
from refactorbench.audit.ground import Evidence
from refactorbench.audit.judges import ScriptedJudge, VotingPanel
from refactorbench.audit.stage import AuditResult, audit, taken_in
from refactorbench.audit.verdict import Choice, Vote, required_outcomes
from refactorbench.build.model import BuildFacts, BuildReport
from refactorbench.catalog.models import Criterion
from refactorbench.errors import TaskError
from refactorbench.outcome import Status

CRITERIA = (
    Criterion("gone", "gone", "?", (Eye.SOURCE,), ("source-remains", "not-migrated", "foreign-source")),
    Criterion("alone", "alone", "?", (Eye.RUNTIME,), ("runtime-exec", "runtime-open")),
    trees.BUILDS,
)
LAUNCH = '10 chdir("/.check/m/c") = -1 ENOENT (x)\n21 execve("/product/bin/pack", ["pack"], 0x7f /* 4 vars */) = 0\n'
SHELL = '21 execve("/bin/sh", ["sh"], 0x7f /* 4 vars */) = -1 ENOENT (x)\n'
FACTS = BuildFacts((), (), (), (), ())


def report(folder: Path, status: str = "built", log: str = "cargo: done\n", **facts: object) -> BuildReport:
    (folder / "build.log").write_text(log)
    return BuildReport(
        status, "" if status == "built" else "cargo ended with 101", "", "", str(folder / "build.log"), "",  # type: ignore[arg-type]
        msgspec.structs.replace(FACTS, **facts), "", False, 1.0, {},
    )  # fmt: skip


def clean_build() -> EyeReport:
    return EyeReport(Eye.BUILD, "looked", (), {})


def void_build() -> EyeReport:
    return EyeReport(Eye.BUILD, "void", (), {}, "cargo ended with 101")


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    for name in ("s", "a"):
        (tmp_path / name).write_text(LAUNCH)
    return Evidence(
        trees.loaded(CRITERIA), trees.honest(tmp_path / "tree"), trees.state_a(tmp_path / "state-a"), set(),
        traces=(tmp_path / "s",), state_a_traces=(tmp_path / "a",),
    )  # fmt: skip


def statuses(result: AuditResult) -> list[str]:
    return [str(r.outcome.status) for r in result.verdict.criteria]


def g(evidence: Evidence, result: AuditResult) -> int | None:
    return scoring.gate(required_outcomes(evidence.loaded_task.criteria, result.verdict))[0]


def test_an_honest_submission_passes_without_a_vote(evidence: Evidence, tmp_path: Path) -> None:
    result = audit(evidence, report(tmp_path), clean_build)
    assert statuses(result) == ["pass", "pass", "pass"] and g(evidence, result) == 1
    assert result.verdict.passed_without_vote == 3 and result.votes is None


def test_each_witness_can_fail_it_alone(evidence: Evidence, tmp_path: Path) -> None:
    (tmp_path / "s").write_text(LAUNCH + SHELL)
    assert statuses(audit(evidence, report(tmp_path), clean_build)) == ["pass", "fail", "pass"]
    (tmp_path / "s").write_text(LAUNCH)
    trees.lay(evidence.submission, {"notes.txt": trees.PACK_C})
    assert statuses(audit(evidence, report(tmp_path), clean_build)) == ["fail", "pass", "pass"]


def test_the_build_witness_counts_only_what_it_can_re_open(evidence: Evidence, tmp_path: Path) -> None:
    built = Finding("b1", Eye.BUILD, "old-compiler-run", Strength.PROOF, TraceAnchor("build", 1, "gcc"), "ran gcc")
    evidence.loaded_task = trees.loaded((*CRITERIA, Criterion("cc", "", "?", (Eye.BUILD,), ("old-compiler-run",))))

    def look() -> EyeReport:
        return EyeReport(Eye.BUILD, "looked", (built,), {})

    refused = audit(evidence, report(tmp_path), look)
    assert statuses(refused)[3] == "pass" and set(refused.verdict.refused) == {"b1"}
    evidence.reopen_build = lambda finding: finding == built
    assert statuses(audit(evidence, report(tmp_path), look))[3] == "fail"


def test_a_failed_build_is_void_and_its_log_the_proof(evidence: Evidence, tmp_path: Path) -> None:
    result = audit(evidence, report(tmp_path, "failed"), void_build)
    assert statuses(result) == ["pass", "moot", "fail"] and g(evidence, result) == 0
    assert result.verdict.criteria[2].by == "log"


@pytest.mark.parametrize(("status", "log"), [("built", "x"), ("harness", "x"), ("failed", "")])
def test_void_without_a_failed_builds_log_is_the_harness(
    status: str, log: str, evidence: Evidence, tmp_path: Path
) -> None:
    result = audit(evidence, report(tmp_path, status, log), void_build)
    assert result.docket.report(Eye.BUILD).status == "lost"
    assert statuses(result)[2] == "undecided" and g(evidence, result) is None


def broken() -> EyeReport:
    raise RuntimeError("the witness broke")


def test_a_witness_that_breaks_is_lost_never_clean(
    evidence: Evidence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = audit(evidence, report(tmp_path), broken)
    assert statuses(result) == ["pass", "pass", "undecided"] and g(evidence, result) is None
    assert "RuntimeError: the witness broke" in result.docket.report(Eye.BUILD).cause
    monkeypatch.setattr(stage.source, "witness", lambda *a, **k: broken())
    assert statuses(audit(evidence, report(tmp_path), clean_build)) == ["undecided", "pass", "pass"]
    evidence.traces = ()
    assert statuses(audit(evidence, report(tmp_path), clean_build)) == ["undecided", "undecided", "pass"]


def test_criteria_that_cannot_decide_are_the_tasks_fault(evidence: Evidence, tmp_path: Path) -> None:
    evidence.loaded_task = trees.loaded(CRITERIA[:2])
    with pytest.raises(TaskError, match="builds"):
        audit(evidence, report(tmp_path), clean_build)


def votes(letters: str) -> list[Vote]:
    names = {"p": Choice.PASS, "f": Choice.FAIL, "a": Choice.ABSTAIN}
    return [Vote(f"s{i}", names[x], "so it is") for i, x in enumerate(letters)]


def test_a_panel_is_sampled_until_it_decides_and_never_outvotes_a_proof(evidence: Evidence, tmp_path: Path) -> None:
    script = {"gone": votes("ppp"), "alone": votes("pfap"), "builds": votes("pfaaa")}
    result = audit(evidence, report(tmp_path), clean_build, VotingPanel(ScriptedJudge(script)))
    assert statuses(result) == ["pass", "pass", "undecided"]
    assert result.votes is not None and [len(v) for v in result.votes.values()] == [3, 4, 5]
    assert result.verdict.passed_without_vote == 0
    trees.lay(evidence.submission, {"notes.txt": trees.PACK_C})
    again = audit(evidence, report(tmp_path), clean_build, VotingPanel(ScriptedJudge(script)))
    assert again.verdict.criteria[0].outcome.status is Status.FAIL


def test_the_result_is_read_back_as_it_was_written(evidence: Evidence, tmp_path: Path) -> None:
    trees.lay(evidence.submission, {"notes.txt": trees.PACK_C})
    (tmp_path / "s").write_text(LAUNCH + SHELL)
    result = audit(evidence, report(tmp_path), clean_build)
    assert result.docket.reports[0].findings
    assert msgspec.json.decode(msgspec.json.encode(result), type=AuditResult) == result


def test_what_the_build_takes_in(tmp_path: Path) -> None:
    tree = trees.lay(tmp_path / "tree", {"target/release/pack": "prebuilt", "src/main.rs": "", "data.bin": ""})
    task = trees.make_task()
    taken = ("/build/tree/src/main.rs", "/usr/lib/x")
    written = report(tmp_path, taken=taken, writes=("/build/tree/target/release/pack",))
    assert taken_in(written, task, tree) == {"src/main.rs"}
    # an output that the build never wrote is delivered as it lay in the tree
    assert taken_in(report(tmp_path, taken=taken), task, tree) == {"src/main.rs", "target/release/pack"}
    assert taken_in(report(tmp_path, "harness"), task, tree) is None


def test_same_evidence_same_verdict(evidence: Evidence, tmp_path: Path) -> None:
    first = audit(evidence, report(tmp_path), clean_build)
    assert audit(evidence, report(tmp_path), clean_build) == first
