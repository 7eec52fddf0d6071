"""A check that a rule may run on a network."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from gossamer.algorithms import ALGORITHMS
from gossamer.core import InputError, kinds_of_parts
from gossamer.networks import Network


def suits(rule: Any, network: Network) -> None:
    """Raise InputError, with the way out, if the rule would be wrong on this network."""
    if network.asynchronous and not hasattr(rule, "wake"):
        able = ", ".join(name for name, kind in ALGORITHMS.items() if hasattr(kind, "wake"))
        raise InputError(
            f"{rule.name} waits for all its neighbours in each round, but {network.name} is asynchronous. With an "
            f"asynchronous form there are {able}; or use the network without asynchronous."
        )
    if network.asynchronous and getattr(rule, "warm", 0) != 0:
        raise InputError(
            f"{rule.name} with warm={rule.warm!r} averages its tracker among all agents before round 0, but "
            f"{network.name} is asynchronous. Use warm=0, or the network without asynchronous."
        )
    if rule.needs == "doubly" and network.stochastic != "doubly":
        others = ", ".join(name for name, kind in ALGORITHMS.items() if kind.needs not in ("doubly", "nothing"))
        raise InputError(
            f"{rule.name} needs doubly stochastic weights, but {network.name} has row- and column-stochastic ones "
            f"only. For directed graphs there are {others}; or use an undirected network."
        )
    if rule.lowest is not None:
        if network.changes:
            raise InputError(
                f"{rule.name} combines two rounds and needs the same mixing matrix in all of them, but {network.name} "
                "changes. Use a static network, or a rule that tracks, such as biased-dmt or gt-dsgd."
            )
        if not network.symmetric:
            raise InputError(
                f"{rule.name} needs a symmetric mixing matrix, but that of {network.name} is not. Use an undirected "
                "graph, or a rule that tracks, such as biased-dmt or gt-dsgd."
            )
        # eigenvalues are exact up to rounding only
        if network.lowest <= rule.lowest + 1e-9:
            raise InputError(
                f"{rule.name} needs all eigenvalues of the mixing matrix above {rule.lowest:.4g}, but the lowest of "
                f'{network.name} is {network.lowest:.4g}, and it would not converge. Use weights="lazy", ½(I + W).'
            )
    elif rule.static and network.changes:
        kept, other = "running sums of what its neighbours sent", "an uncompressed rule, such as biased-dmt"
        if rule.tree:
            kept, other = "sums of what its neighbours passed on", "a rule that mixes, such as biased-dmt"
        elif rule.needs == "row":
            kept, other = "estimates of how much each agent counts", "a rule that needs none, such as push-pull-dmt"
        raise InputError(
            f"{rule.name} keeps {kept}, which are right only on a network that never changes and loses nothing, but "
            f"{network.name} does. Use a static network, or {other}."
        )
    if rule.tree and network.links != network.agents - 1:
        raise InputError(
            f"{rule.name} passes sums along the links of a tree, but {network.name} has {network.links:,} links "
            f"between {network.agents:,} agents, where a tree has {network.agents - 1:,}: sums would come back and "
            f"count twice. Use networks.spanning_tree({network.agents}, of=…) with this network in place of …, or "
            "networks.tree, path or star; or a rule for all graphs, such as biased-dmt."
        )
    for key, kind in kinds_of_parts(type(rule)).items():
        if kind == "aggregator":
            _check_messages(rule, getattr(rule, key), network)


def _check_messages(rule: Any, aggregator: Any, network: Network) -> None:
    """Raise InputError unless the neighbours of every round are known and send enough messages for the aggregator."""
    if network.mixer.random:
        how = "follow a timetable" if network.mixer.timetabled else "are drawn"
        raise InputError(
            f"{rule.name} tells its neighbours' messages apart, which needs the same neighbours in each run, but those "
            f"of {network.name} {how}. Use a static network or a periodic one, such as networks.sequence."
        )
    if aggregator.fewest == 1:
        return
    for t in range(network.mixer.period):
        links = sp.coo_array(network.matrix(t))
        heard = 1 + np.bincount(links.row[links.row != links.col], minlength=network.agents)
        if heard.max() > 1 and heard.min() < aggregator.fewest:
            agent = int(heard.argmin())
            raise InputError(
                f"{aggregator} needs {aggregator.fewest} messages, an agent's own among them, but on {network.name} "
                f"agent {agent} has {heard[agent]}. Trim less, or take aggregators.clipped() or more links."
            )
