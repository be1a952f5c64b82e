"""Opinions that are told and never scored: the quality judge with places changed, the review of a criterion's wording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import audit_trees as trees
import msgspec
import pytest
from judging import Behave, Played, Seen

from refactorbench.audit.quality import compare, load_rubric
from refactorbench.audit.wording import review_wording
from refactorbench.catalog.load import load_task
from refactorbench.catalog.models import LoadedTask
from refactorbench.errors import HarnessError, TaskError, UsageError

ROOT = Path(__file__).resolve().parents[2]
LOOK = ("read", {"tree": "one", "path": "src/main.rs"})


@pytest.fixture
def task(tmp_path: Path) -> LoadedTask:
    loaded = msgspec.structs.replace(trees.loaded(), root=tmp_path)
    trees.lay(loaded.folder / "solution", {"src/main.rs": "fn main() { better() }\n"})
    rubric = 'schema = "refactorbench.rubric/1"\n' + "".join(
        f'[[item]]\nid = "{i}"\nquestion = "?"\n' for i in ("idiom", "upkeep")
    )
    (loaded.folder / "rubric.toml").write_text(rubric)
    trees.lay(tmp_path / "submission", {"src/main.rs": "fn main() { unsafe {} }\n"})
    return loaded


def compared(task: LoadedTask, behave: Behave) -> Any:
    return compare(task, task.root / "submission", "0" * 64, Played(behave))


def answers(**items: str) -> Any:
    return (("answer", {"items": items, "reason": "so"}),)


def test_a_preference_for_a_tree_is_told_and_one_for_a_place_is_told_apart(task: LoadedTask) -> None:
    def reads(seen: Seen) -> Any:
        if not seen.replies:
            return (LOOK,)
        return answers(idiom="one" if "better" in seen.last else "two", upkeep="one")

    found = compared(task, reads)
    assert found.items == {"idiom": "solution", "upkeep": "position"} and found.usage.input == 400
    assert "1 of 2 items don't depend" in found.text()


def test_a_tie_is_a_tie_and_what_is_left_out_is_one(task: LoadedTask) -> None:
    assert compared(task, lambda seen: answers(idiom="same") if seen.replies else (LOOK,)).items == {
        "idiom": "same", "upkeep": "same"
    }  # fmt: skip


def test_neither_tree_is_named_to_the_judge(task: LoadedTask) -> None:
    told = []

    def listens(seen: Seen) -> Any:
        told.extend((seen.case, seen.question, seen.last))
        return answers(idiom="same", upkeep="same") if seen.replies else (LOOK, ("list", {"tree": "two"}))

    compared(task, listens)
    assert not any(word in text.lower() for text in told for word in ("submission", "solution"))


@pytest.mark.parametrize("bad", [{"items": {"idiom": "three"}, "reason": "x"}, {"items": {}}, {"verdict": "pass"}])
def test_an_answer_that_does_not_fit_is_sent_back_and_in_the_end_no_opinion(bad: Any, task: LoadedTask) -> None:
    with pytest.raises(HarnessError, match="gave no answer"):
        compared(task, lambda seen: (("answer", bad),) if seen.replies else (LOOK,))
    with pytest.raises(HarnessError, match="nothing was looked at"):
        compared(task, lambda seen: answers(idiom="same", upkeep="same"))
    late = compared(
        task,
        lambda seen: (LOOK,) if not seen.replies else answers(idiom="one") if seen.replies > 1 else (("answer", bad),),
    )
    assert late.items["idiom"] == "position"


def test_what_cannot_be_compared_is_refused(task: LoadedTask) -> None:
    (task.folder / "rubric.toml").write_text('schema = "refactorbench.rubric/1"\nitem = []\n')
    with pytest.raises(TaskError, match="missing"):
        load_rubric(task)
    (task.folder / "rubric.toml").unlink()
    assert [i.id for i in load_rubric(task).item] == ["overall"]
    (task.folder / "solution" / "src" / "main.rs").unlink()
    (task.folder / "solution" / "src").rmdir()
    (task.folder / "solution").rmdir()
    with pytest.raises(UsageError, match="ships no solution"):
        compared(task, lambda seen: answers())


def test_the_shipped_rubric_loads() -> None:
    assert len(load_rubric(load_task(ROOT, "bzip2-rust")).item) == 4


def test_every_criterions_wording_is_reviewed_with_state_a_at_hand(task: LoadedTask) -> None:
    state_a = trees.state_a(task.root / "state-a")
    asked = []

    def reviews(seen: Seen) -> Any:
        asked.append(seen.question)
        if not seen.replies:
            return (("search", {"tree": "state-a", "texts": ["int pack"]}),)
        assert "pack.c:" in seen.last
        return (("answer", {"answerable": False, "evidence": "nothing", "ambiguous": "gone"}),)

    found = review_wording(task, state_a, Played(reviews))
    assert list(found.criteria) == ["builds"] and "NOT ANSWERABLE from nothing" in found.text()
    assert "ambiguous: gone" in found.text() and "Criterion builds" in asked[0]
