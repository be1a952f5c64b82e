import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from refactorbench.hashing import sha256_file, tree_digest, walk


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    (top / "d" / "empty").mkdir(parents=True)
    (top / "d" / "f").write_bytes(b"content")
    (top / "g").write_bytes(b"")
    (top / "link").symlink_to("d/f")
    (top / os.fsdecode(b"not-utf8-\xff")).write_bytes(b"x")
    return top


def test_sha256_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    assert sha256_file(tmp_path / "f") == hashlib.sha256(b"abc").hexdigest()


def test_walk_is_sorted_and_does_not_follow_links(tree: Path) -> None:
    (tree / "outside").symlink_to("/")
    names = [rel for rel, _ in walk(tree)]
    assert names == [b"d", b"d/empty", b"d/f", b"g", b"link", b"not-utf8-\xff", b"outside"]


def test_location_times_and_group_bits_do_not_matter(tree: Path, tmp_path: Path) -> None:
    before = tree_digest(tree)
    copy = tmp_path / "elsewhere"
    shutil.copytree(tree, copy, symlinks=True)
    os.utime(copy / "g", (1, 1))
    (copy / "g").chmod(0o600)
    assert tree_digest(copy) == before


def _rewrite(t: Path) -> None:
    (t / "d" / "f").write_bytes(b"Content")


def _make_executable(t: Path) -> None:
    (t / "g").chmod(0o755)


def _rename(t: Path) -> None:
    (t / "g").rename(t / "h")


def _move(t: Path) -> None:
    (t / "d" / "f").rename(t / "f")


def _retarget(t: Path) -> None:
    (t / "link").unlink()
    (t / "link").symlink_to("g")


def _link_to_file(t: Path) -> None:
    (t / "link").unlink()
    (t / "link").write_bytes(b"d/f")


def _remove_empty(t: Path) -> None:
    (t / "d" / "empty").rmdir()


def _fifo(t: Path) -> None:
    (t / "g").unlink()
    os.mkfifo(t / "g")


def _swap(t: Path) -> None:
    (t / "g").write_bytes(b"content")
    (t / "d" / "f").write_bytes(b"")


CHANGES = (_rewrite, _make_executable, _rename, _move, _retarget, _link_to_file, _remove_empty, _fifo, _swap)


@pytest.mark.parametrize("change", CHANGES)
def test_every_other_change_matters(tree: Path, change: Callable[[Path], None]) -> None:
    before = tree_digest(tree)
    change(tree)
    assert tree_digest(tree) != before
