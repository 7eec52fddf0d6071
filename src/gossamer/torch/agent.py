"""An agent in a process of its own: the `Agent` that a rule sees under PyTorch.

Of aggregators, clipping, trimmed means and medians are computed by PyTorch; one of your own is computed by JAX.
"""

import functools
import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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


@functools.cache
def _find_key(seed: int, rank: int, size: int) -> Any:
    """Return the simulator's key of an agent."""
    from gossamer.basics.keys import keys_of  # JAX

    return keys_of([seed], size)[0, 1, rank]


@dataclass(frozen=True)
class AgentDraw:
    """The draw of a compressor for one of the vectors that an agent compresses in a round."""

    run_seed: int
    rank: int
    size: int
    number: int  # 0 for the start, t + 1 for round t
    which: int  # the place of the vector among those of the round
    simulated: bool  # True to draw what the simulator's agent draws with this seed, which takes JAX

    def seed(self) -> int:
        """Return a number of 32 bits that all of it is drawn from, where it is not the simulator's."""
        path = f"{self.run_seed}/{self.number}/{self.rank}/{self.which}"
        return int.from_bytes(hashlib.sha256(path.encode()).digest()[:4], "little")

    def compressed(self, compressor: Any, a: Tensor) -> Tensor:
        """Return C(a) by JAX, with the simulator's draws."""
        from gossamer.basics.keys import of_array, of_round

        with jax.enable_x64(a.dtype == torch.float64), jax.default_device(jax.devices("cpu")[0]):
            key = of_array(of_round(_find_key(self.run_seed, self.rank, self.size), self.number), self.which)
            return torch.from_numpy(np.array(compressor.compress(key, _to_jax(a)))).to(a)


class ProcessAgent:
    """This rank in a round: arrays are ``[d]``. It cannot compute gradients: see `gossamer.torch.rounds`.

    Args:
        exchange: sends and receives its messages.
        seed: the seed of its draws.
        simulated: True if it draws what the simulator's agent draws with this seed.
    """

    def __init__(self, exchange: Exchange, seed: int = 0, simulated: bool = False):
        self.exchange, self.seed, self.simulated = exchange, seed, simulated
        self._codecs: dict[tuple[int, int], Codec] = {}  # by compressor and size
        self.t = self.number = 0  # the round, and the number of its draws: 0 for the start, t + 1 for round t
        self.drawn = 0  # how many vectors were compressed in this round: the number of the next draw

    def gossip(self, *arrays: Tensor, over: Over = "W") -> Any:
        messages = self.exchange.post(arrays, over, self.t)
        mixed = self.exchange.mix(messages, 0, max(a.numel() for a in arrays))
        self.exchange.release(messages)
        return mixed

    def gossip_compressed(self, *arrays: Tensor, by: Any) -> Any:
        codecs, parts, weights = self._swap_encoded(arrays, by)
        rank, pairs = self.exchange.world.rank, []
        for k, codec in enumerate(codecs):
            own = codec.decode(parts[rank][k])
            mixed = torch.zeros_like(own)
            for source, weight in weights.items():
                mixed.add_(own if source == rank else codec.decode(parts[source][k]), alpha=weight)
            pairs.append((own, mixed))
        return like(arrays, pairs)

    def gossip_copies(self, copy: Tensor, apart: Tensor, a: Tensor, by: Any = None) -> Any:
        (codec,), parts, weights = self._swap_encoded((a,), by or PLAIN)
        rank = self.exchange.world.rank
        own, apart = codec.decode(parts[rank][0]), apart.clone()
        for source, weight in weights.items():  # differences, which cancel in the sum of both ends of a link
            if source != rank:
                apart.add_(own - codec.decode(parts[source][0]), alpha=weight)
        return own, apart

    def _swap_encoded(
        self, arrays: tuple[Tensor, ...], by: Any
    ) -> tuple[list[Codec], dict[int, Any], dict[int, float]]:
        """Return the codecs of the arrays, what every rank sent of them, this one included, and the weights."""
        world, codecs, encoded = self.exchange.world, [], []
        for a in arrays:
            draw = AgentDraw(self.seed, world.rank, world.size, self.number, self.drawn, self.simulated)
            self.drawn += 1
            key = id(by), a.numel()
            if key not in self._codecs:
                self._codecs[key] = codec_of(by, a, self.simulated)
            codecs.append(self._codecs[key])
            encoded.append(codecs[-1].encode(a, draw))
        message = torch.cat(encoded)
        received, weights = self.exchange.swap(message, self.t)
        received[world.rank] = message
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
            return like(arrays, [a.clone() for a in arrays])
        # by ascending rank, as everything is added up
        rows = torch.stack([received[rank] for rank in sorted(received)])
        of_rows = torch.tensor([weights[rank] for rank in sorted(received)], dtype=rows.dtype, device=rows.device)
        parts = rows.split([a.numel() for a in arrays], dim=1)
        pairs = zip(arrays, parts, strict=True)
        return _split(torch.cat([combine(by, a.reshape(-1), part, of_rows) for a, part in pairs]), arrays)

    def mean(self, *arrays: Tensor) -> Any:
        world, counters = self.exchange.world, self.exchange.counters
        flat = torch.cat([a.reshape(-1) for a in arrays])
        counters.bytes_reduced += flat.nbytes
        began = time.monotonic()
        mean = world.total(flat) / world.size
        counters.seconds_waiting += time.monotonic() - began
        return _split(mean, arrays)

    def average(self, a: Tensor, warm: Any, over: Over = "W") -> Tensor:
        if warm == "mean":
            return self.mean(a)
        now = self.t
        for t in range(warm):
            self.t = t
            a = self.gossip(a, over=over)
        self.t = now
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


def like(arrays: Sequence[Any], results: Iterable[Any]) -> Any:
    """Return one result for one array, and a tuple of results for several."""
    several = tuple(results)
    return several[0] if len(arrays) == 1 else several


def _split(vector: Tensor, arrays: tuple[Tensor, ...]) -> Any:
    """Return a vector in pieces of the shapes of these arrays."""
    parts = vector.split([a.numel() for a in arrays])
    return like(arrays, [part.view_as(a) for part, a in zip(parts, arrays, strict=True)])


def combine(by: Any, own: Tensor, messages: Tensor, weights: Tensor) -> Tensor:
    """Return the agent's next vector from its own, [d], and from messages, [neighbours, d], with their weights."""
    match by:
        case Clipped(radius):
            away = messages - own
            distances = torch.linalg.vector_norm(away, dim=1)
            finite = torch.isfinite(distances)
            if not finite.any():
                return own.clone()
            away, distances, weights = away[finite], distances[finite], weights[finite]
            limit = distances.sort().values[-2:][0] if radius is None else float(radius)
            scale = torch.where(distances > limit, limit / distances, 1)
            return own + ((weights * scale)[:, None] * away).sum(0)
        case Trimmed(trim):
            values = torch.cat([messages, own[None]])
            out = (len(values) - 1) // 2 if trim is None else trim
            ordered = torch.where(values.isnan(), torch.inf, values).sort(dim=0).values
            return ordered[out : len(values) - out].mean(0)
        case _:
            with jax.enable_x64(own.dtype == torch.float64), jax.default_device(jax.devices("cpu")[0]):
                return torch.from_numpy(np.array(by.combine(*map(_to_jax, (own, messages, weights))))).to(own)


def _to_jax(a: Tensor) -> Any:
    exact = a if a.dtype in (torch.float32, torch.float64) else a.float()  # NumPy has no bfloat16
    return jnp.asarray(exact.cpu().numpy())
