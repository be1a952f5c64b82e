"""The controls of bzip2-rust, each run once in a session however many tests look at it, two side by side."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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
SIDE_BY_SIDE = 2
CONTROLS: dict[str, Control] = {c.id: c for c in list_controls(load_task(ROOT, TASK))}


class ControlRun(msgspec.Struct, frozen=True):
    """What a control's run on a seeded tenth of the checks came to."""

    control: Control
    line: Line
    result: RunResult
    audit: AuditResult


class Runs:
    """Runs the wanted controls ahead of who asks for them."""

    def __init__(self, context: ControlContext, out: Path, wanted: list[str]) -> None:
        self.context, self._out = context, out
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE)
        self._runs: dict[str, Future[ControlRun]] = {id: self._pool.submit(self._run, CONTROLS[id]) for id in wanted}

    def __getitem__(self, id: str) -> ControlRun:
        if id not in self._runs:
            self._runs[id] = self._pool.submit(self._run, CONTROLS[id])
        return self._runs[id].result()

    def _run(self, control: Control) -> ControlRun:
        line = run_control(control, self.context, ROOT, cache_dir(), False, 1, self._out, Progress())
        run = self._out / control.id / "run"
        result = read_json(run / "result.json", RunResult)
        return ControlRun(control, line, result, read_json(run / "units" / "audit.json", AuditResult))

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Runs]:
    loaded = load_task(ROOT, TASK)
    state_a = fetch_state_a(loaded.task.state_a, cache_dir(), Progress().say)
    out = tmp_path_factory.mktemp("controls")
    reference = build_state_a(
        loaded, loaded.task.reference, state_a, BubblewrapSandbox(), cache_dir(), out / "reference"
    )
    named = (item.callspec.params.get("id") for item in request.session.items if hasattr(item, "callspec"))
    wanted = list(dict.fromkeys(id for id in named if id in CONTROLS))
    context = ControlContext(state_a, Path(reference.product), load_recording(loaded), loaded)
    made = Runs(context, out, wanted)
    yield made
    made.close()
