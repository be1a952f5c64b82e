import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refactorbench.errors import HarnessError, UsageError
from refactorbench.journal import Journal, Record, read_json, write_atomic, write_json


def fill(path: Path, n: int) -> bytes:
    journal = Journal(path)
    for i in range(n):
        journal.append(Record(f"unit/{i}", float(i), {"i": i}))
    journal.close()
    return path.read_bytes()


def test_what_was_appended_is_there_after_reopening(tmp_path: Path) -> None:
    fill(tmp_path / "j", 3)
    journal = Journal(tmp_path / "j")
    assert journal.done("unit/1") == Record("unit/1", 1.0, {"i": 1})
    assert journal.done("unit/3") is None


def test_the_last_record_of_a_unit_counts(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    for i in (1, 2):
        journal.append(Record("unit", float(i), {"try": i}))
    journal.close()
    found = Journal(tmp_path / "j").done("unit")
    assert found is not None and found.data == {"try": 2}


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_torn_last_line_is_cut_off_and_what_follows_is_sound(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "j"
    whole = fill(path, 3)
    path.write_bytes(whole[:-cut])
    journal = Journal(path)
    assert journal.done("unit/1") is not None and journal.done("unit/2") is None
    journal.append(Record("unit/2", 2.0, {"i": 2}))
    journal.close()
    assert path.read_bytes() == whole


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 5), st.data())
def test_any_prefix_of_a_journal_is_a_journal(
    tmp_path_factory: pytest.TempPathFactory, n: int, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("j") / "j"
    whole = fill(path, n)
    size = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:size])
    journal = Journal(path)
    complete = whole[:size].count(b"\n")
    assert [journal.done(f"unit/{i}") is not None for i in range(n)] == [i < complete for i in range(n)]
    journal.close()


def test_damage_before_the_end_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "j"
    lines = fill(path, 3).splitlines(keepends=True)
    damaged = lines[0] + b"garbage\n" + lines[2]
    path.write_bytes(damaged)
    with pytest.raises(UsageError, match=f"damaged at byte {len(lines[0])}.*another directory"):
        Journal(path)
    assert path.read_bytes() == damaged


def _hold(path: str, ready: "multiprocessing.synchronize.Event") -> None:
    journal = Journal(Path(path))
    ready.set()
    signal.pause()
    journal.close()


def test_a_second_process_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    path = tmp_path / "j"
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(str(path), ready))
    holder.start()
    try:
        assert ready.wait(30)
        with pytest.raises(UsageError, match="in use by another process"):
            Journal(path)
    finally:
        assert holder.pid is not None
        os.kill(holder.pid, signal.SIGKILL)
        holder.join()
    Journal(path).close()  # a kill releases it


def test_a_refused_journal_can_be_opened_after_it_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(b"garbage\n")
    with pytest.raises(UsageError):
        Journal(path)
    path.write_bytes(b"")
    Journal(path).close()


def limited(code: str, *args: str, size: int = 4096) -> subprocess.CompletedProcess[str]:
    """Run `code` in a process whose files can't grow beyond `size` bytes, as on a full disk."""
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )


def test_disk_full_while_replacing_keeps_the_old_file_and_leaves_no_other(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    target.write_bytes(b"old")
    code = (
        "import sys; from pathlib import Path; from refactorbench.journal import write_atomic\n"
        "from refactorbench.errors import HarnessError\n"
        "try: write_atomic(Path(sys.argv[1]), bytes(int(sys.argv[2])))\n"
        "except HarnessError as e: print(e)"
    )
    done = limited(code, str(target), "8192")
    assert "what was there before is kept" in done.stdout and str(target) in done.stdout, done.stderr
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]
    assert limited(code, str(target), "4096").stdout == ""  # within the limit it works
    assert target.stat().st_size == 4096


def test_disk_full_while_appending_loses_only_that_record(tmp_path: Path) -> None:
    path = tmp_path / "j"
    code = (
        "import sys; from pathlib import Path; from refactorbench.journal import Journal, Record\n"
        "from refactorbench.errors import HarnessError\n"
        "journal = Journal(Path(sys.argv[1]))\n"
        "journal.append(Record('small', 1.0))\n"
        "try: journal.append(Record('large', 2.0, {'x': 'y' * 9000}))\n"
        "except HarnessError as e: print(e)\n"
        "journal.append(Record('next', 3.0)); journal.close()"
    )
    done = limited(code, str(path))
    assert "free some space and resume" in done.stdout, done.stderr
    journal = Journal(path)
    assert [journal.done(u) is not None for u in ("small", "large", "next")] == [True, False, True]


def test_a_kill_while_replacing_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    target = tmp_path / "f"
    code = (
        "import sys; from pathlib import Path; from refactorbench.journal import write_atomic\n"
        "print('go', flush=True)\n"
        "while True:\n"
        "    for c in b'ab': write_atomic(Path(sys.argv[1]), bytes([c]) * 200_000)"
    )
    for _ in range(5):
        writer = subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE)
        assert writer.stdout is not None and writer.stdout.readline() == b"go\n"
        while not target.exists():
            pass
        writer.kill()
        writer.wait()
        writer.stdout.close()
        assert target.read_bytes() in (b"a" * 200_000, b"b" * 200_000)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HarnessError, match=r"cannot write .*file/below"):
        write_atomic(tmp_path / "file" / "below", b"")


def test_json_round_trip_is_sorted_and_ends_with_a_newline(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.json"
    write_json(path, {"b": 1, "a": [1.5, None]})
    assert path.read_bytes() == b'{\n "a": [\n  1.5,\n  null\n ],\n "b": 1\n}\n'
    assert read_json(path, dict) == {"a": [1.5, None], "b": 1}


class Shape(msgspec.Struct, forbid_unknown_fields=True):
    n: int


@pytest.mark.parametrize("raw", [b"", b"{", b'{"n": "1"}', b'{"n": 1, "m": 2}'])
def test_reading_what_is_not_the_shape_names_the_file(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(raw)
    with pytest.raises(UsageError, match=r"x\.json is damaged"):
        read_json(path, Shape)
    path.write_bytes(b'{"n": 1}')
    assert read_json(path, Shape) == Shape(1)


def test_reading_what_is_not_there_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*x\.json: No such file"):
        read_json(tmp_path / "x.json", Shape)


def test_a_unit_is_outdated_when_an_input_was_done_after_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    for unit in ("build", "replay", "audit"):
        journal.append(Record(unit, 0.0))
    assert not journal.outdated("audit", ("build", "replay", "absent")) and not journal.outdated("build", ("agent",))
    journal.append(Record("replay", 1.0))
    journal.close()
    again = Journal(tmp_path / "j")
    assert again.outdated("audit", ("build", "replay")) and not again.outdated("audit", ("build",))
    again.append(Record("audit", 2.0))
    assert not again.outdated("audit", ("build", "replay"))


def test_a_file_name_that_is_no_text_is_stored_escaped_and_text_as_it_is(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"name": "a\udcfe", "list": ["é", ("\udcff",)], "n": 1})
    assert read_json(tmp_path / "x.json", dict) == {"name": "a\\udcfe", "list": ["é", ["\\udcff"]], "n": 1}
