"""What an agent, or whoever answers for its model, might do to the harness: nothing ends a run, hangs it, fills the
host's disk or leads out of the box. Beside each stands what must still work."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.conftest import MakeShell
from refactorbench.agents import collect as collecting
from refactorbench.agents.aci import marked
from refactorbench.agents.aci_files import Search, apply_diff
from refactorbench.agents.checkpoint import Checkpoints
from refactorbench.agents.collect import collect
from refactorbench.agents.confined import Box, Place, Refused
from refactorbench.agents.conversation import conversation, fold_images
from refactorbench.agents.desk import answered
from refactorbench.agents.edit import EditFailed, Editor
from refactorbench.agents.records import Answered, Clock, Entry, Replied, Started
from refactorbench.agents.secrets import scrubber
from refactorbench.agents.shell import ShellState
from refactorbench.agents.transcript import page
from refactorbench.errors import HarnessError
from refactorbench.llm.adapter import whole
from refactorbench.llm.protocol import Image, ProviderError, Text, ToolUse, Turn, Usage


@pytest.fixture
def box(tmp_path: Path) -> Box:
    (tmp_path / "tree").mkdir()
    return Box((Place("/t", tmp_path / "tree", True),))


def quick(do: Callable[[], Any], seconds: float = 5.0) -> Any:
    start = time.monotonic()
    found = do()
    assert time.monotonic() - start < seconds
    return found


# the shell's own pipe


@pytest.mark.parametrize("word", ["", "done x y", "ended", "done 1", "gone", "done 99999999999999999999 0", "\\377\\0", "ready"])
def test_what_a_command_writes_into_the_shells_pipe_is_passed_over(make_shell: MakeShell, word: str) -> None:
    shell = make_shell()
    ran = shell.run(f"for n in {{10..20}}; do {{ printf '{word}\\n' >&$n; }} 2>/dev/null; done; echo fine", 20)
    assert (ran.status, ran.ended, ran.output[-5:]) == (0, "exit", "fine\n")
    assert shell.run("exit 3", 20).status == 3 and shell.run("echo on", 20).output == "on\n"


@pytest.mark.parametrize("flood", ["yes x", "yes x | tr -d '\\n'", "yes 'done 1 0'"])
def test_a_flood_in_the_shells_pipe_neither_hangs_nor_fills_memory(make_shell: MakeShell, flood: str) -> None:
    shell = make_shell()
    find = "for n in {10..20}; do [[ $(readlink /proc/$$/fd/$n) == pipe:* ]] && { exec 7>&$n; } 2>/dev/null; done"
    ran = quick(lambda: shell.run(f"{find}; {flood} >&7", 1.0), 15)
    assert ran.ended in ("time", "exit", "shell")
    shell.close()
    assert len(shell._words) <= 1000 and len(shell._rest) <= 100


# files that aren't what they seem


@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "file"])
def test_what_lies_where_a_new_content_is_written_first_is_left_alone(box: Box, tmp_path: Path, kind: str) -> None:
    tree = tmp_path / "tree"
    (tree / "a").write_text("old")
    (tmp_path / "outside").write_text("outside")
    for name in (".edit-0.new", ".a.new"):
        place = tree / name
        {
            "fifo": lambda p: os.mkfifo(p), "folder": lambda p: p.mkdir(),
            "link": lambda p: p.symlink_to(tmp_path / "outside"), "file": lambda p: p.write_text("mine"),
        }[kind](place)  # fmt: skip
    quick(lambda: box.write("/t/a", b"new"))
    assert (tree / "a").read_text() == "new" and (tmp_path / "outside").read_text() == "outside"
    assert kind != "file" or (tree / ".edit-0.new").read_text() == "mine"
    assert sorted(p.name for p in tree.iterdir()) == [".a.new", ".edit-0.new", "a"]


def test_the_longest_names_can_be_edited(box: Box, tmp_path: Path) -> None:
    name = "é" * 127
    box.write(f"/t/{name}", b"1")
    box.write(f"/t/{name}", b"2")
    assert (tmp_path / "tree" / name).read_text() == "2"


def test_names_with_line_ends_do_not_look_like_several(box: Box, tmp_path: Path) -> None:
    (tmp_path / "tree" / "a\nt b\x1b[2J").write_text("needle")
    for text in (
        Editor(box, tmp_path / "undo").view("/t").text, Search(box, 50).files("a*", "/t"), Search(box, 50).in_folder("needle", "/t"),
    ):  # fmt: skip
        assert "/t/a\\nt b\\x1b[2J" in text and text.count("\n") == 1


def test_what_cannot_be_done_is_an_answer_and_a_full_disk_is_the_machines(tmp_path: Path) -> None:
    def fail(error: Exception) -> Callable[[], Any]:
        def do() -> Any:
            raise error

        return do

    assert answered(fail(EditFailed("x"))).outcome == "edit_failed" and answered(fail(Refused("x"))).outcome == "refused"
    assert answered(fail(PermissionError(13, "Permission denied"))).outcome == "refused"
    assert answered(lambda: Editor(Box((Place("/t", tmp_path, True),)), tmp_path / "u").view("/t/\ud800")).outcome == "refused"
    with pytest.raises(HarnessError, match="free some space"):
        answered(fail(OSError(28, "No space left on device")))
    with pytest.raises(AssertionError):
        answered(fail(AssertionError("a fault of ours is not the agent's")))


def test_undo_without_the_former_content_says_so(box: Box, tmp_path: Path) -> None:
    editor = Editor(box, tmp_path / "undo")
    editor.create("/t/a", "one\n")
    editor.str_replace("/t/a", "one", "two")
    for kept in (tmp_path / "undo").iterdir():
        kept.write_text("rotten")
    with pytest.raises(Refused, match="no longer there"):
        editor.undo("/t/a")
    assert (tmp_path / "tree" / "a").read_text() == "two\n"


# work that grows out of bounds


def test_no_text_makes_a_tool_compute_for_ever(box: Box, tmp_path: Path) -> None:
    tree, editor = tmp_path / "tree", Editor(box, tmp_path / "undo", tolerant=True)
    (tree / "long").write_text("ab" * 500_000 + "\n" + "x\n" * 1000)
    (tree / "same").write_text("}\n" * 100_000)
    (tree / ("a" * 250)).write_text("")
    for path, old in (("/t/long", "ac" * 200_000), ("/t/same", "}\n" * 20_000 + "x")):
        with pytest.raises(EditFailed):
            quick(lambda p=path, o=old: editor.str_replace(p, o, "new"))  # type: ignore[misc]
    assert "No file" in quick(lambda: Search(box, 50).files("a*" * 60 + "b", "/t"))
    assert marked("<<<<<<< SEARCH\n=======\n" * 5000 + "x") is None
    with pytest.raises(EditFailed):
        quick(lambda: apply_diff(["}"] * 50_000, "@@ -1,1 +1,1 @@\n" + " }\n" * 5000 + "-x", "f"))
    (tree / "near").write_text("fn one(a: u8) {\n")
    with pytest.raises(EditFailed, match=r"comes nearest[\s\S]*fn one\(a: u8\)"):
        editor.str_replace("/t/near", "fn one(b: u8) {", "x")


def test_stars_stand_for_any_text_and_nothing_else_does(box: Box, tmp_path: Path) -> None:
    for name in ("a.rs", "ab.rs", "a?[b].rs"):
        (tmp_path / "tree" / name).write_text("")
    found = Search(box, 50).files
    assert found("a*.rs", "/t").startswith("3 files") and found("a?[b].rs", "/t").startswith("1 files")
    assert found("a?.rs", "/t").startswith("No file") and found("**b*", "/t").startswith("2 files")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE", ("a", "b")), ("<<<<<<< SEARCH\n=======\nb\nc\n>>>>>>> REPLACE\n", ("", "b\nc")),
        ("<<<<<<< SEARCH\na\n=======\n>>>>>>> REPLACE", ("a", "")), ("a\n=======\nb\n>>>>>>> REPLACE", None), ("", None),
        ("<<<<<<< SEARCH\na\n>>>>>>> REPLACE", None), ("<<<<<<< SEARCH\na\n=======\nb", None),
    ],
)  # fmt: skip
def test_the_marks_of_an_edit_are_lines_of_their_own(text: str, parts: tuple[str, str] | None) -> None:
    assert marked(text) == parts


# the host's disk


def test_files_of_holes_take_no_room_in_a_checkpoint_and_come_back(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    with (tree / "sparse").open("wb") as f:
        f.seek(300 << 20)
        f.write(b"end")
        f.truncate(310 << 20)
    (tree / "zeros").write_bytes(bytes(5))
    checkpoints = Checkpoints(tmp_path / "kept", {"tree": tree})
    taken = checkpoints.take()
    for again in (False, True):
        used = sum(p.stat().st_blocks * 512 for p in (tmp_path / "kept" / "contents").iterdir())
        assert used < 8 << 20
        if not again:
            checkpoints.restore(taken)
            assert (tree / "sparse").stat().st_blocks * 512 < 8 << 20 and (tree / "zeros").read_bytes() == bytes(5)
    with (tree / "sparse").open("rb") as f:
        assert f.seek(0, 2) == 310 << 20 and f.seek(300 << 20) and f.read(3) == b"end"


def deep(top: Path) -> None:
    here = os.open(top, os.O_RDONLY)
    for _ in range(600):
        os.mkdir("d" * 10, dir_fd=here)
        below = os.open("d" * 10, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_paths_too_long_for_the_system_end_neither_a_checkpoint_nor_the_handing_in(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_text("kept")
    deep(tree)
    checkpoints = Checkpoints(tmp_path / "kept", {"tree": tree})
    checkpoints.restore(checkpoints.take())
    assert (tree / "a").read_text() == "kept" and (tree / ("d" * 10)).is_dir()
    (tree / "e").mkdir()
    deep(tree / "e")
    removed = collect(tree, tmp_path / "out", ())
    assert (tmp_path / "out" / "a").read_text() == "kept" and "too long" in removed[0] and len(removed) == 1


def test_an_agents_tree_beyond_the_bounds_is_handed_in_up_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "LARGEST_TREE", 10)
    (tmp_path / "a").mkdir()
    for name in ("1", "2", "3"):
        (tmp_path / "a" / name).write_text("x" * 5)
    removed = collect(tmp_path / "a", tmp_path / "b", (), may_be_empty=True)
    assert sorted(p.name for p in (tmp_path / "b").iterdir()) == ["1", "2"] and removed[0].startswith("3 (beyond")


# what comes from a provider


@pytest.mark.parametrize("value", ["\ud800", {"deep": "\udfff"}, 10**5000], ids=["half", "deep", "digits"])
def test_a_reply_that_cannot_be_written_down_is_no_reply(value: object) -> None:
    with pytest.raises(ProviderError, match="can't be written down") as e:
        whole([ToolUse("a", "bash", {"command": value})], "end", Usage(), model="", request_id="", cut_call="")
    assert e.value.retryable
    assert whole([Text("fine")], "end", Usage(), model="", request_id="", cut_call="").text == "fine"


def seen(*images: Image, text: str = "saw") -> list[Entry]:
    call = ToolUse("c", "edit", {})
    return [
        Replied(Turn((call,), "tool_use", Usage()), Clock()),
        Answered(call, text, "ok", Clock(), "", ShellState(), images=images),
    ]


def test_a_picture_that_a_provider_refuses_is_left_out_from_then_on() -> None:
    first = Started("thin", "m", "t", "1", {}, "s", "begin", "", 0.0)
    entries: list[Entry] = [first, *seen(), *seen(Image("image/png", "AAAA")), *seen()]
    folded = fold_images(entries)
    assert folded is not None and "image_type" not in str(folded)
    entries.append(folded)
    assert "AAAA" not in str(conversation(entries)) and str(conversation(entries)).count("saw") == 1
    assert fold_images(entries) is None and fold_images([first, *seen()]) is None


# secrets, and terminals


@pytest.mark.parametrize("secret", ['a"b\\c/deef', "pläin-sécret", "AKIA/with/slashes", "plain-secret-1"])
def test_a_secret_is_found_in_json_within_json_however_it_is_spelled(secret: str) -> None:
    scrub = scrubber({"MY_API_KEY": secret, "BAD\"TOKEN": "another-secret"})
    inner = (json.dumps({"command": secret}), json.dumps({"command": secret}, ensure_ascii=False), json.dumps({"c": secret}).replace("/", "\\/"))
    for text in (secret, *inner):
        line = json.dumps({"text": text}, ensure_ascii=False).encode()
        found = json.loads(scrub(line))["text"]
        assert "[secret MY_API_KEY]" in found and secret not in found and json.dumps(secret)[1:-1] not in found
    assert json.loads(scrub(b'{"text": "x another-secret"}')) == {"text": "x [secret BAD_TOKEN]"}
    assert scrub(b'{"text": "nothing"}') == b'{"text": "nothing"}'


def test_an_environment_that_is_no_text_ends_nothing() -> None:
    assert scrubber({"X_TOKEN": os.fsdecode(b"\xff" * 9)})(b"{}") == b"{}"


def test_a_transcript_does_not_move_the_readers_cursor() -> None:
    first = Started("thin", "m", "t", "1", {}, "s", "begin", "", 0.0)
    text = page([first, *seen(text="a\x1b]0;title\x07\r\x9b2Jb\tc\nd é")], 1)
    assert "\x1b" not in text and "\x9b" not in text and "\r" not in text and "b\tc\nd é" in text and "\\x1b]0;" in text
