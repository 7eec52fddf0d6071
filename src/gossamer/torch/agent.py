"""One agent in a process of its own: the `Agent` that a rule sees under PyTorch."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gossamer.basics.lazy_jax import jax, jnp
from gossamer.core import Over
from gossamer.torch.codecs import Codec, codec_of
from gossamer.torch.exchange import Exchange
from gossamer.torch.robust import combined


class Agents:
    """Makes this rank's agent of every round. It draws what the simulator's agent draws with this seed."""

    def __init__(self, exchange: Exchange, seed: int, sleeps: bool):
        self.exchange, self.seed, self.sleeps = exchange, seed, sleeps
        self._codecs: dict[tuple[int, int], Codec] = {}
        self._keys: Any = None

    def at(self, t: int, ask: Callable[..., Any], number: int) -> "ProcessAgent":
        return ProcessAgent(self.exchange, self._codecs, ask, t, lambda: self._key(number))

    def awake(self, t: int) -> bool:
        return not self.sleeps or bool(np.asarray(self.exchange.network.awake(t))[self.exchange.world.rank])

    def _key(self, number: int) -> Any:
        from gossamer.basics.keys import keys_of, of_round  # JAX, for rules that draw at random

        if self._keys is None:
            self._keys = keys_of([self.seed], self.exchange.world.size)[0, 1, self.exchange.world.rank]
        return of_round(self._keys, number)


class ProcessAgent:
    """This rank in one round: arrays are ``[d]``.

    Args:
        exchange: sends and receives its messages.
        codecs: the codecs made so far, by compressor and size.
        ask: hands over the points at which gradients are wanted and returns the gradients.
        t: the round.
        key: makes the key of its draws in this round; called only where something is drawn.
    """

    def __init__(
        self,
        exchange: Exchange,
        codecs: dict[tuple[int, int], Codec],
        ask: Callable[..., Any],
        t: int,
        key: Callable[[], Any],
    ):
        self.exchange, self.codecs, self.ask, self.t, self.key = exchange, codecs, ask, t, key
        self._shrunk = 0

    def gradient(self, *points: Tensor) -> Any:
        return _like(points, self.ask(points))

    def full_gradient(self, *points: Tensor) -> Any:
        return _like(points, self.ask(points, full=True))

    def post(self, *arrays: Tensor, over: Over = "W") -> Callable[[], Any]:
        """`gossip` in two halves: the message leaves now, and what is returned waits for those of the neighbours."""
        letters = over if over == "RC" else over * len(arrays)
        wait = self.exchange.post(arrays, letters, self.t)
        return lambda: _like(arrays, wait())

    def gossip(self, *arrays: Tensor, over: Over = "W") -> Any:
        return self.post(*arrays, over=over)()

    def gossip_compressed(self, *arrays: Tensor, by: Any) -> Any:
        codecs = [self._codec(by, a) for a in arrays]
        first, self._shrunk = self._shrunk, self._shrunk + len(arrays)
        encoded = [
            codec.encode(a, partial(self._draw, number=first + k))
            for k, (codec, a) in enumerate(zip(codecs, arrays, strict=True))
        ]
        message = torch.cat(encoded)
        received, weights = self.exchange.swap(message, self.t)
        received[self.exchange.world.rank] = message
        parts = {rank: sent.split([codec.size for codec in codecs]) for rank, sent in received.items()}
        return _like(arrays, tuple(self._pair(codec, k, parts, weights) for k, codec in enumerate(codecs)))

    def gossip_robust(self, *arrays: Tensor, by: Any) -> Any:
        message = torch.cat([a.reshape(-1) for a in arrays])
        received, weights = self.exchange.swap(message, self.t)
        if not received:
            return _like(arrays, tuple(a.clone() for a in arrays))
        # by ascending rank, as everything is added up
        heard = torch.stack([received[rank] for rank in sorted(received)])
        given = torch.tensor([weights[rank] for rank in sorted(received)], dtype=heard.dtype, device=heard.device)
        parts = heard.split([a.numel() for a in arrays], dim=1)
        made = [combined(by, a.reshape(-1), part, given) for a, part in zip(arrays, parts, strict=True)]
        return _like(arrays, tuple(new.view_as(a) for new, a in zip(made, arrays, strict=True)))

    def _pair(self, codec: Codec, k: int, parts: dict[int, Any], weights: dict[int, float]) -> tuple[Tensor, Tensor]:
        mine = codec.decode(parts[self.exchange.world.rank][k])
        mixed = torch.zeros_like(mine)
        for source, weight in weights.items():
            mixed.add_(mine if source == self.exchange.world.rank else codec.decode(parts[source][k]), alpha=weight)
        return mine, mixed

    def _codec(self, by: Any, a: Tensor) -> Codec:
        key = id(by), a.numel()
        if key not in self.codecs:
            self.codecs[key] = codec_of(by, a)
        return self.codecs[key]

    def _draw(self, by: Any, a: Tensor, number: int) -> Tensor:
        """C(a) with the draw that the simulator's agent of this number makes at this place."""
        from gossamer.basics.keys import of_array

        with jax.enable_x64(a.dtype == torch.float64), jax.default_device(jax.devices("cpu")[0]):
            exact = a if a.dtype in (torch.float32, torch.float64) else a.float()  # NumPy has no bfloat16
            compressed = by.compress(of_array(self.key(), number), jnp.asarray(exact.cpu().numpy()))
            return torch.from_numpy(np.array(compressed)).to(a)

    def mean(self, *arrays: Tensor) -> Any:
        world = self.exchange.world
        flat = torch.cat([a.reshape(-1) for a in arrays])
        self.exchange.counters.bytes_reduced += flat.numel() * flat.element_size()
        began = time.monotonic()
        mean = world.total(flat) / world.size
        self.exchange.counters.seconds_waiting += time.monotonic() - began
        split = mean.split([a.numel() for a in arrays])
        return _like(arrays, tuple(part.view_as(a) for part, a in zip(split, arrays, strict=True)))

    def ones(self) -> Tensor:
        return torch.ones(1, dtype=self.exchange.world.dtype, device=self.exchange.world.device)

    def place(self) -> Tensor:
        world = self.exchange.world
        place = torch.zeros(world.size, dtype=world.dtype, device=world.device)
        place[world.rank] = 1
        return place

    def norm(self, a: Tensor) -> Tensor:
        return torch.linalg.vector_norm(a, dim=-1, keepdim=True)

    def repeat(self, times: int, step: Callable[..., Any], *arrays: Tensor) -> Any:
        for _ in range(times):
            made = step(*arrays)
            arrays = made if isinstance(made, tuple) else (made,)
        return _like(arrays, arrays)


def _like(arrays: tuple[Any, ...], results: Any) -> Any:
    """One result for one array, and a tuple of results for several."""
    return results[0] if len(arrays) == 1 else tuple(results)
