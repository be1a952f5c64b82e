"""What the pipeline gathers for the audit: traces that are whole even where a worker broke."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from types import SimpleNamespace, TracebackType

import pytest

from refactorbench import evidence
from refactorbench.agents.records import AgentJournal, Answered, Clock, Told
from refactorbench.agents.shell import ShellState
from refactorbench.audit.conduct import Action
from refactorbench.errors import HarnessError
from refactorbench.llm.protocol import ToolUse
from refactorbench.observe.executor import RESTARTS
from refactorbench.observe.model import Check, Observation
from refactorbench.sandbox.trace import TraceFull

CHECKS = [Check(f"m/{n}", "m", "process", "bin/p", (b"p",)) for n in range(6)]


class Traced:
    """Writes the ids of its checks to its trace, as a tracer does: from an empty file on. Breaks on `breaking` ids as
    often as told."""

    def __init__(self, path: Path, breaking: dict[str, int]) -> None:
        self.path, self.breaking = path, breaking
        path.write_text("")

    def observe(self, check: Check) -> Observation:
        with self.path.open("a") as f:
            f.write(check.id + " ")
        if self.breaking.get(check.id, 0):
            self.breaking[check.id] -= 1
            raise HarnessError("a worker ended")
        return Observation("exit", 0, b"", b"", ())

    def __enter__(self) -> Traced:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def lay(folder: Path, breaking: dict[str, int]) -> tuple[Path, ...]:
    return evidence.trace(CHECKS, lambda path: Traced(path, breaking), folder, "side", Event())  # type: ignore[arg-type]


def test_one_worker_leaves_one_trace_of_all_checks(tmp_path: Path) -> None:
    (tmp_path / "side-1.trace").write_text("of an earlier attempt")
    paths = lay(tmp_path, {})
    assert [p.name for p in paths] == ["side.trace"]
    assert paths[0].read_text().split() == [c.id for c in CHECKS]
    assert not (tmp_path / "side-1.trace").exists()


def test_a_broken_worker_costs_no_line_of_the_trace(tmp_path: Path) -> None:
    paths = lay(tmp_path, {"m/2": 2, "m/5": 1})
    told = [p.read_text() for p in paths]
    assert told == ["m/0 m/1 m/2 ", "m/2 ", "m/2 m/3 m/4 m/5 ", "m/5 "]


def test_a_check_that_breaks_every_worker_is_an_error_of_the_harness(tmp_path: Path) -> None:
    lay(tmp_path, {"m/3": RESTARTS})
    with pytest.raises(HarnessError):
        lay(tmp_path, {"m/3": RESTARTS + 1})


def test_a_trace_that_passes_its_bound_is_the_last_one_and_no_error(tmp_path: Path) -> None:
    class Full(Traced):
        def observe(self, check: Check) -> Observation:
            if check.id == "m/2":
                raise TraceFull("side.trace has more than 32 MiB")
            return super().observe(check)

    paths = evidence.trace(CHECKS, lambda path: Full(path, {}), tmp_path, "side", Event())  # type: ignore[arg-type]
    assert [p.read_text() for p in paths] == ["m/0 m/1 "]


def test_a_stopped_trace_runs_no_further_check(tmp_path: Path) -> None:
    stop = Event()

    class Stopping(Traced):
        def observe(self, check: Check) -> Observation:
            if check.id == "m/1":
                stop.set()
            return super().observe(check)

    paths = evidence.trace(CHECKS, lambda path: Stopping(path, {}), tmp_path, "side", stop)  # type: ignore[arg-type]
    assert [p.read_text() for p in paths] == ["m/0 m/1 "]


def test_what_is_known_of_a_task_is_read_once_and_again_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    class Known:
        def __init__(self, root: Path, task: object, recorded: object) -> None:
            read.append(root)

    def prepared(root: str, checks: int) -> SimpleNamespace:
        loaded, recording = SimpleNamespace(task={"id": "t"}), SimpleNamespace(manifest={"checks": checks})
        return SimpleNamespace(state_a=Path(root), loaded=loaded, recording=recording)

    monkeypatch.setattr(evidence, "StateA", Known)
    monkeypatch.setattr(evidence, "answers", lambda recording: ())
    monkeypatch.setattr(evidence, "_KEPT", {})
    first = evidence.known(prepared("a", 1))  # type: ignore[arg-type]
    assert evidence.known(prepared("a", 1)) is first and read == [Path("a")]  # type: ignore[arg-type]
    evidence.known(prepared("a", 2))  # type: ignore[arg-type]
    evidence.known(prepared("b", 2))  # type: ignore[arg-type]
    assert read == [Path("a"), Path("a"), Path("b")]


def test_commands_of_both_scaffolds_are_read_from_the_agents_journal_with_their_lines(tmp_path: Path) -> None:
    journal = AgentJournal(tmp_path / "journal.jsonl")
    journal.append(Told("go on", "silent", Clock()))
    calls = (("bash", {"command": "curl x"}), ("edit", {"command": "create", "path": "a"}), ("run", {"text": "ls"}))
    for name, given in calls:
        journal.append(Answered(ToolUse("c", name, given), "", "ok", Clock(), "", ShellState()))
    journal.close()
    assert list(evidence.actions(tmp_path / "journal.jsonl")) == [Action(2, "curl x"), Action(4, "ls")]
    assert list(evidence.actions(tmp_path / "none")) == []
