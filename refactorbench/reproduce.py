"""Run one check or counterexample of a run again, live, on State A and on the submission."""

from __future__ import annotations

from pathlib import Path

import msgspec

from refactorbench.behaviour.fresh import FreshResult, draw_checks
from refactorbench.catalog.load import load_task
from refactorbench.catalog.python import generator
from refactorbench.errors import UsageError
from refactorbench.journal import read_json
from refactorbench.observe.compare import differences
from refactorbench.observe.executor import Executor
from refactorbench.observe.explain import explain_all
from refactorbench.observe.model import Check
from refactorbench.observe.spec import worker_spec
from refactorbench.options import RunOptions
from refactorbench.paths import RunPaths
from refactorbench.pipeline import Builds
from refactorbench.report.details import check_named, stored, verifier
from refactorbench.sandbox.bubblewrap import BubblewrapSandbox


class Reproduction(msgspec.Struct, frozen=True):
    id: str
    command: str
    differs: bool
    difference: str

    def text(self) -> str:
        head = f"{self.id}: {self.command}"
        return (
            f"{head}\n{self.difference}"
            if self.differs
            else f"{head}\nno difference between State A and the submission"
        )


def input_named(root: Path, paths: RunPaths, id: str) -> Check:
    """The input that `id` names: a counterexample, a recorded or a fresh check; UsageError when there is none."""
    found = verifier(paths, id)
    if found and found["verifier"].counterexample:
        return found["verifier"].counterexample.check
    fresh: FreshResult | None = stored(paths, "fresh", FreshResult)
    if id.startswith("fresh/") and fresh:
        loaded = load_task(root, read_json(paths.options, RunOptions).task)
        drawn = draw_checks(generator(loaded).draw, fresh.seed, fresh.drawn)
        check = next((c for c in drawn if c.id == id), None)
    else:
        check = check_named(root, paths, id)
    if check is None:
        raise UsageError(
            f"{paths.root} has no input named '{id}': name a check or a counterexample (`show` lists them)"
        )
    return check


def reproduce(root: Path, paths: RunPaths, id: str) -> Reproduction:
    """Observe the input on both products, in fresh sandboxes; UsageError when the run has no product to run."""
    check = input_named(root, paths, id)
    task = load_task(root, read_json(paths.options, RunOptions).task).task
    builds: Builds | None = stored(paths, "build", Builds)
    if builds is None or builds.replayed is None:
        raise UsageError(f"{paths.root} has no product that could be run: its build failed (see `show`)")
    products = [Path(builds.reference.product), Path(builds.replayed.product)]
    if not all(p.is_dir() for p in products):
        raise UsageError(f"the products of {paths.root} are no longer in the cache: grade the tree anew")
    sandbox = BubblewrapSandbox()
    seen = []
    for product in products:
        with Executor(sandbox, worker_spec(task, product)) as worker:
            seen.append(worker.observe(check))
    found = differences(seen[0], seen[1], check.rules)
    command = " ".join(a.decode(errors="backslashreplace") for a in check.argv)
    return Reproduction(id, command, bool(found), explain_all(found) if found else "")
