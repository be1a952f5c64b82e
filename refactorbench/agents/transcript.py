"""A run's journal for readers: thought, action, observation, page by page; and as a trajectory in ATIF (v1.4)."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import msgspec

from refactorbench.agents.records import Answered, Clock, Entry, Folded, Replied, Started, Stopped, Told
from refactorbench.agents.secrets import masked
from refactorbench.errors import UsageError
from refactorbench.llm.protocol import Text, Thinking, Turn, Usage

PAGE = 20  # turns
ATIF = "ATIF-v1.4"
NOTES = (
    "Messages of the harness between turns are user steps; where the context was folded stands a system step without a "
    "time. Costs, where the model's price is known, include attempts that the provider's faults threw away; tokens "
    "don't. Images that were shown are counted, not held."
)


def thought(turn: Turn) -> str:
    parts = [b.text for b in turn.blocks if isinstance(b, Thinking | Text) and b.text.strip()]
    return "\n".join(parts)


def page(entries: Sequence[Entry], number: int, longest: int = 2000) -> str:
    """Page `number` (from 1), PAGE turns a page; observations beyond `longest` characters are cut in the middle."""
    turns = _turns(entries)
    pages = max(1, -(-len(turns) // PAGE))
    if not 1 <= number <= pages:
        raise UsageError(f"--page {number} doesn't exist: the transcript has {pages} pages of {PAGE} turns")
    lines = [f"page {number} of {pages}, {len(turns)} turns"]
    if number == 1 and entries and isinstance(entries[0], Started):
        lines += ["TASK", entries[0].first]
    for n, group in enumerate(turns[(number - 1) * PAGE : number * PAGE], (number - 1) * PAGE + 1):
        lines += [f"--- turn {n}", *_told(group, longest)]
    return plain(masked("\n".join(lines)))


def plain(text: str) -> str:
    """Text for a terminal: what would move its cursor or change its state is spelled out."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def _turns(entries: Sequence[Entry]) -> list[list[Entry]]:
    """What followed each reply, the reply first."""
    groups: list[list[Entry]] = []
    for entry in entries:
        if isinstance(entry, Replied):
            groups.append([entry])
        elif groups:
            groups[-1].append(entry)
    return groups


def _told(group: Sequence[Entry], longest: int) -> list[str]:
    lines = []
    for e in group:
        if isinstance(e, Replied):
            lines += [f"THOUGHT  {thought(e.turn) or '(none)'}"]
        elif isinstance(e, Answered):
            words = "\n".join(f"  {k}: {_plain(v)}" for k, v in e.call.input.items())
            lines += [f"ACTION  {e.call.name}\n{words}" if words else f"ACTION  {e.call.name}"]
            lines += [f"OBSERVATION{'' if e.outcome == 'ok' else f' ({e.outcome})'}  {_cut(e.text, longest)}"]
        elif isinstance(e, Told):
            lines += [f"HARNESS ({e.why})  {e.text}"]
        elif isinstance(e, Folded):
            lines += [f"HARNESS (fold)  {e.characters} characters of {e.what} are left out from here on"]
        elif isinstance(e, Stopped):
            lines += [f"END  {e.reason}: {e.note}"]
    return lines


def _plain(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    return f"{text[: longest // 2]}\n[... {len(text) - longest} characters ...]\n{text[len(text) - longest // 2 :]}"


def trajectory(entries: Sequence[Entry], session: str) -> dict[str, Any]:
    """The run as an ATIF object. What looks like a secret is masked."""
    first = entries[0]
    assert isinstance(first, Started)
    steps: list[dict[str, Any]] = [
        {"timestamp": _when(first, Clock()), "source": "system", "message": first.system},
        {"timestamp": _when(first, Clock()), "source": "user", "message": first.first},
    ]
    for number, group in enumerate(_turns(entries), 1):
        steps.append(_step(group, first, number))
        steps += [_aside(e, first) for e in group if isinstance(e, Told | Folded)]
    found: dict[str, Any] = {
        "schema_version": ATIF,
        "session_id": session,
        "agent": {
            "name": f"refactorbench-{first.scaffold}", "version": first.version, "model_name": first.model,
            "extra": {"switches": first.switches, "task": first.task},
        },
        "steps": [{"step_id": n, **step} for n, step in enumerate(steps, 1)],
        "notes": NOTES,
        "final_metrics": _totals(entries, first, len(steps)),
    }  # fmt: skip
    stopped = next((e for e in entries if isinstance(e, Stopped)), None)
    if stopped:
        found["extra"] = {"stop": stopped.reason, "note": stopped.note}
    return _masked(found)


def _when(first: Started, clock: Clock) -> str:
    when = datetime.datetime.fromtimestamp(first.time + clock.wall_s, datetime.UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _aside(entry: Told | Folded, first: Started) -> dict[str, Any]:
    """What the harness did between two turns: a message of its own, or a fold of the context."""
    if isinstance(entry, Told):
        return {
            "timestamp": _when(first, entry.clock), "source": "user", "message": entry.text, "extra": {"why": entry.why}
        }  # fmt: skip
    what = f"{entry.characters} characters of {entry.what} are left out of the conversation from here on"
    return {"source": "system", "message": what, "extra": {"why": "fold"}}


def _step(group: Sequence[Entry], first: Started, number: int) -> dict[str, Any]:
    reply = group[0]
    assert isinstance(reply, Replied)
    turn, acts = reply.turn, [e for e in group if isinstance(e, Answered)]
    step: dict[str, Any] = {
        "timestamp": _when(first, reply.clock),
        "source": "agent",
        "message": turn.text,
        "metrics": {
            "prompt_tokens": turn.usage.prompt, "completion_tokens": turn.usage.output + turn.usage.reasoning,
            "cached_tokens": turn.usage.cache_read,
        },
    }  # fmt: skip
    if first.prices:
        step["metrics"]["cost_usd"] = reply.cost
    if turn.model:
        step["model_name"] = turn.model
    if first.switches.get("effort"):
        step["reasoning_effort"] = first.switches["effort"]
    reasons = "\n".join(b.text for b in turn.blocks if isinstance(b, Thinking) and b.text)
    if reasons:
        step["reasoning_content"] = reasons
    calls = turn.tool_uses or tuple(e.call for e in acts)  # of a text the command as it was understood
    if calls:
        ids = [c.id or f"turn_{number}_{n}" for n, c in enumerate(calls, 1)]
        step["tool_calls"] = [
            {"tool_call_id": i, "function_name": c.name, "arguments": c.input} for i, c in zip(ids, calls, strict=True)
        ]
        results = [{"source_call_id": i, "content": e.text} for i, e in zip(ids, acts, strict=False)]
        if results:  # a run that was stopped may not have come to any
            step["observation"] = {"results": results}
            step["extra"] = {"outcomes": [e.outcome for e in acts], "images": sum(len(e.images) for e in acts)}
    return step


def _totals(entries: Sequence[Entry], first: Started, steps: int) -> dict[str, Any]:
    replies = [e for e in entries if isinstance(e, Replied)]
    thrown = sum((r.turn.discarded for r in replies), Usage())
    found: dict[str, Any] = {
        "total_prompt_tokens": sum(r.turn.usage.prompt for r in replies),
        "total_completion_tokens": sum(r.turn.usage.output + r.turn.usage.reasoning for r in replies),
        "total_cached_tokens": sum(r.turn.usage.cache_read for r in replies),
        "total_steps": steps,
        "extra": {"thrown_away_tokens": thrown.total},
    }
    if first.prices:
        found["total_cost_usd"] = round(sum(r.cost for r in replies), 6)
    return found


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {k: _masked(v) for k, v in value.items()}
    return [_masked(v) for v in value] if isinstance(value, list | tuple) else value
