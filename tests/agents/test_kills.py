"""kill -9 at random instants: what a scripted run leaves, and its transcript, are those of the run that wasn't killed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from e2e.toy import Toy

from agents.killing import bare_toy, finish, left, start, told, whole_and_killed
from refactorbench.agents.records import Answered, read_entries


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return bare_toy(tmp_path_factory.mktemp("bare"))


def test_a_killed_run_ends_as_the_one_that_was_not(bare: Toy, tmp_path: Path) -> None:
    whole, killed, kills = whole_and_killed(bare, tmp_path, turns=30, kills=5, seed=3)
    assert kills >= 2
    assert told(killed) == told(whole)
    assert left(killed) == left(whole)


def test_background_jobs_are_reported_as_lost_and_the_action_is_done_again_from_its_checkpoint(
    bare: Toy, tmp_path: Path
) -> None:
    lines = (
        '{"calls": [{"name": "bash", "input": {"command": "sleep 7777 & cd src || mkdir src; export A=1; echo x >> log"}}]}',
        '{"calls": [{"name": "bash", "input": {"command": "echo y >> log; touch started; sleep 600; echo $A; wc -l < log", "timeout_s": 900}}]}',
        '{"calls": [{"name": "submit"}]}',
    )
    (tmp_path / "script").write_text("\n".join(lines) + "\n")
    model, folder = f"scripted/{tmp_path / 'script'}", tmp_path / "run"
    folder.mkdir()
    process = start(bare.root, bare.state_a, folder, model)
    deadline = time.monotonic() + 60
    while not (folder / "work" / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.communicate()
    assert len((folder / "work" / "log").read_text().split()) == 2
    journal = folder / "agent" / "journal.jsonl"
    first = next(e for e in read_entries(journal) if isinstance(e, Answered))
    assert first.shell.background == ("sleep 7777",)
    journal.write_text(journal.read_text().replace("sleep 600; ", ""))  # the reply in hand: now it can end
    assert finish(bare, folder, model) == "done"
    second = [e for e in read_entries(journal) if isinstance(e, Answered)][1]
    assert "lost" in second.text and "  sleep 7777]" in second.text
    assert second.text.endswith("1\n2\n[exit status 0]") and second.shell.background == ()
