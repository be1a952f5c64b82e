"""How much of what judges read a provider serves from its cache: 3 seats x 10 questions over one tree, on servers that
keep prompts by their providers' rules."""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "audit"))

import audit_trees as trees
from judging import GONE, LEAD, Kept, docket, panel

from refactorbench.audit.docket import Eye
from refactorbench.audit.judges.judge import LlmJudge
from refactorbench.audit.stage import conclude
from refactorbench.catalog.load import load_task
from refactorbench.catalog.models import Criteria, Criterion

from .dialects import ANTHROPIC, RESPONSES, Dialect
from .server import Peer, Seen, Server, stream

QUESTIONS = 10
LEAST = 1024  # tokens that a provider keeps at all
BREAKPOINTS, BACK = 4, 20  # marks in a request, and blocks before a mark that are looked at
STEP = 128  # tokens by which an automatic cache goes
WANTED = 0.80
ROOT = Path(__file__).resolve().parents[2]
REPLIES = (
    [("list", {"tree": "submission", "depth": 5}), ("docket", {"eye": "source"})],
    [("search", {"tree": "submission", "texts": ["extern", "asm!", "include_bytes"]})],
    [("read", {"tree": "submission", "path": "src/lib.rs", "count": 200})],
    [("answer", {"verdict": "pass", "reason": "clean", "covered": [{"place": "submission", "path": ""}]})],
)

Account = tuple[int, int, int]  # tokens read uncached, from the cache, and written to it


def tokens(value: Any) -> int:
    return len(json.dumps(value)) // 4


class Marked:
    """Anthropic's rules: a prefix is kept where a block was marked, and found at a mark or up to 20 blocks before it."""

    def __init__(self) -> None:
        self.kept: set[str] = set()

    def account(self, body: dict[str, Any]) -> Account:
        blocks = [*body["tools"], *body["system"]]
        blocks += [{"role": m["role"], **b} for m in body["messages"] for b in m["content"]]
        marks = [i for i, b in enumerate(blocks) if "cache_control" in b]
        assert len(marks) <= BREAKPOINTS
        plain = [{k: v for k, v in b.items() if k != "cache_control"} for b in blocks]
        ends, sizes, total, size = [], [], hashlib.sha256(), 0
        for block in plain:
            total.update(json.dumps(block).encode())
            size += tokens(block)
            ends.append(total.hexdigest())
            sizes.append(size)
        near = {i for mark in marks for i in range(max(0, mark - BACK), mark + 1)}
        read = max((sizes[i] for i in near if ends[i] in self.kept), default=0)
        self.kept |= {ends[i] for i in marks if sizes[i] >= LEAST}
        written = max(0, sizes[marks[-1]] - read)
        return size - read - written, read, written


class Automatic:
    """OpenAI's: the longest beginning of an earlier prompt of the same key, in steps of 128 tokens."""

    def __init__(self) -> None:
        self.kept: set[str] = set()

    def account(self, body: dict[str, Any]) -> Account:
        key = body["prompt_cache_key"]
        text = json.dumps([body["tools"], body["instructions"]]) + "".join(json.dumps(i) for i in body["input"])
        marks, total, at = {}, hashlib.sha256(key.encode()), 0
        while at + STEP * 4 <= len(text):
            total.update(text[at : at + STEP * 4].encode())
            at += STEP * 4
            marks[at // 4] = total.hexdigest()
        read = max((n for n, end in marks.items() if end in self.kept and n >= LEAST), default=0)
        self.kept |= set(marks.values())
        return len(text) // 4 - read, read, 0


class Provider:
    """Answers every conversation with REPLIES, and accounts for what it was sent."""

    def __init__(self, dialect: Dialect, rules: Marked | Automatic) -> None:
        self.dialect, self.rules, self.lock = dialect, rules, threading.Lock()
        self.requests = 0

    def __call__(self, peer: Peer, seen: Seen) -> None:
        body = seen.body
        with self.lock:
            plain, read, written = self.rules.account(body)
            self.requests += 1
        make: Callable[..., Any] = anthropic if self.dialect is ANTHROPIC else responses
        stream(self.dialect.pieces(list(make(REPLIES[self.place(body)], plain, read, written))))(peer, seen)

    def place(self, body: dict[str, Any]) -> int:
        """How often the model has replied already, the opening aside."""
        if self.dialect is ANTHROPIC:
            return sum(m["role"] == "assistant" for m in body["messages"]) - 1
        done = [i for i in body["input"] if i.get("type") == "function_call"]
        return sum(any(c["call_id"].startswith(f"call_{n}_") for c in done) for n in range(len(REPLIES)))


def anthropic(calls: list[tuple[str, Any]], plain: int, read: int, written: int) -> Iterator[dict[str, Any]]:
    usage = {"input_tokens": plain, "cache_read_input_tokens": read, "cache_creation_input_tokens": written}
    head = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    yield {"type": "message_start", "message": {**head, "usage": {**usage, "output_tokens": 1}}}
    for n, (name, given) in enumerate(calls):
        use = {"type": "tool_use", "id": f"toolu_{name}_{n}", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(given)}
        yield {"type": "content_block_start", "index": n, "content_block": use}
        yield {"type": "content_block_delta", "index": n, "delta": delta}
        yield {"type": "content_block_stop", "index": n}
    yield {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 30}}
    yield {"type": "message_stop"}


def responses(calls: list[tuple[str, Any]], plain: int, read: int, written: int) -> Iterator[dict[str, Any]]:
    turn = next(i for i, reply in enumerate(REPLIES) if reply is calls)
    items = [
        {"type": "function_call", "id": f"fc_{turn}_{n}", "call_id": f"call_{turn}_{n}", "name": name,
         "arguments": json.dumps(given), "status": "completed"}
        for n, (name, given) in enumerate(calls)
    ]  # fmt: skip
    response = {"id": "r", "object": "response", "model": "m", "output": [], "status": "in_progress"}
    yield {"type": "response.created", "response": response, "sequence_number": 0}
    for n, item in enumerate(items):
        yield {"type": "response.output_item.done", "output_index": n, "item": item, "sequence_number": n + 1}
    usage = {
        "input_tokens": plain + read + written, "input_tokens_details": {"cached_tokens": read}, "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": plain + read + written + 30,
    }  # fmt: skip
    done = {**response, "status": "completed", "output": items, "usage": usage}
    yield {"type": "response.completed", "response": done, "sequence_number": 99}


def share(dialect: Dialect, rules: Marked | Automatic, folder: Path, spoil: bool = False) -> tuple[float, int]:
    """(share of input tokens that came from the cache, requests) of a whole panel. `spoil`: every question has a case
    file of its own."""
    provider = Provider(dialect, rules)
    loaded = load_task(ROOT, "bzip2-rust")
    asked = (*loaded.criteria.criterion, *numbered(QUESTIONS - len(loaded.criteria.criterion)))
    tree = loaded.folder / "solution"
    with Server(provider) as server:
        judge = LlmJudge(
            loaded, panel(canaries=False), trees.state_a(folder / "a"), tree, "0" * 64, docket(LEAD),
            1, Kept(), lambda _: None, lambda name, effort: dialect.open(server.url)[0],
        )  # fmt: skip
        if spoil:
            plain, number = judge._case, itertools.count()
            judge._case = lambda n: msgspec.structs.replace(plain(n), text=f"{next(number)}\n{plain(n).text}")  # type: ignore[method-assign]
        result = conclude(Criteria("refactorbench.criteria/1", "t", asked), docket(LEAD), judge.panel)
    assert result.verdict.criteria[1].outcome.passed and result.spent.samples == 3 * QUESTIONS
    used = result.spent.usage
    return used.cache_read / used.prompt, provider.requests


def numbered(n: int) -> tuple[Criterion, ...]:
    return tuple(
        msgspec.structs.replace(
            GONE, id=f"c{i}", title=f"Criterion {i}", question=f"Is part {i} gone?", eyes=(Eye.SOURCE,)
        )
        for i in range(n)
    )


@pytest.mark.parametrize(
    ("dialect", "rules"), [(ANTHROPIC, Marked), (RESPONSES, Automatic)], ids=["anthropic", "openai"]
)
def test_most_of_what_judges_read_comes_from_a_cache(dialect: Dialect, rules: type, tmp_path: Path) -> None:
    served, requests = share(dialect, rules(), tmp_path)
    assert requests == 3 * QUESTIONS * len(REPLIES)
    print(f"{dialect.name}: {100 * served:.1f}% of the input tokens of {requests} requests from the cache")
    assert served >= WANTED


def test_a_case_file_that_changed_from_question_to_question_would_not(tmp_path: Path) -> None:
    assert share(ANTHROPIC, Marked(), tmp_path, spoil=True)[0] < WANTED
