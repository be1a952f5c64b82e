"""A panel with judges by the real command line: a scripted model's votes, an outage, resume, one sample
asked again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.toy import BUDGET, TASK, Toy, panel
from e2e.toy import toy as toy

LOOKS = {
    "calls": [{"name": "diff", "input": {}}, {"name": "docket", "input": {"eye": "build"}}],
    "usage": {"input": 90},
}
COVERED = [{"place": "submission", "path": ""}, {"place": "docket", "path": "build"}]
PASS = {"verdict": "pass", "reason": "nothing of C is left", "covered": COVERED}
PRICES = """version = "mine"
date = 2026-01-01
[[model]]
name = "scripted/*"
source = "a test"
since = 2026-01-01
input = 1000
cache_read = 0
cache_write = 0
output = 0
"""
LONG = 500.0  # seconds: the command line beside others
OUT = {"fault": {"kind": "quota", "message": "no credit is left"}}


def answer(given: dict[str, Any]) -> dict[str, Any]:
    return {"calls": [{"name": "answer", "input": given}], "usage": {"cache_read": 60, "input": 30, "output": 7}}


def script(where: Path, *turns: dict[str, Any]) -> str:
    where.write_text("".join(json.dumps(t) + "\n" for t in turns))
    return f"scripted/{where}"


@pytest.fixture(scope="module")
def judged(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """The toy with two panels that have judges; a script can't know the canaries' answers."""
    own = toy.copy(tmp_path_factory.mktemp("judged") / "root")
    for name, canaries in (("llm", "false"), ("sober", "true")):
        text = panel(name, BUDGET).replace('kind = "none"', f'kind = "llm"\ncanaries = {canaries}')
        (own.root / "verifiers" / "panels" / f"{name}.toml").write_text(text)
    return own


def samples(out: Path) -> dict[str, int]:
    places = (out / "units" / "judges").glob("*/*.json")
    return {f"{p.parent.name}/{p.stem}": p.stat().st_mtime_ns for p in places}


def result(out: Path) -> Any:
    return json.loads((out / "result.json").read_text())


def test_an_outage_leaves_the_run_unscored_and_resume_asks_only_what_is_missing(judged: Toy, tmp_path: Path) -> None:
    out, place = tmp_path / "run", tmp_path / "script"
    named = script(place, LOOKS, OUT)
    prices = tmp_path / "prices.toml"
    prices.write_text(PRICES)
    done = judged.call(
        "run", "--task", TASK, "--out", out, "--panel", "llm", "--judges", named, "--prices", prices, timeout=LONG
    )
    assert done.status == 3 and "no credit is left" in done.err and result(out)["stage1"]["g"] is None
    assert 1 <= len(samples(out)) <= 3  # no more was asked than was under way
    docket = (out / "units" / "docket.json").stat().st_mtime_ns

    script(place, LOOKS, answer(PASS))
    done = judged.call("run", "--resume", out, timeout=LONG)
    assert done.status == 0, done.err
    assert done.last.startswith("S = 100 (panel llm-") and "; 0 of 4 criteria without a vote" in done.last
    assert "12 samples of judges, 2244 tokens, 33% of the input from a cache, 1.44 US dollars" in done.out
    assert "[pass pass pass]" in done.out
    assert (out / "units" / "docket.json").stat().st_mtime_ns == docket  # votes rest on one docket

    kept = samples(out)
    script(place, LOOKS, answer({**PASS, "covered": []}), answer({**PASS, "covered": []}))
    done = judged.call("ask", out, "source-clean", "2", timeout=LONG)
    assert done.status == 0, done.err
    changed = {name for name, at in samples(out).items() if kept.get(name) != at}
    assert changed == {"source-clean/1", "source-clean/1.was-1"}
    assert "[pass abstain pass]" in done.out and "1 of them asked again on purpose" in done.out
    assert "narrow" in done.out and done.last.startswith("S = 100")
    assert judged.here("ask", out, "source-clean", "4").status == 2

    kept = samples(out)
    place.unlink()  # from here on nobody can be asked
    again = judged.here("score", out)
    assert again.out == done.out and len(kept) == 13 and samples(out) == kept
    shown = judged.here("show", out, "source-clean").out
    assert (
        shown.count("covered submission") == 2 and "judge 3 (scripted/" in shown and "asked again on purpose" in shown
    )
    review(judged, out)


def review(judged: Toy, out: Path) -> None:
    """A person's verdict stands beside the panel's."""
    listed = judged.here("review", out).out
    assert listed.startswith("1 criteria for people") and "source-clean: pass by votes" in listed
    before = judged.here("score", out).out
    more = ("source-clean", "--verdict", "fail", "--by", "Ada")
    assert judged.here("review", out, *more).status == 2  # without a reason
    assert judged.here("review", out, "no-such", *more[1:], "--reason", "x").status == 2
    assert judged.here("review", out, *more, "--reason", "it is a translation").status == 0
    assert judged.here("score", out).out == before
    both = judged.here("score", out, "--with-review").out.splitlines()
    assert both[0].startswith("the panel:   S = 100") and both[1].startswith("with review: S = 0")
    assert both[2] == "  source-clean: fail by Ada (the panel: pass): it is a translation"
    assert "reviewed: fail by Ada" in judged.here("review", out).out
    assert judged.here("review", out, *more[:2], "pass", "--by", "Bob", "--reason", "it is not").status == 0
    assert "reviewers disagree" in judged.here("score", out, "--with-review").out
    assert judged.here("review", out, *more[:2], "pass", "--by", "Ada", "--reason", "I erred").status == 0
    assert judged.here("score", out, "--with-review").out.splitlines()[1].startswith("with review: S = 100")


def test_a_judge_that_says_pass_to_everything_is_flagged(judged: Toy, tmp_path: Path) -> None:
    named = script(tmp_path / "s", LOOKS, answer(PASS))
    done = judged.call(
        "run", "--task", TASK, "--out", tmp_path / "run", "--panel", "sober", "--judges", named, "--stages", "audit",
        timeout=LONG,
    )  # fmt: skip
    assert done.status == 3 and "FLAGGED, no vote counts" in done.out and "UNDECIDED" in done.out


def test_a_panel_is_calibrated_on_what_is_known_of_trees_beforehand(judged: Toy, tmp_path: Path) -> None:
    """A judge that passes everything: right on the solution, too lenient on a tree that people found wanting."""
    judged.port(tmp_path / "wanting")
    labels = tmp_path / "labels.toml"
    tree = 'path = "wanting"\nby = "Ada"\nlabels = { source-clean = "fail", builds = "pass" }\n'
    labels.write_text(f'schema = "refactorbench.labels/1"\ntask = "{TASK}"\n[[tree]]\n{tree}')
    named = ("--task", TASK, "--judges", script(tmp_path / "s", LOOKS, answer(PASS)), "--labels", labels)
    done = judged.call("calibrate", "judges", *named, "--out", tmp_path / "out", timeout=LONG)
    assert done.status == 0, done.err
    assert "right: 5 of 6, 83.3% (43.6% to 97.0%); undecided: 0" in done.out
    assert "false passes: 1 of 1, 100.0%" in done.out and "on the whole too lenient" in done.out
    assert "people-001-wanting source-clean: pass (pass pass pass), must be fail" in done.out
    assert "24 samples" in done.out and "0.00 US dollars" in done.out
    (tmp_path / "s").unlink()
    again = judged.here("calibrate", "judges", *named, "--out", tmp_path / "out")
    assert again.status == 2 and "cannot read the script" in again.err  # a model that is named must be there


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--panel", "llm"), "panel 'llm' puts the criteria to a model and names none"),
        (("--panel", "offline", "--judges", "anthropic/x"), "is for a panel with judges, and 'offline' has none"),
        (("--panel", "llm", "--judges", "anthropic/x,openai/y"), "one is asked three times, or three different"),
        (("--panel", "llm", "--judges", "antropic/x"), "model 'antropic/x' is unknown"),
        (("--panel", "llm", "--judges", "anthropic/x"), "needs a key, and ANTHROPIC_API_KEY"),
    ],
)
def test_judges_that_cannot_be_asked_are_refused_before_anything_starts(
    more: tuple[str, ...], told: str, judged: Toy, tmp_path: Path
) -> None:
    env = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": ""}
    done = judged.here("run", "--task", TASK, "--out", tmp_path / "run", *more, env=env)
    assert done.status == 2 and told in done.err and not (tmp_path / "run").exists()
