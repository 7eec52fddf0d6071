"""What a rank knows of the others where nobody waits: who is lost, and how far each has come.

News are one number for each rank, of which the larger is the newer. They go with every letter, and what is new is
passed on to all neighbours, so that it reaches every rank that is connected.
"""

import time

import torch
from torch import Tensor

from gossamer.networks import Network

GONE = 1 << 62
"""This rank is lost. Else the number is how many common points it has reached."""


class News:
    """The news of one rank."""

    def __init__(self, rank: int, network: Network):
        self.rank, self.network, self.near = rank, network, network.neighbors(rank).tolist()
        self.told = torch.zeros(network.agents, dtype=torch.int64)
        self.silent: set[int] = set()
        """Neighbours that did not answer in time, and were not heard since."""
        self.left: set[int] = set()
        """Neighbours that have ended."""
        self.heard: dict[int, float] = {}
        """When a neighbour was heard last."""

    def hear(self, peer: int) -> None:
        """Note that a neighbour is there."""
        self.silent.discard(peer)
        self.heard[peer] = time.monotonic()

    def take(self, told: dict[int, int]) -> bool:
        """Take in what is new, and say whether there was any."""
        fresh = {rank: value for rank, value in told.items() if value > int(self.told[rank])}
        for rank, value in fresh.items():
            self.told[rank] = value
        return bool(fresh)

    def lost(self, peer: int) -> dict[int, int]:
        """That a rank is lost, as news."""
        return {peer: GONE}

    def arrived(self) -> dict[int, int]:
        """That this rank has reached the next common point, as news."""
        return {self.rank: int(self.told[self.rank]) + 1}

    def awaited(self) -> bool:
        """Whether some rank has not reached the common point at which this one is."""
        return any(self.told[rank] < self.told[self.rank] for rank in self._reachable())

    def gone(self, told: Tensor | None = None) -> set[int]:
        """The ranks that are lost, by these news or by one's own."""
        return set(torch.nonzero((self.told if told is None else told) == GONE).view(-1).tolist())

    def away(self) -> set[int]:
        """The ranks that are not asked: lost, ended, or silent."""
        return self.gone() | self.left | self.silent

    def _reachable(self) -> set[int]:
        """The ranks that this one is connected to by those that are left."""
        found, new, gone = {self.rank}, [self.rank], self.gone()
        while new:
            near = set(self.network.neighbors(new.pop()).tolist()) - gone - found
            found |= near
            new += near
        return found
