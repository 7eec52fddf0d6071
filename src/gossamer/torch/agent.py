"""An agent in a process of its own: the `Agent` that a rule sees under PyTorch.

Of aggregators, clipping, trimmed means and medians are computed by PyTorch; one of your own is computed by JAX.
"""

import hashlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gossamer.aggregators import Clipped, Trimmed
from gossamer.basics.lazy import jax, jnp
from gossamer.compressors import identity
from gossamer.core import Over
from gossamer.torch.codecs import Codec, codec_of
from gossamer.torch.exchange import Exchange

PLAIN = identity()  # the compressor of messages that are not compressed; codecs are known by it


class Agents:
    """The maker of this rank's agent of every round.

    Args:
        exchange: sends and receives its messages.
        seed: the seed of its draws.
        simulated: whether it draws what the simulator's agent draws with this seed, which takes JAX.
        sleeps: whether it may be asleep in a round.
    """

    def __init__(self, exchange: Exchange, seed: int, simulated: bool, sleeps: bool):
        self.exchange, self.seed, self.simulated = exchange, seed, simulated
        self._codecs: dict[tuple[int, int], Codec] = {}
        self.enter(sleeps)

    def enter(self, sleeps: bool) -> None:
        """Begin among the ranks of this exchange, which may be others than before."""
        self.sleeps = sleeps
        self._keys: Any = None

    def at(self, t: int, number: int, bucket: int, buckets: int) -> "ProcessAgent":
        """Return the agent of round t; `number` is that of its draws: 0 for the start, t + 1 for round t."""
        return ProcessAgent(self.exchange, self._codecs, t, partial(AgentDraw, self, number), bucket, buckets)

    def awake(self, t: int) -> bool:
        """Return whether this agent is awake in a round."""
        return not self.sleeps or bool(np.asarray(self.exchange.network.awake(t))[self.exchange.world.rank])

    def key(self, number: int) -> Any:
        """Return the simulator's key of this rank in a round."""
        from gossamer.basics.keys import keys_of, of_round  # JAX

        if self._keys is None:
            self._keys = keys_of([self.seed], self.exchange.world.size)[0, 1, self.exchange.world.rank]
        return of_round(self._keys, number)


class AgentDraw:
    """The draw of a compressor for the vector `which` that an agent compresses in a round."""

    def __init__(self, agents: Agents, number: int, which: int):
        self.agents, self.number, self.which, self.simulated = agents, number, which, agents.simulated

    def seed(self) -> int:
        """Return a number of 32 bits that all of it is drawn from, where it is not the simulator's."""
        path = f"{self.agents.seed}/{self.number}/{self.agents.exchange.world.rank}/{self.which}"
        return int.from_bytes(hashlib.sha256(path.encode()).digest()[:4], "little")

    def compressed(self, compressor: Any, a: Tensor) -> Tensor:
        """Return C(a) by JAX, with the simulator's draws."""
        from gossamer.basics.keys import of_array

        with jax.enable_x64(a.dtype == torch.float64), jax.default_device(jax.devices("cpu")[0]):
            exact = a if a.dtype in (torch.float32, torch.float64) else a.float()  # NumPy has no bfloat16
            key = of_array(self.agents.key(self.number), self.which)
            made = compressor.compress(key, jnp.asarray(exact.cpu().numpy()))
            return torch.from_numpy(np.array(made)).to(a)


class ProcessAgent:
    """This rank in one round: arrays are ``[d]``. It cannot compute gradients: see `gossamer.torch.rounds`.

    Args:
        exchange: sends and receives its messages.
        codecs: the codecs made so far, by compressor and size.
        t: the round.
        draw: makes the draw of the vector of a number, among those that are compressed in this round.
        bucket: the number of the bucket whose arrays these are.
        buckets: how many buckets have a message on its way at the same time.
    """

    def __init__(
        self,
        exchange: Exchange,
        codecs: dict[tuple[int, int], Codec],
        t: int,
        draw: Callable[[int], AgentDraw],
        bucket: int = 0,
        buckets: int = 1,
    ):
        self.exchange, self.codecs, self.t, self.draw = exchange, codecs, t, draw
        self.bucket, self.buckets = bucket, buckets
        self.drawn = 0  # how many vectors were compressed: the number of the next draw

    def post(self, *arrays: Tensor, over: Over = "W", late: tuple[int, ...] = ()) -> Callable[[], Any]:
        """`gossip` in two halves: the message leaves now, and what is returned waits for those of the neighbours.

        On a network that changes, arrays of different rounds go to the neighbours of their own round each: by messages
        of their own, in the order of the arrays at both ends.
        """
        letters, exchange = over if over == "RC" else over * len(arrays), self.exchange
        if not exchange.changes or not any(late):
            return exchange.post(arrays, letters, self.t, self.bucket, self.buckets)
        pairs = zip(arrays, letters, late, strict=True)
        waits = [exchange.post([a], by, self.t - ago, self.bucket, self.buckets) for a, by, ago in pairs]
        return lambda: _like(arrays, [wait() for wait in waits])

    def gossip(self, *arrays: Tensor, over: Over = "W") -> Any:
        return self.exchange.post(arrays, over if over == "RC" else over * len(arrays), self.t, self.bucket)()

    def gossip_compressed(self, *arrays: Tensor, by: Any) -> Any:
        codecs, parts, weights = self._swap_encoded(arrays, by)
        return _like(arrays, tuple(self._pair(codec, k, parts, weights) for k, codec in enumerate(codecs)))

    def gossip_copies(self, copy: Tensor, apart: Tensor, a: Tensor, by: Any = None) -> Any:
        (codec,), parts, weights = self._swap_encoded((a,), by or PLAIN)
        rank = self.exchange.world.rank
        mine, apart = codec.decode(parts[rank][0]), apart.clone()
        for source, weight in weights.items():  # differences, which cancel in the sum of both ends of a link
            if source != rank:
                apart.add_(mine - codec.decode(parts[source][0]), alpha=weight)
        return mine, apart

    def _swap_encoded(
        self, arrays: tuple[Tensor, ...], by: Any
    ) -> tuple[list[Codec], dict[int, Any], dict[int, float]]:
        """Return the codecs of the arrays, what every rank sent of them, this one included, and the weights."""
        codecs = [self._codec(by, a) for a in arrays]
        first, self.drawn = self.drawn, self.drawn + len(arrays)
        encoded = [
            codec.encode(a, self.draw(first + k)) for k, (codec, a) in enumerate(zip(codecs, arrays, strict=True))
        ]
        message = torch.cat(encoded)
        received, weights = self.exchange.swap(message, self.t)
        received[self.exchange.world.rank] = message
        parts = {rank: sent.split([codec.size for codec in codecs]) for rank, sent in received.items()}
        return codecs, parts, weights

    def gossip_sum(self, *arrays: Tensor) -> Any:
        message = torch.cat([a.reshape(-1) for a in arrays])
        received, _ = self.exchange.swap(message, self.t)
        total = torch.zeros_like(message)
        for rank in sorted(received):  # by ascending rank, as everything is added up
            total.add_(received[rank])
        return _split(total, arrays)

    def gossip_robust(self, *arrays: Tensor, by: Any) -> Any:
        message = torch.cat([a.reshape(-1) for a in arrays])
        received, weights = self.exchange.swap(message, self.t)
        if not received:
            return _like(arrays, tuple(a.clone() for a in arrays))
        # by ascending rank, as everything is added up
        heard = torch.stack([received[rank] for rank in sorted(received)])
        given = torch.tensor([weights[rank] for rank in sorted(received)], dtype=heard.dtype, device=heard.device)
        parts = heard.split([a.numel() for a in arrays], dim=1)
        return _split(
            torch.cat([combined(by, a.reshape(-1), part, given) for a, part in zip(arrays, parts, strict=True)]), arrays
        )

    def _pair(self, codec: Codec, k: int, parts: dict[int, Any], weights: dict[int, float]) -> tuple[Tensor, Tensor]:
        mine = codec.decode(parts[self.exchange.world.rank][k])
        mixed = torch.zeros_like(mine)
        for source, weight in weights.items():
            mixed.add_(mine if source == self.exchange.world.rank else codec.decode(parts[source][k]), alpha=weight)
        return mine, mixed

    def _codec(self, by: Any, a: Tensor) -> Codec:
        key = id(by), a.numel()
        if key not in self.codecs:
            self.codecs[key] = codec_of(by, a, self.draw(0).simulated)
        return self.codecs[key]

    def mean(self, *arrays: Tensor) -> Any:
        world = self.exchange.world
        flat = torch.cat([a.reshape(-1) for a in arrays])
        self.exchange.counters.bytes_reduced += flat.numel() * flat.element_size()
        began = time.monotonic()
        mean = world.total(flat) / world.size
        self.exchange.counters.seconds_waiting += time.monotonic() - began
        return _split(mean, arrays)

    def average(self, a: Tensor, warm: Any, over: Over = "W") -> Tensor:
        if warm == "mean":
            return self.mean(a)
        for t in range(warm):
            a = self.exchange.post([a], over, t, self.bucket)()
        return a

    def ones(self) -> Tensor:
        return torch.ones(1, dtype=self.exchange.world.dtype, device=self.exchange.world.device)

    def place(self) -> Tensor:
        world = self.exchange.world
        place = torch.zeros(world.size, dtype=world.dtype, device=world.device)
        place[world.rank] = 1
        return place

    def norm(self, a: Tensor) -> Tensor:
        return torch.linalg.vector_norm(a, dim=-1, keepdim=True)


def _like(arrays: tuple[Any, ...], results: Any) -> Any:
    """Return one result for one array, and a tuple of results for several."""
    return results[0] if len(arrays) == 1 else tuple(results)


def _split(vector: Tensor, arrays: tuple[Tensor, ...]) -> Any:
    """Return a vector in pieces of the shapes of these arrays."""
    parts = vector.split([a.numel() for a in arrays])
    return _like(arrays, [part.view_as(a) for part, a in zip(parts, arrays, strict=True)])


def combined(by: Any, own: Tensor, messages: Tensor, weights: Tensor) -> Tensor:
    """Return the agent's next vector from its own, [d], and from messages, [neighbours, d], with their weights."""
    match by:
        case Clipped(radius):
            return _clip(radius, own, messages, weights)
        case Trimmed(trim):
            return _trim(trim, torch.cat([messages, own[None]]))
        case _:
            return _by_jax(by, own, messages, weights)


def _clip(radius: Any, own: Tensor, messages: Tensor, weights: Tensor) -> Tensor:
    away = messages - own
    distances = torch.linalg.vector_norm(away, dim=1)
    heard = torch.isfinite(distances)
    if not heard.any():
        return own.clone()
    away, distances, weights = away[heard], distances[heard], weights[heard]
    limit = distances.sort().values[-2:][0] if radius is None else float(radius)
    scale = torch.where(distances > limit, limit / distances, 1)
    return own + ((weights * scale)[:, None] * away).sum(0)


def _trim(trim: int | None, values: Tensor) -> Tensor:
    out = (len(values) - 1) // 2 if trim is None else trim
    ordered = torch.where(values.isnan(), torch.inf, values).sort(dim=0).values
    return ordered[out : len(values) - out].mean(0)


def _by_jax(by: Any, own: Tensor, messages: Tensor, weights: Tensor) -> Tensor:
    with jax.enable_x64(own.dtype == torch.float64), jax.default_device(jax.devices("cpu")[0]):
        exact = [a if a.dtype in (torch.float32, torch.float64) else a.float() for a in (own, messages, weights)]
        made = by.combine(*(jnp.asarray(a.cpu().numpy()) for a in exact))
        return torch.from_numpy(np.array(made)).to(own)
