"""Workers whose answers are a function of the check, and recordings made of them."""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

import msgspec

from refactorbench.catalog.models import (
    Briefs,
    Criteria,
    LoadedTask,
    Manifest,
    OldStack,
    Recipe,
    Runtime,
    Scope,
    StateASource,
    Task,
)
from refactorbench.catalog.recordings import Recording, load_recording, write_recording
from refactorbench.errors import HarnessError
from refactorbench.observe.model import Check, Observation
from refactorbench.sandbox.protocol import Limits

Answer = Callable[[Check], Observation]
LIMITS = Limits()


def seen(stdout: bytes = b"", **fields: object) -> Observation:
    return msgspec.structs.replace(Observation("exit", 0, stdout, b"", ()), **fields)


def echo(check: Check) -> Observation:
    return seen(b" ".join(check.argv))


def wrong(check: Check) -> Observation:
    return seen(b"wrong")


def make_check(id_: str, **fields: object) -> Check:
    check = Check(id_, id_.split("/")[0], "process", "bin/tool", (b"tool", id_.encode()))
    return msgspec.structs.replace(check, **fields)


def broken(_: Check) -> Observation:
    raise HarnessError("the sandbox is gone")


class ScriptedWorker:
    def __init__(self, answer: Answer, log: "Opened") -> None:
        self.answer, self.log, self.open = answer, log, True

    def observe(self, check: Check) -> Observation:
        assert self.open, "observed after close"
        with self.log.lock:
            self.log.asked.append(check.id)
        return self.answer(check)

    def close(self) -> None:
        assert self.open, "closed twice"
        self.open = False
        self.log.closed += 1

    def __enter__(self) -> "ScriptedWorker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Opened:
    """Opens scripted workers (call it) and knows what became of them; `answers` are given to one worker each, the last
    one to all further."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.opened, self.closed = answers, 0, 0
        self.asked: list[str] = []
        self.lock = threading.Lock()

    def __call__(self) -> ScriptedWorker:
        with self.lock:
            self.opened += 1
            return ScriptedWorker(self.answers[min(self.opened, len(self.answers)) - 1], self)


def make_task(root: Path) -> LoadedTask:
    source = StateASource("debian-source", "p", "1", "bookworm", "p.tar.gz", "0" * 64, "a" * 64)
    recipe = Recipe("build.sh", {"bin/tool": "tool"}, ("gcc",))
    task = Task(
        "refactorbench.task/1", "t", "T", "language", "C", "Rust", 1.0, "admitted", source, recipe, recipe,
        Runtime(()), LIMITS, OldStack(("gcc",), (".c",)), "checks/generate.py",
    )  # fmt: skip
    criteria = Criteria("refactorbench.criteria/1", "t", ())
    return LoadedTask(root, task, criteria, Briefs("refactorbench.verifiers/1", "t", "t.py", Scope((), ()), ()), "")


def make_recording(root: Path, checks: Iterable[Check], answer: Answer = echo) -> Recording:
    loaded = make_task(root)
    head = Manifest("refactorbench.recording/1", "t", "a" * 64, "1", 7, (), ("a", "b", "c"), {}, {}, {})
    write_recording(loaded.recording, head, [(c, answer(c)) for c in checks])
    return load_recording(loaded)


def modules(**sizes: int) -> list[Check]:
    return [make_check(f"{m}/{i:04d}") for m, n in sizes.items() for i in range(n)]
