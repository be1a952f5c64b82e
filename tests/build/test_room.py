from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from refactorbench.build.room import remove
from refactorbench.errors import HarnessError


def test_what_a_build_left_is_removed_however_deep_and_closed_it_is(tmp_path: Path) -> None:
    room, kept = tmp_path / "room", tmp_path / "kept"
    kept.mkdir()
    (room / "closed").mkdir(parents=True)
    (room / "out").symlink_to(kept)
    nest = "i=0; while [ $i -lt 1200 ]; do mkdir dddddddd; cd dddddddd; i=$((i+1)); done"
    subprocess.run(["sh", "-c", nest], cwd=room, check=True)
    (room / "closed").chmod(0)
    remove(room)
    assert not room.exists() and kept.is_dir()
    remove(room)  # nothing there is no fault


def test_what_cannot_be_removed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "room").mkdir()
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: None)
    with pytest.raises(HarnessError, match="no clean build can start"):
        remove(tmp_path / "room")
