"""Whatever a user gives as a network."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from gossamer.basics.lazy_networkx import is_directed, is_graph
from gossamer.core import InputError, brief, whole
from gossamer.networks import digraphs, graphs
from gossamer.networks.files import from_file, is_network_file
from gossamer.networks.network import Network
from gossamer.networks.registry import NETWORKS, make, of_table, options


def of(given: Any, agents: int, *, counted: str = "agents") -> Network:
    """The network that `given` means for this number of agents.

    `given` is a `Network`, a name in `NETWORKS`, a spec's table such as ``{"name": "ring", "links_down": 0.1}``, the
    path of a file (`from_file`), a networkx graph, or a doubly stochastic matrix, dense or sparse. `counted` is the
    word for what `agents` counts, in error messages.
    """
    n = whole("the number of agents", agents)
    network = _meant(given, n)
    if network.agents != n:
        raise InputError(
            f"the network {network.name} has {network.agents} agents, but there are {n} {counted}: take "
            f"{network.agents} {counted}, or give the network by name."
        )
    return network


def _meant(given: Any, agents: int) -> Network:
    if isinstance(given, Network):
        return given
    if is_network_file(given) and given not in NETWORKS:
        return from_file(given)
    if isinstance(given, str):
        options(given)
        # an agent that is alone has no neighbours, whatever the name
        return make(given, agents) if agents > 1 else graphs.from_matrix(np.eye(1))
    if isinstance(given, Mapping):
        return of_table(dict(given), agents)
    if is_graph(given):
        return digraphs.directed(given) if is_directed(given) else graphs.from_graph(given)
    if sp.issparse(given) or isinstance(given, (list, tuple)) or hasattr(given, "__array__"):
        return graphs.from_matrix(given)
    raise InputError(
        f"the network must be a name, such as 'ring', a Network, a networkx graph, a doubly stochastic matrix or the "
        f"path of a file, but is {brief(given)}."
    )
