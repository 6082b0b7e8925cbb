"""How sure a mean over questions is, and whether two means differ.

Owns the bootstrap and the paired tests; knows no measure, retriever or agent. The unit of resampling is
the question, always. Values are sorted before resampling, so that neither a value nor its interval
depends on the order of the questions. Without a question there is no value: None, never 0.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bootstrap", "Interval", "PairedTest", "mean_interval", "paired_difference"]

Floats = NDArray[np.float64]
TestKind = Literal["mcnemar", "permutation"]

_MAX_EXACT = 13  # up to here all flips (2**13 = 8192) are fewer than the flips that would be drawn
_MIN_FLIPS = 10_000
_BLOCK = 2_000_000  # values resampled at once: 16 MB


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """How intervals are made. 2000 samples and 95 % are our choice: the ends move by about 0.002 between seeds."""

    seed: int = 0
    samples: int = 2000
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.samples < 1:
            raise ValueError(f"samples {self.samples}: expected at least 1")
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence {self.confidence}: expected a share between 0 and 1")


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over questions with the ends of its bootstrap interval; ``low <= value <= high``."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairedTest:
    """The mean difference over the questions that both sides have, its interval, and its p-value.

    ``wins`` and ``losses`` count the questions on which the first side is above and below the second;
    ``num_unpaired`` counts the questions that only one side has: they are left out.
    """

    difference: float
    low: float
    high: float
    p_value: float
    test: TestKind
    num_questions: int
    num_unpaired: int
    wins: int
    losses: int


def mean_interval(values: Mapping[str, float], *, bootstrap: Bootstrap) -> Interval | None:
    """Mean over questions with its percentile bootstrap interval.

    With one question, or with equal values, the interval has no width: resampling cannot know of values
    that it has not seen. Say how many questions there were wherever an interval is shown.

    Args:
        values: Finite value of each question, by question id.
        bootstrap: Seed, number of samples, confidence.

    Returns:
        The interval, or None without questions.

    Raises:
        ValueError: a value is not finite.
    """
    if not values:
        return None
    return _interval(_sorted(list(values.values())), bootstrap)


def paired_difference(a: Mapping[str, float], b: Mapping[str, float], *, bootstrap: Bootstrap) -> PairedTest | None:
    """Mean of ``a - b`` over the questions that both have, with interval and two-sided p-value.

    Values that are all 0 or 1 are tested with the exact McNemar test (a sign test on the questions where the
    sides disagree); others with the paired permutation test, which flips the signs of differences: all
    2**n flips up to 13 questions that differ, drawn ones beyond (then p = (hits + 1) / (draws + 1)).

    Args:
        a: Finite value of each question on the first side, by question id.
        b: The same on the second side.
        bootstrap: Seed, number of samples, confidence.

    Returns:
        The test, or None without a common question. With one question p is 1.

    Raises:
        ValueError: a value is not finite.
    """
    common = [key for key in a if key in b]
    if not common:
        return None
    left, right = [a[key] for key in common], [b[key] for key in common]
    differences = _sorted([x - y for x, y in zip(left, right, strict=True)])
    interval = _interval(differences, bootstrap)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    is_binary = all(value in (0.0, 1.0) for value in (*left, *right))
    return PairedTest(
        difference=interval.value,
        low=interval.low,
        high=interval.high,
        p_value=_sign_test(wins, losses) if is_binary else _permutation_test(differences, bootstrap),
        test="mcnemar" if is_binary else "permutation",
        num_questions=len(common),
        num_unpaired=len(a) + len(b) - 2 * len(common),
        wins=wins,
        losses=losses,
    )


def _sorted(values: Sequence[float]) -> Floats:
    array = np.sort(np.asarray(values, dtype=np.float64))
    if not np.isfinite(array).all():
        raise ValueError("a question's value is not finite; leave a failed question out and count it")
    return array


def _interval(values: Floats, bootstrap: Bootstrap) -> Interval:
    value = math.fsum(values) / len(values)
    tail = (1 - bootstrap.confidence) / 2
    low, high = np.quantile(_resampled_means(values, bootstrap), [tail, 1 - tail])
    return Interval(value=value, low=min(float(low), value), high=max(float(high), value))


def _resampled_means(values: Floats, bootstrap: Bootstrap) -> Floats:
    if values[0] == values[-1]:
        return np.full(bootstrap.samples, values[0])
    generator = np.random.default_rng(bootstrap.seed)
    size, block = len(values), max(1, _BLOCK // len(values))
    means = []
    for start in range(0, bootstrap.samples, block):
        rows = generator.integers(0, size, size=(min(block, bootstrap.samples - start), size))
        means.append(values[rows].mean(axis=1))
    return np.concatenate(means)


def _sign_test(wins: int, losses: int) -> float:
    """P(a split at least as uneven) under fair coins: 2 * sum_{k <= min} C(n, k) / 2**n, at most 1."""
    n = wins + losses
    tail = sum(math.comb(n, k) for k in range(min(wins, losses) + 1))
    return min(1.0, float(Fraction(2 * tail, 2**n)))  # a fraction: 2**n outgrows a float


def _permutation_test(differences: Floats, bootstrap: Bootstrap) -> float:
    """Share of sign flips whose absolute sum is at least the one seen; questions without a difference do not matter."""
    sizes = np.sort(np.abs(differences[differences != 0]))
    seen = abs(math.fsum(differences)) - 1e-9 * math.fsum(sizes)  # sums in another order differ in their last bits
    if len(sizes) <= _MAX_EXACT:
        flips = (np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes))) & 1
        return float((np.abs((1 - 2 * flips) @ sizes) >= seen).mean())
    generator = np.random.default_rng(bootstrap.seed)
    draws = max(_MIN_FLIPS, bootstrap.samples)
    block = max(1, _BLOCK // len(sizes))
    hits = 0
    for start in range(0, draws, block):
        signs = generator.choice((-1.0, 1.0), size=(min(block, draws - start), len(sizes)))
        hits += int((np.abs(signs @ sizes) >= seen).sum())
    return (hits + 1) / (draws + 1)
