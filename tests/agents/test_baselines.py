from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from refactorbench.agents import baselines
from refactorbench.agents.baselines import CommandAgent, Noop, Solution, agent_named
from refactorbench.agents.protocol import AgentContext
from refactorbench.build.toolchain import Toolchain
from refactorbench.errors import HarnessError, UsageError
from refactorbench.sandbox.protocol import Command, Completed


class Recipe(msgspec.Struct, frozen=True):
    toolchain: tuple[str, ...]


class FakeTask(msgspec.Struct, frozen=True):
    id: str = "t"
    budget_hours: float = 0.5
    reference: Recipe = Recipe(("gcc",))
    target: Recipe = Recipe(("rust",))


class FakeLoaded(msgspec.Struct, frozen=True):
    folder: Path
    task: FakeTask = FakeTask()


class FakeSandbox:
    """Runs nothing; keeps the command, lets `act` change the tree, and ends as it was told."""

    name = "fake"

    def __init__(self, done: Completed | HarnessError, act: Callable[[Path], Any] = lambda _: None) -> None:
        self.done, self.act = done, act

    def run(self, command: Command) -> Completed:
        self.command = command
        self.act(command.mounts[-3].source)
        if isinstance(self.done, HarnessError):
            raise self.done
        return self.done


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AgentContext]:
    monkeypatch.setattr(baselines, "find", lambda names: Toolchain((), (), (), ":".join(names), ""))
    for name in ("state-a", "work", "task"):
        (tmp_path / name).mkdir()
    (tmp_path / "work" / "old.c").write_text("int x;")
    (tmp_path / "task" / "instruction.md").write_text("move it")

    def make(sandbox: Any = None) -> AgentContext:
        loaded: Any = FakeLoaded(tmp_path / "task")
        return AgentContext(loaded, tmp_path / "state-a", tmp_path / "work", tmp_path / "log", sandbox, lambda _: None)

    return make


def test_noop_changes_nothing(context: Callable[..., AgentContext]) -> None:
    c = context()
    assert Noop().migrate(c).stop == "done"
    assert (c.work / "old.c").read_text() == "int x;"


def test_the_solution_replaces_the_tree_without_its_build_products(context: Callable[..., AgentContext]) -> None:
    c = context()
    with pytest.raises(UsageError, match="ships no solution"):
        Solution().migrate(c)
    (c.task.folder / "solution" / "target").mkdir(parents=True)
    (c.task.folder / "solution" / "main.rs").write_text("fn main() {}")
    assert Solution().migrate(c).stop == "done"
    assert sorted(p.name for p in c.work.iterdir()) == ["main.rs"]


@pytest.mark.parametrize(
    ("done", "stop", "note"),
    [
        (Completed("exit", 0, "", 1.5), "done", "exit 0"),
        (Completed("exit", 3, "", 1.5), "error", "exit 3"),
        (Completed("signal", 9, "", 1.5), "error", "signal 9"),
        (Completed("limit", 0, "wall", 9.0), "time", "limit of wall"),
        (Completed("limit", 0, "cpu", 9.0), "time", "limit of cpu"),
        (Completed("limit", 0, "disk", 9.0), "error", "limit of disk"),
    ],
)
def test_a_command_ends_for_a_reason_that_holds_no_clock(
    context: Callable[..., AgentContext], done: Completed, stop: str, note: str
) -> None:
    report = CommandAgent("true").migrate(context(FakeSandbox(done)))
    assert report.stop == stop and report.note.endswith(note)


def test_a_command_gets_the_tree_the_instruction_a_home_and_the_budget(context: Callable[..., AgentContext]) -> None:
    sandbox = FakeSandbox(Completed("exit", 0, "", 0.0), lambda tree: (tree / "new.rs").write_text("x"))
    c = context(sandbox)
    CommandAgent("make it so").migrate(c)
    command = sandbox.command
    assert command.argv == ("/bin/sh", "-c", "make it so") and command.cwd == "/build/tree"
    assert {m.target: m.writable for m in command.mounts} == {
        "/build/tree": True, "/build/home": True, "/build/INSTRUCTION.md": False
    }  # fmt: skip
    assert command.limits.wall_s == 1800 and set(command.env) == {"PATH", "HOME", "LC_ALL", "TZ"}
    assert command.env["PATH"] == "gcc:rust" and (c.work / "new.rs").is_file()
    assert not c.work.with_name("work-home").exists()


def test_what_this_machine_prevents_is_no_result_of_the_agent(context: Callable[..., AgentContext]) -> None:
    with pytest.raises(HarnessError, match="no sandbox"):
        CommandAgent("true").migrate(context(FakeSandbox(HarnessError("no sandbox"))))


def test_names() -> None:
    assert isinstance(agent_named("noop"), Noop) and isinstance(agent_named("solution"), Solution)
    assert agent_named("command:ls -l").name == "command:ls -l"
    with pytest.raises(UsageError, match="did you mean 'noop'"):
        agent_named("nop")
    with pytest.raises(UsageError, match="is unknown"):
        agent_named("command:")
