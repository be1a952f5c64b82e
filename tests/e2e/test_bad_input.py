"""Bad input and bad machines: the right message, the right exit status, and nothing lost."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.toy import ARCHIVE, TASK, Done, Toy
from e2e.toy import toy as toy
from refactorbench import prepare
from refactorbench.hashing import tree_digest

RUN = ("run", "--task", TASK)
SHORT = (*RUN, "--panel", "quick", "--stages", "behaviour")


@pytest.fixture(scope="module")
def run(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished short run."""
    out = tmp_path_factory.mktemp("bad") / "run"
    done = toy.call(*SHORT, "--out", out)
    assert done.status == 0, done.err
    return out


@pytest.fixture
def copied(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "copied"))


def refused(done: Done, status: int, *words: str) -> None:
    """The message is short, names `words`, and no traceback is shown."""
    assert done.status == status, (done.status, done.err)
    for word in words:
        assert word in done.err, (word, done.err)
    assert "Traceback" not in done.err and "error:" in done.err.lower()


# What the user named wrongly: 2


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("run",), ["--task is missing", "task list"]),
        (("run", "--task", "toy-rst"), ["'toy-rst' is unknown", "did you mean 'toy-rust'"]),
        ((*RUN, "--panel", "ofline"), ["'ofline' is unknown", "did you mean 'offline'"]),
        ((*RUN, "--agent", "solutoin"), ["--agent solutoin is unknown", "did you mean 'solution'"]),
        ((*RUN, "--agent", "command:"), ["--agent command: is unknown"]),
        ((*RUN, "--stages", "audit,behavior"), ["'behavior' is no stage", "did you mean 'behaviour'"]),
        ((*RUN, "--submission", "/nowhere/tree"), ["--submission /nowhere/tree is not a folder", "name the root"]),
        ((*RUN, "--agent", "noop", "--submission", "/"), ["exclude each other"]),
        (
            (*RUN, "--submission", "/", "--model", "anthropic/x"),
            ["--model anthropic/x is for an agent", "leave it out"],
        ),
        ((*RUN, "--submission", "/", "--set", "turns=3"), ["--set turns is for an agent"]),
        ((*RUN, "--min-score", "200"), ["--min-score", "200"]),
        ((*RUN, "--jobs", "0"), ["--jobs", "0"]),
        ((*RUN, "--pannel", "x"), ["--pannel", "--panel"]),
        (("repotr",), ["no command 'repotr'", "did you mean 'report'"]),
        (("run", "--resume", "/nowhere"), ["--resume /nowhere is no run directory", "run --out"]),
        (("show", "/nowhere"), ["/nowhere is no run directory"]),
        (("score", "/nowhere"), ["/nowhere is no run directory"]),
        (("reproduce", "/nowhere", "x"), ["/nowhere is no run directory"]),
        (("report", "/nowhere"), ["/nowhere is no run directory and holds none"]),
        (("task", "show", "toy"), ["'toy' is unknown"]),
    ],
)
def test_what_is_named_wrongly_is_told_with_the_nearest_right_name(
    toy: Toy, tmp_path: Path, args: tuple[str, ...], words: list[str]
) -> None:
    more = ("--out", tmp_path / "out") if args[0] == "run" and "--resume" not in args else ()
    refused(toy.here(*args, *more), 2, *words)
    assert not (tmp_path / "out").exists()


def test_an_id_that_a_run_does_not_have(toy: Toy, run: Path) -> None:
    refused(toy.here("show", run, "count/drew-003"), 2, "nothing named 'count/drew-003'")
    refused(toy.here("reproduce", run, "v9-abc"), 2, "no input named 'v9-abc'")


def test_a_submission_without_files(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "tree" / "target").mkdir(parents=True)
    (tmp_path / "tree" / "target" / "x").write_text("x")  # left out, so nothing is left
    done = toy.call(*RUN, "--submission", tmp_path / "tree", "--out", tmp_path / "out")
    refused(done, 2, "holds no files", "name the migrated tree")
    again = toy.call("run", "--resume", tmp_path / "out")
    refused(again, 2, "holds no files")


def test_a_run_directory_inside_the_submission(toy: Toy, tmp_path: Path) -> None:
    tree = toy.port(tmp_path / "tree")
    refused(toy.call(*RUN, "--submission", tree, "--out", tree / "runs" / "x"), 2, "lies inside --submission")


def test_a_run_directory_that_holds_a_run_already(toy: Toy, copied: Path) -> None:
    before = tree_digest(copied)
    refused(toy.here(*RUN, "--out", copied), 2, "holds a run already", f"--resume {copied}")
    assert tree_digest(copied) == before


@pytest.mark.parametrize(
    "more",
    [
        ("--agent", "noop"), ("--panel", "offline"), ("--seed", "2"), ("--quick",), ("--submission", "/usr"),
        ("--stages", "audit"), ("--out", "/elsewhere"),
    ],
)  # fmt: skip
def test_resuming_under_other_options_is_refused(toy: Toy, run: Path, more: tuple[str, ...]) -> None:
    refused(toy.here("run", "--resume", run, *more), 2, more[0])


def test_resuming_a_finished_run_under_its_own_options_gives_the_same_result(toy: Toy, copied: Path) -> None:
    before = (copied / "result.json").read_bytes()
    same = ("--task", TASK, "--panel", "quick", "--seed", "1", "--jobs", "1", "--out", copied, "--stages", "behaviour")
    done = toy.call("run", "--resume", copied, *same)
    assert done.status == 0, done.err
    assert (copied / "result.json").read_bytes() == before


# Files of the task that are wrong: 2


def test_a_recording_with_one_bit_flipped(toy: Toy, tmp_path: Path) -> None:
    other = toy.copy(tmp_path / "root")
    file = other.recording / "count.parquet"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)
    refused(other.call(*RUN, "--out", tmp_path / "out"), 2, "count.parquet", "file_sha256", "restore it")


def test_a_recording_of_other_inputs_than_the_run_began_with(toy: Toy, copied: Path, tmp_path: Path) -> None:
    other = toy.copy(tmp_path / "root")
    manifest = json.loads((other.recording / "manifest.json").read_text())
    (other.recording / "manifest.json").write_text(json.dumps({**manifest, "seed": 2}))
    refused(other.here("score", copied), 2, "recording of toy-rust is another one", "restore it")
    refused(other.call("run", "--resume", copied), 2, "recording_sha256")


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        (f"audit_criteria/{TASK}.toml", 'id = "build-clean"', 'id = "source-clean"', ["'source-clean' occurs 2 times"]),
        (f"verifiers/{TASK}.toml", 'id = "v2"', 'id = "v1"', ["'v1' occurs 2 times"]),
        ("verifiers/panels/offline.toml", 'id = "v2"', 'id = "v1"', ["verifier ids are v1, v1"]),
        (f"tasks/{TASK}/task.toml", "debt =", "det =", ["det", "debt"]),
        (f"tasks/{TASK}/task.toml", '[".git", "target"]', '["READ*"]', ["exclude", "README", "narrow the patterns"]),
        (
            f"tasks/{TASK}/task.toml",
            '[".git", "target"]',
            '["*/tally"]',
            ["exclude", "tally, an output", "exclude the build"],
        ),
        (f"tasks/{TASK}/task.toml", '["gcc", "make"]', '["gcc", "mke"]', ["'mke' is unknown", "'make'"]),
    ],
)
def test_a_wrong_file_of_a_task(toy: Toy, tmp_path: Path, file: str, old: str, new: str, words: list[str]) -> None:
    other = toy.copy(tmp_path / "root")
    text = (other.root / file).read_text()
    assert old in text
    (other.root / file).write_text(text.replace(old, new, 1))
    refused(other.call(*RUN, "--out", tmp_path / "out"), 2, *words)


def test_a_task_without_a_solution_has_no_agent_solution(toy: Toy, tmp_path: Path) -> None:
    other = toy.copy(tmp_path / "root")
    shutil.rmtree(other.solution)
    refused(other.call(*RUN, "--agent", "solution", "--out", tmp_path / "out"), 2, "ships no solution", "--agent noop")


def test_state_a_that_is_not_the_pinned_one(toy: Toy, tmp_path: Path) -> None:
    """The archive in the cache is damaged, or its tree isn't what was recorded."""
    other = toy.copy(tmp_path / "root")
    (archive,) = toy.cache.glob(f"sources/*/{ARCHIVE}")
    cache = tmp_path / "cache"
    place = cache / "sources" / archive.parent.name / ARCHIVE
    place.parent.mkdir(parents=True)
    place.write_bytes(archive.read_bytes()[:-1] + b"x")
    own = {"REFACTORBENCH_CACHE": str(cache)}
    refused(other.call(*RUN, "--out", tmp_path / "out", env=own), 3, "is damaged", "sha256", "delete it")
    place.write_bytes(archive.read_bytes())
    tree = toy.state_a.name
    for file in (other.root / "tasks" / TASK / "task.toml", other.recording / "manifest.json"):
        file.write_text(file.read_text().replace(tree, "0" * 64))
    done = other.call(*RUN, "--out", tmp_path / "out", env=own)
    refused(done, 2, "tree_sha256", tree, "not the State A that was recorded")
    assert not (tmp_path / "out").exists()


# What this machine lacks: 3


@pytest.mark.parametrize("without", ["bwrap", "strace"])
def test_a_missing_tool_is_named_with_its_package_before_anything_is_done(
    toy: Toy, tmp_path: Path, without: str
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in {"bwrap", "strace", "git"} - {without}:
        (tools / name).symlink_to(shutil.which(name) or "/nowhere")
    done = toy.call(*RUN, "--out", tmp_path / "out", env={"PATH": str(tools)})
    package = {"bwrap": "bubblewrap"}.get(without, without)
    refused(done, 3, f"{without} is not installed", f"apt-get install {package}", "nothing was fetched or started")
    assert not (tmp_path / "out").exists()


def test_everything_that_is_missing_is_named_at_once(toy: Toy, tmp_path: Path) -> None:
    other = toy.copy(tmp_path / "root")
    file = other.root / "tasks" / TASK / "task.toml"
    file.write_text(file.read_text().replace("libgcc_s.so.1", "libnowhere.so.7"))
    done = other.call(*RUN, "--out", tmp_path / "out", env={"PATH": "/nowhere"})
    refused(done, 3, "bwrap is not", "strace is not", "libnowhere.so.7", "all of it: apt-get install bubblewrap strace")


def test_doctor_names_a_missing_tool_too(toy: Toy) -> None:
    refused(toy.call("doctor", env={"PATH": "/nowhere"}), 3, "apt-get install bubblewrap")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mounted = os.geteuid() == 0 and shutil.which("mount")
    if not mounted or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=False).returncode:
        pytest.skip("only root can mount a small file system")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_small_disk_is_refused_before_anything_is_done(toy: Toy, small_disk: Path) -> None:
    refused(toy.call(*RUN, "--out", small_disk / "out"), 3, "1 MiB free", "free some space", "--out elsewhere")
    assert not list(small_disk.iterdir())


def test_a_disk_that_fills_up_loses_nothing_and_the_run_goes_on_when_there_is_room(
    toy: Toy, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "FREE_MB", 0)
    out = small_disk / "out"
    full = small_disk / "ballast"
    full.write_bytes(bytes(700_000))
    done = toy.here(*SHORT, "--out", out)
    refused(done, 3, "No space left", "resume")
    kept = (out / "journal.jsonl").read_bytes()
    full.unlink()
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    again = toy.here("run", "--resume", out)
    assert again.status == 0, again.err
    assert (out / "journal.jsonl").read_bytes().startswith(kept)


def test_a_limit_on_file_size_loses_nothing(toy: Toy, tmp_path: Path) -> None:
    out = tmp_path / "out"
    small = 20_000  # bytes: enough for lock and options, not for what the build leaves

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (small, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    done = toy.call(*SHORT, "--out", out, preexec_fn=limit)
    assert done.status == 3 and "Traceback" not in done.err, done.err
    again = toy.call("run", "--resume", out)
    assert again.status == 0, again.err


# Run directories that are damaged, foreign or in use: 2


def test_the_lock_of_another_version(toy: Toy, copied: Path) -> None:
    lock = json.loads((copied / "lock.json").read_text())
    (copied / "lock.json").write_text(json.dumps({**lock, "version": "0.0.9", "unheard_of": 1}))
    refused(toy.call("run", "--resume", copied), 2, "started by refactorbench 0.0.9", "start a new run")
    (copied / "lock.json").write_text(json.dumps({**lock, "toolchain": {**lock["toolchain"], "rustc": "1.0"}}))
    refused(toy.call("run", "--resume", copied), 2, "toolchain.rustc (1.0 -> ", "start a new run")
    (copied / "lock.json").write_text(json.dumps({**lock, "dirty": not lock["dirty"]}))
    assert toy.call("run", "--resume", copied).status == 0


def test_a_damaged_file_of_a_run_is_named_and_left_as_it_is(toy: Toy, copied: Path) -> None:
    for name, command in (
        ("options.json", ("run", "--resume", copied)),
        ("lock.json", ("run", "--resume", copied)),
        ("units/build.json", ("score", copied)),
        ("result.json", ("show", copied)),
    ):
        whole = (copied / name).read_bytes()
        (copied / name).write_bytes(whole[: len(whole) // 2])
        refused(toy.here(*command), 2, str(copied / name), "is damaged")
        assert (copied / name).read_bytes() == whole[: len(whole) // 2]
        (copied / name).write_bytes(whole)
    assert toy.here("score", copied).status == 0


def test_a_report_counts_a_run_that_cannot_be_read_and_still_shows_the_others(
    toy: Toy, run: Path, copied: Path
) -> None:
    (copied / "result.json").write_text("{")
    done = toy.here("report", run, copied, "--json")
    assert done.status == 0
    assert [(r["status"], r["graded"]) for r in done.json["runs"]] == [("partial", False), ("unreadable", False)] or [
        r["status"] for r in done.json["runs"]
    ] == ["unreadable", "partial"]
    assert "is damaged" in json.dumps(done.json["runs"])


def test_a_torn_last_line_of_the_journal_is_cut_off_and_a_damaged_one_is_told(toy: Toy, copied: Path) -> None:
    journal = copied / "journal.jsonl"
    whole = journal.read_bytes()
    before = (copied / "result.json").read_bytes()
    lines = whole.splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-2]) + lines[-2][:9])
    (copied / "result.json").unlink()
    done = toy.call("run", "--resume", copied)
    assert done.status == 0, done.err
    assert (copied / "result.json").read_bytes() == before
    journal.write_bytes(b'{"unit"\n' + whole)
    refused(toy.call("run", "--resume", copied), 2, "journal.jsonl is damaged at byte 0", "start the run anew")


def wait_for(process: subprocess.Popen[str], condition: Path) -> None:
    deadline = time.monotonic() + 60
    while process.poll() is None and not condition.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition.exists()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_two_processes_on_one_run_and_an_interrupt(toy: Toy, tmp_path: Path, how: signal.Signals) -> None:
    out = tmp_path / "out"
    agent = "command:rm -f README; touch began; sleep 30"
    first = toy.start(*RUN, "--agent", agent, "--stages", "behaviour", "--out", out)
    try:
        wait_for(first, out / "work" / "began")
        second = toy.call("run", "--resume", out)
        refused(second, 2, "in use by another process", "wait for it")
        first.send_signal(how)
        _, err = first.communicate(timeout=30)
    finally:
        first.kill()
    assert first.returncode == 130 and "what was finished is kept" in err and "Traceback" not in err
    options = json.loads((out / "options.json").read_text())
    (out / "options.json").write_text(json.dumps({**options, "agent": "noop"}))
    (out / "lock.json").unlink()
    again = toy.call("run", "--resume", out)
    assert again.status == 0 and json.loads((out / "result.json").read_text())["stage2"]["complete"]


def test_an_interrupt_from_the_terminal_while_verifiers_hunt(toy: Toy, tmp_path: Path) -> None:
    """The whole process group gets it, as at a terminal; the run goes on afterwards and loses at most a chunk."""
    out = tmp_path / "out"
    first = toy.start(*RUN, "--panel", "quick", "--stages", "verification", "--out", out)
    try:
        wait_for(first, out / "units" / "verify" / "v1" / "0000.json")
        os.killpg(first.pid, signal.SIGINT)
        _, err = first.communicate(timeout=30)
    finally:
        first.kill()
    assert first.returncode == 130 and "what was finished is kept" in err and "Traceback" not in err, err
    kept = (out / "journal.jsonl").read_bytes()
    again = toy.call("run", "--resume", out, "--json")
    assert again.status == 0, again.err
    assert [v["outcome"]["status"] for v in again.json["stage3"]["verifiers"]] == ["pass"] * 6
    assert (out / "journal.jsonl").read_bytes().startswith(kept)


def child_of(pid: int, word: str) -> int:
    """The first child of `pid` whose command line holds `word`; waits for it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):  # of each of its threads
            for child in children.read_text().split():
                if word in Path(f"/proc/{child}/cmdline").read_text():
                    return int(child)
        time.sleep(0.01)
    raise AssertionError(f"no {word} below {pid}")


def test_a_verifier_whose_process_dies_leaves_the_run_open_and_resuming_tries_it_again(
    toy: Toy, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    first = toy.start(*RUN, "--panel", "quick", "--stages", "verification", "--jobs", "1", "--out", out)
    try:
        wait_for(first, out / "units" / "build.json")
        os.kill(child_of(first.pid, "refactorbench.verification.child"), signal.SIGKILL)
        told, err = first.communicate(timeout=120)
    finally:
        first.kill()
    assert first.returncode == 3 and "verifier v1: " in err and "status -9" in err, err
    assert "ERROR    v1" in told and "--resume tries again what is open" in err
    (row,) = toy.here("report", out, "--json").json["runs"]
    assert row["graded"] is False and "verifier v1: " in row["cause"]
    before = json.loads((out / "units" / "verification.json").read_text())["verifiers"]["v2"]
    again = toy.call("run", "--resume", out, "--json")
    assert again.status == 0, again.err
    assert [v["outcome"]["status"] for v in again.json["stage3"]["verifiers"]] == ["pass"] * 6
    assert json.loads((out / "units" / "verification.json").read_text())["verifiers"]["v2"] == before
