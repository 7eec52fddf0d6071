"""Saving a run and going on with it: one file for each rank and step, from the last step that all ranks hold.

A file holds the model, where the rule stands, the place in the data and the random generators, so that on CPUs a run
that was interrupted ends with the same bits as one that was not. Files appear whole or not at all, and are read with
``weights_only=True``: nothing in them is executed.
"""

import json
import os
import random
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gossamer.core import InputError
from gossamer.torch.optimizer import Decentralized
from gossamer.torch.sampler import SplitSampler

NAME = re.compile(r"step-(\d+)-rank-(\d+)-of-(\d+)\.pt")


def save(
    folder: str | Path,
    step: int,
    model: torch.nn.Module,
    optimizer: Decentralized,
    sampler: SplitSampler | None = None,
    *,
    batches: int | None = None,
    keep: int = 2,
    **others: Any,
) -> Path:
    """Write this rank's checkpoint after `step` steps. All ranks must call it at the same step.

    Args:
        folder: where; it may be shared by all ranks or each host's own.
        step: how many steps have been taken.
        model: whose parameters and buffers are kept.
        optimizer: whose rule is kept.
        sampler: whose place is kept.
        batches: how many batches have been used, if not one each step.
        keep: how many of the newest are kept; older ones are removed once all ranks have written this one.
        others: what else has a ``state_dict``, such as ``scheduler=scheduler``.
    """
    if keep < 1:
        raise InputError(f"keep must be a whole number from 1, but is {keep!r}: the newest checkpoint is needed.")
    world, folder = optimizer.world, Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{step:09d}-rank-{world.rank}-of-{world.size}.pt"
    content = {
        "step": step,
        "batches": step if batches is None else batches,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "others": {name: other.state_dict() for name, other in others.items()},
        "random": _random_states(),
    }
    whole = path.with_suffix(".part")
    with whole.open("wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())
    whole.replace(path)
    optimizer.exchange.meet()  # until all have written, the last common step must stay
    for old in sorted(_steps(folder, optimizer))[:-keep]:
        (folder / f"step-{old:09d}-rank-{world.rank}-of-{world.size}.pt").unlink(missing_ok=True)
    return path


def resume(
    folder: str | Path,
    model: torch.nn.Module,
    optimizer: Decentralized,
    sampler: SplitSampler | None = None,
    **others: Any,
) -> int:
    """Go on from the last step that all ranks hold, and return it; 0 if there is none. All ranks must call it."""
    world, folder = optimizer.world, Path(folder)
    held = [set(json.loads(text)) for text in world.texts(json.dumps(sorted(_steps(folder, optimizer))))]
    common = set.intersection(*held)
    if not common:
        without = [str(rank) for rank, steps in enumerate(held) if not steps]
        if any(held) and world.rank == 0:
            warnings.warn(
                f"no step is held by all ranks in {folder} (ranks without any: {', '.join(without) or 'none'}): the "
                "run begins anew. Several hosts need a shared folder if ranks may move between them.",
                stacklevel=2,
            )
        return 0
    step = max(common)
    path = folder / f"step-{step:09d}-rank-{world.rank}-of-{world.size}.pt"
    content = torch.load(path, map_location="cpu", weights_only=True)
    if set(content["others"]) != set(others):
        raise InputError(
            f"{path.name} was saved with {sorted(content['others']) or 'nothing'} besides model and optimizer, but is "
            f"resumed with {sorted(others) or 'nothing'}: give resume what save was given."
        )
    model.load_state_dict(content["model"])
    for name, other in others.items():
        other.load_state_dict(content["others"][name])
    optimizer.load_state_dict(content["optimizer"])
    if sampler is not None:
        sampler.seek(content["batches"])
    _set_random_states(content["random"])
    return step


def _steps(folder: Path, optimizer: Decentralized) -> set[int]:
    """The steps that this rank holds, or an error where the folder is of a world of another size."""
    rank, size = optimizer.world.rank, optimizer.world.size
    found = [
        tuple(map(int, match.groups())) for path in folder.glob("step-*.pt") if (match := NAME.fullmatch(path.name))
    ]
    others = {of for _, _, of in found} - {size}
    if others:
        raise InputError(
            f"{folder} holds checkpoints of {others.pop()} ranks, but there are {size}: start as many, or use another "
            "folder."
        )
    return {step for step, of, _ in found if of == rank}


def _random_states() -> dict[str, Any]:
    kind, words, place, has_normal, normal = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "python": random.getstate(),
        "numpy": [kind, torch.from_numpy(np.asarray(words, np.int64)), place, has_normal, normal],
    }


def _set_random_states(states: dict[str, Any]) -> None:
    torch.set_rng_state(states["torch"])
    if states["cuda"]:
        torch.cuda.set_rng_state_all(states["cuda"])
    random.setstate(states["python"])
    kind, words, place, has_normal, normal = states["numpy"]
    np.random.set_state((kind, words.numpy().astype(np.uint32), place, has_normal, normal))
