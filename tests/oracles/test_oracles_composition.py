"""Stages around sources, and stages of one's own."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.oracles import additive_bias, completed, custom, exact, minibatch
from tests.oracles.sites import DIM, FLAT, POINTS, ask, at
from tests.table import table

NOISE = additive_bias(0, 0.5, redraw=True)
BIAS = additive_bias(0.1, 0.5)
DOUBLE = custom(lambda g, x, site: 2 * g)


def test_stages_apply_from_the_source_outwards():
    with jax.enable_x64(True):
        (inside,), _ = ask(exact() | DOUBLE | additive_bias(vectors=np.ones(DIM)), at(1, problem=FLAT), POINTS[0])
        (outside,), _ = ask(exact() | additive_bias(vectors=np.ones(DIM)) | DOUBLE, at(1, problem=FLAT), POINTS[0])
    g = FLAT.gradients(POINTS[0])[1]
    np.testing.assert_allclose(inside, 2 * g + 1, rtol=1e-13)
    np.testing.assert_allclose(outside, 2 * (g + 1), rtol=1e-13)


def test_grouping_does_not_matter():
    flat = minibatch(2) | NOISE | BIAS | DOUBLE
    grouped = [
        minibatch(2) | (NOISE | BIAS | DOUBLE),
        minibatch(2) | (NOISE | (BIAS | DOUBLE)),
        (minibatch(2) | NOISE) | (BIAS | DOUBLE),
    ]
    assert flat.depth == 3
    for oracle in grouped:
        assert jax.tree.structure(oracle) == jax.tree.structure(flat)
        assert jax.tree.leaves(oracle) == jax.tree.leaves(flat)


def test_composing_changes_no_part():
    stage = additive_bias(0.1)
    source = minibatch(2)
    composed: Any = source | stage
    assert stage.inner is None
    assert not stage.rooted
    assert composed.rooted
    assert composed.inner is source


def test_completed_puts_the_exact_gradient_where_there_is_no_source():
    rooted, bare = minibatch(2) | BIAS, NOISE | BIAS
    assert completed(rooted) is rooted
    assert jax.tree.structure(completed(bare)) == jax.tree.structure(exact() | NOISE | BIAS)


@table("right", [exact(), minibatch(2), None, 3])
def test_refuses_what_is_not_a_stage_on_the_right(right):
    message = rf"{type(right).__name__} cannot stand around another oracle: the right of \| is a stage"
    with pytest.raises(gs.InputError, match=message):
        exact() | right


def test_refuses_a_second_source_inside_a_stage():
    with pytest.raises(gs.InputError, match="Exact cannot stand around another oracle"):
        minibatch(2) | (exact() | BIAS)


def test_a_stage_alone_says_what_it_lacks():
    with pytest.raises(gs.InputError, match=r"AdditiveBias has no oracle to stand around: write oracles\.exact\(\) \|"):
        BIAS.check(FLAT)


# Custom stages.


def test_custom_gets_the_gradient_the_point_and_the_site():
    def function(g, x, site):
        return g + 10 * x + 100 * site.agent + 1000 * site.round

    with jax.enable_x64(True):
        (first, second), _ = ask(exact() | custom(function), at(2, t=3, problem=FLAT), POINTS[0], POINTS[1])
    for gradient, x in ((first, POINTS[0]), (second, POINTS[1])):
        np.testing.assert_allclose(gradient, FLAT.gradients(x)[2] + 10 * x + 3200, rtol=1e-13)


def test_custom_key_differs_between_agents_and_rounds_and_stages_but_not_points():
    def draw(g, x, site):
        return 0 * g + jax.random.uniform(site.key)

    with jax.enable_x64(True):
        (first, second), _ = ask(exact() | custom(draw), at(0, problem=FLAT), POINTS[0], POINTS[1])
        others = [
            ask(exact() | custom(draw), site, POINTS[0])[0][0]
            for site in (at(1, problem=FLAT), at(0, seed=1, problem=FLAT))
        ]
        deeper = ask(exact() | DOUBLE | custom(draw), at(0, problem=FLAT), POINTS[0])[0][0]
    np.testing.assert_array_equal(first, second)
    assert len({e[0] for e in (first, *others, deeper)}) == 4


def test_custom_sees_every_round_and_agent_of_a_run():
    """X⁺ = J X − η(agent + round): the mean moves by η(1 + round), and what was gossiped is equal again."""
    oracle = custom(lambda g, x, site: jnp.zeros_like(g) + site.agent + site.round)
    result = gs.simulate(gs.DPSGD(eta=0.1), FLAT, gs.networks.complete(3), oracle, steps=3, dtype="float64")
    x = result.iterates["d-psgd"][0]
    assert result.biases is None
    np.testing.assert_allclose(x.mean(0), -0.1 * (1 + 2 + 3), rtol=1e-12)
    np.testing.assert_allclose(x[2] - x[0], -0.1 * 2, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_custom_keeps_the_dtype_of_the_run(dtype):
    oracle = exact() | custom(lambda g, x, site: g.astype(jnp.float16))
    with jax.enable_x64(dtype == "float64"):
        assert ask(oracle, at(dtype=dtype, problem=FLAT), POINTS[0])[0][0].dtype == dtype


@table(
    ("function", "returned"),
    [
        (lambda g, x, site: g.sum(), r"\(\)"),
        (lambda g, x, site: g[:2], r"\(2,\)"),
        (lambda g, x, site: 0.0, "float"),
        (lambda g, x, site: None, "NoneType"),
        (lambda g, x, site: [g, g], "list"),
    ],
)
def test_custom_refuses_another_shape(function, returned):
    message = rf"oracles\.custom must return a gradient of shape \(4,\), but returned {returned}\."
    with pytest.raises(gs.InputError, match=message):
        ask(exact() | custom(function), at(dtype=np.float32, problem=FLAT), POINTS[0])


def test_custom_has_no_losses_and_no_constant_bias():
    with jax.enable_x64(True):
        oracle = exact() | DOUBLE
        with pytest.raises(gs.InputError, match="Custom gives gradients only, and no losses that belong to them"):
            oracle.value(at(problem=FLAT), (), (jnp.asarray(POINTS[0]),))
        assert oracle.bias(at(problem=FLAT), ()) is None


@pytest.mark.parametrize(
    ("given", "reason"),
    [(0.9, r"is 0\.9"), (lambda g: g, "too many positional"), (lambda g, x, site, more: g, "missing .* 'more'")],
)
def test_custom_takes_a_function_of_three(given, reason):
    with pytest.raises(
        gs.InputError, match=rf"custom\(…\) must be a function of \(gradient, x, site\), but .*{reason}"
    ):
        custom(given)  # pyright: ignore[reportArgumentType]


def test_an_oracles_numbers_are_leaves():
    """So another magnitude needs no new compilation."""
    first, second = exact() | additive_bias(0.1, 0.5), exact() | additive_bias(0.2, 0.7)
    assert jax.tree.structure(first) == jax.tree.structure(second)
    assert [float(leaf) for leaf in jax.tree.leaves(second)] == [0.2, 0.7]
