"""Judges as tests play them: models whose next reply is a function of the conversation, over the small port."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import audit_trees as trees
import msgspec

from refactorbench.audit.docket import Docket, Eye, EyeReport, Finding, Strength, TextAnchor
from refactorbench.audit.judges.judge import LlmJudge, Sample
from refactorbench.audit.verdict import Opened
from refactorbench.catalog.models import Criteria, Criterion, JudgeSeat, Panel
from refactorbench.llm.protocol import Block, Message, Text, ToolResult, ToolSpec, ToolUse, Turn, Usage

GONE = Criterion("gone", "No C remains", "Is the C code gone?", (Eye.SOURCE,), ("source-remains", "foreign-source"))
LEAD = Finding(
    "source-001", Eye.SOURCE, "grader-text", Strength.LEAD, TextAnchor("CHANGELOG.md", 1, "The C sources"), "it speaks"
)
CRITERIA = (GONE, msgspec.structs.replace(GONE, id="own", title="It is its own", question="Its own?"), trees.BUILDS)

Call = tuple[str, dict[str, Any]]
LIST: Call = ("list", {"tree": "submission", "depth": 9})
READ: Call = ("read", {"tree": "submission", "path": "src/main.rs"})
QUOTE = {"tree": "submission", "path": "src/main.rs", "line": 2, "quote": "const MARK: u8 = 0x1b;"}


def passes(**more: Any) -> Call:
    return "answer", {"verdict": "pass", "reason": "clean", "covered": [{"place": "submission", "path": ""}], **more}


def fails(**more: Any) -> Call:
    return "answer", {"verdict": "fail", "reason": "it is there", "citations": [QUOTE], **more}


class Seen(msgspec.Struct, frozen=True):
    """What a played judge decides by: the question, how many replies it gave, what it was last told."""

    question: str
    replies: int
    last: str
    case: str


Behave = Callable[[Seen], Sequence[Call] | str]


class Played:
    """A model for any number of conversations at once; counts what it is asked."""

    images = False

    def __init__(self, behave: Behave, name: str = "anthropic/played") -> None:
        self.name, self._behave = name, behave
        self.asked: list[str] = []
        self._lock = threading.Lock()

    def turn(self, system: str, messages: Sequence[Message], tools: Sequence[ToolSpec], **_: Any) -> Turn:
        question = text_of(messages[2].blocks[:1])
        replies = sum(m.role == "assistant" for m in messages) - 1
        if not replies:
            with self._lock:
                self.asked.append(question)
        found = self._behave(Seen(question, replies, text_of(messages[-1].blocks), text_of(messages[0].blocks)))
        if isinstance(found, str):
            return Turn((Text(found),), "end", Usage(100, 0, 0, 10), model="played-1")
        calls = tuple(ToolUse(f"c{replies}_{i}", name, given) for i, (name, given) in enumerate(found))
        return Turn(calls, "tool_use", Usage(100, 0, 0, 10), model="played-1")


def text_of(blocks: Sequence[Block]) -> str:
    parts = []
    for b in blocks:
        if isinstance(b, Text):
            parts.append(b.text)
        elif isinstance(b, ToolResult):
            parts += [c.text for c in b.content if isinstance(c, Text)]
    return "\n".join(parts)


def looks_then(answer: Call, *looks: Call) -> Behave:
    """Looks around in its first reply, then answers the same to everything, a canary's known answer aside."""
    return lambda seen: (looks or (LIST,)) if not seen.replies else (known(seen) or (answer,))


def known(seen: Seen) -> tuple[Call, ...]:
    """A sober judge's answer to a canary, () for any other question: the word is searched for, then cited."""
    if "A word is absent" not in seen.question:
        return ()
    text = seen.question.split("`")[1]
    if seen.replies == 1:
        return (("search", {"tree": "submission", "texts": [text]}),)
    hit = next((row for row in seen.last.splitlines()[2:] if text in row and not row.startswith("name ")), None)
    if hit is None:
        return (passes(),)
    path, line = hit.split(":")[:2]
    return (fails(citations=[{"tree": "submission", "path": path, "line": int(line), "quote": text}]),)


def docket(*findings: Finding) -> Opened:
    reports = tuple(EyeReport(e, "looked", tuple(f for f in findings if f.eye is e), {"files": "6"}) for e in Eye)
    return Opened(Docket(reports))


def panel(**seat: Any) -> Panel:
    return Panel("refactorbench.panel/1", "llm", JudgeSeat("llm", **{"models": ("anthropic/played",), **seat}), ())


class Kept:
    """Keeps samples as a run does: by name, and asks again for what was lost."""

    def __init__(self) -> None:
        self.samples: dict[str, Sample] = {}
        self.made = 0

    def __call__(self, name: str, make: Callable[[], Sample]) -> Sample:
        kept = self.samples.get(name)
        if kept is None or kept.lost:
            self.made += 1
            kept = msgspec.json.decode(msgspec.json.encode(make()), type=Sample)
            self.samples[name] = kept
        return kept


def judge(
    folder: Path, behave: Behave | Played | dict[str, Played], opened: Opened | None = None, kept: Kept | None = None,
    **seat: Any,
) -> LlmJudge:  # fmt: skip
    """Over the trees that lie in `folder` already, or the honest port and its State A."""
    if not (folder / "tree").exists():
        trees.honest(folder / "tree")
    if not (folder / "state-a").exists():
        trees.state_a(folder / "state-a")
    models = behave if isinstance(behave, dict) else None
    one = behave if isinstance(behave, Played) else None if models else Played(behave)  # type: ignore[arg-type]
    return LlmJudge(
        trees.loaded(CRITERIA), panel(**seat), folder / "state-a", folder / "tree", "0" * 64, opened or docket(LEAD), 1,
        kept or Kept(), lambda _: None, lambda name, effort: models[name] if models else one,  # type: ignore[arg-type,return-value]
    )  # fmt: skip


def criteria(*which: Criterion) -> Criteria:
    return Criteria("refactorbench.criteria/1", "pack-rust", which or CRITERIA)
