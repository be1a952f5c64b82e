"""Which inputs count: the task's deny rules by name, and inputs that could tell on which tree they run."""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from refactorbench.errors import TaskError, did_you_mean
from refactorbench.observe.model import Check
from refactorbench.verification.model import Plan

Predicate = Callable[[Check], bool]

SCRATCH = b"/work"
# where a product, or the process that runs it, could be looked at instead of used
PRIVATE = (b"/product", b"/proc", b"/sys", b"/dev/fd")
# variables that speak to the loader or to a stack's run-time, which differ by design between the two states
RUNTIME_VARIABLES = (
    *(b"LD_", b"GLIBC_", b"MALLOC_", b"GCONV_", b"ASAN_", b"RUST_"),
    *(b"GODEBUG", b"GOGC", b"GOMAXPROCS", b"GOTRACEBACK", b"PYTHON", b"NODE_", b"JAVA_", b"DOTNET_"),
)
_TOKEN = re.compile(rb"[^\s=:,;'\"\x00]+")
_PRIVATE_IN_DATA = re.compile(rb"/(?:product/+(?:bin|lib|include|drivers)|proc/+(?:self|thread-self|[0-9]+))/")


class Rules:
    """The scope of one task's inputs."""

    def __init__(self, deny: Mapping[str, Predicate]) -> None:
        self._deny = dict(deny)

    def denied(self, check: Check) -> str:
        """Return the name of the first rule that puts `check` out of scope, or ""; TaskError if a rule itself fails."""
        for name, predicate in self._deny.items():
            try:
                if predicate(check):
                    return name
            except Exception as e:
                raise TaskError(f"deny rule '{name}' failed on an input: {e!r}; a rule must accept any check") from e
        return ""


def _private_path(text: bytes, start: bytes = SCRATCH) -> bytes:
    """Return the first private path that a word of `text` means when seen from the folder `start`, or b"".

    The root counts too: from there a walk, or a link, leads everywhere.
    """
    for word in _TOKEN.findall(text):
        body = word.lstrip(b"-+@")
        # an option's letters may be glued to its path
        glued = (body, body[1:], body[max(0, body.find(b"/")) :]) if body != word else ()
        for part in (word, *glued):
            if b"/" not in part and part != b"..":
                continue
            path = posixpath.normpath(posixpath.join(start, part)).replace(b"//", b"/")
            if path == b"/" or any(path == p or path.startswith(p + b"/") for p in PRIVATE):
                return path
    return b""


def identifies_tree(check: Check) -> str:
    """Say in words how `check` could tell which tree it runs on, or ""."""
    for key, _ in check.env:
        if key.startswith(RUNTIME_VARIABLES):
            return f"variable {key.decode('latin-1')} speaks to the run-time, not to the product"
    texts = [(word, SCRATCH) for word in (*check.argv, *(value for _, value in check.env))]
    texts += [(f.path, SCRATCH) for f in check.files]
    texts += [(f.target, posixpath.dirname(posixpath.join(SCRATCH, f.path))) for f in check.files if f.target]
    path = next(filter(None, (_private_path(text, start) for text, start in texts)), b"")
    if not path:
        # a name in the data may be opened by the product
        named = next(filter(None, map(_PRIVATE_IN_DATA.search, (check.stdin, *(f.data for f in check.files)))), None)
        path = named[0] if named else b""
    return f"the input names {path[:100].decode('latin-1')}" if path else ""


def load_module(path: Path) -> ModuleType:
    """Run the task's strategies file as a module that leaves nothing on disk; TaskError names what is wrong."""
    name = "refactorbench_verifiers_" + re.sub(r"\W", "_", path.stem)
    module = ModuleType(name)
    module.__file__ = str(path)
    try:
        code = compile(path.read_bytes(), str(path), "exec")
    except (OSError, SyntaxError, ValueError) as e:
        raise TaskError(f"{path} can't be read: {e}; stage III has no strategies without it: restore the file") from e
    sys.modules[name] = module  # dataclasses and pickles of the file look it up there
    try:
        exec(code, module.__dict__)
    except Exception as e:
        del sys.modules[name]
        raise TaskError(f"{path} fails when loaded: {e!r}; stage III has no strategies: mend the file") from e
    return module


def _table(module: ModuleType, name: str) -> dict[str, Any]:
    table = getattr(module, name, None)
    if not isinstance(table, dict):
        raise TaskError(f"{module.__file__} has no dict {name}: stage III needs STRATEGIES and DENY there")
    return table


def load(plan: Plan) -> tuple[Rules, list[tuple[str, Any]]]:
    """Return the plan's scope and its strategies by name; TaskError for a name that its file doesn't have."""
    module = load_module(Path(plan.module))
    strategies, deny = _table(module, "STRATEGIES"), _table(module, "DENY")
    for kind, wanted, known in (
        ("strategy", [plan.strategy] if plan.strategy else [], strategies),
        ("deny rule", list(plan.deny), deny),
    ):
        for name in wanted:
            if name not in known:
                hint = did_you_mean(name, known)
                raise TaskError(f"direction '{plan.direction}' names {kind} '{name}', not in {plan.module}{hint}")
    names = [plan.strategy] if plan.strategy else sorted(strategies)
    if not names:
        raise TaskError(f"{plan.module} has no strategies: direction '{plan.direction}' has nothing to draw from")
    return Rules({name: deny[name] for name in plan.deny}), [(name, strategies[name]) for name in names]
