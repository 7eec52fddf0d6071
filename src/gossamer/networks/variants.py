"""Variants of a network: asynchronous, with attackers, and after the loss of some agents."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from gossamer.attacks import KINDS, Attack, alie_scale, chosen, scale_of
from gossamer.core import InputError
from gossamer.networks.graphs import from_links, from_matrix
from gossamer.networks.network import Network, check_network
from gossamer.networks.weights import check_one_part


def attacked(
    network: Network, how: str = "flip", *, agents: Any = None, share: float | None = None, scale: float | None = None
) -> Network:
    r"""Let some agents send others something else than their vectors.

    | how | what they send for a vector $a$ |
    | --- | --- |
    | `flip` | $-s\, a$, with `scale` $s = 1$ unless given |
    | `scale` | $s\, a$ |
    | `constant` | the number $s$ in every coordinate |
    | `alie` | $\mu - z\, \sigma$ of the honest agents' vectors, by coordinates; `scale` stands for $z$ if given |

    Every vector of a message is replaced, whole or compressed. The attackers are `agents`, a list of numbers, or a
    `share` of all, at equal distances from agent 0 on; they follow the algorithm themselves. Metrics
    are those of the honest agents alone: their mean model, and the mean of their losses.

    Reference: G. Baruch, M. Baruch and Y. Goldberg, "A little is enough", NeurIPS 2019, arXiv 1902.06156.
    """
    check_network("attacked", network)
    if network.attack is not None:
        raise InputError(f"{network.name} is attacked already: name all attackers in one call.")
    number = scale_of("attacked", how, scale, KINDS)
    attackers = chosen("attacked", network.agents, agents, share)
    if not attackers:
        return network
    if how == "alie":
        number = alie_scale("attacked", network.agents, len(attackers), number)
    assert number is not None
    attack = Attack(how, number, attackers)
    return dataclasses.replace(network, name=f"attacked({network.name}, {attack})", attack=attack)


def asynchronous(network: Network) -> Network:
    """Take away the common rounds of a network: agents step on their own and meet one neighbour at a time.

    An agent asks for a gradient at its model and computes it, while others may mix with the agent. When the gradient is
    done, the agent wakes: it takes the gradient in, meets one neighbour, drawn among those that are there, and steps;
    its partner only mixes. As many events as there are agents count as one round. A clock says who wakes when, so a run
    needs one, and a rule needs an asynchronous form, ``wake``.
    """
    check_network("asynchronous", network)
    if network.asynchronous:
        return network
    if not network.symmetric or network.attack is not None:
        raise InputError(
            f"asynchronous({network.name}): two agents that meet take their mean, which needs links that go both ways, "
            "stay and are honest. Use a static undirected network; agents that fail are `outages` of a clock."
        )
    if network.agents < 2:
        raise InputError("asynchronous(network) needs two agents that can meet, but there is one.")
    return dataclasses.replace(network, name=f"asynchronous({network.name})", asynchronous=True)


def surviving(network: Network, agents: Sequence[int]) -> Network:
    """Return the links of an undirected network among some of its agents, with Metropolis weights.

    Raise InputError if these agents are not connected any more. With all agents, return the network itself.
    """
    if not network.symmetric:
        raise InputError(
            f"{network.name} changes or is directed, so that nothing says how its agents talk when some are lost: give "
            "the network by name, or one that is undirected and never changes."
        )
    left = sorted(agents)
    if left == list(range(network.agents)):
        return network
    lost = sorted(set(range(network.agents)) - set(left))
    name = f"{network.name} without {', '.join(map(str, lost[:5]))}{', …' if len(lost) > 5 else ''}"
    if len(left) == 1:
        return from_matrix(np.eye(1), name=name)
    links = sp.csr_array(network.sparse[left, :][:, left])
    check_one_part(links, name, left)
    links.data[:] = 1.0
    return from_links(links, "metropolis", name)
