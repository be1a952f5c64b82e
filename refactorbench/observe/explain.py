"""The first difference in words: context lines for text, hexdumps side by side for bytes; bounded, printable."""

from __future__ import annotations

from collections.abc import Sequence

from refactorbench.observe.compare import Difference
from refactorbench.observe.model import NOW, seconds

LIMIT = 2000  # characters of one explanation: what the windows below add up to
CONTEXT_LINES = 2
LINE_WINDOW = 96  # characters shown of one line
TEXT_WINDOW = 2048  # bytes around the difference that decide between text and hexdump
ROW = 8
CONTEXT_ROWS = 2
_CHUNK = 1 << 16


def first_offset(a: bytes, b: bytes) -> int:
    """Return the offset of the first byte in which `a` and `b` differ; the shorter length when one is a prefix."""
    end = min(len(a), len(b))
    for start in range(0, end, _CHUNK):
        left, right = a[start : start + _CHUNK], b[start : start + _CHUNK]
        if left != right:
            return next((start + i for i, (x, y) in enumerate(zip(left, right, strict=False)) if x != y), end)
    return end


def printable(data: bytes) -> str:
    """Return `data` as ASCII, everything else and the backslash escaped; the result decides nothing twice."""
    return data.decode("latin-1").encode("unicode_escape").decode("ascii")


def _is_text(window: bytes) -> bool:
    # cut characters at either end of the window are no sign of binary data
    text = window.decode("utf-8", "replace").strip("�")
    return "�" not in text and all(c.isprintable() or c in "\n\r\t" for c in text)


def _window(data: bytes, at: int) -> bytes:
    return data[max(0, at - TEXT_WINDOW // 2) : at + TEXT_WINDOW // 2]


def _line(data: bytes, at: int) -> tuple[bytes, int]:
    """Return (line that holds offset `at`, the line's offset): no line end, at most TEXT_WINDOW bytes before `at`."""
    start = max(data.rfind(b"\n", 0, at) + 1, at - TEXT_WINDOW)
    end = data.find(b"\n", at)
    return data[start : len(data) if end < 0 else end], start


def _clip(line: bytes, column: int) -> str:
    start = max(0, column - LINE_WINDOW // 2)
    text = printable(line[start : start + LINE_WINDOW])
    return ("…" if start else "") + text + ("…" if start + LINE_WINDOW < len(line) else "")


def _text(expected: bytes, got: bytes, at: int) -> list[str]:
    number = expected.count(b"\n", 0, at) + 1
    (want, start), (have, _) = _line(expected, at), _line(got, at)
    column = at - start
    lines = []
    before = expected[max(0, start - TEXT_WINDOW) : start].splitlines()[-CONTEXT_LINES:]
    for i, line in enumerate(before):
        lines.append(f"    line {number - len(before) + i} | {_clip(line, 0)}")
    ends = ("" if at < len(expected) else "  (ends here)", "" if at < len(got) else "  (ends here)")
    lines.append(f"  - line {number} | {_clip(want, column)}{ends[0]}")
    lines.append(f"  + line {number} | {_clip(have, column)}{ends[1]}")
    return lines


def _cells(data: bytes, offset: int) -> str:
    row = data[offset : offset + ROW]
    shown = "".join(chr(b) if 32 <= b < 127 else "." for b in row)
    return f"{row.hex(' '):<{3 * ROW}}|{shown:<{ROW}}|"


def _hexdump(expected: bytes, got: bytes, at: int) -> list[str]:
    first = max(0, at // ROW - CONTEXT_ROWS) * ROW
    lines = [f"    {'offset':<10}{'expected':<{4 * ROW + 4}}got"]
    for offset in range(first, min(max(len(expected), len(got)), first + (2 * CONTEXT_ROWS + 2) * ROW), ROW):
        mark = " " if expected[offset : offset + ROW] == got[offset : offset + ROW] else "!"
        lines.append(f"  {mark} {offset:08x}  {_cells(expected, offset)}  {_cells(got, offset)}")
    return lines


def _subject(d: Difference) -> str:
    return f"file {printable(d.path)[:200]}" if d.dimension == "file" else d.dimension


def _value(d: Difference, value: bytes) -> str:
    if d.kind == "mtime" and value == b"%d" % NOW:
        return "the time of the check"
    if d.kind == "mtime":
        return seconds(int(value)).decode()
    return printable(value[:200]) or "nothing"


def explain(d: Difference) -> str:
    """Return one difference as at most LIMIT characters of ASCII (and an ellipsis), several lines for contents."""
    if d.dimension == "file" and d.kind in ("missing", "extra"):
        kind = printable(d.expected or d.got)
        return f"{_subject(d)} ({kind}) " + ("is missing" if d.kind == "missing" else "should not exist")
    if d.dimension not in ("stdout", "stderr") and d.kind != "data":
        what = "" if d.kind == "changed" else f": {d.kind}"
        return f"{_subject(d)}{what}: expected {_value(d, d.expected)}, got {_value(d, d.got)}"
    at = first_offset(d.expected, d.got)
    head = f"{_subject(d)} differs at byte {at}: {len(d.expected)} bytes expected, {len(d.got)} got"
    text = _is_text(_window(d.expected, at)) and _is_text(_window(d.got, at))
    body = _text(d.expected, d.got, at) if text else _hexdump(d.expected, d.got, at)
    return "\n".join([head, *body])


def explain_all(found: Sequence[Difference]) -> str:
    """Explain the first difference and name the dimensions of the others; "" when there is none."""
    if not found:
        return ""
    others = sorted({f"{_subject(d)}" for d in found[1:]} - {_subject(found[0])})
    more = f"\nalso differs: {', '.join(others[:5])}" + (f" and {len(others) - 5} more" if len(others) > 5 else "")
    return explain(found[0]) + (more if others else "")
