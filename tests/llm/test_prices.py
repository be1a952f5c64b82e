from decimal import Decimal
from pathlib import Path

import pytest

from refactorbench.errors import UsageError
from refactorbench.llm.prices import PriceTable
from refactorbench.llm.protocol import Usage

HEAD = 'version = "7"\ndate = 2026-11-30\n'


def entry(name: str, more: str = "", output: str = "25.1") -> str:
    return (
        f'[[model]]\nname = "{name}"\nsource = "a page"\nsince = 2026-11-01\n'
        f"input = 5.3\ncache_read = 0.53\ncache_write = 6.625\noutput = {output}\n{more}"
    )


def table(tmp_path: Path, *entries: str) -> PriceTable:
    path = tmp_path / "prices.toml"
    path.write_text(HEAD + "".join(entries))
    return PriceTable(path)


def test_costs_are_exact_and_by_class(tmp_path: Path) -> None:
    price = table(tmp_path, entry("anthropic/m")).require("anthropic/m")
    for usage, dollars in (
        (Usage(input=1_000_000), "5.3"),
        (Usage(cache_read=1_000_000), "0.53"),
        (Usage(cache_write=1_000_000), "6.625"),
        (Usage(output=1_000_000), "25.1"),
        (Usage(reasoning=1_000_000), "25.1"),
        (Usage(1, 2, 3, 4, 5), "0.000252135"),
    ):
        assert price.cost(usage) == Decimal(dollars)
    parts = [price.cost(Usage(input=1))] * 1000
    assert sum(parts) == price.cost(Usage(input=1000)), "a sum of parts is the whole"


def test_reasoning_may_have_its_own_price(tmp_path: Path) -> None:
    price = table(tmp_path, entry("openai/m", "reasoning = 1\n")).require("openai/m")
    assert price.cost(Usage(output=10, reasoning=1_000_000)) == Decimal("1.000251")


def test_an_unknown_price_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    prices = table(tmp_path, entry("anthropic/model-1"))
    with pytest.raises(UsageError) as e:
        prices.require("anthropic/model-2")
    for part in ("'anthropic/model-2'", str(prices.path), "version 7", "did you mean 'anthropic/model-1'", "[[model]]"):
        assert part in str(e.value)
    assert prices.find("anthropic/model-2") is None
    assert prices.require("anthropic/model-1")


def test_the_nearest_entry_counts(tmp_path: Path) -> None:
    prices = table(tmp_path, entry("chat/*", output="1"), entry("chat/q*", output="2"), entry("chat/qwen", output="3"))
    for name, output in (("chat/a@http://x", 1), ("chat/qw@http://x", 2), ("chat/qwen", 3)):
        assert prices.require(name).output == output
    assert prices.find("openai/qwen") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (entry("a/b").replace("output", "ouput"), "ouput"),
        (entry("a/b", output='"25"'), "output of 'a/b' is '25'"),
        (entry("a/b", output="-1"), "output of 'a/b' is -1"),
        (entry("a/b", output="nan"), "zero or more"),
        (entry("a/b") + entry("a/b"), "a/b twice"),
        ("[[model]\n", "correct it"),
    ],
)
def test_a_wrong_table_is_refused_whole(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        table(tmp_path, text)


def test_the_shipped_table_is_dated_and_prices_nothing_that_is_paid() -> None:
    shipped = PriceTable()
    assert shipped.version and shipped.date.year >= 2026 and len(shipped.digest) == 64
    assert shipped.require("scripted/x.jsonl").cost(Usage(1, 1, 1, 1, 1)) == 0
    for name in ("anthropic/m", "openai/m", "chat/m@http://127.0.0.1/v1"):
        assert shipped.find(name) is None
