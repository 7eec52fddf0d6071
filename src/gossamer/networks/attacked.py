"""Networks in which some agents send what is wrong on purpose."""

import dataclasses
from typing import Any

from gossamer.attacks import KINDS, Attack, alie_scale, chosen, scale_of
from gossamer.core import InputError, brief, nearest
from gossamer.networks.network import Network

OPTIONS = ("how", "agents", "share", "scale")


def attacked(
    network: Network, how: str = "flip", *, agents: Any = None, share: float | None = None, scale: float | None = None
) -> Network:
    r"""Some agents send others something else than their vectors.

    | how | what they send for a vector $a$ |
    | --- | --- |
    | `flip` | $-s\, a$, with `scale` $s = 1$ unless given |
    | `scale` | $s\, a$ |
    | `constant` | the number $s$ in every coordinate |
    | `alie` | $\mu - z\, \sigma$ of the honest agents' vectors, by coordinates; `scale` stands for $z$ if given |

    It is done to every vector of a message, whole or compressed. The attackers are `agents`, a list of numbers, or a
    `share` of all, at equal distances from agent 0 on; they follow the algorithm themselves. What is measured is
    measured on the honest agents alone: their mean model, and the mean of their losses.

    Reference: G. Baruch, M. Baruch and Y. Goldberg, "A little is enough", NeurIPS 2019, arXiv 1902.06156.
    """
    if not isinstance(network, Network):
        raise InputError(f"attacked(network) must be a network, but is {brief(network)}. Make one first.")
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


def of_options(network: Network, given: Any) -> Network:
    """The network with the attack of a spec's table, such as { how = "flip", share = 0.2 }."""
    if not isinstance(given, dict):
        raise InputError(f'attack must be a table, such as {{ how = "flip", share = 0.2 }}, but is {brief(given)}.')
    for key in given:
        if key not in OPTIONS:
            raise InputError(f"attack has no option {brief(key)}; {nearest(key, OPTIONS)}")
    return attacked(network, **given)
