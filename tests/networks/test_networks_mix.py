"""Mixing: every form of W gives the product with W, under jit and vmap, in the dtype of x."""

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer import networks
from gossamer.core import InputError
from gossamer.engines.mixing import UNROLL, mix, multiply
from gossamer.networks.mixers import Neighbours

FORMS = {
    "shifts": networks.torus(3, 5),
    "mean": networks.complete(7),
    "table": networks.random_regular(60, 4),
    "hubs": networks.star(100),
    "dense": networks.erdos_renyi(20, 0.4),
}
MORE = [
    networks.ring(1),
    networks.ring(2),
    networks.ring(20),
    networks.torus(2, 5),
    networks.torus(4, 6),
    networks.hypercube(16),
    networks.exponential(12),
    networks.path(9),
    networks.from_graph(nx.barabasi_albert_graph(150, 2, seed=0)),
    networks.from_matrix([[1 / 2, 1 / 2, 0], [1 / 6, 1 / 6, 2 / 3], [1 / 3, 1 / 3, 1 / 3]]),
]


def values(*shape):
    return np.random.default_rng(1).standard_normal(shape)


@pytest.mark.parametrize(("kind", "network"), FORMS.items())
def test_each_form_is_chosen_where_it_should(kind, network):
    assert network.kind == kind


def compiled(network, x):
    return jax.jit(mix)(network, x)


@pytest.mark.parametrize("network", [*FORMS.values(), *MORE], ids=lambda network: network.name)
def test_mix_is_the_product(network):
    x = values(network.agents, 2, 3)
    with jax.enable_x64(True):
        mixed = compiled(network, x)
    assert mixed.dtype == np.float64
    np.testing.assert_allclose(mixed, np.tensordot(network.mixing, x, axes=1), atol=1e-12, rtol=0)


@pytest.mark.parametrize("network", FORMS.values(), ids=lambda network: network.kind)
def test_one_number_an_agent(network):
    x = values(network.agents)
    with jax.enable_x64(True):
        np.testing.assert_allclose(compiled(network, x), network.mixing @ x, atol=1e-12, rtol=0)


@pytest.mark.parametrize("network", FORMS.values(), ids=lambda network: network.kind)
def test_mix_on_the_host(network):
    x = values(network.agents, 2, 3)
    np.testing.assert_allclose(network.mix(x), np.tensordot(network.mixing, x, axes=1), atol=1e-14, rtol=0)


@pytest.mark.parametrize("network", FORMS.values(), ids=lambda network: network.kind)
def test_mix_under_vmap(network):
    x = values(4, network.agents, 3)
    with jax.enable_x64(True):
        mixed = jax.jit(jax.vmap(lambda x: mix(network, x)))(x)
    np.testing.assert_allclose(mixed, np.einsum("ij,bjk->bik", network.mixing, x), atol=1e-12, rtol=0)


@pytest.mark.parametrize(("x64", "dtype"), [(False, jnp.float32), (True, jnp.float32), (True, jnp.bfloat16)])
@pytest.mark.parametrize("network", FORMS.values(), ids=lambda network: network.kind)
def test_mix_keeps_the_dtype(network, x64, dtype):
    with jax.enable_x64(x64):
        x = jnp.asarray(values(network.agents, 2), dtype)
        mixed = compiled(network, x)
        assert mixed.dtype == dtype
        exact = network.mixing @ np.asarray(x, np.float64)
        np.testing.assert_allclose(np.asarray(mixed, np.float64), exact, atol=20 * float(jnp.finfo(dtype).eps))


def test_long_tables_are_loops_and_right():
    matrix = networks.random_regular(80, UNROLL + 10).sparse
    x = values(80, 3)
    with jax.enable_x64(True):
        np.testing.assert_allclose(multiply(Neighbours.of(matrix), jnp.asarray(x), 0, "W"), matrix @ x, atol=1e-12)


@pytest.mark.parametrize("network", FORMS.values(), ids=lambda network: network.kind)
def test_network_is_a_pytree_that_keeps_its_structure(network):
    cast = jax.tree.map(lambda a: a.astype(np.float32) if a.dtype.kind == "f" else a, network)
    assert (cast.name, cast.agents, cast.kind) == (network.name, network.agents, network.kind)
    x = values(network.agents, 2).astype(np.float32)
    np.testing.assert_allclose(compiled(cast, x), network.mixing @ x, atol=1e-5)
    np.testing.assert_allclose(cast.mixing, network.mixing, atol=1e-7)
    leaves = jax.tree.leaves(network)
    assert all(isinstance(leaf, np.ndarray) and leaf.dtype in (np.float64, np.int32) for leaf in leaves)


@pytest.mark.parametrize("network", FORMS.values(), ids=lambda network: network.kind)
def test_gossip_reaches_the_mean_at_the_rate_of_the_gap(network):
    x = values(network.agents)
    x -= x.mean()
    with jax.enable_x64(True):
        mixed = np.asarray(compiled(network, x))
    assert abs(mixed.mean()) < 1e-14
    assert np.linalg.norm(mixed) <= (1 - network.gap) * np.linalg.norm(x) + 1e-12


@st.composite
def connected_graphs(draw):
    n = draw(st.integers(1, 24))
    graph = nx.random_labeled_tree(n, seed=draw(st.integers(0, 10_000))) if n > 1 else nx.empty_graph(1)
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    graph.add_edges_from(draw(st.lists(pairs, max_size=3 * n)))
    return graph


@settings(max_examples=60, deadline=None)
@given(connected_graphs(), st.sampled_from(sorted({*networks.WEIGHTS} - {"fdla"})))
def test_every_scheme_is_doubly_stochastic_on_every_graph(graph, weights):
    network = networks.from_graph(graph, weights)
    W = network.mixing
    if "best-constant" in weights:  # whose own weights may be negative
        np.testing.assert_allclose(W.sum(1), 1, atol=1e-12)
        assert np.abs(np.linalg.eigvalsh(W - 1 / len(W))).max() < 1
    else:
        networks.check_doubly_stochastic(W, tolerance=1e-12)
    np.testing.assert_array_equal(W, W.T)
    off = ~np.eye(len(W), dtype=bool)
    np.testing.assert_array_equal((W > 0)[off], nx.to_numpy_array(graph)[off] > 0)
    np.testing.assert_array_equal(network.degrees, [d for _, d in without_loops(graph).degree])
    assert network.gap > 0
    if weights == "lazy":
        assert np.linalg.eigvalsh(W)[0] > -1e-12
    x = values(network.agents, 2)
    with jax.enable_x64(True):
        np.testing.assert_allclose(compiled(network, x), W @ x, atol=1e-12, rtol=0)


def without_loops(graph):
    simple = nx.Graph(graph)
    simple.remove_edges_from(list(nx.selfloop_edges(simple)))
    return simple


@pytest.mark.parametrize("x", [np.zeros((19, 3)), np.zeros(()), np.zeros((3, 20))])
def test_wrong_shape_is_refused(x):
    with pytest.raises(InputError, match=r"ring\(20\) mixes arrays with one row an agent, \[20, …\], but got shape"):
        networks.ring(20).mix(x)
