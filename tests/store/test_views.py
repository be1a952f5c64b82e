from pathlib import Path

import pytest
from results import PANEL, options, result, scored, stage_one, stage_two, write_run

from refactorbench.errors import UsageError
from refactorbench.store.views import find_runs, funnels, open_store, rows_of


def test_a_run_is_found_by_name_and_below_a_folder(tmp_path: Path) -> None:
    one, two = write_run(tmp_path / "a" / "one", result()), write_run(tmp_path / "a" / "two", None)
    (tmp_path / "a" / "notes").mkdir()
    assert find_runs([tmp_path / "a"]) == [one, two]
    assert find_runs([two, one]) == [two, one]
    for nothing in (tmp_path / "a" / "notes", tmp_path / "absent"):
        with pytest.raises(UsageError, match="is no run directory and holds none"):
            find_runs([nothing])


def test_a_run_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a" / "one", result())
    assert find_runs([tmp_path / "a", one, tmp_path / "a" / ".." / "a"]) == [one]


def test_the_funnel_counts_each_stage_and_takes_the_mean_over_scored_runs(tmp_path: Path) -> None:
    failed, open_ = scored(0.0, g=0), scored(None)
    runs = [
        write_run(tmp_path / "1", result()),
        write_run(tmp_path / "2", result(score=scored(0.7), accepted=False)),
        write_run(tmp_path / "3", result(stage1=stage_one(0), stage3=None, score=failed, blind=True, accepted=False)),
        write_run(tmp_path / "4", result(stage1=stage_one(None), score=open_, status="unscored", accepted=False)),
        write_run(tmp_path / "5", result(stage2=stage_two(False), score=scored(0.0), accepted=False)),
    ]
    (funnel,) = funnels(open_store(runs))
    assert (funnel.panel, funnel.comparable, funnel.started, funnel.unscored) == (PANEL, True, 5, 1)
    assert (funnel.passed1, funnel.passed2, funnel.both, funnel.accepted, funnel.blind) == (3, 4, 2, 1, 1)
    assert funnel.mean == pytest.approx((1.0 + 0.7 + 0 + 0) / 4)


def test_a_run_without_a_result_stays_in_the_denominator_of_its_panel(tmp_path: Path) -> None:
    unfinished = write_run(tmp_path / "unfinished", None)
    damaged = write_run(tmp_path / "damaged", result())
    (damaged / "result.json").write_text('{"schema":')
    (funnel,) = funnels(open_store([write_run(tmp_path / "whole", result()), unfinished, damaged]))
    assert (funnel.panel, funnel.started, funnel.unscored, funnel.accepted) == (PANEL, 3, 2, 1)
    causes = {r["status"]: r["cause"] for r in rows_of(open_store([unfinished, damaged]))}
    assert "--resume" in causes["unfinished"] and "is damaged" in causes["unreadable"]


def test_runs_of_other_panels_and_quick_ones_are_never_mixed(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "1", result()),
        write_run(tmp_path / "2", result(comparable=False)),
        write_run(tmp_path / "3", None, options(quick=True)),
        write_run(tmp_path / "4", result(panel="other-123")),
    ]
    found = [(f.panel, f.comparable, f.started) for f in funnels(open_store(runs))]
    assert found == [(PANEL, True, 1), (PANEL, False, 2), ("other-123", True, 1)]


def test_no_runs_give_no_funnel() -> None:
    db = open_store([])
    assert funnels(db) == [] and rows_of(db) == []


def test_a_folder_whose_options_are_unreadable_is_shown_all_the_same(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "x", None)
    (folder / "options.json").write_text("?")
    (row,) = rows_of(open_store([folder]))
    assert (row["task"], row["panel"], row["graded"], row["comparable"]) == ("?", "?", False, False)
