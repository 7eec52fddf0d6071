"""Networks: graphs, mixing weights and the spectral gap ρ. Make one with `ring(20)`, or by name with `make`.

A new network is one file here, and its import and its name below.
"""

from gossamer.networks.comparison import NetworkComparison, compare
from gossamer.networks.composed import hierarchical, spanning_tree
from gossamer.networks.digraphs import directed, directed_erdos_renyi, directed_ring, from_matrices
from gossamer.networks.drawn import random_matching, redrawn
from gossamer.networks.equitopo import d_equistatic, od_equidyn, ou_equidyn, u_equistatic
from gossamer.networks.faults import failing
from gossamer.networks.files import from_file
from gossamer.networks.finite_time import base_graph, k_peer_exponential, one_peer_exponential
from gossamer.networks.gilbert_elliott import gilbert_elliott
from gossamer.networks.graphs import (
    complete,
    erdos_renyi,
    exponential,
    from_graph,
    from_matrix,
    hypercube,
    path,
    random_geometric,
    random_regular,
    ring,
    star,
    torus,
    torus_of_agents,
    tree,
)
from gossamer.networks.network import Network
from gossamer.networks.registry import NETWORKS, make, of, options, register
from gossamer.networks.sequences import every, sequence
from gossamer.networks.timetables import availability, deadline
from gossamer.networks.variants import asynchronous, attacked
from gossamer.networks.weights import (
    WEIGHTS,
    check_connected,
    check_doubly_stochastic,
    lazy,
    max_degree,
    metropolis,
)

STATIC = (ring, path, star, complete, hypercube, exponential, erdos_renyi, random_regular, random_geometric, tree)
COMPOSED = (spanning_tree, hierarchical, d_equistatic, u_equistatic)
CHANGING = (one_peer_exponential, k_peer_exponential, base_graph, od_equidyn, ou_equidyn, random_matching)
DIRECTED = (directed_ring, directed_erdos_renyi)
NETWORKS.include({maker.__name__.replace("_", "-"): maker for maker in STATIC + COMPOSED + CHANGING + DIRECTED})
NETWORKS.include({"torus": torus_of_agents, "redrawn-erdos-renyi": redrawn})

__all__ = [
    "NETWORKS",
    "WEIGHTS",
    "Network",
    "NetworkComparison",
    "asynchronous",
    "attacked",
    "availability",
    "base_graph",
    "check_connected",
    "check_doubly_stochastic",
    "compare",
    "complete",
    "d_equistatic",
    "deadline",
    "directed",
    "directed_erdos_renyi",
    "directed_ring",
    "erdos_renyi",
    "every",
    "exponential",
    "failing",
    "from_file",
    "from_graph",
    "from_matrices",
    "from_matrix",
    "gilbert_elliott",
    "hierarchical",
    "hypercube",
    "k_peer_exponential",
    "lazy",
    "make",
    "max_degree",
    "metropolis",
    "od_equidyn",
    "of",
    "one_peer_exponential",
    "options",
    "ou_equidyn",
    "path",
    "random_geometric",
    "random_matching",
    "random_regular",
    "redrawn",
    "register",
    "ring",
    "sequence",
    "spanning_tree",
    "star",
    "torus",
    "tree",
    "u_equistatic",
]
