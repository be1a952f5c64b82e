"""Edits that can't be meant otherwise, and refusals that say how to go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from refactorbench.agents.act import Change
from refactorbench.agents.confined import Box, Place, Refused
from refactorbench.agents.edit import EditFailed, Editor

TEXT = "fn one() {\n    let x = 1;\n}\n\nfn two() {\n    let x = 1;\n    return;\n}\n"


Make = Callable[..., Editor]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.rs").write_text(TEXT)
    box = Box((Place("/t", tmp_path / "tree", True),))

    def editor(**more: object) -> Editor:
        return Editor(box, tmp_path / "undo", **more)  # type: ignore[arg-type]

    return editor


def content(tmp_path: Path, name: str = "a.rs") -> str:
    return (tmp_path / "tree" / name).read_text()


def test_a_text_that_stands_once_is_replaced_and_shown(make: Make, tmp_path: Path) -> None:
    act = make().str_replace("/t/a.rs", "    return;\n", "    return 2;\n")
    assert content(tmp_path) == TEXT.replace("return;", "return 2;")
    assert act.outcome == "edited" and "     7\t    return 2;" in act.text


@pytest.mark.parametrize(
    ("old", "says"),
    [
        ("let x = 1;", r"stands 2 times in /t/a.rs, at lines 2, 6"),
        ("let y = 1;", r"stands 0 times[\s\S]*comes nearest[\s\S]*     2\t    let x = 1;"),
        ("fn two() {\n    let x = 2;", r"Line 6 of the file is '    let x = 1;' where old_str has '    let x = 2;'"),
        ("fn one() {\n  let x = 1;", r"differ in white space only"),
        ("zzz qqq", "Not even its line"),
        ("", "old_str is empty"),
        ("   \n", "white space only"),
    ],
)
def test_a_refusal_says_how_often_and_what_is_nearby(make: Make, tmp_path: Path, old: str, says: str) -> None:
    with pytest.raises(EditFailed, match=says):
        make().str_replace("/t/a.rs", old, "new")
    assert content(tmp_path) == TEXT


def test_tolerant_matching_is_a_switch_and_keeps_the_places_indentation(make: Make, tmp_path: Path) -> None:
    old, new = "fn two() {\nlet x = 1;   \nreturn;", "fn two() {\nif true {\n    return;\n}"
    with pytest.raises(EditFailed):
        make().str_replace("/t/a.rs", old, new)
    make(tolerant=True).str_replace("/t/a.rs", "let x = 1;\nreturn;", "let x = 2;\n    deeper;")
    assert content(tmp_path).endswith("fn two() {\n    let x = 2;\n        deeper;\n}\n")
    (tmp_path / "tree" / "a.rs").write_text(TEXT)
    with pytest.raises(EditFailed, match="White space aside it stands 2 times"):
        make(tolerant=True).str_replace("/t/a.rs", "\tlet x = 1;", "y")


def test_insert_puts_lines_after_a_line(make: Make, tmp_path: Path) -> None:
    editor = make()
    editor.insert("/t/a.rs", 0, "// top")
    editor.insert("/t/a.rs", 9, "// end\n")
    assert content(tmp_path) == f"// top\n{TEXT}// end\n"
    with pytest.raises(EditFailed, match="has 10 lines"):
        editor.insert("/t/a.rs", 11, "x")


def test_create_is_for_new_files_unless_switched(make: Make, tmp_path: Path) -> None:
    make().create("/t/src/new.rs", "x\n")
    assert content(tmp_path, "src/new.rs") == "x\n"
    with pytest.raises(Refused, match="exists"):
        make().create("/t/a.rs", "x")
    make(replace_files=True).create("/t/a.rs", "x")
    assert content(tmp_path) == "x"


def test_undo_goes_back_step_by_step_and_never_over_foreign_changes(make: Make, tmp_path: Path) -> None:
    editor = make()
    editor.create("/t/n", "1")
    editor.str_replace("/t/n", "1", "2")
    editor.str_replace("/t/n", "2", "3")
    editor.undo("/t/n")
    assert content(tmp_path, "n") == "2"
    (tmp_path / "tree" / "n").write_text("by the shell")
    with pytest.raises(Refused, match="changed by something else"):
        editor.undo("/t/n")
    (tmp_path / "tree" / "n").write_text("2")
    editor.undo("/t/n")
    editor.undo("/t/n")
    assert not (tmp_path / "tree" / "n").exists()
    with pytest.raises(Refused, match="no edit"):
        editor.undo("/t/n")


def test_the_history_is_taken_up_again_from_its_changes(make: Make, tmp_path: Path) -> None:
    editor, changes = make(), []
    for act in (
        editor.str_replace("/t/a.rs", "return;", "1;"), editor.str_replace("/t/a.rs", "    1;", "    2;"),
        editor.undo("/t/a.rs"), editor.str_replace("/t/a.rs", "    1;", "    3;"),
    ):  # fmt: skip
        assert isinstance(act.change, Change)
        changes.append(act.change)
    again = make(history=changes)
    assert again.history == editor.history
    again.undo("/t/a.rs")
    again.undo("/t/a.rs")
    assert content(tmp_path) == TEXT


def test_a_view_has_real_line_numbers_and_says_what_it_leaves_out(make: Make, tmp_path: Path) -> None:
    (tmp_path / "tree" / "long").write_text("".join(f"line {i}\n" for i in range(1, 101)))
    act = make(cut=100).view("/t/long", (40, 60))
    assert "lines 40 to 45 of 100" in act.text and "    40\tline 40\n" in act.text
    assert "[lines 46 to 60 are not shown: see them with view_range [46, 60].]" in act.text
    assert "not shown" not in make().view("/t/long").text
    with pytest.raises(Refused, match="has 100 lines"):
        make().view("/t/long", (101, 102))


def test_folders_bytes_and_images(make: Make, tmp_path: Path) -> None:
    (tmp_path / "tree" / "d" / "e" / "f").mkdir(parents=True)
    (tmp_path / "tree" / ".git").mkdir()
    (tmp_path / "tree" / "latin").write_bytes(b"caf\xe9\n")
    (tmp_path / "tree" / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    (tmp_path / "tree" / "said.png").write_text("no image at all")
    text = make().view("/t").text
    assert "/t/d/e/" in text and "/t/d/e/f" not in text and ".git" not in text
    assert "caf\\xe9" in make().view("/t/latin").text
    make().str_replace("/t/latin", "caf", "CAF")
    assert (tmp_path / "tree" / "latin").read_bytes() == b"CAF\xe9\n"
    with pytest.raises(Refused, match="binary"):
        make().view("/t/p.png")
    assert make(images=True).view("/t/p.png").images[0].media_type == "image/png"
    said = make(images=True).view("/t/said.png")
    assert not said.images and "no image at all" in said.text
