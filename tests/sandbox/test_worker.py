"""What a check's program meets, and what is seen of it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import msgspec
import pytest

from refactorbench.errors import HarnessError, TaskError, UsageError
from refactorbench.observe.model import INPUT_MTIME, NOW, SECOND, Check, InputFile
from refactorbench.sandbox import BubblewrapSandbox, Worker, WorkerSpec

from .programs import LIMITS, STAYS, check, ended, left_behind, tree


@pytest.mark.parametrize("status", [0, 1, 127, 137, 255])
def test_exit_status_is_exact(worker: Worker, status: int) -> None:
    assert ended(worker.observe(check("exit", str(status)))) == ("exit", status)


@pytest.mark.parametrize("number", [1, 6, 9, 11, 15])
def test_death_by_signal_is_not_an_exit_status(worker: Worker, number: int) -> None:
    assert ended(worker.observe(check("raise", str(number)))) == ("signal", number)


def test_writing_to_a_closed_pipe_kills(worker: Worker) -> None:
    assert ended(worker.observe(check("sigpipe"))) == ("signal", 13)


def test_the_program_meets_the_declared_surroundings(worker: Worker) -> None:
    seen = worker.observe(check("about", env=((b"MINE", b"1"), (b"TZ", b"Asia/Tokyo"))))
    first, *env = seen.stdout.decode().splitlines()
    groups = 0 if os.geteuid() == 0 else len(os.getgroups())  # those an ordinary user can't leave
    assert first == f"umask 022 uid 65534 gid 65534 groups {groups} signals 0 core 0 cwd /work"
    assert env == ["PATH=/product/bin", "LC_ALL=C", "TZ=Asia/Tokyo", "HOME=/work", "MINE=1"]


def test_a_specs_environment_lies_between_the_base_and_the_check(sandbox: BubblewrapSandbox, spec: WorkerSpec) -> None:
    own = msgspec.structs.replace(spec, env=((b"LC_ALL", b"C.UTF-8"), (b"TASK", b"t")))
    with sandbox.open_worker(own) as worker:
        seen = worker.observe(check("about", env=((b"TASK", b"c"),)))
    assert {"LC_ALL=C.UTF-8", "TASK=c", "TZ=UTC"} <= set(seen.stdout.decode().splitlines())


def test_argv_is_passed_as_bytes_and_names_the_program_as_it_likes(worker: Worker) -> None:
    argv = (b"bunzip2", b"args", b"", b"\xff\xfe", b"a b")
    assert worker.observe(check("args", argv=argv)).stdout == b"[bunzip2][args][][\xff\xfe][a b]"


INPUTS = (
    InputFile(b"a/b/kept", b"\0\xff", 0o640),
    InputFile(b"changed", b"before", 0o600),
    InputFile(b"removed", b"x"),
    InputFile(b"to", kind="link", target=b"a/b/kept"),
    InputFile(b"hard", kind="file", target=b"removed"),
    InputFile(b"closed", kind="dir", mode=0o500, mtime=77 * SECOND + 999_999_999),
    InputFile(b"closed/in", b"in", mtime=5),
    InputFile(b"pipe", kind="fifo", mode=0o622),
)


def test_inputs_lie_in_the_past_and_come_back_unchanged(worker: Worker) -> None:
    assert tree(worker.observe(check("exit", "0", files=INPUTS))) == {
        "a": ("dir", 0o755, INPUT_MTIME, b""),
        "a/b": ("dir", 0o755, INPUT_MTIME, b""),
        "a/b/kept": ("file", 0o640, INPUT_MTIME, b"\0\xff"),
        "changed": ("file", 0o600, INPUT_MTIME, b"before"),
        "closed": ("dir", 0o500, 77 * SECOND + 999_999_999, b""),
        "closed/in": ("file", 0o644, 5, b"in"),
        "hard": ("file", 0o644, INPUT_MTIME, b"x"),
        "pipe": ("fifo", 0o622, INPUT_MTIME, b""),
        "removed": ("file", 0o644, INPUT_MTIME, b"x"),
        "to": ("link", 0o777, INPUT_MTIME, b"a/b/kept"),
    }


FAR = (-1, -SECOND, -5_500_000_000, -(SECOND << 31) - 1, (SECOND << 31) + 7, (SECOND << 33) + 999_999_999)


def test_times_before_1970_and_in_the_future_are_laid_and_read(worker: Worker) -> None:
    files = tuple(InputFile(b"%d" % i, mtime=t) for i, t in enumerate(FAR))
    folders = tuple(InputFile(b"d%d" % i, kind="dir", mtime=t) for i, t in enumerate(FAR))
    seen = worker.observe(check("exit", "0", files=(*files, *folders)))
    assert [f.mtime for f in seen.files] == [*FAR, *FAR]


def test_every_kind_of_change_is_seen(worker: Worker) -> None:
    seen = worker.observe(check("files", files=INPUTS))
    after = tree(seen)
    assert [f.path for f in seen.files] == sorted(f.path for f in seen.files)
    assert "removed" not in after and after["hard"][3] == b"x"
    assert after["sub/plain"] == ("file", 0o644, NOW, b"plain")
    assert after["sub"] == ("dir", 0o755, NOW, b"")
    assert after["secret"] == ("file", 0o600, NOW, b"secret")
    assert after["changed"] == ("file", 0o4751, NOW, b"changed")
    assert after["link"] == ("link", 0o777, NOW, b"sub/plain")
    assert after["fifo"] == ("fifo", 0o640, NOW, b"")
    assert after["old"] == ("file", 0o644, 123456789 * SECOND + 7, b"old")
    assert after["socket"][0] == "other"
    assert after["locked"] == ("dir", 0, NOW, b"")
    assert after["locked/in"] == ("file", 0, NOW, b"in")
    assert after["a/b/kept"] == ("file", 0o640, INPUT_MTIME, b"\0\xff")


def test_nothing_of_one_check_is_left_for_the_next(worker: Worker) -> None:
    assert worker.observe(check("files")).files
    assert worker.observe(check("exit", "0")).files == ()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("pipe", b"seek ESPIPE;read ok;text;write EBADF"),
        ("file", b"seek ok;read ok;text;write EBADF"),
        ("closed", b"seek EBADF;read EBADF;;write EBADF"),
    ],
)
def test_kinds_of_stdin(worker: Worker, kind: str, said: bytes) -> None:
    assert worker.observe(check("stdin", stdin=b"text", stdin_kind=kind)).stdout == said


def test_a_program_that_ignores_its_input_does_not_disturb_the_next(worker: Worker) -> None:
    assert ended(worker.observe(check("exit", "3", stdin=bytes(1 << 20)))) == ("exit", 3)
    assert worker.observe(check("stdin", stdin=b"next")).stdout.startswith(b"seek ESPIPE;read ok;next")


@pytest.mark.parametrize(
    ("kind", "out", "err"), [("pipe", b"out\n", b""), ("full", b"", b"ENOSPC\n"), ("closed", b"", b"EBADF\n")]
)
def test_kinds_of_stdout(worker: Worker, kind: str, out: bytes, err: bytes) -> None:
    seen = worker.observe(check("write", stdout=kind))
    assert (seen.stdout, seen.stderr) == (out, err)


def test_a_missing_program_is_a_launch_failure_not_an_exit(worker: Worker) -> None:
    seen = worker.observe(check("exit", "0", program="bin/none"))
    assert (ended(seen), seen.limit) == (("launch", 2), "No such file or directory")
    assert ended(worker.observe(check("exit", "0"))) == ("exit", 0)


def test_what_a_program_leaves_behind_ends_with_it(worker: Worker) -> None:
    start = time.monotonic()
    seen = worker.observe(check("stay", "", STAYS))
    assert (ended(seen), seen.stdout) == (("exit", 5), b"left behind\n")
    assert time.monotonic() - start < LIMITS.wall_s
    assert not left_behind()  # test_wall_limit_ends_everything shows that the search finds them while they live


def test_wall_limit_ends_everything(sandbox: BubblewrapSandbox, spec: WorkerSpec) -> None:
    quick = msgspec.structs.replace(spec, limits=msgspec.structs.replace(LIMITS, wall_s=0.6))
    with sandbox.open_worker(quick) as worker:
        seen_alive: list[str] = []
        looker = threading.Timer(0.4, lambda: seen_alive.extend(left_behind()))
        looker.start()
        seen = worker.observe(check("stay", "60", STAYS))
        looker.join()
        assert (ended(seen), seen.stdout) == (("limit", "wall"), b"left behind\n")
        assert not left_behind()
        assert seen_alive, "the control saw no process while the check ran, so their absence would mean nothing"
        assert ended(worker.observe(check("exit", "0"))) == ("exit", 0)


def test_cpu_limit(sandbox: BubblewrapSandbox, spec: WorkerSpec) -> None:
    with sandbox.open_worker(
        msgspec.structs.replace(spec, limits=msgspec.structs.replace(LIMITS, cpu_s=1, wall_s=60))
    ) as worker:
        assert ended(worker.observe(check("spin"))) == ("limit", "cpu")


def test_output_limit_keeps_what_fits(worker: Worker) -> None:
    seen = worker.observe(check("flood", "100"))
    assert (ended(seen), len(seen.stdout)) == (("limit", "output"), LIMITS.output_mb << 20)
    just = worker.observe(check("flood", "16"))
    assert (ended(just), len(just.stdout)) == (("exit", 0), LIMITS.output_mb << 20)


def test_private_memory_beyond_the_limit_is_refused(worker: Worker) -> None:
    assert worker.observe(check("hog", "200")).stdout == b"refused\n"
    assert worker.observe(check("hog", "30")).stdout == b"had it\n"


def test_shared_memory_beyond_the_limit_is_ended_as_memory(worker: Worker) -> None:
    # pages that no limit on one process counts: the cgroup, or the watcher, sees them
    assert ended(worker.observe(check("hog", "300", "2"))) == ("limit", "memory")
    assert worker.observe(check("hog", "30", "0")).stdout == b"had it\n"


def test_a_fork_bomb_stays_within_its_number(worker: Worker) -> None:
    made = int(worker.observe(check("bomb", "500")).stdout)
    assert LIMITS.processes - 2 <= made <= LIMITS.processes + 8
    assert worker.observe(check("bomb", "5")).stdout == b"5\n"


@pytest.mark.parametrize("where", ["fill", "/tmp/fill"])
def test_scratch_is_bounded(worker: Worker, where: str) -> None:
    seen = worker.observe(check("fill", where, str(3 << 20)))
    assert ended(seen) == ("exit", 0)
    whole = worker.observe(check("fill", where, str(64 << 20)))
    assert ended(whole) == ("signal", 25)  # SIGXFSZ: one file's bound comes first


def test_the_disk_bound_holds_over_many_files(sandbox: BubblewrapSandbox, spec: WorkerSpec) -> None:
    wide = msgspec.structs.replace(LIMITS, file_mb=64)
    with sandbox.open_worker(msgspec.structs.replace(spec, limits=wide)) as worker:
        seen = worker.observe(check("fill", "big", str(60 << 20)))
        assert (ended(seen), seen.stdout) == (("exit", 1), f"ENOSPC after {LIMITS.disk_mb << 20}\n".encode())


def test_sparse_files_beyond_the_disk_bound_are_not_read(worker: Worker) -> None:
    seen = worker.observe(check("sparse", "100"))
    assert ended(seen) == ("limit", "disk")
    assert not any(f.data for f in seen.files)
    few = worker.observe(check("sparse", "3"))
    assert ended(few) == ("exit", 0) and all(len(f.data) == 1 << 20 for f in few.files)


def test_paths_deeper_than_any_call_takes_are_a_limit_not_a_failure(worker: Worker) -> None:
    assert ended(worker.observe(check("deep", "500"))) == ("limit", "disk")
    assert len(worker.observe(check("deep", "20")).files) == 20


@pytest.mark.parametrize("path", [b"/etc/x", b"../x", b"a//b", b"a/./b", b"", b"a/"])
def test_a_path_that_leaves_the_scratch_is_the_tasks_error(worker: Worker, path: bytes) -> None:
    with pytest.raises(TaskError, match="plain path"):
        worker.observe(check("exit", "0", files=(InputFile(path, b"x"),)))
    assert ended(worker.observe(check("exit", "0", files=(InputFile(b"a/b", b"x"),)))) == ("exit", 0)


def test_inputs_that_do_not_fit_are_the_harness_s_error_and_leave_the_worker_whole(worker: Worker) -> None:
    with pytest.raises(HarnessError, match="No space left"):
        worker.observe(check("exit", "0", files=(InputFile(b"big", bytes(9 << 20)),)))
    assert ended(worker.observe(check("exit", "0"))) == ("exit", 0)


def test_many_checks_in_flight_keep_their_order(sandbox: BubblewrapSandbox, spec: WorkerSpec) -> None:
    big = bytes(700_000)

    def checks() -> list[Check]:
        return [check("exit", str(n), stdin=big if n % 7 == 0 else b"") for n in range(40)]

    with sandbox.open_worker(spec) as worker:
        assert [seen.code for seen in worker.observe_many(checks())] == list(range(40))  # type: ignore[attr-defined]


def test_a_check_that_floods_while_the_next_is_in_flight(sandbox: BubblewrapSandbox, spec: WorkerSpec) -> None:
    with sandbox.open_worker(spec) as worker:
        seen = list(worker.observe_many([check("flood", "15"), check("exit", "4"), check("flood", "99")]))  # type: ignore[attr-defined]
    assert [ended(s) for s in seen] == [("exit", 0), ("exit", 4), ("limit", "output")]


def test_leaving_a_stream_of_checks_early_closes_the_worker(sandbox: BubblewrapSandbox, spec: WorkerSpec) -> None:
    with sandbox.open_worker(spec) as worker:
        stream = worker.observe_many(check("exit", str(n)) for n in range(9))  # type: ignore[attr-defined]
        next(stream)
        stream.close()
        with pytest.raises(HarnessError, match="closed"):
            worker.observe(check("exit", "0"))


def test_a_killed_worker_is_the_harness_s_error(sandbox: BubblewrapSandbox, spec: WorkerSpec) -> None:
    with sandbox.open_worker(spec) as worker:
        worker.interrupt()  # type: ignore[attr-defined]
        with pytest.raises(HarnessError, match="run its check again"):
            worker.observe(check("exit", "0"))


def test_a_product_that_is_not_there_is_named(sandbox: BubblewrapSandbox, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none does not exist"):
        sandbox.open_worker(WorkerSpec(tmp_path / "none", (), LIMITS))


def test_a_traced_worker_shows_each_check_s_own_calls_only(
    sandbox: BubblewrapSandbox, spec: WorkerSpec, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    with sandbox.open_worker(msgspec.structs.replace(spec, trace=trace)) as worker:
        worker.observe(check("files"))
        worker.observe(check("bomb", "2"))
    lines = trace.read_text().splitlines()
    marks = [n for n, line in enumerate(lines) if ' chdir("/.check/' in line]
    assert ["files" in lines[marks[0]], "bomb-2" in lines[marks[1]], len(marks)] == [True, True, 2]
    assert all(' execve("/product/bin/probe", ["probe", ' in lines[m + 1] for m in marks)
    first = "\n".join(lines[: marks[1]])
    assert '"sub/plain", O_WRONLY|O_CREAT|O_TRUNC, 0666) = ' in first and "</work" in first
    assert "/worker" not in "\n".join(lines) and "pivot" not in "\n".join(lines) and "/r/" not in "\n".join(lines)
