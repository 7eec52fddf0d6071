"""A model of links: what a run would take on a network, from what its agents pay.

A simulated second says nothing about a network, so seconds are modelled: an agent waits `latency` for every message
that depends on the one before, sends its bytes one after the other at `bandwidth`, and takes `query` for a gradient.
Computing and sending do not overlap, and all agents are alike.
"""

from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class Link:
    """A kind of network."""

    latency: float
    """Seconds from one agent to another."""
    bandwidth: float
    """Bytes a second that an agent sends."""
    query: float
    """Seconds for one gradient."""

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
