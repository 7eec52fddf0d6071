"""The same key is the same sample: losses belong to gradients, points share it, and stages do not move it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gossamer.oracles import additive_bias, custom, exact, minibatch
from tests.oracles.sites import DIM, FLAT, POINTS, PROBLEM, RNG, ask, at

SOURCES = {"exact": exact(), "minibatch": minibatch(3), "epochs": minibatch(3, replace=False)}
STAGES = {
    "drawn": additive_bias(0.3, 0.5),
    "redrawn": additive_bias(RNG.normal(size=DIM), 0.5, redraw=True),
    "given": additive_bias(vectors=RNG.normal(size=(3, DIM))),
}
ORACLES = SOURCES | {f"exact | {name}": exact() | stage for name, stage in STAGES.items()}
ORACLES["epochs | redrawn | drawn | given"] = SOURCES["epochs"] | STAGES["redrawn"] | STAGES["drawn"] | STAGES["given"]


@jax.jit
def _answers(oracle, before, site, x, y):
    state = oracle.query(before, oracle.init(before), (y,))[1]  # in the middle of an epoch
    slopes = jax.vmap(jax.grad(lambda x: oracle.value(site, state, (x,))[0]))(jnp.stack([x, y]))
    return slopes, oracle.query(site, state, (x, y, x))[0], oracle.value(site, state, (x, y, x))


@pytest.mark.parametrize("name", ORACLES)
def test_query_is_the_gradient_of_value_at_the_same_key(name):
    """And points in one query share the sample: each has the answer of a value that was asked for alone."""
    with jax.enable_x64(True):
        problem = FLAT if name.startswith("exact |") else PROBLEM
        x, y = jnp.asarray(POINTS[0]), jnp.asarray(POINTS[1])
        before, site = at(1, seed=7, problem=problem), at(1, seed=8, t=1, problem=problem)
        slopes, (first, second, third), values = _answers(ORACLES[name], before, site, x, y)
    np.testing.assert_allclose([first, second, third], slopes[jnp.array([0, 1, 0])], rtol=1e-12, atol=1e-14)
    assert (slopes[0] != slopes[1]).any()
    assert values[0] == values[2] != values[1]


@pytest.mark.parametrize("name", ["minibatch", "epochs", "exact | redrawn", "exact | drawn"])
def test_the_same_key_is_the_same_sample_and_another_is_not(name):
    oracle = ORACLES[name]
    with jax.enable_x64(True):
        problem = FLAT if name.startswith("exact |") else PROBLEM
        (first,), _ = ask(oracle, at(1, seed=0, problem=problem), POINTS[0])
        (again,), _ = ask(oracle, at(1, seed=0, t=9, problem=problem), POINTS[0])
        (other,), _ = ask(oracle, at(1, seed=1, problem=problem), POINTS[0])
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("name", ["minibatch", "epochs"])
def test_a_stage_does_not_move_the_sample_of_its_source(name):
    stages = additive_bias(vectors=np.ones(DIM)) | custom(lambda g, x, site: g + 1.0)
    with jax.enable_x64(True):
        (bare,), _ = ask(SOURCES[name], at(1), POINTS[0])
        (staged,), _ = ask(SOURCES[name] | stages, at(1), POINTS[0])
    np.testing.assert_allclose(staged, bare + 2, rtol=1e-13)


@pytest.mark.parametrize("name", ["drawn", "redrawn"])
def test_an_outer_stage_does_not_move_the_draws_of_an_inner_one(name):
    ones = additive_bias(vectors=np.ones(DIM))
    with jax.enable_x64(True):
        (inner,), _ = ask(exact() | STAGES[name], at(1, problem=FLAT), POINTS[0])
        (outer,), _ = ask(exact() | STAGES[name] | ones, at(1, problem=FLAT), POINTS[0])
    np.testing.assert_allclose(outer, inner + 1, rtol=1e-13)


def test_two_stages_draw_from_keys_of_their_own():
    noise = additive_bias(np.zeros(DIM), 1.0, redraw=True)
    with jax.enable_x64(True):
        (single,), _ = ask(exact() | noise, at(1, problem=FLAT), np.zeros(DIM))
        (double,), _ = ask(exact() | noise | noise, at(1, problem=FLAT), np.zeros(DIM))
    assert (np.abs(double - 2 * single) > 1e-3).all()
