"""A model's opinion on one question, told to people and never scored: a typed answer after looking at trees."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from refactorbench.audit.judges.looker import Looker, schema
from refactorbench.audit.judges.shown import Fence
from refactorbench.audit.judges.trees import Tree
from refactorbench.errors import HarnessError
from refactorbench.llm.inquiry import Inquiry, opening
from refactorbench.llm.protocol import ChatModel, ToolSpec, Usage

T = TypeVar("T", bound=msgspec.Struct)
TURNS, TOKENS, READING, CAP_S = 40, 8192, 400_000, 1800.0
ASKED_AGAIN = 2  # times that an answer which doesn't fit its shape is sent back


def opinion(
    model: ChatModel, system: str, case: str, question: str, trees: Mapping[str, Tree], kind: type[T], seed: str
) -> tuple[T, Usage]:
    """Ask, and return the answer as `kind` with what it took. Raises ProviderError, and HarnessError where the model
    gave no such answer. `seed` makes the fence's word: it must hold something that nobody who wrote a tree knows."""
    looker = Looker(trees, Fence(hashlib.sha256(seed.encode()).hexdigest()[:16]), READING)
    taken: list[T] = []
    wrong: list[str] = []

    def accept(given: dict[str, Any]) -> str:
        try:
            if trees and not looker.looks:
                raise msgspec.ValidationError("nothing was looked at before it")
            taken.append(msgspec.convert(given, kind))
        except msgspec.ValidationError as e:
            wrong.append(str(e))
            return f"this answer doesn't count: {e}; answer once more" if len(wrong) <= ASKED_AGAIN else ""
        return ""

    answer = ToolSpec("answer", "Give your answer, once.", schema(kind))
    inquiry = Inquiry(model, system, opening(case, question), looker.tools(), answer, accept)
    end = inquiry.run(TURNS, TOKENS, CAP_S)
    if not taken:
        raise HarnessError(
            f"{model.name} gave no answer ({wrong[-1] if wrong else end}), so there is no opinion: ask again, or name "
            "another model"
        )
    return taken[0], inquiry.usage
