"""A whole toy task in a data root of its own: `tally`, 60 lines of C, with its port to Rust, recorded on the spot.

Nothing is fetched: State A's archive is packed here and laid into the cache under its digest.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from refactorbench.admission.recording import record_task
from refactorbench.audit.docket import Eye
from refactorbench.audit.kinds import KINDS
from refactorbench.cli.main import call
from refactorbench.hashing import sha256_file, tree_digest
from refactorbench.progress import Progress

HERE = Path(__file__).resolve().parent
TASK = "toy-rust"
ARCHIVE = "tally_1.0.orig.tar.gz"
BUDGET = 60  # inputs per verifier

STATE_A_RECIPE = '#!/bin/sh\nset -e\nmake CFLAGS="$CFLAGS"\n'
TARGET_RECIPE = "#!/bin/sh\nset -e\ncargo build --release --offline\n"


class Toy(msgspec.Struct, frozen=True):
    """`root` is the data root, `cache` holds State A, artefacts and programs, `state_a` is its tree."""

    root: Path
    cache: Path
    state_a: Path

    @property
    def solution(self) -> Path:
        return self.root / "tasks" / TASK / "solution"

    @property
    def recording(self) -> Path:
        return self.root / "recordings" / TASK

    def copy(self, where: Path) -> Toy:
        """Another data root with the same files, to be spoilt; the cache is shared."""
        shutil.copytree(self.root, where, symlinks=True)
        return Toy(where, self.cache, self.state_a)

    def port(self, where: Path, *changes: tuple[str, str]) -> Path:
        """The solution's tree at `where`, with each (old, new) text of main.rs replaced."""
        shutil.copytree(self.solution, where)
        main = where / "src" / "main.rs"
        text = main.read_text()
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        main.write_text(text)
        return where

    def env(self) -> dict[str, str]:
        return {**os.environ, "REFACTORBENCH_CACHE": str(self.cache), "REFACTORBENCH_ROOT": str(self.root)}

    def start(
        self, *args: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None, **more: Any
    ) -> subprocess.Popen[str]:
        """The real command line as a child that leads a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "refactorbench", *map(str, args)], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True, cwd=cwd or self.root,
            env={**self.env(), **(env or {})}, **more,
        )  # fmt: skip

    def here(self, *args: str | Path, env: dict[str, str] | None = None) -> Done:
        """Run the command line in this process: for what is quick and starts nothing."""
        out, err, before = io.StringIO(), io.StringIO(), dict(os.environ)
        os.environ.update({**self.env(), **(env or {})})
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = call([str(a) for a in args])
        finally:
            os.environ.clear()
            os.environ.update(before)
        return Done(status, out.getvalue(), err.getvalue())

    def call(self, *args: str | Path, timeout: float = 120, **more: Any) -> Done:
        """Run the command line to its end, as a process of its own."""
        process = self.start(*args, **more)
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()
            process.wait()
        return Done(process.returncode, out, err)


class Done(msgspec.Struct, frozen=True):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def last(self) -> str:
        return self.out.rstrip("\n").split("\n")[-1]


def pack(tree: Path, top: str) -> bytes:
    """A .tar.gz of `tree` below the folder `top`, the same bytes each time."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz", compresslevel=1) as tar:
        for path in sorted(tree.rglob("*")):
            info = tar.gettarinfo(str(path), f"{top}/{path.relative_to(tree)}")
            info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
            with path.open("rb") if path.is_file() else io.BytesIO() as f:
                tar.addfile(info, f if path.is_file() else None)
    return raw.getvalue()


def criteria(kinds: Iterable[str] = KINDS) -> str:
    """One criterion per eye with all its kinds, and the one about the build."""
    lines = ['schema = "refactorbench.criteria/1"', f'task = "{TASK}"']
    titles = {Eye.SOURCE: "The source was moved", Eye.BUILD: "Rust alone built it", Eye.RUNTIME: "It works by itself"}
    for eye, title in titles.items():
        of_eye = [k for k in kinds if KINDS[k].eye is eye]
        lines += ["[[criterion]]", f'id = "{eye.value}-clean"', f'title = "{title}"', f'question = "{title}?"']
        lines += [f'eyes = ["{eye.value}"]', f"kinds = {json.dumps(of_eye)}"]
    lines += ["[[criterion]]", 'id = "builds"', 'title = "Cargo builds it"', 'question = "Does it build?"']
    lines += ['eyes = ["build"]', "kinds = []", 'special = "builds"']
    return "\n".join(lines) + "\n"


def panel(name: str, budget: int) -> str:
    seats = "".join(f'[[verifier]]\nid = "v{n}"\nkind = "fuzz"\nbudget = {budget}\n' for n in range(1, 7))
    return f'schema = "refactorbench.panel/1"\nname = "{name}"\n[judges]\nkind = "none"\n{seats}'


def lay_out(root: Path, cache: Path) -> Toy:
    """Write the data root without a recording, and State A into the cache."""
    folder = root / "tasks" / TASK
    for place in (folder / "build", folder / "checks", root / "verifiers" / "panels", root / "audit_criteria"):
        place.mkdir(parents=True)
    archive = cache / "packing"
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(pack(HERE / "state_a", "tally-1.0"))
    digest = sha256_file(archive)
    (cache / "sources" / digest).mkdir(parents=True)
    archive.rename(cache / "sources" / digest / ARCHIVE)
    tree = tree_digest(HERE / "state_a")
    text = (HERE / "data" / "task.toml").read_text()
    (folder / "task.toml").write_text(text.replace("@SHA256@", digest).replace("@TREE@", tree))
    (folder / "build" / "state_a.sh").write_text(STATE_A_RECIPE)
    (folder / "build" / "target.sh").write_text(TARGET_RECIPE)
    shutil.copy(HERE / "data" / "instruction.md", folder)
    shutil.copy(HERE / "data" / "generate.py", folder / "checks")
    shutil.copytree(HERE / "solution", folder / "solution")
    (root / "audit_criteria" / f"{TASK}.toml").write_text(criteria())
    shutil.copy(HERE / "data" / "verifiers.toml", root / "verifiers" / f"{TASK}.toml")
    shutil.copy(HERE / "data" / "strategies.py", root / "verifiers" / f"{TASK}.py")
    for name, budget in (("offline", BUDGET), ("quick", 20)):
        (root / "verifiers" / "panels" / f"{name}.toml").write_text(panel(name, budget))
    return Toy(root, cache, cache / "trees" / tree)


def make_task(where: Path) -> Toy:
    """The whole task below `where`, recorded: some seconds."""
    toy = lay_out(where / "root", where / "cache")
    with (where / "recording.log").open("w") as log:
        record_task(toy.root, TASK, toy.cache, 1, 2, Progress(log))
    return toy


_made: dict[Path, Toy] = {}  # by the session's folder: a fixture that several modules import is made once


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    base = tmp_path_factory.getbasetemp()
    if base not in _made:
        _made[base] = make_task(base / "toy")
    return _made[base]
