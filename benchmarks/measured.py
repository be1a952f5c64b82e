"""What the measurements leave below benchmarks/results/, as types: written by one command each, read by validity.py."""

from __future__ import annotations

import hashlib

import msgspec

from refactorbench.catalog.models import Manifest


def fingerprint(manifest: Manifest) -> str:
    """What tells a recording's checks and answers from any other's; what else the manifest says doesn't matter."""
    return hashlib.sha256(msgspec.json.encode(manifest.modules)).hexdigest()


class Replays(msgspec.Struct, frozen=True):
    """Full replays of one product; counts are sums over them, in `clean` replays every check passed at once."""

    replays: int
    clean: int
    checks: int
    failed: int
    nondeterministic: int
    unreproduced: int
    quarantined: int
    errors: int
    seconds: float  # median of one replay
    first: tuple[str, ...] = ()  # some that didn't pass: "check: why"


class Confirmations(msgspec.Struct, frozen=True):
    """Candidates put through stage III's confirmation. `reasons`: outcome -> how many; `disturbed`: candidates of which
    some trial came out wrong on purpose."""

    submission: str
    candidates: int
    upheld: int
    disturbed: int
    reasons: dict[str, int]


class FalseFails(msgspec.Struct, frozen=True):
    """false_fails.json. `recording`: its fingerprint. `control`: candidates under the same noise, of a submission that
    always differs; `control_expected` is the share of them that the noise lets through."""

    task: str
    recording: str
    seed: int
    load: int
    jobs: int
    noise: float
    delay_s: float
    replays: dict[str, Replays]
    confirmations: Confirmations | None
    control: Confirmations | None
    control_expected: float


class Rate(msgspec.Struct, frozen=True):
    """One outcome's share: `implied` by the protocol, `simulated` in so many `draws`, `real` runs of which `found`."""

    rule: str
    flaky: str
    p: float
    outcome: str
    implied: float
    simulated: float
    draws: int
    found: int = 0
    real: int = 0


class Flaky(msgspec.Struct, frozen=True):
    """flaky.json"""

    seed: int
    rates: tuple[Rate, ...]


class Honest(msgspec.Struct, frozen=True):
    """honest.json: what the witnesses say of unrelated honest projects. `findings`: "proof kind" -> how many."""

    toolchain: str
    projects: int
    files: int
    findings: dict[str, int]
    unexplained_largest: int  # bytes of code of one file that no unit of the evidence build explains
    unexplained_median: int


class FalseAlarms(msgspec.Struct, frozen=True):
    """memorisation.json: of `draws` honest submissions simulated over `fixed` recorded and `fresh` checks `alarms` were
    accused, of `cheats` that know the recorded ones `caught`."""

    fixed: int
    fresh: int
    draws: int
    alarms: int
    cheats: int
    caught: int
