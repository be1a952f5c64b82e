"""State A's coverage under the recorded checks, lines and branches, by gcov: an instrumented build runs them all inside
a sandbox."""

from __future__ import annotations

import json
import shutil
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from refactorbench.admission import coverage_runner
from refactorbench.build import room as rooms
from refactorbench.build.artefact import OutputMissing, collect
from refactorbench.build.drivers import compile_drivers
from refactorbench.build.places import HARNESS, TREE
from refactorbench.build.room import Room
from refactorbench.build.toolchain import find
from refactorbench.catalog.models import Admission, LoadedTask, Manifest
from refactorbench.errors import HarnessError, TaskError, ToolMissing
from refactorbench.observe.model import Check
from refactorbench.observe.spec import base_env
from refactorbench.sandbox.protocol import Command, Limits, Mount, Sandbox

TOOLS = {Path("/usr/bin/python3"): "python3", Path(coverage_runner.GCOV[0]): "gcc"}  # -> the Debian package
PYTHON = next(iter(TOOLS))
PRODUCT, OUT = "/product", "/build/out"
LIMITS = Limits(wall_s=7200, cpu_s=7200, memory_mb=4096, processes=512, file_mb=1024, disk_mb=2048)


class Survey(msgspec.Struct, frozen=True):
    """What the checks hit. `files`: State A file -> (line, function, 1 if hit else 0) of every executable line; `ends`:
    check id -> exit status, minus a signal's number, or None for a check that was killed after its wall time;
    `branches`: file -> (line, function, branches, those of them that were taken at least once)."""

    files: dict[str, tuple[tuple[int, str, int], ...]]
    ends: dict[str, int | None]
    branches: dict[str, tuple[tuple[int, str, int, int], ...]] = {}

    def shares(self) -> dict[str, float]:
        """Share of executable lines hit, 0..1, per file and as "total" over all of them."""
        return _shares({n: (sum(h for _, _, h in lines), len(lines)) for n, lines in self.files.items()})

    def branch_shares(self) -> dict[str, float]:
        """Share of branches taken, 0..1, per file that has some and as "total"; {} where there are none."""
        counts = {
            name: (sum(taken for *_, taken in lines), sum(total for _, _, total, _ in lines))
            for name, lines in self.branches.items()
        }
        return _shares(counts) if counts else {}

    def holes(self) -> Iterator[str]:
        """Yield "file function: 3-7, 12" for every function with lines that no check reaches; a range spans lines that
        aren't executable."""
        for name, lines in self.files.items():
            found: dict[str, list[list[int]]] = {}
            before = None  # the function of the line just before, where that was missed
            for line, function, hit in lines:
                if hit:
                    before = None
                    continue
                ranges = found.setdefault(function, [])
                if before == function:
                    ranges[-1][1] = line
                else:
                    ranges.append([line, line])
                before = function
            for function, ranges in found.items():
                yield f"{name} {function}: " + ", ".join(f"{a}-{b}" if a < b else str(a) for a, b in ranges)

    def untaken(self) -> Iterator[str]:
        """Yield "file function: 3 of 12 branches never taken, in 5, 9" per function that misses some, most first."""
        found: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
        for name, lines in self.branches.items():
            for line, function, total, taken in lines:
                found.setdefault((name, function), []).append((line, total, taken))
        missed = {key: sum(total - taken for _, total, taken in lines) for key, lines in found.items()}
        for name, function in sorted(filter(missed.get, missed), key=lambda key: (-missed[key], key)):
            lines_of = found[name, function]
            where = ", ".join(str(line) for line, total, taken in lines_of if taken < total)
            of = sum(total for _, total, _ in lines_of)
            yield f"{name} {function}: {missed[name, function]} of {of} branches never taken, in {where}"


def _shares(counts: Mapping[str, tuple[int, int]]) -> dict[str, float]:
    """(of which, all) per file -> share per file, and as "total" over all."""
    shares = {name: round(some / total, 4) for name, (some, total) in counts.items()}
    some, total = (sum(column) for column in zip(*counts.values(), strict=True))
    return {**shares, "total": round(some / total, 4)}


def bar(wanted: Admission, manifest: Manifest) -> tuple[bool, str]:
    """Hold the recorded coverage of State A against the task's bars: (all are met, in words)."""
    said, ok = [], True
    for what, least, shares in (
        ("lines", wanted.coverage_lines, manifest.coverage),
        ("branches", wanted.coverage_branches, manifest.branches),
    ):
        share = shares.get("total")
        ok = ok and (share or 0.0) >= least
        asked = f" (at least {least:.0%} is asked for)" if least else ""
        said.append(f"{what} {'not measured' if share is None else format(share, '.1%')}{asked}")
    return ok, "; ".join(said) + ("" if ok else ": add checks, or measure by `record --coverage-only`")


class Instrumented(msgspec.Struct, frozen=True):
    """State A built with coverage_env: its product on the host, and the room whose tree its objects count into."""

    room: Room
    product: Path


def instrument(loaded: LoadedTask, state_a: Path, sandbox: Sandbox, cache: Path, work: Path) -> Instrumented:
    """Build State A below `work` by the reference recipe, with `coverage_env` laid over its environment.

    ToolMissing without python3 or gcov; HarnessError when it doesn't build; TaskError when nothing of the product is
    instrumented.
    """
    task = loaded.task
    recipe = task.reference
    for tool, package in TOOLS.items():
        if not tool.exists():
            raise ToolMissing(
                f"{tool} isn't there, so coverage can't be measured: install it with `apt-get install {package}`, or "
                "leave coverage_env out of task.toml"
            )
    script = (loaded.folder / recipe.script).read_bytes()
    room = rooms.prepare(work / "room", state_a, script, find(recipe.toolchain), cache, {}, False)
    done = rooms.run(room, recipe, {**recipe.env, **task.coverage_env}, sandbox, traced=False)
    cause = rooms.cause(done, room.log)
    product = work / "product"
    shutil.rmtree(product, ignore_errors=True)
    product.mkdir()
    try:
        if not cause:
            collect(recipe.outputs, room.places(state_a), product)
        if not cause and task.drivers:
            absent = compile_drivers(task.drivers, loaded.folder, product, sandbox, work / "drivers")
            cause = "; ".join(f"driver {name}: {said}" for name, said in absent.items())
    except OutputMissing as e:
        cause = str(e)
    if cause:
        raise HarnessError(f"State A doesn't build by {recipe.script} with coverage_env {task.coverage_env}: {cause}")
    if not coverage_runner.units(room.tree, product, TREE):
        raise TaskError(
            f"coverage_env {task.coverage_env}: no object in {', '.join(recipe.outputs)} was compiled with --coverage, "
            f"so nothing can be measured: let {recipe.script} hand it to the compiler, or leave coverage_env out"
        )
    for stale in room.tree.rglob("*.gcda"):  # of instrumented programs that the build itself ran
        stale.unlink()
    return Instrumented(room, product)


def line_of(check: Check, base: Mapping[bytes, bytes]) -> str:
    """One check as the runner reads it: JSON in a line, bytes in base64. Its environment is laid over `base`."""

    def text(data: bytes) -> str:
        return b64encode(data).decode()

    files = [
        {"path": text(f.path), "data": text(f.data), "target": text(f.target), "mode": f.mode, "kind": f.kind,
         "mtime": f.mtime}
        for f in check.files
    ]  # fmt: skip
    env = [(text(k), text(v)) for k, v in {**base, **dict(check.env)}.items()]
    plain = {
        "id": check.id, "program": check.program, "argv": [text(a) for a in check.argv], "stdin": text(check.stdin),
        "stdin_kind": check.stdin_kind, "stdout": check.stdout, "env": env, "files": files,
    }  # fmt: skip
    return json.dumps(plain) + "\n"


def survey(built: Instrumented, loaded: LoadedTask, sandbox: Sandbox, checks: Iterable[Check]) -> Survey:
    """Run every check that starts a program on the instrumented product and return what was hit.

    Counts add up in the room's tree: survey a build once. HarnessError when the runner fails or nothing was hit.
    """
    room = built.room
    given, out, log = room.folder / "given", room.folder / "out", room.folder / "coverage.log"
    for folder in (given, out):
        folder.mkdir()
        folder.chmod(0o755)
    base = dict(base_env(loaded.task.runtime))
    with (given / "checks").open("w") as f:
        f.writelines(line_of(c, base) for c in checks if c.observer == "process")
    shutil.copyfile(coverage_runner.__file__, given / "runner.py")
    for path in given.iterdir():
        path.chmod(0o644)
    command = Command(
        argv=(str(PYTHON), "-I", f"{HARNESS}/runner.py", f"{HARNESS}/checks", f"{OUT}/result", TREE, PRODUCT,
              str(loaded.task.limits.wall_s)),
        mounts=(*room.toolchain.mounts, Mount(given, HARNESS), Mount(room.tree, TREE, True),
                Mount(built.product, PRODUCT), Mount(out, OUT, True)),
        cwd="/", env={"LC_ALL": "C"}, limits=LIMITS, log=log,
        symlinks=(*room.toolchain.symlinks, (str(coverage_runner.SCRATCH), "/work")),
    )  # fmt: skip
    done = sandbox.run(command)
    if (done.ended, done.code) != ("exit", 0):
        raise HarnessError(f"measuring coverage ended by {done.ended} {done.limit or done.code}: {rooms.tail(log)}")
    found = msgspec.json.decode((out / "result").read_bytes(), type=Survey)
    if not any(hit for lines in found.files.values() for _, _, hit in lines):
        raise HarnessError(
            f"{len(found.ends)} checks ran on the instrumented State A and none left a count in {room.tree}: see {log}"
        )
    return found
