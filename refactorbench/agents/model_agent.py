"""A model that migrates by a scaffold, for hours, through kills: everything that is needed to go on lies in its folder.

journal.jsonl      what happened, in order
checkpoints/       the files as they were after the last recorded action, and the one before
home/ tmp/ shm/    the agent's scratch
output/            its commands' outputs
undo/              former contents, for undo_edit
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from refactorbench import __version__
from refactorbench.agents import settings as named
from refactorbench.agents.aci import AciSwitches, make_aci, system
from refactorbench.agents.budget import Budget, Timer, used
from refactorbench.agents.checkpoint import Checkpoints
from refactorbench.agents.desk import STATE_A, TREE, Desk, Layout
from refactorbench.agents.edit import Editor
from refactorbench.agents.lint import Linter
from refactorbench.agents.loop import Loop, Scaffold
from refactorbench.agents.protocol import AgentContext, AgentReport
from refactorbench.agents.records import AgentJournal, Answered, Clock, Entry, Replied, Started, Stopped, read_entries
from refactorbench.agents.replay import Recorded
from refactorbench.agents.secrets import scrubber
from refactorbench.agents.shell import end_leftover
from refactorbench.agents.thin import SYSTEM, Switches, Thin
from refactorbench.build.toolchain import find
from refactorbench.catalog.sources.checkout import checkout
from refactorbench.errors import HarnessError, UsageError
from refactorbench.llm.models import check_credentials, open_model
from refactorbench.llm.prices import PriceTable
from refactorbench.llm.protocol import ChatModel, Usage
from refactorbench.sandbox.protocol import Mount

SCAFFOLDS: dict[str, type[Switches] | type[AciSwitches]] = {"thin": Switches, "aci": AciSwitches}


class ModelAgent:
    """The `Agent` protocol. Construction checks names, settings, credentials and prices; it starts nothing."""

    def __init__(self, scaffold: str, model: str, settings: Mapping[str, str]) -> None:
        if not model:
            raise UsageError(
                f"--agent {scaffold} needs --model: anthropic/NAME, openai/NAME, chat/NAME@BASE_URL or scripted/FILE; "
                "a model is used only when it is named"
            )
        self.name, self.scaffold, self.model_name = f"{scaffold} {model}", scaffold, model
        self.switches: Switches | AciSwitches
        self.switches, self.bounds = named.read(settings, SCAFFOLDS[scaffold])
        check_credentials(model)
        table = PriceTable(Path(self.bounds.prices) if self.bounds.prices else None)
        self._price = table.require(model) if self.bounds.cost or self.bounds.attempt_cost else table.find(model)
        self._prices = f"version {table.version}, {table.date}, sha256 {table.digest}" if self._price else ""

    def open_model(self) -> ChatModel:
        return open_model(self.model_name, effort=self.bounds.effort or None, images=self.bounds.images)

    def price(self, usage: Usage) -> float:
        return float(self._price.cost(usage)) if self._price else 0.0

    def migrate(self, context: AgentContext) -> AgentReport:
        """Start, or go on where the journal ends. Raises ProviderError and HarnessError: a second start goes on."""
        layout = layout_of(context)
        layout.make()
        journal = AgentJournal(layout.folder / "journal.jsonl", scrubber())
        try:
            end_leftover(layout.session)
            checkpoints = Checkpoints(layout.folder / "checkpoints", layout.kept)
            if not journal.entries:
                self._begin(context, layout, journal, checkpoints)
            checkpoints.restore(last_checkpoint(journal.entries))
            last = journal.entries[-1]
            stopped = last if isinstance(last, Stopped) else self._go_on(context, layout, journal, checkpoints)
        finally:
            journal.close()
        return report(stopped)

    def _system(self) -> str:
        return system(self.switches) if isinstance(self.switches, AciSwitches) else SYSTEM

    def _begin(self, context: AgentContext, layout: Layout, journal: AgentJournal, checkpoints: Checkpoints) -> None:
        """Lay out State A with its baseline commit; the first record makes it a run that can go on."""
        baseline(context, layout)
        switches = msgspec.to_builtins(self.switches) | {k: v for k, v in msgspec.to_builtins(self.bounds).items() if v}
        journal.append(
            Started(
                self.scaffold, self.model_name, context.task.task.id, __version__, switches,
                self._system(), first_message(context), checkpoints.take(), round(time.time(), 3), self._prices,
            )
        )  # fmt: skip

    def _go_on(self, context: AgentContext, layout: Layout, journal: AgentJournal, checkpoints: Checkpoints) -> Stopped:
        task, entries = context.task.task, journal.entries
        model = self.open_model()
        timer = Timer(last_clock(entries))
        budget = Budget(self.bounds.limits(task.budget_hours), used(entries, timer.clock()))
        toolchain = find((*task.reference.toolchain, *task.target.toolchain))
        desk = Desk(
            layout, toolchain, task, context.sandbox, entries,
            lambda: budget.sentence(used(journal.entries, timer.clock())), timer.now, self.switches.cut,
        )  # fmt: skip
        try:
            scaffold = self._scaffold(desk, layout, entries, model.images)
            return Loop(scaffold, model, journal, checkpoints, budget, timer, self.price, context.say).run()
        finally:
            desk.close()

    def _scaffold(self, desk: Desk, layout: Layout, entries: list[Entry], images: bool) -> Scaffold:
        if isinstance(self.switches, AciSwitches):
            around = (Mount(layout.work, TREE), Mount(layout.state_a, STATE_A))
            linter = Linter(desk.sandbox, desk.toolchain, layout.folder / "lint", around)
            return make_aci(desk, self.switches, entries, linter)
        changes = [e.change for e in entries if isinstance(e, Answered) and e.change]
        s = self.switches
        editor = Editor(desk.box, layout.folder / "undo", changes, s.tolerant, s.cut, images, s.create_over)
        return Thin(desk, editor, s)


class ReplayAgent(ModelAgent):
    """Plays the turns of another run's journal again, with its scaffold and switches: actions are done anew."""

    def __init__(self, journal: Path, settings: Mapping[str, str]) -> None:
        if not journal.is_file():
            raise UsageError(f"--agent replay:{journal}: there is no such file: name a run's agent/journal.jsonl")
        entries = read_entries(journal)
        if not entries or not isinstance(entries[0], Started):
            raise UsageError(
                f"--agent replay:{journal} is no journal of a model's run: name a run's agent/journal.jsonl"
            )
        first = entries[0]
        self._turns = tuple(e.turn for e in entries if isinstance(e, Replied) and e.turn.blocks)
        self.name, self.scaffold, self.model_name = f"replay:{journal}", first.scaffold, f"replay {first.model}"
        # how often the other run was begun says nothing of this one
        told = {k: str(v) for k, v in first.switches.items() if not k.startswith("attempt_")} | dict(settings)
        self.switches, self.bounds = named.read(told, SCAFFOLDS[first.scaffold])
        self._price, self._prices = None, ""

    def open_model(self) -> ChatModel:
        return Recorded(self.model_name, self._turns)


def first_message(context: AgentContext) -> str:
    task = context.task.task
    head = f"Move this repository from {task.from_stack} to {task.to_stack}. The task in full:"
    return f"{head}\n\n{context.task.instruction}"


def layout_of(context: AgentContext) -> Layout:
    """The run's places, with what State A's build delivers, and only that, laid out to be run."""
    if context.folder is None or context.reference is None:
        raise HarnessError("a model's agent needs a folder of its own and State A's product: run it by the pipeline")
    product, delivered = context.reference(), context.folder / "reference"
    shutil.rmtree(delivered, ignore_errors=True)
    for name in context.task.task.reference.outputs:  # the product also holds the drivers that checks are run with
        (delivered / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(product / name, delivered / name)
    instruction = context.task.folder / "instruction.md"
    return Layout(context.folder, context.work, context.state_a, delivered, instruction, context.log)


def baseline(context: AgentContext, layout: Layout) -> None:
    """Lay State A out as the work tree, with one commit and no history."""
    fresh = layout.folder / "checkout"
    shutil.rmtree(fresh, ignore_errors=True)
    made = checkout(context.task, context.state_a, fresh)
    shutil.rmtree(layout.work, ignore_errors=True)
    made.tree.rename(layout.work)
    shutil.rmtree(fresh)


def last_checkpoint(entries: list[Entry]) -> str:
    return next(e.checkpoint for e in reversed(entries) if isinstance(e, Answered | Started))


def last_clock(entries: list[Entry]) -> Clock:
    return next((e.clock for e in reversed(entries) if not isinstance(e, Started) and hasattr(e, "clock")), Clock())


def report(stopped: Stopped) -> AgentReport:
    return AgentReport(stopped.reason, stopped.note)
