"""A small valid data root that tests break in one place at a time."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from refactorbench.audit.kinds import KINDS

TASK = """\
schema = "refactorbench.task/1"
id = "toy-rust"
title = "Toy"
debt = "language"
from_stack = "C"
to_stack = "Rust"
budget_hours = 1.5
status = "provisional"
generator = "checks/generate.py"

[state_a]
kind = "debian-source"
package = "toy"
version = "1.0-1"
suite = "bookworm"
archive = "toy_1.0.orig.tar.gz"
sha256 = "{zeros}"
tree_sha256 = "{zeros}"

[reference]
script = "build/state_a.sh"
toolchain = ["gcc", "make"]
outputs = {{ "bin/toy" = "toy" }}

[target]
script = "build/target.sh"
toolchain = ["rust"]
outputs = {{ "bin/toy" = "target/release/toy" }}

[[variants]]
id = "o0"
toolchain = ["clang"]
env = {{ CFLAGS = "-O0" }}

[runtime]
libraries = ["libc.so.6"]

[drivers]
sources = ["drivers/call.c"]
header = "include/toy.h"
library = "lib/libtoy.so"

[limits]
wall_s = 5.0

[old_stack]
compilers = ["cc1"]
source_suffixes = [".c"]
""".format(zeros="0" * 64)

CRITERIA = """\
schema = "refactorbench.criteria/1"
task = "toy-rust"

[[criterion]]
id = "builds"
title = "Builds"
question = "Does it build?"
eyes = ["build"]
kinds = []
special = "builds"

[[criterion]]
id = "rest"
title = "The rest"
question = "Is it migrated?"
eyes = ["source", "build", "runtime"]
kinds = [{kinds}]
""".format(kinds=", ".join(f'"{k}"' for k in KINDS))

BRIEFS = """\
schema = "refactorbench.verifiers/1"
task = "toy-rust"
module = "toy-rust.py"

[scope]
allow = ["everything"]
deny = ["the clock"]
deny_rules = ["clock"]
""" + "".join(
    f'\n[[direction]]\nid = "v{i}"\ntitle = "t"\nbrief = "b"\nstrategy = "{"" if i == 6 else "any"}"\n'
    for i in range(1, 7)
)

FILES = {
    "tasks/toy-rust/task.toml": TASK,
    "tasks/toy-rust/instruction.md": "Move it to Rust. You have 1.5 hours.\n",
    "tasks/toy-rust/build/state_a.sh": "make\n",
    "tasks/toy-rust/build/target.sh": "cargo build\n",
    "tasks/toy-rust/drivers/call.c": "int main(void) { return 0; }\n",
    "tasks/toy-rust/checks/generate.py": "def fixed(seed): return iter(())\ndef draw(rng, n): return iter(())\n",
    "audit_criteria/toy-rust.toml": CRITERIA,
    "verifiers/toy-rust.toml": BRIEFS,
    "verifiers/toy-rust.py": "STRATEGIES = {'any': None}\nDENY = {'clock': lambda check: False}\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "root"


@pytest.fixture
def path_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An otherwise empty folder as PATH's only entry, with the shell's basic tools in it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("sh", "cat", "cp", "grep", "sleep"):
        found = shutil.which(tool)
        assert found
        (folder / tool).symlink_to(found)
    monkeypatch.setenv("PATH", os.fspath(folder))
    return folder
