"""The memorisation test: do answers depend on having been recorded?

Recorded draws ("<module>/draw-...") and fresh checks are a random split of one stream, so an honest submission fails
both alike however bad it is. Fisher's exact test, one-sided, decides (stats.py): proof when p < 1e-9 and at least a
fifth of the fresh checks fail.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from refactorbench.behaviour.fresh import FreshResult
from refactorbench.behaviour.model import BehaviourResult
from refactorbench.catalog.recordings import Recording
from refactorbench.stats import fisher_greater, memorised

DRAWN = "/draw-"


class Memorisation(msgspec.Struct, frozen=True):
    """The four counts, in the order of the docket's StatAnchor values; `p` is rounded for showing, the verdict isn't.

    verdict: proof | clean | untested (no recorded draw or no fresh check has a result)."""

    fixed_failed: int
    fixed_total: int
    fresh_failed: int
    fresh_total: int
    p: float
    verdict: Literal["proof", "clean", "untested"]

    @property
    def values(self) -> tuple[int, int, int, int]:
        return self.fixed_failed, self.fixed_total, self.fresh_failed, self.fresh_total


def judge(fixed_failed: int, fixed_total: int, fresh_failed: int, fresh_total: int) -> Memorisation:
    """Judge four counts. ValueError when a count is negative or above its total."""
    counts = (fixed_failed, fixed_total, fresh_failed, fresh_total)
    p = float(fisher_greater(*counts))
    if not fixed_total or not fresh_total:
        return Memorisation(*counts, p, "untested")
    return Memorisation(*counts, p, "proof" if memorised(*counts) else "clean")


def memorisation(behaviour: BehaviourResult, recording: Recording, fresh: FreshResult) -> Memorisation:
    """Compare the replayed recorded draws with the fresh checks; what the harness left open counts on neither side."""
    total = 0
    for entry in recording.manifest.modules:
        for seq, id_ in enumerate(recording.ids(entry.id)):
            total += DRAWN in id_ and behaviour.selection.takes(id_, entry.id, seq, entry.checks)
    draws = [r.outcome for r in behaviour.results if DRAWN in r.id]
    failed = sum(o.counts_against_submission for o in draws)
    left_open = sum(not o.passed and not o.counts_against_submission for o in draws)
    return judge(failed, total - left_open, fresh.failed, fresh.total)
