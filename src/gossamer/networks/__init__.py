"""Networks: graphs, mixing weights and the spectral gap ρ. Make one with `ring(20)`, or by name with `make`."""

from gossamer.networks.graphs import (
    complete,
    erdos_renyi,
    exponential,
    from_graph,
    from_matrix,
    hypercube,
    path,
    random_regular,
    ring,
    star,
    torus,
)
from gossamer.networks.network import Network
from gossamer.networks.registry import NETWORKS, make, options
from gossamer.networks.weights import (
    WEIGHTS,
    check_connected,
    check_doubly_stochastic,
    lazy,
    max_degree,
    metropolis,
    uniform,
)

__all__ = [
    "NETWORKS",
    "WEIGHTS",
    "Network",
    "check_connected",
    "check_doubly_stochastic",
    "complete",
    "erdos_renyi",
    "exponential",
    "from_graph",
    "from_matrix",
    "hypercube",
    "lazy",
    "make",
    "max_degree",
    "metropolis",
    "options",
    "path",
    "random_regular",
    "ring",
    "star",
    "torus",
    "uniform",
]
