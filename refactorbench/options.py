"""Requested and resolved: the options of a run, and the lock of what they stood for when it started."""

from __future__ import annotations

import msgspec

STAGES = ("audit", "behaviour", "verification")
QUICK_ONE_IN = 10  # with --quick one recorded check in so many is replayed


class RunOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was asked for. `agent`: solution | noop | command:... | thin | aci | replay:FILE | submission. `model` and
    `settings` are the agent's; `submission` is the tree to grade."""

    task: str
    agent: str
    submission: str = ""
    panel: str = "offline"
    stages: tuple[str, ...] = STAGES
    jobs: int = 1
    quick: bool = False
    seed: int = 1
    model: str = ""
    settings: dict[str, str] = {}
    judges: tuple[str, ...] = ()  # models of the panel's judges, where they are named for this run
    prices: str = ""  # a price table for what judges cost, other than the shipped one


class Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the options meant: digests and versions. A run is resumed only under an equal lock."""

    version: str
    source_sha256: str  # of this program's own source and data files
    dirty: bool | None  # None: not a git checkout
    task_sha256: str
    task_status: str
    recording_sha256: str
    state_a_tree: str
    panel_fingerprint: str
    executor: str
    sandbox: dict[str, str]
    toolchain: dict[str, str]
    options: RunOptions
