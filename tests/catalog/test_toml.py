from pathlib import Path
from typing import Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refactorbench.audit.docket import Eye
from refactorbench.catalog.models import Closed
from refactorbench.catalog.toml import Problems, load_toml, read_toml
from refactorbench.errors import TaskError


class Inner(Closed, frozen=True):
    wall_s: float
    processes: int = 1


class Outer(Closed, frozen=True):
    name: str
    on: bool
    inner: Inner
    kind: Literal["fuzz", "agent"] = "fuzz"
    eyes: tuple[Eye, ...] = ()
    many: tuple[Inner, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    maybe: Inner | None = None


GOOD = 'name = "x"\non = true\ninner = { wall_s = 1.5 }\n'


def problems_of(tmp_path: Path, text: str | bytes) -> list[str]:
    path = tmp_path / "f.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    problems = Problems()
    value = read_toml(path, Outer, problems)
    assert (value is None) == bool(problems)
    assert all(str(path) in p for p in problems)
    return problems


def test_a_good_file_is_read(tmp_path: Path) -> None:
    more = 'kind = "agent"\neyes = ["build"]\nmany = [{ wall_s = 2 }]\nenv = { A = "1" }\nmaybe = { wall_s = 3.0 }\n'
    (tmp_path / "f.toml").write_text(GOOD + more)
    value = load_toml(tmp_path / "f.toml", Outer)
    assert value == Outer(
        "x", True, Inner(1.5), "agent", (Eye.BUILD,), (Inner(2.0),), {"A": "1"}, Inner(3.0)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (GOOD + 'kidn = "agent"\n', "unknown key 'kidn' (did you mean 'kind'?): refused, since a misspelt key"),
        (GOOD + "zzz = 1\n", "unknown key 'zzz': refused"),
        (GOOD.replace("wall_s", "wal_s"), "unknown key 'inner.wal_s' (did you mean 'wall_s'?)"),
        (GOOD.replace("wall_s", "wal_s"), "key 'inner.wall_s' is missing: add it (a number, without quotes)"),
        (GOOD + "many = [{ wall_s = 1.0 }, { wall_s = 1.0, proceses = 2 }]\n", "unknown key 'many[2].proceses'"),
        (GOOD + "maybe = { wall_s = 1.0, x = 1 }\n", "unknown key 'maybe.x'"),
        (GOOD.replace("true", '"false"'), "key 'on' is 'false': nothing is converted silently; write true or false"),
        (GOOD.replace("1.5", '"1.5"'), "key 'inner.wall_s' is '1.5': nothing is converted silently; write a number"),
        (GOOD.replace("1.5", "true"), "key 'inner.wall_s' is true"),
        (GOOD + "many = [{ wall_s = 1.0, processes = 2.5 }]\n", "key 'many[1].processes' is 2.5"),
        (GOOD.replace('"x"', "7"), "key 'name' is 7: nothing is converted silently; write text in quotes"),
        (
            GOOD + 'kind = "fuz"\n',
            "key 'kind' is 'fuz' (did you mean 'fuzz'?): nothing is converted silently; write one",
        ),
        (GOOD + 'eyes = ["buidl"]\n', "key 'eyes[1]' is 'buidl' (did you mean 'build'?)"),
        (GOOD + 'eyes = "build"\n', "key 'eyes' is 'build': nothing is converted silently; write a list"),
        (GOOD + "env = { A = 1 }\n", "key 'env.A' is 1"),
        (GOOD.replace("{ wall_s = 1.5 }", "[1]"), "key 'inner' is [1]: nothing is converted silently; write a table"),
        ("name = \n", "is not TOML: Invalid value (at line 1, column 8)"),
        (b"name = '\xff'", "is not UTF-8 (byte 8)"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str | bytes, wanted: str) -> None:
    assert problems_of(tmp_path, GOOD) == []
    assert any(wanted in p for p in problems_of(tmp_path, text)), problems_of(tmp_path, text)


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text("nmae = 1\non = 1\ninner = {}\n")
    with pytest.raises(TaskError, match="has 4 problems") as e:
        load_toml(tmp_path / "f.toml", Outer)
    assert len(e.value.problems) == 4
    assert all(p in str(e.value) for p in e.value.problems)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"cannot read .*f\.toml: No such file"):
        load_toml(tmp_path / "f.toml", Outer)


values = st.recursive(
    st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | st.text("ab", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "on", "inner", "wall_s", "many", "env", "maybe"]), inner, max_size=4)
    ),
    max_leaves=8,
)


def toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.sampled_from(["name", "on", "inner", "many", "env", "maybe", "other"]), values))
def test_any_file_gives_a_value_or_problems(tmp_path_factory: pytest.TempPathFactory, data: dict[str, object]) -> None:
    path = tmp_path_factory.mktemp("t") / "f.toml"
    path.write_text("".join(f"{k} = {toml(v)}\n" for k, v in data.items()))
    problems = Problems()
    assert (read_toml(path, Outer, problems) is None) == bool(problems)
