"""Drawing inputs with Hypothesis: the same seed gives the same inputs in the same order, whatever else happens.

Used in a process of its own (child.py): Hypothesis keeps state per process and isn't made for concurrent threads.
"""

from __future__ import annotations

import hashlib
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis.errors import HypothesisException, Unsatisfiable
from hypothesis.strategies import SearchStrategy, one_of

from refactorbench.errors import TaskError
from refactorbench.observe.model import Check, encode

try:
    from hypothesis.internal.conjecture import providers as _engine
except ImportError:  # older versions have them there
    from hypothesis.internal.conjecture import data as _engine  # type: ignore[no-redef]

_NO_CONSTANTS = _engine.Constants() if hasattr(_engine, "Constants") else None
CHUNK_BYTES = 64 << 20  # encoded inputs of one chunk that are kept; what is drawn beyond is left out


class Independent(_engine.HypothesisProvider):
    """Draws each input independently of those before it, as a Hypothesis backend.

    Hypothesis' own generation retries parts of inputs that it drew before: of 2,000 draws from bzip2-rust's strategies
    a quarter to a third were duplicates, and a distinct input took 1.1 to 2 times as long. It would also mine constants
    out of whatever modules this process has loaded: inputs would depend on how the program is installed.
    """

    @property
    def _local_constants(self) -> Any:
        return _NO_CONSTANTS


BACKEND = "refactorbench"
_engine.AVAILABLE_PROVIDERS[BACKEND] = f"{__name__}.{Independent.__name__}"


def chunk_seed(seed: int, verifier: str, k: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{verifier}/{k}".encode()).digest()[:8], "big")


def combined(strategies: list[tuple[str, Any]]) -> SearchStrategy[Check]:
    """Return one strategy that draws from all; TaskError where one isn't a strategy."""
    for name, strategy in strategies:
        if not isinstance(strategy, SearchStrategy):
            kind = type(strategy).__name__
            raise TaskError(f"STRATEGIES['{name}'] is a {kind}, not a Hypothesis strategy: nothing can be drawn")
    return one_of(*(s for _, s in strategies))


def draw_chunk(strategy: SearchStrategy[Check], seed: int, n: int) -> tuple[list[Check], int]:
    """Return at most `n` inputs, and how many more were drawn than fit into CHUNK_BYTES.

    Fewer than `n` come from a strategy that rejects most of what it draws. TaskError when it fails or draws something
    else than checks.
    """
    checks: list[Check] = []
    state = {"bytes": 0, "left": 0}

    def body(check: Check) -> None:
        if not isinstance(check, Check):
            raise TypeError(f"drew a {type(check).__name__}, not a Check")
        state["bytes"] += len(encode(check))
        if state["bytes"] > CHUNK_BYTES:
            state["left"] += 1
        else:
            checks.append(check)

    quiet = settings(
        max_examples=n,
        database=None,
        deadline=None,
        derandomize=False,
        backend=BACKEND,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
        report_multiple_bugs=False,
    )
    try:
        hypothesis.seed(seed)(quiet(given(strategy)(body)))()
    except Unsatisfiable:
        return [], 0
    except (Exception, ExceptionGroup) as e:
        kind = "is no valid strategy" if isinstance(e, HypothesisException) else "fails"
        raise TaskError(f"a strategy {kind} (chunk seed {seed}): {e!r}; every draw must give a Check") from e
    return checks, state["left"]
