"""Sequences that average exactly: Base-(k+1) graphs and the k-peer exponential graph."""

import functools
import math

import numpy as np
import pytest

from gossamer import networks
from gossamer.core import InputError
from gossamer.networks.finite_time import _simple_base
from tests.table import table


def over_a_period(network):
    """The product of all rounds, and what is true of each."""
    product = np.eye(network.agents)
    for t in range(network.mixer.period):
        W = network.matrix(t).toarray()
        assert W.min() >= 0
        assert max(abs(W.sum(axis=0) - 1).max(), abs(W.sum(axis=1) - 1).max()) < 1e-14
        yield W
        product = W @ product
    assert abs(product - 1 / network.agents).max() < 1e-12


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_base_graphs_average_any_number_of_agents_exactly(degree):
    for n in (*range(degree + 1, 56), 64, 72, 81, 89, 96, 97, 100):
        network = networks.base_graph(n, degree)
        for W in over_a_period(network):
            assert np.array_equal(W, W.T)
            assert np.count_nonzero(W, axis=1).max() <= degree + 1
        assert network.mixer.period <= 2 * math.log(n, degree + 1) + 2


@pytest.mark.parametrize(("n", "degree"), [(5, 1), (6, 1), (24, 1), (25, 1), (7, 2), (23, 3), (50, 4)])
def test_the_simple_form_averages_exactly_too(n, degree):
    product = functools.reduce(lambda product, W: W @ product, _simple_base(n, degree), np.eye(n))
    np.testing.assert_allclose(product, 1 / n, atol=1e-12)


@pytest.mark.parametrize(
    ("n", "degree", "rounds"),
    # powers of k + 1 take as many rounds as the power; five agents in pairs take five, and 6 = 2 · 3 take 1 + 3
    [(2, 1, 1), (8, 1, 3), (1024, 1, 10), (81, 2, 4), (24, 3, 3), (5, 1, 5), (6, 1, 4), (4, 3, 1)],
)
def test_how_many_rounds_a_base_graph_takes(n, degree, rounds):
    network = networks.base_graph(n, degree)
    assert network.mixer.period == rounds
    assert network.gap == 1


def test_a_power_of_two_is_the_hypercube_one_dimension_at_a_time():
    for t in range(3):
        partner = np.arange(8) ^ 2**t
        np.testing.assert_array_equal(networks.base_graph(8).matrix(t).toarray(), (np.eye(8) + np.eye(8)[partner]) / 2)


@pytest.mark.parametrize("n", [2, 3, 8, 13, 24])
def test_one_peer_is_k_peer_with_one(n):
    one, k = networks.one_peer_exponential(n), networks.k_peer_exponential(n, 1)
    assert one.mixer.period == k.mixer.period
    for t in range(one.mixer.period):
        np.testing.assert_array_equal(one.matrix(t).toarray(), k.matrix(t).toarray())
    assert one.gap == k.gap


@pytest.mark.parametrize(("n", "degree"), [(8, 1), (9, 2), (27, 2), (18, 2), (64, 3), (32, 3), (48, 3), (5, 4), (7, 6)])
def test_k_peer_averages_exactly_where_n_suits(n, degree):
    network = networks.k_peer_exponential(n, degree)
    for W in over_a_period(network):
        assert np.count_nonzero(W, axis=1).max() <= degree + 1
    assert network.gap == 1


def test_k_peer_elsewhere_does_not_average_exactly_but_contracts():
    assert 0.2 < networks.k_peer_exponential(10, 2).gap < 0.9


def test_ten_thousand_agents_stay_sparse():
    network = networks.base_graph(10_007)
    assert network.mixer.period <= 2 * math.log2(10_007) + 2
    assert max(network.matrix(t).nnz for t in range(network.mixer.period)) <= 2 * 10_007
    assert network.disagreement(network.mixer.period)[-1] < 1e-12
    assert network.gap == 1


@table(
    ("make", "message"),
    [
        (lambda: networks.base_graph(5, 5), r"base_graph\(degree\) must be below the number of agents, 5, but is 5"),
        (lambda: networks.base_graph(1, 2), "below the number of agents, 1, but is 2. With all others"),
        (lambda: networks.base_graph(5, 0), r"base_graph\(degree\) must be a whole number of at least 1, but is 0"),
        (lambda: networks.k_peer_exponential(4, 4), "networks.complete averages in one round"),
        (lambda: networks.k_peer_exponential(0), r"k_peer_exponential\(agents\) must be a whole number of at least 1"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("make", [networks.base_graph, networks.k_peer_exponential])
def test_one_agent_is_always_agreed(make):
    assert (make(1).gap, make(1).links, make(1).diameter) == (1, 0, 0)
