"""Saving a run and going on with it: one file for each rank and step, from the last step that all ranks hold.

A file holds the model, where the rule stands, the place in the data and the random generators, so that on CPUs a run
that was interrupted ends with the same bits as one that was not. Files appear whole or not at all, carry a checksum,
and are read with ``weights_only=True``: nothing in them is executed.
"""

import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from gossamer.core import InputError
from gossamer.torch import generators, sealed
from gossamer.torch.optimizer import Decentralized
from gossamer.torch.parameters import held, is_sharded, local
from gossamer.torch.sampler import SplitSampler

NAME = re.compile(r"step-(\d+)-rank-(\d+)-of-(\d+)(-part-\d+)?\.pt")


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
        folder: where it goes; all ranks may share one, or each host may have its own.
        step: how many steps have been taken.
        model: its parameters and buffers are kept.
        optimizer: the state of its rule is kept.
        sampler: its place is kept, which is after one batch for each step.
        batches: how many batches have been used, if it is not one for each step.
        keep: how many of the newest checkpoints are kept; older ones are removed once all ranks have written this one.
        others: other objects with a ``state_dict``, such as ``scheduler=scheduler``.
    """
    if keep < 1:
        raise InputError(f"keep must be a whole number from 1, but is {keep!r}: the newest checkpoint is needed.")
    used = step if batches is None else batches
    if sampler is not None:
        sampler.check_used(used)
    folder = Path(folder)
    optimizer.together(lambda: _met(optimizer, folder))
    folder.mkdir(parents=True, exist_ok=True)
    path = _path(folder, step, optimizer)
    content = {
        "step": step,
        "rank": optimizer.world.rank,
        "batches": used,
        "sampler": None if sampler is None else sampler.fingerprint(),
        "model": {key: held(value) for key, value in model.state_dict().items()},
        "sharded": any(is_sharded(value) for value in model.state_dict().values()),
        "optimizer": optimizer.state_dict(),
        "others": {name: other.state_dict() for name, other in others.items()},
        "random": generators.states(),
    }
    sealed.write(path, content)
    optimizer.together(optimizer.exchange.meet)  # until all have written, the last common step must stay
    stored = sorted(_steps(folder, optimizer))
    if stored and stored[-1] > step:
        warnings.warn(
            f"{folder} holds a checkpoint of step {stored[-1]}, later than this one of step {step}: resume will take "
            "the later one. Use another folder for another run.",
            stacklevel=2,
        )
    for old in [earlier for earlier in stored if earlier <= step][:-keep]:
        _path(folder, old, optimizer).unlink(missing_ok=True)
    return path


def resume(
    folder: str | Path,
    model: torch.nn.Module,
    optimizer: Decentralized,
    sampler: SplitSampler | None = None,
    **others: Any,
) -> int:
    """Go on from the last step that all ranks hold, and return it; 0 if there is none. All ranks must call it.

    A step that some rank cannot read, because its file is damaged, is left out with a warning. A file of another format
    is an error: a run should not go back in time unasked.
    """
    world, folder = optimizer.world, Path(folder)
    if optimizer.elastic is not None and optimizer.elastic.joined:  # others on their way, who do not resume
        return optimizer.steps
    world.refuse(_unfit(folder, optimizer))
    stored = [set(json.loads(text)) for text in world.texts(json.dumps(sorted(_steps(folder, optimizer))))]
    common = set.intersection(*stored)
    if not common:
        without = [str(rank) for rank, steps in enumerate(stored) if not steps]
        if any(stored) and world.rank == 0:
            warnings.warn(
                f"no step is held by all ranks in {folder} (ranks without any: {', '.join(without) or 'none'}): the "
                "run begins anew. Several hosts need a shared folder if ranks may move between them.",
                stacklevel=2,
            )
        return 0
    content = _newest(folder, sorted(common, reverse=True), optimizer)
    # before any of them is changed
    world.refuse(_misfit(content, _path(folder, content["step"], optimizer).name, model, optimizer, sampler, others))
    _load(model, content["model"])
    for name, other in others.items():
        other.load_state_dict(content["others"][name])
    optimizer.load_state_dict(content["optimizer"])
    if sampler is not None:
        # a DataLoader draws when it begins, in the middle of an epoch once more than without the interruption
        sampler.seek(content["batches"], lambda: generators.restore(content["random"]))
    generators.restore(content["random"])
    return content["step"]


def _newest(folder: Path, steps: list[int], optimizer: Decentralized) -> dict[str, Any]:
    """What this rank holds of the first of these steps that all ranks can read."""
    damaged: list[str] = []
    for step in steps:
        content, problem, refusal = _held(_path(folder, step, optimizer), step, optimizer.world.rank)
        told = [json.loads(text) for text in optimizer.world.texts(json.dumps([problem, refusal]))]
        if refused := [of_rank[1] for of_rank in told if of_rank[1]]:
            raise InputError(f"in {folder}, {'; '.join(refused)}")
        if not any(of_rank[0] for of_rank in told):
            if damaged and optimizer.world.rank == 0:
                warnings.warn(f"in {folder}, {'; '.join(damaged)}: going on from step {step}.", stacklevel=3)
            return content
        damaged += [of_rank[0] for of_rank in told if of_rank[0]]
    raise InputError(f"in {folder}, {'; '.join(damaged)}. Remove such files to begin anew, or restore them.")


def _held(path: Path, step: int, rank: int) -> tuple[dict[str, Any], str, str]:
    """What this rank holds of a step; or what is damaged there; or why it is refused."""
    try:
        content = sealed.read(path)
    except sealed.DamagedCheckpoint as error:
        return {}, str(error), ""
    except InputError as error:
        return {}, "", str(error)
    if (content["step"], content["rank"]) != (step, rank):
        return {}, f"{path.name} is of rank {content['rank']} at step {content['step']}", ""
    return content, "", ""


def _misfit(
    content: dict[str, Any],
    name: str,
    model: torch.nn.Module,
    optimizer: Decentralized,
    sampler: SplitSampler | None,
    others: dict[str, Any],
) -> str:
    """Why what a file of this name holds cannot be loaded into these; "" if it can."""
    if set(content["others"]) != set(others):
        return (
            f"{name} was saved with {sorted(content['others']) or 'nothing'} besides model and optimizer, but is "
            f"resumed with {sorted(others) or 'nothing'}: give resume what save was given."
        )
    if content["sampler"] != (present := None if sampler is None else sampler.fingerprint()):
        return (
            f"{name} was saved with {_rows(content['sampler'])}, but is resumed with {_rows(present)}: the place "
            "in the data would be another. Give resume the sampler that save was given, made with the same arguments."
        )
    saved, here = _shapes(content["model"]), _shapes(model.state_dict())
    if odd := sorted(key for key in {*saved, *here} if saved.get(key, "nothing") != here.get(key, "nothing")):
        return (
            f"{name} has {saved.get(odd[0], 'nothing')} for {odd[0]} of the model, which here is "
            f"{here.get(odd[0], 'not there')} ({len(odd)} differ in all): give resume the model that save was given."
        )
    return optimizer.misfit(content["optimizer"])


def _shapes(state: dict[str, Any]) -> dict[str, str]:
    return {key: str(tuple(getattr(held(value), "shape", ()))) for key, value in state.items()}


def _met(optimizer: Decentralized, folder: Path) -> None:
    optimizer.exchange.meet()  # names a rank that is missing, as no all-gather can
    optimizer.check_together()
    optimizer.world.refuse(_unfit(folder, optimizer))


def _rows(sampler: str | None) -> str:
    return "no sampler" if sampler is None else f"a sampler of {sampler}"


def _path(folder: Path, step: int, optimizer: Decentralized) -> Path:
    return folder / f"step-{step:09d}-rank-{optimizer.world.rank}-of-{optimizer.world.size}{optimizer.world.part}.pt"


def _steps(folder: Path, optimizer: Decentralized) -> set[int]:
    """The steps that this rank holds."""
    here = optimizer.world.rank, optimizer.world.size, optimizer.world.part
    return {step for _, step, *of in _files(folder) if tuple(of) == here}


def _unfit(folder: Path, optimizer: Decentralized) -> str:
    """Why checkpoints of this run cannot be in a folder; "" if they can."""
    if folder.exists() and not folder.is_dir():
        return f"{folder} is a file, but checkpoints need a folder: give another path."
    sizes = {size for _, _, _, size, part in _files(folder) if part == optimizer.world.part} - {optimizer.world.size}
    if not sizes or (optimizer.elastic is not None and optimizer.steps):  # there were more or fewer before
        return ""
    return (
        f"{folder} holds checkpoints of {sizes.pop()} ranks, but there are {optimizer.world.size}: start as many, or "
        f"begin from their mean, model.load_state_dict(gossamer.torch.mean_model({str(folder)!r})), before "
        "Decentralized is made, and save into another folder."
    )


def _files(folder: Path) -> Iterator[tuple[Any, ...]]:
    """The checkpoints in a folder: path, step, rank, number of ranks, and which part of a node, if it has several."""
    for path in sorted(folder.glob("step-*.pt")):
        if match := NAME.fullmatch(path.name):
            yield path, *map(int, match.groups()[:3]), match[4] or ""


def _load(model: torch.nn.Module, saved: dict[str, Any]) -> None:
    present = model.state_dict()
    if not any(map(is_sharded, present.values())):
        model.load_state_dict(saved)
        return
    with torch.no_grad():
        for key, value in present.items():
            local(value).copy_(saved[key])


def mean_model(folder: str | Path) -> dict[str, Any]:
    """The mean over all ranks of the newest models in a folder, as a ``state_dict``: a start for any number of ranks.

    Load it before `Decentralized` is made: rules begin anew there, as their state belongs to ranks that are gone. All
    files must be in this folder, which is only read: no process group is needed. Numbers that are not floating, such as
    counts of batches, are those of rank 0.
    """
    folder, ranks = Path(folder), dict[tuple[int, int], dict[int, Path]]()
    for path, step, rank, size, _ in _files(folder):
        ranks.setdefault((step, size), {})[rank] = path  # parts of a node that are whole are the same
    whole = [key for key, held in ranks.items() if len(held) == key[1]]
    if not whole:
        raise InputError(f"{folder} holds no step of which there is a checkpoint of every rank.")
    files = ranks[max(whole)]
    try:
        models = (_whole(sealed.read(files[rank])) for rank in sorted(files))
        mean = _Mean(next(models))
        for model in models:
            mean.add(model)
        return mean.taken()
    except sealed.DamagedCheckpoint as error:
        raise InputError(f"in {folder}, {error}. Restore it, or remove the files of its step.") from error


def _whole(content: dict[str, Any]) -> dict[str, Any]:
    if content["sharded"]:
        raise InputError("a model that is sharded (by FSDP2) has no mean in one piece: start as many nodes as before.")
    return content["model"]


class _Mean:
    """A mean of models, of which one is in memory at a time, beside the sum."""

    def __init__(self, first: dict[str, Any]):
        self._first, self._count = first, 1
        self._sums = {key: value.double() for key, value in first.items() if _floats(value)}

    def add(self, model: dict[str, Any]) -> None:
        self._count += 1
        for key, total in self._sums.items():
            total += model[key]

    def taken(self) -> dict[str, Any]:
        return self._first | {key: (a / self._count).to(self._first[key].dtype) for key, a in self._sums.items()}


def _floats(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
