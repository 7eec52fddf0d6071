"""Networks by name, for spec files and the command line."""

import inspect
import math
from collections.abc import Callable
from typing import Any

from gossamer.core import InputError, nearest
from gossamer.networks import graphs
from gossamer.networks.network import Network

NETWORKS: dict[str, Callable[..., Network]] = {
    "ring": graphs.ring,
    "path": graphs.path,
    "star": graphs.star,
    "complete": graphs.complete,
    "torus": graphs.torus,
    "hypercube": graphs.hypercube,
    "exponential": graphs.exponential,
    "erdos-renyi": graphs.erdos_renyi,
    "random-regular": graphs.random_regular,
}
"""The networks by name."""


def options(name: str) -> tuple[str, ...]:
    """What `make` takes for this network besides the number of agents."""
    if not isinstance(name, str) or name not in NETWORKS:
        raise InputError(f"{name!r} is not a network; {nearest(str(name), NETWORKS)}")
    return tuple(key for key in inspect.signature(NETWORKS[name]).parameters if key != "agents")


def make(name: str, agents: int, **values: Any) -> Network:
    """The network of this name for so many agents: ``make("erdos-renyi", 20, probability=0.3)``.

    A torus takes its rows, its columns, both or neither; with neither it is as square as can be.
    """
    known = options(name)
    n = graphs.whole(f"{name}: agents", agents)
    for key in values:
        if key not in known:
            tail = nearest(key, known) if known else "It has none."
            raise InputError(f"{name} has no option {key!r}; {tail}")
    if name == "torus":
        sides = _sides(n, values.pop("rows", None), values.pop("columns", None))
        return graphs.torus(*sides, **values)
    needed = inspect.signature(NETWORKS[name]).parameters
    for key in known:
        if needed[key].default is inspect.Parameter.empty and key not in values:
            raise InputError(f"{name} needs the option {key!r}, which is missing. It takes: {', '.join(known)}.")
    return NETWORKS[name](n, **values)


def _sides(agents: int, rows: Any, columns: Any) -> tuple[int, int]:
    """The sides of a torus of so many agents."""
    given = {key: value for key, value in (("rows", rows), ("columns", columns)) if value is not None}
    sides = {key: graphs.whole(f"torus({key})", value) for key, value in given.items()}
    if not sides:
        r = next(r for r in range(math.isqrt(agents), 0, -1) if agents % r == 0)
        if r == 1 and agents > 3:
            raise InputError(
                f"a torus of {agents} agents would be a ring, because {agents} is prime. Use the ring, or "
                f"{agents - 1} or {agents + 1} agents."
            )
        return r, agents // r
    product = math.prod(sides.values())
    if agents % product or (len(sides) == 2 and product != agents):
        shown = " and ".join(f"{side} {key}" for key, side in sides.items())
        raise InputError(
            f"a torus of {agents} agents cannot have {shown}: rows times columns must be {agents}. Leave both out for "
            "the most nearly square one."
        )
    return sides.get("rows", agents // product), sides.get("columns", agents // product)
