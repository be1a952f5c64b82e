"""What can be set for an agent by name: every switch of its scaffold, its limits, and the model's effort."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec

from refactorbench.agents.budget import Limit, Owner, What
from refactorbench.errors import UsageError, did_you_mean

T = TypeVar("T", bound=msgspec.Struct)
Count = Annotated[int, msgspec.Meta(ge=0)]
Some = Annotated[int, msgspec.Meta(ge=1)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e9)]  # finite: what is no number or no bound can't be written down
KINDS: tuple[tuple[str, What, int], ...] = (  # key, what it bounds, how much one of it is
    ("hours", "active", 3600), ("wall_hours", "wall", 3600), ("turns", "turns", 1), ("tokens", "tokens", 1),
    ("cost", "cost", 1),
)  # fmt: skip
OFF = {"off": "false", "no": "false", "on": "true", "yes": "true"}


class Bounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of the run beside the task's own hours, and, with `attempt_`, of each start of it; 0: none. `wall_hours`
    counts waiting for a provider too, and `reserve_s` of wall time are left to whoever bounds it. `prices`: a price
    table other than the shipped one. `effort` is passed to the model as it is. `images`: a chat server's model is shown
    images (the others are anyway)."""

    hours: Amount = 0.0
    wall_hours: Amount = 0.0
    reserve_s: Amount = 0.0
    turns: Count = 0
    tokens: Count = 0
    cost: Amount = 0.0
    attempt_hours: Amount = 0.0
    attempt_wall_hours: Amount = 0.0
    attempt_turns: Count = 0
    attempt_tokens: Count = 0
    attempt_cost: Amount = 0.0
    prices: str = ""
    effort: str = ""
    images: bool = False

    def limits(self, task_hours: float) -> tuple[Limit, ...]:
        """Nested: what an attempt may use, within what the run was given, within what the task gives."""
        found = [Limit("task", "active", task_hours * 3600)]
        owners: tuple[tuple[Owner, str], ...] = (("run", ""), ("attempt", "attempt_"))
        for owner, prefix in owners:
            for name, what, unit in KINDS:
                most = getattr(self, prefix + name) * unit
                if most:
                    found.append(Limit(owner, what, most, self.reserve_s if what == "wall" else 0.0))
        return tuple(found)


def read(settings: Mapping[str, str], switches: type[T]) -> tuple[T, Bounds]:
    """Two closed sets of keys from one table. UsageError names the key that is none, or the value that doesn't fit."""
    kinds: dict[str, type[msgspec.Struct]] = dict.fromkeys(Bounds.__struct_fields__, Bounds)
    kinds |= dict.fromkeys(switches.__struct_fields__, switches)
    parts: dict[type[msgspec.Struct], dict[str, Any]] = {switches: {}, Bounds: {}}
    for key, value in settings.items():
        if key not in kinds:
            known = ", ".join(sorted(kinds))
            raise UsageError(f"--set {key} is unknown{did_you_mean(key, kinds)}: nothing is started; keys are {known}")
        is_bool = any(f.name == key and f.type is bool for f in msgspec.structs.fields(kinds[key]))
        parts[kinds[key]][key] = OFF.get(value.lower(), value) if is_bool else value
        _convert({key: parts[kinds[key]][key]}, kinds[key], f"--set {key}={value}")
    return _convert(parts[switches], switches, "--set"), _convert(parts[Bounds], Bounds, "--set")


def _convert(given: dict[str, Any], kind: type[T], said: str) -> T:
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as e:
        raise UsageError(f"{said} doesn't fit: {e}; nothing is started; correct the value") from e
