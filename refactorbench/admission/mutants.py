"""How much do the checks see? Mutants of State A, each met by the recording and by every verifier up to first contact.

All mutants of a batch are in one build; RB_MUTANT in the worker's base environment says which one is in force. What is
finished stands in the output folder's journal and is not done again.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import shutil
import time
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path

import msgspec

from refactorbench.admission import mutants_stream as streams
from refactorbench.admission.mutants_model import PRELUDE, Batch, apply, load_batch
from refactorbench.admission.mutants_result import Contact, MutantsResult, row, summarise
from refactorbench.admission.mutants_stream import REACH, VARIABLE, Item, Stream, digest
from refactorbench.admission.recording import build_state_a
from refactorbench.behaviour.pool import in_order
from refactorbench.build.builder import build_tree
from refactorbench.build.toolchain import find
from refactorbench.catalog.load import load_panel, load_task, panel_fingerprint
from refactorbench.catalog.models import LoadedTask
from refactorbench.catalog.recordings import Recording, load_recording
from refactorbench.catalog.sources import fetch_state_a
from refactorbench.errors import HarnessError, TaskError, UsageError
from refactorbench.hashing import sha256_file
from refactorbench.journal import Journal, Record, read_json, write_json
from refactorbench.observe.compare import differences
from refactorbench.observe.executor import EXECUTOR_VERSION, Executor, observe_all
from refactorbench.observe.explain import explain_all
from refactorbench.observe.model import Check
from refactorbench.observe.spec import worker_spec
from refactorbench.progress import Progress
from refactorbench.sandbox.bubblewrap import BubblewrapSandbox
from refactorbench.sandbox.protocol import Sandbox, WorkerSpec
from refactorbench.verification.bench import BenchSpec
from refactorbench.verification.model import Plan
from refactorbench.verification.stage import plans

STAGES = ("2", "3", "both")
RECORDING = "stage-2"  # the name of its stream and of its units in the journal


class Request(msgspec.Struct, frozen=True):
    """What is asked for; `batch` "" is the only one, `only` () all of its mutants, `stage` one of STAGES."""

    task: str
    batch: str = ""
    only: tuple[str, ...] = ()
    stage: str = "both"
    panel: str = "offline"
    seed: int = 1
    jobs: int = 2


class Identity(msgspec.Struct, frozen=True):
    """What a folder's results rest on: with another one, nothing in it could be counted."""

    task: str
    state_a: str
    recording: str
    executor: str
    batch: str
    mutants: str  # sha256 of the batch and of the prelude
    panel: str
    strategies: str
    seed: int


class Target(msgspec.Struct, frozen=True):
    """The build that holds every mutant: a worker with `value` in RB_MUTANT, b"" with none."""

    sandbox: Sandbox
    spec: WorkerSpec

    def open(self, value: bytes) -> Executor:
        env = (*self.spec.env, (VARIABLE, value)) if value else self.spec.env
        return Executor(self.sandbox, msgspec.structs.replace(self.spec, env=env))


def identity(loaded: LoadedTask, batch: Batch, request: Request) -> Identity:
    verifiers = loaded.root / "verifiers" / loaded.briefs.module
    panel = load_panel(loaded.root, request.panel)
    return Identity(
        loaded.task.id, loaded.task.state_a.tree_sha256, sha256_file(loaded.recording / "manifest.json"),
        EXECUTOR_VERSION, batch.name, f"{batch.sha256} {sha256_file(PRELUDE)}",
        f"{request.panel} {panel_fingerprint(panel)}", sha256_file(verifiers), request.seed,
    )  # fmt: skip


def claim(out: Path, mine: Identity) -> None:
    """Write `mine` into a new folder; UsageError where the folder's own differs."""
    path = out / "identity.json"
    if not path.exists():
        write_json(path, mine)
        return
    theirs = read_json(path, Identity)
    for key in Identity.__struct_fields__:
        if getattr(theirs, key) != getattr(mine, key):
            raise UsageError(
                f"--out {out} holds results for another {key} ({getattr(theirs, key)}, now {getattr(mine, key)}), "
                "which can't be counted together: give another --out"
            )


def build_mutants(loaded: LoadedTask, batch: Batch, state_a: Path, sandbox: Sandbox, cache: Path, work: Path) -> Target:
    """Build State A with all mutants of the batch by the reference recipe; TaskError when it doesn't build."""
    tree = work / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.parent.mkdir(parents=True, exist_ok=True)
    apply(batch, state_a, tree)
    recipe = loaded.task.reference
    report = build_tree(
        tree, recipe, loaded=loaded, sandbox=sandbox, toolchain=find(recipe.toolchain), cache=cache, workdir=work,
        role="reference",
    )  # fmt: skip
    if report.status == "harness":
        raise HarnessError(report.cause)
    if report.status == "failed":
        raise TaskError(
            f"batch '{batch.name}' doesn't build, so no mutant can be measured: {report.cause}\nlines are those of "
            f"State A, the text is in {tree}, all of it in {report.log}: correct the mutant on that line"
        )
    return Target(sandbox, worker_spec(loaded.task, Path(report.product)))


def recorded(recording: Recording) -> Iterator[tuple[Item, Check]]:
    for module in recording.manifest.modules:
        for r in recording.rows(module.id):
            yield Item(digest(r.observation, r.check)), r.check


def baseline(drawn: Stream, target: Target, jobs: int, tick: Callable[[int], None]) -> None:
    """With no mutant in force every recorded check must pass; TaskError otherwise."""
    seen = observe_all(drawn.checks(range(len(drawn))), partial(target.open, b""), jobs)
    wrong = []
    for n, (item, (check, observation)) in enumerate(zip(drawn.items, seen, strict=True), 1):
        tick(n)
        if digest(observation, check) != item.digest:
            wrong.append(check.id)
    if wrong:
        raise TaskError(
            f"with no mutant in force {len(wrong)} of {len(drawn)} checks fail ({', '.join(wrong[:5])}), so what is "
            "found would be no mutant's doing: mend the mutants that change State A by their mere text"
        )


def shuffled(size: int, seed: int) -> list[int]:
    order = list(range(size))
    random.Random(f"{seed}/mutants").shuffle(order)
    return order


def first_contact(
    number: int, stream: Stream, order: list[int], target: Target, running: set[Executor] | None = None
) -> Contact:
    """Run what may reach mutant `number`, in this order, up to the first difference that a second run confirms."""
    start = time.monotonic()
    places = [(place, i) for place, i in enumerate(order, 1) if stream.items[i].reaches(number)]
    contact = Contact(False, len(order), len(order), len(places))
    unconfirmed = 0
    running = set() if running is None else running
    with target.open(b"%d" % number) as worker:
        running.add(worker)
        try:
            here, ahead = itertools.tee(stream.checks(i for _, i in places))
            for (place, i), check, observation in zip(places, here, worker.observe_many(ahead), strict=True):
                expected = stream.items[i].digest
                if digest(observation, check) == expected:
                    continue
                if difference := confirmed(number, check, expected, target):
                    contact = msgspec.structs.replace(
                        contact, found=True, ran=place, check=check.id, module=check.module, difference=difference
                    )
                    break
                unconfirmed += 1
        finally:
            running.discard(worker)
    return msgspec.structs.replace(contact, unconfirmed=unconfirmed, seconds=round(time.monotonic() - start, 3))


def confirmed(number: int, check: Check, expected: bytes, target: Target) -> str:
    """The difference in words if a fresh run differs again where the same build, no mutant in force, doesn't; or ""."""
    with target.open(b"") as worker:
        plain = worker.observe(check)
    with target.open(b"%d" % number) as worker:
        again = worker.observe(check)
    if digest(plain, check) != expected or digest(again, check) == expected:
        return ""
    return explain_all(differences(plain, again, check.rules))


class Session:
    """One start of the command: what it needs, and what it stores."""

    def __init__(
        self, loaded: LoadedTask, batch: Batch, request: Request, cache: Path, out: Path, progress: Progress
    ) -> None:
        self.loaded, self.batch, self.request, self.out, self.progress = loaded, batch, request, out, progress
        self.cache = cache
        self.sandbox = BubblewrapSandbox()
        self.chosen = batch.numbered(request.only)
        self.state_a = fetch_state_a(loaded.task.state_a, cache, progress.say)
        module = loaded.root / "verifiers" / loaded.briefs.module
        panel = load_panel(loaded.root, request.panel)
        self.plans = plans(loaded.briefs, panel, module, loaded.task.limits, request.seed)

    def run(self, journal: Journal) -> MutantsResult:
        unfinished = [name for name in self.searches() if self.missing(journal, name)]
        if unfinished:
            recording = self.recording()  # also where only verifiers are asked for: it shows that the build is State A
        for name in unfinished:
            stream = recording if name == RECORDING else self.hunted(name)
            order = shuffled(len(stream), self.request.seed) if name == RECORDING else list(range(len(stream)))
            self.search(journal, name, stream, order)
        self.progress.end()
        return self.result(journal)

    @cached_property
    def target(self) -> Target:
        self.progress.say(f"building State A with {len(self.batch.mutants)} mutants in it")
        return build_mutants(self.loaded, self.batch, self.state_a, self.sandbox, self.cache, self.out / "build")

    def searches(self) -> list[str]:
        seats = [p.verifier for p in self.plans]
        return {"2": [RECORDING], "3": seats, "both": [RECORDING, *seats]}[self.request.stage]

    def missing(self, journal: Journal, name: str) -> bool:
        return any(journal.done(f"{name}/{m.id}") is None for _, m in self.chosen)

    def recording(self) -> Stream:
        """The recorded checks, after showing that the build with no mutant in force passes them all."""
        path = self.out / "streams" / f"{RECORDING}.stream"
        if path.exists():
            return Stream(path)
        path.parent.mkdir(exist_ok=True)
        drawn = streams.store(path.with_suffix(".drawn"), recorded(load_recording(self.loaded)))
        baseline(drawn, self.target, self.request.jobs, self.ticking("replaying with no mutant in force", len(drawn)))
        return self.marked(path, drawn)

    def hunted(self, verifier: str) -> Stream:
        """A verifier's inputs; the fixed checks have no part in them."""
        path = self.out / "streams" / f"{verifier}.stream"
        if path.exists():
            return Stream(path)
        plan: Plan = next(p for p in self.plans if p.verifier == verifier)
        reference = build_state_a(
            self.loaded, self.loaded.task.reference, self.state_a, self.sandbox, self.cache, self.out / "reference"
        )
        spec = worker_spec(self.loaded.task, Path(reference.product))
        told = BenchSpec(
            self.sandbox.name, reference.product, "", "", spec.limits, tuple(map(str, spec.libraries)), spec.env,
            spec.deny_exec_memory,
        )  # fmt: skip
        drawn = path.with_suffix(".drawn")
        known = (
            Stream(drawn)
            if drawn.exists()
            else streams.draw(drawn, plan, told, self.ticking(f"drawing {verifier}'s inputs", plan.budget))
        )
        return self.marked(path, known)

    def marked(self, path: Path, drawn: Stream) -> Stream:
        tick = self.ticking(f"what {path.stem} reaches", len(drawn))
        found = streams.marked(path, drawn, partial(self.target.open, REACH), self.request.jobs, tick)
        drawn.path.unlink()
        return found

    def ticking(self, what: str, total: int) -> Callable[[int], None]:
        return lambda done: self.progress.tick(what, done, total)

    def search(self, journal: Journal, name: str, stream: Stream, order: list[int]) -> None:
        unfinished = [(k, m) for k, m in self.chosen if journal.done(f"{name}/{m.id}") is None]
        running: set[Executor] = set()

        def stop() -> None:
            for worker in tuple(running):
                worker.interrupt()

        done = in_order(
            lambda km: first_contact(km[0], stream, order, self.target, running), unfinished, self.request.jobs, stop
        )
        with contextlib.closing(done):  # type: ignore[type-var]
            for n, ((_, mutant), contact) in enumerate(done, 1):
                journal.append(Record(f"{name}/{mutant.id}", time.time(), msgspec.to_builtins(contact)))
                self.progress.tick(f"{name}: mutants", n, len(unfinished))

    def result(self, journal: Journal) -> MutantsResult:
        def contact(name: str, mutant: str) -> Contact | None:
            record = journal.done(f"{name}/{mutant}")
            return msgspec.convert(record.data, Contact) if record else None

        seats = [p.verifier for p in self.plans]
        rows = tuple(
            row(m, contact(RECORDING, m.id), {v: c for v in seats if (c := contact(v, m.id)) is not None})
            for _, m in self.chosen
        )
        request = self.request
        return summarise(request.task, self.batch.name, request.seed, request.panel, rows, seats)


def measure(root: Path, request: Request, cache: Path, out: Path | None, progress: Progress) -> MutantsResult:
    """Search for every mutant that is asked for; results are in `out` (runs/mutants-TASK-BATCH), where a second start
    goes on. A mutant that was measured at an earlier start is not measured again."""
    loaded = load_task(root, request.task)
    batch = load_batch(loaded, request.batch)
    batch.numbered(request.only)
    out = out or Path("runs") / f"mutants-{request.task}-{batch.name}"
    journal = Journal(out / "journal.jsonl")
    try:
        claim(out, identity(loaded, batch, request))
        result = Session(loaded, batch, request, cache, out, progress).run(journal)
        write_json(out / "mutants.json", result)
        return result
    finally:
        journal.close()
