"""Links of torch.distributed that are as slow as a clock says: messages sleep before they leave.

A message of B bytes waits until its link is free, takes B over the link's bandwidth, or its share of the uplink, and
then the latency. It sleeps in a thread of its link, on a copy, so that the sender goes on at once, as on a network.
"""

import queue
import threading
import time
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from gossamer.clocks import Clock
from gossamer.networks import Network

REAL_SEND = dist.ProcessGroup.send
LONGEST = timedelta(hours=1)


class SlowLinks:
    """Slows down all that this process sends point to point, from `slow_down` until `undo`."""

    def __init__(self, clock: Clock, network: Network, rank: int):
        near = network.neighbors(rank).tolist()
        latency, bandwidth = clock.links.between([rank] * len(near), near, network.agents)
        rate = np.minimum(bandwidth, clock.links.uplinks(network.agents)[rank] / len(near))
        self._latency = dict(zip(near, latency.tolist(), strict=True))
        self._rate = dict(zip(near, rate.tolist(), strict=True))
        self.peers = frozenset(near)
        self._free = dict.fromkeys(near, 0.0)
        self._queues: dict[int, queue.SimpleQueue[Any]] = {peer: queue.SimpleQueue() for peer in near}
        self._threads = [threading.Thread(target=self._carry, args=(q,), daemon=True) for q in self._queues.values()]

    def slow_down(self) -> None:
        for thread in self._threads:
            thread.start()
        links = self

        def send(group: Any, tensors: list[torch.Tensor], peer: int, tag: int) -> Any:
            return (links.post if peer in links.peers else REAL_SEND)(group, tensors, peer, tag)

        dist.ProcessGroup.send = send  # pyright: ignore[reportAttributeAccessIssue]

    def undo(self) -> None:
        dist.ProcessGroup.send = REAL_SEND  # pyright: ignore[reportAttributeAccessIssue]
        for waiting in self._queues.values():
            waiting.put(None)
        for thread in self._threads:
            thread.join()

    def post(self, group: Any, tensors: list[torch.Tensor], peer: int, tag: int) -> "Left":
        size = sum(a.nbytes for a in tensors)
        self._free[peer] = max(time.monotonic(), self._free[peer]) + size / self._rate[peer]
        copies = [a.clone() for a in tensors]
        self._queues[peer].put((self._free[peer] + self._latency[peer], group, copies, peer, tag))
        return Left()

    def _carry(self, waiting: "queue.SimpleQueue[Any]") -> None:
        while (message := waiting.get()) is not None:
            due, group, copies, peer, tag = message
            time.sleep(max(0.0, due - time.monotonic()))
            REAL_SEND(group, copies, peer, tag).wait(LONGEST)


class Left:
    """The work of a message that has left: nobody waits for it."""

    def wait(self, timeout: timedelta) -> None:
        pass
