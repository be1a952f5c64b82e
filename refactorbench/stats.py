"""Statistics: exact ones in rational arithmetic where a verdict rests on them; intervals for reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import comb

MEMORISED_P = Fraction(1, 10**9)
MEMORISED_SHARE = Fraction(1, 5)


def fisher_greater(fixed_failed: int, fixed_total: int, fresh_failed: int, fresh_total: int) -> Fraction:
    """Return the one-sided p of Fisher's exact test: the chance that a random split of the same checks would put at
    least `fresh_failed` of the failures among the fresh ones. ValueError: a count is negative or above its total."""
    if not (0 <= fixed_failed <= fixed_total and 0 <= fresh_failed <= fresh_total):
        raise ValueError(f"counts out of range: {fixed_failed} of {fixed_total}, {fresh_failed} of {fresh_total}")
    failed = fixed_failed + fresh_failed
    last = min(failed, fresh_total)
    ways = sum(comb(fresh_total, k) * comb(fixed_total, failed - k) for k in range(fresh_failed, last + 1))
    return Fraction(ways, comb(fixed_total + fresh_total, failed))


def memorised(fixed_failed: int, fixed_total: int, fresh_failed: int, fresh_total: int) -> bool:
    """True when answers depend on having been recorded: p < 1e-9, and at least a fifth of the fresh checks fail."""
    if not fresh_total or Fraction(fresh_failed, fresh_total) < MEMORISED_SHARE:
        return False
    return fisher_greater(fixed_failed, fixed_total, fresh_failed, fresh_total) < MEMORISED_P


Z95 = 1.959963984540054  # a standard normal lies within this of 0 in 95 of 100 cases


def wilson(found: int, total: int) -> tuple[float, float]:
    """Return Wilson's 95% interval of a share, 0..1, for reports; it rests on no more than `found` of `total` > 0.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, 1927.
    """
    if not 0 <= found <= total or not total:
        raise ValueError(f"counts out of range: {found} of {total}")
    share, spread = found / total, Z95 * Z95 / total
    centre = (share + spread / 2) / (1 + spread)
    half = Z95 * ((share * (1 - share) + spread / 4) / total) ** 0.5 / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)


def cohen_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return the agreement of two raters beyond chance, up to 1; None where chance alone would agree always.

    J. Cohen, A coefficient of agreement for nominal scales, 1960.
    """
    if not pairs:
        return None
    total = len(pairs)
    seen = sum(a == b for a, b in pairs) / total
    one, two = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    chance = sum(one[c] * two[c] for c in one) / total**2
    return None if chance == 1 else (seen - chance) / (1 - chance)


def fleiss_kappa(items: Sequence[Sequence[str]]) -> float | None:
    """Return the agreement of equally many raters per item beyond chance; None where chance alone would agree always.
    ValueError: the items have different numbers of ratings, or fewer than two.

    J. L. Fleiss, Measuring nominal scale agreement among many raters, 1971.
    """
    if not items:
        return None
    raters = len(items[0])
    if raters < 2 or any(len(i) != raters for i in items):
        raise ValueError("each item needs the same number of ratings, at least two")
    counts = [Counter(i) for i in items]
    seen = sum(sum(n * (n - 1) for n in c.values()) for c in counts) / (len(items) * raters * (raters - 1))
    overall = sum(counts, Counter())
    chance = sum((n / (len(items) * raters)) ** 2 for n in overall.values())
    return None if chance == 1 else (seen - chance) / (1 - chance)
