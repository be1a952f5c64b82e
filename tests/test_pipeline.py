"""What the pipeline does around its stages: units made once, tried again, made anew; locks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from results import lock, options

from refactorbench import __version__
from refactorbench.errors import HarnessError, UsageError
from refactorbench.journal import write_json
from refactorbench.paths import RunPaths
from refactorbench.pipeline import Stored
from refactorbench.prepare import refuse_other_lock, refuse_other_version


class Value(msgspec.Struct, frozen=True):
    n: int
    open: bool = False


class Maker:
    """Counts how often it was asked; gives its values one after another."""

    def __init__(self, *values: Value) -> None:
        self.left, self.asked = list(values), 0

    def __call__(self) -> Value:
        self.asked += 1
        return self.left.pop(0)


@pytest.fixture
def place(tmp_path: Path) -> RunPaths:
    return RunPaths(tmp_path / "run")


def opened(paths: RunPaths) -> Iterator[Stored]:
    stored = Stored(paths)
    yield stored
    stored.journal.close()


def test_a_unit_is_made_once_and_read_back_by_the_next_start(place: RunPaths) -> None:
    make = Maker(Value(1))
    for _ in range(2):
        for stored in opened(place):
            assert stored.unit("a", Value, make) == Value(1)
    assert make.asked == 1


def test_a_unit_whose_record_is_missing_is_made_again_although_its_file_is_there(place: RunPaths) -> None:
    for stored in opened(place):
        write_json(stored.file("a"), Value(1))
        assert stored.unit("a", Value, Maker(Value(2))) == Value(2)


def test_what_the_harness_left_open_is_tried_again_by_the_next_start_and_what_is_decided_is_not(
    place: RunPaths,
) -> None:
    make = Maker(Value(1, open=True), Value(2), Value(3))
    for want in (Value(1, open=True), Value(2), Value(2)):
        for stored in opened(place):
            assert stored.unit("a", Value, make, left_open=lambda v: v.open) == want
    assert make.asked == 2


def test_what_rests_on_a_unit_that_was_made_again_is_made_anew_and_the_rest_is_kept(place: RunPaths) -> None:
    first, rests, other = Maker(Value(1, open=True), Value(2)), Maker(Value(10), Value(20)), Maker(Value(100))
    for want in (10, 20, 20):
        for stored in opened(place):
            stored.unit("first", Value, first, left_open=lambda v: v.open)
            assert stored.unit("rests", Value, rests, ("first", "absent")).n == want
            assert stored.unit("other", Value, other).n == 100
    assert (first.asked, rests.asked, other.asked) == (2, 2, 1)


def test_a_unit_that_fails_leaves_no_record(place: RunPaths) -> None:
    def fail() -> Value:
        raise HarnessError("no")

    for stored in opened(place):
        with pytest.raises(HarnessError):
            stored.unit("a", Value, fail)
        assert stored.journal.done("a") is None
        assert stored.unit("a", Value, Maker(Value(1))) == Value(1)


def test_half_written_files_of_a_killed_process_are_swept_and_a_submission_is_not_touched(place: RunPaths) -> None:
    stale = [place.root / ".result.json.7.tmp", place.root / "units" / "replay" / ".0000.json.7.tmp"]
    kept = [place.root / "submission" / ".x.tmp", place.root / "units" / "a.json"]
    for path in (*stale, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    for _ in opened(place):
        assert not any(p.exists() for p in stale) and all(p.exists() for p in kept)


def test_an_equal_lock_is_accepted_whatever_the_jobs_and_the_state_of_the_checkout(place: RunPaths) -> None:
    one = lock(options(jobs=1))
    two = msgspec.structs.replace(lock(options(jobs=8)), dirty=True)
    refuse_other_lock(one, two, place)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"source_sha256": "other"}, "source_sha256 ( -> other)"),
        ({"toolchain": {"rustc": "1.63"}}, "toolchain.rustc (None -> 1.63)"),
        ({"options": options(seed=2)}, "options.seed (1 -> 2)"),
        ({"panel_fingerprint": "f"}, "panel_fingerprint (0123"),
    ],
)
def test_another_lock_is_refused_by_the_key_that_differs(place: RunPaths, changes: dict, said: str) -> None:
    one = lock(options())
    with pytest.raises(UsageError) as e:
        refuse_other_lock(one, msgspec.structs.replace(one, **changes), place)
    assert said in str(e.value) and "start a new run" in str(e.value)


def test_the_lock_of_another_version_is_told_by_its_version_alone(place: RunPaths) -> None:
    write_json(place.lock, {"version": "9.9", "whatever": [1]})
    with pytest.raises(UsageError, match=r"started by refactorbench 9\.9"):
        refuse_other_version(place)
    write_json(place.lock, {"version": __version__})
    refuse_other_version(place)
