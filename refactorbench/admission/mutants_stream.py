"""Stored streams of inputs, each with State A's answer and the mutants that it reaches: run once, asked many times.

A verifier's stream depends on its seed alone: it is what its hunt executes on a submission in which it finds nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import IO

import msgspec

from refactorbench.errors import HarnessError, TaskError
from refactorbench.observe import rules
from refactorbench.observe.executor import observe_all
from refactorbench.observe.model import Check, Observation, decode_check, encode
from refactorbench.outcome import Status
from refactorbench.sandbox.protocol import Worker
from refactorbench.verification.bench import Bench, BenchSpec, sandbox_bench
from refactorbench.verification.model import Plan, Side
from refactorbench.verification.stage import run_verifier

VARIABLE = b"RB_MUTANT"
REACH = b"reach"
NOTES = b".rb-mutants"  # in a check's scratch: two bytes per number that was asked for, 0 when a program started
ANY: tuple[int, ...] = (-1,)  # what it reaches isn't known

_SIZES = struct.Struct("<II")


class Item(msgspec.Struct, frozen=True, array_like=True):
    """`digest` is of State A's answer under the check's rules; `reached`: numbers of mutants, or ANY."""

    digest: bytes
    reached: tuple[int, ...] = ANY

    def reaches(self, number: int) -> bool:
        return self.reached == ANY or number in self.reached


_items = msgspec.msgpack.Decoder(Item)


def digest(observation: Observation, check: Check) -> bytes:
    """Two answers to `check` count as equal when this is equal: strict bytes, but for the check's named rules."""
    masked, _ = rules.apply(check.rules, observation)
    return bytes.fromhex(masked.digest())


def write_item(file: IO[bytes], item: Item, check: Check) -> None:
    head, body = msgspec.msgpack.encode(item), encode(check)
    file.write(_SIZES.pack(len(head), len(body)) + head + body)


class Stream:
    """A stored stream, open for reading by any number of threads; items lie in memory, checks on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.items: list[Item] = []
        self._places: list[tuple[int, int]] = []  # offset and size of each check
        with path.open("rb") as f:
            while sizes := f.read(_SIZES.size):
                head, body = _SIZES.unpack(sizes)
                self.items.append(_items.decode(f.read(head)))
                self._places.append((f.tell(), body))
                f.seek(body, 1)

    def __len__(self) -> int:
        return len(self.items)

    def checks(self, order: Iterable[int]) -> Iterator[Check]:
        """The checks at these places, in this order."""
        with self.path.open("rb") as f:
            for i in order:
                offset, size = self._places[i]
                f.seek(offset)
                yield decode_check(f.read(size))


def store(path: Path, items: Iterable[tuple[Item, Check]]) -> Stream:
    """Write a stream to `path`, which then holds all of it or isn't there."""
    temp = path.with_suffix(".tmp")
    with temp.open("wb") as f:
        for item, check in items:
            if any(key == VARIABLE for key, _ in check.env):
                raise TaskError(
                    f"check {check.id} sets {VARIABLE.decode()}, which says what mutant is in force: name the "
                    "variable otherwise, else mutants can't be measured"
                )
            write_item(f, item, check)
    temp.replace(path)
    return Stream(path)


def marked(
    path: Path, drawn: Stream, open_reach: Callable[[], Worker], jobs: int, tick: Callable[[int], None]
) -> Stream:
    """Store `drawn` again at `path` with what each input reaches; `open_reach` has RB_MUTANT=reach."""

    def items() -> Iterator[tuple[Item, Check]]:
        seen = observe_all(drawn.checks(range(len(drawn))), open_reach, jobs)
        for n, (item, (check, observation)) in enumerate(zip(drawn.items, seen, strict=True), 1):
            tick(n)
            yield Item(item.digest, reached(check, observation, item.digest)), check

    return store(path, items())


def reached(check: Check, seen: Observation, expected: bytes) -> tuple[int, ...]:
    """What a run under RB_MUTANT=reach asked for. ANY when it noted nothing or, its notes aside, wasn't State A's run.

    A mutant that wasn't asked for can't have changed anything, so the input need not be run on it.
    """
    if check.observer == "tree":
        return ()
    notes = [f for f in seen.files if f.path == NOTES]
    rest = msgspec.structs.replace(seen, files=tuple(f for f in seen.files if f.path != NOTES))
    if len(notes) != 1 or len(notes[0].data) % 2 or digest(rest, check) != expected:
        return ANY
    numbers = {n for (n,) in struct.iter_unpack("<H", notes[0].data)}
    return tuple(sorted(numbers - {0})) if 0 in numbers else ANY


def draw(path: Path, plan: Plan, spec: BenchSpec, tick: Callable[[int], None]) -> Stream:
    """Store what `plan`'s verifier executes on a submission that equals the reference; nothing is known of reach.

    HarnessError when its hunt doesn't come to an end of its own.
    """
    temp = path.with_suffix(".tmp")
    temp.unlink(missing_ok=True)
    told = msgspec.structs.replace(spec, submission=str(temp), opener=f"{__name__}:recording_bench")
    result = run_verifier(plan, told, {}, lambda _: None, tick)
    if result.outcome.status is not Status.PASS:
        raise HarnessError(f"the inputs of verifier {plan.verifier} can't be drawn: {result.outcome.cause}")
    drawn = Stream(temp)
    if len(drawn) != result.activity.executed:
        raise HarnessError(
            f"{temp} holds {len(drawn)} inputs and verifier {plan.verifier} executed {result.activity.executed}: "
            "start again"
        )
    temp.replace(path)
    return Stream(path)


def recording_bench(spec: BenchSpec) -> Bench:
    """A bench whose submission repeats the reference's answers; what is executed goes to the file spec.submission."""
    under = sandbox_bench(msgspec.structs.replace(spec, submission=spec.reference))
    return RecordingBench(under, Path(spec.submission))


class RecordingBench:
    """For one pair of workers at a time."""

    def __init__(self, bench: Bench, path: Path) -> None:
        self._bench, self._path = bench, path
        self._answers: SimpleQueue[Observation | BaseException] = SimpleQueue()

    def open(self, side: Side) -> Worker:
        if side is Side.SUBMISSION:
            return _Echo(self._answers)
        return _Recorder(self._bench.open(Side.REFERENCE), self._path, self._answers)


class _Closing:
    def close(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Recorder(_Closing):
    def __init__(self, worker: Worker, path: Path, answers: SimpleQueue[Observation | BaseException]) -> None:
        self._worker, self._answers = worker, answers
        self._file = path.open("ab")

    def observe(self, check: Check) -> Observation:
        try:
            seen = self._worker.observe(check)
        except BaseException as e:
            self._answers.put(e)
            raise
        if seen.ended not in ("limit", "launch"):  # no hunt counts what State A doesn't answer
            write_item(self._file, Item(digest(seen, check)), check)
        self._answers.put(seen)
        return seen

    def close(self) -> None:
        self._file.close()
        self._worker.close()

    def __enter__(self) -> _Recorder:
        return self


class _Echo(_Closing):
    def __init__(self, answers: SimpleQueue[Observation | BaseException]) -> None:
        self._answers = answers

    def observe(self, _check: Check) -> Observation:
        answer = self._answers.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def __enter__(self) -> _Echo:
        return self
