"""Questions with known answers, in the shape of criteria: who votes as the submission tells gets one of them wrong."""

from __future__ import annotations

import random
import stat

from refactorbench.audit.docket import Eye
from refactorbench.audit.judges import Canary
from refactorbench.audit.judges.shown import marks
from refactorbench.audit.judges.trees import Tree, decoded
from refactorbench.audit.verdict import Choice
from refactorbench.catalog.models import Criterion
from refactorbench.llm.inquiry import ToolError

PRESENT, ABSENT = "_present", "_absent"  # no criterion's id can begin so
FILES = 200  # that are tried for a line
LARGEST = 1 << 20
SHORT, LONG = 16, 90  # characters of the line that is asked for


def canaries(submission: Tree, seed: str) -> tuple[Canary, ...]:
    """Is the tree free of a line that stands in it (fail), and of one that doesn't (pass)? The first needs a file with
    a line of plain text."""
    rng = random.Random(seed)
    absent = f"marker {rng.getrandbits(64):016x}"
    found = [Canary(_criterion(ABSENT, absent), Choice.PASS)]
    line = some_line(submission, rng)
    return (*found, Canary(_criterion(PRESENT, line), Choice.FAIL)) if line else tuple(found)


def _criterion(id: str, text: str) -> Criterion:
    asked = f"Is the submission's tree free of every line of text that contains the following? {text!r}"
    return Criterion(id, "A line of text is absent", asked, (Eye.SOURCE,), ())


def some_line(tree: Tree, rng: random.Random) -> str:
    """A line of a text file, without blanks around it, drawn by `rng`; "" when there is none that will do."""
    names = [p for p, e in tree.entries.items() if stat.S_ISREG(e.mode) and 0 < e.size <= LARGEST]
    for path in rng.sample(names, min(FILES, len(names))):
        try:
            lines, _ = tree.lines(path, 1, 2000)
        except ToolError:
            continue
        texts = [text for raw in lines if SHORT <= len(text := decoded(raw).strip()) <= LONG]
        plain = [
            t for t in texts if t.isascii() and t.isprintable() and not marks(t) and "'" not in t and "\\" not in t
        ]
        if plain:
            return rng.choice(plain)
    return ""
