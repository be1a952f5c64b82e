"""From a built tree to a product: modes, contents, and every way in which an output is not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from refactorbench.build.artefact import OutputMissing, collect, store
from refactorbench.build.places import TREE, Places
from refactorbench.errors import TaskError
from refactorbench.hashing import tree_digest
from refactorbench.sandbox.protocol import Mount


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "out").mkdir(parents=True)
    (tree / "out" / "tool").write_bytes(b"program")
    (tree / "tool.h").write_bytes(b"header")
    return tree


def places(tree: Path) -> Places:
    clean = tree.parent / "clean"
    clean.mkdir(exist_ok=True)
    return Places((Mount(tree, TREE, True),), (), clean)


def test_outputs_get_their_modes_by_folder(tree: Path, tmp_path: Path) -> None:
    os.umask(0o077)
    try:
        collect({"bin/tool": "out/tool", "include/tool.h": "tool.h"}, places(tree), tmp_path / "product")
    finally:
        os.umask(0o022)
    modes = {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "product").rglob("*")}
    assert modes == {"bin": 0o755, "tool": 0o755, "include": 0o755, "tool.h": 0o644}


def test_links_inside_the_tree_are_followed_as_the_build_saw_them(tree: Path, tmp_path: Path) -> None:
    (tree / "relative").symlink_to("out/tool")
    (tree / "absolute").symlink_to(f"{TREE}/out/tool")
    collect({"bin/a": "relative", "bin/b": "absolute"}, places(tree), tmp_path / "product")
    assert (tmp_path / "product" / "bin" / "a").read_bytes() == b"program"
    assert (tmp_path / "product" / "bin" / "b").read_bytes() == b"program"


@pytest.mark.parametrize("target", ["/etc/passwd", "../../etc/passwd", "loop", "nowhere", "out"])
def test_an_output_that_leads_elsewhere_is_missing(tree: Path, tmp_path: Path, target: str) -> None:
    (tree / "loop").symlink_to("loop")
    (tree / "bad").symlink_to(target)
    with pytest.raises(OutputMissing, match="output bad"):
        collect({"bin/tool": "bad"}, places(tree), tmp_path / "product")


def test_a_folder_link_out_of_the_tree_is_noticed(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "tool").write_bytes(b"host file")
    (tree / "target").symlink_to(tmp_path / "secret")
    with pytest.raises(OutputMissing, match="out of the tree"):
        collect({"bin/tool": "target/tool"}, places(tree), tmp_path / "product")


def test_a_fifo_is_no_output_and_doesnt_hang(tree: Path, tmp_path: Path) -> None:
    os.mkfifo(tree / "pipe")
    with pytest.raises(OutputMissing, match="regular file"):
        collect({"bin/tool": "pipe"}, places(tree), tmp_path / "product")


def test_product_paths_of_the_task_must_stay_inside(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"\.\./tool"):
        collect({"../tool": "out/tool"}, places(tree), tmp_path / "product")


def made(tmp_path: Path, name: str, content: bytes = b"x") -> Path:
    (tmp_path / name / "bin").mkdir(parents=True)
    (tmp_path / name / "bin" / "tool").write_bytes(content)
    return tmp_path / name


def test_storing_is_by_content_and_twice_is_once(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    digest, place = store(made(tmp_path, "one"), cache)
    assert tree_digest(place) == digest
    assert store(made(tmp_path, "two"), cache) == (digest, place)
    assert store(made(tmp_path, "three", b"y"), cache)[0] != digest
    assert not (tmp_path / "two").exists()


def test_a_damaged_artefact_is_replaced(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    digest, place = store(made(tmp_path, "one"), cache)
    (place / "bin" / "tool").write_bytes(b"damaged")
    assert store(made(tmp_path, "two"), cache) == (digest, place)
    assert (place / "bin" / "tool").read_bytes() == b"x"
