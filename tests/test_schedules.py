"""Schedules: their closed forms, their refusals, and how a spec names them."""

import math

import numpy as np
import pytest

import gossamer as gs
from gossamer import schedules
from gossamer.basics.tabulate import check_schedules, tabulate
from gossamer.core import setting
from gossamer.specs.spec import Spec
from tests import plain
from tests.table import table


def test_constant_is_the_number():
    assert list(tabulate(gs.DPSGD(eta=schedules.constant(0.3)), "eta", range(4))) == [0.3] * 4


def test_inverse_sqrt_halves_after_three_times_its_offset():
    schedule = schedules.inverse_sqrt(0.4, offset=50)
    assert schedule(0) == 0.4
    assert schedule(150) == pytest.approx(0.2, rel=1e-15)
    assert schedule(50 * 9999) == pytest.approx(0.004, rel=1e-12)


def test_cosine_goes_from_its_start_by_the_middle_to_its_end_and_stays():
    schedule = schedules.cosine(0.5, 0.1, steps=100)
    assert [schedule(0), schedule(100), schedule(1000)] == [0.5, 0.1, 0.1]
    assert schedule(50) == pytest.approx(0.3, rel=1e-15)
    assert schedule(25) == pytest.approx(0.1 + 0.4 * (1 + math.sqrt(0.5)) / 2, rel=1e-15)


def test_inverse_is_a_over_t_plus_b():
    schedule = schedules.inverse(0.4, offset=50)
    assert [schedule(t) for t in (0, 50, 150, 950)] == pytest.approx(
        [20 / (t + 50) for t in (0, 50, 150, 950)], rel=1e-15
    )


def test_step_falls_by_its_factor_after_every_so_many_rounds():
    schedule = schedules.step(0.8, 0.5, every=10)
    assert [schedule(t) for t in (0, 9, 10, 19, 20, 35)] == [0.8, 0.8, 0.4, 0.4, 0.2, 0.1]


def test_warmup_cosine_rises_to_its_start_and_falls_as_a_cosine():
    schedule = schedules.warmup_cosine(0.5, 0.1, steps=104, warmup=4)
    assert [schedule(t) for t in range(5)] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5], rel=1e-15)
    later = schedules.cosine(0.5, 0.1, 100)
    assert [schedule(4 + t) for t in (1, 25, 100, 500)] == [later(t) for t in (1, 25, 100, 500)]


def test_sqrt_n_over_t_is_the_corollary_s_weight_and_at_most_one():
    assert schedules.sqrt_n_over_t(20, 2000)(7) == 0.1
    assert schedules.sqrt_n_over_t(20, 2000, scale=3)(0) == pytest.approx(0.3, rel=1e-15)
    assert schedules.sqrt_n_over_t(20, 5)(0) == 1.0


@table(
    ("make", "message"),
    [
        (lambda: schedules.cosine(0.1, 0.0, 10), r"cosine\(end=…\) must be a number in \(0, ∞\), but is 0.0"),
        (lambda: schedules.cosine(0.1, 0.01, 0), r"cosine\(steps=…\) must be a whole number of at least 1, but is 0"),
        (lambda: schedules.inverse_sqrt(-1), r"inverse_sqrt\(start=…\) must be a number in \(0, ∞\), but is -1"),
        (lambda: schedules.step(0.1, 1.5, 10), r"step\(factor=…\) must be a number in \(0, 1\], but is 1.5"),
        (lambda: schedules.inverse(0.1, 0), r"inverse\(offset=…\) must be a whole number of at least 1, but is 0"),
        (
            lambda: schedules.warmup_cosine(0.1, 0.01, 10, 10),
            r"warmup_cosine\(warmup=…\) must be a whole number of at most 9, but is 10",
        ),
        (lambda: schedules.constant("0.1"), r"constant\(value=…\) must be a number"),
        (lambda: schedules.sqrt_n_over_t(0, 10), r"sqrt_n_over_t\(agents=…\) must be a whole number"),
        (lambda: gs.DPSGD(eta=lambda: 0.1), r"DPSGD\(eta=…\), if it is no number, must be a function of \(t\)"),
    ],
)
def test_bad_schedules_are_refused(make, message):
    with pytest.raises(gs.InputError, match=message):
        make()


def test_a_schedule_that_leaves_the_range_of_its_hyperparameter_is_refused_with_the_round():
    rule = gs.BiasedDMT(eta=0.1, lam=schedules.cosine(1.5, 0.5, 10))
    with pytest.raises(gs.InputError, match=r"lam=…\), a schedule, at round 0 must be a number in \(0, 1\]"):
        check_schedules([rule], 10)


def spec(**algorithm):
    return Spec.of(
        {
            "problem": {"name": "quadratic", "A": [[2.0]], "b": [[1.0], [-1.0], [0.5], [2.0]]},
            "network": {"name": "ring"},
            "run": {"steps": 64, "dtype": "float64"},
            "algorithm": [algorithm],
        }
    )


def test_a_spec_names_schedules_and_fills_in_agents_and_rounds():
    parts = spec(
        name="biased-dmt", eta={"schedule": "cosine", "start": 0.2, "end": 0.01}, lam={"schedule": "sqrt-n-over-t"}
    ).parts()
    hyper = parts.candidates[0].fixed
    assert setting(gs.BiasedDMT(**hyper)) == "eta=cosine(0.2, 0.01, 64), lam=sqrt-n-over-t(4, 64, 1)"
    assert hyper["lam"](0) == 0.25
    assert parts.key_of(gs.BiasedDMT(**hyper))["hyper"]["eta"] == {
        "schedule": "cosine",
        "start": 0.2,
        "end": 0.01,
        "steps": 64,
    }


@pytest.mark.parametrize(
    ("eta", "message"),
    [
        ({"schedule": "cosinus", "start": 1.0}, r"number 1: eta: schedule = 'cosinus' is not known; did you mean 'cos"),
        ({"schedule": "cosine", "start": 0.1}, r"eta: cosine: key 'end' is missing"),
        ({"start": 0.1}, r"eta: schedule is missing. Known: constant, cosine"),
    ],
)
def test_bad_schedules_in_a_spec_say_where(eta, message):
    with pytest.raises(gs.InputError, match=message):
        spec(name="d-psgd", eta=eta).parts()


def test_a_run_follows_its_schedule():
    """D-PSGD on equal losses is gradient descent with the steps of the schedule, in closed form on a quadratic."""
    problem = gs.problems.quadratic([[2.0]], np.full((8, 1), 3.0))
    schedule = schedules.inverse_sqrt(0.3, offset=2)
    result = gs.simulate(gs.DPSGD(eta=schedule), problem, plain.irregular(), steps=30, dtype="float64")
    left = np.prod([1 - 2 * schedule(t) for t in range(30)])
    np.testing.assert_allclose(result.iterates["d-psgd"][0], 3 - 3 * left, rtol=1e-12)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (lambda t: 1 / (2 - t), r"failed at .*test_schedules\.py, line \d+: ZeroDivisionError: division by zero"),
        (lambda t: 10**400, "at round 0 must be a number in .* a whole number of about 401 digits"),
    ],
)
def test_a_schedule_that_fails_is_named(schedule, message):
    with pytest.raises(gs.InputError, match=rf"DPSGD\(eta=…\), a schedule, {message}"):
        check_schedules([gs.DPSGD(eta=schedule)], 5)
