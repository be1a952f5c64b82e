import json
from pathlib import Path

from results import PANEL, options, result, scored, stage_one, stage_two, write_run

from refactorbench.report import funnel


def test_text_and_data_say_the_same_and_the_data_is_json(tmp_path: Path) -> None:
    write_run(tmp_path / "a", result())
    write_run(
        tmp_path / "b",
        result(stage1=stage_one(0), stage3=None, score=scored(0.0), blind=True, accepted=False),
        options(agent="noop"),
    )
    data = funnel.report([tmp_path])
    text = funnel.text(data)
    assert json.loads(json.dumps(data)) == data
    assert [(r["agent"], r["score"]) for r in data["runs"]] == [("noop", 0.0), ("solution", 1.0)]
    assert "  blind (II without I)             1   50.0%" in text and "  mean score                   50.00" in text
    assert f"t (admitted)  noop  S = 0  under {PANEL}  [blind]" in text
    assert f"t (admitted)  solution  S = 100  under {PANEL}  [accepted]" in text
    assert "I FAIL (2 of 2 criteria without a vote)   II 20/20   III -" in text
    assert "I pass (2 of 2 criteria without a vote)   II 20/20   III 6/6" in text


def test_an_undecided_stage_is_not_shown_as_failed_and_an_unscored_run_says_why(tmp_path: Path) -> None:
    open_ = result(
        stage1=stage_one(None), stage2=stage_two(None), stage3=None, score=scored(None, g=None), status="unscored",
        cause="criterion build: the build witness was lost: " + "x" * 900, accepted=False,
    )  # fmt: skip
    write_run(tmp_path / "a", open_)
    write_run(tmp_path / "b", result(stage1=None, status="partial", score=scored(None), comparable=False))
    text = funnel.text(funnel.report([tmp_path]))
    assert "I undecided (" in text and "I not run (" in text and "FAIL" not in text
    assert "unscored [40, 100]" in text and "unscored because: criterion build: the build witness was lost" in text
    assert max(map(len, text.splitlines())) < 400
    assert "not comparable" in text


def test_nothing_is_divided_by_nothing() -> None:
    assert funnel.share(0, 0).endswith("-") and funnel.share(1, 4).endswith("25.0%")
