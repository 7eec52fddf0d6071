"""Networks on which nobody waits: agents wake when their gradient is done, and meet one neighbour."""

import dataclasses

from gossamer.core import InputError, brief
from gossamer.networks.network import Network


def asynchronous(network: Network) -> Network:
    """The same agents and links without rounds that all go together.

    An agent asks for a gradient at its model, computes it while others may mix with it, and wakes when it is done: it
    takes the gradient in, meets one neighbour, drawn among those that are there, and steps; its partner only mixes. So
    many events as there are agents count as one round. Who wakes when is said by a clock, which a run then needs; and a
    rule must have a form for it, ``wake``.
    """
    if not isinstance(network, Network):
        raise InputError(f"asynchronous(network) must be a network, but is {brief(network)}. Make one first.")
    if network.asynchronous:
        return network
    if network.changes or network.attack is not None or network.stochastic != "doubly" or not network.symmetric:
        raise InputError(
            f"asynchronous({network.name}): two agents that meet take their mean, which needs links that go both ways, "
            "stay and are honest. Use a static undirected network; agents that fail are `outages` of a clock."
        )
    if network.agents < 2:
        raise InputError("asynchronous(network) needs two agents that can meet, but there is one.")
    return dataclasses.replace(network, name=f"asynchronous({network.name})", asynchronous=True)
