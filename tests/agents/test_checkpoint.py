"""Files come back as they were: contents, links, modes, times; and what did not change costs nothing."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path

import pytest

from refactorbench.agents import checkpoint
from refactorbench.agents.checkpoint import MANY, Checkpoints
from refactorbench.errors import HarnessError
from refactorbench.hashing import tree_digest, walk


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "text").write_text("one")
    (top / "a" / "run").write_text("#!/bin/sh")
    (top / "a" / "run").chmod(0o750)
    (top / "link").symlink_to("/nowhere")
    os.link(top / "a" / "run", top / "again")
    os.mkfifo(top / "pipe")
    (top / os.fsdecode(b"\xff")).write_text("no text")
    (top / "closed").mkdir(mode=0o500)
    os.utime(top / "a" / "b", ns=(5, 1_000_000_007))
    os.utime(top / "a" / "b" / "text", ns=(5, 999_999_999))
    return top


def facts(top: Path) -> list[tuple[bytes, int, int, int]]:
    return [(rel, i.st_mode, i.st_mtime_ns, i.st_nlink) for rel, i in walk(top)]


def test_everything_comes_back(tree: Path, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "kept", {"tree": tree})
    before, digest = facts(tree), tree_digest(tree)
    taken = checkpoints.take()
    (tree / "a" / "b" / "text").write_text("two")
    (tree / "new" / "deep").mkdir(parents=True)
    (tree / "link").unlink()
    (tree / "a" / "run").chmod(0o000)
    checkpoints.restore(taken)
    assert facts(tree) == before and tree_digest(tree) == digest
    assert (tree / "again").samefile(tree / "a" / "run")
    assert checkpoints.take() == taken


def test_only_what_changed_is_read(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path / "kept", {"tree": tree})
    stored: list[bytes] = []
    real = Checkpoints._store
    monkeypatch.setattr(Checkpoints, "_store", lambda self, full: stored.append(full) or real(self, full))
    first = checkpoints.take()
    assert len(stored) == 3  # one of the two names of `run`
    stored.clear()
    assert checkpoints.take() == first and stored == []
    (tree / "a" / "b" / "text").write_text("six")  # as long as before, and its time is set back
    os.utime(tree / "a" / "b" / "text", ns=(5, 999_999_999))
    assert checkpoints.take() != first and [s.rpartition(b"/")[2] for s in stored] == [b"text"]


def test_the_last_two_are_kept_and_nothing_else(tree: Path, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "kept", {"tree": tree})
    taken = []
    for n in range(5):
        (tree / "count").write_text(f"{n}" * 100)
        taken.append(checkpoints.take())
        checkpoints.keep(taken[-1])
    assert {p.name for p in (tmp_path / "kept" / "manifests").iterdir()} == set(taken[-2:])
    assert len(list((tmp_path / "kept" / "contents").iterdir())) == 3 + 2
    (tmp_path / "kept" / "contents" / "part").write_text("cut off by a kill")
    again = Checkpoints(tmp_path / "kept", {"tree": tree})
    again.restore(taken[-2])
    assert (tree / "count").read_text() == "3" * 100
    assert len(list((tmp_path / "kept" / "contents").iterdir())) == 3 + 1
    with pytest.raises(HarnessError, match="damaged"):
        again.restore(taken[0])


def test_a_damaged_checkpoint_is_not_taken_for_a_whole_one(tree: Path, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "kept", {"tree": tree})
    taken = checkpoints.take()
    manifest = tmp_path / "kept" / "manifests" / taken
    manifest.write_bytes(manifest.read_bytes()[:-3])
    with pytest.raises(HarnessError, match="damaged"):
        checkpoints.restore(taken)


@pytest.mark.parametrize("size", [5, 3 << 20])
def test_a_content_that_rotted_on_the_disk_is_not_laid_out(tree: Path, tmp_path: Path, size: int) -> None:
    (tree / "data").write_bytes(b"x" * size)
    checkpoints = Checkpoints(tmp_path / "kept", {"tree": tree})
    taken = checkpoints.take()
    checkpoints.restore(taken)
    assert (tree / "data").read_bytes() == b"x" * size
    content = next(p for p in (tmp_path / "kept" / "contents").iterdir() if p.stat().st_size == size)
    with content.open("r+b") as f:
        f.seek(size - 1)
        f.write(b"y")
    with pytest.raises(HarnessError, match=r"content .* is damaged"):
        checkpoints.restore(taken)
    content.unlink()
    with pytest.raises(HarnessError, match=r"content .* is missing"):
        checkpoints.restore(taken)


@pytest.mark.parametrize("new", [3, MANY + 1])
def test_a_checkpoint_has_a_name_only_once_all_of_it_is_on_the_disk(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: int
) -> None:
    done: list[str] = []
    real = checkpoint.sync
    monkeypatch.setattr(checkpoint, "sync", lambda p: done.append(p.name) or real(p))
    monkeypatch.setattr(checkpoint.subprocess, "run", lambda argv, **_: done.append(" ".join(argv[:2])))
    checkpoints = Checkpoints(tmp_path / "kept", {"tree": tree})
    checkpoints.take()
    done.clear()
    for n in range(new):
        (tree / f"n{n}").write_text(f"new {n}")
    checkpoints.take()
    contents = {hashlib.sha256(f"new {n}".encode()).hexdigest() for n in range(new)}
    assert done[-2:] == ["part", "manifests"]
    if new > MANY:
        assert done[:-2] == ["sync -f"]
    else:
        assert set(done[:-3]) == contents and done[-3] == "contents"
    done.clear()
    checkpoints.take()
    assert done == []  # nothing new, nothing to wait for


def test_several_places_and_random_changes(tmp_path: Path) -> None:
    rng = random.Random(7)
    places = {name: tmp_path / name for name in ("one", "two")}
    for place in places.values():
        place.mkdir()
    checkpoints = Checkpoints(tmp_path / "kept", places)
    for _ in range(30):
        seen = {n: tree_digest(p) for n, p in places.items()}
        taken = checkpoints.take()
        checkpoints.keep(taken)
        for _ in range(rng.randrange(5)):
            place = rng.choice(list(places.values()))
            folder = place / f"d{rng.randrange(3)}"
            folder.mkdir(exist_ok=True)
            (folder / f"f{rng.randrange(3)}").write_bytes(rng.randbytes(rng.randrange(50)))
        if rng.random() < 0.5:
            checkpoints.restore(taken)
            assert {n: tree_digest(p) for n, p in places.items()} == seen


@pytest.mark.parametrize("swapped", [False, True])
def test_a_folder_that_becomes_a_link_while_it_is_looked_at_leads_nowhere(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swapped: bool
) -> None:
    (tmp_path / "outside" / "b").mkdir(parents=True)
    (tmp_path / "outside" / "b" / "text").write_text("not the agent's")

    def walked(top: Path, moving: bool, too_deep: list[bytes]) -> list[tuple[bytes, os.stat_result]]:
        found = list(walk(top, moving, too_deep))
        if swapped:
            (tree / "a").rename(tree / "was")
            (tree / "a").symlink_to(tmp_path / "outside")
        return found

    monkeypatch.setattr("refactorbench.agents.checkpoint.walk", walked)
    checkpoints = Checkpoints(tmp_path / "kept", {"tree": tree})
    digest = checkpoints.take()
    contents = [p.read_text() for p in (tmp_path / "kept" / "contents").iterdir()]
    assert "not the agent's" not in contents and ("one" in contents) is not swapped
    checkpoints.restore(digest)
    assert (tree / "a" / "b" / "text").exists() is not swapped
