"""Whatever a user gives as a network: a name, a table, a graph, a matrix, a file."""

import networkx as nx
import numpy as np
import pytest

from gossamer import networks
from gossamer.core import InputError
from tests.networks.test_networks_files import DIRECTED, same, write
from tests.table import table


def test_any_way_to_say_which_network_gives_it(tmp_path):
    graph, ring = nx.cycle_graph(5), networks.ring(5)
    path = write(tmp_path, "ring.edges", "0 1\n1 2\n2 3\n3 4\n4 0\n")
    W = ring.matrix()
    for given in ("ring", ring, graph, W, W.toarray(), W.toarray().tolist(), path, str(path), {"name": "ring"}):
        same(networks.of(given, 5), ring)
    assert networks.of(ring, 5) is ring
    same(networks.of(DIRECTED, 4), networks.directed(DIRECTED))
    assert networks.of({"name": "ring", "every": 3}, 5).pace == 1 / 3
    assert networks.of("erdos-renyi", 1).agents == 1


@table(
    ("given", "agents", "message"),
    [
        (networks.ring(5), 4, r"the network ring\(5\) has 5 agents, but there are 4 agents: take 5 agents"),
        (nx.path_graph(3), 4, "has 3 agents, but there are 4 agents"),
        (np.eye(3), 3, "network must be connected"),
        (None, 3, "network must be a name, such as 'ring', a Network, .* but is None"),
        (3.5, 3, "but is 3.5"),
        ("rign", 3, "did you mean 'ring'"),
        ("rign", 1, "did you mean 'ring'"),
        ("gone.graphml", 3, "there is no file 'gone.graphml'"),
        ("ring", 0, "the number of agents must be a whole number of at least 1"),
        ([[1, 2], [3]], 2, "its rows differ in length"),
    ],
)
def test_what_is_no_network(given, agents, message):
    with pytest.raises(InputError, match=message):
        networks.of(given, agents)
