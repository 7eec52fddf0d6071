import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.problems import empirical, logistic, softmax
from gossamer.problems.inputs import Bits, hold
from gossamer.problems.problem import cast

DRAW = np.random.default_rng(0)


def ones(rows, dim, density=0.2):
    return (DRAW.random((rows, dim)) < density).astype(np.int8)


@settings(max_examples=12, deadline=None)
@given(
    rows=st.integers(1, 9), dim=st.integers(1, 70), density=st.sampled_from([0.0, 0.3, 1.0]), seed=st.integers(0, 99)
)
def test_bits_are_the_matrix_that_they_were_made_of(rows, dim, density, seed):
    draw = np.random.default_rng(seed)
    dense = (draw.random((rows, dim)) < density).astype(np.int8)
    bits, at = Bits.of(dense), draw.integers(0, rows, 4)
    assert bits.shape == dense.shape
    np.testing.assert_array_equal(np.asarray(bits), dense)
    np.testing.assert_array_equal(np.asarray(bits[at]), dense[at])
    with jax.enable_x64(True):
        x, matrix = draw.normal(size=dim), draw.normal(size=(dim, 3))
        np.testing.assert_array_equal(bits.astype(np.float64), dense)
        # one program for each shape
        some, whole = jax.jit(lambda bits, x, matrix: (bits[at] @ x, bits @ matrix))(bits, x, matrix)
        np.testing.assert_allclose(some, dense[at] @ x, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(whole, dense @ matrix, rtol=1e-13, atol=1e-13)


def test_features_are_held_as_bits_where_all_are_0_or_1():
    matrix = ones(5, 40)
    for form in (matrix, matrix.astype(bool), matrix.astype(float), scipy.sparse.csr_array(matrix)):
        assert isinstance(hold(form, linear=True), Bits)
        assert isinstance(hold(form, linear=False), Bits)
    for other in (ones(5, 40) * 2, -ones(5, 40), ones(5, 40) / 2):
        assert hold(other, linear=True) is other


def test_the_mean_gradient_is_the_slope_of_the_mean_loss_over_blocks():
    """Of small integers as well, which are widened block by block as bits are."""
    features = DRAW.integers(-3, 4, (150, 701)).astype(np.int8)
    problem = softmax((features, DRAW.integers(0, 3, 150)), 2, split="iid")
    with jax.enable_x64(True):
        held, x = cast(problem, np.float64), jnp.asarray(DRAW.normal(size=problem.dim) / 100)
        slope, gradient = jax.jit(lambda p, x: (jax.grad(p.mean_loss)(x), p.mean_gradient(x)))(held, x)
    np.testing.assert_allclose(gradient, slope, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(gradient, problem.gradients(x).mean(0), rtol=1e-11, atol=1e-13)


def test_a_loss_of_ones_own_gets_an_array():
    seen = []

    def loss(w, inputs, targets):
        seen.append(inputs)
        return jnp.sin(inputs).sum(1) * w[0] - targets

    problem = empirical(loss, np.ones(1), (ones(8, 33), np.arange(8.0)), 2)
    assert isinstance(problem.inputs, Bits)
    np.testing.assert_allclose(
        problem.loss([1.0]), (np.sin(1) * np.asarray(problem.inputs)[:8].sum(1)).mean() - 3.5, rtol=1e-12
    )
    assert all(isinstance(given, jax.Array) and given.shape[1] == 33 for given in seen)
    assert seen[-1].dtype == np.float64


def test_the_logistic_loss_has_the_derivatives_of_its_formula():
    """Far out, too: of log(1 + exp(−z)) they are −σ(−z) and σ(z) σ(−z)."""
    problem = logistic((np.array([[1], [1], [-1]]), [1, 1, 0]), 1, alpha=0)
    both = jax.jit(lambda held, x: (jax.grad(held.mean_loss)(x)[0], jax.hessian(held.mean_loss)(x)[0, 0]))
    for z in (-800.0, -3.0, 0.0, 2.0, 800.0):
        with jax.enable_x64(True):
            slope, bend = both(cast(problem, np.float64), jnp.array([z]))
        right = np.exp(-np.logaddexp(0, z))
        np.testing.assert_allclose(slope, -right, rtol=1e-13, atol=1e-300)
        np.testing.assert_allclose(bend, right * np.exp(-np.logaddexp(0, -z)), rtol=1e-13, atol=1e-300)
