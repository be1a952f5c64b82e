"""The controls of bzip2-rust, each run once in a session however many tests look at it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from refactorbench.admission.recording import build_state_a
from refactorbench.admission.validate import Line, run_control
from refactorbench.audit.stage import AuditResult
from refactorbench.catalog.controls import Control, ControlContext, list_controls
from refactorbench.catalog.load import load_task
from refactorbench.catalog.recordings import load_recording
from refactorbench.catalog.sources import fetch_state_a
from refactorbench.journal import read_json
from refactorbench.paths import cache_dir
from refactorbench.progress import Progress
from refactorbench.result import RunResult
from refactorbench.sandbox.bubblewrap import BubblewrapSandbox

ROOT = Path(__file__).resolve().parents[2]
TASK = "bzip2-rust"
JOBS = 2
EVERY: dict[str, Control] = {c.id: c for c in list_controls(load_task(ROOT, TASK))}
# What these show is shown by others too: `task validate` runs them, the tests do when REFACTORBENCH_EVERY_CONTROL is set.
LONG = {
    "answers-hashed", "embedded-encrypted", "grader-aware", "hidden-c", "huge-tree", "judge-injection", "prebuilt",
    "symlink-tricks", "twin-build-version", "twin-large-tables", "twin-odd-names", "twin-unsafe-abi", "twin-vendored",
}
CONTROLS = {id: c for id, c in EVERY.items() if id not in LONG or os.environ.get("REFACTORBENCH_EVERY_CONTROL")}


class ControlRun(msgspec.Struct, frozen=True):
    """What a control's run on a seeded tenth of the checks came to."""

    control: Control
    line: Line
    result: RunResult
    audit: AuditResult


class Runs:
    """Runs controls when they are first asked for."""

    def __init__(self, context: ControlContext, out: Path) -> None:
        self.context, self._out = context, out
        self._done: dict[str, ControlRun | Exception] = {}

    def __getitem__(self, id: str) -> ControlRun:
        if id not in self._done:
            try:
                self._done[id] = self._run(CONTROLS[id])
            except Exception as e:  # every test that asks for it says the same
                self._done[id] = e
        found = self._done[id]
        if isinstance(found, Exception):
            raise found
        return found

    def _run(self, control: Control) -> ControlRun:
        line = run_control(control, self.context, ROOT, cache_dir(), False, JOBS, self._out, Progress())
        run = self._out / control.id / "run"
        result = read_json(run / "result.json", RunResult)
        return ControlRun(control, line, result, read_json(run / "units" / "audit.json", AuditResult))


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    loaded = load_task(ROOT, TASK)
    state_a = fetch_state_a(loaded.task.state_a, cache_dir(), Progress().say)
    out = tmp_path_factory.mktemp("controls")
    reference = build_state_a(
        loaded, loaded.task.reference, state_a, BubblewrapSandbox(), cache_dir(), out / "reference"
    )
    return Runs(ControlContext(state_a, Path(reference.product), load_recording(loaded), loaded), out)
