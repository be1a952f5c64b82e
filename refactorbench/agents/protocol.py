"""Who migrates. An agent turns State A into a tree; what it says about itself is never evidence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from refactorbench.catalog.models import LoadedTask
from refactorbench.sandbox.protocol import Sandbox


class AgentContext(msgspec.Struct, frozen=True):
    """`state_a` is read-only; the agent's work tree is `work`, which starts as a copy of it.

    `folder` is the agent's own and is kept from start to start of one run; `reference` builds State A, or finds it
    built, and returns the product's folder. Both are there for agents that work for hours.
    """

    task: LoadedTask
    state_a: Path
    work: Path
    log: Path
    sandbox: Sandbox
    say: Callable[[str], None]
    folder: Path | None = None
    reference: Callable[[], Path] | None = None


class AgentReport(msgspec.Struct, frozen=True):
    """`stop`: why the agent ended, from a closed list: done | time | error, and for models those of agents/loop.py."""

    stop: str
    note: str


class Agent(Protocol):
    name: str

    def migrate(self, context: AgentContext) -> AgentReport:
        """Leave the migrated tree in `context.work`. Raises HarnessError when this machine prevents the attempt."""
        ...
