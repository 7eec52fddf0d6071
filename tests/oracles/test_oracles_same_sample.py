"""The same key is the same sample: losses belong to gradients, points share it, and stages do not move it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sites import DIM, POINTS, PROBLEM, RNG, ask, at

import gossamer as gs
from gossamer.oracles import additive_bias, custom, exact, minibatch

SOURCES = {"exact": exact(), "minibatch": minibatch(3), "epochs": minibatch(3, replace=False)}
STAGES = {
    "drawn": additive_bias(0.3, 0.5),
    "redrawn": additive_bias(RNG.normal(size=DIM), 0.5, redraw=True),
    "given": additive_bias(vectors=RNG.normal(size=(3, DIM))),
    "common": additive_bias(vectors=RNG.normal(size=DIM)),
}
ORACLES = SOURCES | {f"{s} | {name}": SOURCES[s] | stage for s in ("exact", "epochs") for name, stage in STAGES.items()}
ORACLES["minibatch | redrawn | drawn | given"] = minibatch(3) | STAGES["redrawn"] | STAGES["drawn"] | STAGES["given"]


@pytest.mark.parametrize("name", ORACLES)
def test_query_is_the_gradient_of_value_at_the_same_key(name):
    oracle = ORACLES[name]
    with jax.enable_x64(True):
        start = at(1, seed=7)
        _, state = ask(oracle, start, POINTS[2])  # in the middle of an epoch
        site, x = at(1, seed=8, t=1), jnp.asarray(POINTS[0])
        (found,), _ = ask(oracle, site, POINTS[0], state=state)
        slope = jax.jit(jax.grad(lambda x: oracle.value(site, state, (x,))[0]))(x)
    np.testing.assert_allclose(found, slope, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ORACLES)
def test_two_points_in_one_query_share_the_sample(name):
    """The answer at a point is the same whether it is asked for alone or with others, in any place."""
    oracle = ORACLES[name]
    with jax.enable_x64(True):
        (alone,), after = ask(oracle, at(1), POINTS[0])
        (first, _), together = ask(oracle, at(1), POINTS[0], POINTS[1])
        (_, second), _ = ask(oracle, at(1), POINTS[1], POINTS[0])
        values = oracle.value(at(1), oracle.init(at(1)), (jnp.asarray(POINTS[0]), jnp.asarray(POINTS[0])))
    np.testing.assert_allclose(first, alone, rtol=1e-13)
    np.testing.assert_allclose(second, alone, rtol=1e-13)
    assert values[0] == values[1]
    for one, two in zip(jax.tree.leaves(after), jax.tree.leaves(together), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", ["minibatch", "epochs", "exact | redrawn", "exact | drawn"])
def test_the_same_key_is_the_same_sample_and_another_is_not(name):
    oracle = ORACLES[name]
    with jax.enable_x64(True):
        (first,), _ = ask(oracle, at(1, seed=0), POINTS[0])
        (again,), _ = ask(oracle, at(1, seed=0, t=9), POINTS[0])
        (other,), _ = ask(oracle, at(1, seed=1), POINTS[0])
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("around", ["given", "custom"])
def test_a_stage_does_not_move_the_sample_of_its_source(name, around):
    stage = custom(lambda g, x, site: g + 1.0) if around == "custom" else additive_bias(vectors=np.ones(DIM))
    with jax.enable_x64(True):
        (bare,), _ = ask(SOURCES[name], at(1), POINTS[0])
        (staged,), _ = ask(SOURCES[name] | stage, at(1), POINTS[0])
    np.testing.assert_allclose(staged, bare + 1, rtol=1e-13)


@pytest.mark.parametrize("name", ["drawn", "redrawn"])
def test_an_outer_stage_does_not_move_the_draws_of_an_inner_one(name):
    ones = additive_bias(vectors=np.ones(DIM))
    with jax.enable_x64(True):
        (inner,), _ = ask(exact() | STAGES[name], at(1), POINTS[0])
        (outer,), _ = ask(exact() | STAGES[name] | ones, at(1), POINTS[0])
    np.testing.assert_allclose(outer, inner + 1, rtol=1e-13)


def test_two_stages_draw_from_keys_of_their_own():
    twice = exact() | additive_bias(0, 1.0, redraw=True) | additive_bias(0, 1.0, redraw=True)
    with jax.enable_x64(True):
        (one,), _ = ask(exact() | additive_bias(0, 1.0, redraw=True), at(1), POINTS[0])
        (two,), _ = ask(twice, at(1), POINTS[0])
    exactly = PROBLEM.gradients(POINTS[0])[1]
    assert (np.abs((two - exactly) - 2 * (one - exactly)) > 1e-3).all()


def test_all_algorithms_see_the_same_samples():
    """Two names of one recursion end at the same numbers, so noise does not depend on the algorithm."""
    oracle = minibatch(2) | additive_bias(0, 0.1, redraw=True)
    rules = [gs.DPSGD(eta=0.1), gs.BiasedDSGD(eta=0.1)]
    result = gs.simulate(rules, PROBLEM, gs.networks.complete(3), oracle, steps=5, dtype="float64")
    np.testing.assert_array_equal(result.iterates["d-psgd"], result.iterates["biased-dsgd"])
