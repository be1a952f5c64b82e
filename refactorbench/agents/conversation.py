"""From the journal to the conversation, and what comes next: pure functions, so that a restart changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from refactorbench.agents.records import Answered, Entry, Folded, Replied, Started, Told
from refactorbench.llm.protocol import Block, Message, Text, ToolResult, ToolUse, Turn

LISTED = 200  # actions named of turns that are left out
Why = Literal["silent", "cut", "format"]


class Ask(msgspec.Struct, frozen=True):
    """The model is to be asked."""


class Do(msgspec.Struct, frozen=True):
    """An action is to be done; `number` of its turn's were answered before it."""

    call: ToolUse
    number: int


class Say(msgspec.Struct, frozen=True):
    """The harness has something to say before the model is asked again."""

    text: str
    why: Why


class End(msgspec.Struct, frozen=True):
    reason: Literal["done", "idle", "format"]
    note: str


class Malformed(Exception):
    """A reply that holds no action that could be understood; the message says what one looks like."""


Calls = Callable[[Turn], tuple[ToolUse, ...]]


def next_step(entries: Sequence[Entry], calls: Calls, texts: Texts) -> Ask | Do | Say | End:
    """What follows from what has happened. `calls` finds the actions of a reply, or raises Malformed."""
    at = next((i for i in range(len(entries) - 1, -1, -1) if isinstance(entries[i], Replied)), -1)
    after = entries[at + 1 :]
    if any(isinstance(e, Answered) and e.outcome == "final" for e in after):
        return End("done", "the agent said that it is done")
    if at < 0:
        return Ask()
    told = next((e for e in after if isinstance(e, Told)), None)
    if told is not None:
        return _patience(entries, told, texts)
    reply = entries[at]
    assert isinstance(reply, Replied)
    if reply.turn.stop == "pause":
        return Ask()
    try:
        wanted = calls(reply.turn)
    except Malformed as e:
        return Say(str(e), "format")
    answered = sum(isinstance(e, Answered) for e in after)
    if answered < len(wanted):
        return Do(wanted[answered], answered)
    if wanted:
        return Ask()
    if reply.turn.stop in ("max_tokens", "context_full"):
        what = f" in a call of {reply.turn.cut_call}, of which nothing was done" if reply.turn.cut_call else ""
        return Say(texts.cut.format(what=what), "cut")
    return Say(texts.reminder, "silent")


class Texts(msgspec.Struct, frozen=True):
    """The harness's own messages, and after how many of one kind in a row, without an action between, a run ends."""

    reminder: str
    cut: str
    reminders: int = 3
    format_errors: int = 3


def _patience(entries: Sequence[Entry], told: Told, texts: Texts) -> Ask | End:
    """Reminders are counted since the last action."""
    in_a_row = 0
    for entry in reversed(entries):
        if isinstance(entry, Answered):
            break
        in_a_row += isinstance(entry, Told) and (entry.why == "format") == (told.why == "format")
    if told.why == "format":
        ended = in_a_row >= texts.format_errors
        return End("format", f"{in_a_row} replies in a row held no action that could be understood") if ended else Ask()
    if in_a_row >= texts.reminders:
        return End("idle", f"{in_a_row} turns in a row ended without an action, and without saying that it is done")
    return Ask()


def shown(entry: Answered) -> tuple[Block, ...]:
    """An observation as blocks, without images where it has none."""
    return (Text(entry.text), *entry.images)


def line(text: str) -> str:
    """What stands in the place of an observation that was folded."""
    return f"[{text.count(chr(10)) + 1} lines of output were here ({len(text)} characters); left out to save space]"


def conversation(entries: Sequence[Entry], keep_last: int = 0) -> tuple[Message, ...]:
    """The messages that the model gets. Observations before the last fold are a line each, as are, with `keep_last`,
    all but so many of the last ones; turns that were dropped are a list of what was done in them."""
    folds = [e for e in entries if isinstance(e, Folded)]
    observations_from = max((f.upto for f in folds if f.what == "observations"), default=0)
    turns_from = max((f.upto for f in folds if f.what == "turns"), default=0)
    places = [i for i, e in enumerate(entries) if isinstance(e, Answered)]
    if keep_last and len(places) > keep_last:
        observations_from = max(observations_from, places[-keep_last])
    messages: list[Message] = []
    for i, entry in enumerate(entries):
        if isinstance(entry, Started):
            _put(messages, Text(entry.first))
            if turns_from:
                _put(messages, Text(done_so_far(entries[:turns_from])))
        elif i < turns_from or isinstance(entry, Folded):
            continue
        elif isinstance(entry, Replied):
            if entry.turn.blocks:
                messages.append(entry.turn.message)
        elif isinstance(entry, Answered):
            content = (Text(line(entry.text)),) if i < observations_from else shown(entry)
            for block in (ToolResult(entry.call.id, content, entry.is_error),) if entry.call.id else content:  # type: ignore[arg-type]
                _put(messages, block)
        elif isinstance(entry, Told):
            _put(messages, Text(entry.text))
    return tuple(messages)


def _put(messages: list[Message], block: Block) -> None:
    if messages and messages[-1].role == "user":
        messages[-1] = Message("user", (*messages[-1].blocks, block))
    else:
        messages.append(Message("user", (block,)))


def done_so_far(entries: Sequence[Entry]) -> str:
    """One line per action of turns that are left out."""
    acts = [e for e in entries if isinstance(e, Answered)]
    lines = []
    for e in acts[-LISTED:]:
        said = " ".join(str(v) for v in e.call.input.values()).split("\n", 1)[0][:100]
        lines.append(f"- {e.call.name} {said}" + (f" ({e.outcome})" if e.outcome not in ("ok", "edited") else ""))
    more = f" The last {LISTED} of them:" if len(acts) > LISTED else " In order:"
    return (
        f"[{len(acts)} actions that you took before what follows are left out to save space; the files are as you left "
        f"them.{more}\n" + "\n".join(lines) + "\n]"
    )


def fold(entries: Sequence[Entry]) -> Folded | None:
    """The next fold when the context is full: half of the observations that are still whole, by their size; when only
    the last two are left, half of the turns. None when there is nothing left to fold."""
    folds = [e for e in entries if isinstance(e, Folded)]
    start = max((f.upto for f in folds), default=0)
    open_ = [i for i, e in enumerate(entries) if isinstance(e, Answered) and i >= start]
    sizes = [len(entries[i].text) for i in open_]  # type: ignore[union-attr]
    if len(open_) > 2:
        half, total = sum(sizes) / 2, 0
        for n, (i, size) in enumerate(zip(open_, sizes, strict=True)):
            total += size
            if total >= half or n == len(open_) - 3:
                return Folded(i + 1, total, "observations")
    first = max((f.upto for f in folds if f.what == "turns"), default=1)
    turns = [i for i, e in enumerate(entries) if isinstance(e, Replied) and i >= first]
    if len(turns) < 3:
        return None
    upto = turns[len(turns) // 2]
    return Folded(upto, sum(_size(e) for e in entries[first:upto]), "turns")


def fold_images(entries: Sequence[Entry]) -> Folded | None:
    """The fold that leaves out every image that is still shown, with the observations before it; None if none is."""
    start = max((e.upto for e in entries if isinstance(e, Folded)), default=0)
    last = max((i for i, e in enumerate(entries) if isinstance(e, Answered) and e.images and i >= start), default=-1)
    if last < 0:
        return None
    shown_ = entries[start : last + 1]
    return Folded(last + 1, sum(len(e.text) for e in shown_ if isinstance(e, Answered)), "observations")


def _size(entry: Entry) -> int:
    if isinstance(entry, Replied):
        return len(entry.turn.text) + sum(len(str(c.input)) for c in entry.turn.tool_uses)
    return 0
