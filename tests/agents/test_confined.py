"""What an agent puts into its box never leads a tool of the host out of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from refactorbench.agents.confined import Box, Place, Refused


@pytest.fixture
def box(tmp_path: Path) -> Box:
    for name in ("tree", "other", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "tree" / "a").write_text("in the tree")
    (tmp_path / "outside" / "secret").write_text("outside")
    (tmp_path / "other" / "b").write_text("in the other")
    return Box((Place("/build/tree", tmp_path / "tree", True), Place("/build/other", tmp_path / "other", False)))


def test_files_are_read_and_written(box: Box, tmp_path: Path) -> None:
    assert box.read("/build/tree/a") == b"in the tree" and box.read("/build/other/b") == b"in the other"
    (tmp_path / "tree" / "a").chmod(0o755)
    box.write("/build/tree/a", b"new")
    box.write("/build/tree/x/y/z", b"deep", folders=True)
    assert (tmp_path / "tree" / "a").read_text() == "new" and (tmp_path / "tree" / "a").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "tree" / "x" / "y" / "z").read_text() == "deep"
    assert sorted(p.name for p in (tmp_path / "tree").iterdir()) == ["a", "x"]  # no temporary file stays


@pytest.mark.parametrize(
    "path", ["a", "./a", "/etc/passwd", "/build/tree/../../etc/passwd", "/build/treelike/a", "/build", "/build/tree/\0"]
)
def test_paths_outside_or_relative_are_refused(box: Box, path: str) -> None:
    with pytest.raises(Refused):
        box.read(path)
    with pytest.raises(Refused):
        box.write(path, b"x")


@pytest.mark.parametrize("target", ["{outside}/secret", "../outside/secret", "/build/tree/../../etc/passwd"])
def test_links_out_of_the_box_are_refused(box: Box, tmp_path: Path, target: str) -> None:
    (tmp_path / "tree" / "link").symlink_to(target.format(outside=tmp_path / "outside"))
    (tmp_path / "tree" / "folder").symlink_to(tmp_path / "outside")
    for path in ("/build/tree/link", "/build/tree/folder/secret"):
        with pytest.raises(Refused):
            box.read(path)
        with pytest.raises(Refused):
            box.write(path, b"x", folders=True)
        with pytest.raises(Refused):
            box.remove("/build/tree/folder/secret")
    assert (tmp_path / "outside" / "secret").read_text() == "outside"


def test_links_within_the_box_are_followed_as_the_sandbox_would(box: Box, tmp_path: Path) -> None:
    (tmp_path / "tree" / "near").symlink_to("a")
    (tmp_path / "tree" / "far").symlink_to("/build/other")
    assert box.read("/build/tree/near") == b"in the tree" and box.read("/build/tree/far/b") == b"in the other"
    box.write("/build/tree/near", b"through the link")
    assert (tmp_path / "tree" / "a").read_text() == "through the link" and (tmp_path / "tree" / "near").is_symlink()
    with pytest.raises(Refused, match="read-only"):
        box.write("/build/tree/far/b", b"x")


def test_a_circle_of_links_a_pipe_and_a_folder_are_refused(box: Box, tmp_path: Path) -> None:
    (tmp_path / "tree" / "one").symlink_to("two")
    (tmp_path / "tree" / "two").symlink_to("one")
    os.mkfifo(tmp_path / "tree" / "pipe")
    for path, why in (("one", "links"), ("pipe", "neither a file nor a folder"), ("", "is a folder")):
        with pytest.raises(Refused, match=why):
            box.read(f"/build/tree/{path}")


def test_a_missing_file_names_what_comes_near(box: Box, tmp_path: Path) -> None:
    (tmp_path / "tree" / "main.rs").write_text("")
    with pytest.raises(Refused, match=r"does not exist. There is main.rs"):
        box.read("/build/tree/main.rc")
    with pytest.raises(Refused, match="/build/tree/no does not exist"):
        box.read("/build/tree/no/x")
