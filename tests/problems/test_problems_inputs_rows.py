import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.core import InputError
from gossamer.problems import native, sparse_rows
from gossamer.problems.inputs import hold, in_blocks
from gossamer.problems.sparse_rows import Rows, best_width


@pytest.fixture(autouse=True, scope="module")
def by_xla():
    """Compute in double precision, and by XLA: native kernels have tests of their own."""
    with pytest.MonkeyPatch.context() as patch, jax.enable_x64(True):
        patch.setattr(native, "ready", lambda: False)
        jax.clear_caches()
        yield


def matrix(rows, dim, density, ones, seed, full=()):
    draw = np.random.default_rng(seed)
    dense = np.where(draw.random((rows, dim)) < density, draw.normal(size=(rows, dim)), 0)
    for row in full:
        dense[row] = draw.normal(size=dim)
    return (dense != 0).astype(float) if ones else dense


@jax.jit
def products(held, at, x, X, w):
    return held @ x, held[at] @ X, jax.grad(lambda x: w @ (held[at] @ x))(x)


@settings(max_examples=12, deadline=None)
@given(
    rows=st.sampled_from([1, 6]),  # programs are compiled for each shape
    dim=st.sampled_from([1, 31, 33, 300]),
    density=st.sampled_from([0.0, 0.1, 1.0]),
    ones=st.booleans(),
    full=st.booleans(),
    seed=st.integers(0, 99),
)
def test_products_are_those_of_the_matrix(rows, dim, density, ones, full, seed):
    dense = matrix(rows, dim, density, ones, seed, [0] if full else [])
    held, draw = Rows.of(dense), np.random.default_rng(seed)
    at, x, X = draw.integers(0, rows, 4), draw.normal(size=dim), draw.normal(size=(dim, 2))
    np.testing.assert_array_equal(np.asarray(held), dense)
    np.testing.assert_array_equal(held.astype(np.float64), dense)
    w = draw.normal(size=4)
    whole, some, gradient = products(held, at, x, X, w)
    np.testing.assert_allclose(whole, dense @ x, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(some, dense[at] @ X, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(gradient, dense[at].T @ w, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("dim", [200, 60_000, 70_000])
def test_columns_take_the_smallest_type_and_long_rows_do_not_widen_the_table(dim):
    lengths = [3] * 50 + [190] + [0] * 9
    draw = np.random.default_rng(0)
    columns = np.concatenate([draw.choice(dim, length, replace=False) for length in lengths])
    sparse = sp.csr_array((draw.normal(size=columns.size), columns, np.r_[0, np.cumsum(lengths)]), shape=(60, dim))
    held = Rows.of(sparse)
    assert held.columns.dtype == {200: np.uint8, 60_000: np.uint16, 70_000: np.int32}[dim]
    assert held.columns.size < 3 * sparse.nnz
    x = draw.normal(size=dim)
    for at in (None, np.array([50, 0, 59])):
        chosen, expected = (held, sparse) if at is None else (held[at], sparse[at])
        np.testing.assert_allclose(chosen @ jnp.asarray(x), expected @ x, rtol=1e-12, atol=1e-13)
        gradient = jax.grad(lambda x, chosen=chosen: (chosen @ x).sum())(jnp.asarray(x))
        np.testing.assert_allclose(gradient, expected.sum(0), rtol=1e-12, atol=1e-13)
    assert (held.sparse(45, 10) != sparse[45:55]).nnz == 0


def test_a_width_is_that_of_all_rows_where_they_are_alike():
    assert best_width(np.full(1000, 14)) == 14
    assert best_width(np.array([0, 0])) == 2
    assert best_width(np.r_[np.full(1000, 14), 5000]) == 16


@pytest.mark.parametrize("ones", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_derivatives_are_those_of_the_matrix(ones, whole):
    dense = matrix(9, 35, 0.1, ones, 1, full=[4])
    at = None if whole else jnp.array([4, 4, 0])
    held = Rows.of(dense) if at is None else Rows.of(dense)[at]
    same = jnp.asarray(dense) if at is None else jnp.asarray(dense)[at]
    x, v = jnp.asarray(np.random.default_rng(0).normal(size=(2, 35)))

    def loss(inputs, x):
        return jnp.sum(jnp.sin(inputs @ x))

    for derivative in (
        jax.grad(loss, 1),
        jax.hessian(loss, 1),
        jax.jacrev(jax.grad(loss, 1), 1),
        lambda inputs, x: jax.jvp(lambda x: loss(inputs, x), (x,), (v,))[1],
        lambda inputs, x: jax.grad(lambda x: jnp.vdot(v, jax.grad(loss, 1)(inputs, x)))(x),
    ):
        made = jax.jit(derivative)  # one program, not one for each operation
        np.testing.assert_allclose(made(held, x), made(same, x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ones", [True, False])
def test_maps_over_settings_seeds_and_agents_are_those_of_the_matrix(ones, dtype):
    """Settings share the rows that they see; agents and seeds have rows of their own."""
    dense = matrix(12, 37, 0.15, ones, 2, full=[3])
    draw = np.random.default_rng(3)
    at, x = draw.integers(0, 12, (2, 4, 5)), draw.normal(size=(3, 2, 4, 37)).astype(dtype)

    def gradients(inputs):
        def of_agent(at, x):
            return jax.grad(lambda x: jnp.sum(jnp.sin(inputs[at] @ x)))(x)

        return jax.jit(jax.vmap(jax.vmap(jax.vmap(of_agent)), (None, 0)))(jnp.asarray(at), x)

    rows = jax.tree.map(lambda a: jnp.asarray(a, dtype if a.dtype.kind == "f" else None), Rows.of(dense))
    made = gradients(rows)
    assert made.dtype == dtype
    np.testing.assert_allclose(
        made, gradients(jnp.asarray(dense, dtype)), rtol=0, atol=1e-13 if dtype is np.float64 else 1e-5
    )


@pytest.mark.parametrize("ones", [True, False])
def test_blocks_of_rows_stand_alone(ones):
    """As many as there are devices; one of them has a long row, which is cut, and the other has none."""
    dense = matrix(8, 90, 0.05, ones, 5, full=[2])
    order = np.r_[2, 3, 0, 1, 7, 7, 4, 5]
    both = in_blocks(Rows.of(dense), order, 2)
    assert both.shape == (4, 90)
    x = jnp.asarray(np.random.default_rng(0).normal(size=90))
    for block in range(2):
        own = jax.tree.map(lambda leaf, block=block: np.split(leaf, 2)[block], both)
        for held in (own, own[np.arange(4)]):
            np.testing.assert_allclose(held @ x, dense[order][4 * block : 4 * block + 4] @ x, rtol=1e-12, atol=1e-12)


def test_the_form_goes_by_how_many_are_not_zero():
    few, some = matrix(40, 200, 0.02, True, 0), matrix(40, 200, 0.3, True, 0)
    assert isinstance(hold(few, linear=True), Rows)
    assert isinstance(hold(sp.csr_array(3 * few), linear=True), Rows)
    assert not isinstance(hold(some, linear=True), Rows)
    assert isinstance(hold(sp.csr_array(3 * some), linear=True), np.ndarray)
    assert isinstance(hold(sp.csr_array(3 * few), linear=False), np.ndarray), "what is small is made dense for it"


def test_what_has_no_meaning_is_refused():
    held, x = Rows.of(matrix(4, 9, 0.3, False, 0)), jnp.ones(9)
    with pytest.raises(InputError, match="no derivative by sparse features"):
        jax.grad(lambda held: (held @ x).sum(), allow_int=True)(jax.tree.map(jnp.asarray, held))
    stacked = jax.tree.map(lambda a: jnp.stack([a, a]), held)
    with pytest.raises(InputError, match="sparse features cannot be mapped over"):
        jax.vmap(lambda held: held @ x)(stacked)
    many, rows = jax.ShapeDtypeStruct((2**28, 9, 1), np.float32), jax.ShapeDtypeStruct((2**28, 4), np.int32)
    with pytest.raises(InputError, match=r"are 2³¹ numbers or more"):
        jax.eval_shape(lambda x, at: held.bind(sparse_rows.dot_p, x, at), many, rows)
