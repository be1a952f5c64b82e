"""The parts that need no sandbox: traces, cgroup files, ELF headers, the scripted sandbox."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest

from refactorbench.errors import HarnessError
from refactorbench.observe.model import Observation
from refactorbench.sandbox import Command, Completed, Limits, ScriptedSandbox, WorkerSpec
from refactorbench.sandbox import limits as bounds
from refactorbench.sandbox.limits import MIB, CgroupScope, WatchedScope, pid_namespace, sweep, tree
from refactorbench.sandbox.ownership import disk_used
from refactorbench.sandbox.trace import strip_command, strip_worker
from refactorbench.sandbox.worker import executable_memory

from .programs import check, compile_c

LINES_OF_A_WORKER = """\
1 execve("/usr/bin/bwrap", ["bwrap"], 0x1 /* 1 var */) = 0
2 execve("/worker", ["/worker"], 0x1 /* 1 var */) = 0
2 chdir("/.check/m/a") = -1 ENOENT (No such file or directory)
2 clone(child_stack=NULL, flags=CLONE_NEWNS) = 7
7 mount("proc", "/r/proc", "proc", 0, NULL) = 0
7 clone(child_stack=NULL, flags=SIGCHLD) = 2 /* 8 in strace's PID NS */
8 execve("/product/bin/p", ["p"], 0x1 /* 1 var */) = 0
8 chdir("/.check/forged") = -1 ENOENT (No such file or directory)
8 clone(child_stack=NULL, flags=SIGCHLD) = 3 /* 9 in strace's PID NS */
9 openat(AT_FDCWD</work>, "x", O_RDONLY) = 3</work/x>
7 chdir("late") = 0
2 chdir("/.check/m/b") = -1 ENOENT (No such file or directory)
9 mount("proc", "/r/proc", "proc", 0, NULL) = 0
10 execve("/product/none", ["n"], 0x1 /* 1 var */) = -1 ENOENT (No such file or directory)
"""


def test_a_worker_s_trace_keeps_marks_and_programs(tmp_path: Path) -> None:
    trace = tmp_path / "t"
    trace.write_text(LINES_OF_A_WORKER)
    strip_worker(trace)
    all_lines = LINES_OF_A_WORKER.splitlines()
    # pid 9 was the program's in the first check and, used again, ours in the second
    assert trace.read_text().splitlines() == [all_lines[n] for n in (2, 6, 7, 8, 9, 11, 13)]
    assert list(tmp_path.iterdir()) == [trace]


def test_a_command_s_trace_begins_with_its_program(tmp_path: Path) -> None:
    trace = tmp_path / "t"
    lines = [
        '1 execve("/usr/bin/bwrap", ["bwrap", "/.launch"], 0x1) = 0',
        "1 clone(flags=CLONE_NEWNS) = 2",
        '2 execve("/.launch", ["/.launch", "run"], 0x1) = 0',
        "2 clone(flags=SIGCHLD) = 2 /* 3 in strace's PID NS */",
        '3 execve("/bin/sh", ["sh"], 0x1) = 0',
        "2 clone(flags=SIGCHLD) = 9",
    ]
    trace.write_text("\n".join(lines) + "\n")
    strip_command(trace, "/.launch")
    assert trace.read_text().splitlines() == [lines[4]]


def fake_v2(home: Path) -> Path:
    """cgroup v2 makes a new folder's files itself; here they are made by whoever makes the folder."""
    home.mkdir()
    (home / "cgroup.subtree_control").write_text("memory pids\n")
    return home


def test_version_2_bounds_memory_without_swap_and_reads_kills(tmp_path: Path) -> None:
    home = fake_v2(tmp_path / "slice")
    scope = CgroupScope(2, {"memory": home, "pids": home}, 64 * MIB, 9)
    (leaf,) = (p for p in home.iterdir() if p.is_dir())
    assert (leaf / "memory.max").read_text() == str(64 * MIB)
    assert (leaf / "pids.max").read_text() == "9"
    assert scope.joins == (leaf / "cgroup.procs",)
    (leaf / "memory.current").write_text("77\n")
    (leaf / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    (leaf / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    assert scope.usage(0) == bounds.Usage(77, 1.5, 2)
    for file in leaf.iterdir():
        file.unlink()
    scope.close()
    assert not leaf.exists()


def test_version_1_has_a_folder_for_each_controller(tmp_path: Path) -> None:
    homes = {name: tmp_path / name for name in ("memory", "pids", "cpuacct")}
    for home in homes.values():
        home.mkdir()
    scope = CgroupScope(1, homes, 5, 6)
    assert len(scope.joins) == 3 and len(set(scope.joins)) == 3
    assert [next(h.iterdir()).joinpath(f).read_text() for h, f in
            ((homes["memory"], "memory.limit_in_bytes"), (homes["pids"], "pids.max"))] == ["5", "6"]  # fmt: skip


def test_without_a_usable_cgroup_a_watcher_sums_the_tree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bounds, "_homes", lambda: iter([(2, {"memory": tmp_path / "no", "pids": tmp_path / "no"})]))
    assert isinstance(bounds.open_scope(Limits()), WatchedScope)
    home = fake_v2(tmp_path / "yes")
    monkeypatch.setattr(bounds, "_homes", lambda: iter([(2, {"memory": home, "pids": home})]))
    assert bounds.open_scope(Limits()).name == "cgroup v2"


def test_the_watcher_sees_a_process_and_its_children() -> None:
    child = subprocess.Popen(["sleep", "30"])
    try:
        assert {os.getpid(), child.pid} <= {pid for pid, _ in tree(os.getpid())}
        assert child.pid not in {pid for pid, _ in tree(1 << 22)}
        used = WatchedScope().usage(os.getpid())
        assert used.memory > 10 * MIB and used.cpu_s > 0
    finally:
        child.kill()
        child.wait()


def test_cgroups_of_dead_harnesses_are_swept_and_those_of_the_living_kept(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    space = pid_namespace()
    for owner in (gone.pid, os.getpid()):
        (tmp_path / f"refactorbench-{space}-{owner}-0").mkdir()
    # the same process id in another pid namespace may well be alive there
    foreign = tmp_path / f"refactorbench-{space + 1}-{gone.pid}-0"
    forgotten = tmp_path / f"refactorbench-{space + 1}-{gone.pid}-1"
    foreign.mkdir()
    forgotten.mkdir()
    os.utime(forgotten, (0, 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", lambda self: "")
        sweep({"memory": tmp_path})
    assert {p.name for p in tmp_path.iterdir()} == {f"refactorbench-{space}-{os.getpid()}-0", foreign.name}


def test_disk_used_counts_allocated_blocks(tmp_path: Path) -> None:
    before = disk_used([tmp_path])
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_bytes(b"x" * (1 << 20))
    with (tmp_path / "sparse").open("wb") as f:
        f.truncate(1 << 30)
    assert 1 << 20 <= disk_used([tmp_path]) - before < 2 << 20


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ((), False),
        (("-Wl,-z,execstack",), True),
        (("-Wl,-N", "-Wl,-emain", "-static", "-nostdlib"), True),
        (("-static",), False),
    ],
)
def test_elf_files_that_get_writable_code_are_found(tmp_path: Path, flags: tuple[str, ...], found: bool) -> None:
    source = tmp_path / "p.c"
    source.write_text("int x = 1; int main(void) { return x; }")
    assert executable_memory(compile_c(source, tmp_path / "p", *flags)) is found


def test_files_that_are_no_elf_or_cut_short_get_nothing(tmp_path: Path) -> None:
    for content in (b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\2" + bytes(70)):
        (tmp_path / "f").write_bytes(content)
        assert not executable_memory(tmp_path / "f")
    (tmp_path / "f").write_bytes(b"\x7fELF\1" + bytes(70))  # 32 bits: its calls would mean other things
    assert executable_memory(tmp_path / "f")
    header = bytearray(b"\x7fELF\2" + bytes(59))
    struct.pack_into("<Q", header, 32, 64)
    struct.pack_into("<HH", header, 54, 56, 1)
    (tmp_path / "f").write_bytes(bytes(header) + struct.pack("<II", 1, 7))
    assert executable_memory(tmp_path / "f")


def test_the_scripted_sandbox_answers_from_its_functions(tmp_path: Path) -> None:
    seen = Observation("exit", 0, b"", b"", ())
    box = ScriptedSandbox(run=lambda c: Completed("exit", len(c.argv), "", 0.0), observe=lambda s, c: seen)
    command = Command(("a", "b"), (), "/", {}, Limits(), tmp_path / "log")
    assert box.run(command).code == 2 and box.commands == [command]
    with box.open_worker(WorkerSpec(tmp_path, (), Limits())) as worker:
        assert worker.observe(check("x")) is seen
    assert box.workers[0].closed and [c.id for c in box.checks] == ["test/x"]
    with pytest.raises(HarnessError, match="closed"):
        worker.observe(check("x"))
    with pytest.raises(HarnessError, match="no answer"):
        ScriptedSandbox().run(command)
