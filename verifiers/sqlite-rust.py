"""Fuzz strategies for the SQLite shell: the task's generators, driven by Hypothesis."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

from refactorbench.catalog.python import load_module
from refactorbench.observe.model import Check

_inputs = load_module(Path(__file__).resolve().parent.parent / "tasks" / "sqlite-rust" / "checks" / "generate.py")


def drawn(*modules: str) -> st.SearchStrategy[Check]:
    """Checks of the named modules; the seed is the only thing drawn, so minimising works on the check itself."""

    def make(module: str, seed: int) -> Check:
        sql = _inputs.DRAWN[module][1](random.Random(seed))
        return _inputs.shell("fuzz", module, sql)

    return st.builds(make, st.sampled_from(modules), st.integers(0, 2**48))


STRATEGIES: dict[str, st.SearchStrategy[Check]] = {
    "numbers": drawn("expressions", "casts"),
    "queries": drawn("selects"),
    "changes": drawn("changes"),
    "functions": drawn("functions", "json", "dates"),
    "shell": drawn("modes", "errors"),
}


def _has(*words: bytes) -> Callable[[Check], bool]:
    def rule(check: Check) -> bool:
        text = (check.stdin + b" ".join(check.argv)).lower()
        return any(w in text for w in words)

    return rule


DENY: dict[str, Callable[[Check], bool]] = {
    "build_facts": _has(b"explain", b"compile_options", b".stats", b".timer", b".scanstats", b"source_id", b"memory_"),
    "outside": _has(b".load", b"load_extension", b".shell", b".system", b".excel", b".www", b".edit", b"readfile(", b".import"),
    "chance": _has(b"random", b"'now'", b"current_time", b"current_date", b".selftest"),
}
