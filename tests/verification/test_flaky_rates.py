"""What is wrong by chance is failed and upheld at the rates that the rules imply: simulated, and seen in the sandbox."""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

import msgspec
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import flaky
import noise
from false_fails import STEADY
from flaky import Case, agrees, cases, draw_rerun, implied_hunt, implied_rerun, implied_upheld

from refactorbench.behaviour.rerun import confirm as rerun
from refactorbench.errors import UsageError
from refactorbench.observe.compare import differences, signature
from refactorbench.observe.model import Check, Observation
from refactorbench.verification.confirm import confirm
from refactorbench.verification.model import Reason, Side
from refactorbench.verification.scope import Rules
from verification.products import LIMITS, bench, check, seen, upper

DRAWS, HUNTS = 100_000, 20_000


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_the_simulation_gives_the_implied_rates(case: Case) -> None:
    draws = HUNTS if case.rule == "hunt" else DRAWS
    found = case.simulated(draws, 1)
    for outcome, implied in case.implied().items():
        assert agrees(found[outcome], draws, implied), (outcome, found[outcome], implied)
    # the control: what another flake rate implies isn't what was drawn
    other = {**msgspec.structs.asdict(case), "p": case.p and case.p / 2, "r": case.r / 2}
    frequent = [o for o, implied in case.implied().items() if 1e-3 < implied < 0.999]
    assert not frequent or not all(agrees(found[o], draws, Case(**other).implied()[o]) for o in frequent)


def test_the_rates_are_those_of_the_protocol() -> None:
    assert [implied_upheld(p, 0, False) for p in (0.1, 0.05, 0.01)] == pytest.approx([1e-3, 1.25e-4, 1e-6])
    assert implied_upheld(0.1, 0.1, False) == pytest.approx(0.9**5 * 0.1**3 + 0.1**5 * 0.9**3)
    assert implied_upheld(0, 0.1, True) == pytest.approx(0.9**5 + 0.1**5)
    assert implied_rerun(0.1, 0)["unreproduced"] == pytest.approx(0.9**20 + 20 * 0.1 * 0.9**39)
    assert implied_rerun(1, 0.1) == pytest.approx(
        {"unreproduced": 0, "nondeterministic": 0, "fail": 0.9**20, "quarantined": 1 - 0.9**20}
    )
    assert 6 * implied_hunt(0.1) == pytest.approx(0.03, rel=0.01)


def test_bits_are_drawn_independently_at_their_rate() -> None:
    rng = random.Random(5)
    drawn = [flaky.marks(0.3, 5, rng) for _ in range(20_000)]
    for bit in range(5):
        assert agrees(sum(b >> bit & 1 for b in drawn), len(drawn), 0.3)
    assert agrees(sum(b & 0b11 == 0b11 for b in drawn), len(drawn), 0.09)
    assert not agrees(sum(b & 1 for b in drawn), len(drawn), 0.28)
    assert [flaky.marks(p, 5, rng) for p in (0, 1)] == [0, 31]


def test_rates_of_every_case_add_up_to_one() -> None:
    for p, r in product((0, 0.01, 0.3, 1), repeat=2):
        assert sum(implied_rerun(p, r).values()) == pytest.approx(1)


def answer(given: Iterator[Observation], _: Check) -> Observation:
    return next(given)


def test_drawing_by_rounds_rules_as_running_one_by_one_does() -> None:
    right, wrong = seen(b"right"), seen(b"wrong")
    first = signature(differences(right, wrong))
    for seed in range(200):
        p, r = random.Random(seed).choice([(0, 0), (0.02, 0), (0.1, 0), (1, 0), (0.05, 0.01)])
        rng = random.Random(seed)
        bits = [flaky.marks(rate, 20, rng) for rate in (p, r, p, r)]  # the order in which draw_rerun asks
        submission, state_a = (
            iter([wrong if b >> i & 1 else right for b in bits[side::2] for i in range(20)]) for side in (0, 1)
        )
        done = rerun(check(), right, first, partial(answer, submission), partial(answer, state_a))
        assert draw_rerun(p, r, random.Random(seed)) == done.ruling


@pytest.mark.parametrize(
    ("found", "total", "p", "fits"),
    [
        (0, 0, 0.1, True),
        (100, 1000, 0.1, True),
        (125, 1000, 0.1, True),
        (150, 1000, 0.1, False),
        (60, 1000, 0.1, False),
        (0, 1000, 0.0, True),
        (1, 1000, 0.0, False),
        (1000, 1000, 1.0, True),
        (999, 1000, 1.0, False),
        (1, 100_000, 1e-6, True),
        (4, 100_000, 1e-6, False),
        (50_000, 100_000, 0.1, False),
        (0, 100_000, 0.1, False),
    ],
)
def test_a_share_agrees_with_a_rate_unless_chance_does_not_explain_it(
    found: int, total: int, p: float, fits: bool
) -> None:
    assert agrees(found, total, p) is fits


@pytest.mark.skipif(not (shutil.which("bwrap") and shutil.which("cc")), reason="compiles, runs in bubblewrap")
def test_the_program_is_wrong_at_its_rate_in_the_sandbox(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    real = flaky.Real(tmp_path)
    with real.sandbox.open_worker(real.spec(0.25)) as worker:
        found = sum(worker.observe(flaky.CHECK).stdout == b"wrong\n" for _ in range(300))
    assert agrees(found, 300, 0.25) and not agrees(found, 300, 0.05)
    assert real.rerun(Case("re-run", "submission", 0, 0, 0)) == {"outcome": "unreproduced"}
    assert real.rerun(Case("re-run", "submission", 1, 1, 0)) == {"outcome": "fail"}
    assert real.confirm(Case("confirmation", "reference", 0, 0, 0, True)) == {"outcome": "upheld"}
    assert real.confirm(Case("confirmation", "reference", 0, 0, 0)) == {"outcome": "not_reproduced"}


def noisy(rate: float, steady: str = "", seed: int = 1) -> noise.NoisyBench:
    return noise.NoisyBench(bench(), random.Random(seed), rate, 0, steady)


def test_noise_alone_is_not_upheld_and_a_real_difference_is_despite_it() -> None:
    def upheld(steady: str) -> int:
        on = noisy(0.05, steady)
        return sum(confirm(check(b"az"), on, Rules({}), LIMITS)[1].upheld for _ in range(1000))

    assert upheld("") == 0
    assert agrees(upheld(STEADY), 1000, 0.95**8)  # the eight runs that must come out as they do


def test_noise_is_seeded_counted_and_leaves_the_broken_product_alone() -> None:
    def run(rate: float, seed: int) -> list[object]:
        on = noisy(rate, seed=seed)
        return [on.open(side).observe(check(b"a")) for side in Side for _ in range(20)] + [on.disturbed]

    assert run(0.3, 1) == run(0.3, 1) != run(0.3, 2)
    *_, disturbed = run(0.3, 1)
    assert 0 < disturbed < 40 and run(0, 1)[-1] == 0 and run(1, 1)[-1] == 40  # type: ignore[operator]
    assert run(1, 1)[40:60] == [bench().open(Side.BROKEN).observe(check(b"a"))] * 20


@pytest.mark.parametrize("kind", noise.WRONG)
def test_each_kind_of_noise_shows_and_has_a_signature_of_its_own(kind: str) -> None:
    right = upper(check(b"a"))
    signatures = {name: signature(differences(right, wrong(right))) for name, wrong in noise.WRONG.items()}
    assert signatures[kind] and list(signatures.values()).count(signatures[kind]) == 1
    assert confirm(check(b"a"), noisy(0, kind), Rules({}), LIMITS)[1].reason is Reason.UPHELD


def test_rows_are_measured_once_and_never_added_to_those_of_something_else(tmp_path: Path) -> None:
    calls: list[int] = []

    def measure(n: int) -> dict[str, int]:
        calls.append(n)
        return {"n": n}

    for total in (2, 5):
        journal = noise.begin(tmp_path / "rows.jsonl", {"product": "a"})
        assert noise.each(journal, "x", total, measure) == [{"n": n} for n in range(total)]
        journal.close()
    assert calls == [0, 1, 2, 3, 4]
    with pytest.raises(UsageError, match=r"rows\.jsonl was measured with another product.*another --out"):
        noise.begin(tmp_path / "rows.jsonl", {"product": "b"})


def test_what_goes_wrong_is_told_in_a_line_with_its_status(capsys: pytest.CaptureFixture[str]) -> None:
    def wrong() -> int:
        raise UsageError("--out is in use")

    def interrupted() -> int:
        raise KeyboardInterrupt

    assert (noise.told(wrong), capsys.readouterr().err) == (2, "--out is in use\n")
    assert noise.told(interrupted) == 130 and "is kept" in capsys.readouterr().err
    assert noise.told(lambda: 1) == 1
