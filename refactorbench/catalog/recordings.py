"""The store of recordings: recordings/<id>/manifest.json and one Parquet file (zstd) per module.

A row is one check with State A's observation, both as canonical msgpack beside their digests. The same rows written by
the same DuckDB release give the same bytes; across releases they may not, so the manifest holds digests over the rows
beside those of the files. Loading validates everything; reading goes in blocks, so memory doesn't grow with the number
of checks.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import duckdb
import msgspec

from refactorbench.catalog.models import LoadedTask, Manifest, ModuleEntry
from refactorbench.errors import TaskError
from refactorbench.hashing import sha256_file
from refactorbench.journal import write_json
from refactorbench.observe.model import Check, Observation, decode_check, decode_observation, encode
from refactorbench.observe.rules import find

BLOCK = 256  # rows in memory while reading
COLUMNS = {
    "id": "VARCHAR",
    "seq": "INTEGER",
    "input_sha256": "VARCHAR",
    "check": "BLOB",
    "observation": "BLOB",
    "observation_sha256": "VARCHAR",
}
_LOCK = threading.Lock()
_MODULE = re.compile(r"[a-z0-9][a-z0-9_-]*")
_NAMES = ", ".join(f'"{c}"' for c in COLUMNS)


class Row(msgspec.Struct, frozen=True):
    """One recorded check; `seq` is its place in the module, from 0."""

    seq: int
    check: Check
    observation: Observation
    input_sha256: str
    observation_sha256: str

    @property
    def fingerprint(self) -> str:
        """A line that changes with the id, the input or the answer."""
        return f"{self.check.id}\0{self.input_sha256}\0{self.observation_sha256}\n"


def make_row(seq: int, check: Check, observation: Observation) -> Row:
    observation = msgspec.structs.replace(observation, wall_ms=0)  # measured, so it would differ in every recording
    return Row(seq, check, observation, check.input_digest(), observation.digest())


class Digests:
    """The manifest's two digests of a module, built row by row in their order."""

    def __init__(self) -> None:
        self._checks, self._observations = hashlib.sha256(), hashlib.sha256()

    def add(self, row: Row) -> None:
        self._checks.update(f"{row.check.id}\0{row.input_sha256}\n".encode())
        self._observations.update(f"{row.observation_sha256}\n".encode())

    def values(self) -> tuple[str, str]:
        return self._checks.hexdigest(), self._observations.hexdigest()


@functools.cache
def _database(pid: int) -> Any:
    # one thread: rows keep their order and files their bytes; no extension is ever looked for elsewhere
    config: dict[str, str | bool | int | float | list[str]] = {"threads": 1, "autoinstall_known_extensions": False}
    db = duckdb.connect(":memory:", config=config)
    with contextlib.suppress(duckdb.Error):  # older releases have no such cache
        db.execute("SET enable_external_file_cache = false")
    return db


def _connect() -> Any:
    """Return a connection of its own to this process's in-memory database (starting one costs 20 ms)."""
    with _LOCK:
        return _database(os.getpid()).cursor()


def _literal(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _pattern(path: Path) -> str:
    """Return `path` with glob characters taken literally."""
    return re.sub(r"[*?\[]", r"[\g<0>]", str(path))


class Recording(msgspec.Struct, frozen=True):
    """A validated recording. `warnings` are sentences for the report, e.g. that another executor recorded it."""

    folder: Path
    manifest: Manifest
    warnings: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return sum(m.checks for m in self.manifest.modules)

    def entry(self, module: str) -> ModuleEntry:
        for entry in self.manifest.modules:
            if entry.id == module:
                return entry
        raise TaskError(f"module '{module}' isn't in {self.folder / 'manifest.json'}: name one that is recorded")

    def rows(self, module: str, start: int = 0, stop: int | None = None) -> Iterator[Row]:
        """Yield the module's rows with start <= seq < stop, in order; BLOCK rows are in memory at a time."""
        entry = self.entry(module)
        end = entry.checks if stop is None else min(stop, entry.checks)
        db = _connect()
        try:
            for low in range(start, end, BLOCK):
                yield from _block(db, self.folder / entry.file, low, min(low + BLOCK, end))
        finally:
            db.close()

    def fingerprints(self, module: str, start: int = 0, stop: int | None = None) -> Iterator[tuple[str, str]]:
        """Yield (id, fingerprint) of the same rows without reading checks and observations."""
        entry = self.entry(module)
        end = entry.checks if stop is None else min(stop, entry.checks)
        sql = "SELECT id, input_sha256, observation_sha256 FROM read_parquet(?) WHERE seq >= ? AND seq < ? ORDER BY seq"
        path = self.folder / entry.file
        db = _connect()
        try:
            for id_, i, o in _fetch(db, path, sql, [_pattern(path), start, end]):
                yield id_, f"{id_}\0{i}\0{o}\n"
        finally:
            db.close()

    def ids(self, module: str) -> Iterator[str]:
        return (id_ for id_, _ in self.fingerprints(module))


def _fetch(db: Any, path: Path, sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
    try:
        rows: list[tuple[Any, ...]] = db.execute(sql, parameters).fetchall()
        return rows
    except duckdb.Error as e:
        _refuse(path, f"can't be read ({str(e).splitlines()[0][:200]})")


def _refuse(path: Path, what: str, remedy: str = "restore it, or record the task again") -> NoReturn:
    raise TaskError(f"{path}: {what}; its checks can't be replayed: {remedy}")


def _block(db: Any, path: Path, low: int, high: int) -> Iterator[Row]:
    sql = f"SELECT {_NAMES} FROM read_parquet(?) WHERE seq >= ? AND seq < ? ORDER BY seq"
    found = _fetch(db, path, sql, [_pattern(path), low, high])
    if [r[1] for r in found] != list(range(low, high)):
        _refuse(path, f"key seq: {len(found)} rows between {low} and {high}, each number must occur once")
    for id_, seq, input_sha256, check, observation, observation_sha256 in found:
        try:
            row = Row(seq, decode_check(check), decode_observation(observation), input_sha256, observation_sha256)
        except msgspec.MsgspecError as e:
            _refuse(path, f"check {id_}: damaged row ({e})")
        if row.check.id != id_:
            _refuse(path, f"key id: the row of '{id_}' holds the check '{row.check.id}'")
        yield row


def write_recording(folder: Path, head: Manifest, rows: Iterable[tuple[Check, Observation]]) -> Manifest:
    """Write `rows` below `folder` and return the manifest: `head` with its modules and rules filled in.

    Modules stand in the order of their first check. TaskError for duplicate ids or inputs and unusable module names.
    The manifest is written last and older files are removed after it: an interrupted writing is refused when loaded.
    """
    modules: dict[str, list[Row]] = {}
    ids: set[str] = set()
    inputs: dict[str, str] = {}
    rules: dict[str, int] = {}
    for check, observation in rows:
        if not _MODULE.fullmatch(check.module):
            raise TaskError(f"check {check.id}: module '{check.module}' can't name a file: use a-z, 0-9, - and _")
        kept = modules.setdefault(check.module, [])
        row = make_row(len(kept), check, observation)
        if check.id in ids:
            raise TaskError(f"check id '{check.id}' occurs twice, so one result would hide the other: rename one")
        other = inputs.setdefault(row.input_sha256, check.id)
        if other != check.id:
            raise TaskError(f"checks '{other}' and '{check.id}' have the same input, counted twice: remove one")
        ids.add(check.id)
        for rule in check.rules:
            rules[rule] = rules.get(rule, 0) + 1
        kept.append(row)
    folder.mkdir(parents=True, exist_ok=True)
    entries = tuple(_write_module(folder, module, kept) for module, kept in modules.items())
    manifest = msgspec.structs.replace(head, modules=entries, rules=rules)
    write_json(folder / "manifest.json", manifest)
    for stale in set(folder.glob("*.parquet")) - {folder / e.file for e in entries}:
        stale.unlink()
    return manifest


def _write_module(folder: Path, module: str, rows: list[Row]) -> ModuleEntry:
    path, digests = folder / f"{module}.parquet", Digests()
    temp = path.with_suffix(".tmp")
    db = _connect()
    try:
        db.execute("CREATE TEMP TABLE r (" + ", ".join(f'"{c}" {kind} NOT NULL' for c, kind in COLUMNS.items()) + ")")
        for start in range(0, len(rows), BLOCK):
            values: list[object] = []
            for r in rows[start : start + BLOCK]:
                digests.add(r)
                values += [r.check.id, r.seq, r.input_sha256, encode(r.check), encode(r.observation)]
                values.append(r.observation_sha256)
            marks = ", ".join(["(?, ?, ?, ?, ?, ?)"] * (len(values) // len(COLUMNS)))
            db.execute(f"INSERT INTO r VALUES {marks}", values)
        db.execute(f"COPY r TO {_literal(temp)} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 2048)")
    finally:
        db.close()
    temp.replace(path)
    return ModuleEntry(module, path.name, sha256_file(path), len(rows), *digests.values())


def load_recording(loaded: LoadedTask, executor: str = "") -> Recording:
    """Read and validate the task's recording; every violation is a TaskError that names file, key and value.

    `executor` is this program's executor version: another one in the manifest gives a warning ("" compares nothing).
    """
    folder = loaded.recording
    path = folder / "manifest.json"
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except OSError as e:
        raise TaskError(
            f"{path}: {e.strerror}; task {loaded.task.id} has nothing to replay: restore it, or record the task"
        ) from e
    except msgspec.MsgspecError as e:
        raise TaskError(f"{path}: {e}; the recording can't be used: restore it, or record the task again") from e
    _check_manifest(path, manifest, loaded)
    recording = Recording(folder, manifest, tuple(_warnings(manifest, executor)))
    for entry in manifest.modules:
        _check_module(recording, entry)
    _check_unique(recording)
    return recording


def _warnings(manifest: Manifest, executor: str) -> Iterator[str]:
    if executor and manifest.executor != executor:
        yield f"recorded by executor {manifest.executor}, replayed by {executor}: replay State A to see if it matters"


def _check_manifest(path: Path, manifest: Manifest, loaded: LoadedTask) -> None:
    task = loaded.task
    again = "record the task again"
    if manifest.task != task.id:
        _refuse(path, f"key task: '{manifest.task}', but the folder belongs to '{task.id}'", "move it to its own task")
    if manifest.state_a_tree != task.state_a.tree_sha256:
        what = f"key state_a_tree: '{manifest.state_a_tree}', but task.toml pins '{task.state_a.tree_sha256}'"
        _refuse(path, what, f"another State A answered, {again}")
    if not manifest.executor:
        _refuse(path, "key executor: '', but it must say which version recorded", again)
    names = [m.id for m in manifest.modules]
    for m in manifest.modules:
        if not _MODULE.fullmatch(m.id) or m.file != f"{m.id}.parquet" or names.count(m.id) > 1:
            _refuse(path, f"key modules: '{m.id}' in file '{m.file}' is named twice or isn't <module>.parquet", again)
    total = sum(m.checks for m in manifest.modules)
    if total < max(1, task.minimum_checks):
        what = f"key modules: {total} checks, but task.toml asks for minimum_checks = {max(1, task.minimum_checks)}"
        _refuse(path, what, "generate more checks and record again")
    for m in manifest.modules:
        if m.checks < 1 or m.checks > task.largest_module_share * total:
            allowed = f"1 up to the share largest_module_share = {task.largest_module_share}"
            what = f"module '{m.id}': {m.checks} of {total} checks, allowed are {allowed}"
            _refuse(path, what, "divide the module or widen the others, and record again")
    listed = {m.file for m in manifest.modules}
    stray = sorted(p.name for p in path.parent.glob("*.parquet") if p.name not in listed)
    if stray:
        _refuse(path.parent / stray[0], "isn't in manifest.json", "remove it, or restore the manifest that lists it")


def _check_module(recording: Recording, entry: ModuleEntry) -> None:
    path = recording.folder / entry.file
    try:
        digest = sha256_file(path)
    except OSError as e:
        _refuse(path, f"{e.strerror}, though manifest.json lists it")
    if digest != entry.file_sha256:
        _refuse(path, f"key file_sha256: the file has {digest}, the manifest says {entry.file_sha256}")
    db = _connect()
    try:
        described = _fetch(db, path, "DESCRIBE SELECT * FROM read_parquet(?)", [_pattern(path)])
        count = _fetch(db, path, "SELECT count(*) FROM read_parquet(?)", [_pattern(path)])[0][0]
    finally:
        db.close()
    if {r[0]: r[1] for r in described} != COLUMNS:
        found = ", ".join(f"{r[0]} {r[1]}" for r in described)
        _refuse(path, f"columns {found}; expected {', '.join(' '.join(c) for c in COLUMNS.items())}")
    if count != entry.checks:
        _refuse(path, f"key checks: {count} rows, the manifest says {entry.checks}")
    digests = Digests()
    for row in recording.rows(entry.id):
        _check_row(path, entry, row, recording.manifest)
        digests.add(row)
    for key, value in zip(("checks_sha256", "observations_sha256"), digests.values(), strict=True):
        if value != getattr(entry, key):
            _refuse(path, f"key {key}: the rows have {value}, the manifest says {getattr(entry, key)}")


def _check_row(path: Path, entry: ModuleEntry, row: Row, manifest: Manifest) -> None:
    check = row.check
    if check.module != entry.id:
        _refuse(path, f"check {check.id}: key module: '{check.module}', but the file holds '{entry.id}'")
    if check.id in manifest.dropped:
        _refuse(path, f"check {check.id}: recorded, though the manifest says that it was dropped")
    if check.input_digest() != row.input_sha256:
        what = f"check {check.id}: key input_sha256: '{row.input_sha256}', but the input has '{check.input_digest()}'"
        _refuse(path, what, "the input was edited after its answer was recorded: record the task again")
    if row.observation.digest() != row.observation_sha256:
        _refuse(path, f"check {check.id}: key observation_sha256: the answer was edited after it was recorded")
    for rule in check.rules:
        find(rule)


def _check_unique(recording: Recording) -> None:
    files = [_pattern(recording.folder / e.file) for e in recording.manifest.modules]
    db = _connect()
    try:
        for column, what in (("id", "two checks have the id"), ("input_sha256", "two checks have the input")):
            sql = f"SELECT {column}, list(id ORDER BY id) FROM read_parquet(?) GROUP BY {column} HAVING count(*) > 1"
            for value, ids in _fetch(db, recording.folder, sql, [files])[:1]:
                _refuse(recording.folder, f"{what} '{value}' ({', '.join(ids)})", "remove one and record again")
    finally:
        db.close()


def against_generator(recording: Recording, checks: Iterable[Check]) -> Iterator[str]:
    """Yield a sentence per mismatch between what the task generates and what is recorded or was dropped, both ways.

    Rules aren't compared: recording may have put some on a check.
    """
    bare = {}
    for entry in recording.manifest.modules:
        for row in recording.rows(entry.id):
            bare[row.check.id] = msgspec.structs.replace(row.check, rules=()).input_digest()
    left = set(bare)
    for check in checks:
        if check.id in recording.manifest.dropped:
            continue
        left.discard(check.id)
        if check.id not in bare:
            yield f"check {check.id} is generated, but neither recorded nor dropped"
        elif bare[check.id] != msgspec.structs.replace(check, rules=()).input_digest():
            yield f"check {check.id}: the generated input is not the one that was recorded"
    for id_ in sorted(left):
        yield f"check {id_} is recorded, but no longer generated"
