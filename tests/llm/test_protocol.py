import msgspec

from refactorbench.errors import HarnessError, UsageError
from refactorbench.llm.protocol import (
    ContextOverflow,
    CredentialsMissing,
    Image,
    Message,
    Native,
    ProviderError,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    Turn,
    Usage,
)

TURN = Turn(
    (
        Thinking(
            "hm", Native("anthropic", {"type": "thinking", "signature": "s/+=", "n": [1, 2.5, None, {"é": True}]})
        ),
        Text("one"),
        Text("two", Native("openai", {"id": "m"})),
        ToolUse("1", "bash", {"command": "ls", "deep": {"list": [1, "x"]}}),
    ),
    "tool_use",
    Usage(1, 2, 3, 4, 5),
    discarded=Usage(output=1),
    attempts=2,
    waited_s=1.5,
)


def test_a_conversation_survives_the_journal_both_ways() -> None:
    answer = Message("user", (ToolResult("1", (Text("a.c"), Image("image/png", "eA==")), is_error=True), Text("go on")))
    for value, kind in ((TURN, Turn), (TURN.message, Message), (answer, Message)):
        assert msgspec.json.decode(msgspec.json.encode(value), type=kind) == value


def test_a_turn_shows_its_text_and_calls() -> None:
    assert TURN.text == "one\ntwo"
    assert [u.name for u in TURN.tool_uses] == ["bash"]
    assert TURN.message == Message("assistant", TURN.blocks)


def test_usage_adds_up_class_by_class() -> None:
    total = Usage(1, 2, 3, 4, 5) + Usage(10, 20, 30, 40, 50)
    assert total == Usage(11, 22, 33, 44, 55)
    assert (total.prompt, total.total) == (66, 165)


def test_errors_own_their_exit_status_and_owner() -> None:
    overflow = ContextOverflow("too long", status=413, usage=Usage(1))
    assert isinstance(overflow, ProviderError) and isinstance(overflow, HarnessError)
    assert (overflow.kind, overflow.retryable, overflow.exit_status, overflow.owner) == (
        "context_overflow",
        False,
        3,
        "provider",
    )
    assert issubclass(CredentialsMissing, UsageError) and CredentialsMissing.exit_status == 2
