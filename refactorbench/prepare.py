"""Preflight: turn options into everything a run needs, naming what is missing before anything is fetched or paid."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec

from refactorbench import __version__
from refactorbench.build.toolchain import Toolchain, find
from refactorbench.catalog.load import load_panel, load_task, panel_fingerprint, panel_label
from refactorbench.catalog.models import LoadedTask, Panel
from refactorbench.catalog.recordings import Recording, load_recording
from refactorbench.catalog.sources import fetch_state_a
from refactorbench.errors import HarnessError, ToolMissing, UsageError
from refactorbench.hashing import sha256_file, tree_digest
from refactorbench.observe.executor import EXECUTOR_VERSION
from refactorbench.options import Lock, RunOptions
from refactorbench.sandbox.bubblewrap import BubblewrapSandbox
from refactorbench.sandbox.protocol import Sandbox

FREE_MB = 2048  # of disk that a run may take: State A, two builds, scratch


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
    for path in sorted(p for p in package.rglob("*") if p.suffix in (".py", ".c", ".h")):
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
    """Return (State A's, the target's); one ToolMissing names everything that is missing."""
    found: list[Toolchain] = []
    missing: list[str] = []
    for names in (loaded.task.reference.toolchain, loaded.task.target.toolchain):
        try:
            found.append(find(names))
        except ToolMissing as e:
            missing.append(str(e))
    if missing:
        raise ToolMissing("\n".join(dict.fromkeys(missing)))
    return found[0], found[1]


def check_disk(cache: Path, out: Path) -> None:
    for place in (cache, out):
        place.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(place).free >> 20
        if free < FREE_MB:
            raise HarnessError(
                f"{place} has {free} MiB free and a run may take {FREE_MB} MiB: free some space, or point "
                "REFACTORBENCH_CACHE and --out elsewhere"
            )


def prepare(root: Path, options: RunOptions, cache: Path, out: Path, say: Callable[[str], None]) -> Prepared:
    """Load, find and fetch. UsageError for what the user named wrongly, ToolMissing for what this machine lacks."""
    loaded = load_task(root, options.task)
    panel = load_panel(root, options.panel)
    if options.submission and not Path(options.submission).is_dir():
        raise UsageError(f"--submission {options.submission} is not a folder: name the root of the migrated tree")
    reference_tools, target_tools = tools(loaded)
    sandbox = BubblewrapSandbox()
    sandbox.describe()
    check_disk(cache, out)
    recording = load_recording(loaded)
    state_a = fetch_state_a(loaded.task.state_a, cache, say)
    return Prepared(
        loaded, panel, panel_fingerprint(panel), panel_label(panel), sandbox, reference_tools, target_tools, state_a, recording, cache
    )


def make_lock(p: Prepared, options: RunOptions) -> Lock:
    folder = p.loaded.folder
    task_files = [folder / "task.toml", folder / "instruction.md", p.loaded.root / "audit_criteria" / f"{options.task}.toml"]
    task_files += [p.loaded.root / "verifiers" / f"{options.task}.toml", p.loaded.root / "verifiers" / f"{options.task}.py"]
    total = hashlib.sha256("".join(sha256_file(f) for f in task_files).encode())
    total.update("".join(tree_digest(folder / part) for part in ("build", "checks") if (folder / part).is_dir()).encode())
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
