"""Frames: what goes out is what the worker will read, and a broken answer is never an observation."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactorbench.errors import HarnessError, TaskError
from refactorbench.observe.model import INPUT_MTIME, Check, InputFile, Observation, OutputFile
from refactorbench.observe.wire import WIRE_VERSION, decode_response, encode_request

text = st.binary(max_size=20).map(lambda raw: raw.replace(b"\0", b"."))
names = st.lists(st.sampled_from([b"a", b"b", b"\xff", b" "]), min_size=1, max_size=3).map(b"/".join)
observations = st.builds(
    Observation,
    ended=st.sampled_from(["exit", "signal", "limit"]),
    code=st.integers(-(2**31), 2**31 - 1),
    stdout=st.binary(max_size=50),
    stderr=st.binary(max_size=50),
    files=st.lists(
        st.builds(
            OutputFile,
            path=names,
            kind=st.sampled_from(["file", "dir", "link", "fifo", "other"]),
            mode=st.integers(0, 0o7777),
            mtime=st.integers(-(2**63), 2**63 - 1),
            data=st.binary(max_size=30),
            target=text,
        ),
        max_size=4,
    ).map(tuple),
    limit=st.sampled_from(["", "wall", "cpu", "output", "memory", "disk"]),
    wall_ms=st.integers(0, 2**32 - 1),
)


def answer(seen: Observation) -> bytes:
    """The frame that the worker would send, written independently of the decoder."""
    ended = ["exit", "signal", "limit", "launch"].index(seen.ended)
    out = struct.pack("<IIiI", 0, ended, seen.code, seen.wall_ms)
    out += struct.pack("<III", len(seen.stdout), len(seen.stderr), len(seen.files))
    out += seen.limit.encode().ljust(8, b"\0") + seen.stdout + seen.stderr
    for f in seen.files:
        kind = ["file", "dir", "link", "fifo", "other"].index(f.kind)
        out += struct.pack("<IIIII", kind, f.mode, len(f.path), len(f.target), len(f.data))
        out += struct.pack("<q", f.mtime) + f.path + f.target + f.data
    return out


class Reader:
    """Reads a request the way worker_wire.h does."""

    def __init__(self, frame: bytes) -> None:
        (size,) = struct.unpack_from("<I", frame)
        assert size == len(frame) - 4
        self.rest = frame[4:]

    def number(self, form: str = "<I") -> int:
        size = struct.calcsize(form)
        (value,) = struct.unpack(form, self.rest[:size])
        self.rest = self.rest[size:]
        return int(value)

    def blob(self) -> bytes:
        size = self.number()
        data, end, self.rest = self.rest[:size], self.rest[size], self.rest[size + 1 :]
        assert end == 0
        return data

    def blobs(self) -> list[bytes]:
        return [self.blob() for _ in range(self.number())]


@given(observations)
def test_an_answer_is_read_as_it_was_sent(seen: Observation) -> None:
    assert decode_response(memoryview(answer(seen)), "m/x") == seen


@given(observations, st.data())
def test_a_cut_or_longer_answer_is_the_harness_s_error(seen: Observation, data: st.DataObject) -> None:
    whole = answer(seen)
    cut = data.draw(st.integers(4, len(whole) - 1))
    for broken in (whole[:cut], whole + b"\0"):
        with pytest.raises(HarnessError, match="m/x"):
            decode_response(memoryview(broken), "m/x")


def test_an_unknown_end_or_kind_is_the_harness_s_error() -> None:
    seen = Observation("exit", 0, b"", b"", (OutputFile(b"a", "file", 0, 0),))
    for at, value in ((4, 9), (36, 9)):
        broken = bytearray(answer(seen))
        broken[at] = value
        with pytest.raises(HarnessError, match="broken"):
            decode_response(memoryview(broken), "m/x")


def test_a_failure_that_the_worker_reports_is_the_harness_s_error() -> None:
    with pytest.raises(HarnessError, match="no room; run it again"):
        decode_response(memoryview(b"\1\0\0\0no room"), "m/x")


def test_a_failed_start_carries_its_reason() -> None:
    raw = answer(Observation("launch", 8, b"", b"", ()))
    assert decode_response(memoryview(raw), "m/x").limit == "Exec format error"


@given(
    argv=st.lists(text, max_size=4).map(tuple),
    stdin=st.binary(max_size=40),
    env=st.lists(st.tuples(st.sampled_from([b"A", b"PATH"]), text), max_size=2, unique_by=lambda p: p[0]).map(tuple),
    paths=st.lists(names, max_size=4, unique=True),
    data=st.binary(max_size=40),
)
def test_a_request_holds_the_check_with_every_directory_before_its_files(
    argv: tuple[bytes, ...], stdin: bytes, env: tuple[tuple[bytes, bytes], ...], paths: list[bytes], data: bytes
) -> None:
    files = [InputFile(p, data, 0o640, mtime=7) for p in paths if not any(q.startswith(p + b"/") for q in paths)]
    made = Check("m/x", "m", "process", "bin/p", argv, stdin, tuple(files), env, stdout="full", stdin_kind="file")
    reader = Reader(encode_request(made, {b"PATH": b"/base", b"Z": b"1"}))
    assert [reader.number() for _ in range(3)] == [WIRE_VERSION, 2, 1]
    assert [reader.blob(), reader.blob(), reader.blobs()] == [b"m/x", b"/product/bin/p", list(argv)]
    assert dict(e.split(b"=", 1) for e in reader.blobs()) == {b"PATH": b"/base", b"Z": b"1", **dict(env)}
    assert reader.blob() == stdin
    seen: dict[bytes, bytes] = {}
    for _ in range(reader.number()):
        kind, mode, mtime = reader.number(), reader.number(), reader.number("<q")
        path, target, content = reader.blob(), reader.blob(), reader.blob()
        above = path.rpartition(b"/")[0]
        assert not above or seen[above] == b"dir"
        seen[path] = {0: content, 1: b"dir"}[kind]
        assert (target, mode, mtime) == (b"", *((0o640, 7) if kind == 0 else (0o755, INPUT_MTIME)))
    assert {f.path: data for f in files}.items() <= seen.items()
    assert reader.rest == b""


def test_kinds_and_hard_links_have_their_numbers() -> None:
    files = (
        InputFile(b"f"),
        InputFile(b"d", kind="dir"),
        InputFile(b"l", kind="link", target=b"t"),
        InputFile(b"p", kind="fifo"),
        InputFile(b"h", target=b"f"),
    )
    frame = encode_request(Check("m/x", "m", "process", "p", (), files=files), {})
    reader = Reader(frame)
    reader.rest = reader.rest[12:]
    reader.blob(), reader.blob(), reader.blobs(), reader.blobs(), reader.blob()
    kinds = {}
    for _ in range(reader.number()):
        kind = reader.number()
        reader.number(), reader.number("<q")
        kinds[reader.blob()] = kind
        reader.blob(), reader.blob()
    assert kinds == {b"d": 1, b"f": 0, b"l": 2, b"p": 3, b"h": 5}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"argv": (b"a\0b",)}, "NUL"),
        ({"env": ((b"A", b"\0"),)}, "NUL"),
        ({"program": "a\0b"}, "NUL"),
        ({"files": (InputFile(b"a"), InputFile(b"a", kind="dir"))}, "same path"),
        ({"files": (InputFile(b"a"), InputFile(b"a/b"))}, "no directory"),
        ({"files": (InputFile(b"a", kind="link", target=b"/etc"), InputFile(b"a/b"))}, "no directory"),
        ({"files": (InputFile(b"../a"),)}, "plain path"),
    ],
)
def test_an_impossible_check_is_the_task_s_error(change: dict[str, object], why: str) -> None:
    fields: dict[str, object] = {"id": "m/x", "module": "m", "observer": "process", "program": "p", "argv": ()}
    with pytest.raises(TaskError, match=f"m/x.*{why}"):
        encode_request(Check(**{**fields, **change}), {})  # type: ignore[arg-type]
