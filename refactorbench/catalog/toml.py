"""Strict TOML: closed key sets, no coercion, and every problem of a file at once."""

from __future__ import annotations

import enum
import tomllib
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from refactorbench.errors import TaskError, did_you_mean

T = TypeVar("T")

_SHAPES: dict[Any, str] = {
    bool: "true or false, without quotes",
    int: "a whole number, without quotes",
    float: "a number, without quotes",
    str: "text in quotes",
    tuple: "a list in brackets",
    dict: "a table",
}


class Problems(list[str]):
    """What is wrong with a set of files; one TaskError tells all of it."""

    def raise_if_any(self, what: str) -> None:
        if len(self) == 1:
            raise TaskError(self[0], tuple(self))
        if self:
            raise TaskError(f"{what} has {len(self)} problems:\n" + "\n".join(f"- {p}" for p in self), tuple(self))


def load_toml(path: Path, kind: type[T]) -> T:
    """Return `path` as the struct `kind`; TaskError tells all that is wrong with it."""
    problems = Problems()
    value = read_toml(path, kind, problems)
    problems.raise_if_any(str(path))
    assert value is not None
    return value


def read_toml(path: Path, kind: type[T], problems: Problems) -> T | None:
    """Read `path` as the struct `kind`; None after adding what is wrong to `problems`."""
    try:
        data = tomllib.loads(path.read_bytes().decode())
    except OSError as e:
        problems.append(f"cannot read {path}: {e.strerror}; the task needs it: create it")
        return None
    except UnicodeDecodeError as e:
        problems.append(f"{path} is not UTF-8 (byte {e.start}), as TOML must be: save it as UTF-8")
        return None
    except tomllib.TOMLDecodeError as e:
        problems.append(f"{path} is not TOML: {e}; nothing of it was read")
        return None
    found = [f"{path}: {p}" for p in _struct(data, kind, "")]
    problems += found
    return None if found else msgspec.convert(data, kind)


def _struct(data: dict[str, Any], kind: Any, where: str) -> Iterator[str]:
    fields = {f.encode_name: f for f in msgspec.structs.fields(kind)}
    for key, value in data.items():
        if key in fields:
            yield from _value(value, fields[key].type, f"{where}{key}")
        else:
            yield (
                f"unknown key '{where}{key}'{did_you_mean(key, fields)}: refused, since a misspelt key would "
                f"silently mean its default; known here are {', '.join(fields)}"
            )
    for key, field in fields.items():
        if field.required and key not in data:
            yield f"key '{where}{key}' is missing: add it ({_shape(field.type)})"


def _value(value: Any, kind: Any, where: str) -> Iterator[str]:
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        kind = next(arm for arm in typing.get_args(kind) if arm is not type(None))
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if _is_struct(kind) and isinstance(value, dict):
        yield from _struct(value, kind, f"{where}.")
    elif origin is tuple and isinstance(value, list):
        for i, item in enumerate(value, 1):
            yield from _value(item, args[0], f"{where}[{i}]")
    elif origin is dict and isinstance(value, dict):
        for key, item in value.items():
            yield from _value(item, args[1], f"{where}.{key}")
    else:
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            near = did_you_mean(value, _choices(kind)) if isinstance(value, str) else ""
            yield f"key '{where}' is {_show(value)}{near}: nothing is converted silently; write {_shape(kind)}"


def _show(value: Any) -> str:
    """The value as TOML would have it, cut to one line."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _choices(kind: Any) -> tuple[str, ...]:
    if typing.get_origin(kind) is typing.Literal:
        return typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return tuple(str(member.value) for member in kind)
    return ()


def _shape(kind: Any) -> str:
    choices = _choices(kind)
    if choices:
        return "one of " + ", ".join(f'"{c}"' for c in choices)
    return _SHAPES.get(typing.get_origin(kind) or kind, "a table")
