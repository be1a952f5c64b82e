"""Inputs for tally: plain ASCII text only. What other bytes do is left to the verifiers."""

from __future__ import annotations

import random
from collections.abc import Iterator

from refactorbench.observe.model import Check, InputFile

WORDS = (b"one", b"Two", b"three,", b"FOUR", b"v5", b"(six)", b"eight.")
GAPS = (b" ", b"  ", b"\n", b"\t", b"\n\n")


def tally(module: str, name: str, *args: bytes, text: bytes = b"", files: tuple[InputFile, ...] = ()) -> Check:
    return Check(f"{module}/{name}", module, "process", "bin/tally", (b"tally", *args), text, files)


def text(rng: random.Random) -> bytes:
    return b"".join(rng.choice(WORDS) + rng.choice(GAPS) for _ in range(rng.randint(0, 12)))


def drawn(module: str, name: str, rng: random.Random) -> Check:
    if module == "files":
        return tally(module, name, rng.choice((b"count", b"turn")), b"in", files=(InputFile(b"in", text(rng)),))
    return tally(module, name, module.encode(), text=text(rng) + b"%d" % rng.randrange(10**6))


def fixed(seed: int) -> Iterator[Check]:
    wrong = {"none": (), "unknown": (b"sum",), "many": (b"count", b"a", b"b"), "absent": (b"turn", b"no")}
    for name, args in wrong.items():
        yield tally("arguments", name, *args)
    for module in ("count", "turn", "files"):
        rng = random.Random(f"{seed}/{module}")
        seen: set[str] = set()
        while len(seen) < 24:
            check = drawn(module, f"draw-{len(seen):03d}", rng)
            if check.input_digest() not in seen:
                seen.add(check.input_digest())
                yield check


def draw(rng: random.Random, n: int) -> Iterator[Check]:
    for i in range(n):
        check = drawn(rng.choice(("count", "turn", "files")), "x", rng)
        yield Check(f"fresh/{i:05d}", check.module, "process", check.program, check.argv, check.stdin, check.files)
