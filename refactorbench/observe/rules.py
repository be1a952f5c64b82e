"""Named normalisations: the only way in which two different observations may count as equal.

A rule is a pure function of one observation that returns the masked observation and how many things it masked. A check
carries rules by name; a rule is put on a check because State A itself moved there while it was being recorded, never
because a submission differed. To add one: a function with a docstring that says what moves and why no user relies on
it, a line in RULES, and a test with an observation that the rule must not make equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

from refactorbench.errors import TaskError, did_you_mean
from refactorbench.observe.model import Observation

Rule = Callable[[Observation], tuple[Observation, int]]

_ADDRESS = re.compile(rb"0x[0-9a-f]{6,16}\b")


def mtime_any(o: Observation) -> tuple[Observation, int]:
    """Modification times aren't compared: for checks whose program sets a time that it takes from the clock."""
    files = tuple(msgspec.structs.replace(f, mtime=0) for f in o.files)
    return msgspec.structs.replace(o, files=files), sum(f.mtime != 0 for f in o.files)


def stderr_line_order(o: Observation) -> tuple[Observation, int]:
    """Lines of stderr are compared as a multiset: for checks in which several threads or processes report at once."""
    lines = o.stderr.splitlines(keepends=True)
    ordered = sorted(lines)
    moved = sum(a != b for a, b in zip(lines, ordered, strict=True))
    return msgspec.structs.replace(o, stderr=b"".join(ordered)), moved


def printed_addresses(o: Observation) -> tuple[Observation, int]:
    """Printed pointers (0x and 6 to 16 hexadecimal digits) in stdout and stderr are masked: they follow the address
    layout. Shorter numbers, which programs print as data, stay."""
    stdout, in_stdout = _ADDRESS.subn(b"0xADDRESS", o.stdout)
    stderr, in_stderr = _ADDRESS.subn(b"0xADDRESS", o.stderr)
    return msgspec.structs.replace(o, stdout=stdout, stderr=stderr), in_stdout + in_stderr


RULES: dict[str, Rule] = {
    "mtime-any": mtime_any,
    "printed-addresses": printed_addresses,
    "stderr-line-order": stderr_line_order,
}


def find(name: str) -> Rule:
    """Return the rule called `name`; TaskError when there is none."""
    rule = RULES.get(name)
    if rule is None:
        raise TaskError(
            f"rule '{name}' doesn't exist{did_you_mean(name, RULES)}, so the check can't be compared: "
            f"use one of {', '.join(sorted(RULES))}"
        )
    return rule


def apply(names: Iterable[str], observation: Observation) -> tuple[Observation, dict[str, int]]:
    """Return the observation under the named rules, in their order, and per rule how many things it masked."""
    forgiven: dict[str, int] = {}
    for name in names:
        observation, count = find(name)(observation)
        forgiven[name] = forgiven.get(name, 0) + count
    return observation, forgiven
