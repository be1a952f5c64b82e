"""Runs checks on an instrumented State A and asks gcov what they hit; stdlib only, executed inside a sandbox.

    coverage_runner.py CHECKS RESULT TREE PRODUCT WALL_S

CHECKS holds one check per line as `coverage.line_of` writes it. RESULT becomes one JSON object: `files`, path in the
tree -> [line, function, 1 if hit else 0] of every executable line; `branches`, path -> [line, function, branches, how
many were taken at least once] of every line that has some; `ends`, per check its exit status, minus the signal that
ended it, or null where it was killed after WALL_S seconds. libgcov itself adds each process's counts to the data
files beside the objects in TREE. A process that a signal ends adds none, so what is found is a lower bound.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from base64 import b64decode
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

TMP = Path("/tmp")
SCRATCH = TMP / "work"  # /work leads here
GCOV = ("/usr/bin/gcov", "--branch-probabilities", "--json-format", "--stdout")
UNITS_PER_CALL = 200
REFUSED = re.compile(rb"^(?:libgcov profiling error|profiling):.*", re.MULTILINE)  # libgcov can't add its counts


def lay_out(root: Path, files: list[dict[str, Any]]) -> None:
    """Write a check's inputs as the executor does: folders get mode and time last, for the rest goes into them."""
    folders = []
    for f in files:
        path, target = root / os.fsdecode(b64decode(f["path"])), os.fsdecode(b64decode(f["target"]))
        times = (f["mtime"] + 3600 * 10**9, f["mtime"])
        path.parent.mkdir(0o755, parents=True, exist_ok=True)  # a check needn't name the folders above its files
        if f["kind"] == "dir":
            path.mkdir(0o755)
            folders.append((path, f["mode"], times))
        elif f["kind"] == "link":
            path.symlink_to(target)
            os.utime(path, ns=times, follow_symlinks=False)
        elif f["kind"] == "fifo":
            os.mkfifo(path, 0o600)
            path.chmod(f["mode"])
            os.utime(path, ns=times)
        elif target:
            path.hardlink_to(root / target)
        else:
            path.write_bytes(b64decode(f["data"]))
            path.chmod(f["mode"])
            os.utime(path, ns=times)
    for path, mode, times in reversed(folders):
        os.utime(path, ns=times)
        path.chmod(mode)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it, whatever modes a check left there."""
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    path.chmod(0o755)
    for below in list(path.iterdir()):
        remove(below)
    path.rmdir()


def read_only(data: bytes) -> int:
    """A descriptor of a regular file without a name that holds `data`."""
    with tempfile.TemporaryFile(dir=TMP) as f:
        f.write(data)
        f.flush()
        return os.open(f"/proc/self/fd/{f.fileno()}", os.O_RDONLY | os.O_CLOEXEC)


def run(check: dict[str, Any], product: Path, wall_s: float) -> int | None:
    """Run one check to its end and return how it ended; its output is read and thrown away."""
    data = b64decode(check["stdin"])
    stdin = read_only(data) if check["stdin_kind"] == "file" else subprocess.PIPE
    stdout = os.open("/dev/full", os.O_WRONLY | os.O_CLOEXEC) if check["stdout"] == "full" else subprocess.PIPE
    closed = [fd for fd, key in ((0, "stdin_kind"), (1, "stdout")) if check[key] == "closed"]

    def close() -> None:
        for fd in closed:
            os.close(fd)

    process = subprocess.Popen(
        [b64decode(a) for a in check["argv"]], executable=product / check["program"], stdin=stdin, stdout=stdout,
        stderr=subprocess.PIPE, cwd=SCRATCH, env={b64decode(k): b64decode(v) for k, v in check["env"]},
        start_new_session=True, preexec_fn=close if closed else None,
    )  # fmt: skip
    for fd in (stdin, stdout):
        if fd != subprocess.PIPE:
            os.close(fd)
    try:
        _, said = process.communicate(data if check["stdin_kind"] == "pipe" else None, timeout=wall_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None
    if refused := REFUSED.search(said):
        sys.exit(f"check {check['id']}: {refused[0].decode(errors='replace')}")
    return process.returncode


def stamp(path: Path) -> bytes:
    """What ties a data file to its notes: both carry it behind magic and version. b"" where there is no file yet."""
    try:
        with path.open("rb") as f:
            return f.read(12)[8:]
    except FileNotFoundError:
        return b""


def run_all(checks: Path, product: Path, wall_s: float, notes: list[Path]) -> dict[str, int | None]:
    ends: dict[str, int | None] = {}
    stamps = {note.with_suffix(".gcda"): stamp(note) for note in notes}
    with checks.open() as lines:
        for line in lines:
            check = json.loads(line)
            SCRATCH.mkdir()
            lay_out(SCRATCH, check["files"])
            ends[check["id"]] = run(check, product, wall_s)
            for left in list(TMP.iterdir()):
                remove(left)
            for data, its in stamps.items():  # libgcov replaces another object's counts without a word
                if stamp(data) not in (b"", its):
                    sys.exit(f"check {check['id']}: two objects count into {data}: give each its own name (-dumpdir)")
    return ends


def units(tree: Path, product: Path, built_at: str) -> list[Path]:
    """Notes of the objects that are linked into a file of the product: each names its data file, below `built_at`.
    Objects of the build's own tools and of tests are instrumented too, and left out."""
    images = [p.read_bytes() for p in sorted(product.rglob("*")) if p.is_file()]
    found = []
    for note in sorted(tree.rglob("*.gcno")):
        name = os.fsencode(built_at / note.relative_to(tree).with_suffix(".gcda")) + b"\0"
        if any(name in image for image in images):
            found.append(note)
    return found


def documents(notes: list[Path]) -> Iterator[dict[str, Any]]:
    for start in range(0, len(notes), UNITS_PER_CALL):
        argv = [*GCOV, *map(str, notes[start : start + UNITS_PER_CALL])]
        done = subprocess.run(argv, stdout=subprocess.PIPE, cwd=TMP)
        if done.returncode:
            sys.exit(f"gcov ended with {done.returncode}")
        yield from map(json.loads, done.stdout.splitlines())


Lines = dict[str, dict[int, tuple[str, int, list[int]]]]  # path -> line -> function, hit, each branch taken


def merged(found: Iterable[dict[str, Any]], tree: str) -> Lines:
    """Lines per source file below `tree`, from gcov's documents. A line that is in several objects, or several times in
    one (inlined, a template), counts once, and as hit if any of them was; so do its branches, by their place."""
    seen: Lines = {}
    for document in found:
        for file in document["files"]:
            path = os.path.normpath(Path(document["current_working_directory"]) / file["file"])
            if not path.startswith(tree + "/"):
                continue
            of_file = seen.setdefault(os.path.relpath(path, tree), {})
            for line in file["lines"]:
                number = line["line_number"]
                function, hit, before = of_file.get(number, (line.get("function_name", ""), 0, []))
                taken = [int(b["count"] > 0) for b in line.get("branches", ())]
                both = [a or b for a, b in zip_longest(before, taken, fillvalue=0)]
                of_file[number] = (function, int(hit or line["count"] > 0), both)
    return {name: dict(sorted(lines.items())) for name, lines in sorted(seen.items()) if lines}


def lines_of(seen: Lines) -> dict[str, list[tuple[int, str, int]]]:
    return {name: [(n, function, hit) for n, (function, hit, _) in lines.items()] for name, lines in seen.items()}


def branches_of(seen: Lines) -> dict[str, list[tuple[int, str, int, int]]]:
    found = {
        name: [(n, function, len(taken), sum(taken)) for n, (function, _, taken) in lines.items() if taken]
        for name, lines in seen.items()
    }
    return {name: lines for name, lines in found.items() if lines}


def main(checks: str, result: str, tree: str, product: str, wall_s: str) -> None:
    os.umask(0o022)
    notes = units(Path(tree), Path(product), tree)
    ends = run_all(Path(checks), Path(product), float(wall_s), notes)
    seen = merged(documents(notes), tree)
    Path(result).write_text(json.dumps({"files": lines_of(seen), "branches": branches_of(seen), "ends": ends}))


if __name__ == "__main__":
    main(*sys.argv[1:])
