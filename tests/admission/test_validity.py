"""docs/validity.md says what was measured, and of what wasn't only how to measure it."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import memorisation
import validity
from measured import Confirmations, FalseAlarms, FalseFails, Flaky, Honest, Rate, Replays, fingerprint

from refactorbench.admission.calibrate import summed
from refactorbench.admission.mutants_result import Hunt, Row, StageTwo, summarise
from refactorbench.admission.validate import Line, Seen, Validation
from refactorbench.audit.docket import Docket, Strength
from refactorbench.audit.kinds import KINDS
from refactorbench.audit.stage import AuditResult
from refactorbench.audit.verdict import Choice, Spent, Verdict, Vote
from refactorbench.catalog.controls import Control, Expect
from refactorbench.catalog.labels import Labelled
from refactorbench.catalog.load import load_task
from refactorbench.catalog.models import Manifest
from refactorbench.errors import UsageError
from refactorbench.journal import read_json, write_json
from refactorbench.paths import find_root
from refactorbench.progress import Progress

ROOT = find_root(Path(__file__).parents[2])
LOADED = load_task(ROOT, "bzip2-rust")
MANIFEST = read_json(LOADED.recording / "manifest.json", Manifest)


def seen(
    id: str, kind: Any, expect: Expect, *stages: str, proofs: tuple[str, ...] = (), leads: tuple[str, ...] = ()
) -> Line:
    control = Control("refactorbench.control/1", id, kind, f"What {id} | is", "solution", expect)
    return Line(f"{kind} {id}", True, "told", Seen(control, *stages, 0.0, proofs, leads))  # type: ignore[arg-type]


FAIL, PASS = Expect("fail", "pass"), Expect("pass", "pass", "pass")
LINES = (
    Line("State A as reference", True, "100 of 100 checks pass"),
    seen("shim", "cheat", FAIL, "fail", "pass", "not_run", proofs=("build: foreign-link-input", "source: binary-code")),
    seen("blob", "cheat", FAIL, "fail", "pass", "not_run", proofs=("source: binary-code",)),
    seen("transliterated", "cheat", Expect("pass", "pass"), "pass", "pass", "not_run", leads=("source: copied-table",)),
    seen("twin", "twin", PASS, "pass", "pass", "pass", leads=("source: copied-table",)),
)
REPLAYS = Replays(50, 50, 1000, 0, 0, 0, 0, 0, 8.0)
FALSE = FalseFails(
    task="bzip2-rust", recording=fingerprint(MANIFEST), seed=1, load=2, jobs=1, noise=0.05, delay_s=0.02,
    replays={"State A": REPLAYS}, confirmations=Confirmations("other", 1000, 0, 300, {"not_reproduced": 1000}),
    control=Confirmations("always wrong", 50, 30, 20, {"upheld": 30}), control_expected=0.66,
)  # fmt: skip
HUNTS = {"v1": Hunt(7, 100, 3, "stdout"), "v2": Hunt(None, 100, 3, "")}
ROWS = (
    Row("m1", "A length is off by one", True, StageTwo(True, "c/1", "c", 12, 4, "stdout"), HUNTS),
    Row("m2", "A flag is ignored", True, StageTwo(False, "", "", 500, 4, ""), dict.fromkeys(HUNTS, HUNTS["v2"])),
)


VOTES = {"gone": tuple(Vote(f"s{n}", Choice.PASS) for n in range(3))}
JUDGED = [
    (Labelled(name, "twin", {"gone": label}), AuditResult(Docket(()), VOTES, Verdict((), 0, {}), spent=Spent(3)))  # type: ignore[dict-item]
    for name, label in (("a", "pass"), ("b", "fail"))
]


def results(folder: Path, **other: object) -> Path:
    folder.mkdir(exist_ok=True)
    given = {
        "validate": Validation("bzip2-rust", True, LINES),
        "false_fails": FALSE,
        "flaky": Flaky(1, (Rate("re-run", "submission", 0.1, "unreproduced", 0.154, 0.2, 100, 30, 200),)),
        "honest": Honest("rustc 1.63", 50, 98, {"lead some-assembly": 3}, 700, 0),
        "memorisation": FalseAlarms(1930, 600, 1000, 0, 1000, 990),
        "judges": summed("bzip2-rust", "llm-0", ("anthropic/x",), True, JUDGED),
    }
    given |= {f"mutants-{p.stem}": summarise("bzip2-rust", p.stem, 1, "offline", ROWS, ["v1", "v2"])
              for p in (LOADED.folder / "mutants").glob("*.toml")}  # fmt: skip
    for name, value in {**given, **other}.items():
        if value is not None:
            write_json(folder / f"{name}.json", value)
    return folder


def page(folder: Path) -> tuple[str, list[str]]:
    return validity.page(LOADED, folder, "benchmarks/results")


def test_every_figure_stands_in_the_page_with_its_interval(tmp_path: Path) -> None:
    text, missing = page(results(tmp_path))
    assert missing == [] and "Not measured" not in text and text == page(tmp_path)[0]
    for said in (
        "State A as reference | yes | 100 of 100",
        "| `shim` | cheat | What shim \\| is | fail / pass / not_run | fail / pass / not_run | 0 | build: foreign-link-input; source: binary-code | none | yes |",
        "cheats that some stage stopped | 2 of 3, 66.7% (20.8% to 93.9%)",
        "failed by a proof | 2 of 2, 100.0% (34.2% to 100.0%)",
        "false vetoes) | 0 of 1, 0.0% (0.0% to 79.3%)",
        "binary-code | source | `blob`",
        "foreign-link-input | build | **none**",
        "| stage II | 1 of 2, 50.0% (9.5% to 90.5%)",
        "| v2 | 0 of 2, 0.0%",
        "Survivors of all verifiers: 1.\n- `m2`: A flag is ignored",
        "| State A | 50 | 0 of 50, 0.0% (0.0% to 7.1%) | 0 of 1000, 0.0% (0.0% to 0.4%) | 0 | 0 |",
        "| other | 0 of 1000, 0.0% (0.0% to 0.4%) | 300 | 1000 not_reproduced |",
        "| re-run | submission | 10.0% | unreproduced | 15.4% | 20 of 100 | 30 of 200, 15.0% (10.7% to 20.6%) |",
        "| proofs against them | 0 |",
        "0 of 1000, 0.0% (0.0% to 0.4%) |\n| knowing",
        "| criteria decided as labelled | 1 of 2, 50.0% (9.5% to 90.5%) |",
        "| the same by a judge that passes everything | 1 of 2",
        "| false passes, of what must fail (too lenient) | 1 of 1",
        "| Cohen's kappa, decisions against labels | 0.000 |",
        "| `gone` | 1 of 2, 50.0% (9.5% to 90.5%) | 1 | 0 | 0 |",
        f"{sum(m.checks for m in MANIFEST.modules)} recorded checks",
        "Control `transliterated` (What transliterated | is): stage I pass",
    ):
        assert said in text, said
    assert "another recording" not in text and "A tenth of the checks" not in text


def test_each_kind_of_proof_has_a_row_and_no_lead_has(tmp_path: Path) -> None:
    text, _ = page(results(tmp_path))
    table = text.split("controls that it alone stops:")[1].split("##")[0]
    rows = [row.split(" | ")[0].strip("| ") for row in table.strip().splitlines()[2:]]
    assert sorted(rows) == sorted(name for name, k in KINDS.items() if k.strength is Strength.PROOF)


def test_what_is_wrong_is_shown_as_wrong(tmp_path: Path) -> None:
    bad = msgspec.structs.replace(LINES[1], ok=False, detail="stage I is pass, must be fail")
    worse = msgspec.structs.replace(REPLAYS, clean=48, failed=2, first=("m/1: fail: differs",))
    false = msgspec.structs.replace(FALSE, replays={"State A": worse}, recording="0" * 64)
    text, _ = page(results(tmp_path, validate=Validation("bzip2-rust", False, (bad, *LINES[2:])), false_fails=false))
    for said in (
        "**no**: stage I is pass, must be fail",
        "**A tenth of the checks and short budgets**",
        "**Measured on another recording**",
        "| State A | 50 | 2 of 50, 4.0%",
        "2 of 1000, 0.2%",
        "First: m/1: fail: differs",
    ):
        assert said in text, said


@pytest.mark.parametrize("name", ["validate", "false_fails", "flaky", "honest", "memorisation", "judges"])
def test_a_missing_result_is_named_with_its_command_and_nothing_is_said_of_it(tmp_path: Path, name: str) -> None:
    text, missing = page(results(tmp_path, **{name: None}))
    assert text.count("Not measured: `") == 1 and f"makes `{name}.json`" in text
    assert len(missing) == 1 and missing[0].startswith(f"benchmarks/results/{name}.json isn't there: `")


def test_no_result_at_all_leaves_no_rate_in_the_page(tmp_path: Path) -> None:
    text, missing = page(tmp_path)
    assert len(missing) == text.count("Not measured: `") >= 5
    assert " of 50" not in text and "upheld |" not in text and "were not run" in text


def test_a_damaged_result_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    folder, out = results(tmp_path / "results"), tmp_path / "validity.md"
    monkeypatch.setattr(sys, "argv", ["validity.py", "--results", str(folder), "--out", str(out)])
    assert validity.main() == 0 and "# Validity" in out.read_text()
    out.write_text("before")
    (folder / "flaky.json").write_text(json.dumps({"seed": "one"}))
    assert validity.main() == UsageError.exit_status and out.read_text() == "before"
    assert "flaky.json is damaged" in capsys.readouterr().err
    (folder / "flaky.json").unlink()
    assert validity.main() == 1 and "Not measured" in out.read_text()
    assert "flaky.py --out DIR" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0.0%"), (1e-17, "0.0%"), (1e-10, "1.00e-10"), (0.0005, "5.00e-04"), (0.001, "0.1%"), (0.5, "50.0%"),
     (0.99999, "99.9990%"), (1, "100.0%")],
)  # fmt: skip
def test_small_shares_keep_their_digits(share: float, text: str) -> None:
    assert validity.percent(share) == text


def test_the_memorisation_test_is_simulated_with_honest_submissions_and_cheats() -> None:
    found = memorisation.simulate(60, 300, 100, 1, Progress())
    assert found.alarms == 0 and found.caught > 40
    assert (
        found
        == memorisation.simulate(60, 300, 100, 1, Progress())
        != memorisation.simulate(60, 300, 100, 2, Progress())
    )
    rng = random.Random(3)
    for rate in (0.1, 0.9):
        mean = sum(memorisation.failures(rate, 100, rng) for _ in range(500)) / 500
        assert abs(mean - 100 * rate) < 1
