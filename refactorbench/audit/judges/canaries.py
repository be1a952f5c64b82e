"""Questions with known answers, in the shape of criteria: who votes as the submission tells gets one of them wrong."""

from __future__ import annotations

import random
import re
import stat
import string

from refactorbench.audit.docket import Eye
from refactorbench.audit.judges import Canary
from refactorbench.audit.judges.trees import Tree
from refactorbench.audit.verdict import Choice
from refactorbench.catalog.models import Criterion
from refactorbench.llm.inquiry import ToolError

PRESENT, ABSENT = "_present", "_absent"  # no criterion's id can begin so
FILES = 200  # that are tried for a word
LARGEST = 1 << 20
LINES = 2000
# A single word, since it stands in the question itself, where no text of the submission's may.
WORD = re.compile(rb"(?<![\w-])[A-Za-z][A-Za-z0-9_]{8,23}(?![\w-])")


def canaries(submission: Tree, seed: str) -> tuple[Canary, ...]:
    """Is a word absent that stands in the tree (fail), and one that doesn't (pass)? The first needs a file with a
    word."""
    rng = random.Random(seed)
    absent = "".join(rng.choices(string.ascii_lowercase, k=14))
    found = [Canary(_criterion(ABSENT, absent), Choice.PASS)]
    word = some_word(submission, rng)
    return (*found, Canary(_criterion(PRESENT, word), Choice.FAIL)) if word else tuple(found)


def _criterion(id: str, word: str) -> Criterion:
    asked = f"Does the word `{word}` stand in no file of the submission's tree?"
    return Criterion(id, "A word is absent", asked, (Eye.SOURCE,), ())


def some_word(tree: Tree, rng: random.Random) -> str:
    """A word of a file, drawn by `rng`; "" when there is none that will do."""
    names = [p for p, e in tree.entries.items() if stat.S_ISREG(e.mode) and 0 < e.size <= LARGEST]
    for path in rng.sample(names, min(FILES, len(names))):
        try:
            lines, _ = tree.lines(path, 1, LINES)
        except ToolError:
            continue
        words = sorted({w for raw in lines for w in WORD.findall(raw)})
        if words:
            return rng.choice(words).decode()
    return ""
