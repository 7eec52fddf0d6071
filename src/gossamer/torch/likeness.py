"""Notices ranks that all have the same gradient: then there is nothing to gossip about."""

import hashlib
import warnings

from torch import Tensor

from gossamer.torch.world import ProcessWorld

SAMPLED = 65536
"""How many numbers of a gradient are looked at."""


class Likeness:
    """Warns where the first gradient is the same on all ranks, bit for bit.

    Ranks begin at one point, but with batches of their own. Gradients that agree all the same were averaged before the
    optimizer saw them, as DistributedDataParallel does, or come from the same data.
    """

    def __init__(self, world: ProcessWorld):
        self._world, self._known = world, world.size == 1

    def forget(self) -> None:
        """Look at nothing: some rank may have looked already."""
        self._known = True

    def look(self, gradient: Tensor) -> None:
        """Compare this rank's first gradient with those of the others; all ranks must do it. Later it does nothing.

        A gradient that is zero everywhere, as after an overflow under mixed precision, is not looked at.
        """
        if self._known:
            return
        every = max(1, -(-gradient.numel() // SAMPLED))
        some = gradient[::every].double().cpu().numpy()
        told = self._world.numbers(
            int.from_bytes(hashlib.sha256(some.tobytes()).digest()[:7], "big") * bool(some.any())
        )
        self._known = any(told)
        if self._known and len(set(told)) == 1 and self._world.rank == 0:
            warnings.warn(
                f"all {self._world.size} ranks have the same first gradient, bit for bit: something averages gradients "
                "before Decentralized sees them, or all ranks train on the same batches. Do not wrap the model in "
                "DistributedDataParallel (accelerator.prepare(model) and Hugging Face's Trainer do so), and give each "
                "rank its own data, by SplitSampler for one.",
                stacklevel=5,
            )
