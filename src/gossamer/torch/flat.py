"""The parameters of a model as one vector."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gossamer.core import InputError


class Flat:
    """Reads and writes all parameters as one vector, group by group; their own memory stays as it is."""

    def __init__(self, groups: Sequence[Sequence[Tensor]]):
        self.params = [p for group in groups for p in group]
        if not self.params:
            raise InputError("there are no parameters to train: give model.parameters().")
        first = self.params[0]
        for k, p in enumerate(self.params):
            if not p.is_floating_point() or (p.dtype, p.device) != (first.dtype, first.device):
                raise InputError(
                    f"all parameters must have one floating type and one device, but the first has {first.dtype} on "
                    f"{first.device} and number {k} (from 0) has {p.dtype} on {p.device}. Convert the model with "
                    "model.to(…) first."
                )
        self.sizes = [sum(p.numel() for p in group) for group in groups]
        self._lengths = [p.numel() for p in self.params]

    @property
    def shapes(self) -> str:
        """As text, short enough to be printed."""
        shown = [str(tuple(p.shape)) for p in self.params]
        return f"{sum(self._lengths)} numbers in " + " ".join(shown)

    def read(self) -> Tensor:
        """The parameters, as a new vector."""
        return torch.cat([p.detach().reshape(-1) for p in self.params])

    def write(self, x: Tensor) -> None:
        """Put a vector into the parameters."""
        parts = [part.view_as(p) for part, p in zip(x.split(self._lengths), self.params, strict=True)]
        with torch.no_grad():
            torch._foreach_copy_(self.params, parts)  # pyright: ignore[reportPrivateImportUsage]

    def gradient(self) -> Tensor:
        """The gradients, as a new vector; parameters that had no part in the loss have 0."""
        if all(p.grad is None for p in self.params):
            raise InputError("no parameter has a gradient: call loss.backward() before optimizer.step().")
        return torch.cat([_of(p) for p in self.params])


def _of(p: Tensor) -> Tensor:
    if p.grad is None:
        return torch.zeros(p.numel(), dtype=p.dtype, device=p.device)
    return (p.grad.to_dense() if p.grad.is_sparse else p.grad).detach().reshape(-1)
