"""A network after agents are lost: the links that are left, with Metropolis weights."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer import networks
from gossamer.core import InputError
from gossamer.networks.variants import surviving


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(3, 9), st.data())
def test_weights_are_those_of_the_links_that_are_left(seed, agents, data):
    graph = nx.gnp_random_graph(agents, 0.7, seed=seed)
    graph.add_edges_from(nx.path_graph(agents).edges)
    kept = sorted(data.draw(st.sets(st.integers(0, agents - 1), min_size=1)))
    part = graph.subgraph(kept)
    network = networks.from_graph(graph)
    if not nx.is_connected(part):
        with pytest.raises(InputError, match="must be connected, but falls into"):
            surviving(network, kept)
        return
    W = surviving(network, kept).mixing
    for i, a in enumerate(kept):
        for j, b in enumerate(kept):
            if i != j:
                linked = part.has_edge(a, b)
                assert W[i, j] == pytest.approx(linked / (1 + max(part.degree[a], part.degree[b])))
    np.testing.assert_allclose(W.sum(1), 1)
    np.testing.assert_allclose(W, W.T)


def test_with_all_agents_it_is_the_network_itself():
    network = networks.ring(5)
    assert surviving(network, range(5)) is network


@pytest.mark.parametrize("name", ["one-peer-exponential", "directed-ring"])
def test_what_changes_or_is_directed_is_refused(name):
    with pytest.raises(InputError, match="changes or is directed, so that nothing says how its agents talk"):
        surviving(networks.make(name, 4), [0, 1, 2])
