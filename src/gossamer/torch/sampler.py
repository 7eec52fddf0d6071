"""The simulator's splits of data for a `DataLoader`: the rows that a rank trains on, and their order."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import Sampler

from gossamer.core import InputError, whole

LABEL_NAMES = ("targets", "labels", "y")  # the attributes in which a dataset may keep its labels


class SplitSampler(Sampler[list[int]]):
    """The batches of this rank, for ``DataLoader(dataset, batch_sampler=SplitSampler(dataset, 32, split="by-label"))``.

    Rows are split over the ranks as the simulator splits them over agents, shuffled anew each epoch, and cut into
    batches; all ranks have equally many, as many whole batches as the smallest part holds. An epoch is a function of
    the seed, its number and the rank, so that `seek` finds any place again. Every batch that is drawn counts, also one
    that is only looked at: draw equally many on all ranks.

    Args:
        labels: one for each row, or a dataset that has them: `targets`, `labels` or `y`, or a `TensorDataset`'s last,
            or a `Subset` of such. With ``split="iid"``, anything that has a length.
        batch: rows in a batch.
        split: by-label, iid, mixed:S, dirichlet:A, labels:K, or a list with the rows of each rank, as in
            `gossamer.data`.
        sizes: equal, or as-they-fall.
        seed: the seed of the split and of the order.
        rank: the rank whose batches these are; by default this process's.
        world: the number of ranks; by default that of this process's group.
    """

    def __init__(
        self,
        labels: Any,
        batch: int,
        *,
        split: str | Sequence[Any] = "by-label",
        sizes: str = "equal",
        seed: int = 0,
        rank: int | None = None,
        world: int | None = None,
    ):
        from gossamer.data.dataset import Dataset  # with scipy, which `import gossamer.torch` does without
        from gossamer.data.splits import split as split_rows

        whole("batch", batch)
        here, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        if dist.is_initialized():
            here, size = dist.get_rank(), dist.get_world_size()
        self.rank, self.world = here if rank is None else rank, size if world is None else world
        whole("rank", self.rank, least=0, most=self.world - 1)
        if split == "iid" and not hasattr(labels, "__len__"):
            raise InputError(f"{type(labels).__name__} has no length: a split needs to know its rows.")
        values = np.zeros(len(labels)) if split == "iid" else _labels(labels)
        dataset = Dataset("the training rows", np.zeros((len(values), 1)), values)
        parts = split_rows(dataset, self.world, split, sizes=sizes, seed=seed)
        fewest = min(range(self.world), key=lambda k: len(parts[k]))
        if len(parts[fewest]) < batch:
            how = split if isinstance(split, str) else "these lists"
            raise InputError(
                f"rank {fewest} has {len(parts[fewest])} rows under {how}, fewer than a batch of {batch}: use a "
                'batch of at most that, fewer ranks, or sizes="equal".'
            )
        self.rows, self.batch, self.seed = parts[self.rank], batch, seed
        self.position = 0  # batches that have been given out, over all epochs
        self._batches = len(parts[fewest]) // batch
        self._before: Callable[[], None] | None = None

    def __len__(self) -> int:
        return self._batches

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the rest of this epoch, or the next one if it is at its end."""
        epoch, first = divmod(self.position, len(self))
        order = np.random.default_rng([self.seed, epoch, self.rank]).permutation(self.rows)
        if self._before is not None and first:
            self._before()
        self._before = None
        for k in range(first, len(self)):
            self.position += 1
            yield order[k * self.batch : (k + 1) * self.batch].tolist()

    def seek(self, position: int, before: Callable[[], None] | None = None) -> None:
        """Go on after a number of batches.

        Args:
            position: how many, counted over all epochs.
            before: a function to call before the next batch is drawn, if that is within an epoch.
        """
        self.position, self._before = int(position), before

    def fingerprint(self) -> str:
        """Describe in a few words which rows this rank has in which batches."""
        digest = hashlib.sha256(np.asarray(self.rows, np.int64).tobytes()).hexdigest()[:12]
        return f"{len(self.rows)} rows {digest} in {len(self)} batches of {self.batch} by seed {self.seed}"

    def check_used(self, batches: int) -> None:
        """Refuse a number of batches that a script cannot have used.

        Workers draw ahead, but no further than to the end of an epoch.
        """
        latest = -(-batches // len(self)) * len(self)
        if not batches <= self.position <= latest:
            raise InputError(
                f"the sampler has given out {self.position} batches, which does not fit {batches} that are said to be "
                "used: if a step takes another number of batches than one, give save(…, batches=…)."
            )


def _labels(labels: Any) -> np.ndarray:
    """Return the labels of a dataset, or the labels that were given."""
    if isinstance(labels, torch.utils.data.Subset):
        return _labels(labels.dataset)[np.asarray(labels.indices)]
    if isinstance(labels, torch.utils.data.TensorDataset):
        labels = labels.tensors[-1]
    elif isinstance(labels, torch.utils.data.Dataset):
        known = [getattr(labels, name) for name in LABEL_NAMES if hasattr(labels, name)]
        if not known:
            raise InputError(
                f"{type(labels).__name__} has no labels that can be found: it has none of "
                f"{', '.join(LABEL_NAMES)}. Give the labels themselves, one for each row."
            )
        labels = known[0]
    return np.asarray(labels.cpu() if isinstance(labels, torch.Tensor) else labels)
