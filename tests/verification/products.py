"""Products as functions of a check, and a bench that a child process can open."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from refactorbench.errors import HarnessError
from refactorbench.observe.model import Check, Observation
from refactorbench.sandbox.protocol import Limits
from refactorbench.verification.bench import BenchSpec, Product, ScriptedBench
from refactorbench.verification.model import Plan, Side

LIMITS = Limits()


def check(stdin: bytes = b"", *args: bytes, **more: object) -> Check:
    return Check("t/1", "t", "process", "bin/upper", (b"upper", *args), stdin, **more)  # type: ignore[arg-type]


def seen(stdout: bytes = b"", code: int = 0, stderr: bytes = b"", **more: object) -> Observation:
    return Observation("exit", code, stdout, stderr, (), **more)  # type: ignore[arg-type]


def hang(limit: str = "wall") -> Observation:
    return Observation("limit", 0, b"", b"", (), limit)


def upper(c: Check) -> Observation:
    """The reference: upper-cases stdin; -x is an error."""
    if b"-x" in c.argv:
        return seen(b"", 2, b"upper: no such option\n")
    return seen(c.stdin.upper())


def broken(_: Check) -> Observation:
    return seen(b"", 99)


def wrong_on_z(c: Check) -> Observation:
    """Wrong where a `z` stands behind an `a`."""
    at = c.stdin.find(b"a")
    return seen(b"?") if at >= 0 and b"z" in c.stdin[at:] else upper(c)


def flaky(product: Product, rate: float, rng: random.Random, other: Observation) -> Product:
    lock = threading.Lock()

    def run(c: Check) -> Observation:
        with lock:
            bad = rng.random() < rate
        return other if bad else product(c)

    return run


def faulty(product: Product, when: Callable[[Check], bool]) -> Product:
    def run(c: Check) -> Observation:
        if when(c):
            raise HarnessError("the sandbox went away")
        return product(c)

    return run


def bench(submission: Product = upper, reference: Product = upper, dead: Product = broken) -> ScriptedBench:
    return ScriptedBench({Side.REFERENCE: reference, Side.SUBMISSION: submission, Side.BROKEN: dead})


def plan(**more: object) -> Plan:
    fields: dict[str, object] = {
        "verifier": "v1",
        "direction": "text",
        "title": "Text",
        "strategy": "text",
        "module": "",
        "deny": (),
        "budget": 100,
        "cap_s": 3600.0,
        "seed": 1,
        "engine": "scripted 1",
        "limits": LIMITS,
    }
    return Plan(**(fields | more))  # type: ignore[arg-type]


def opened_in_child(spec: BenchSpec) -> ScriptedBench:
    """`spec.submission` names what is behind the submission's side."""
    import os
    import time

    def sleeps(c: Check) -> Observation:
        time.sleep(600)
        return upper(c)

    def dies(c: Check) -> Observation:
        os._exit(7)

    sides: dict[str, Product] = {
        "honest": upper,
        "wrong": wrong_on_z,
        "lost": faulty(upper, lambda _: True),
        "dies": dies,
        "sleeps": sleeps,
    }
    return bench(sides[spec.submission])


def spec(submission: str) -> BenchSpec:
    return BenchSpec("scripted", "", submission, "", LIMITS, opener="verification.products:opened_in_child")
