"""Build a tree once: from a clean copy, offline, traced; the artefact is content-addressed and serves all stages."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path
from typing import Literal

import msgspec

from refactorbench.build import room as rooms
from refactorbench.build import tripwire
from refactorbench.build.artefact import OutputMissing, collect, store
from refactorbench.build.canary import canary
from refactorbench.build.drivers import compile_drivers
from refactorbench.build.evidence import same_product
from refactorbench.build.model import BuildFacts, BuildReport
from refactorbench.build.places import Places, head, regular
from refactorbench.build.provenance import Rules, gather
from refactorbench.build.room import Room
from refactorbench.build.toolchain import RUST_TARGET, Toolchain, numbers
from refactorbench.build.trace import read_trace
from refactorbench.build.world import HANDLERS
from refactorbench.catalog.models import LoadedTask, Recipe
from refactorbench.errors import TaskError, UsageError
from refactorbench.hashing import tree_digest
from refactorbench.journal import read_json, write_json
from refactorbench.sandbox.protocol import Sandbox

Role = Literal["reference", "target"]
NO_FACTS = BuildFacts((), (), (), (), ())
FORMAT = "1"  # of what is kept for a reference build; a new one leaves old ones unread
BITCODE = ".no-opt.bc"
SPLITS = (1, 65)  # the first rustc that lets a tree say on Linux where debug information goes


def build_tree(
    tree: Path, recipe: Recipe, *, loaded: LoadedTask, sandbox: Sandbox, toolchain: Toolchain, cache: Path,
    workdir: Path, role: Role,
) -> BuildReport:  # fmt: skip
    """Build `tree` by `recipe` and leave the product in the cache, log, trace and evidence in `workdir`.

    A target build meets tripwires in the place of the old stack's compilers and is followed by the evidence build; a
    reference build is kept by what goes into it. TaskError for a recipe that isn't there, HarnessError when the sandbox
    or the disk fails.
    """
    script = _script(recipe, loaded)
    workdir.mkdir(parents=True, exist_ok=True)
    kept = cache / "builds" / _key(tree, recipe, script, loaded, toolchain)
    if role == "reference" and (found := _kept(kept)):
        return found
    start = time.monotonic()
    guarded = tripwire.old_compilers(loaded.task.old_stack.compilers, toolchain) if role == "target" else {}
    wraps = role == "target" and "rust" in recipe.toolchain
    home = kept if role == "reference" else workdir
    room = rooms.prepare(workdir / "room", tree, script, toolchain, cache, guarded, wraps)
    done = rooms.run(room, recipe, recipe.env, sandbox, traced=True)
    places = room.places(tree)
    cause = rooms.cause(done, room.log)
    product = workdir / "staged"
    shutil.rmtree(product, ignore_errors=True)
    product.mkdir()
    if not cause:
        try:
            collect(recipe.outputs, places, product)
        except OutputMissing as e:
            cause = str(e)
    facts = _facts(room, places, recipe, loaded)
    home.mkdir(parents=True, exist_ok=True)
    log, trace = _keep(room.log, home), _keep(room.trace, home)
    report = BuildReport(
        status="built", cause=cause, artefact="", product="", log=log, trace=trace, facts=facts, evidence_product="",
        evidence_equal=False, wall_s=0.0, toolchain=toolchain.versions, guarded=tripwire.digests(guarded),
        language="Rust" if wraps else "", old_stack=loaded.task.old_stack.compilers if role == "target" else (),
        scripts_run=_scripts_run(facts, places), runtime_objects=_runtime_objects(facts, places),
    )  # fmt: skip
    if cause:
        report = _failed(report, recipe, room, sandbox, cache, workdir)
    else:
        report = _built(report, recipe, room, places, product, loaded, sandbox, cache, workdir)
        if role == "target" and recipe.evidence_env:
            report = _evidence(report, tree, script, recipe, room, sandbox, cache, workdir)
    rooms.remove(room.folder)
    report = msgspec.structs.replace(report, wall_s=round(time.monotonic() - start, 3))
    if role == "reference" and report.status == "built":
        write_json(kept / "report.json", report)
    return report


def _script(recipe: Recipe, loaded: LoadedTask) -> bytes:
    path = loaded.folder / recipe.script
    if not path.is_file():
        raise TaskError(f"recipe script {recipe.script} is not in {loaded.folder}: correct it in task.toml")
    return path.read_bytes()


def _key(tree: Path, recipe: Recipe, script: bytes, loaded: LoadedTask, toolchain: Toolchain) -> str:
    """What a build's result depends on, as one digest."""
    total = hashlib.sha256(f"{FORMAT} {tree_digest(tree)} {toolchain.fingerprint}\n".encode())
    total.update(msgspec.json.encode(recipe, order="sorted") + script)
    drivers = loaded.task.drivers
    if drivers:
        total.update(msgspec.json.encode(drivers, order="sorted"))
        for name in drivers.sources:
            path = loaded.folder / name
            total.update(path.read_bytes() if path.is_file() else b"")
    return total.hexdigest()


def _kept(folder: Path) -> BuildReport | None:
    """A reference build of the same inputs, if its product still has the digest it was stored under."""
    if not (folder / "report.json").is_file():
        return None
    try:
        report = read_json(folder / "report.json", BuildReport)
    except UsageError:
        return None
    product = Path(report.product)
    whole = product.is_dir() and tree_digest(product) == report.artefact and Path(report.trace).is_file()
    return report if whole else None


def _keep(path: Path, home: Path) -> str:
    if not path.is_file():
        return ""
    shutil.copyfile(path, home / path.name)
    return str(home / path.name)


def _facts(room: Room, places: Places, recipe: Recipe, loaded: LoadedTask) -> BuildFacts:
    trace = read_trace(room.trace, HANDLERS)
    if trace.missing:
        return msgspec.structs.replace(NO_FACTS, complete=False)
    rustc = next((t.inside for t in room.toolchain.tools if t.name == "rustc"), "")
    compilers = frozenset({places.resolve(rustc, "/")} if rustc else ())
    sysroot = RUST_TARGET if rustc.startswith(RUST_TARGET + "/") else "/usr"
    rules = Rules(sysroot, frozenset(loaded.task.runtime.libraries), room.ended, room.wraps_rustc)
    return gather(trace, places, compilers, rules, recipe.outputs)


def _scripts_run(facts: BuildFacts, places: Places) -> tuple[str, ...]:
    """Images that are scripts of the toolchain's interpreters, as handed in and as they lie there after the build."""
    found = []
    for image in dict.fromkeys(i.path for i in facts.images):
        texts = [head(host, 256) for host in (places.was(image), places.host(image)) if host is not None]
        words = [(t[2:].split() or [b""])[0] for t in texts if t is not None and t.startswith(b"#!")]
        zones = {places.zone(places.resolve(os.fsdecode(w), "/")) for w in words}
        if words and len(words) == sum(t is not None for t in texts) and zones == {"toolchain"}:
            found.append(image)
    return tuple(found)


def _runtime_objects(facts: BuildFacts, places: Places) -> tuple[str, ...]:
    hosts = (places.host(i.path) for i in facts.link_inputs if i.origin == "toolchain" and ".so" not in i.path)
    return tuple(sorted({str(h.resolve()) for h in hosts if h is not None}))


def _failed(
    report: BuildReport, recipe: Recipe, room: Room, sandbox: Sandbox, cache: Path, workdir: Path
) -> BuildReport:
    why = canary(recipe, room.toolchain, sandbox, cache, workdir, room.guarded, room.wraps_rustc)
    rooms.remove(workdir / "canary")
    shutil.rmtree(workdir / "canary-source", ignore_errors=True)
    if why:
        return msgspec.structs.replace(report, status="harness", cause=f"the toolchain builds no canary either: {why}")
    return msgspec.structs.replace(report, status="failed")


def _built(
    report: BuildReport, recipe: Recipe, room: Room, places: Places, product: Path, loaded: LoadedTask,
    sandbox: Sandbox, cache: Path, workdir: Path,
) -> BuildReport:  # fmt: skip
    absent: dict[str, str] = {}
    if loaded.task.drivers:
        absent = compile_drivers(loaded.task.drivers, loaded.folder, product, sandbox, workdir / "drivers")
        shutil.rmtree(workdir / "drivers", ignore_errors=True)
    digest, place = store(product, cache)
    kept, lost = _bitcode(report.facts, places, workdir / "bitcode") if room.wraps_rustc else ("", ())
    return msgspec.structs.replace(
        report, artefact=digest, product=str(place), drivers_absent=absent, bitcode=kept, bitcode_lost=lost
    )


def _bitcode(facts: BuildFacts, places: Places, folder: Path) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Keep the bitcode that the compiler left; return (folder, what it wrote that is no longer there)."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lost = []
    for number, (line, path) in enumerate(facts.bitcode):
        host = places.host(path)
        if host is not None and regular(host):
            shutil.copyfile(host, folder / f"{number:05d}{BITCODE}")
        else:
            lost.append((line, path))
    return str(folder), tuple(lost)


def evidence_env(recipe: Recipe, toolchain: Toolchain) -> dict[str, str]:
    """The recipe's, and debug information stays in the product whatever the tree's profile says of splitting it."""
    env = dict(recipe.evidence_env)
    rustc = next((numbers(t.version) for t in toolchain.tools if t.name == "rustc"), ())
    if rooms.EVIDENCE_FLAGS in env and rustc >= SPLITS:
        env[rooms.EVIDENCE_FLAGS] += " -C split-debuginfo=off"
    return env


def _evidence(
    report: BuildReport, tree: Path, script: bytes, recipe: Recipe, room: Room, sandbox: Sandbox, cache: Path,
    workdir: Path,
) -> BuildReport:  # fmt: skip
    """Build the same sources again with the evidence environment; what fails here is no fault of the submission."""
    again = rooms.prepare(
        workdir / "room", tree, script, room.toolchain, cache, room.guarded, room.wraps_rustc
    )  # the same host path too: nothing of the build may differ but the environment
    env = evidence_env(recipe, room.toolchain)
    cause = rooms.cause(rooms.run(again, recipe, env, sandbox, traced=False), again.log)
    product = workdir / "evidence"
    shutil.rmtree(product, ignore_errors=True)
    product.mkdir()
    if not cause:
        try:
            collect(recipe.outputs, again.places(tree), product)
        except OutputMissing as e:
            cause = str(e)
    if cause:
        return msgspec.structs.replace(report, evidence_why=f"the evidence build failed: {cause}")
    why = same_product(Path(report.product), product)
    return msgspec.structs.replace(report, evidence_product=str(product), evidence_equal=not why, evidence_why=why)
