"""A sandbox in memory: it runs nothing and answers from two functions. What unit tests of other rooms use."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from refactorbench.errors import HarnessError
from refactorbench.observe.model import Check, Observation
from refactorbench.sandbox.protocol import Command, Completed, Session, WorkerSpec


def _no_command(command: Command) -> Completed:
    raise HarnessError(f"the scripted sandbox was given no answer for {command.argv[0]}: pass run=")


def _no_check(spec: WorkerSpec, check: Check) -> Observation:
    raise HarnessError(f"the scripted sandbox was given no answer for check {check.id}: pass observe=")


class ScriptedWorker:
    def __init__(self, sandbox: ScriptedSandbox, spec: WorkerSpec) -> None:
        self._sandbox, self._spec = sandbox, spec
        self.closed = False

    def observe(self, check: Check) -> Observation:
        if self.closed:
            raise HarnessError("this worker was closed: open another one")
        self._sandbox.checks.append(check)
        return self._sandbox.answer_check(self._spec, check)

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> ScriptedWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ScriptedSandbox:
    """`run` answers commands and `observe` checks; either may raise. All that was asked is kept in order."""

    name = "scripted"

    def __init__(
        self,
        run: Callable[[Command], Completed] = _no_command,
        observe: Callable[[WorkerSpec, Check], Observation] = _no_check,
    ) -> None:
        self.answer_command, self.answer_check = run, observe
        self.commands: list[Command] = []
        self.checks: list[Check] = []
        self.workers: list[ScriptedWorker] = []

    def describe(self) -> dict[str, str]:
        return {"implementation": self.name, "version": "1", "limits": "none", "user": "none"}

    def run(self, command: Command) -> Completed:
        self.commands.append(command)
        return self.answer_command(command)

    def open_worker(self, spec: WorkerSpec) -> ScriptedWorker:
        worker = ScriptedWorker(self, spec)
        self.workers.append(worker)
        return worker

    def open_session(self, command: Command) -> Session:
        raise HarnessError("the scripted sandbox holds no program that stays: use the real one")
