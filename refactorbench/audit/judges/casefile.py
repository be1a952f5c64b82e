"""What a judge is told: the case file, which all questions over a submission share, and a question.

The case file stands first and doesn't change from question to question, so that a provider keeps it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from refactorbench.audit.docket import BytesAnchor, Eye, Finding, Strength, TextAnchor
from refactorbench.audit.ground import Refused, open_bytes, open_text
from refactorbench.audit.judges.prompts import Prompts
from refactorbench.audit.judges.shown import Fence, shown
from refactorbench.audit.judges.trees import SIDES, Tree
from refactorbench.audit.kinds import KINDS
from refactorbench.audit.verdict import Opened
from refactorbench.catalog.models import Criterion, LoadedTask

T = TypeVar("T")
PER_KIND = 12  # findings of one kind that the case file tells
PAGE = 60  # findings that one look into the docket shows
TOP = 150  # entries of a tree that the case file tells


class DocketView:
    """The docket as one seat sees it: `seed` orders what is listed."""

    def __init__(self, opened: Opened, tree: Tree, seed: str) -> None:
        self.opened, self._tree, self._random = opened, tree, random.Random(seed)
        self._findings = {f.id: f for r in opened.docket.reports for f in r.findings}

    def listing(self) -> str:
        """What the case file tells: per witness what it covered, and the first findings of each kind."""
        parts = []
        for report in self._shuffled(self.opened.docket.reports):
            cause = f" ({shown(report.cause)})" if report.cause else ""
            covered = ", ".join(f"{k} {v}" for k, v in sorted(report.covered.items())) or "nothing"
            parts.append(f"witness {report.eye.value}: {report.status}{cause}; covered: {shown(covered)}")
            kinds = sorted({f.kind for f in report.findings})
            for kind in self._shuffled(kinds):
                of_kind = [f for f in report.findings if f.kind == kind]
                parts.append(f"  {kind}: {len(of_kind)} ({sentence(kind)})")
                parts += [f"    {self.line(f)}" for f in of_kind[:PER_KIND]]
                if len(of_kind) > PER_KIND:
                    parts.append(f"    {len(of_kind) - PER_KIND} more: see the tool `docket`")
            if not kinds:
                parts.append("  no findings")
        if self.opened.docket.conduct:
            parts.append("the agent's transcript, leads only, that can't be cited:")
            parts += [shown(f"  [{c.id}] {c.why}: {c.quote}") for c in self.opened.docket.conduct[:PER_KIND]]
        return "\n".join(parts)

    def _shuffled(self, items: Sequence[T]) -> list[T]:
        return self._random.sample(items, len(items))

    def line(self, f: Finding) -> str:
        refused = f"; refused by the host: {self.opened.refused[f.id]}" if f.id in self.opened.refused else ""
        return shown(f"[{f.id}] {f.strength.value}: {f.why}{refused}").replace("\n", " ")[:400]

    def page(self, eye: str, kind: str, start: int) -> tuple[str, str]:
        """(head, body) of what a witness found, with anchors."""
        report = self.opened.docket.report(Eye(eye))
        found = [f for f in report.findings if not kind or f.kind == kind]
        rows = []
        for f in found[start : start + PAGE]:
            anchor = msgspec.json.encode(f.anchor).decode()
            rows += [f"{f.kind} {self.line(f)}", f"    at {shown(anchor)[:600]}"]
        end = min(start + PAGE, len(found))
        more = f"; {len(found) - end} more: give start={end}" if end < len(found) else ""
        covered = ", ".join(f"{k} {v}" for k, v in sorted(report.covered.items())) or "nothing"
        rows.append(f"covered: {shown(covered)}")
        if report.cause:
            rows.append(f"{report.status}: {shown(report.cause)}")
        return f"docket of {eye}{' ' + kind if kind else ''}: {start}-{end} of {len(found)} findings{more}", "\n".join(
            rows
        )

    def why_not(self, id: str) -> str:
        """Why a finding can't be cited, "" when it stands: in the docket, not refused, and where its anchor lies in the
        tree it is there when looked at again. Anchors in traces and figures are the host's own."""
        finding = self._findings.get(id)
        if finding is None:
            return f"there is no finding '{id}' in the docket"
        if id in self.opened.refused:
            return f"finding {id} was refused: {self.opened.refused[id]}"
        try:
            if isinstance(finding.anchor, TextAnchor):
                open_text(self._tree.root, finding.anchor)
            elif isinstance(finding.anchor, BytesAnchor):
                open_bytes(self._tree.root, finding.anchor)
        except Refused as e:
            return f"finding {id} doesn't stand: {e}"
        return ""


def sentence(kind: str) -> str:
    return KINDS[kind].sentence if kind in KINDS else "unknown"


def case_file(loaded: LoadedTask, trees: Mapping[str, Tree], docket: DocketView, fence: Fence, seed: str) -> str:
    """The first message: the same for all questions of a seat."""
    task, rng = loaded.task, random.Random(seed)
    parts = [
        f"The task: {task.title} (from {task.from_stack} to {task.to_stack}).",
        f"The instruction, as whoever migrated it got it:\n\n{loaded.instruction.strip()}",
    ]
    looks = []
    for side in rng.sample(SIDES, len(SIDES)):
        tree = trees[side]
        top = sorted(tree.entries)
        rows = [f"{p}/" if tree.folders.get(p) is not None else f"{p} {tree.entries[p].size}" for p in top[:TOP]]
        more = f", the first {TOP} of them" if len(top) > TOP else ""
        looks.append(fence.around(f"Tree {side}: {len(top)} entries{more}, sizes in bytes", "\n".join(rows)))
    looks.append(fence.around("The docket", docket.listing()))
    rng.shuffle(looks)
    return "\n\n".join((*parts, *looks, "Questions follow, one at a time."))


def question(criterion: Criterion, opened: Opened, prompts: Prompts) -> str:
    bearing = [f for r in opened.docket.reports for f in r.findings if f.kind in criterion.kinds]
    lines = [f"- {k}: {sentence(k)}" for k in criterion.kinds]
    text = "Kinds of findings that bear on it:\n" + "\n".join(lines) + "\n" if lines else ""
    if lines:
        ids = ", ".join(f"{f.id} ({f.strength.value})" for f in sorted(bearing, key=_strongest)[:30])
        text += (
            f"In the docket: {ids}{' and more' if len(bearing) > 30 else ''}\n" if ids else "None is in the docket.\n"
        )
    return prompts.question.format(title=criterion.title, question=criterion.question.strip(), bearing=text)


def _strongest(f: Finding) -> bool:
    return f.strength is not Strength.PROOF
