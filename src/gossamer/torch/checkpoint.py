"""Saving a run and going on with it: a folder of torch.distributed.checkpoint for each step, a key for each agent.

It holds the model of every agent, where its rule stands, the place in the data and the random generators, so that on
CPUs a run that was interrupted ends with the same bits as one that was not. A folder counts only when every rank has
written the checksums of its files there. Nothing in it is executed: all of it is tensors, what is none is bytes that
are read with ``weights_only=True``, and of the index only what an index is made of is unpickled.
"""

import atexit
import contextlib
import hashlib
import io
import json
import math
import os
import pickle
import random
import re
import shutil
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gossamer.basics.lazy import Lazy
from gossamer.core import InputError
from gossamer.torch.buckets import local
from gossamer.torch.exchange import Counters
from gossamer.torch.rounds import Answer, Loop, Rates
from gossamer.torch.sampler import SplitSampler
from gossamer.torch.world import in_short

if TYPE_CHECKING:
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    from gossamer.torch.optimizer import Decentralized

dcp: Any = Lazy("torch.distributed.checkpoint")  # DCP, imported when it is used: that takes as long as all of PyTorch

NAME = re.compile(r"step-(\d{9})")
FORMAT = 3  # the format that is written; 1 and 2 were files of each rank
# all that the index of a folder may be made of: names by module, None for all of a module's own classes
INDEX = {
    "torch": {"Size", "device"},
    "torch.distributed.checkpoint.metadata": None,
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.serialization": {"_get_layout"},
    "torch._utils": {"_rebuild_dtype"},
    "collections": {"OrderedDict"},
    "pathlib": {"PosixPath", "WindowsPath"},
}
PROGRESS = ("round", "steps", "told", "taken", "fresh", "seconds", *(field.name for field in fields(Counters)))
"""The numbers of a state that are one each: they are saved as one vector, in this order."""
NO_ARRAYS = ("told", "inner", "progress", "rates", "finite", "local", "still")
"""The names in a state that are no arrays of the rule's state, up to the first dot."""


def save(
    folder: str | Path,
    step: int,
    model: torch.nn.Module,
    optimizer: "Decentralized",
    sampler: SplitSampler | None = None,
    *,
    batches: int | None = None,
    keep: int = 2,
    wait: bool = True,
    **others: Any,
) -> Path:
    """Write a checkpoint after `step` steps, and return its folder. All ranks must call it at the same step.

    Args:
        folder: where it goes: the same one for all ranks, on a file system that they share.
        step: how many steps have been taken.
        model: its parameters and buffers are kept.
        optimizer: the state of its rule is kept.
        sampler: its place is kept, which is after one batch for each step.
        batches: how many batches have been used, if it is not one for each step.
        keep: how many of the newest checkpoints are kept; older ones are removed once this one is whole.
        wait: whether to wait until it is written. If not, it is copied, and written while training goes on; the next
            one waits for it, and so does `written`.
        others: other objects with a ``state_dict``, such as ``scheduler=scheduler``.
    """
    if keep < 1:
        raise InputError(f"keep must be a whole number from 1, but is {keep!r}: the newest checkpoint is needed.")
    used = step if batches is None else batches
    if sampler is not None:
        sampler.check_used(used)
    written()
    folder = Path(folder)
    optimizer.together(lambda: _met(optimizer, folder))
    path, rank, ranks = folder / f"step-{step:09d}", torch.distributed.get_rank(), torch.distributed.get_world_size()
    state = optimizer.state_dict()
    about = {
        "format": FORMAT,
        "step": step,
        "batches": used,
        "sampler": None if sampler is None else sampler.fingerprint(),
        "others": {name: other.state_dict() for name, other in others.items()},
        "random": random_states(),
        "groups": state["param_groups"],
    }
    content = _tensors(model, optimizer, state) | {_own(optimizer): _as_tensor(about)}

    def sealed() -> None:
        """Write the checksums of this rank's files, which end the checkpoint."""
        mine = [*path.glob(f"__{rank}_*.distcp"), *([path / ".metadata"] if rank == 0 else [])]
        sums = {file.name: _checksum(file) for file in mine}
        told = {"format": FORMAT, "step": step, "ranks": ranks, "agents": optimizer.world.size, "files": sums}
        draft = path / f".sum-{rank}"
        draft.write_text(json.dumps(told))
        draft.replace(path / f"sum-{rank}.json")

    if path.exists() and rank == 0:
        shutil.rmtree(path)  # one of this step that was cut short, or is written anew
    optimizer.together(optimizer.exchange.meet)
    if wait:
        dcp.save(content, checkpoint_id=path)
        sealed()
        optimizer.together(optimizer.exchange.meet)  # until all have written, the last whole step must stay
        _tidy(folder, step, keep, rank)
    else:
        _LATE.append((dcp.async_save(content, checkpoint_id=path), lambda: (sealed(), _tidy(folder, step, keep, rank))))
    return path


_LATE: list[tuple[Any, Callable[[], Any]]] = []  # checkpoints that are being written, and what ends each


@atexit.register
def written() -> None:
    """Wait until a checkpoint that was saved with ``wait=False`` is written."""
    while _LATE:
        late, end = _LATE.pop(0)
        future: Future[Any] = getattr(late, "upload_completion", late)
        future.result()
        end()


def _tidy(folder: Path, step: int, keep: int, rank: int) -> None:
    """Remove checkpoints that are older than the newest so many, and say where there are later ones."""
    if rank != 0:
        return
    stored = sorted(_steps(folder))
    if stored and stored[-1] > step:
        warnings.warn(
            f"{folder} holds a checkpoint of step {stored[-1]}, later than this one of step {step}: resume will take "
            "the later one. Use another folder for another run.",
            stacklevel=3,
        )
    for old in [earlier for earlier in stored if earlier <= step][:-keep]:
        # its sums first, so that it is whole or does not count
        (folder / f"step-{old:09d}" / "sum-0.json").unlink(missing_ok=True)
        shutil.rmtree(folder / f"step-{old:09d}", ignore_errors=True)


def resume(
    folder: str | Path,
    model: torch.nn.Module,
    optimizer: "Decentralized",
    sampler: SplitSampler | None = None,
    **others: Any,
) -> int:
    """Go on from the newest checkpoint, and return its step; 0 if there is none. All ranks must call it.

    One that is damaged is left out with a warning. One of another format is an error: a run should not go back in time
    unasked.
    """
    world, folder = optimizer.world, Path(folder)
    if optimizer.elastic is not None and optimizer.elastic.joined:  # others on their way, who do not resume
        return optimizer.steps
    world.refuse(_unfit(folder, optimizer))
    # by the first rank: a folder may appear to some of them later
    found = json.loads(world.texts(json.dumps(sorted(_steps(folder), reverse=True)))[0])
    damaged: list[str] = []
    for step in found:
        path = folder / f"step-{step:09d}"
        problems = [text for text in world.texts(_problem(path)) if text]
        if not problems:
            if damaged and world.rank == 0:
                warnings.warn(f"in {folder}, {'; '.join(damaged)}: going on from step {step}.", stacklevel=2)
            _load(path, model, optimizer, sampler, others)
            return step
        damaged += problems[:1]
    if damaged:
        raise InputError(f"in {folder}, {'; '.join(damaged)}. Remove such folders to begin anew, or restore them.")
    return 0


def _load(
    path: Path, model: torch.nn.Module, optimizer: "Decentralized", sampler: SplitSampler | None, others: dict[str, Any]
) -> None:
    """Read what this rank has in a checkpoint, and put it into these, unless some rank refuses."""
    world, own, about, problem = optimizer.world, _own(optimizer), {}, ""
    index = _index(reader := _reader(path))
    try:
        bytes_of = {own: _room(index[own])}
    except KeyError:
        bytes_of, problem = {}, f"{path.name} holds nothing of rank {optimizer.place}: was it saved by these ranks?"
    world.refuse(problem)
    dcp.load(bytes_of, storage_reader=reader)
    try:
        about = _as_object(bytes_of[own])
        problem = _misfit(path.name, index, about, model, optimizer, sampler, others)
    except InputError as error:
        problem = f"{path.name}: {error}"
    world.refuse(problem)
    here = _tensors(model, optimizer, optimizer.state_dict())
    content = {
        key: torch.empty_like(here[key]) if key in here else _room(entry)
        for key, entry in index.items()
        if _agent(key) == str(optimizer.place) and not key.startswith("about/")
    }
    dcp.load(content, storage_reader=reader)
    world.refuse(find_misfit(optimizer, {"state": _states(content), "param_groups": about["groups"]}))
    _put(model, content, optimizer)  # from here on things change
    for name, other in others.items():
        other.load_state_dict(about["others"][name])
    optimizer.load_state_dict({"state": _states(content), "param_groups": about["groups"]})
    if sampler is not None:
        # a DataLoader draws when it begins, in the middle of an epoch once more than without the interruption
        sampler.seek(about["batches"], lambda: restore_random_states(about["random"]))
    restore_random_states(about["random"])


def mean_model(folder: str | Path) -> dict[str, Any]:
    """Return the mean over all agents of the newest models in a folder, as a ``state_dict``: a start for any number.

    Load it before `Decentralized` is made: rules begin anew there, as their state belongs to agents that are gone. The
    folder is only read: no process group is needed. Numbers that are not floating, such as counts of batches, are those
    of agent 0.
    """
    folder = Path(folder)
    if not (stored := _steps(folder)):
        raise InputError(f"{folder} holds no step of which there is a whole checkpoint.")
    path = folder / f"step-{max(stored):09d}"
    for file in sorted(path.glob("sum-*.json")):
        if problem := _damage(path, json.loads(file.read_text())):
            raise InputError(f"in {folder}, {problem}. Restore it, or remove the folder of this step.")
    index = _index(reader := _reader(path))
    agents = json.loads((path / "sum-0.json").read_text())["agents"]
    sums: dict[str, Tensor] = {}
    first: dict[str, Tensor] = {}
    for agent in range(agents):  # one of them in memory at a time, beside the sum
        keys = [key for key in index if key.startswith("model/") and _agent(key) == str(agent)]
        model = {key: _room(index[key]) for key in keys}
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # it says that there is one process
            dcp.load(model, storage_reader=reader, no_dist=True)
        for key, value in model.items():
            name = key[6:].rpartition("@")[0]
            first.setdefault(name, value)
            if value.is_floating_point():
                sums[name] = sums[name] + value.double() if name in sums else value.double()
    return first | {name: (total / agents).to(first[name].dtype) for name, total in sums.items()}


def _reader(path: Path) -> Any:
    """Return what reads a folder, whose index it unpickles only where that is made of what an index is made of."""

    class Reader(dcp.FileSystemReader):
        def read_metadata(self, *args: Any, **kwargs: Any) -> Any:
            try:
                with (path / ".metadata").open("rb") as file:
                    metadata = _Index(file).load()
            except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, ValueError, TypeError) as error:
                raise InputError(f"{path / '.metadata'} is no index of a checkpoint ({in_short(error)}).") from error
            if metadata.storage_meta is not None:
                metadata.storage_meta.load_id = self.load_id
            return metadata

    return Reader(path)


class _Index(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        names = INDEX.get(module, set())
        is_type = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if names is None or name in names or is_type:
            found = super().find_class(module, name)
            if names is not None or getattr(found, "__module__", None) == module:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} has no place in an index")


def _index(reader: Any) -> dict[str, "TensorStorageMetadata"]:
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    entries = reader.read_metadata().state_dict_metadata
    if odd := [key for key, entry in entries.items() if not isinstance(entry, TensorStorageMetadata)]:
        raise InputError(f"{odd[0]} is no tensor: this checkpoint was not written by gossamer.torch.save.")
    return entries


def _tensors(model: torch.nn.Module, optimizer: "Decentralized", state: dict[str, Any]) -> dict[str, Any]:
    """Return what is saved of the model and the optimizer, a key for each tensor, which names the agent."""
    of = {f"model/{key}@{optimizer.place}": value for key, value in model.state_dict().items()}
    return of | {f"optimizer/{k}/{key}": value for k, row in state["state"].items() for key, value in row.items()}


def _states(content: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Return the optimizer's part of a content, by parameter."""
    states: dict[int, dict[str, Any]] = {}
    for key, value in content.items():
        if key.startswith("optimizer/"):
            _, number, name = key.split("/", 2)
            states.setdefault(int(number), {})[name] = value
    return states


def _put(model: torch.nn.Module, content: dict[str, Any], optimizer: "Decentralized") -> None:
    """Put what is no trained parameter into the model: those come with the optimizer's state."""
    trained = {p.data_ptr() for p in optimizer.flat.params}
    with torch.no_grad():
        for key, value in model.state_dict().items():
            if isinstance(value, Tensor) and value.data_ptr() not in trained:
                value.copy_(content[f"model/{key}@{optimizer.place}"])


def _own(optimizer: "Decentralized") -> str:
    """Return the key of what each process has for itself, such as its generators; nodes may have several."""
    return f"about/{optimizer.world.part}@{optimizer.place}"


def _agent(key: str) -> str:
    return key.rpartition("@")[2]


def _room(entry: "TensorStorageMetadata") -> Tensor:
    return torch.empty(entry.size, dtype=entry.properties.dtype)


def _as_tensor(value: Any) -> Tensor:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)


def _as_object(a: Tensor) -> Any:
    try:
        return torch.load(io.BytesIO(a.numpy().tobytes()), map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises whatever it stumbles over
        raise InputError(f"PyTorch cannot read what belongs to this rank ({in_short(error)}).") from error


def _misfit(
    name: str,
    index: dict[str, "TensorStorageMetadata"],
    about: dict[str, Any],
    model: torch.nn.Module,
    optimizer: "Decentralized",
    sampler: SplitSampler | None,
    others: dict[str, Any],
) -> str:
    """Return why what a checkpoint of this name holds cannot be loaded into these; "" if it can."""
    if set(about["others"]) != set(others):
        return (
            f"{name} was saved with {sorted(about['others']) or 'nothing'} besides model and optimizer, but is "
            f"resumed with {sorted(others) or 'nothing'}: give resume what save was given."
        )
    if about["sampler"] != (present := None if sampler is None else sampler.fingerprint()):
        return (
            f"{name} was saved with {_describe(about['sampler'])}, but is resumed with {_describe(present)}: the place "
            "in the data would be another. Give resume the sampler that save was given, made with the same arguments."
        )
    of = [key for key in index if _agent(key) == str(optimizer.place)]
    saved = {key[6:].rpartition("@")[0]: str(tuple(index[key].size)) for key in of if key.startswith("model/")}
    here = {key: str(tuple(value.shape)) for key, value in model.state_dict().items()}
    if odd := sorted(key for key in {*saved, *here} if saved.get(key, "nothing") != here.get(key, "nothing")):
        return (
            f"{name} has {saved.get(odd[0], 'nothing')} for {odd[0]} of the model, which here is "
            f"{here.get(odd[0], 'not there')} ({len(odd)} differ in all): give resume the model that save was given."
        )
    states = _states({key: torch.empty(index[key].size, device="meta") for key in of})
    return find_misfit(optimizer, {"state": states, "param_groups": about["groups"]}, shapes=True)


def _met(optimizer: "Decentralized", folder: Path) -> None:
    optimizer.exchange.meet()  # names a rank that is missing, as no all-gather can
    optimizer.check_together()
    optimizer.world.refuse(_unfit(folder, optimizer))


def _describe(sampler: str | None) -> str:
    return "no sampler" if sampler is None else f"a sampler of {sampler}"


def _steps(folder: Path) -> dict[int, int]:
    """Return the steps of which a folder has a whole checkpoint, with the number of agents of each.

    Whole is one to which every rank has written its checksums. One may disappear while this looks, since the first rank
    removes old ones.
    """
    found = {}
    for path in sorted(folder.glob("step-*")):
        if match := NAME.fullmatch(path.name):
            with contextlib.suppress(FileNotFoundError):
                told = json.loads((path / "sum-0.json").read_text())
                if all((path / f"sum-{rank}.json").exists() for rank in range(told.get("ranks", 1))):
                    found[int(match[1])] = told["agents"]
    return found


def _problem(path: Path) -> str:
    """Return what is wrong with a checkpoint, as far as this rank looks: its own files, and what all of them need."""
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    sums = [json.loads(file.read_text()) for file in sorted(path.glob("sum-*.json"))]
    if (number := sums[0].get("format")) != FORMAT:
        raise InputError(
            f"{path} has format {number}, but this version of Gossamer reads {FORMAT}: use the version that wrote it, "
            "or begin anew in another folder."
        )
    return "; ".join(filter(None, (_damage(path, told) for k, told in enumerate(sums) if k % size == rank)))


def _damage(path: Path, told: dict[str, Any]) -> str:
    for name, checksum in told["files"].items():
        file = path / os.path.basename(name)
        if not file.exists() or _checksum(file) != checksum:
            return f"{path.name}/{file.name} is damaged (its checksum does not match)"
    return ""


def _checksum(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _unfit(folder: Path, optimizer: "Decentralized") -> str:
    """Return why checkpoints of this run cannot be in a folder; "" if they can."""
    if folder.exists() and not folder.is_dir():
        return f"{folder} is a file, but checkpoints need a folder: give another path."
    if next(folder.glob("step-*-rank-*.pt"), None) is not None:
        return (
            f"{folder} holds checkpoints of an earlier version of Gossamer, which are not read any more: go on with "
            "that version, or begin anew in another folder."
        )
    if optimizer.elastic is not None and optimizer.steps:  # there were more or fewer before
        return ""
    for agents in _steps(folder).values():
        if agents != optimizer.world.size:
            return (
                f"{folder} holds checkpoints of {agents} ranks, but there are {optimizer.world.size}: start as many, "
                f"or begin from their mean, model.load_state_dict(gossamer.torch.mean_model({str(folder)!r})), before "
                "Decentralized is made, and save into another folder."
            )
    return ""


# ---- the state of an optimizer ---------------------------------------------------------------------------------------


def pack_state(optimizer: Any) -> dict[str, Any]:
    """Return the state of a `Decentralized`: see its `state_dict`."""
    optimizer.flat.check_kinds()
    memory, agent = optimizer._rounds[0].memory, optimizer.place
    places = {id(p): k for k, p in enumerate(p for group in optimizer.param_groups for p in group["params"])}
    state: dict[Any, dict[str, Any]] = {places[id(p)]: {} for p in optimizer.flat.params}
    rows = [state[places[id(p)]] for p in optimizer.flat.params]
    vectors = dict(optimizer._arrays())
    if optimizer._finite is not None:
        vectors["finite"] = optimizer._finite
    taken = 0 if optimizer.local is None else optimizer.local.taken
    if taken:
        vectors["local"] = optimizer.flat.read()
    for name, a in vectors.items():
        if a.shape == (optimizer.flat.size,):
            for row, part in zip(rows, optimizer.flat.as_parameters(a.clone()), strict=True):
                row[f"{name}@{agent}"] = part
        else:
            rows[0][f"{name}@{agent}"] = a.clone()
    for k, value in optimizer.flat.still.items():
        rows[k][f"still@{agent}"] = value.clone()
    fresh = 0
    if optimizer.local is not None:
        fresh = int(not optimizer.local.optimizer.state)
        for row, own in zip(rows, optimizer.local.states(), strict=True):
            row |= {f"inner.{key}@{agent}": value for key, value in own.items()}
    numbers = {"round": memory.t, "steps": optimizer.guard.step, "told": len(memory.told), "taken": taken}
    numbers |= {"fresh": fresh, "seconds": time.monotonic() - optimizer._began, **asdict(optimizer.counters)}
    rows[0][f"progress@{agent}"] = torch.tensor([numbers[key] for key in PROGRESS], dtype=torch.float64)
    rows[0][f"rates@{agent}"] = _pack_rates(memory.rates)
    for k, told in enumerate(memory.told):
        arrays = told.gradients if isinstance(told, Answer) else told.arrays
        about = [-1.0, 0.0] if isinstance(told, Answer) else [float(told.turns), float(told.drawn)]
        rates = torch.zeros(0, dtype=torch.float64) if told.rates is None else _pack_rates(told.rates)
        rows[0][f"told.{k}@{agent}"] = torch.cat([torch.tensor([*about, len(arrays)], dtype=torch.float64), rates])
        for j, a in enumerate(arrays):
            rows[0][f"told.{k}.{j}@{agent}"] = a.clone()
    groups = [
        {key: value for key, value in group.items() if key != "params"}
        | {"of": optimizer.saved_with(), "params": [places[id(p)] for p in group["params"]]}
        for group in optimizer.param_groups
    ]
    if optimizer.local is not None:
        groups[0]["inner"] = [
            {key: value for key, value in group.items() if key != "params"}
            for group in optimizer.local.optimizer.param_groups
        ]
    return {"state": state, "param_groups": groups}


def load_state(optimizer: Any, state_dict: dict[str, Any]) -> None:
    """Let a `Decentralized` go on from a state: see its `load_state_dict`."""
    optimizer._check_own()
    optimizer.world.refuse(find_misfit(optimizer, state_dict))
    rows, groups, agent = _rows_of(optimizer, state_dict), state_dict["param_groups"], optimizer.place
    numbers = dict(zip(PROGRESS, rows[0][f"progress@{agent}"].tolist(), strict=True))
    t, device = int(numbers["round"]), optimizer.world.device
    optimizer.world.agree({"round that was loaded": "any" if optimizer.asynchronous else str(t)})
    if optimizer.asynchronous:
        # what a neighbour may still take back is of the state before; nobody meets this one again before its next step
        optimizer.exchange.meet()
    optimizer.exchange.drain()
    for group, saved in zip(optimizer.param_groups, groups, strict=True):
        group |= {key: value for key, value in saved.items() if key not in ("params", "of", "inner")}
    for name, a in optimizer._kept.items():
        a.copy_(_join(optimizer, rows, f"{name}@{agent}", a.shape))
    for key, value in rows[0].items():
        name = key.rpartition("@")[0]
        if name not in optimizer._kept and name.partition(".")[0] not in NO_ARRAYS:  # made at the rule's start
            optimizer._kept[name] = value.to(device, copy=True)
    for bucket, rounds in zip(optimizer._buckets, optimizer._rounds, strict=True):
        rounds.kept.update(optimizer._buffers_of(bucket))
    optimizer._finite = None
    if (finite := f"finite@{agent}") in rows[0]:
        optimizer._finite = _join(optimizer, rows, finite, (optimizer.flat.size,)).to(device, copy=True)
    optimizer.flat.still.clear()
    for k, row in enumerate(rows):
        if f"still@{agent}" in row:
            optimizer.flat.still[k] = row[f"still@{agent}"].to(device, copy=True)
    optimizer.guard.step, optimizer._began = int(numbers["steps"]), time.monotonic() - numbers["seconds"]
    for name, before in asdict(optimizer.counters).items():
        setattr(optimizer.counters, name, type(before)(numbers[name]))
    told = [_read_told(optimizer, rows[0], k) for k in range(int(numbers["told"]))]
    optimizer._go(t, _unpack_rates(rows[0][f"rates@{agent}"].tolist()), told)
    if optimizer.local is not None:
        own = [
            {key[6:].rpartition("@")[0]: value for key, value in row.items() if key.startswith("inner.")}
            for row in rows
        ]
        optimizer.local.load(own, fresh=bool(numbers["fresh"]))
        for group, saved in zip(optimizer.local.optimizer.param_groups, groups[0].get("inner", ()), strict=True):
            group |= saved
        optimizer.local.taken = int(numbers["taken"])
        if optimizer.local.taken:
            optimizer.flat.write(_join(optimizer, rows, f"local@{agent}", (optimizer.flat.size,)).to(device))


def find_misfit(optimizer: Any, state_dict: dict[str, Any], shapes: bool = False) -> str:
    """Return why this optimizer cannot load a state, of which there may be the `shapes` alone; "" if it can."""
    groups, agent = state_dict.get("param_groups", []), optimizer.place
    if not groups or "of" not in groups[0]:
        return "this is no state of Decentralized, which says what rule it is of: give what its state_dict() returned."
    saved, mine = groups[0]["of"], optimizer.saved_with()
    for key, value in mine.items():
        if saved.get(key) != value:
            return (
                f"this state is of {key} = {saved.get(key)!r}, but the optimizer has {value!r}: make it with the "
                "rule, the network, the overlap, the seed, the inner optimizer and the type of parameters that it "
                "was saved with."
            )
    rows = _rows_of(optimizer, state_dict)
    held = sum(a.numel() for row in rows for key, a in row.items() if key.startswith("x@"))
    size = sum(p.numel() for p in optimizer.flat.params)
    if len(groups) != len(optimizer.param_groups) or held != size:
        return f"this state is of a model with {held} numbers, but the optimizer's has {size}."
    of = sorted({key.rpartition("@")[2] for row in rows for key in row})
    if f"progress@{agent}" not in rows[0]:
        return (
            f"this state was saved by rank {', '.join(of)}, but this is rank {agent} of {optimizer.world.size}: every "
            "rank must load its own, since models and trackers differ between ranks. gossamer.torch.save and "
            "resume keep one for each; on another number of ranks begin from the mean model, "
            "gossamer.torch.mean_model(folder)."
        )
    if shapes:
        return ""
    numbers = dict(zip(PROGRESS, rows[0][f"progress@{agent}"].tolist(), strict=True))
    wanted = [f"told.{k}@{agent}" for k in range(int(numbers["told"]))]
    wanted += [f"local@{agent}"] * bool(numbers["taken"])
    wanted += [f"{name}@{agent}" for name in optimizer._kept] if numbers["round"] >= 0 else []
    if missing := [key for key in wanted if key not in rows[0]]:
        return (
            f"this state lacks {missing[0]} ({len(missing)} in all): it was saved in the middle of a round, and "
            "loaded into a state_dict() that had no place for that. Load all that was saved, as "
            "gossamer.torch.resume does, or save between rounds."
        )
    return ""


def _rows_of(optimizer: Any, state_dict: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a state has for each trained parameter; its own numbers or names of parameters are in order."""
    saved = [key for group in state_dict["param_groups"] for key in group["params"]]
    mine = [p for group in optimizer.param_groups for p in group["params"]]
    trained = {id(p) for p in optimizer.flat.params}
    found = [state_dict["state"].get(key, {}) for key, p in zip(saved, mine, strict=False) if id(p) in trained]
    return found + [{}] * (len(optimizer.flat.params) - len(found))


def _join(optimizer: Any, rows: list[dict[str, Any]], key: str, shape: Any) -> Tensor:
    """Return an array that was saved in pieces, by parameter, or whole at the first."""
    if tuple(shape) != (optimizer.flat.size,):
        return rows[0][key]
    return torch.cat([local(row[key]).reshape(-1) for row in rows])


def _read_told(optimizer: Any, row: dict[str, Any], k: int) -> Answer | Loop:
    """Return what the rule was told k-th in its round."""
    turns, drawn, count, *rates = row[f"told.{k}@{optimizer.place}"].tolist()
    own = [row[f"told.{k}.{j}@{optimizer.place}"] for j in range(int(count))]
    arrays = tuple(a.to(optimizer.world.device, copy=True) for a in own)
    then = _unpack_rates(rates) if rates else None
    if turns < 0:
        assert then is not None
        return Answer(arrays, then)
    return Loop(int(turns), arrays, then, int(drawn))


def random_states() -> dict[str, Any]:
    """Return where the generators stand that a script may draw from, as ``weights_only`` can read it."""
    kind, words, place, has_normal, normal = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "python": random.getstate(),
        "numpy": [kind, torch.from_numpy(np.asarray(words, np.int64)), place, has_normal, normal],
    }


def restore_random_states(states: dict[str, Any]) -> None:
    """Put the generators where they stood."""
    torch.set_rng_state(states["torch"])
    if states["cuda"]:
        torch.cuda.set_rng_state_all(states["cuda"])
    random.setstate(states["python"])
    kind, words, place, has_normal, normal = states["numpy"]
    np.random.set_state((kind, words.numpy().astype(np.uint32), place, has_normal, normal))


def _pack_rates(rates: Rates) -> Tensor:
    """Return rates as numbers, NaN for None: the momentum, and η of each group."""
    given = [rates.momentum, *rates.eta]
    return torch.tensor([math.nan if rate is None else rate for rate in given], dtype=torch.float64)


def _unpack_rates(saved: list[float]) -> Rates:
    """Return the rates that were packed."""
    first, *etas = [None if math.isnan(rate) else rate for rate in saved]
    return Rates(etas, first)
