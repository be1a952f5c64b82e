import os
from pathlib import Path

import pytest

from refactorbench.agents import collect as room
from refactorbench.agents.collect import collect, excluded
from refactorbench.errors import HarnessError, UsageError
from refactorbench.hashing import tree_digest


def tree(folder: Path) -> Path:
    (folder / "src" / "target").mkdir(parents=True)
    (folder / "target" / "release").mkdir(parents=True)
    (folder / ".git").mkdir()
    for name in ("src/main.rs", "src/target/mod.rs", "target/release/x", ".git/HEAD", "run.sh"):
        (folder / name).write_text(name)
    (folder / "run.sh").chmod(0o750)
    (folder / "link").symlink_to("/etc/passwd")
    return folder


def test_a_plain_copy_with_links_and_modes_kept_and_what_was_left_out_named(tmp_path: Path) -> None:
    source, dest = tree(tmp_path / "a"), tmp_path / "b"
    os.mkfifo(source / "pipe")
    assert collect(source, dest, (".git", "target")) == (".git", "pipe", "target")
    assert (dest / "src" / "target" / "mod.rs").read_text() == "src/target/mod.rs"  # only the top's target is excluded
    assert (dest / "link").is_symlink() and (dest / "link").readlink() == Path("/etc/passwd")
    assert (dest / "run.sh").stat().st_mode & 0o777 == 0o755
    assert not (dest / "target").exists() and not (dest / "pipe").exists()


def test_without_patterns_nothing_is_left_out(tmp_path: Path) -> None:
    source = tree(tmp_path / "a")
    assert collect(source, tmp_path / "b", ()) == ()
    assert tree_digest(tmp_path / "b") == tree_digest(source)


def test_names_that_are_no_text_are_copied(tmp_path: Path) -> None:
    source = tree(tmp_path / "a")
    (source / os.fsdecode(b"\xff\xfe")).write_text("x")
    collect(source, tmp_path / "b", ())
    assert tree_digest(tmp_path / "b") == tree_digest(source)


@pytest.mark.parametrize(
    ("rel", "patterns", "hit"),
    [
        ("target", ("target",), True), ("target/a/b", ("target/",), True), ("src/target", ("target",), False),
        ("a/b.o", ("*.o",), True), ("a/b.c", ("*.o",), False), ("a/b/c", ("a/b",), True), ("x", (), False),
    ],
)  # fmt: skip
def test_patterns(rel: str, patterns: tuple[str, ...], hit: bool) -> None:
    assert excluded(rel, patterns) is hit


def test_nothing_to_grade_is_refused_unless_an_agent_left_it(tmp_path: Path) -> None:
    (tmp_path / "empty" / "target").mkdir(parents=True)
    (tmp_path / "empty" / "target" / "x").write_text("x")
    with pytest.raises(UsageError, match="holds no files"):
        collect(tmp_path / "empty", tmp_path / "b", ("target",))
    assert collect(tmp_path / "empty", tmp_path / "c", ("target",), may_be_empty=True) == ("target",)


@pytest.mark.parametrize("name", ["MOST_FILES", "LARGEST_TREE"])
def test_a_tree_beyond_the_bounds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    source = tree(tmp_path / "a")
    collect(source, tmp_path / "b", ())
    monkeypatch.setattr(room, name, 3)
    with pytest.raises(UsageError, match="remove build products"):
        collect(source, tmp_path / "c", ())


def test_a_destination_inside_the_source_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    source = tree(tmp_path / "a")
    before = tree_digest(source)
    with pytest.raises(UsageError, match="lies inside"):
        collect(source, source / "runs" / "x", ())
    assert tree_digest(source) == before


def test_what_cannot_be_copied_is_told_by_whose_fault_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tree(tmp_path / "a")

    def failing(error: OSError) -> None:
        def fail(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(room.shutil, "copyfile", fail)

    failing(PermissionError(13, "Permission denied", "src/main.rs"))
    with pytest.raises(UsageError, match=r"cannot copy src/main.rs \(Permission denied\)"):
        collect(source, tmp_path / "b", ())
    failing(OSError(28, "No space left on device"))
    with pytest.raises(HarnessError, match="No space left on device; free some space"):
        collect(source, tmp_path / "c", ())
