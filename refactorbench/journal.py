"""The run's journal: append-only, one JSON record a line, synced; whole files are written by temp, sync and rename.

A unit of work writes its result file first and then its record, so a record always points at a complete file. A torn
last line (a kill while appending) is cut off at the next opening.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from refactorbench.errors import HarnessError, UsageError

T = TypeVar("T")


def write_atomic(path: Path, data: bytes) -> None:
    """Replace `path` with `data`; after a kill at any instant it holds the old or the new content, whole."""
    temp = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temp.open("wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        temp.replace(path)
    except OSError as e:
        with contextlib.suppress(OSError):
            temp.unlink(missing_ok=True)
        raise HarnessError(
            f"cannot write {path}: {e.strerror}; what was there before is kept: free some space and resume"
        ) from e


def sweep_temporary(run: Path) -> None:
    """Remove what `write_atomic` left half-written in a run's folder and its units when its process was killed."""
    for path in (*run.glob(".*.tmp"), *(run / "units").rglob(".*.tmp")):
        path.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON with sorted keys, atomically."""
    raw = msgspec.json.encode(_plain(msgspec.to_builtins(value, order="sorted")))
    write_atomic(path, msgspec.json.format(raw, indent=1) + b"\n")


def read_json(path: Path, kind: type[T]) -> T:
    """Read `path` as `kind`; UsageError names the file and what is wrong with it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}") from e
    except msgspec.MsgspecError as e:
        raise UsageError(f"{path} is damaged: {e}; restore it, or start the run anew in another directory") from e


class Record(msgspec.Struct, frozen=True):
    """`unit` names the work (e.g. "build", "replay/levels", "verify/v1/003"); `data` is small."""

    unit: str
    at: float
    data: dict[str, Any] = {}


class Journal:
    """Open a run's journal for one process; a second process is refused while the first holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b", buffering=0)  # what a failed write leaves must not be written later
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            self._file.close()
            raise UsageError(f"{path.parent} is in use by another process: wait for it, or give another --out") from e
        try:
            self._records: dict[str, Record] = {}
            for record in self._load():
                self._keep(record)
        except BaseException:
            self._file.close()
            raise

    def _load(self) -> Iterator[Record]:
        self._file.seek(0)
        lines = self._file.readall().split(b"\n")
        good = 0
        for line in lines[:-1]:
            try:
                record = msgspec.json.decode(line, type=Record)
            except msgspec.MsgspecError:
                raise UsageError(
                    f"{self.path} is damaged at byte {good}: start the run anew in another directory"
                ) from None
            good += len(line) + 1
            yield record
        self._file.truncate(good)

    def _keep(self, record: Record) -> None:
        self._records.pop(record.unit, None)  # a unit that was done again stands at its later place
        self._records[record.unit] = record

    def done(self, unit: str) -> Record | None:
        return self._records.get(unit)

    def outdated(self, unit: str, inputs: Iterable[str]) -> bool:
        """True when one of `inputs` was done, or done again, after `unit`, which therefore rests on what is no more."""
        places = {name: n for n, name in enumerate(self._records)}
        return any(places.get(name, -1) > places.get(unit, -1) for name in inputs)

    def units(self, prefix: str) -> list[str]:
        """Names of finished units that start with `prefix`, sorted."""
        return sorted(u for u in self._records if u.startswith(prefix))

    def append(self, record: Record) -> None:
        """Append and sync; when this returns the record survives a kill and a power cut."""
        line = memoryview(msgspec.json.encode(record) + b"\n")
        size = os.fstat(self._file.fileno()).st_size
        try:
            while line:
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except OSError as e:
            with contextlib.suppress(OSError):
                self._file.truncate(size)
            raise HarnessError(f"cannot write {self.path}: {e.strerror}; free some space and resume") from e
        self._keep(record)

    def close(self) -> None:
        self._file.close()


def _plain(value: Any) -> Any:
    """Names of submitted files may hold bytes that are no UTF-8: JSON gets them escaped."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode() if not value.isascii() else value
    if isinstance(value, dict):
        return {_plain(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value
