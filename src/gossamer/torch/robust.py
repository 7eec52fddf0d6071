"""Aggregators on tensors: what an agent makes of its own vector and of those that its neighbours sent.

Clipping, trimmed means and medians are computed by PyTorch; an aggregator of your own is computed by JAX on the CPU.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor


def combined(by: Any, own: Tensor, messages: Tensor, weights: Tensor) -> Tensor:
    """The agent's next vector from its own, [d], and its neighbours' messages, [neighbours, d], with their weights."""
    from gossamer.aggregators import Clipped, Trimmed  # JAX, where it is needed

    match by:
        case Clipped(radius):
            return _clipped(radius, own, messages, weights)
        case Trimmed(trim):
            return _trimmed(trim, torch.cat([messages, own[None]]))
        case _:
            return _by_jax(by, own, messages, weights)


def _clipped(radius: Any, own: Tensor, messages: Tensor, weights: Tensor) -> Tensor:
    away = messages - own
    distances = torch.linalg.vector_norm(away, dim=1)
    heard = torch.isfinite(distances)
    if not heard.any():
        return own.clone()
    away, distances, weights = away[heard], distances[heard], weights[heard]
    limit = distances.sort().values[-2:][0] if radius is None else float(radius)
    scale = torch.where(distances > limit, limit / distances, 1)
    return own + ((weights * scale)[:, None] * away).sum(0)


def _trimmed(trim: int | None, values: Tensor) -> Tensor:
    out = (len(values) - 1) // 2 if trim is None else trim
    ordered = torch.where(values.isnan(), torch.inf, values).sort(dim=0).values
    return ordered[out : len(values) - out].mean(0)


def _by_jax(by: Any, own: Tensor, messages: Tensor, weights: Tensor) -> Tensor:
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(own.dtype == torch.float64), jax.default_device(jax.devices("cpu")[0]):
        exact = [a if a.dtype in (torch.float32, torch.float64) else a.float() for a in (own, messages, weights)]
        made = by.combine(*(jnp.asarray(a.cpu().numpy()) for a in exact))
        return torch.from_numpy(np.array(made)).to(own)
