"""Agents that need no model: nothing done, the task's own solution, a tree handed in, a command."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path

from refactorbench.agents.asked import ASK, BIN, Answering, lay_out
from refactorbench.agents.confined import Box, Place
from refactorbench.agents.desk import (
    DISK_MB,
    FILE_MB,
    HOME,
    INSTRUCTION,
    MEMORY_MB,
    PROCESSES,
    REFERENCE,
    STATE_A,
    TREE,
    Layout,
)
from refactorbench.agents.model_agent import ModelAgent, ReplayAgent, baseline, layout_of
from refactorbench.agents.protocol import Agent, AgentContext, AgentReport
from refactorbench.agents.selfcheck import SelfCheck
from refactorbench.build.toolchain import Toolchain, find
from refactorbench.errors import UsageError, did_you_mean
from refactorbench.sandbox.protocol import Command, Limits, Mount

KNOWN = ("solution", "noop", "command:...", "thin", "aci", "replay:FILE")


def replace_tree(source: Path, work: Path) -> None:
    shutil.rmtree(work)
    shutil.copytree(source, work, symlinks=True, ignore=shutil.ignore_patterns("target"))


class Noop:
    """Hands State A back unchanged: every recorded check passes, nothing was migrated."""

    name = "noop"

    def migrate(self, context: AgentContext) -> AgentReport:
        return AgentReport("done", "State A handed in unchanged")


class Solution:
    """Hands in the State B that the task ships."""

    name = "solution"

    def migrate(self, context: AgentContext) -> AgentReport:
        folder = context.task.folder / "solution"
        if not folder.is_dir():
            raise UsageError(f"task {context.task.task.id} ships no solution: use --agent noop or --submission DIR")
        replace_tree(folder, context.work)
        return AgentReport("done", "the task's own solution handed in")


class CommandAgent:
    """Runs one shell command in a closed sandbox, in the work tree, for at most the task's budget. It sees what agents
    with a model see, selfcheck as a command of that name; what else it needs it brings along."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.name = f"command:{command}"

    def migrate(self, context: AgentContext) -> AgentReport:
        task = context.task.task
        toolchain = find((*task.reference.toolchain, *task.target.toolchain))
        home = context.work.with_name(f"{context.work.name}-home")
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        with contextlib.ExitStack() as beside:
            seen: tuple[Mount, ...] = ()
            if context.folder is not None and context.reference is not None:
                seen = self._beside(context, layout_of(context), beside)
            done = context.sandbox.run(self._command(context, toolchain, seen, home))
        shutil.rmtree(home)
        if done.ended == "limit":
            return AgentReport(
                "time" if done.limit in ("wall", "cpu") else "error", f"the command passed its limit of {done.limit}"
            )
        stop = "done" if (done.ended, done.code) == ("exit", 0) else "error"
        return AgentReport(stop, f"the command ended with {done.ended} {done.code}")

    def _beside(self, context: AgentContext, layout: Layout, beside: contextlib.ExitStack) -> tuple[Mount, ...]:
        """The baseline commit, State A and its product; selfcheck answers until `beside` is left."""
        baseline(context, layout)
        lay_out(layout.folder)
        ask = layout.folder / "ask"
        box = Box((Place(TREE, layout.work, True), Place(ASK, ask, True)))
        selfcheck = SelfCheck(
            context.task.task, context.sandbox, box, TREE, layout.reference, layout.folder / "selfcheck"
        )
        beside.enter_context(Answering(selfcheck, box, ask, context.say))
        return (
            Mount(layout.state_a, STATE_A),
            Mount(layout.reference, REFERENCE),
            Mount(layout.folder / "bin", BIN),
            Mount(ask, ASK, writable=True),
        )

    def _command(self, context: AgentContext, toolchain: Toolchain, seen: tuple[Mount, ...], home: Path) -> Command:
        hours = context.task.task.budget_hours
        own = (
            Mount(context.work, TREE, writable=True),
            Mount(home, HOME, writable=True),
            Mount(context.task.folder / "instruction.md", INSTRUCTION),
        )
        path = f"{BIN}:{toolchain.path}" if seen else toolchain.path
        return Command(
            argv=("/bin/sh", "-c", self.command),
            mounts=(*toolchain.mounts, *seen, *own),
            cwd=TREE,
            env={"PATH": path, "HOME": HOME, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            limits=Limits(hours * 3600, hours * 7200, MEMORY_MB, PROCESSES, FILE_MB, DISK_MB),
            log=context.log,
            symlinks=toolchain.symlinks,
        )


def agent_named(name: str, model: str = "", settings: Mapping[str, str] | None = None) -> Agent:
    """Return the agent that `--agent NAME` means, with its `model` and `settings` where it has any; UsageError with a
    suggestion otherwise. A model's credentials are checked, nothing is started."""
    if name in ("thin", "aci"):
        return ModelAgent(name, model, settings or {})
    if name.startswith("replay:") and name != "replay:":
        return ReplayAgent(Path(name.removeprefix("replay:")), settings or {})
    if name not in ("noop", "solution") and (not name.startswith("command:") or name == "command:"):
        raise UsageError(f"--agent {name} is unknown{did_you_mean(name, KNOWN)}: use one of {', '.join(KNOWN)}")
    if model or settings:
        what = f"--model {model}" if model else "--set"
        raise UsageError(f"{what} is for an agent with a model, and --agent {name} has none: leave it out, or use thin")
    if name == "noop":
        return Noop()
    if name == "solution":
        return Solution()
    return CommandAgent(name.removeprefix("command:"))
