"""Networks by name and from whatever else a user gives, for spec files, the command line and function arguments."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from gossamer.core import InputError, Registry, brief, check_keys, flag, nearest, whole
from gossamer.networks import digraphs, faults, graphs, sequences, variants
from gossamer.networks.drawn import seed_leaf
from gossamer.networks.files import from_file, is_network_file
from gossamer.networks.gilbert_elliott import gilbert_elliott as bursts
from gossamer.networks.graphs import arrange
from gossamer.networks.network import Network
from gossamer.networks.timetables import availability as timetable
from gossamer.networks.timetables import deadline as closing
from gossamer.networks.weights import is_graph


def _sequence(agents: int, of: list[dict[str, Any]], nodes: Sequence[str] | None = None) -> Network:
    """Take the networks of a list in turn, and from the start again; each is a table, such as { name = "ring" }."""
    if not isinstance(of, list) or not of or not all(isinstance(table, dict) for table in of):
        raise InputError(f'sequence: of must be a list of tables, such as [{{ name = "ring" }}], but is {brief(of)}.')
    rounds = []
    for k, table in enumerate(of):
        try:
            rounds.append(of_table(table, agents, nodes))
        except InputError as error:
            raise InputError(f"sequence: of[{k}]: {error}") from None
    return sequences.sequence(rounds)


def _file(
    agents: int,
    file: str,
    *,
    weights: str | None = None,
    directed: bool | None = None,
    nodes: Sequence[str] | None = None,
) -> Network:
    """Read a network from a file: a list of links, a graph or a matrix, as its ending says."""
    return from_file(file, weights=weights, directed=directed, agents=agents, nodes=nodes)


NETWORKS: Registry[Callable[..., Network]] = Registry(
    "network", "gossamer.networks", {"sequence": _sequence, "file": _file}
)
"""The networks by name; the room's `__init__` adds what it exports."""

READERS = ("file", "sequence", "spanning-tree")
"""The networks that are made of graphs with names: they take these, in the order of the agents, as `nodes`."""

register = NETWORKS.register
"""Make a function of the number of agents, and of options, that returns a network known by a name."""


def options(name: str) -> tuple[str, ...]:
    """Return the options that `make` takes for this network besides the number of agents."""
    if not isinstance(name, str) or name not in NETWORKS:
        raise InputError(f"{brief(name)} is not a network; {nearest(name, NETWORKS)}")
    hidden = ("agents", "nodes") if name in READERS else ("agents",)
    return *(key for key in inspect.signature(NETWORKS[name]).parameters if key not in hidden), *COMMON


def make(name: str, agents: int, *, nodes: Sequence[str] | None = None, **values: Any) -> Network:
    """Make the network of this name for this number of agents: ``make("erdos-renyi", 20, probability=0.3)``.

    Every network takes ``every`` (``every=K`` gossips only in each K-th round), ``links_down`` and ``agents_asleep``
    (the chance of a fault in one round) and ``failure_seed``; ``gilbert_elliott`` and ``attack``, dictionaries of what
    the functions `gilbert_elliott` and `attacked` take; ``availability``, the file of `availability`; ``deadline``, a
    dictionary of what `deadline` takes, its clock included; and
    ``asynchronous=True``, as in `asynchronous`. `nodes` are the names of the agents, such as `problem.agent_names`, for
    a network that knows its own.
    """
    known = options(name)
    n = whole(f"{name}: agents", agents)
    check_keys(name, values, known, [key for key in _needed(NETWORKS[name]) if key in known])
    common = {key: values.pop(key) for key in COMMON if key in values}
    if name in READERS:
        values["nodes"] = nodes
    # arranged before faults and attackers, whose numbers are those of the agents
    return _wrap(name, arrange(NETWORKS[name](n, **values), nodes), nodes, **common)


def of_table(given: dict[str, Any], agents: int, names: Sequence[str] | None = None, clock: Any = None) -> Network:
    """Make the network of a spec's table: its name, and what `make` takes; the number of agents is the problem's.

    `clock` is the spec's, for a deadline.
    """
    values = dict(given)
    if clock is not None and isinstance(values.get("deadline"), Mapping):
        values["deadline"] = {"clock": clock} | values["deadline"]
    name = values.pop("name", "")
    if "agents" in values:
        raise InputError(f"the problem says how many agents there are, here {agents}: leave out the key 'agents'.")
    return make(name, agents, nodes=names, **values)


def _wrap(
    name: str,
    network: Network,
    nodes: Sequence[str] | None,
    every: Any = 1,
    links_down: Any = 0.0,
    agents_asleep: Any = 0.0,
    failure_seed: Any = 0,
    gilbert_elliott: Any = None,
    availability: Any = None,
    deadline: Any = None,
    attack: Any = None,
    asynchronous: Any = False,
) -> Network:
    """Add faults, then local steps, then attackers, and then take away common rounds."""
    # checked here under the names of the spec's keys, which are not those of the functions' arguments
    down = faults.RATE.check(f"{name}: links_down", links_down)
    asleep = faults.RATE.check(f"{name}: agents_asleep", agents_asleep)
    seed = int(seed_leaf(f"{name}: failure_seed", failure_seed))
    steps = whole(f"{name}: every", every)
    network = faults.failing(network, down, asleep, seed)
    network = _apply(f"{name}: gilbert_elliott", bursts, network, gilbert_elliott)
    if availability is not None:
        network = timetable(network, availability, nodes)
    if isinstance(deadline, Mapping) and "clock" not in deadline:
        raise InputError(
            f"{name}: deadline needs a clock, which says who is late: add a section [clock] to the spec, or, in "
            "Python, the key clock, made by gossamer.clock(…)."
        )
    network = _apply(f"{name}: deadline", closing, network, deadline)
    network = sequences.every(network, steps)
    network = _apply(f"{name}: attack", variants.attacked, network, attack)
    return variants.asynchronous(network) if flag(f"{name}: asynchronous", asynchronous) else network


COMMON = tuple(inspect.signature(_wrap).parameters)[3:]
"""The options that every network has: local steps, faults, attackers and asynchrony."""


def _apply(where: str, law: Callable[..., Network], network: Network, given: Any) -> Network:
    """Return the network under a law that changes it, with the options of a spec's table; without one, as it is."""
    if given is None:
        return network
    # the first argument of a law is the network
    check_keys(where, given, [*inspect.signature(law).parameters][1:], _needed(law)[1:])
    return law(network, **given)


def _needed(function: Callable[..., Any]) -> list[str]:
    """Return the arguments that have no default."""
    return [key for key, one in inspect.signature(function).parameters.items() if one.default is one.empty]


def of(given: Any, agents: int, *, counted: str = "agents", names: Sequence[str] | None = None) -> Network:
    """Return the network that `given` means for this number of agents.

    `given` is a `Network`, a name in `NETWORKS`, a spec's table such as ``{"name": "ring", "links_down": 0.1}``, the
    path of a file (`from_file`), a networkx graph, or a doubly stochastic matrix, dense or sparse. `counted` is the
    word for what `agents` counts, in error messages. A network whose nodes have names is put in the order of `names`,
    those of the agents, such as `problem.agent_names`, if they are given.
    """
    n = whole("the number of agents", agents)
    if isinstance(given, Network):
        network = given
    # a registered name wins over a file of the same name
    elif is_network_file(given) and given not in NETWORKS:
        network = from_file(given, nodes=names)
    elif isinstance(given, str):
        options(given)
        # an agent that is alone has no neighbours, whatever the name
        network = make(given, n, nodes=names) if n > 1 else graphs.from_matrix(np.eye(1))
    elif isinstance(given, Mapping):
        network = of_table(dict(given), n, names)
    elif is_graph(given):
        network = digraphs.directed(given) if given.is_directed() else graphs.from_graph(given)
    elif sp.issparse(given) or isinstance(given, (list, tuple)) or hasattr(given, "__array__"):
        network = graphs.from_matrix(given)
    else:
        raise InputError(
            "the network must be a name, such as 'ring', a Network, a networkx graph, a doubly stochastic matrix or "
            f"the path of a file, but is {brief(given)}."
        )
    network = arrange(network, names)
    if network.agents != n:
        raise InputError(
            f"the network {network.name} has {network.agents} agents, but there are {n} {counted}: take "
            f"{network.agents} {counted}, or give the network by name."
        )
    return network
