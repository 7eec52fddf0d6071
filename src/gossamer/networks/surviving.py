"""A network after some of its agents are lost."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from gossamer.core import InputError
from gossamer.networks.graphs import from_links, from_matrix
from gossamer.networks.network import Network
from gossamer.networks.weights import check_one_part


def surviving(network: Network, agents: Sequence[int]) -> Network:
    """The links of an undirected network among some of its agents, with Metropolis weights.

    Refused where these agents are not connected any more. With all agents it is the network itself.
    """
    if not network.symmetric:
        raise InputError(
            f"{network.name} changes or is directed, so that nothing says how its agents talk when some are lost: give "
            "the network by name, or one that is undirected and never changes."
        )
    kept = sorted(agents)
    if kept == list(range(network.agents)):
        return network
    lost = sorted(set(range(network.agents)) - set(kept))
    name = f"{network.name} without {', '.join(map(str, lost[:5]))}{', …' if len(lost) > 5 else ''}"
    if len(kept) == 1:
        return from_matrix(np.eye(1), name=name)
    links = sp.csr_array(network.sparse[kept, :][:, kept])
    check_one_part(links, name, kept)
    links.data[:] = 1.0
    return from_links(links, "metropolis", name)
