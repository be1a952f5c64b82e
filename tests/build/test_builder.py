"""The builder: one build per input, outcomes attributed to whoever owns them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from refactorbench.build.builder import build_tree
from refactorbench.build.model import BuildReport
from refactorbench.build.toolchain import find
from refactorbench.catalog.models import (
    Briefs,
    Criteria,
    Drivers,
    LoadedTask,
    OldStack,
    Recipe,
    Runtime,
    Scope,
    StateASource,
    Task,
)
from refactorbench.errors import TaskError
from refactorbench.hashing import tree_digest
from refactorbench.sandbox import BubblewrapSandbox, Command, Completed, Limits, Sandbox

SOURCE = {
    "lib.c": "int seven(void) { return 7; }\n",
    "seven.h": "int seven(void);\n",
    "main.c": '#include <stdio.h>\n#include "seven.h"\nint main(void) { return printf("%d\\n", seven()) < 0; }\n',
}
SCRIPT = "set -e\ngcc -shared -fPIC -Wl,-soname,libseven.so.1 lib.c -o libseven.so.1\ngcc main.c lib.c -o seven\n"
OUTPUTS = {"bin/seven": "seven", "lib/libseven.so.1": "libseven.so.1", "include/seven.h": "seven.h"}
DRIVERS = {
    "drivers/good.c": '#include "seven.h"\nint main(void) { return seven() - 7; }\n',
    "drivers/bad.c": '#include "seven.h"\nint main(void) { return eight(); }\n',
}


class Counting:
    """A sandbox that counts what it runs; with `answer` it runs nothing and answers that."""

    name = "counting"

    def __init__(self, answer: Completed | None = None) -> None:
        self.runs, self._answer, self._real = 0, answer, BubblewrapSandbox()

    def run(self, command: Command) -> Completed:
        self.runs += 1
        if self._answer is None:
            return self._real.run(command)
        command.log.write_text("the log says why\n")
        return self._answer

    def describe(self) -> dict[str, str]:
        return {}

    def open_worker(self, spec: object) -> object:
        raise NotImplementedError


class Yard:
    """A task, a tree and a cache in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files = {f"tree/{n}": t for n, t in SOURCE.items()} | {f"tasks/seven/{n}": t for n, t in DRIVERS.items()}
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def build(
        self, sandbox: object, script: str = SCRIPT, outputs: Mapping[str, str] = OUTPUTS, drivers: tuple[str, ...] = (),
        role: str = "reference",
    ) -> BuildReport:  # fmt: skip
        if script:
            (self.folder / "tasks/seven/build.sh").write_text(script)
        recipe = Recipe("build.sh", dict(outputs), ("gcc",), wall_s=60.0)
        source = StateASource("debian-source", "seven", "1", "stable", "s.tar.gz", "0" * 64, "0" * 64)
        task = Task(
            "refactorbench.task/1", "seven", "seven", "language", "C", "C", 1.0, "provisional", source, recipe, recipe,
            Runtime(()), Limits(), OldStack(("tcc",), (".c",)), "checks/generate.py",
            drivers=Drivers(drivers, "include/seven.h", "lib/libseven.so.1") if drivers else None,
        )  # fmt: skip
        briefs = Briefs("refactorbench.verifiers/1", "seven", "", Scope((), ()), ())
        loaded = LoadedTask(self.folder, task, Criteria("refactorbench.criteria/1", "seven", ()), briefs, "")
        real: Sandbox = sandbox  # type: ignore[assignment]
        return build_tree(
            self.folder / "tree", recipe, loaded=loaded, sandbox=real, toolchain=find(("gcc",)),
            cache=self.folder / "cache", workdir=self.folder / "work", role=role,  # type: ignore[arg-type]
        )  # fmt: skip


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def test_a_reference_build_is_made_once_and_kept_by_content(yard: Yard) -> None:
    sandbox = Counting()
    first = yard.build(sandbox)
    assert (first.status, first.cause) == ("built", "")
    product = Path(first.product)
    assert tree_digest(product) == first.artefact
    assert sorted(p.relative_to(product).as_posix() for p in product.rglob("*") if p.is_file()) == sorted(OUTPUTS)
    runs = sandbox.runs
    assert yard.build(sandbox) == first
    assert sandbox.runs == runs
    (yard.folder / "tree" / "lib.c").write_text("int seven(void) { return 8 - 1 + 0 * 2; }\nint more;\n")
    assert yard.build(sandbox).artefact != first.artefact
    assert sandbox.runs > runs


def test_a_kept_build_whose_product_was_damaged_is_made_anew(yard: Yard) -> None:
    sandbox = Counting()
    first = yard.build(sandbox)
    (Path(first.product) / "include" / "seven.h").write_text("damaged")
    again = yard.build(sandbox)
    assert again.artefact == first.artefact
    assert tree_digest(Path(again.product)) == first.artefact


def test_the_submission_itself_is_not_touched(yard: Yard) -> None:
    before = tree_digest(yard.folder / "tree")
    yard.build(Counting())
    assert tree_digest(yard.folder / "tree") == before


def test_what_a_build_leaves_behind_does_not_stop_the_next_one(yard: Yard) -> None:
    """Folders that nobody may enter, and a fifo in the tree, which copying would hang on."""
    os.mkfifo(yard.folder / "tree" / "pipe")
    report = yard.build(Counting(), script=SCRIPT + "mkdir -p shut/inner && chmod 0 shut/inner shut\n", role="target")
    assert report.status == "built"
    assert not (yard.folder / "work" / "room").exists()
    assert yard.build(Counting(), role="target").artefact == report.artefact


def test_facts_name_what_ran_and_what_was_taken_in(yard: Yard) -> None:
    facts = yard.build(Counting()).facts
    assert facts.complete
    assert facts.malformed == 0
    assert {"/build/tree/lib.c", "/build/tree/main.c", "/build/tree/seven.h"} <= set(facts.taken)
    assert any(e.path.endswith("/cc1") and e.ok and len(e.sha256) == 64 for e in facts.execs)


def test_drivers_are_compiled_against_the_product_and_absent_ones_are_named(yard: Yard) -> None:
    report = yard.build(Counting(), drivers=tuple(DRIVERS))
    assert (Path(report.product) / "drivers" / "good").stat().st_mode & 0o777 == 0o755
    assert not (Path(report.product) / "drivers" / "bad").exists()
    assert list(report.drivers_absent) == ["bad"]
    assert "eight" in report.drivers_absent["bad"]


def test_a_recipe_that_fails_where_the_canary_builds_is_the_submissions_failure(yard: Yard) -> None:
    report = yard.build(Counting(), script="echo it broke here >&2\nexit 3\n", role="target")
    assert report.status == "failed"
    assert "status 3" in report.cause
    assert "it broke here" in report.cause
    assert report.facts.complete


def test_a_recipe_that_fails_where_the_canary_fails_too_is_the_harnesss(yard: Yard) -> None:
    report = yard.build(Counting(Completed("exit", 1, "", 0.1)), role="target")
    assert report.status == "harness"
    assert "canary" in report.cause


def test_a_limit_is_named_as_the_cause(yard: Yard) -> None:
    class Limited(Counting):
        def run(self, command: Command) -> Completed:
            done = super().run(command)
            return Completed("limit", 0, "memory", 0.1) if command.trace else done

    report = yard.build(Limited(), role="target")
    assert (report.status, "limit of memory" in report.cause) == ("failed", True)


def test_a_missing_output_is_a_failed_build(yard: Yard) -> None:
    report = yard.build(Counting(), outputs={**OUTPUTS, "bin/other": "other"}, role="target")
    assert (report.status, report.cause) == ("failed", "output other is not there after the build")


def test_a_failed_build_is_not_kept(yard: Yard) -> None:
    sandbox = Counting()
    assert yard.build(sandbox, script="exit 1\n").status == "failed"
    runs = sandbox.runs
    assert yard.build(sandbox, script="exit 1\n").status == "failed"
    assert sandbox.runs > runs


def test_a_recipe_that_isnt_there_is_a_task_error(yard: Yard) -> None:
    with pytest.raises(TaskError, match=r"build\.sh is not in"):
        yard.build(Counting(), script="")
