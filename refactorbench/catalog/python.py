"""A task's own Python: generators of checks, strategies of its verifiers. Trusted files of the catalog, never of a
submission."""

from __future__ import annotations

import hashlib
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from refactorbench.catalog.models import LoadedTask
from refactorbench.errors import TaskError
from refactorbench.observe.model import Check

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

PREFIX = "_refactorbench_task_"


class Generator(Protocol):
    """checks/generate.py of a task; both are deterministic in their arguments."""

    def fixed(self, seed: int) -> Iterator[Check]:
        """The checks to record: tables and random draws, ids "<module>/<slug>", drawn ones "<module>/draw-NNN"."""
        ...

    def draw(self, rng: random.Random, n: int) -> Iterator[Check]:
        """`n` fresh checks from the same random generators in the same proportions, ids "fresh/NNNNN"."""
        ...


class Strategies(msgspec.Struct, frozen=True):
    """verifiers/<id>.py of a task: input strategies by name, and predicates that say a check is out of scope."""

    strategies: Mapping[str, SearchStrategy[Check]]
    deny: Mapping[str, Callable[[Check], bool]]


def load_module(path: Path) -> ModuleType:
    """Run the Python file `path` as a module under a private name, once per content; sys.path stays as it is.

    A file that wants another one beside it calls this with that one's path. TaskError names file, line and error.
    """
    path = path.resolve()
    try:
        source = path.read_bytes()
    except OSError as e:
        raise TaskError(f"cannot read {path}: {e.strerror}; the task names it: create it or correct the name") from e
    name = PREFIX + hashlib.sha256(bytes(path) + b"\0" + source).hexdigest()[:24]
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses and msgspec look their module up while it runs
    try:
        # Compiled by hand: an ordinary import would leave __pycache__ in the task's folder.
        exec(compile(source, str(path), "exec"), module.__dict__)
    except BaseException as e:
        del sys.modules[name]
        if isinstance(e, TaskError | KeyboardInterrupt):
            raise
        raise TaskError(f"{path}, line {_line(e, path)}: {type(e).__name__}: {e}; correct the file") from e
    return module


def _line(error: BaseException, path: Path) -> int:
    """The line of `path` that was being run (or read) when `error` came up, 0 when it wasn't in that file."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or 0
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return (lines[-1] if lines else 0) or 0


def generator(loaded: LoadedTask) -> Generator:
    """The task's generator module; TaskError when a function is missing."""
    path = loaded.folder / loaded.task.generator
    module = load_module(path)
    for function in ("fixed", "draw"):
        if not callable(getattr(module, function, None)):
            raise TaskError(f"{path} has no function `{function}`: without it no checks can be made; add it")
    return cast(Generator, module)


def strategies(loaded: LoadedTask) -> Strategies:
    """The task's STRATEGIES and DENY; TaskError when one is missing or no table."""
    return strategies_of(loaded.root / "verifiers" / loaded.briefs.module)


def strategies_of(path: Path) -> Strategies:
    module = load_module(path)
    tables: list[dict[str, Any]] = []
    for name in ("STRATEGIES", "DENY"):
        table = getattr(module, name, None)
        if not isinstance(table, dict) or not all(isinstance(key, str) for key in table):
            raise TaskError(f"{path} has no dict `{name}` by name: verifiers look their strategies up there; add it")
        tables.append(table)
    return Strategies(*tables)
