"""Statistics of runs: intervals, differences, ends, settling and arrivals, against what is known of them."""

import math

import numpy as np
import pytest
from scipy import stats

from gossamer.basics.text import format_between
from gossamer.results.statistics import arrival, by_replicate, difference, ending, floor, interval, stopped, unsettled

ROUNDS = np.arange(0, 4001, 100)
RNG = np.random.default_rng(7)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.9993])
def test_an_interval_is_that_of_the_t_test(level):
    values = np.random.default_rng(0).normal(size=7)
    mean, half = interval(values, level)
    expected = stats.ttest_1samp(values, 0).confidence_interval(level)
    assert (mean - half, mean + half) == pytest.approx(tuple(expected))


def test_one_value_has_no_interval():
    mean, half = interval(np.array([3.0]))
    assert mean == 3.0
    assert np.isnan(half)


def test_intervals_cover_the_mean_as_often_as_they_say():
    # 2,000 intervals at 90 %; 1,759 and 1,841 are three standard deviations from 1,800
    rng, covered = np.random.default_rng(1), 0
    for _ in range(2000):
        mean, half = interval(rng.normal(size=5), 0.9)
        covered += abs(mean) <= half
    assert 1759 <= covered <= 1841


def test_the_end_is_the_last_tenth():
    assert ROUNDS[ending(ROUNDS, 4000)].tolist() == [3600, 3700, 3800, 3900, 4000]
    assert ROUNDS[ending(ROUNDS, 2000)].tolist() == [1800, 1900, 2000]


def test_seeds_are_averaged_within_a_replicate():
    assert by_replicate({0: 1.0, 1: 3.0, 2: 5.0}, {0: 0, 1: 0, 2: 1}) == {0: 2.0, 1: 5.0}


def noisy(level, spread=0.02, seed=0, replicates=6):
    """Values around a level, whose noise is independent from round to round."""
    rng = np.random.default_rng(seed)
    return np.exp(np.log(level)[None] + spread * rng.normal(size=(replicates, len(ROUNDS))))


def test_a_level_with_noise_has_settled_and_its_floor_is_the_level():
    values = noisy(np.full(len(ROUNDS), 3e-4))
    assert unsettled(ROUNDS, values) is None
    assert floor(ROUNDS, values).mean() == pytest.approx(3e-4, rel=0.01)


@pytest.mark.parametrize("rate", [-1e-4, 1e-4])
def test_a_drift_of_ten_percent_a_quarter_has_not_settled(rate):
    why = unsettled(ROUNDS, noisy(3e-4 * np.exp(rate * ROUNDS)))
    assert why is not None
    low, high = (float(word) for word in why.split(" is ")[1].split(" %")[0].split(" to "))
    assert low - 1 <= 100 * np.expm1(1000 * rate) <= high + 1


def test_a_transient_that_has_died_out_is_no_drift():
    died = 3e-4 * (1 + 100 * np.exp(-ROUNDS / 100))
    assert unsettled(ROUNDS, noisy(died)) is None
    alive = 3e-4 * (1 + 100 * np.exp(-ROUNDS / 700))
    assert unsettled(ROUNDS, noisy(alive)) is not None


def test_a_minimum_in_passing_is_not_taken_for_a_floor():
    # falls, then rises to where it stays: at round 4,000 the last two quarters are nearly equal, the one before is not
    passing = 3e-4 + 1e-3 * ((ROUNDS - 3000) / 4000) ** 2
    assert abs(np.log(passing[31:].mean() / passing[21:31].mean())) < np.log(1.05)
    assert unsettled(ROUNDS, noisy(passing)) is not None


def test_a_drift_that_noise_makes_insignificant_is_still_a_drift():
    # a change of about 10 % with a standard error of about 4 %: its interval meets ±5 %, and it has not settled
    rng = np.random.default_rng(5)
    apart = rng.normal(scale=0.1, size=(6, 1)) * (ROUNDS > 3000)
    values = 3e-4 * np.exp(0.1 * (ROUNDS > 3000) + apart - apart[:, -1].mean())
    assert unsettled(ROUNDS, values) is not None


def test_noise_in_which_a_drift_could_hide_has_not_settled():
    wild = noisy(np.full(len(ROUNDS), 3e-4), spread=1.0)
    assert "% (95 %)" in unsettled(ROUNDS, wild)
    longer = np.arange(0, 400_001, 100)
    rng = np.random.default_rng(3)
    assert unsettled(longer, 3e-4 * np.exp(rng.normal(size=(6, len(longer))))) is None


def test_a_floor_of_noise_has_settled_when_the_loss_has_stopped():
    rng = np.random.default_rng(4)
    wild = 3e-4 * np.exp(rng.normal(size=(6, len(ROUNDS))))
    still = 0.4 + 0.3 * np.exp(-ROUNDS / 100) * np.ones((6, 1))
    moving = 0.4 + 0.3 * np.exp(-ROUNDS / 1500) * np.ones((6, 1))
    assert unsettled(ROUNDS, wild) is not None
    assert unsettled(ROUNDS, wild, still) is None
    assert unsettled(ROUNDS, wild, moving) is not None


def test_a_loss_that_has_stopped_excuses_no_significant_change():
    still = 0.4 + 0.3 * np.exp(-ROUNDS / 100) * np.ones((6, 1))
    assert unsettled(ROUNDS, noisy(3e-4 * np.exp(1e-3 * ROUNDS)), still) is not None
    apart = np.exp(0.002 * ROUNDS) * np.ones((6, 1))
    assert unsettled(ROUNDS, 3e-4 * apart, still) is not None  # every replicate alike: the interval is a point


def test_the_last_change_of_the_loss_that_counts_as_none_is_a_share_of_the_way():
    level = np.where(ROUNDS > 3000, 0.4 + 0.3 * np.array([[4.9e-4], [5.1e-4]]), 0.4)
    level[:, 0] = 0.7
    assert stopped(ROUNDS, level[:1])
    assert not stopped(ROUNDS, level[1:])


def test_settling_needs_positive_values_in_every_quarter():
    assert "too few" in unsettled(np.array([0, 1000, 4000]), np.ones((2, 3)))
    assert "too few" in unsettled(ROUNDS, np.zeros((2, len(ROUNDS))))


def test_an_arrival_lies_between_two_marks():
    rounds, losses = np.array([0, 10, 20]), np.array([4.0, 2.0, 1.0])
    assert arrival(rounds, losses, 3.0) == (0.0, 10.0, 5.0)
    assert arrival(rounds, losses, 1.5) == (10.0, 20.0, 15.0)
    assert arrival(rounds, losses, 5.0) == (0.0, 0.0, 0.0)
    assert arrival(rounds, losses, 0.5) is None


def test_a_loss_that_passes_by_the_target_has_not_arrived():
    rounds = np.array([0, 10, 20, 30, 40])
    assert arrival(rounds, np.array([4.0, 1.0, 3.0, 1.0, 0.5]), 2.0) == (20.0, 30.0, 25.0)
    assert arrival(rounds, np.array([4.0, 1.0, 1.0, 1.0, 3.0]), 2.0) is None
    unknown = arrival(rounds, np.array([4.0, 1.0, np.nan, 1.0, 1.0]), 2.0)
    assert unknown is not None
    assert (unknown.before, unknown.after) == (20.0, 30.0)


def test_an_arrival_is_printed_as_its_two_marks_unless_they_are_as_good_as_one():
    assert format_between(80.0, 100.0) == "80–100"
    assert format_between(99.0, 100.0) == "100"
    assert format_between(100.0, 100.0) == "100"
    assert format_between(12_000.0, 12_800.0) == "12,000–12,800"


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
