import pytest

from refactorbench.observe.compare import Difference, differences
from refactorbench.observe.explain import LIMIT, explain, explain_all, first_offset
from refactorbench.observe.model import NOW, Observation, OutputFile


def test_text_is_explained_with_its_line_and_the_lines_before() -> None:
    text = explain(Difference("stdout", "changed", b"one\ntwo\nthree\nfour\n", b"one\ntwo\nthree\nfour!\n"))
    assert text.splitlines() == [
        "stdout differs at byte 18: 19 bytes expected, 20 got",
        "    line 2 | two",
        "    line 3 | three",
        "  - line 4 | four",
        "  + line 4 | four!",
    ]


def test_a_missing_end_is_said() -> None:
    text = explain(Difference("stderr", "changed", b"one\ntwo\n", b"one\n"))
    assert "  - line 2 | two" in text and "  + line 2 |   (ends here)" in text


def test_bytes_are_explained_side_by_side_from_the_right_offset() -> None:
    expected = bytes(range(64))
    got = expected[:33] + b"\xff" + expected[34:]
    lines = explain(Difference("file", "data", expected, got, b"a.bz2")).splitlines()
    assert lines[0] == "file a.bz2 differs at byte 33: 64 bytes expected, 64 got"
    marked = [line for line in lines if line.startswith("  !")]
    assert len(marked) == 1 and "00000020" in marked[0] and "20 21 22" in marked[0] and "20 ff 22" in marked[0]


@pytest.mark.parametrize(
    ("d", "text"),
    [
        (Difference("ended", "changed", b"exit 0", b"signal 11"), "ended: expected exit 0, got signal 11"),
        (Difference("file", "mode", b"0644", b"0600", b"f"), "file f: mode: expected 0644, got 0600"),
        (
            Difference("file", "mtime", b"-5500000000", b"-1", b"f"),
            "file f: mtime: expected -5.500000000, got -0.000000001",
        ),
        (Difference("file", "mtime", b"5000000001", b"%d" % NOW, b"f"), "file f: mtime: expected 5.000000001, got the time of the check"),
        (Difference("file", "missing", b"file", b"", b"f\n"), "file f\\n (file) is missing"),
        (Difference("file", "extra", b"", b"dir", b"\xff"), "file \\xff (dir) should not exist"),
        (Difference("limit", "changed", b"", b"wall"), "limit: expected nothing, got wall"),
    ],
)
def test_values_are_explained_in_one_line(d: Difference, text: str) -> None:
    assert explain(d) == text


@pytest.mark.parametrize("unit", [b"x" * 70_000, b"\0" * 70_000, b"\\\n" * 9000, "é".encode() * 40_000, b"\x1b[31m"])
def test_hostile_output_stays_bounded_and_printable(unit: bytes) -> None:
    for expected, got in ((unit + b"a" + unit, unit + b"b"), (unit, b""), (b"", unit)):
        text = explain(Difference("stdout", "changed", expected, got))
        assert len(text) <= LIMIT
        assert all(c == "\n" or c == "…" or " " <= c <= "~" for c in text)


def test_the_widest_explanation_stays_within_the_limit() -> None:
    lines = "é".encode() * 99 + b"\n"
    d = Difference("file", "data", 4 * lines + "é".encode() * 99, 4 * lines + "ä".encode() * 99, b"\xff" * 4000)
    assert LIMIT - 300 < len(explain(d)) <= LIMIT


def test_the_first_offset_is_exact_across_chunks() -> None:
    a = bytes(200_000)
    for at in (0, 65_535, 65_536, 131_072, 199_999):
        assert first_offset(a, a[:at] + b"\1" + a[at + 1 :]) == at
    assert first_offset(a, a[:-1]) == 199_999
    assert first_offset(a, a) == 200_000


def test_other_dimensions_are_named_after_the_first() -> None:
    one = Observation("exit", 0, b"x", b"", (OutputFile(b"f", "file", 0o644, 1, b"1"),))
    two = Observation("exit", 2, b"y", b"", (OutputFile(b"f", "file", 0o600, 2, b"2"),))
    text = explain_all(differences(one, two))
    assert text.startswith("code: expected 0, got 2") and text.endswith("also differs: file f, stdout")
    assert explain_all(()) == ""
