"""Machine code without any header around it, by how its bytes are distributed: never more than a LEAD."""

from __future__ import annotations

import re
from collections import Counter

WINDOW = 1024
FEWEST_WIDE = 12  # 64-bit moves, compares and additions in a window; noise has under 1, tables hardly more
FEWEST_NEAR = 3  # calls and jumps over short distances in a window
FEWEST_WINDOWS = 2  # side by side

_WIDE = re.compile(rb"[\x48\x49\x4c\x4d][\x89\x8b\x8d\x83\x85\x63\x01\x29\x39\x3b\xc1\xc7\x98]")
_NEAR = re.compile(rb"(?:[\xe8\xe9]|\x0f[\x80-\x8f])..(?:\x00\x00|\xff\xff)", re.DOTALL)


def machine_code(data: bytes) -> int:
    """Offset of the first stretch of two or more kilobytes that is distributed like x86-64 code, -1 for none."""
    if len(data) < FEWEST_WINDOWS * WINDOW:
        return -1
    wide = Counter(m.start() // WINDOW for m in _WIDE.finditer(data))
    hot = {w for w, n in wide.items() if n >= FEWEST_WIDE}
    if len(hot) < FEWEST_WINDOWS:
        return -1
    near = Counter(m.start() // WINDOW for m in _NEAR.finditer(data))
    hot = {w for w in hot if near[w] >= FEWEST_NEAR}
    return min((w * WINDOW for w in hot if w + 1 in hot), default=-1)
