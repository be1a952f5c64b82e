"""What one action came to: what the agent is told, and what is counted of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from refactorbench.llm.protocol import Image

Outcome = Literal[
    "ok",
    "edited",  # an edit that was made
    "edit_failed",  # an edit that could not be made: its text wasn't found, or not once
    "lint",  # an edit that was rolled back by the lint guard
    "refused",  # anything else that was not done
    "stopped",  # a command that was ended by a limit
    "format",  # a reply that holds no action that could be understood
    "final",  # the agent says that it is done
]


class Change(msgspec.Struct, frozen=True):
    """One step of an editor's history: a file's content `before` and `after` (sha256; "" where there was no file).
    `undone`: this step took the last one back."""

    path: str
    before: str
    after: str
    undone: bool = False


class Act(msgspec.Struct, frozen=True):
    text: str
    outcome: Outcome = "ok"
    images: tuple[Image, ...] = ()
    change: Change | None = None

    @property
    def is_error(self) -> bool:
        return self.outcome in ("edit_failed", "lint", "refused", "format")
