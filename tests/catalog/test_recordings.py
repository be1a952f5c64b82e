import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import msgspec
import pytest

from refactorbench.catalog.models import (
    Briefs,
    Criteria,
    LoadedTask,
    Manifest,
    OldStack,
    Recipe,
    Runtime,
    Scope,
    StateASource,
    Task,
)
from refactorbench.catalog.recordings import (
    COLUMNS,
    Digests,
    against_generator,
    load_recording,
    make_row,
    write_recording,
)
from refactorbench.errors import TaskError
from refactorbench.hashing import sha256_file
from refactorbench.journal import write_json
from refactorbench.observe.model import Check, Observation, encode
from refactorbench.sandbox.protocol import Limits

TREE = "a" * 64
HEAD = Manifest(
    "refactorbench.recording/1", "t", TREE, "1", 7, (), ("plain", "reversed", "other"), {"m/gone": "moved"}, {}, {}
)
Pairs = list[tuple[Check, Observation]]


def pair(id_: str, module: str, word: bytes, *, size: int = 0) -> tuple[Check, Observation]:
    return Check(id_, module, "process", "bin/tool", (b"tool", word)), Observation(
        "exit", 0, word + bytes(size), b"", ()
    )


def pairs(per_module: int = 3, size: int = 0) -> Pairs:
    return [pair(f"{m}/{i}", m, f"{m}{i}".encode(), size=size) for m in ("m", "n") for i in range(per_module)]


def task_at(root: Path, **fields: object) -> LoadedTask:
    source = StateASource("debian-source", "p", "1", "bookworm", "p.tar.gz", "0" * 64, TREE)
    recipe = Recipe("build.sh", {"bin/tool": "tool"}, ("gcc",))
    task = Task(
        "refactorbench.task/1", "t", "T", "language", "C", "Rust", 1.0, "admitted", source, recipe, recipe,
        Runtime(()), Limits(), OldStack(("gcc",), (".c",)), "checks/generate.py",
    )  # fmt: skip
    criteria, briefs = (
        Criteria("refactorbench.criteria/1", "t", ()),
        Briefs("refactorbench.verifiers/1", "t", "t.py", Scope((), ()), ()),
    )
    return LoadedTask(root, msgspec.structs.replace(task, **fields), criteria, briefs, "")


def edit_manifest(loaded: LoadedTask, change: Callable[[Manifest], Manifest]) -> None:
    path = loaded.recording / "manifest.json"
    write_json(path, change(msgspec.json.decode(path.read_bytes(), type=Manifest)))


def rewrite(loaded: LoadedTask, module: str, rows: list[tuple[object, ...]], columns: dict[str, str] = COLUMNS) -> None:
    """Replace a module's file by arbitrary rows and make the manifest's file digest and count agree with it."""
    path = loaded.recording / f"{module}.parquet"
    db = duckdb.connect()
    db.execute("CREATE TABLE r (" + ", ".join(f'"{c}" {k}' for c, k in columns.items()) + ")")
    db.executemany(f"INSERT INTO r VALUES ({', '.join('?' * len(columns))})", rows)
    db.execute(f"COPY r TO '{path}' (FORMAT parquet)")
    digest = sha256_file(path)

    def change(m: Manifest) -> Manifest:
        entries = [
            msgspec.structs.replace(e, file_sha256=digest, checks=len(rows)) if e.id == module else e for e in m.modules
        ]
        return msgspec.structs.replace(m, modules=tuple(entries))

    edit_manifest(loaded, change)


def raw(seq: int, c: Check, observation: Observation, **fields: object) -> tuple[object, ...]:
    row = make_row(seq, c, observation)
    values: dict[str, object] = {
        "id": c.id,
        "seq": seq,
        "input_sha256": row.input_sha256,
        "check": encode(c),
        "observation": encode(row.observation),
        "observation_sha256": row.observation_sha256,
    }
    return tuple((values | fields).values())


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedTask:
    loaded = task_at(tmp_path)
    write_recording(loaded.recording, HEAD, pairs())
    return loaded


def test_what_is_written_is_read_in_order_without_the_time_it_took(loaded: LoadedTask) -> None:
    slow = [(c, msgspec.structs.replace(o, wall_ms=50)) for c, o in pairs()]
    write_recording(loaded.recording, HEAD, slow)
    recording = load_recording(loaded, "1")
    assert recording.total == 6 and recording.warnings == ()
    assert [(r.check, r.observation) for m in ("m", "n") for r in recording.rows(m)] == pairs()
    assert list(recording.ids("n")) == ["n/0", "n/1", "n/2"]
    assert [r.seq for r in recording.rows("m", 1, 9)] == [1, 2]
    assert [f for _, f in recording.fingerprints("m", 1)] == [r.fingerprint for r in recording.rows("m", 1)]


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    one, two = (write_recording(tmp_path / name, HEAD, pairs(700)) for name in "ab")
    assert one == two
    assert (tmp_path / "a/m.parquet").read_bytes() == (tmp_path / "b/m.parquet").read_bytes()
    three = write_recording(tmp_path / "c", HEAD, pairs(699))
    assert three.modules[0].file_sha256 != one.modules[0].file_sha256


def test_modules_that_are_gone_leave_no_file(loaded: LoadedTask) -> None:
    write_recording(loaded.recording, HEAD, pairs()[:3])
    assert [p.name for p in loaded.recording.glob("*.parquet")] == ["m.parquet"]
    assert load_recording(loaded).total == 3


def test_paths_with_glob_characters_and_quotes_are_taken_literally(tmp_path: Path) -> None:
    loaded = task_at(tmp_path / "it's [a] *?")
    write_recording(loaded.recording, HEAD, pairs())
    assert load_recording(loaded).total == 6


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([pair("m/0", "m", b"a"), pair("m/0", "m", b"b")], "'m/0' occurs twice"),
        ([pair("m/0", "m", b"a"), pair("m/1", "m", b"a")], "same input"),
        ([pair("m/0", "../m", b"a")], "can't name a file"),
    ],
)
def test_writing_refuses_what_loading_would_refuse(tmp_path: Path, rows: Pairs, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        write_recording(tmp_path, HEAD, rows)


def test_another_executor_is_a_warning_and_no_error(loaded: LoadedTask) -> None:
    assert "executor 1" in load_recording(loaded, "2").warnings[0]
    assert load_recording(loaded).warnings == ()


def test_duplicate_ids_are_refused(loaded: LoadedTask) -> None:
    twice = [raw(0, *pair("m/0", "m", b"a")), raw(1, *pair("m/0", "m", b"b"))]
    rewrite_with_digests(loaded, twice)
    with pytest.raises(TaskError, match="two checks have the id 'm/0'"):
        load_recording(loaded)


def test_two_checks_with_one_input_are_refused(loaded: LoadedTask) -> None:
    rewrite_with_digests(loaded, [raw(0, *pair("m/0", "m", b"a")), raw(1, *pair("m/1", "m", b"a"))])
    with pytest.raises(TaskError, match=r"two checks have the input .*m/0, m/1"):
        load_recording(loaded)


def rewrite_with_digests(loaded: LoadedTask, rows: list[tuple[object, ...]]) -> None:
    rewrite(loaded, "m", rows)
    digests = Digests()
    for id_, seq, i, _, _, o in rows:
        check, seen = pair(str(id_), "m", b"")
        digests.add(msgspec.structs.replace(make_row(0, check, seen), seq=seq, input_sha256=i, observation_sha256=o))

    def change(m: Manifest) -> Manifest:
        first = msgspec.structs.replace(
            m.modules[0], checks_sha256=digests.values()[0], observations_sha256=digests.values()[1]
        )
        return msgspec.structs.replace(m, modules=(first, *m.modules[1:]))

    edit_manifest(loaded, change)


def test_an_honest_rewrite_is_accepted(loaded: LoadedTask) -> None:
    rewrite_with_digests(loaded, [raw(i, *pair(f"m/{i}", "m", b"%d" % i)) for i in range(2)])
    assert load_recording(loaded).total == 5


ROWS = [pair(f"m/{i}", "m", f"m{i}".encode()) for i in range(3)]
EDITED = pair("m/0", "m", b"edited")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            raw(0, EDITED[0], ROWS[0][1], input_sha256=ROWS[0][0].input_digest()),
            "input_sha256.*edited after its answer",
        ),
        (raw(0, ROWS[0][0], EDITED[1], observation_sha256=ROWS[0][1].digest()), "answer was edited"),
        (raw(0, *pair("m/0", "n", b"m0")), "key module: 'n'"),
        (raw(0, *pair("m/gone", "m", b"m0")), "says that it was dropped"),
        (raw(0, *ROWS[0], id="m/x"), "key id: the row of 'm/x' holds the check 'm/0'"),
        (raw(1, *ROWS[0]), "key seq"),
        (raw(0, *ROWS[0], check=b"\x00"), "damaged row"),
        (raw(0, *EDITED), "key checks_sha256"),
        (raw(0, ROWS[0][0], EDITED[1]), "key observations_sha256"),
        (raw(0, msgspec.structs.replace(ROWS[0][0], rules=("mtime-ani",)), ROWS[0][1]), "did you mean 'mtime-any'"),
    ],
)
def test_rows_that_disagree_with_themselves_or_the_manifest_are_refused(
    loaded: LoadedTask, row: tuple[object, ...], message: str
) -> None:
    rest = [raw(i, *ROWS[i]) for i in (1, 2)]
    rewrite(loaded, "m", [raw(0, *ROWS[0]), *rest])
    assert load_recording(loaded).total == 6
    rewrite(loaded, "m", [row, *rest])
    with pytest.raises(TaskError, match=message):
        load_recording(loaded)


def test_other_columns_are_refused(loaded: LoadedTask) -> None:
    rewrite(loaded, "m", [("m/0", 0)], {"id": "VARCHAR", "seq": "BIGINT"})
    with pytest.raises(TaskError, match="columns id VARCHAR, seq BIGINT; expected"):
        load_recording(loaded)


def test_a_cut_module_is_refused_and_not_a_smaller_denominator(loaded: LoadedTask) -> None:
    rewrite(loaded, "m", [raw(0, *ROWS[0])])
    with pytest.raises(TaskError, match="checks_sha256"):
        load_recording(loaded)
    edit_manifest(
        loaded,
        lambda m: msgspec.structs.replace(m, modules=(msgspec.structs.replace(m.modules[0], checks=3), m.modules[1])),
    )
    with pytest.raises(TaskError, match="key checks: 1 rows, the manifest says 3"):
        load_recording(loaded)


def test_changed_files_are_refused_by_digest_and_corrupt_ones_by_reading(loaded: LoadedTask) -> None:
    path = loaded.recording / "m.parquet"
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"\xff" + data[101:])
    with pytest.raises(TaskError, match=r"m\.parquet: key file_sha256"):
        load_recording(loaded)
    path.write_bytes(b"PAR1 this is not parquet PAR1")
    digest = sha256_file(path)
    edit_manifest(
        loaded,
        lambda m: msgspec.structs.replace(
            m, modules=(msgspec.structs.replace(m.modules[0], file_sha256=digest), m.modules[1])
        ),
    )
    with pytest.raises(TaskError, match=r"m\.parquet: can't be read.*replayed: restore it"):
        load_recording(loaded)
    path.unlink()
    with pytest.raises(TaskError, match=r"No such file.*though manifest"):
        load_recording(loaded)


def test_a_stray_module_file_is_refused(loaded: LoadedTask) -> None:
    (loaded.recording / "z.parquet").write_bytes(b"")
    with pytest.raises(TaskError, match=r"z\.parquet: isn't in manifest\.json"):
        load_recording(loaded)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"minimum_checks": 7}, "6 checks, but task.toml asks for minimum_checks = 7"),
        ({"largest_module_share": 0.4}, "3 of 6 checks.*largest_module_share = 0.4"),
        ({"id": "u"}, "nothing to replay"),
    ],
)
def test_the_tasks_bars_hold(loaded: LoadedTask, fields: dict[str, object], message: str) -> None:
    assert load_recording(task_at(loaded.root, minimum_checks=6, largest_module_share=0.5)).total == 6
    with pytest.raises(TaskError, match=message):
        load_recording(task_at(loaded.root, **fields))


def test_another_state_a_is_refused(loaded: LoadedTask) -> None:
    edit_manifest(loaded, lambda m: msgspec.structs.replace(m, state_a_tree="b" * 64))
    with pytest.raises(TaskError, match=r"state_a_tree: 'bbb.*pins 'aaa.*record the task again"):
        load_recording(loaded)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: msgspec.structs.replace(m, task="u"), "key task: 'u'"),
        (lambda m: msgspec.structs.replace(m, executor=""), "key executor"),
        (lambda m: msgspec.structs.replace(m, modules=(m.modules[0], m.modules[0])), "named twice"),
        (lambda m: msgspec.structs.replace(m, modules=()), "0 checks"),
    ],
)
def test_manifests_that_cant_be_true_are_refused(
    loaded: LoadedTask, change: Callable[[Manifest], Manifest], message: str
) -> None:
    edit_manifest(loaded, change)
    with pytest.raises(TaskError, match=message):
        load_recording(loaded)


def test_a_damaged_manifest_and_unknown_keys_are_refused(loaded: LoadedTask) -> None:
    path = loaded.recording / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"seed"', b'"sead"'))
    with pytest.raises(TaskError, match=r"unknown field `sead`"):
        load_recording(loaded)


def test_the_generator_is_compared_both_ways(loaded: LoadedTask) -> None:
    recording = load_recording(loaded)
    made = [c for c, _ in pairs()]
    dropped = Check("m/gone", "m", "process", "bin/tool", (b"tool",))
    ruled = msgspec.structs.replace(made[1], rules=("mtime-any",))
    assert list(against_generator(recording, [made[0], ruled, *made[2:], dropped])) == []
    edited = msgspec.structs.replace(made[0], stdin=b"x")
    new = Check("m/new", "m", "process", "bin/tool", (b"new",))
    problems = list(against_generator(recording, [edited, *made[1:5], new]))
    assert [p.split(" ")[1].rstrip(":") for p in problems] == ["m/0", "m/new", "n/2"]


READ = r"""
import re, sys, msgspec
from pathlib import Path
from refactorbench.catalog.models import Manifest
from refactorbench.catalog.recordings import Recording
folder = Path(sys.argv[1])
recording = Recording(folder, msgspec.json.decode((folder / "manifest.json").read_bytes(), type=Manifest))
assert sum(len(r.observation.stdout) for r in recording.rows("m")) > int(sys.argv[2])
print(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])  # of this program, not of its parent
"""


def test_memory_while_reading_is_flat_in_the_number_of_checks(tmp_path: Path) -> None:
    def peak(checks: int) -> int:
        folder = tmp_path / str(checks)
        write_recording(folder, HEAD, [pair(f"m/{i}", "m", b"%d" % i, size=10_000) for i in range(checks)])
        argv = [sys.executable, "-c", READ, str(folder), str(checks * 10_000)]
        return int(subprocess.run(argv, check=True, capture_output=True).stdout)

    few, many = peak(2048), peak(12288)  # one and six row groups, 20 MB and 123 MB of answers
    assert many - few < 50_000  # KiB: half of what keeping them would take
