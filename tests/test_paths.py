from pathlib import Path

import pytest

from refactorbench import paths
from refactorbench.errors import UsageError
from refactorbench.paths import RunPaths, cache_dir, find_root


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REFACTORBENCH_ROOT", "REFACTORBENCH_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def data_root(folder: Path) -> Path:
    for name in ("tasks", "audit_criteria"):
        (folder / name).mkdir(parents=True)
    return folder


def test_order_explicit_then_environment_then_ancestor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = (data_root(tmp_path / n) for n in "abc")
    (c / "x" / "y").mkdir(parents=True)
    monkeypatch.chdir(c / "x" / "y")
    assert find_root() == c
    monkeypatch.setenv("REFACTORBENCH_ROOT", str(b))
    assert find_root() == b
    assert find_root(a) == a


@pytest.mark.parametrize("name", ["--root", "REFACTORBENCH_ROOT"])
def test_a_named_root_without_tasks_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(data_root(tmp_path / "good"))
    bad = tmp_path / "bad"
    if name != "--root":
        monkeypatch.setenv(name, str(bad))
    with pytest.raises(UsageError, match=f"{name} is {bad}, which has no tasks/"):
        find_root(bad if name == "--root" else None)


def test_a_folder_with_tasks_alone_is_somebody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = data_root(tmp_path) / "project"
    (inner / "tasks").mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert find_root() == tmp_path


def test_nothing_found_says_what_to_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "package" / "paths.py"))
    with pytest.raises(UsageError, match="--root DIR"):
        find_root()
    data_root(tmp_path / "package" / "data")  # the copy in the wheel
    assert find_root() == tmp_path / "package" / "data"


def test_cache_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_dir() == tmp_path / "home" / ".cache" / "refactorbench"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "refactorbench"
    monkeypatch.setenv("REFACTORBENCH_CACHE", str(tmp_path / "named"))
    assert cache_dir() == tmp_path / "named"
    assert (tmp_path / "named").is_dir()


def test_the_files_of_a_run_are_different_and_inside(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    names = [n for n in dir(RunPaths) if isinstance(getattr(RunPaths, n), property)]
    places = {getattr(run, n) for n in names}
    assert len(places) == len(names) >= 9
    assert all(p.parent == tmp_path for p in places)
