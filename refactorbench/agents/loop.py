"""The loop that all scaffolds share. What comes next is a function of the journal, so a run that was killed goes on as
if nothing had happened: an action that has no record is done again, from the checkpoint before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from refactorbench.agents.act import Act
from refactorbench.agents.budget import REASONS, TIMES, Budget, Limit, Timer, Used, used
from refactorbench.agents.checkpoint import Checkpoints
from refactorbench.agents.conversation import Do, End, Say, Texts, conversation, fold, fold_images, next_step
from refactorbench.agents.records import AgentJournal, Answered, Replied, Stopped, Told
from refactorbench.agents.shell import ShellState
from refactorbench.errors import HarnessError
from refactorbench.llm.protocol import ChatModel, ContextOverflow, ProviderError, ToolSpec, ToolUse, Turn, Usage

LATER = (
    "Not done: {most} of a turn's calls is carried out at most, and {name} was thought of before its answer was known. "
    "Call it again if it is still what you want."
)
REASON = ("done", "time", "tokens", "cost", "turns", "context", "idle", "format")
"""Why a loop stops. done: the agent said so. time, tokens, cost, turns: a limit. context: nothing is left to fold.
idle: reminders without an action between. format: replies that could not be understood. Anything else is an error.
A limit of the attempt ends no run: AttemptOver leaves it open, and a second start goes on."""


class AttemptOver(HarnessError):
    """This start has used what it may; the run is not over."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(f"{limit} is reached and the run is not over: --resume goes on from here")


class Scaffold(Protocol):
    """What an agent sees and may do. `keep_last` observations stay whole (0: all). When `fold_at` tokens were read in a
    turn (0: when the context is full) older ones are folded; where nothing `folds`, a full context ends the run. Of one
    turn's calls the first `actions` are carried out (0: all)."""

    name: str
    system: str
    tools: tuple[ToolSpec, ...]
    texts: Texts
    keep_last: int
    fold_at: int
    folds: bool
    max_tokens: int
    actions: int

    def calls(self, turn: Turn) -> tuple[ToolUse, ...]:
        """The actions of a reply; Malformed when it should hold one and doesn't."""
        ...

    def act(self, call: ToolUse, limit_s: float) -> Act:
        """Do one action within `limit_s` seconds. What can't be done is an answer too."""
        ...

    def shell_state(self) -> ShellState: ...

    def interface(self) -> Mapping[str, str | int]:
        """What the scaffold must know again after a restart."""
        ...


class Loop:
    def __init__(
        self, scaffold: Scaffold, model: ChatModel, journal: AgentJournal, checkpoints: Checkpoints, budget: Budget,
        timer: Timer, price: Callable[[Usage], float], say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.s, self.model, self.journal, self.checkpoints = scaffold, model, journal, checkpoints
        self.budget, self.timer, self.price, self.say = budget, timer, price, say

    def run(self) -> Stopped:
        """Go on until there is a reason to stop. Raises ProviderError, HarnessError: resume goes on from here."""
        while True:
            step = next_step(self.journal.entries, self.s.calls, self.s.texts)
            if isinstance(step, End):
                return self.stop(step.reason, step.note)
            # tokens, cost and turns are spent by replies: what the last one of them asked for is still done
            limit = self.budget.reached(self.used(), TIMES if isinstance(step, Do) else REASONS)
            if limit is not None:
                return self.limited(limit, f"{limit} is reached")
            if isinstance(step, Say):
                self.journal.append(Told(step.text, step.why, self.timer.clock()))
            elif isinstance(step, Do):
                self.do(step.call, step.number)
            else:
                stopped = self.ask()
                if stopped is not None:
                    return stopped

    def used(self) -> Used:
        return used(self.journal.entries, self.timer.clock())

    def ask(self) -> Stopped | None:
        """Get one reply. Stop when the conversation doesn't fit and can't be made to, or no reply can come in time."""
        spent = self.used()
        deadline = self.timer.now() + self.budget.seconds_left(spent, ("wall",))
        working = self.budget.seconds_left(spent, ("active",))
        try:
            turn = self.model.turn(
                self.s.system, conversation(self.journal.entries, self.s.keep_last), self.s.tools,
                max_tokens=self.s.max_tokens, deadline=None if deadline == float("inf") else deadline,
                on_wait=self.timer.waited, attempt_s=None if working == float("inf") else working,
            )  # fmt: skip
        except ContextOverflow:
            return None if self.fold() else self.full()
        except ProviderError as e:
            if e.kind == "bad_request" and (folded := fold_images(self.journal.entries)):
                self.journal.append(folded)  # it may be no picture at all, and would be refused for ever
                return None
            if e.kind != "deadline":
                raise
            nearest = self.budget.nearest(self.used())
            return self.limited(nearest, f"{nearest} comes before a reply ({e})")
        cost = self.price(turn.usage + turn.discarded)
        self.journal.append(Replied(turn, self.timer.clock(), cost))
        self.say(f"turn {int(self.used().turns)}: {', '.join(c.name for c in turn.tool_uses) or turn.stop}")
        if turn.stop == "context_full" or 0 < self.s.fold_at < turn.usage.prompt:
            return None if self.fold() or turn.stop != "context_full" else self.full()
        return None

    def full(self) -> Stopped:
        return self.stop("context", "the context is full and nothing is left to fold")

    def fold(self) -> bool:
        folded = fold(self.journal.entries) if self.s.folds else None
        if folded is not None:
            self.journal.append(folded)
        return folded is not None

    def do(self, call: ToolUse, number: int) -> None:
        """One action, number `number` of its turn, then a checkpoint, then the record that names it."""
        if 0 < self.s.actions <= number:
            act = Act(LATER.format(most=self.s.actions, name=call.name), "refused")
        else:
            act = self.s.act(call, self.budget.seconds_left(self.used()))
        text = act.text.encode(errors="replace").decode()  # names of files may be no text
        checkpoint = self.checkpoints.take()
        self.journal.append(
            Answered(
                call, text, act.outcome, self.timer.clock(), checkpoint, self.s.shell_state(), act.is_error,
                act.images, act.change, dict(self.s.interface()),
            )
        )  # fmt: skip
        self.checkpoints.keep(checkpoint)

    def limited(self, limit: Limit, note: str) -> Stopped:
        if limit.owner == "attempt":
            raise AttemptOver(limit)
        return self.stop(REASONS[limit.what], note)

    def stop(self, reason: str, note: str) -> Stopped:
        stopped = Stopped(reason, note, self.timer.clock())
        self.journal.append(stopped)
        return stopped
