"""Compressors: their errors against closed forms, their bits, their edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import gossamer as gs
from gossamer.compressors import (
    COMPRESSORS,
    bf16,
    identity,
    qsgd,
    rand_k,
    round_linf,
    round_to,
    scaled_sign,
    top_k,
)
from tests.table import table

DIM = 6
ALL = {
    "identity": identity(),
    "top-k": top_k(2),
    "top-k by share": top_k(share=0.5),
    "rand-k": rand_k(2),
    "rand-k unscaled": rand_k(2, scaled=False),
    "scaled-sign": scaled_sign(),
    "qsgd": qsgd(3),
    "round-linf": round_linf(2),
    "round-step": round_to(0.25),
    "bf16": bf16(),
}
VECTORS = arrays(np.float64, DIM, elements=st.floats(-100, 100).filter(lambda a: a == 0 or abs(a) > 1e-6))


def key(seed=0):
    return jax.random.key(seed, impl="threefry2x32")


@jax.jit
def _many(compressor, keys, a):
    return jax.vmap(compressor.compress, in_axes=(0, None))(keys, a)


def many(compressor, a, draws=1, dtype=np.float64):
    """What is received in so many draws, [draws, d]."""
    with jax.enable_x64(dtype == np.float64):
        compressed = _many(compressor, jax.random.split(key(), draws), jnp.asarray(a, dtype))
        assert compressed.dtype == dtype
        return np.asarray(compressed)


def error(compressor, a):
    return float(((many(compressor, a)[0] - a) ** 2).sum())


@pytest.mark.parametrize("name", [name for name, compressor in ALL.items() if not compressor.needs_key])
@given(a=VECTORS)
@settings(max_examples=40, deadline=None)
def test_the_error_stays_below_the_stated_bound(name, a):
    bounds = ALL[name].errors(DIM)
    assert bounds.variance == 0
    assert error(ALL[name], a) <= (bounds.relative * (a @ a) + bounds.absolute) * (1 + 1e-9)


@given(a=VECTORS)
@settings(max_examples=40, deadline=None)
def test_scaled_sign_errs_by_what_the_one_norm_leaves(a):
    np.testing.assert_allclose(error(scaled_sign(), a), a @ a - np.abs(a).sum() ** 2 / DIM, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("compressor", "a"),
    [
        (top_k(2), np.array([1, -1, 1, 1, -1, 1.0])),
        (scaled_sign(), np.eye(DIM)[2]),
        (round_linf(2), np.array([1, 0.25, -0.25, 0.25, 0.25, 0.25])),
        (round_to(0.25), np.full(DIM, 0.125)),
    ],
    ids=["top-k", "scaled-sign", "round-linf", "round-step"],
)
def test_bounds_are_attained(compressor, a):
    bounds = compressor.errors(DIM)
    np.testing.assert_allclose(error(compressor, a), bounds.relative * (a @ a) + bounds.absolute, rtol=1e-12)


def test_bf16_keeps_eight_bits_and_rounds_half_to_even():
    a = np.array([1 + 2**-7, 1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-8 + 2**-20), 3e-30, 0.0])
    compressed = bf16().compress(None, jnp.asarray(a, jnp.float32))
    np.testing.assert_array_equal(np.asarray(compressed)[:4], [1 + 2**-7, 1, 1 + 2**-6, -(1 + 2**-7)])
    assert np.abs(np.asarray(compressed) - a.astype(np.float32)).max() <= 2**-8


def test_top_k_keeps_the_largest_and_exactly_k_of_equals():
    a = np.array([0.1, -5.0, 2.0, 0.0, 3.0, -0.2])
    np.testing.assert_array_equal(many(top_k(2), a)[0], [0, -5, 0, 0, 3, 0])
    assert (many(top_k(4), np.ones(DIM)) != 0).sum() == 4


@pytest.mark.parametrize("scaled", [True, False])
def test_rand_k_has_this_mean_and_variance(scaled):
    """8,000 draws: each coordinate is binomial. A coordinate fails for 1 in 10⁶ seeds (4.9 deviations)."""
    a, compressor = np.arange(1.0, DIM + 1), rand_k(2, scaled=scaled)
    compressed = many(compressor, a, 8000)
    chosen = compressed != 0
    assert (chosen.sum(1) == 2).all()
    kept = 2 / DIM
    assert np.abs(chosen.mean(0) - kept).max() < 4.9 * np.sqrt(kept * (1 - kept) / 8000)
    mean = a if scaled else kept * a
    np.testing.assert_allclose(compressed[chosen], np.broadcast_to(mean / kept, compressed.shape)[chosen], rtol=1e-12)
    # given that each coordinate is kept with this chance, its moments are exact
    variance = ((mean / kept) ** 2 * kept * (1 - kept)).sum()
    np.testing.assert_allclose(variance, compressor.errors(DIM).variance * (a @ a), rtol=1e-12)
    np.testing.assert_allclose(((mean - a) ** 2).sum(), compressor.errors(DIM).relative * (a @ a), atol=1e-12)


def test_rand_k_whole_error():
    assert rand_k(2, scaled=False).contraction(DIM) == pytest.approx(1 - 2 / DIM)
    assert rand_k(2).contraction(DIM) == pytest.approx(DIM / 2 - 1)


@pytest.mark.parametrize("levels", [1, 3, 20])
def test_qsgd_is_unbiased_and_its_variance_bounded(levels):
    """8,000 draws, each of two neighbouring levels: a coordinate fails for 1 in 10⁶ seeds (4.9 deviations)."""
    a = np.array([3.0, -1.0, 0.5, 0.0, 2.0, -0.1])
    compressed = many(qsgd(levels), a, 8000)
    norm = np.linalg.norm(a)
    part = np.abs(a) / norm * levels % 1
    deviation = norm / levels * np.sqrt(part * (1 - part) / 8000)
    assert (np.abs(compressed.mean(0) - a) <= 4.9 * deviation + 1e-9).all()
    assert (norm / levels) ** 2 * (part * (1 - part)).sum() <= qsgd(levels).errors(DIM).variance * norm**2
    steps = compressed / norm * levels
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-9)
    assert np.abs(steps).max() <= levels + 1e-9


@pytest.mark.parametrize("name", ALL)
def test_zero_stays_zero_and_one_dimension_works(name):
    np.testing.assert_array_equal(many(ALL[name], np.zeros(DIM)), np.zeros((1, DIM)))
    compressor = {"top-k": top_k(1), "rand-k": rand_k(1), "rand-k unscaled": rand_k(1, scaled=False)}.get(
        name, ALL[name]
    )
    np.testing.assert_allclose(many(compressor, np.array([-0.75])), [[-0.75]], rtol=1e-12)
    assert compressor.contraction(1) in (0.0, None, min(1 / 9, 1 / 3), 2**-16)


@pytest.mark.parametrize("name", [name for name, compressor in ALL.items() if compressor.needs_key])
def test_the_draws_are_the_same_in_float32_and_float64(name):
    a = np.array([3.0, -1.0, 0.5, 0.0, 2.0, -0.1])
    np.testing.assert_allclose(many(ALL[name], a, 20, np.float32), many(ALL[name], a, 20), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("compressor", "bits"),
    [
        (identity(), 100 * 32),
        (top_k(10), 10 * (32 + 7)),
        (top_k(share=0.1), 10 * (32 + 7)),
        (top_k(share=0.001), 1 * (32 + 7)),
        (rand_k(10), 10 * 32 + 32),
        (scaled_sign(), 100 + 32),
        (qsgd(1), 100 * 2 + 32),
        (qsgd(4), 100 * 4 + 32),
        (round_linf(1), 100 * 2 + 32),
        (round_linf(4), 100 * 4 + 32),
        (round_to(0.1), 100 * 32),
        (bf16(), 100 * 16),
    ],
    ids=repr,
)
def test_bits(compressor, bits):
    assert compressor.bits(100, 4) == bits
    numbers = {10 * 39: 10, 39: 1, 10 * 32 + 32: 10, 3200: 100, 1600: 0}.get(bits, 1)
    assert compressor.bits(100, 8) == bits + 32 * numbers


def test_what_each_says_of_itself():
    unbiased = {"identity", "rand-k", "qsgd"}
    assert {name for name, compressor in ALL.items() if compressor.unbiased} == unbiased
    assert {name for name, compressor in ALL.items() if compressor.linear} == unbiased | {"rand-k unscaled"}
    assert {name for name, compressor in ALL.items() if compressor.needs_key} == {"rand-k", "rand-k unscaled", "qsgd"}
    assert {name for name, compressor in ALL.items() if compressor.contraction(DIM) is None} == {"round-step"}
    assert set(COMPRESSORS) == {name for name in ALL if " " not in name}
    for compressor in ALL.values():
        compressor.check(DIM)


def test_a_step_is_a_leaf():
    assert jax.tree.leaves(round_to(0.5)) == [0.5]
    assert jax.tree.structure(round_to(0.5)) == jax.tree.structure(round_to(0.25))


# Errors.


@table(
    ("make", "options", "message"),
    [
        (top_k, {}, "top_k takes k, a number of coordinates, or share, a part of them, but was given neither"),
        (rand_k, {"k": 2, "share": 0.5}, "rand_k takes k, .* but was given k = 2 and share = 0.5"),
        (top_k, {"k": 0}, r"top_k\(k=…\) must be a whole number of at least 1, but is 0\. Or give share=…"),
        (top_k, {"k": 2.5}, "must be a whole number of at least 1, but is 2.5"),
        (top_k, {"k": True}, "must be a whole number of at least 1, but is True"),
        (rand_k, {"k": "all"}, "must be a whole number of at least 1, but is 'all'"),
        (top_k, {"share": 0.0}, r"top_k\(share=…\) must be a number in \(0, 1\], but is 0\.0\. It is the part"),
        (rand_k, {"share": 1.01}, r"rand_k\(share=…\) must be a number in \(0, 1\], but is 1\.01"),
        (rand_k, {"k": 2, "scaled": "yes"}, r"rand_k\(scaled=…\) must be True or False, but is 'yes'"),
        (qsgd, {"levels": 0}, r"qsgd\(levels=…\) must be a whole number of at least 1, but is 0\."),
        (round_linf, {"levels": -1}, r"round_linf\(levels=…\) must be a whole number of at least 1, but is -1\."),
        (round_to, {"step": 0}, r"round_to\(step=…\) must be a number in \(0, 1e\+100\], but is 0"),
    ],
)
def test_refuses(make, options, message):
    with pytest.raises(gs.InputError, match=message):
        make(**options)


@pytest.mark.parametrize("make", [top_k, rand_k])
def test_refuses_more_coordinates_than_there_are(make):
    with pytest.raises(gs.InputError, match=rf"{make.__name__}\(k=7\) keeps more coordinates than the 6 .* at most 6"):
        make(7).check(6)
    make(6).check(6)
    make(share=1.0).check(6)
