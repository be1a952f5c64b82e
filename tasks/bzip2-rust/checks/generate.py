"""The task's checks: `fixed` are recorded, `draw` makes fresh ones from the same generators.

The generators live in the files beside this one. They form a package under a private name that follows from where they
are and what is in them, so that two copies of the task can be loaded side by side.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from refactorbench.errors import TaskError
from refactorbench.observe.model import Check

_HERE = Path(__file__).resolve().parent
_FILES = sorted(_HERE.glob("*.py"))
_PACKAGE = (
    "_bzip2_rust_checks_" + hashlib.sha256(b"\0".join((bytes(_HERE), *map(Path.read_bytes, _FILES)))).hexdigest()[:16]
)
_ATTEMPTS = 200  # draws for one new input before the generator counts as exhausted


def part(name: str) -> ModuleType:
    """Import a file beside this one, e.g. part("payloads")."""
    kept = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # nothing is left in the task's folder
    try:
        if _PACKAGE not in sys.modules:
            found = importlib.util.spec_from_file_location(
                _PACKAGE, _HERE / "__init__.py", submodule_search_locations=[str(_HERE)]
            )
            assert found is not None and found.loader is not None
            package = importlib.util.module_from_spec(found)
            sys.modules[_PACKAGE] = package
            found.loader.exec_module(package)
        return importlib.import_module(f"{_PACKAGE}.{name}")
    finally:
        sys.dont_write_bytecode = kept


def modules() -> tuple[Any, ...]:
    """All modules (common.Module), in the order in which they are recorded."""
    return (
        part("compress").LEVELS,
        part("compress").SHAPES,
        part("decompress").VALID,
        part("damage").CORRUPT,
        part("cli").OPTIONS,
        part("cli").MESSAGES,
        part("names").NAMES,
        part("names").STREAMS,
        part("mix").MIX,
        part("recover").RECOVERY,
        part("drivers").DRIVER_STREAM,
        part("drivers").DRIVER_ERRORS,
        part("files_api").DRIVER_BUFF,
        part("files_api").DRIVER_STDIO,
        part("install").INSTALL,
    )


def _new(module: Any, rng: random.Random, seen: set[str]) -> Check:
    """Draw until the input is new. TaskError when the generator has no more to give."""
    source = part("source").RandomSource(rng)
    for _ in range(_ATTEMPTS):
        check: Check = module.draw(source)
        digest = check.input_digest()
        if digest not in seen:
            seen.add(digest)
            return check
    raise TaskError(
        f"module '{module.name}' gave no new input in {_ATTEMPTS} draws, so checks would repeat: widen its generator"
    )


def fixed(seed: int) -> Iterator[Check]:
    """Yield every recorded check: each module's table, then its draws. Inputs don't repeat.

    TaskError when a table asks the same twice.
    """
    seen: set[str] = set()
    for module in modules():
        rng = random.Random(f"{seed}/{module.name}")
        for slug, check in module.table(rng):
            digest = check.input_digest()
            if digest in seen:
                raise TaskError(
                    f"check '{module.name}/{slug}' asks what an earlier one asks and would count twice: remove one"
                )
            seen.add(digest)
            yield msgspec.structs.replace(check, id=f"{module.name}/{slug}", module=module.name)
        for i in range(module.draws):
            check = _new(module, rng, seen)
            yield msgspec.structs.replace(check, id=f"{module.name}/draw-{i:03d}", module=module.name)


def draw(rng: random.Random, n: int) -> Iterator[Check]:
    """Yield `n` fresh checks, in the proportions in which the modules' draws stand among the fixed ones."""
    drawing = [m for m in modules() if m.draw is not None]
    weights = [m.draws for m in drawing]
    seen: set[str] = set()
    for i in range(n):
        module = rng.choices(drawing, weights)[0]
        yield msgspec.structs.replace(_new(module, rng, seen), id=f"fresh/{i:05d}", module=module.name)
