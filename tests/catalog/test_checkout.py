import shutil
import subprocess
from pathlib import Path

import pytest

from refactorbench.catalog.load import load_task
from refactorbench.catalog.sources import checkout
from refactorbench.errors import HarnessError, UsageError
from refactorbench.hashing import tree_digest

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def state_a(tmp_path: Path) -> Path:
    tree = tmp_path / "state-a"
    (tree / "src").mkdir(parents=True)
    (tree / "src" / "main.c").write_bytes(b"int main;\r\n")
    (tree / "configure").write_text("#!/bin/sh\n")
    (tree / "configure").chmod(0o755)
    (tree / ".gitignore").write_text("*.c\n")
    (tree / "link").symlink_to("src/main.c")
    return tree


def git(tree: Path, *args: str) -> str:
    return subprocess.run(["git", "-C", str(tree), *args], capture_output=True, text=True, check=True).stdout.strip()


@needs_git
def test_state_a_instruction_and_one_baseline_commit(root: Path, state_a: Path, tmp_path: Path) -> None:
    loaded = load_task(root, "toy-rust")
    out = checkout(loaded, state_a, tmp_path / "work" / "toy")
    assert (out.tree, out.instruction) == (tmp_path / "work/toy/tree", tmp_path / "work/toy/INSTRUCTION.md")
    assert out.instruction.read_text() == loaded.instruction
    assert git(out.tree, "rev-list", "--all") == out.commit
    assert git(out.tree, "status", "--porcelain", "--ignored") == ""
    # what the state's own ignore rules name is tracked too
    assert git(out.tree, "ls-files").split() == [".gitignore", "configure", "link", "src/main.c"]
    shutil.rmtree(out.tree / ".git")
    assert tree_digest(out.tree) == tree_digest(state_a)


@needs_git
def test_the_baseline_is_the_same_everywhere(
    root: Path, state_a: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_task(root, "toy-rust")
    first = checkout(loaded, state_a, tmp_path / "a").commit
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text(
        "[core]\nautocrlf = true\n[user]\nname = me\n[commit]\ngpgsign = true\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "somebody")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert checkout(loaded, state_a, tmp_path / "b").commit == first
    monkeypatch.delenv("GIT_DIR")
    (state_a / "configure").write_text("#!/bin/sh\ntrue\n")
    assert checkout(loaded, state_a, tmp_path / "c").commit != first


def test_without_git_it_is_said(root: Path, state_a: Path, tmp_path: Path, path_without: Path) -> None:
    out = checkout(load_task(root, "toy-rust"), state_a, tmp_path / "a")
    assert (out.commit, out.note) == ("", "git is not installed: no baseline commit was made")
    assert tree_digest(out.tree) == tree_digest(state_a)


def test_a_folder_with_something_in_it_is_left_alone(root: Path, state_a: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "mine").write_text("x")
    with pytest.raises(UsageError, match="is not empty: nothing was written"):
        checkout(load_task(root, "toy-rust"), state_a, tmp_path / "a")
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["mine"]
    (tmp_path / "empty").mkdir()
    assert checkout(load_task(root, "toy-rust"), state_a, tmp_path / "empty").tree.is_dir()


def test_a_failure_leaves_nothing(root: Path, state_a: Path, tmp_path: Path, path_without: Path) -> None:
    (path_without / "git").write_text("#!/bin/sh\necho broken git >&2\nexit 3\n")
    (path_without / "git").chmod(0o755)
    with pytest.raises(HarnessError, match=r"git init failed .*broken git"):
        checkout(load_task(root, "toy-rust"), state_a, tmp_path / "a")
    assert not (tmp_path / "a").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises((UsageError, HarnessError)):
        checkout(load_task(root, "toy-rust"), state_a, tmp_path / "file" / "below")
