"""A hostile program inside a check: each attempt is refused there, and succeeds where nothing stops it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox.programs import LIMITS, check, compile_c, ended

from refactorbench.errors import HarnessError
from refactorbench.observe.spec import find_library
from refactorbench.observe.worker_build import WORKER_SOURCE, static_program
from refactorbench.sandbox import BubblewrapSandbox, Command, Mount, Worker, WorkerSpec
from refactorbench.sandbox.trace import TraceFull

ROOT = os.geteuid() == 0
PROGRAMS = "/bin/sh:/usr/bin/env:/usr/bin/python3:/usr/bin/cc:/worker:/.launch:/usr/bin/bwrap:" + sys.executable
WORKER_TEXT = "unterminated string"  # stands in the worker's program and nowhere else

ATTEMPTS = [
    ("interfaces", ""),
    ("others", "mem"),
    ("others", "environ"),
    ("others", "maps"),
    ("others", "root"),
    ("others", "cwd"),
    ("others", "fd"),
    ("others", "exe"),
    ("traces", ""),
    ("peeks", ""),
    ("inherits", ""),
    ("anonymous", ""),
    ("late", ""),
    ("late_by_key", ""),
    ("implied", ""),
    ("shared", ""),
    ("patches", ""),
    ("patches_by_call", ""),
    ("memory_file", ""),
    ("runs_memory", ""),
    ("runs_empty_path", ""),
    ("runs_copy", "/work/copy"),
    ("maps_copy", "/work/copy"),
    ("runs_copy", "/tmp/copy"),
    ("maps_copy", "/tmp/copy"),
    ("runs_other", PROGRAMS),
    ("rings", ""),
    ("reads", "/etc/passwd"),
    ("reads", "/proc/1/environ"),
    ("unshares", ""),
    ("clones", ""),
    ("clones_new", ""),
    ("keys", ""),
]
# what a machine may lack altogether; its refusal outside then proves nothing, and is skipped
MAY_LACK = {"interfaces", "rings", "unshares", "clones", "clones_new", "keys", "late_by_key"}
EXECUTABLE_MEMORY = ["anonymous", "late", "late_by_key", "implied", "memory_file", "runs_memory", "runs_empty_path"]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product tree with /product/bin/hostile."""
    top = tmp_path_factory.mktemp("hostile") / "product"
    compile_c(Path(__file__).with_name("hostile.c"), top / "bin/hostile", "-static")
    return top


@pytest.fixture(scope="module")
def inside(sandbox: BubblewrapSandbox, hostile: Path) -> Iterator[Worker]:
    """One worker for all attempts: none may disturb the next."""
    with sandbox.open_worker(WorkerSpec(hostile, (), LIMITS)) as worker:
        yield worker


@pytest.fixture(scope="module")
def permitted(sandbox: BubblewrapSandbox, hostile: Path) -> Iterator[Worker]:
    with sandbox.open_worker(WorkerSpec(hostile, (), LIMITS, deny_exec_memory=False)) as worker:
        yield worker


def attempt(worker: Worker, *words: str) -> str:
    return worker.observe(check(*words, program="bin/hostile")).stdout.decode()


def outside(hostile: Path, *words: str, **more: object) -> str:
    done = subprocess.run(
        [hostile / "bin/hostile", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **more
    )  # type: ignore[call-overload]
    return str(done.stdout)


@pytest.mark.parametrize(("name", "argument"), ATTEMPTS)
def test_refused_inside(inside: Worker, name: str, argument: str) -> None:
    said = attempt(inside, name, argument)
    assert said.startswith("refused: ") and "got it" not in said
    assert attempt(inside, "ran", "still here") == "got it: still here\n"


@pytest.mark.parametrize(("name", "argument"), ATTEMPTS)
def test_succeeds_outside(hostile: Path, tmp_path: Path, name: str, argument: str) -> None:
    read, write = os.pipe()
    sleeper = subprocess.Popen(["sleep", "60"])  # another process of this user's, to look into
    try:
        argument = re.sub("^/(work|tmp)/", f"{tmp_path}/", argument).replace("/proc/1/", f"/proc/{sleeper.pid}/")
        said = outside(hostile, name, argument, pass_fds=(read,))
    finally:
        sleeper.kill()
        sleeper.wait()
        os.close(read)
        os.close(write)
    if name in MAY_LACK and said.startswith("refused"):
        pytest.skip(f"this machine refuses it to everybody: {said.strip()}")
    assert said.startswith("got it: ")


@pytest.mark.parametrize("name", EXECUTABLE_MEMORY)
def test_executable_memory_is_had_by_a_task_that_declares_it(permitted: Worker, name: str) -> None:
    said = attempt(permitted, name)
    if name in MAY_LACK and said.startswith("refused"):
        pytest.skip(said.strip())
    assert said.startswith("got it: ")


@pytest.mark.parametrize("name", ["patches", "traces", "peeks", "unshares", "keys"])
def test_declaring_executable_memory_gives_nothing_else(permitted: Worker, name: str) -> None:
    assert attempt(permitted, name).startswith("refused: ")


def test_no_listener_of_the_host_s_is_reached(inside: Worker, hostile: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        name = f"refactorbench-test-{os.getpid()}"
        local.bind("\0" + name)
        local.listen()
        port = str(server.getsockname()[1])
        assert attempt(inside, "connects", port).startswith("refused: ")
        assert attempt(inside, "abstract", name).startswith("refused: ")
        assert outside(hostile, "connects", port) == outside(hostile, "abstract", name) == "got it: connected\n"
    assert attempt(inside, "loopback") == "got it: own loopback\n"


def test_nobody_else_can_be_signalled(inside: Worker, hostile: Path) -> None:
    assert attempt(inside, "signals", "process 1 too").startswith("refused: ")
    assert outside(hostile, "signals").startswith("got it: ")
    assert attempt(inside, "ran", "on") == "got it: on\n"


def test_the_worker_s_program_is_in_no_file(
    inside: Worker, sandbox: BubblewrapSandbox, hostile: Path, tmp_path: Path
) -> None:
    assert WORKER_TEXT.encode() in static_program(WORKER_SOURCE).read_bytes()
    said = attempt(inside, "finds", WORKER_TEXT[::-1])
    assert "refused: not in any file" in said and int(said.split()[0]) > 20
    planted = tmp_path / "product"
    shutil.copytree(hostile, planted)
    shutil.copy(static_program(WORKER_SOURCE), planted / "bin/w")
    with sandbox.open_worker(WorkerSpec(planted, (), LIMITS)) as worker:
        assert attempt(worker, "finds", WORKER_TEXT[::-1]) == "got it: /product/bin/w\n"


@pytest.mark.skipif(not ROOT, reason="an ordinary user's files belong to the program's own kernel id")
def test_files_of_other_users_stay_closed(sandbox: BubblewrapSandbox, hostile: Path, tmp_path: Path) -> None:
    product = tmp_path / "product"
    shutil.copytree(hostile, product)
    for name, mode in (("private", 0o600), ("public", 0o644)):
        (product / name).write_text("x")
        (product / name).chmod(mode)
    with sandbox.open_worker(WorkerSpec(product, (), LIMITS)) as worker:
        assert attempt(worker, "reads", "/product/private") == "refused: /product/private: EACCES\n"
        assert attempt(worker, "reads", "/product/public") == "got it: /product/public\n"
        assert attempt(worker, "roots").startswith("refused: ")
    assert outside(hostile, "roots") == "got it: uid 0\n"


def test_mounting_is_refused(inside: Worker, hostile: Path, tmp_path: Path) -> None:
    assert attempt(inside, "mounts", "/work") == "refused: mount: EPERM\n"
    script = ["unshare", "-r", "-m", str(hostile / "bin/hostile"), "mounts", str(tmp_path)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    if done.returncode and "unshare" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.stdout == "got it: mounted\n"


def test_calls_of_another_architecture_end_the_program(inside: Worker, permitted: Worker, hostile: Path) -> None:
    """The filter knows calls by number, and theirs mean other things."""
    if not outside(hostile, "other_numbers").startswith("got it: "):
        pytest.skip("this machine has none")
    for worker in (inside, permitted):
        seen = worker.observe(check("other_numbers", program="bin/hostile"))
        assert (seen.ended, seen.code, seen.stdout) == ("signal", signal.SIGSYS, b"")


def test_the_declared_loader_runs_nothing_from_scratch(sandbox: BubblewrapSandbox, tmp_path: Path) -> None:
    """It is a program that a check may start, and it maps what it is told to."""
    product = tmp_path / "product"
    compile_c(Path(__file__).with_name("hostile.c"), product / "bin/hostile")
    libraries = tuple(find_library(name) for name in ("ld-linux-x86-64.so.2", "libc.so.6"))
    with sandbox.open_worker(WorkerSpec(product, libraries, LIMITS)) as worker:
        for folder in ("/work", "/tmp"):
            assert "got it" not in attempt(worker, "runs_by_loader", f"{libraries[0]}:{folder}/copy")
        assert attempt(worker, "ran", "here") == "got it: here\n"
    assert outside(product, "runs_by_loader", f"{libraries[0]}:{tmp_path}/copy") == "got it: by the loader\n"


def test_no_trace_fills_the_disk(
    sandbox: BubblewrapSandbox, hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refactorbench.sandbox.worker.RUN_BYTES", 1 << 20)
    trace = tmp_path / "trace"
    with sandbox.open_worker(WorkerSpec(hostile, (), LIMITS, trace=trace)) as worker:
        assert attempt(worker, "floods", "1000") == "got it: asked\n"
        with pytest.raises(TraceFull, match="more than 1 MiB"):
            attempt(worker, "floods", "1000000000")
        with pytest.raises(HarnessError, match="was closed"):
            attempt(worker, "floods", "1")
    lines = trace.read_bytes().splitlines()
    assert sum(b"/nowhere" in line for line in lines) > 5000 and trace.stat().st_size < 8 << 20
    assert lines[-1] == b"the trace was cut here: it had more than 1 MiB"


@pytest.mark.parametrize("flags", [("-Wl,-z,execstack",), ("-Wl,-N", "-Wl,-emain", "-nostdlib")])
def test_a_program_whose_file_asks_for_writable_code_is_not_started(
    sandbox: BubblewrapSandbox, hostile: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    product = tmp_path / "product"
    source = tmp_path / "p.c"
    source.write_text('int main(void) { __asm__ volatile("syscall" : : "a"(231), "D"(9)); return 0; }')
    compile_c(source, product / "bin/p", "-static", *flags)
    for deny, how in ((True, ("launch", 13)), (False, ("exit", 9))):
        with sandbox.open_worker(WorkerSpec(product, (), LIMITS, deny_exec_memory=deny)) as worker:
            assert ended(worker.observe(check(program="bin/p"))) == how


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("interfaces", ""),
        ("others", "mem"),
        ("others", "environ"),
        ("others", "fd"),
        ("inherits", ""),
        ("reads", "/etc/passwd"),
        ("reads", "/proc/1/mem"),
        ("runs_other", "/worker:/usr/bin/bwrap:/.launch"),
        ("mounts", "/tmp"),
    ],
)
def test_refused_in_a_single_command_too(
    sandbox: BubblewrapSandbox, hostile: Path, tmp_path: Path, name: str, argument: str
) -> None:
    log = tmp_path / "log"
    argv = ("/product/bin/hostile", name, argument)
    done = sandbox.run(Command(argv, (Mount(hostile, "/product"),), "/tmp", {}, LIMITS, log))
    assert (done.ended, done.code) == ("exit", 1) and log.read_text().startswith("refused: ")


def test_no_listener_of_the_host_s_is_reached_from_a_single_command(
    sandbox: BubblewrapSandbox, hostile: Path, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        argv = ("/product/bin/hostile", "connects", port)
        done = sandbox.run(Command(argv, (Mount(hostile, "/product"),), "/tmp", {}, LIMITS, tmp_path / "log"))
        assert (done.ended, done.code) == ("exit", 1)
        assert outside(hostile, "connects", port) == "got it: connected\n"


def test_no_expected_answer_is_in_the_sandbox(sandbox: BubblewrapSandbox, hostile: Path, tmp_path: Path) -> None:
    canary = f"canary-{os.urandom(16).hex()}"
    answers = tmp_path / "recording"  # where the host keeps what is expected: beside the product, and in its own memory
    answers.write_text(canary)
    product = tmp_path / "product"
    shutil.copytree(hostile, product)
    with sandbox.open_worker(WorkerSpec(product, (), LIMITS)) as worker:
        assert "refused: not in any file" in attempt(worker, "finds", canary[::-1])
        said = attempt(worker, "remembers", canary[::-1])
        assert "refused: in no memory" in said and int(said.split()[0]) > 100_000
        # controls: planted in a file, or handed over in the environment, it is found
        told = worker.observe(check("remembers", canary[::-1], program="bin/hostile", env=((b"X", canary.encode()),)))
        assert told.stdout.startswith(b"got it: /proc/")
        (product / "share").mkdir()
        (product / "share/answers").write_text(canary)
        assert attempt(worker, "finds", canary[::-1]) == "got it: /product/share/answers\n"
