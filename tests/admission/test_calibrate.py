"""What a calibration makes of votes and labels: pure figures, and what is known of a control beforehand."""

from __future__ import annotations

from pathlib import Path

import pytest

from refactorbench.admission.calibrate import summed
from refactorbench.audit.docket import Docket, Eye
from refactorbench.audit.stage import AuditResult
from refactorbench.audit.verdict import Choice, Spent, Verdict, Vote
from refactorbench.catalog.controls import Control, Expect, list_controls
from refactorbench.catalog.labels import Labelled, labelled, of_control, read_labels
from refactorbench.catalog.load import load_task
from refactorbench.catalog.models import Criteria, Criterion
from refactorbench.errors import TaskError, UsageError
from refactorbench.llm.protocol import Usage

ROOT = Path(__file__).resolve().parents[2]
CRITERIA = Criteria(
    "refactorbench.criteria/1", "t",
    (
        Criterion("gone", "", "", (Eye.SOURCE,), ("source-remains", "foreign-source")),
        Criterion("alone", "", "", (Eye.RUNTIME,), ("runtime-exec",)),
        Criterion("builds", "", "", (Eye.BUILD,), (), special="builds"),
    ),
)  # fmt: skip
LETTERS = {"p": Choice.PASS, "f": Choice.FAIL, "a": Choice.ABSTAIN}


def audit(spoiled: str = "", missing: dict[str, str] | None = None, **votes: str) -> AuditResult:
    cast = {id: tuple(Vote(f"s{n}", LETTERS[x]) for n, x in enumerate(letters)) for id, letters in votes.items()}
    spent = Spent(3 * len(votes), Usage(10, 20, 0, 5), 0.5)
    return AuditResult(Docket(()), cast, Verdict((), 0, {}), missing or {}, spoiled, spent)


def tree(name: str, kind: str = "twin", **labels: str) -> Labelled:
    return Labelled(name, kind, labels)  # type: ignore[arg-type]


def control(kind: str, stage1: str, *kinds: str) -> Control:
    return Control("refactorbench.control/1", "c", kind, "", "solution", Expect(stage1, kinds=kinds))  # type: ignore[arg-type]


def test_votes_are_held_against_labels_and_each_way_of_being_wrong_is_counted() -> None:
    judged = [
        (tree("a", gone="pass", alone="pass"), audit(gone="ppp", alone="ppf")),
        (tree("b", "cheat", gone="fail"), audit(gone="fff")),
        (tree("c", "cheat", gone="fail"), audit(gone="pap")),  # too lenient
        (tree("d", gone="pass"), audit(gone="ffp")),  # too strict
        (tree("e", gone="pass"), audit(gone="paaaa")),
    ]
    c = summed("t", "llm-1", ("m",), True, judged)
    t = c.overall
    assert (t.items, t.right, t.false_passes, t.false_fails, t.undecided, t.must_fail) == (6, 3, 1, 1, 1, 2)
    assert c.accuracy[0] == 0.5 and c.accuracy[1] < 0.5 < c.accuracy[2]
    assert c.unanimous == 2 and [i.narrow for i in c.items] == [False, True, False, True, True, False]
    assert c.cohen == pytest.approx((3 / 5 - 13 / 25) / (1 - 13 / 25))
    assert c.criteria["alone"].right == 1 and c.spent == Spent(18, Usage(50, 100, 0, 25), 2.5)
    assert "c gone: pass (pass abstain pass), must be fail" in c.text()
    assert "neither too lenient nor too strict" in c.text()


def test_a_flagged_tree_counts_as_undecided_and_missing_votes_are_told() -> None:
    c = summed("t", "p", ("m",), False, [
        (tree("a", gone="pass"), audit("talked over", gone="ppp")), (tree("b", gone="pass"), audit(missing={"gone": "503"}, gone="p")),
    ])  # fmt: skip
    assert c.overall.undecided == 2 and c.flagged == ("a",) and c.missing == {"b": "503"} and c.cohen is None
    with pytest.raises(UsageError, match="nothing to calibrate by"):
        summed("t", "p", ("m",), False, [])


def test_what_is_known_of_a_control_is_what_its_kind_says_and_no_more() -> None:
    assert of_control(control("twin", "pass"), CRITERIA) == {"gone": "pass", "alone": "pass", "builds": "pass"}
    assert of_control(control("cheat", "fail", "source-remains"), CRITERIA) == {"gone": "fail"}
    assert of_control(control("cheat", "fail", "source-remains", "runtime-exec"), CRITERIA) == {}  # either may be it
    assert of_control(control("cheat", "pass", "source-remains"), CRITERIA) == {}
    assert of_control(control("broken", "fail"), CRITERIA) == {}


def test_the_shipped_controls_label_enough_of_both_answers() -> None:
    loaded = load_task(ROOT, "bzip2-rust")
    found = labelled(loaded.criteria, list_controls(loaded), True, (), ROOT)
    answers = [label for t in found for label in t.labels.values()]
    assert answers.count("fail") >= 15 and answers.count("pass") >= 90
    failed = {id for t in found for id, label in t.labels.items() if label == "fail"}
    assert len(failed) >= 6  # criteria


def test_peoples_labels_go_before_a_controls_kind(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    place = tmp_path / "labels.toml"
    head = 'schema = "refactorbench.labels/1"\ntask = "t"\n'
    place.write_text(
        head + '[[tree]]\ncontrol = "c"\nby = "Ada"\nlabels = { gone = "fail" }\n'
        '[[tree]]\npath = "tree"\nby = "Ada"\nlabels = { alone = "pass" }\n'
    )
    twin = control("twin", "pass")
    people = read_labels(place, CRITERIA, (twin,))
    found = {t.name: t for t in labelled(CRITERIA, (twin,), False, people, tmp_path)}
    assert found["c"].labels == {"gone": "fail", "alone": "pass", "builds": "pass"}
    assert found["people-002-tree"].path == str(tmp_path / "tree")


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        ('by = "A"\nlabels = {}', "must have either a path or a control"),
        ('by = "A"\ncontrol = "d"\nlabels = {}', "control 'd' is unknown"),
        ('by = "A"\npath = "nowhere"\nlabels = {}', "path 'nowhere' is no folder"),
        ('by = "A"\ncontrol = "c"\nlabels = { gon = "fail" }', "criterion 'gon' is unknown (did you mean 'gone'?)"),
        ('by = "A"\ncontrol = "c"\nlabels = { gone = "maybe" }', "is 'maybe'"),
        ('control = "c"\nlabels = {}', "'tree[1].by' is missing"),
    ],
)
def test_a_label_file_that_is_wrong_is_refused(tree: str, told: str, tmp_path: Path) -> None:
    place = tmp_path / "labels.toml"
    place.write_text(f'schema = "refactorbench.labels/1"\ntask = "t"\n[[tree]]\n{tree}\n')
    with pytest.raises(TaskError) as e:
        read_labels(place, CRITERIA, (control("twin", "pass"),))
    assert told in str(e.value)
