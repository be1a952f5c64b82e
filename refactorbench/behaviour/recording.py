"""Recording: State A's answers, taken several times under perturbation; what moves is not the product's behaviour."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from refactorbench.behaviour.pool import OpenWorker, Pool, in_order
from refactorbench.catalog.models import LoadedTask, Manifest
from refactorbench.catalog.recordings import write_recording
from refactorbench.errors import TaskError
from refactorbench.observe.compare import Difference, differences
from refactorbench.observe.model import Check, Observation
from refactorbench.observe.rules import find
from refactorbench.sandbox.protocol import Limits

MINIMUM_PASSES = 3
WALL_SHARE = 0.1  # of the wall limit that State A may take
SIZE_SHARE = 0.5  # of the output, file and disk limits that State A may fill

_MIB = 1 << 20


class Pass(msgspec.Struct, frozen=True):
    """One perturbed pass: `open_worker` brings another build, environment, address layout or limits; `order` and
    `jobs` change the neighbours of each check and the load."""

    open_worker: OpenWorker
    order: Literal["given", "reversed", "shuffled"] = "given"
    jobs: int = 1


class Recorded(msgspec.Struct, frozen=True):
    """`rows` in the order of the checks, each with the first pass's observation; `dropped`: check id -> reason;
    `passes`: names, the first is the one that was recorded."""

    rows: tuple[tuple[Check, Observation], ...]
    dropped: dict[str, str]
    passes: tuple[str, ...]


def halved(limits: Limits) -> Limits:
    """Half of memory, processes, file and disk size, for a pass that shows whether State A needs more than that."""
    return msgspec.structs.replace(
        limits,
        memory_mb=limits.memory_mb // 2,
        processes=limits.processes // 2,
        file_mb=limits.file_mb // 2,
        disk_mb=limits.disk_mb // 2,
    )


def refusal(observation: Observation, limits: Limits) -> str:
    """Return why State A's answer can't be held against anybody, or "": it must stay far from the limits, so that a
    submission that hits one has behaved differently. Time is judged by `slow`, memory and processes by a halved pass.
    """
    if observation.ended in ("limit", "launch"):
        return f"State A ended by {observation.ended} {observation.limit}".strip()
    sizes = [
        ("stdout", len(observation.stdout), limits.output_mb),
        ("stderr", len(observation.stderr), limits.output_mb),
    ]
    sizes += [(f"file {f.path!r}", len(f.data), limits.file_mb) for f in observation.files]
    sizes.append(("files", sum(len(f.data) for f in observation.files), limits.disk_mb))
    for name, size, limit in sizes:
        if size > SIZE_SHARE * limit * _MIB:
            return f"State A's {name}: {size} bytes, more than half of the limit of {limit} MiB"
    return ""


def slow(wall_ms: Sequence[int], limits: Limits) -> str:
    """Return why State A takes too long, or "". The median over the passes counts: one busy moment isn't State A's."""
    middle = statistics.median(wall_ms)
    if middle > WALL_SHARE * limits.wall_s * 1000:
        return f"State A took {middle:.0f} ms, more than a tenth of the limit of {limits.wall_s:g} s"
    return ""


class _Seen:
    """What the passes saw of one check: the first answer, and those of later passes that differ from it."""

    def __init__(self, check: Check, base: Observation) -> None:
        self.check, self.base = check, base
        self.wall = [base.wall_ms]
        self.moved: dict[str, Observation] = {}

    def add(self, name: str, observation: Observation) -> None:
        self.wall.append(observation.wall_ms)
        if differences(self.base, observation, self.check.rules):
            self.moved[name] = observation

    def settle(self, allowed: Sequence[str]) -> tuple[Check | None, str]:
        """Return (check, "") with the rule it needs, if any, or (None, why it is dropped)."""
        if not self.moved:
            return self.check, ""
        for rule in allowed:
            rules = (*self.check.rules, rule)
            if rule not in self.check.rules and not any(differences(self.base, o, rules) for o in self.moved.values()):
                return msgspec.structs.replace(self.check, rules=rules), ""
        where = {_where(d) for o in self.moved.values() for d in differences(self.base, o, self.check.rules)}
        return None, f"moves in {', '.join(sorted(where)[:4])} under {', '.join(self.moved)}"


def _where(d: Difference) -> str:
    return f"file {d.kind} of {d.path!r}" if d.dimension == "file" else d.dimension


def _ordered(checks: Sequence[Check], order: str, seed: int) -> list[Check]:
    if order == "reversed":
        return list(reversed(checks))
    ordered = list(checks)
    if order == "shuffled":
        random.Random(seed).shuffle(ordered)
    return ordered


def record(
    checks: Iterable[Check],
    passes: Mapping[str, Pass],
    *,
    limits: Limits,
    seed: int,
    allowed_rules: Sequence[str] = (),
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Recorded:
    """Observe every check in every pass and keep what agrees in all of them.

    A check that moves gets the first of `allowed_rules` that makes all passes agree, else it is dropped. The first
    pass's answers are recorded. TaskError for fewer than three passes, unknown rules, duplicate ids or a module that
    keeps no check; a HarnessError of a worker ends the recording.
    """
    if len(passes) < MINIMUM_PASSES:
        raise TaskError(
            f"passes: {len(passes)} ({', '.join(passes)}), so what moves can't be told from behaviour: "
            f"give {MINIMUM_PASSES} or more"
        )
    for rule in allowed_rules:
        find(rule)
    listed = list(checks)
    if len({c.id for c in listed}) != len(listed):
        twice = sorted({c.id for c in listed if sum(o.id == c.id for o in listed) > 1})
        raise TaskError(f"check id '{twice[0]}' is generated twice, so one answer would hide the other: rename one")
    seen: dict[str, _Seen] = {}
    done = 0
    for number, (name, p) in enumerate(passes.items()):
        with Pool(p.open_worker, p.jobs) as pool:
            for check, observation in in_order(
                pool.observe, _ordered(listed, p.order, seed + number), p.jobs, pool.stop
            ):
                if number == 0:
                    seen[check.id] = _Seen(check, observation)
                else:
                    seen[check.id].add(name, observation)
                done += 1
                on_progress(done, len(listed) * len(passes))
    return _sift([seen[c.id] for c in listed], tuple(passes), limits, allowed_rules)


def _sift(seen: Sequence[_Seen], passes: tuple[str, ...], limits: Limits, allowed: Sequence[str]) -> Recorded:
    rows: list[tuple[Check, Observation]] = []
    dropped: dict[str, str] = {}
    for s in seen:
        why = refusal(s.base, limits) or slow(s.wall, limits)
        check, moves = (None, "") if why else s.settle(allowed)
        if check is None:
            dropped[s.check.id] = why or moves
        else:
            rows.append((check, s.base))
    lost = {s.check.module for s in seen} - {check.module for check, _ in rows}
    if lost:
        module = min(lost)
        some = next(s.check.id for s in seen if s.check.module == module)
        raise TaskError(
            f"module '{module}': every check is dropped, the first one ({some}) because: {dropped[some]}; the module "
            "would vanish from the score: mend its checks, or remove them from the generator"
        )
    return Recorded(tuple(rows), dropped, passes)


def store(
    loaded: LoadedTask, recorded: Recorded, *, executor: str, seed: int, coverage: Mapping[str, float]
) -> Manifest:
    """Write the task's recording folder; `coverage` as in Manifest. TaskError as in write_recording."""
    head = Manifest(
        schema="refactorbench.recording/1",
        task=loaded.task.id,
        state_a_tree=loaded.task.state_a.tree_sha256,
        executor=executor,
        seed=seed,
        modules=(),
        passes=recorded.passes,
        dropped=recorded.dropped,
        coverage=dict(coverage),
        rules={},
    )
    return write_recording(loaded.recording, head, recorded.rows)
