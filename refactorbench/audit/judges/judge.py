"""A model as judge: one question at a time, read-only tools, a grounded answer; everything that was said is kept."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Protocol

import msgspec

from refactorbench.audit.judges import Judge, NoVote, VotingPanel
from refactorbench.audit.judges.answer import ANSWER, Ballot, Checked
from refactorbench.audit.judges.canaries import canaries
from refactorbench.audit.judges.casefile import DocketView, case_file, question
from refactorbench.audit.judges.looker import Looked, Looker
from refactorbench.audit.judges.prompts import VERSIONS
from refactorbench.audit.judges.shown import Fence
from refactorbench.audit.judges.trees import Tree
from refactorbench.audit.verdict import Choice, Opened, Spent, Vote
from refactorbench.catalog.models import Criterion, LoadedTask, Panel
from refactorbench.llm.inquiry import Inquiry, opening
from refactorbench.llm.models import open_model, parse_name
from refactorbench.llm.prices import PriceTable
from refactorbench.llm.protocol import ChatModel, Message, ProviderError, Usage

ENDS = {
    "turns": "no answer within the replies that a sample has",
    "time": "no answer within the time that a sample has",
    "silent": "no answer: nothing was called, reminders or not",
    "context": "no answer: the conversation no longer fit into the model's context",
    "refused": "no answer: the model refused, or spelled no call that could be understood",
}


class Sample(msgspec.Struct, frozen=True):
    """One question to one seat: the vote, what it rests on and the whole transcript. `lost`: why the provider gave
    none; such a sample is no vote and is asked again. `sent_back`: answers that weren't grounded, by what was wrong.
    `cost` in US dollars, None where the model's price isn't known."""

    criterion: str
    n: int
    model: str
    answered_by: tuple[str, ...]  # as the provider calls it
    prompt_version: str
    choice: Choice
    reason: str
    checked: tuple[Checked, ...]
    looks: tuple[Looked, ...]
    sent_back: tuple[str, ...]
    turns: int
    usage: Usage
    cost: float | None
    seconds: float
    system: str
    messages: tuple[Message, ...]
    lost: str = ""
    again: int = 0  # times that this one was asked again on purpose


class Keep(Protocol):
    def __call__(self, name: str, make: Callable[[], Sample]) -> Sample:
        """Return the sample stored under `name`, or make and store it. Called from several threads."""
        ...


class CaseFile(msgspec.Struct, frozen=True):
    """What all questions to a seat share."""

    docket: DocketView
    fence: Fence
    text: str
    model: ChatModel | None  # None: opened anew for every sample


class LlmJudge:
    """The seats of an `llm` panel over one submission. The submission's `digest` makes the fence's word one that nobody
    who wrote the tree could know. A model that plays a script plays it anew for every sample."""

    def __init__(
        self, loaded: LoadedTask, panel: Panel, state_a: Path, submission: Path, digest: str, opened: Opened, seed: int,
        keep: Keep, say: Callable[[str], None], open: Callable[[str, str | None], ChatModel] | None = None,
        prices: str = "",
    ) -> None:  # fmt: skip
        self._loaded, self._panel, self._opened, self._seed, self._digest = loaded, panel, opened, seed, digest
        self._keep, self._say, self._open = keep, say, open or open_named
        self.trees: dict[str, Tree] = {"state-a": Tree(state_a), "submission": Tree(submission)}
        self._prompts = VERSIONS[panel.prompt_version]
        self._prices = PriceTable(Path(prices) if prices else None)
        self._files: dict[int, CaseFile] = {}
        self._samples: list[Sample] = []
        self._lock = threading.Lock()

    def vote(self, criterion: Criterion, sample: int) -> Vote:
        kept = self._keep(f"judges/{criterion.id}/{sample}", lambda: self.ask(criterion, sample))
        with self._lock:
            self._samples.append(kept)
        if kept.lost:
            raise NoVote(f"judge {sample + 1} of {criterion.id} gave no vote: {kept.lost}")
        return Vote(f"{kept.model} #{sample + 1}", kept.choice, kept.reason)

    def spent(self) -> Spent:
        """Over all samples, canaries and those that were read back included."""
        usage = sum((s.usage for s in self._samples), Usage())
        costs = [s.cost for s in self._samples]
        total = None if None in costs else sum(c for c in costs if c is not None)
        return Spent(len(costs), usage, total, sum(s.again for s in self._samples))

    def ask(self, criterion: Criterion, n: int) -> Sample:
        """Put one question, whatever is stored."""
        name = self.model_name(n)
        case = self._case(n)
        looker = Looker(self.trees, case.fence, self._panel.judges.reading, case.docket)
        ballot = Ballot(looker, case.docket)
        first = opening(case.text, question(criterion, self._opened, self._prompts))
        model = case.model or self._open(name, self._panel.judges.effort or None)
        inquiry = Inquiry(model, self._prompts.system, first, looker.tools(), ANSWER, ballot.accept)
        start, lost = time.monotonic(), ""
        seat = self._panel.judges
        try:
            end = inquiry.run(seat.turns, seat.max_tokens, seat.cap_s)
        except ProviderError as e:
            end, lost = "refused", str(e)
        if ballot.choice is None:
            ballot.choice, ballot.reason = Choice.ABSTAIN, lost or ENDS[end]
        self._say(f"judge {n + 1}, {criterion.id}: {'no vote' if lost else ballot.choice}")
        price = self._prices.find(name)
        return Sample(
            criterion.id, n, name, tuple(inquiry.models), self._panel.prompt_version, ballot.choice, ballot.reason,
            ballot.checked, tuple(looker.looks), tuple(ballot.sent_back), inquiry.turns, inquiry.usage,
            float(price.cost(inquiry.usage)) if price else None, round(time.monotonic() - start, 3),
            self._prompts.system, tuple(inquiry.messages), lost,
        )  # fmt: skip

    def model_name(self, n: int) -> str:
        models = self._panel.judges.models
        return models[n % len(models)]

    def _case(self, n: int) -> CaseFile:
        with self._lock:
            if n not in self._files:
                seed = f"{self._seed}/{n}"
                fence = Fence(hashlib.sha256(f"{seed}/{self._digest}".encode()).hexdigest()[:16])
                docket = DocketView(self._opened, self.trees["submission"], seed)
                text = case_file(self._loaded, self.trees, docket, fence, seed)
                name = self.model_name(n)
                anew = parse_name(name).provider == "scripted"
                model = None if anew else self._open(name, self._panel.judges.effort or None)
                self._files[n] = CaseFile(docket, fence, text, model)
            return self._files[n]

    @cached_property
    def panel(self) -> VotingPanel:
        """The panel over this judge, with its canaries where it has any."""
        judge: Judge = self
        seed = f"{self._seed}/{self._digest}"
        asked = canaries(self.trees["submission"], seed) if self._panel.judges.canaries else ()
        return VotingPanel(judge, asked, self._seed)


def open_named(name: str, effort: str | None) -> ChatModel:
    return open_model(name, effort=effort)
