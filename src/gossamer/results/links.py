"""A model of links: what a run would take on a network, from what its agents pay.

A simulated second says nothing about a network, so seconds are modelled: an agent waits `latency` for every message
that depends on the one before, sends its bytes one after the other at `bandwidth`, and takes `query` for a gradient.
Computing and sending do not overlap, and all agents are alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import polars as pl

from gossamer.core import InputError, Range, brief
from gossamer.metrics import checked_name

_SECONDS = Range(0, 1e9, advice="It is a number of seconds.")
_BANDWIDTH = Range(1e-3, 1e18, advice="It is a number of bytes a second.")


@dataclass(frozen=True)
class Link:
    """A kind of network."""

    latency: float
    """Seconds from one agent to another."""
    bandwidth: float
    """Bytes a second that an agent sends."""
    query: float
    """Seconds for one gradient."""

    def __post_init__(self) -> None:
        for field in fields(self):
            allowed = _BANDWIDTH if field.name == "bandwidth" else _SECONDS
            number = allowed.check(f"Link({field.name}=…)", getattr(self, field.name))
            object.__setattr__(self, field.name, number)

    def seconds(self) -> pl.Expr:
        """The modelled seconds of a row of a result."""
        waiting = pl.col("messages") * self.latency
        return waiting + pl.col("bytes_sent") / self.bandwidth + pl.col("queries") * self.query


LINKS = {
    "datacenter": Link(latency=20e-6, bandwidth=25e9 / 8, query=1e-3),
    "campus": Link(latency=1e-3, bandwidth=1e9 / 8, query=1e-3),
    "internet": Link(latency=50e-3, bandwidth=20e6 / 8, query=1e-3),
}
"""Presets: 25 Gbit/s in a data centre, 1 Gbit/s on a campus, 20 Mbit/s upstream over the internet; a gradient takes a
millisecond in all of them."""

AXES = ("rounds", "queries", "bytes")
"""The x-axes of figures that are no links."""


def checked_link(name: Any) -> str:
    """The name, if a link can have it."""
    return checked_name(name, "a link", AXES)


def together(given: Mapping[str, Link] | None) -> dict[str, Link]:
    """The presets, and the links that a user adds to them."""
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f'links must be given by name, such as {{"home": Link(…)}}, but are {brief(given)}.')
    for name, link in (given or {}).items():
        if checked_link(name) in LINKS:
            raise InputError(f"{name!r} is a preset link: choose another name.")
        if not isinstance(link, Link):
            raise InputError(
                f"the link {name!r} must be a Link(latency=…, bandwidth=…, query=…), but is {brief(link)}."
            )
    return LINKS | dict(given or {})
