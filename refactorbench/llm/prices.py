"""What a model costs. A price that isn't known is an error wherever a limit on cost is set, never zero."""

from __future__ import annotations

import datetime
import tomllib
from decimal import Decimal
from pathlib import Path

import msgspec

from refactorbench.errors import UsageError, did_you_mean
from refactorbench.hashing import sha256_file
from refactorbench.llm.protocol import Usage

SHIPPED = Path(__file__).with_name("prices.toml")
MILLION = Decimal(1_000_000)


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens of a class. `name` may end in `*`. Reasoning costs what output does, if not given.

    `source` says where the price was published and `since` from when it holds.
    """

    name: str
    source: str
    since: datetime.date
    input: Decimal
    cache_read: Decimal
    cache_write: Decimal
    output: Decimal
    reasoning: Decimal | None = None

    def cost(self, usage: Usage) -> Decimal:
        """US dollars, exactly."""
        reasoning = self.output if self.reasoning is None else self.reasoning
        total = (
            usage.input * self.input
            + usage.cache_read * self.cache_read
            + usage.cache_write * self.cache_write
            + usage.output * self.output
            + usage.reasoning * reasoning
        )
        return total / MILLION


_PRICES = ("input", "cache_read", "cache_write", "output", "reasoning")


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: str
    date: datetime.date
    model: list[Price] = []


class PriceTable:
    """A price file: its `version` and `date`, and its `digest` (sha256) for the lock."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or SHIPPED
        try:
            raw = tomllib.loads(self.path.read_bytes().decode(), parse_float=Decimal)
            table = msgspec.convert(raw, _File)
        except OSError as e:
            raise UsageError(f"cannot read the price table {self.path}: {e.strerror}; name an existing file") from e
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as e:
            raise UsageError(f"the price table {self.path} is wrong: {e}; nothing of it is used: correct it") from e
        self.version, self.date = table.version, table.date
        self.digest = sha256_file(self.path)
        self._prices = {p.name: p for p in table.model}
        if len(self._prices) != len(table.model):
            names = [p.name for p in table.model]
            twice = sorted({n for n in names if names.count(n) > 1})
            raise UsageError(f"the price table {self.path} prices {', '.join(twice)} twice: keep one entry of each")
        for name, key, value in ((e["name"], k, e.get(k, 0)) for e in raw.get("model", []) for k in _PRICES):
            if isinstance(value, str) or not Decimal(value).is_finite() or value < 0:
                raise UsageError(
                    f"the price table {self.path}: {key} of '{name}' is {value!r}, so no cost can be told: write US "
                    "dollars per million tokens, zero or more, without quotes"
                )

    def find(self, model: str) -> Price | None:
        """The price of `model` ("anthropic/NAME"): its own entry, else the longest one with `*` that fits."""
        if model in self._prices:
            return self._prices[model]
        fits = [p for n, p in self._prices.items() if n.endswith("*") and model.startswith(n[:-1])]
        return max(fits, key=lambda p: len(p.name), default=None)

    def require(self, model: str) -> Price:
        """The price of `model`; UsageError where it isn't known. Ask before a run with a limit on cost starts."""
        price = self.find(model)
        if price is None:
            raise UsageError(
                f"the price of '{model}' isn't in {self.path} (version {self.version})"
                f"{did_you_mean(model, self._prices)}, so a limit on cost can't be kept: add a [[model]] entry to a "
                "price file of your own and name it (--set prices=FILE), or set a limit on tokens instead"
            )
        return price
