"""What a run is: what a state was saved with, and what all ranks must agree on before they train."""

from typing import TYPE_CHECKING, Any

import torch

from gossamer.core import brief, setting, shown
from gossamer.torch.exchange import fingerprint

if TYPE_CHECKING:
    from gossamer.torch.optimizer import Decentralized


def saved_with(optimizer: "Decentralized") -> dict[str, Any]:
    """What a state must have been saved with; the rates go with the parameter groups."""
    rule, world = optimizer.rule, optimizer.world
    others = [f"{key}={value}" for key, value in shown(rule).items() if key != "eta"]
    return {
        "saved by": f"rank {world.rank} of {world.size}{world.part.replace('-', ' ')}",
        "rule": " ".join([rule.name, *others]),
        "network": fingerprint(optimizer.network),
        "overlap": optimizer.overlap,
        "seed": optimizer.seed,
        "draws": optimizer.draws,
        "weight decay": optimizer.decay.amounts,
        "inner": inner_of(optimizer),
        "type": str(optimizer.flat.params[0].dtype),
    }


def agreed_on(optimizer: "Decentralized", module: torch.nn.Module | None) -> dict[str, str]:
    """What must be the same on all ranks."""
    flat, rule = optimizer.flat, optimizer.rule
    groups = zip(flat.sizes, optimizer.param_groups, strict=True)
    buffers = [] if module is None else [f"{tuple(b.shape)} of {b.dtype}" for b in module.buffers()]
    return {
        "shapes of the parameters": flat.shapes,
        "type of the parameters": str(flat.params[0].dtype),
        "buffers of the module": " ".join(buffers) or "none",
        "rule": f"{rule.name} with {setting(rule)}",
        "parameter groups": ", ".join(
            f"{size} at lr {group['lr']:g} with weight decay {group['weight_decay']:g}" for size, group in groups
        ),
        "network": fingerprint(optimizer.network),
        "overlap": str(optimizer.overlap),
        "seed": str(optimizer.seed),
        "draws": optimizer.draws,
        "inner optimizer": inner_of(optimizer),
        "options of the inner optimizer": _options(optimizer),
        "choice of on_nonfinite": optimizer.guard.mode,
        "choice of direct": str(optimizer.direct),
    }


def inner_of(optimizer: "Decentralized") -> str:
    """The inner optimizer in a few words."""
    local = optimizer.local
    return "none" if local is None else f"{type(local.optimizer).__name__}, {local.steps} steps a round"


def _options(optimizer: "Decentralized") -> str:
    """What the inner optimizer was made with, such as its lr, group by group."""
    groups = [] if optimizer.local is None else optimizer.local.optimizer.param_groups
    plain = (int, float, str, tuple, torch.Tensor)
    rows = [[f"{key}={brief(value)}" for key, value in group.items() if isinstance(value, plain)] for group in groups]
    return "; ".join(", ".join(row) for row in rows) or "none"


def in_short(optimizer: "Decentralized") -> str:
    """The first line of what is shown of an optimizer."""
    world, inner = optimizer.world, inner_of(optimizer)
    about = [f"{optimizer.rule!r} on {optimizer.network.name}", f"rank {world.rank} of {world.size}"]
    about += [f"inner {inner}"] * (inner != "none")
    about += [f"{sum(optimizer.flat.sizes):,} numbers", f"step {optimizer.guard.step}"]
    return f"Decentralized ({'; '.join(about)}"
