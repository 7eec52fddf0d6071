"""What a user gives to `Decentralized`, checked and made whole."""

import operator
from collections.abc import Iterable
from typing import Any, Literal

import torch

from gossamer import networks
from gossamer.algorithms import ALGORITHMS
from gossamer.basics.lazy_networkx import is_graph
from gossamer.core import InputError, brief, flag
from gossamer.networks import NETWORKS, Network
from gossamer.networks.surviving import surviving
from gossamer.torch.hyperparameters import checked_rate

Draws = Literal["torch", "simulator"]
LONGEST = 30 * 86400.0
"""Seconds that a rank may wait for a neighbour."""


def check_seconds(**timeouts: float) -> None:
    """Refuse timeouts that are no numbers of seconds."""
    for name, value in timeouts.items():
        if not isinstance(value, (int, float)) or not 0 < value <= LONGEST:
            raise InputError(f"{name} must be a number of seconds above 0, {LONGEST:g} at most, but is {brief(value)}.")


def check_kinds(module: Any, overlap: Any, **switches: Any) -> None:
    """Refuse what is no model, and switches that are neither on nor off: a text such as "no" would count as on."""
    if module is not None and not isinstance(module, torch.nn.Module):
        raise InputError(f"module must be the model whose buffers rank 0 gives to all, but is {brief(module)}.")
    if overlap is not None:
        flag("overlap", overlap)
    for name, value in switches.items():
        flag(name, value)


def checked_seed(seed: Any) -> int:
    """The seed of what compressors draw."""
    try:
        return operator.index(seed)
    except TypeError:
        raise InputError(f"seed must be a whole number, but is {brief(seed)}.") from None


def checked_draws(draws: Any) -> Draws:
    """Who draws for randomised compressors."""
    if draws not in ("torch", "simulator"):
        raise InputError(f'draws must be "torch" or "simulator", but is {draws!r}.')
    return draws


def groups_of(params: Iterable[Any]) -> list[dict[str, Any]]:
    """Parameter groups, each with no more than it may have."""
    if isinstance(params, torch.Tensor):
        raise InputError("params must be parameters or groups of them, but is one tensor: give a list, [tensor].")
    if isinstance(params, torch.nn.Module) and not isinstance(params, torch.nn.ParameterList):
        raise InputError("params must be parameters or groups of them, but is a model: give model.parameters().")
    given = list(params)
    groups = [dict(group) for group in given] if given and isinstance(given[0], dict) else [{"params": given}]
    for k, group in enumerate(groups):
        unknown = set(group) - {"params", "param_names", "lr", "weight_decay", "inner"}
        if unknown:
            raise InputError(
                f"parameter group {k} has {sorted(unknown)[0]!r}, which Decentralized does not know: a group has its "
                'own lr and weight_decay, and options of the inner optimizer in a dict, "inner": {"lr": …}; all other '
                "hyper-parameters are the rule's."
            )
        if "params" not in group:
            raise InputError(f'parameter group {k} has no parameters: give them as "params".')
        if "lr" in group:
            checked_rate(group["lr"], f"lr of parameter group {k}")
    return groups


def network_for(given: Any, size: int) -> Network:
    """The network of this many processes: see `gossamer.networks.of`."""
    return without_attack(networks.of(given, size, counted="processes"))


def without_attack(network: Network) -> Network:
    """Refuse a network with attackers."""
    if network.attack is not None:
        raise InputError(
            f"{network.name} has attackers, whom only the simulator plays: run it there, or let a process spoil its "
            "own gradients."
        )
    return network


def overlapping(wanted: bool | None, rule: Any, network: Network) -> bool:
    """Whether messages may travel while gradients are computed."""
    why = None
    if not hasattr(rule, "ahead"):
        why = f"{rule.name} needs what its neighbours send before it asks for a gradient"
    elif hasattr(rule, "shift") and network.changes and not is_ours(rule):
        why = f"{network.name} changes, and one message would belong to two rounds"
    elif hasattr(rule, "shift") and network.awake(0) is not None:
        why = f"agents of {network.name} sleep, and {rule.name} would have to be awake in two rounds at once"
    elif any(callable(value) for key, value in vars(rule).items() if key != "eta"):
        why = "a hyper-parameter other than eta is a schedule, and its rounds would be mixed up"
    if wanted and why:
        raise InputError(f"overlap=True cannot be: {why}. Leave overlap out.")
    return why is None and (wanted is None or bool(wanted))


def sleepy(rule: Any, network: Network) -> bool:
    """Whether an agent may be asleep in a round."""
    return rule.needs != "nothing" and network.awake(0) is not None


def asks_at_its_model(rule: Any) -> bool:
    """Whether the rule's ``ahead`` asks for gradients at the model of its state and nowhere else: ours do."""
    return is_ours(rule)


def is_ours(rule: Any) -> bool:
    """Whether it is a rule of the library, whose ``ahead`` says which rounds its messages belong to."""
    return type(rule).__module__.startswith("gossamer.algorithms.")


def check_restart(rule: Any) -> None:
    """Refuse a rule that does not say how it goes on among others."""
    if not hasattr(rule, "restart"):
        able = ", ".join(name for name, kind in ALGORITHMS.items() if hasattr(kind, "restart"))
        raise InputError(
            f"elastic=True needs a rule that says how it goes on after a loss, by restart(self, s), which {rule.name} "
            f"does not. Those that do: {able}."
        )


def fixed(given: Any) -> Network | None:
    """The network that was given as links or a matrix; None where it has a name, and so is made for any number."""
    if (isinstance(given, str) and given in NETWORKS) or isinstance(given, dict):
        return None
    if isinstance(given, str):
        network = networks.from_file(given)
    elif isinstance(given, Network):
        network = given
    else:
        network = networks.of(given, given.number_of_nodes() if is_graph(given) else len(given))
    surviving(without_attack(network), range(network.agents))  # says whether it can lose agents at all
    return network
