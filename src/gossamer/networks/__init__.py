"""Networks: graphs, mixing weights and the spectral gap ρ. Make one with `ring(20)`, or by name with `make`."""

from gossamer.networks.attacked import attacked
from gossamer.networks.digraphs import directed, directed_erdos_renyi, directed_ring, from_matrices
from gossamer.networks.files import from_file
from gossamer.networks.given import of
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
from gossamer.networks.registry import NETWORKS, make, options, register
from gossamer.networks.sequences import (
    every,
    failing,
    one_peer_exponential,
    random_matching,
    redrawn,
    sequence,
)
from gossamer.networks.weights import (
    WEIGHTS,
    check_connected,
    check_doubly_stochastic,
    lazy,
    max_degree,
    metropolis,
    uniform,
)

NETWORKS.include(
    {
        "ring": ring,
        "path": path,
        "star": star,
        "complete": complete,
        "torus": torus,
        "hypercube": hypercube,
        "exponential": exponential,
        "erdos-renyi": erdos_renyi,
        "random-regular": random_regular,
        "one-peer-exponential": one_peer_exponential,
        "random-matching": random_matching,
        "redrawn-erdos-renyi": redrawn,
        "directed-ring": directed_ring,
        "directed-erdos-renyi": directed_erdos_renyi,
    }
)

__all__ = [
    "NETWORKS",
    "WEIGHTS",
    "Network",
    "attacked",
    "check_connected",
    "check_doubly_stochastic",
    "complete",
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
    "hypercube",
    "lazy",
    "make",
    "max_degree",
    "metropolis",
    "of",
    "one_peer_exponential",
    "options",
    "path",
    "random_matching",
    "random_regular",
    "redrawn",
    "register",
    "ring",
    "sequence",
    "star",
    "torus",
    "uniform",
]
