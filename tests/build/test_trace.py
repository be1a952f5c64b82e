"""The parser of strace output: every honest line is understood, no file name can forge one."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from refactorbench.build.trace import descriptor, line_text, read_trace, string, strings, unescape


def trace_of(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "trace.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_call_is_read_with_arguments_result_and_resolved_path(tmp_path: Path) -> None:
    path = trace_of(tmp_path, '7 openat(AT_FDCWD</w>, "a", O_RDONLY|O_CLOEXEC) = 3</w/a>\n')
    (call,) = read_trace(path).calls
    assert (call.line, call.pid, call.name, call.value, call.result_path) == (1, 7, "openat", 3, "/w/a")
    assert descriptor(call.args[0]) == ("/w", False)
    assert string(call.args[1]) == "a"
    assert call.args[2] == b"O_RDONLY|O_CLOEXEC"


def test_errors_and_calls_that_never_return_are_no_successes(tmp_path: Path) -> None:
    path = trace_of(tmp_path, '7 open("x", O_RDONLY) = -1 ENOENT (No such file or directory)\n7 exit_group(0) = ?\n')
    failed, ended = read_trace(path).calls
    assert (failed.ok, failed.error) == (False, "ENOENT")
    assert (ended.ok, ended.value) == (False, None)


def test_interleaved_halves_are_joined_and_stand_where_they_began(tmp_path: Path) -> None:
    lines = (
        '1 execve("/bin/a", ["a", "b c"], 0x7f /* 3 vars */ <unfinished ...>\n'
        '2 openat(AT_FDCWD</w>, "f", O_WRONLY|O_CREAT, 0666 <unfinished ...>\n'
        "1 <... execve resumed>) = 0\n"
        "2 <... openat resumed>) = 4</w/f>\n"
        "1 clone3({flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD} => {parent_tid=[5]}, 88) = 5 "
        "/* 99 in strace's PID NS */\n"
    )
    trace = read_trace(trace_of(tmp_path, lines))
    assert trace.malformed == 0
    assert [(c.line, c.name, c.value) for c in trace.calls] == [(1, "execve", 0), (2, "openat", 4), (5, "clone3", 99)]
    assert strings(trace.calls[0].args[1]) == ("a", "b c")


def test_an_attempt_that_was_cut_off_is_kept(tmp_path: Path) -> None:
    (call,) = read_trace(trace_of(tmp_path, '1 execve("/cc1", ["cc1"], 0x1 <unfinished ...>\n')).calls
    assert string(call.args[0]) == "/cc1"
    assert not call.ok


def test_an_execve_by_a_thread_is_resumed_under_its_leaders_pid(tmp_path: Path) -> None:
    text = '12 execve("/x", ["x"], 0x1 <unfinished ...>\n10 <... execve resumed>) = 0\n'
    (call,) = read_trace(trace_of(tmp_path, text)).calls
    assert (call.pid, call.value) == (10, 0)


@pytest.mark.parametrize(
    "line",
    [
        "garbage",
        '7 openat(AT_FDCWD</w>, "a',
        '7 openat(AT_FDCWD</w>, "a", O_RDONLY',
        '7 openat(AT_FDCWD</w>, "a"] = 3',
        '7 openat("a") = three',
        "7 <... read resumed>) = 3",
        "",
    ],
)
def test_malformed_lines_are_counted_and_the_rest_is_read(tmp_path: Path, line: str) -> None:
    good = '7 open("b", O_RDONLY) = 3</b>\n'
    trace = read_trace(trace_of(tmp_path, f"{good}{line}\n{good}"))
    assert (trace.malformed, len(trace.calls), trace.lines) == (1, 2, 3)


def test_random_damage_never_raises(tmp_path: Path) -> None:
    rng = random.Random(5)
    good = b'7 openat(AT_FDCWD</w>, "a\\"b", O_RDONLY) = 3</w/a>\n1 execve("/x", ["x", "y"], 0x1 /* 2 vars */) = 0\n'
    for _ in range(300):
        data = bytearray(good * 3)
        for _ in range(rng.randrange(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        read_trace(trace_of(tmp_path, bytes(data)))


def test_a_missing_trace_says_so(tmp_path: Path) -> None:
    assert read_trace(tmp_path / "none").missing
    assert not read_trace(trace_of(tmp_path, "")).missing


def test_escapes_are_undone() -> None:
    assert unescape(rb"a\n\t\"\\\1\377\x41") == b'a\n\t"\\\x01\xffA'
    assert unescape(b"plain") == b"plain"


def test_line_text_is_the_line_as_it_stands(tmp_path: Path) -> None:
    path = trace_of(tmp_path, "one\ntwo\n")
    assert (line_text(path, 2), line_text(path, 3)) == ("two", "")


HOSTILE = r"""
import os
name = b'a<b>"c\\ = 3<x>\nnew \x01\xff <unfinished ...>'
fd = os.open(name, os.O_CREAT | os.O_RDWR)
os.rename(name, b'1 execve("cc1", ["cc1"], 0x1) = 0')
os.close(os.open(b"/proc/self/fd/%d" % fd, os.O_RDONLY))
os.memfd_create(") = 0 <unfinished ...>")
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_hostile_file_names_in_a_real_trace_stay_names(tmp_path: Path) -> None:
    out = tmp_path / "trace.txt"
    calls = "trace=openat,rename,memfd_create,execve"
    argv = ["strace", "-f", "-y", "-qq", "-s", "4096", "-e", calls, "-o", str(out), "/usr/bin/env", "python3", "-c", HOSTILE]
    subprocess.run(argv, cwd=tmp_path, check=True)
    trace = read_trace(out, ("openat", "rename", "memfd_create"))
    assert trace.malformed == 0
    renamed = next(c for c in trace.calls if c.name == "rename")
    assert string(renamed.args[0]) == 'a<b>"c\\ = 3<x>\nnew \x01\udcff <unfinished ...>'
    assert trace.calls[-1].result_path == "/memfd:) = 0 <unfinished ...>"
    again = [c for c in trace.calls if c.args[1:2] and (string(c.args[1]) or "").startswith("/proc/self/fd/")]
    assert again[0].result_path == str(tmp_path / '1 execve("cc1", ["cc1"], 0x1) = 0')
