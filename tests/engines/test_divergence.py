"""Runs whose state, loss or metrics are not finite: they have diverged, and no table ever holds such a number."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.core import State, StepSize, rule

DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])


def run(made, problem, **options):
    network = gs.networks.ring(problem.agents)
    return gs.simulate(made, problem, network, **({"steps": 10, "every": 2, "progress": False} | options))


def assert_diverged_at(result, round):
    frame, (label,) = result.frame(), result.labels
    assert frame["status"].to_list() == ["ok"] * (frame.height - 1) + ["diverged"]
    assert frame["round"].to_list()[-1] == round
    numbers = frame.select("loss", "grad_norm_sq", "consensus", "stationarity", "worst_loss").to_numpy()
    assert not np.isinf(numbers).any()
    assert frame.filter(frame["status"] == "ok")["loss"].is_finite().all()
    assert not result.has("loss") or np.isnan(result.final("loss")[label]).all()
    assert "1 of 1" in str(result.summary())


def nan_beyond(limit, targets=(3.0, -3.0, 3.0, -3.0)):
    """f_i(x) = ½ (x − b_i)², but not a number where |x| is above the limit; its gradient is finite everywhere."""

    def loss(x, inputs, targets):
        return jnp.where(jnp.abs(x) > limit, jnp.nan, 0.0) + 0.5 * (x - targets) ** 2

    return gs.problems.empirical(loss, 0.0, (np.ones((4, 1)), np.array(targets)), 4, split="by-label")


@pytest.mark.parametrize(("dtype", "A", "b"), [("float32", 1e30, 1.0), ("float64", 1e99, 1e60)])
def test_a_gradient_whose_square_overflows_has_diverged_though_x_is_finite(dtype, A, b):
    problem = gs.problems.quadratic([[A]], [[b], [2 * b], [3 * b], [4 * b]])
    result = run(gs.DPSGD(eta=1e-5 / A), problem, dtype=dtype)
    assert_diverged_at(result, 0)


def test_a_run_that_diverged_has_no_final_model_and_others_do():
    """How far it ran on after that depends on the clock, so its last numbers would not repeat."""
    problem = gs.problems.quadratic([[1.0]], [[1.0], [2.0], [3.0], [4.0]])
    result = run([gs.DPSGD(eta=1e9), gs.GNSD(eta=0.1)], problem, steps=200)
    assert np.isnan(result.iterates["d-psgd"]).all()
    assert np.isfinite(result.iterates["gnsd"]).all()


def test_a_large_problem_whose_numbers_are_finite_runs():
    problem = gs.problems.quadratic([[1e30]], [[1.0], [2.0], [3.0], [4.0]])
    result = run(gs.DPSGD(eta=1e-32), problem, dtype="float64")
    assert set(result.frame()["status"]) == {"ok"}
    assert np.isfinite(result.final("loss")["d-psgd"]).all()


@DTYPES
def test_a_loss_that_is_not_a_number_ends_a_run_at_the_first_mark_that_sees_it(dtype):
    """x̄ = 3 (1 − 0.8^t) passes 2 in round 5, which round 6 is the first to measure."""
    result = run(gs.CentralizedSGD(eta=0.2), nan_beyond(2.0, (3.0,) * 4), dtype=dtype)
    assert_diverged_at(result, 6)


@DTYPES
def test_one_agent_whose_loss_is_not_a_number_at_the_end_has_diverged(dtype):
    """The agents go to 3 and −3, where F is not a number; at their mean it is."""

    @rule("alone", needs="nothing")
    class Alone:
        """Every agent for itself."""

        eta: StepSize

        def init(self, x, agent):
            return State(x=x)

        def step(self, s, agent):
            return State(x=s.x - self.eta * agent.gradient(s.x))

    assert_diverged_at(run(Alone(eta=0.5), nan_beyond(2.0), dtype=dtype), 10)
    assert set(run(Alone(eta=0.5), nan_beyond(4.0), dtype=dtype).frame()["status"]) == {"ok"}


@DTYPES
def test_an_array_of_the_state_that_overflows_has_diverged_though_x_is_finite(dtype):
    """v is multiplied by 10^50 a round: beyond 10³⁸ in the first, beyond 10³⁰⁸ in the seventh; 2 and 8 are measured."""

    @rule("growing")
    class Growing:
        """A rule with a sum that it never uses."""

        eta: StepSize

        def init(self, x, agent):
            return State(x=x, v=x + 1)

        def step(self, s, agent):
            return State(x=agent.gossip(s.x), v=s.v * 1e25 * 1e25)

    problem = gs.problems.quadratic([[1.0]], np.zeros((4, 1)))
    assert_diverged_at(run(Growing(eta=0.5), problem, dtype=dtype), 2 if dtype == "float32" else 8)


def test_a_start_so_far_away_that_the_bound_overflows_is_no_licence():
    problem = gs.problems.quadratic([[1.0]], np.zeros((4, 1)))
    result = run(gs.DPSGD(eta=2e10), problem, start=[1e15], every=10, dtype="float32")
    assert result.frame()["status"].to_list() == ["ok", "diverged"]


def test_tuning_never_chooses_a_setting_that_leads_where_the_loss_is_not_a_number():
    tuned = gs.tune(
        [gs.CentralizedSGD],
        nan_beyond(2.9, (3.0,) * 4),
        gs.networks.ring(4),
        steps=20,
        eta=(0.01, 1.0),
        budget=8,
        seeds=1,
        progress=False,
    )
    table = tuned.table()
    assert set(table["diverged"]) == {0, 1}
    assert table.filter(table["diverged"] == 1)["value"].null_count() == (table["diverged"] == 1).sum()
    json.dumps(table.to_dicts(), allow_nan=False)


def test_progress_never_shows_a_loss_that_is_not_finite():
    told = []
    run(
        gs.CentralizedSGD(eta=0.2),
        nan_beyond(2.0, (3.0,) * 4),
        progress=lambda name, done, total, loss: told.append(loss),
    )
    assert told
    assert all(loss is None or np.isfinite(loss) for loss in told)
