"""Intervals of a difference: paired, and Welch's."""

import math

import numpy as np
import pytest
from scipy import stats

from gossamer.results.statistics import difference, interval

RNG = np.random.default_rng(7)


def test_paired_values_have_the_interval_of_their_differences():
    first, second = RNG.normal(size=(2, 6))
    assert difference(first, second, paired=True) == interval(second - first)
    known = stats.ttest_rel(second, first).confidence_interval(0.95)
    mean, half = difference(first, second, paired=True)
    np.testing.assert_allclose([mean - half, mean + half], [known.low, known.high], rtol=1e-12)


@pytest.mark.parametrize(("n", "m"), [(5, 5), (3, 11), (2, 2)])
def test_independent_values_have_welch_s_interval(n, m):
    first, second = RNG.normal(size=n), 3 * RNG.normal(size=m) + 1
    known = stats.ttest_ind(second, first, equal_var=False).confidence_interval(0.99)
    mean, half = difference(first, second, paired=False, level=0.99)
    np.testing.assert_allclose([mean - half, mean + half], [known.low, known.high], rtol=1e-10)


def test_small_numbers_do_not_underflow():
    first, second = RNG.normal(size=(2, 5))
    mean, half = difference(first * 1e-120, second * 1e-120, paired=False)
    known, width = difference(first, second, paired=False)
    np.testing.assert_allclose([mean * 1e120, half * 1e120], [known, width], rtol=1e-10)


def test_one_value_a_side_has_no_interval_and_equal_values_none_to_speak_of():
    assert math.isnan(difference(np.array([1.0]), np.array([2.0]), paired=True)[1])
    assert math.isnan(difference(np.array([1.0]), np.array([2.0, 3.0]), paired=False)[1])
    assert difference(np.ones(3), np.full(4, 2.0), paired=False) == (1.0, 0.0)
