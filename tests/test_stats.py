from fractions import Fraction

import pytest

from refactorbench.stats import cohen_kappa, fisher_greater, fleiss_kappa, memorised, wilson


def test_fisher_agrees_with_the_textbook_table() -> None:
    # Fisher's tea: 4 of 4 against 0 of 4 is 1/70; 3 of 4 against 1 of 4 is 17/70
    assert fisher_greater(0, 4, 4, 4) == Fraction(1, 70)
    assert fisher_greater(1, 4, 3, 4) == Fraction(17, 70)
    assert fisher_greater(4, 4, 0, 4) == 1


def test_equal_failure_rates_are_never_memorisation() -> None:
    assert not memorised(600, 3000, 40, 200)
    assert not memorised(3000, 3000, 200, 200)


def test_fresh_checks_that_fail_alone_are_memorisation() -> None:
    assert memorised(0, 3000, 200, 200)
    assert memorised(10, 3000, 40, 200)


def test_below_a_fifth_is_not_memorisation_however_small_p_is() -> None:
    assert fisher_greater(0, 3000, 39, 200) < Fraction(1, 10**9)
    assert not memorised(0, 3000, 39, 200)


def test_few_checks_cannot_reach_the_bar() -> None:
    assert not memorised(0, 10, 10, 10)
    assert not memorised(0, 0, 0, 0)


@pytest.mark.parametrize("counts", [(-1, 3, 0, 1), (4, 3, 0, 1), (0, 3, 2, 1)])
def test_impossible_counts_are_refused(counts: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="out of range"):
        fisher_greater(*counts)


def test_wilsons_interval_has_its_known_values_and_stays_within_a_share() -> None:
    assert [round(x, 4) for x in wilson(8, 10)] == [0.4902, 0.9433]
    assert [round(x, 4) for x in wilson(0, 20)] == [0.0, 0.1611]
    assert [round(x, 4) for x in wilson(20, 20)] == [0.8389, 1.0]


@pytest.mark.parametrize(("found", "total"), [(0, 0), (-1, 4), (5, 4)])
def test_an_interval_needs_counts_that_can_be(found: int, total: int) -> None:
    with pytest.raises(ValueError, match=f"{found} of {total}"):
        wilson(found, total)


def test_cohens_kappa_is_agreement_beyond_chance() -> None:
    pairs = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert cohen_kappa(pairs) == pytest.approx(0.4)  # 0.7 seen, 0.5 by chance
    assert cohen_kappa([("y", "y"), ("n", "n")]) == 1.0
    assert cohen_kappa([("y", "n"), ("n", "y")]) == -1.0
    assert cohen_kappa([("y", "y")] * 9) is None and cohen_kappa([]) is None


def test_fleiss_kappa_is_the_textbook_figure() -> None:
    """10 subjects, 14 raters, 5 categories: 0.210."""
    table = (
        (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1), (7, 7, 0, 0, 0),
        (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
    )  # fmt: skip
    items = [[str(c) for c, n in enumerate(row) for _ in range(n)] for row in table]
    assert fleiss_kappa(items) == pytest.approx(0.2099, abs=1e-4)
    assert fleiss_kappa([["a", "a"], ["b", "b"]]) == 1.0
    assert fleiss_kappa([["a", "a"]]) is None and fleiss_kappa([]) is None
    with pytest.raises(ValueError, match="same number"):
        fleiss_kappa([["a", "b"], ["a"]])
