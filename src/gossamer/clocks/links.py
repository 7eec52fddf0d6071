"""Links: how long a message takes from one agent to another."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from gossamer.basics.arrays import array_of
from gossamer.core import InputError, Range, Registry, brief, nearest

SECONDS = Range(0, 1e9, advice="It is a number of seconds.")
BANDWIDTH = Range(1e-3, 1e18, advice="It is a number of bytes a second; leave it out where nothing limits it.")


@dataclass(frozen=True, eq=False)
class Links:
    """Latency and bandwidth between groups of agents, and what an agent can send in all.

    A message of B bytes that an agent sends to k neighbours at once takes the latency, and the longer of B over the
    bandwidth of the link and k B over its uplink, which its messages share equally.
    """

    name: str
    latency: Float[np.ndarray, "groups groups"]
    """Seconds from one agent to another, by their groups."""
    bandwidth: Float[np.ndarray, "groups groups"]
    """Bytes a second of a link; infinite where it is no limit."""
    uplink: Float[np.ndarray, "*agents"]
    """Bytes a second that an agent can send: one number, or one for each agent; infinite where it is no limit."""
    groups: tuple[int, ...] | None = None
    """The group of each agent; None where agents of adjacent numbers share one."""

    def __str__(self) -> str:
        return self.name

    @property
    def uniform(self) -> bool:
        """True if all pairs are alike."""
        return self.latency.size == 1

    def check(self, agents: int) -> None:
        """Raise InputError if the links of so many agents are not known."""
        known = {
            "uplinks": self.uplink.size if self.uplink.ndim else agents,
            "places": len(self.groups or ()) or agents,
        }
        for what, count in known.items():
            if count != agents:
                raise InputError(
                    f"the links {self.name} have {count} {what}, but there are {agents} agents: give one for each."
                )

    def group_agents(self, agents: int) -> Int[np.ndarray, " agents"]:
        """Return the group of each agent: agents of adjacent numbers share one, where groups were not given."""
        return np.array(self.groups) if self.groups else np.arange(agents) * len(self.latency) // agents

    def between(self, sources: Any, targets: Any, agents: int) -> tuple[np.ndarray, np.ndarray]:
        """Return latency and bandwidth from each source to its target."""
        group = self.group_agents(agents)
        pair = group[np.asarray(sources)], group[np.asarray(targets)]
        return self.latency[pair], self.bandwidth[pair]

    def uplinks(self, agents: int) -> Float[np.ndarray, " agents"]:
        """Return the uplink of each agent."""
        return np.broadcast_to(self.uplink, (agents,))


def uniform(latency: float, bandwidth: float | None = None, uplink: Any = None) -> Links:
    """Make links that are all alike: seconds of latency, and bytes a second of a link, of an uplink, or of both."""
    seconds = SECONDS.check("uniform(latency=…)", latency)
    wide = np.inf if bandwidth is None else BANDWIDTH.check("uniform(bandwidth=…)", bandwidth)
    return _alike(f"uniform, {seconds:g} s", seconds, wide, _uplink("uniform", uplink))


def matrix(latency: Any, bandwidth: Any = None, uplink: Any = None) -> Links:
    """Make links with a latency and a bandwidth for each pair: row i, column j is from agent i to agent j."""
    seconds = _square("matrix(latency=…)", latency, SECONDS)
    rates = np.full_like(seconds, np.inf) if bandwidth is None else _square("matrix(bandwidth=…)", bandwidth, BANDWIDTH)
    if seconds.shape != rates.shape:
        raise InputError(f"matrix: latency is {len(seconds)} × {len(seconds)}, but bandwidth {len(rates)} wide.")
    return Links(f"matrix of {len(seconds)}", seconds, rates, _uplink("matrix", uplink), tuple(range(len(seconds))))


def regions(name: str = "continents", *, places: Sequence[Any] | None = None, uplink: Any = None) -> Links:
    """Make the links of agents at sites of `REGIONS`: the latency of two agents is that of their sites.

    `places` names the site of each agent; if it is not given, agents of adjacent numbers share a site, and all
    sites have equally many. An uplink stands for that of the preset.
    """
    if not isinstance(name, str) or name not in REGIONS:
        raise InputError(f"regions: {brief(name)} is not known; {nearest(name, REGIONS)}")
    preset = REGIONS[name]
    changed: dict[str, Any] = {}
    if uplink is not None:
        changed["uplink"] = _uplink("regions", uplink)
    if places is not None:
        for place in places:
            if place not in preset.sites:
                raise InputError(f"regions: there is no site {brief(place)}; {nearest(place, preset.sites)}")
        changed["groups"] = tuple(preset.sites.index(place) for place in places)
    return replace(preset.links, **changed)


@dataclass(frozen=True)
class Region:
    """Links between named sites, and the source of their numbers."""

    links: Links
    sites: tuple[str, ...]
    source: str


def _alike(name: str, latency: float, bandwidth: float, uplink: Any) -> Links:
    return Links(name, np.full((1, 1), latency), np.full((1, 1), bandwidth), np.array(uplink))


# as they were measured, so not symmetric
ROUND_TRIPS = {
    "dallas": (0.09, 31, 146, 113, 123, 143, 186),
    "washington": (31, 0.09, 118, 75, 91, 164, 214),
    "sao-paulo": (144, 119, 0.09, 187, 196, 283, 328),
    "london": (113, 75, 188, 0.09, 13, 243, 261),
    "frankfurt": (123, 91, 198, 13, 0.09, 233, 250),
    "tokyo": (143, 166, 284, 244, 233, 0.09, 115),
    "sydney": (186, 214, 328, 261, 249, 115, 0.09),
}
"""Milliseconds there and back between sites of one provider, in the order of the rows."""

REGIONS = {
    "datacenter": Region(
        _alike("datacenter", 45e-6, np.inf, 25e9 / 8),
        ("zone",),
        "Latency: half of 0.09 ms, the mean round trip within a zone in IBM Cloud's table of network latency, 27 July "
        "to 25 August 2024. Uplink: 25 Gbit/s, assumed.",
    ),
    "campus": Region(
        _alike("campus", 1e-3, np.inf, 1e9 / 8),
        ("campus",),
        "Latency: half of 2 ms, about the mean round trip between zones of one region in the same table. Uplink: "
        "1 Gbit/s, assumed.",
    ),
    "internet": Region(
        _alike("internet", 50e-3, np.inf, 20e6 / 8),
        ("anywhere",),
        "Latency: 50 ms, about half the mean round trip between Europe and the east of North America in the same "
        "table. Uplink: 20 Mbit/s, assumed.",
    ),
    "continents": Region(
        Links(
            "continents",
            np.array(list(ROUND_TRIPS.values())) / 2e3,
            np.full((len(ROUND_TRIPS), len(ROUND_TRIPS)), np.inf),
            np.array(100e6 / 8),
        ),
        tuple(ROUND_TRIPS),
        "Latency: half of the mean round trips between sites in the same table (cloud.ibm.com/docs/vpc, network "
        "latency). Uplink: 100 Mbit/s, assumed.",
    ),
}
"""Presets, by name: sites, their links, and the source of each number."""


LINKS: Registry[Any] = Registry(
    "kind of links",
    "gossamer.links",
    {"uniform": uniform, "matrix": matrix, "regions": regions},
)
"""The kinds of links by their names in spec files."""


def _uplink(where: str, given: Any) -> np.ndarray:
    return np.array(np.inf) if given is None else one_or_each(f"{where}(uplink=…)", given, BANDWIDTH)


def one_or_each(where: str, given: Any, allowed: Range) -> Float[np.ndarray, "*agents"]:
    """Return one number, or one for each agent; raise InputError for those that are not allowed."""
    values = array_of(where, given).astype(float)
    if values.ndim > 1 or not values.size:
        raise InputError(f"{where} must be one number, or one for each agent, but is {brief(given)}.")
    for agent, value in enumerate(np.atleast_1d(values)):
        allowed.check(where + (f" of agent {agent}" if values.ndim else ""), float(value))
    return values


def _square(where: str, given: Any, allowed: Range) -> np.ndarray:
    values = array_of(where, given).astype(float)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not values.size:
        raise InputError(f"{where} must be a square matrix, a row for each agent, but has shape {values.shape}.")
    # the diagonal may hold anything: no agent sends to itself
    valid = (values >= allowed.low) & (values <= allowed.high) | np.eye(len(values), dtype=bool)
    for row, column in np.argwhere(~valid):
        allowed.check(f"{where} from agent {row} to agent {column}", float(values[row, column]))
    return values


def links_of(given: Any) -> Links:
    """Return the links that a user means: made by a function of this module, or those of a preset's name."""
    if isinstance(given, Links):
        return given
    if isinstance(given, str) and given in REGIONS:
        return regions(given)
    known = nearest(given, REGIONS) if isinstance(given, str) else f"Presets: {', '.join(REGIONS)}."
    raise InputError(f"links must be a preset's name or made by gossamer.clocks, but is {brief(given)}; {known}")
