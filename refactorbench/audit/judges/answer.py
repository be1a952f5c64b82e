"""A judge's answer and whether it is grounded: what it cites stands, what it says it covered was looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from refactorbench.audit.judges.casefile import DocketView
from refactorbench.audit.judges.looker import Looked, Looker, schema
from refactorbench.audit.judges.trees import Side, Tree, quote_stands
from refactorbench.audit.verdict import Choice
from refactorbench.llm.protocol import ToolSpec

ASKED_AGAIN = 1  # times that an answer which isn't grounded is sent back; after that it is an abstention
MOST = 20


class Cited(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tree: Side
    path: str
    line: Annotated[int, msgspec.Meta(ge=1)]
    quote: Annotated[str, msgspec.Meta(min_length=1, max_length=4000)]


class Covered(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file, a folder ("" is the whole tree), or with place "docket" the name of a witness."""

    place: Literal["submission", "state-a", "docket"]
    path: str


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    verdict: Literal["pass", "fail"]
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=4000)]
    citations: Annotated[tuple[Cited, ...], msgspec.Meta(max_length=MOST)] = ()
    findings: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST)] = ()
    covered: Annotated[tuple[Covered, ...], msgspec.Meta(max_length=60)] = ()


ANSWER = ToolSpec("answer", "Give your verdict on the criterion: pass when the answer is yes.", schema(Answer))


class Checked(msgspec.Struct, frozen=True):
    """One piece of an answer as the host checked it; `why` is "" when it stands."""

    kind: Literal["citation", "finding", "covered"]
    what: str
    why: str = ""


class Ballot:
    """Takes one sample's answers. `choice` is None until one is taken."""

    def __init__(self, looker: Looker, docket: DocketView) -> None:
        self._looker, self._docket = looker, docket
        self.choice: Choice | None = None
        self.reason = ""
        self.checked: tuple[Checked, ...] = ()
        self.sent_back: list[str] = []

    def accept(self, given: dict[str, Any]) -> str:
        """Return what is wrong with the answer and sends it back, or "" when it is taken, be it as an abstention."""
        try:
            answer = msgspec.convert(given, Answer)
            self.checked = tuple(self._check(answer))
            wrong = self._ungrounded(answer)
            if not wrong:
                self.choice, self.reason = Choice(answer.verdict), answer.reason
                return ""
        except msgspec.ValidationError as e:
            self.checked, wrong = (), f"this is no answer: {e}"
        if len(self.sent_back) < ASKED_AGAIN:
            self.sent_back.append(wrong)
            return f"This answer doesn't count; look again and answer once more.\n{self._looker.fence.around(wrong)}"
        self.choice, self.reason = Choice.ABSTAIN, f"asked twice, and not grounded: {wrong}"
        return ""

    def _check(self, answer: Answer) -> list[Checked]:
        trees, looks = self._looker.trees, self._looker.looks
        found = [
            Checked(
                "citation",
                f"{c.tree} {c.path}:{c.line}: {c.quote}",
                quote_stands(trees[c.tree], c.path, c.line, c.quote),
            )
            for c in answer.citations
        ]
        found += [Checked("finding", id, self._docket.why_not(id)) for id in answer.findings]
        return found + [
            Checked("covered", f"{c.place} {c.path}", was_looked_at(c, looks, trees)) for c in answer.covered
        ]

    def _ungrounded(self, answer: Answer) -> str:
        """Why the answer isn't grounded, "" when it is."""
        if not self._looker.looks:
            return "nothing was looked at before this answer"
        if answer.verdict == "fail":
            evidence = [c.why for c in self.checked if c.kind != "covered"]
            if "" in evidence:
                return ""
            return "; ".join(evidence) or "a fail needs a citation or the id of a finding"
        untrue = [c.why for c in self.checked if c.kind == "covered" and c.why]
        if untrue:
            return "; ".join(untrue)
        if not any(c.place != "state-a" for c in answer.covered):
            return "a pass needs `covered`: what of the submission, or of the docket, was looked at"
        return ""


def was_looked_at(covered: Covered, looks: Sequence[Looked], trees: Mapping[str, Tree]) -> str:
    """Why a part of a manifest wasn't looked at, "" when it was: itself, or below a folder whose files were searched or
    compared."""
    path = covered.path.strip("/").removeprefix("./")
    path = "" if path == "." else path
    if covered.place != "docket" and path and path not in trees[covered.place].entries:
        return f"there is no '{covered.path}' in {covered.place}"
    for look in looks:
        above = look.what in ("search", "diff") and (not look.path or path.startswith(look.path + "/"))
        if look.tree == covered.place and (look.path == path or above):
            return ""
    return f"{covered.place} '{covered.path}' was not looked at"
