"""One command in a sandbox: how it ends, what it may use, and that nothing of it stays."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from refactorbench.errors import HarnessError, ToolMissing, UsageError
from refactorbench.observe.worker_build import static_program
from refactorbench.sandbox import BubblewrapSandbox, Command, Limits, Mount
from refactorbench.sandbox.need import need

from .programs import LIMITS, STAYS, left_behind, run_probe


def limits(**changes: float) -> Limits:
    return msgspec.structs.replace(LIMITS, **changes)


@pytest.mark.parametrize(
    ("words", "how"),
    [
        (("exit", "0"), ("exit", 0)),
        (("exit", "137"), ("exit", 137)),
        (("raise", "9"), ("signal", 9)),
        (("raise", "11"), ("signal", 11)),
        (("sigpipe",), ("signal", 13)),
    ],
)
def test_the_end_is_exact(
    sandbox: BubblewrapSandbox, product: Path, tmp_path: Path, words: tuple[str, ...], how: tuple[str, int]
) -> None:
    done, _ = run_probe(sandbox, product, tmp_path, *words)
    assert (done.ended, done.code, done.limit) == (*how, "")


def test_a_program_that_cannot_be_started_is_told_apart(
    sandbox: BubblewrapSandbox, product: Path, tmp_path: Path
) -> None:
    command = Command(("/product/none",), (Mount(product, "/product"),), "/tmp", {}, LIMITS, tmp_path / "log")
    done = sandbox.run(command)
    assert (done.ended, done.code, done.limit) == ("launch", 2, "No such file or directory")


def test_a_mount_that_does_not_exist_is_named(sandbox: BubblewrapSandbox, tmp_path: Path) -> None:
    command = Command(("/x",), (Mount(tmp_path / "gone", "/x"),), "/", {}, LIMITS, tmp_path / "log")
    with pytest.raises(UsageError, match="gone into the sandbox"):
        sandbox.run(command)


def test_a_directory_that_does_not_exist_inside_is_the_harness_s_error(
    sandbox: BubblewrapSandbox, product: Path, tmp_path: Path
) -> None:
    command = Command(("/product/bin/probe",), (Mount(product, "/product"),), "/none", {}, LIMITS, tmp_path / "log")
    with pytest.raises(HarnessError, match="/none"):
        sandbox.run(command)


def test_surroundings_are_exactly_what_was_asked_for(sandbox: BubblewrapSandbox, product: Path, tmp_path: Path) -> None:
    _, said = run_probe(sandbox, product, tmp_path, "about")
    # an ordinary user can't leave the groups that the sandbox was started with
    groups = 0 if os.geteuid() == 0 else len(os.getgroups())
    about = f"umask 022 uid 65534 gid 65534 groups {groups} signals 0 core 0 cwd /tmp"
    assert said.splitlines() == [about, "ONLY=this"]


def test_a_writable_mount_is_written_and_given_back(sandbox: BubblewrapSandbox, product: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "there").mkdir(parents=True)
    (tree / "changed").write_text("before")
    (tree / "removed").write_text("x")
    done, said = run_probe(sandbox, product, tmp_path, "files", writable=tree)
    assert (done.ended, done.code, said) == ("exit", 0, "")
    assert (tree / "changed").read_text() == "changed" and not (tree / "removed").exists()
    assert {p.lstat().st_uid for p in (tree, *tree.iterdir())} == {os.geteuid()}


def test_a_read_only_mount_is_not_written(sandbox: BubblewrapSandbox, product: Path, tmp_path: Path) -> None:
    _, said = run_probe(sandbox, product, tmp_path, "fill", "/product/bin/new", "65536")
    assert said == "EROFS\n" and not (product / "bin/new").exists()


@pytest.mark.parametrize("place", ["/new", "/dev/new", "/usr/new"])
def test_the_root_is_not_written(sandbox: BubblewrapSandbox, product: Path, tmp_path: Path, place: str) -> None:
    _, said = run_probe(sandbox, product, tmp_path, "fill", place, "65536")
    assert said in ("EROFS\n", "ENOENT\n")
    _, said = run_probe(sandbox, product, tmp_path, "fill", "/tmp/new", "65536")
    assert said == ""


def test_wall_limit_ends_a_tree_that_ignores_signals(sandbox: BubblewrapSandbox, product: Path, tmp_path: Path) -> None:
    start = time.monotonic()
    done, said = run_probe(sandbox, product, tmp_path, "stay", "60", STAYS, limits=limits(wall_s=0.5))
    assert (done.ended, done.limit) == ("limit", "wall")
    assert said == "left behind\n" and not left_behind()
    assert time.monotonic() - start < 8


def test_what_a_command_leaves_behind_ends_with_it(sandbox: BubblewrapSandbox, product: Path, tmp_path: Path) -> None:
    done, said = run_probe(sandbox, product, tmp_path, "stay", "", STAYS)
    assert (done.ended, done.code, said) == ("exit", 5, "left behind\n")
    assert not left_behind()


def test_cpu_limit(sandbox: BubblewrapSandbox, product: Path, tmp_path: Path) -> None:
    done, _ = run_probe(sandbox, product, tmp_path, "spin", limits=limits(cpu_s=1, wall_s=60))
    assert (done.ended, done.limit) == ("limit", "cpu")


def test_memory_limit(sandbox: BubblewrapSandbox, product: Path, tmp_path: Path) -> None:
    done, said = run_probe(sandbox, product, tmp_path, "hog", "300", "2")
    assert (done.ended, done.limit) == ("limit", "memory"), said
    done, said = run_probe(sandbox, product, tmp_path, "hog", "30", "0")
    assert said == "had it\n"


def test_process_limit(sandbox: BubblewrapSandbox, product: Path, tmp_path: Path) -> None:
    _, said = run_probe(sandbox, product, tmp_path, "bomb", "500")
    assert LIMITS.processes - 4 <= int(said) <= LIMITS.processes + 8
    _, said = run_probe(sandbox, product, tmp_path, "bomb", "5")
    assert said == "5\n"


def test_file_size_limit(sandbox: BubblewrapSandbox, product: Path, tmp_path: Path) -> None:
    done, _ = run_probe(sandbox, product, tmp_path, "fill", "/tmp/f", str(6 << 20))
    assert (done.ended, done.code) == ("signal", 25)


def test_disk_limit_of_a_writable_tree(sandbox: BubblewrapSandbox, product: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "there").write_bytes(bytes(6 << 20))  # what was there before doesn't count
    done, _ = run_probe(sandbox, product, tmp_path, "fill", "f", str(4 << 20), writable=tree)
    assert (done.ended, done.code) == ("exit", 0)
    wide = limits(file_mb=64, disk_mb=4, wall_s=8)
    done, _ = run_probe(sandbox, product, tmp_path, "fillwait", "g", str(20 << 20), writable=tree, limits=wide)
    assert (done.ended, done.limit) == ("limit", "disk")


def test_a_trace_holds_the_program_s_own_lines_only(sandbox: BubblewrapSandbox, product: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    run_probe(sandbox, product, tmp_path, "bomb", "2", trace=trace)
    text = trace.read_text()
    assert ' execve("/product/bin/probe", ["/product/bin/probe", "bomb", "2"]' in text.splitlines()[0]
    assert "bwrap" not in text and ".launch" not in text and "in strace's PID NS" in text


def test_describe_says_how_limits_are_kept(sandbox: BubblewrapSandbox) -> None:
    said = sandbox.describe()
    assert said["limits"] in ("cgroup v1", "cgroup v2", "rlimits")
    assert said["user"].startswith("ordinary user" if os.geteuid() else "root")


def test_a_missing_program_names_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="apt-get install bubblewrap"):
        need("bwrap", "bubblewrap")
    (tmp_path / "p.c").write_text("int main(void) { return 0; }")
    with pytest.raises(ToolMissing, match="apt-get install gcc libc6-dev"):
        static_program(tmp_path / "p.c", tmp_path)


def test_static_programs_are_built_once_per_content(tmp_path: Path) -> None:
    source, header = tmp_path / "p.c", tmp_path / "p_own.h"
    header.write_text("#define ANSWER 0\n")
    source.write_text('#include "p_own.h"\nint main(void) { return ANSWER; }\n')
    first = static_program(source, tmp_path)
    stamp = first.stat().st_mtime_ns
    assert static_program(source, tmp_path) == first and first.stat().st_mtime_ns == stamp
    header.write_text("#define ANSWER 1\n")
    assert static_program(source, tmp_path) != first
    source.write_text("no C\n")
    with pytest.raises(HarnessError, match=r"refused p\.c"):
        static_program(source, tmp_path)
    assert not list((tmp_path / "programs").glob(".*"))


def test_a_trace_that_grows_without_bound_ends_the_command(
    sandbox: BubblewrapSandbox, product: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = limits(file_mb=64, disk_mb=64, wall_s=4)
    tree = tmp_path / "tree"
    tree.mkdir()
    said = []
    for bound in (1 << 20, 1):
        monkeypatch.setattr("refactorbench.sandbox.bubblewrap.TRACE_BYTES", bound)
        trace = tmp_path / f"trace{bound}"
        args = ("fillwait", "g", "1")
        said.append(run_probe(sandbox, product, tmp_path, *args, writable=tree, limits=wide, trace=trace)[0].limit)
    assert said == ["wall", "trace"]


def test_folders_nested_beyond_any_recursion_limit_are_given_and_taken_back(
    sandbox: BubblewrapSandbox, product: Path, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    subprocess.run(["sh", "-c", 'i=0; while [ $i -lt 1500 ]; do mkdir d; cd d; i=$((i+1)); done'], cwd=tree, check=True)
    try:
        done, _ = run_probe(sandbox, product, tmp_path, "fill", "f", "1", writable=tree)
        assert (done.ended, done.code) == ("exit", 0)
    finally:
        subprocess.run(["rm", "-rf", str(tree)], check=True)
