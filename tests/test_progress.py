import io

import pytest

from refactorbench.progress import PLAIN_EVERY_S, QUIET_S, Progress, printable


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def work(stream: io.StringIO, step_s: float, steps: int) -> Progress:
    clock = Clock()
    progress = Progress(stream, clock)
    for done in range(steps + 1):
        progress.tick("replaying", done, steps)
        clock.now += step_s
    return progress


def test_what_is_quick_shows_nothing() -> None:
    for stream in (io.StringIO(), Terminal()):
        work(stream, QUIET_S / 20, 10)
        assert stream.getvalue() == ""


def test_lines_are_plain_and_rare_when_not_a_terminal() -> None:
    stream = io.StringIO()
    work(stream, 1.0, 100)
    lines = stream.getvalue().splitlines()
    assert "\r" not in stream.getvalue() and "\x1b" not in stream.getvalue()
    assert 100 / PLAIN_EVERY_S - 1 <= len(lines) <= 100 / PLAIN_EVERY_S
    assert lines[0] == "   replaying: 15 of 100, about 85 s left"


def test_a_terminal_rewrites_one_line_and_a_message_starts_on_a_clean_one() -> None:
    stream = Terminal()
    progress = work(stream, 1.0, 10)
    assert "\n" not in stream.getvalue() and stream.getvalue().count("\r\x1b[K") > 5
    progress.say("done")
    assert stream.getvalue().endswith("\r\x1b[Kdone\n")


def test_ending_leaves_a_clean_line_once_and_nothing_where_none_was_open() -> None:
    stream = Terminal()
    progress = work(stream, 1.0, 10)
    progress.end()
    progress.end()
    assert stream.getvalue().endswith(" s left\r\x1b[K")
    untouched = Terminal()
    Progress(untouched).end()
    assert untouched.getvalue() == ""


def test_a_new_piece_of_work_has_its_own_clock() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, clock)
    progress.tick("one", 0, 2)
    clock.now += 60
    progress.tick("two", 0, 2)
    assert stream.getvalue() == ""
    clock.now += 60
    progress.tick("two", 1, 2)
    assert stream.getvalue() == "   two: 1 of 2, about 60 s left\n"


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_messages_are_lines(stream: io.StringIO) -> None:
    Progress(stream).say("building")
    assert stream.getvalue() == "building\n"


def test_names_of_submitted_files_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[2J\x07b\x9bc\udcfe\n\té") == "a\\x1b[2J\\x07b\\x9bc\\udcfe\n\té"
    stream = io.StringIO()
    Progress(stream).say("building \x1b]0;x\x07")
    assert "\x1b" not in stream.getvalue()
