"""Preflight: turn options into everything a run needs, naming what is missing before anything is fetched or paid."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from refactorbench import __version__
from refactorbench.agents.baselines import agent_named
from refactorbench.agents.collect import excluded
from refactorbench.build.toolchain import Toolchain, find, required_packages
from refactorbench.catalog.load import chosen_panel, load_task, panel_fingerprint, panel_label
from refactorbench.catalog.models import LoadedTask, Panel
from refactorbench.catalog.panels import SEATS
from refactorbench.catalog.recordings import Recording, load_recording
from refactorbench.catalog.sources import fetch_state_a, tree_path
from refactorbench.errors import HarnessError, TaskError, ToolMissing, UsageError
from refactorbench.hashing import sha256_file, tree_digest, walk
from refactorbench.journal import read_json
from refactorbench.llm.models import check_credentials
from refactorbench.llm.prices import PriceTable
from refactorbench.observe.executor import EXECUTOR_VERSION
from refactorbench.observe.spec import find_library
from refactorbench.options import QUICK_ONE_IN, Lock, RunOptions
from refactorbench.paths import RunPaths
from refactorbench.sandbox.bubblewrap import BubblewrapSandbox
from refactorbench.sandbox.need import need
from refactorbench.sandbox.protocol import Sandbox

FREE_MB = 2048  # of disk that a run may take: State A, two builds, scratch
CHECK_MS, INPUT_MS = 12, 8  # of one core per replayed check and per input put to both sides, re-runs aside
SANDBOX_TOOLS = {"bwrap": "bubblewrap", "strace": "strace"}  # program -> Debian package


class Prepared(msgspec.Struct, frozen=True):
    """All that the stages share. `cache` holds State A, artefacts and programs by content."""

    loaded: LoadedTask
    panel: Panel
    fingerprint: str
    label: str  # the panel's name and fingerprint as shown beside every score
    sandbox: Sandbox
    reference_tools: Toolchain
    target_tools: Toolchain
    state_a: Path
    recording: Recording
    cache: Path


def source_digest() -> str:
    """sha256 over this program's own sources, so that a score says which evaluator gave it."""
    total = hashlib.sha256()
    package = Path(__file__).resolve().parent
    for path in sorted(p for p in package.rglob("*") if p.suffix in (".py", ".c", ".h", ".sh", ".toml")):
        total.update(str(path.relative_to(package)).encode() + bytes.fromhex(sha256_file(path)))
    return total.hexdigest()


def dirty(root: Path) -> bool | None:
    """True when the checkout has uncommitted changes, None when `root` is no git checkout."""
    try:
        out = subprocess.run(["git", "-C", root, "status", "--porcelain"], capture_output=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return bool(out.stdout.strip())


def tools(loaded: LoadedTask) -> tuple[Toolchain, Toolchain]:
    """Return (State A's, the target's). One ToolMissing names everything that the task lacks here, sandbox included,
    and ends with the one command that mends it."""
    missing: list[str] = []
    packages: list[str] = []
    for program, package in SANDBOX_TOOLS.items():
        try:
            need(program, package)
        except ToolMissing as e:
            missing.append(str(e))
            packages.append(package)
    for library in loaded.task.runtime.libraries:
        try:
            find_library(library)
        except ToolMissing as e:
            missing.append(str(e))
    if not missing:
        with contextlib.suppress(ToolMissing):
            return find(loaded.task.reference.toolchain), find(loaded.task.target.toolchain)
    needs = required_packages(msgspec.structs.replace(loaded.task, variants=()))  # variants are for recording only
    packages = sorted({*packages, *needs.packages})
    mend = f"\nall of it: apt-get install {' '.join(packages)}" if packages else ""
    lines = "".join(f"\n  {line}" for line in (*missing, *needs.missing))
    raise ToolMissing(f"{loaded.task.id} can't be graded here, nothing was fetched or started:{lines}{mend}")


def existing(place: Path) -> Path:
    """The nearest folder at or above `place` that is there already."""
    place = place.resolve()
    return next(p for p in (place, *place.parents) if p.is_dir())


def check_disk(cache: Path, out: Path) -> None:
    for place in (cache, out):
        free = shutil.disk_usage(existing(place)).free >> 20
        if free < FREE_MB:
            raise HarnessError(
                f"{place} has {free} MiB free and a run may take {FREE_MB} MiB: free some space, or point "
                "REFACTORBENCH_CACHE and --out elsewhere"
            )


def check_agent(loaded: LoadedTask, options: RunOptions, started: bool) -> None:
    """UsageError for an agent or a tree that isn't there: before anything is fetched."""
    if options.submission:
        if options.model or options.settings:
            what = f"--model {options.model}" if options.model else f"--set {next(iter(options.settings))}"
            raise UsageError(f"{what} is for an agent, and a tree handed in has none: leave it out")
        if not started and not Path(options.submission).is_dir():
            raise UsageError(f"--submission {options.submission} is not a folder: name the root of the migrated tree")
        return
    if not started:
        agent_named(options.agent, options.model, options.settings)
    if options.agent == "solution" and not (loaded.folder / "solution").is_dir():
        raise UsageError(f"task {loaded.task.id} ships no solution: use --agent noop or --submission DIR")


def check_judges(panel: Panel, options: RunOptions) -> None:
    """UsageError for a judge's model that is named wrongly or whose key is missing, or a price table that is wrong:
    before anything is fetched."""
    if options.prices:
        PriceTable(Path(options.prices))
    if "audit" in options.stages:
        for name in panel.judges.models:
            check_credentials(name)


def parent(rel: str) -> str:
    return rel.rpartition("/")[0]


def check_exclude(loaded: LoadedTask, state_a: Path) -> None:
    """TaskError when a pattern of `exclude` would drop files of State A from every submission that keeps them, or names
    a required output: what is excluded as a folder is made anew by the build, an output's own name may be theirs."""
    names = (os.fsdecode(rel) for rel, _ in walk(state_a))
    hit = [name for name in names if excluded(name, loaded.task.exclude)]
    if hit:
        raise TaskError(
            f"{loaded.folder / 'task.toml'}: exclude = {list(loaded.task.exclude)} matches {len(hit)} entries of State "
            f"A, the first is {hit[0]}: they would vanish from every submission; narrow the patterns"
        )
    outputs = {*loaded.task.reference.outputs.values(), *loaded.task.target.outputs.values()}
    named = sorted(
        o for o in outputs if excluded(o, loaded.task.exclude) and not excluded(parent(o), loaded.task.exclude)
    )
    if named:
        raise TaskError(
            f"{loaded.folder / 'task.toml'}: exclude = {list(loaded.task.exclude)} names {named[0]}, an output that "
            "submissions are judged by: what they bring under that name would vanish; exclude the build's folder"
        )


def cost(loaded: LoadedTask, panel: Panel, recording: Recording, options: RunOptions, cache: Path) -> str:
    """What the run will take, in a line; nothing has been fetched or built when it is said."""
    replayed = loaded.task.fresh_checks + recording.total // (QUICK_ONE_IN if options.quick else 1)
    inputs = sum(seat.budget for seat in panel.verifier) if "verification" in options.stages else 0
    work_s = (replayed * CHECK_MS + inputs * INPUT_MS) / 1000 / options.jobs
    asked = len(loaded.criteria.criterion) * SEATS if panel.judges.models and "audit" in options.stages else 0
    judged = f", {asked} questions to {', '.join(panel.judges.models)}" if asked else ""
    hunted = f" and {inputs} verifiers' inputs" if inputs else ""
    fetched = (
        "State A is in the cache"
        if tree_path(loaded.task.state_a, cache).is_dir()
        else (f"State A ({loaded.task.state_a.package} {loaded.task.state_a.version}) is fetched first")
    )
    return (
        f"two builds, {replayed} checks{hunted}{judged}: about {max(1, round(work_s / 60))} min with "
        f"--jobs {options.jobs} beside the builds, up to {FREE_MB} MiB of disk; {fetched}"
    )


def prepare(root: Path, options: RunOptions, cache: Path, out: Path, say: Callable[[str], None]) -> Prepared:
    """Load, find and fetch. UsageError for what the user named wrongly, ToolMissing for what this machine lacks."""
    loaded = load_task(root, options.task)
    panel = chosen_panel(root, options.panel, options.judges)
    check_judges(panel, options)
    check_agent(loaded, options, (out / "units" / "agent.json").is_file())
    reference_tools, target_tools = tools(loaded)
    sandbox = BubblewrapSandbox()
    sandbox.describe()
    check_disk(cache, out)
    recording = load_recording(loaded, EXECUTOR_VERSION)
    say(cost(loaded, panel, recording, options, cache))
    for warning in recording.warnings:
        say(f"recording of {options.task}: {warning}")
    state_a = fetch_state_a(loaded.task.state_a, cache, say)
    check_exclude(loaded, state_a)
    return Prepared(
        loaded,
        panel,
        panel_fingerprint(panel),
        panel_label(panel),
        sandbox,
        reference_tools,
        target_tools,
        state_a,
        recording,
        cache,
    )


def make_lock(p: Prepared, options: RunOptions) -> Lock:
    folder = p.loaded.folder
    task_files = [
        folder / "task.toml",
        folder / "instruction.md",
        p.loaded.root / "audit_criteria" / f"{options.task}.toml",
    ]
    verifiers = p.loaded.root / "verifiers"
    task_files += [verifiers / f"{options.task}.toml", verifiers / p.loaded.briefs.module]
    total = hashlib.sha256("".join(sha256_file(f) for f in task_files).encode())
    parts = [folder / part for part in ("build", "checks", "drivers") if (folder / part).is_dir()]
    total.update("".join(tree_digest(part) for part in parts).encode())
    return Lock(
        version=__version__,
        source_sha256=source_digest(),
        dirty=dirty(p.loaded.root),
        task_sha256=total.hexdigest(),
        task_status=p.loaded.task.status,
        recording_sha256=sha256_file(p.loaded.recording / "manifest.json"),
        state_a_tree=p.loaded.task.state_a.tree_sha256,
        panel_fingerprint=p.fingerprint,
        executor=EXECUTOR_VERSION,
        sandbox=p.sandbox.describe(),
        toolchain={**p.reference_tools.versions, **p.target_tools.versions},
        options=options,
    )


def refuse_other_version(paths: RunPaths) -> None:
    """UsageError for the lock of another version of this program, which may have other keys."""
    version = read_json(paths.lock, dict[str, Any]).get("version")
    if version != __version__:
        raise UsageError(
            f"{paths.root} was started by refactorbench {version}, this is {__version__}: its parts would not fit "
            "together; resume it with that version, or start a new run"
        )


def refuse_other_lock(stored: Lock, now: Lock, paths: RunPaths) -> None:
    """A run is resumed only under the versions it started with. The number of jobs may change, and whether the checkout
    has uncommitted changes: what counts of it has digests of its own."""
    one, two = flat(msgspec.to_builtins(stored)), flat(msgspec.to_builtins(now))
    changed = sorted(k for k in {*one, *two} - {"options.jobs", "dirty"} if one.get(k) != two.get(k))
    if changed:
        what = ", ".join(f"{k} ({str(one.get(k))[:60]} -> {str(two.get(k))[:60]})" for k in changed)
        raise UsageError(
            f"{paths.root} was started with another {what}: its parts would not fit together, start a new run"
        )


def flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, with dotted keys."""
    found: dict[str, Any] = {}
    for key, inner in value.items():
        found |= flat(inner, f"{prefix}{key}.") if isinstance(inner, dict) else {prefix + key: inner}
    return found
