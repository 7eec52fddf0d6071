"""Checkpoints: a folder of torch.distributed.checkpoint (DCP) for each step, with keys that name the agent.

A checkpoint holds the model of every agent, the state of its rule, its place in the data and its random generators, so
that on CPUs an interrupted run ends with the same bits as one that was not. It counts once every rank has written the
checksums of its files. Nothing in it is executed: all entries are tensors, what else is saved is bytes that are read
with ``weights_only=True``, and the index is unpickled from a short list of classes.
"""

import atexit
import contextlib
import hashlib
import io
import json
import math
import pickle
import random
import re
import shutil
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gossamer.basics.lazy import Lazy
from gossamer.core import InputError, whole
from gossamer.torch.exchange import Counters
from gossamer.torch.flat import local
from gossamer.torch.rounds import Evaluation, Loop, Rates
from gossamer.torch.sampler import SplitSampler
from gossamer.torch.world import in_short

if TYPE_CHECKING:
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    from gossamer.torch.optimizer import Decentralized

dcp: Any = Lazy("torch.distributed.checkpoint")  # DCP, imported when it is used: that takes as long as all of PyTorch

NAME = re.compile(r"step-(\d{9})")
FORMAT = 4  # the format of the folders that are written and read
INDEX = {
    "torch": {"Size", "device", *(name for name, value in vars(torch).items() if isinstance(value, torch.dtype))},
    "torch.distributed.checkpoint.metadata": {
        *("Metadata", "MetadataIndex", "StorageMeta", "ChunkStorageMetadata", "TensorStorageMetadata"),
        *("TensorProperties", "BytesStorageMetadata", "_MEM_FORMAT_ENCODING"),
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.serialization": {"_get_layout"},
    "torch._utils": {"_rebuild_dtype"},
    "collections": {"OrderedDict"},
    "pathlib": {"PosixPath", "WindowsPath"},
}
"""By module, the names that the index of a folder may be made of."""
PROGRESS = ("round", "steps", "answers", "taken", "fresh", "seconds", *(field.name for field in fields(Counters)))
"""The numbers of a state that are one each: they are saved as one vector, in this order."""
NO_ARRAYS = ("answers", "inner", "progress", "rates", "finite", "local", "still")
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
        folder: the same one for all ranks, on a file system that they share.
        step: how many steps have been taken.
        model: its parameters and buffers are kept.
        optimizer: the state of its rule is kept.
        sampler: its place is kept, which is after one batch for each step.
        batches: how many batches have been used, if it is not one for each step.
        keep: how many of the newest checkpoints are kept; older ones are removed once this one is complete.
        wait: whether to wait until it is written. If not, it is copied, and written while training goes on; the next
            one waits for it, and so does `written`.
        others: other objects with a ``state_dict``, such as ``scheduler=scheduler``.
    """
    whole("keep", keep)
    used = step if batches is None else batches
    if sampler is not None:
        sampler.check_used(used)
    written()
    folder, exchange = Path(folder), optimizer.exchange
    path, rank = folder / f"step-{step:09d}", torch.distributed.get_rank()

    def check() -> None:
        exchange.meet()  # names a rank that is missing, as no all-gather can
        optimizer.check_together()
        optimizer.world.refuse(_find_other_size(folder, optimizer))

    optimizer.together(check)
    state = optimizer.state_dict()
    about = {
        "batches": used,
        "sampler": None if sampler is None else sampler.fingerprint(),
        "others": {name: other.state_dict() for name, other in others.items()},
        "random": random_states(),
        "groups": state["param_groups"],
    }
    content = _tensors(model, optimizer, state) | {_own_key(optimizer): _as_tensor(about)}
    if path.exists() and rank == 0:
        shutil.rmtree(path)  # an interrupted one of this step, or one that is written anew
    optimizer.together(exchange.meet)

    def complete() -> None:
        """Write the checksums of this rank's files, which end the checkpoint."""
        mine = [*path.glob(f"__{rank}_*.distcp"), *([path / ".metadata"] if rank == 0 else [])]
        sums = {file.name: _checksum(file) for file in mine}
        ranks, draft = torch.distributed.get_world_size(), path / f".sum-{rank}"
        draft.write_text(json.dumps({"format": FORMAT, "ranks": ranks, "agents": optimizer.world.size, "files": sums}))
        draft.replace(path / f"sum-{rank}.json")

    if wait:
        dcp.save(content, checkpoint_id=path)
        complete()
        optimizer.together(exchange.meet)  # until all have written, the last complete step must stay
        _remove_old(folder, step, keep, rank)
    else:
        future = dcp.async_save(content, checkpoint_id=path)
        _PENDING.append((future, lambda: (complete(), _remove_old(folder, step, keep, rank))))
    return path


_PENDING: list[tuple[Any, Callable[[], Any]]] = []  # what is being written in the background, and what is done then


@atexit.register
def written() -> None:
    """Wait until a checkpoint that was saved with ``wait=False`` is written."""
    while _PENDING:
        future, end = _PENDING.pop(0)
        getattr(future, "upload_completion", future).result()
        end()


def _remove_old(folder: Path, step: int, keep: int, rank: int) -> None:
    """Remove all but the newest checkpoints up to this step, and warn if there are later ones."""
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
        # its sums first: an interrupted removal leaves a checkpoint that does not count
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

    A damaged checkpoint is left out with a warning. One of another format is an error: a run should not go back in time
    unasked.
    """
    world, folder = optimizer.world, Path(folder)
    if optimizer.elastic is not None and optimizer.elastic.joined:  # the others are on their way, and do not resume
        return optimizer.steps
    world.refuse(_find_other_size(folder, optimizer))
    # the list of the first rank counts: on a shared file system a folder may appear to some of them later
    found = json.loads(world.texts(json.dumps(sorted(_steps(folder), reverse=True)))[0])
    damaged: list[str] = []
    for step in found:
        path = folder / f"step-{step:09d}"
        mine = _find_damage(path, world.rank, world.size)
        problems = [text for text in world.texts(mine) if text]
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
    """Read what this rank has in a checkpoint, and load it, unless some rank refuses."""
    world, own, place = optimizer.world, _own_key(optimizer), f"@{optimizer.place}"
    index = _read_index(reader := _reader(path))
    known = own in index
    world.refuse("" if known else f"{path.name} holds nothing of rank {optimizer.place}: was it saved by these ranks?")
    here = _tensors(model, optimizer, optimizer.state_dict())
    content = {
        # a shard must be read into its like; what does not fit is read as it is, and refused below
        key: torch.empty_like(here[key]) if key in here and here[key].shape == entry.size else _room(entry)
        for key, entry in index.items()
        if key == own or (key.endswith(place) and not key.startswith("about/"))
    }
    dcp.load(content, storage_reader=reader)
    about: dict[str, Any] = {}
    try:
        about = _as_object(content.pop(own))
        problem = _find_other_script(content, about, model, optimizer, sampler, others)
    except InputError as error:
        problem = str(error)
    world.refuse(problem and f"{path.name} {problem}")
    states: dict[int, dict[str, Any]] = {}
    for key, value in content.items():
        if key.startswith("optimizer/"):
            _, number, name = key.split("/", 2)
            states.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({"state": states, "param_groups": about["groups"]})  # refuses before it changes anything
    trained = {p.data_ptr() for p in optimizer.flat.params}
    with torch.no_grad():
        for key, value in model.state_dict().items():
            if value.data_ptr() not in trained:  # those have come with the optimizer's state
                value.copy_(content[f"model/{key}{place}"])
    for name, other in others.items():
        other.load_state_dict(about["others"][name])
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
    step, agents = max(stored.items())
    path = folder / f"step-{step:09d}"
    if damage := _find_damage(path):
        raise InputError(f"in {folder}, {damage}. Restore it, or remove the folder of this step.")
    index = _read_index(reader := _reader(path))
    sums: dict[str, Tensor] = {}
    first: dict[str, Tensor] = {}
    for agent in range(agents):  # one of them in memory at a time, beside the sum
        keys = [key for key in index if key.startswith("model/") and key.endswith(f"@{agent}")]
        model = {key: _room(index[key]) for key in keys}
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # it says that there is one process
            dcp.load(model, storage_reader=reader, no_dist=True)
        for key, value in model.items():
            name = _name_in_model(key)
            first.setdefault(name, value)
            if value.is_floating_point():
                sums[name] = sums[name] + value.double() if name in sums else value.double()
    return first | {name: (total / agents).to(first[name].dtype) for name, total in sums.items()}


# ---- the files -------------------------------------------------------------------------------------------------------


def _steps(folder: Path) -> dict[int, int]:
    """Return the steps of which a folder has a complete checkpoint, with the number of agents of each."""
    found = {}
    for path in sorted(folder.glob("step-*")):
        if match := NAME.fullmatch(path.name):
            with contextlib.suppress(FileNotFoundError):  # the first rank may be removing it
                record = json.loads((path / "sum-0.json").read_text())
                if all((path / f"sum-{rank}.json").exists() for rank in range(record["ranks"])):
                    found[int(match[1])] = record["agents"]
    return found


def _find_other_size(folder: Path, optimizer: "Decentralized") -> str:
    """Return why a folder is that of a run of another size; "" if it is not."""
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


def _find_damage(path: Path, rank: int = 0, size: int = 1) -> str:
    """Return which file of a checkpoint is damaged; "" if none is. `size` ranks look at the files of some each.

    DCP itself does not: of 200 bits flipped in a file, 37 gave other numbers without an error.
    """
    for record in [json.loads(file.read_text()) for file in sorted(path.glob("sum-*.json"))][rank::size]:
        if record["format"] != FORMAT:
            raise InputError(
                f"{path} has format {record['format']}, but this version of Gossamer reads {FORMAT}: use the version "
                "that wrote it, or begin anew in another folder."
            )
        for name, checksum in record["files"].items():
            file = path / Path(name).name
            if not file.exists() or _checksum(file) != checksum:
                return f"{path.name}/{file.name} is damaged (its checksum does not match)"
    return ""


def _checksum(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


class _IndexUnpickler(pickle.Unpickler):
    """An unpickler of nothing but what an index is made of."""

    def find_class(self, module: str, name: str) -> Any:
        if name not in INDEX.get(module, ()):
            raise pickle.UnpicklingError(f"{module}.{name} has no place in an index")
        return super().find_class(module, name)


def _reader(path: Path) -> Any:
    """Return the reader of a folder, which unpickles its index in a safe way, as that of DCP does not."""

    class Reader(dcp.FileSystemReader):
        def read_metadata(self, *args: Any, **kwargs: Any) -> Any:
            try:
                with (path / ".metadata").open("rb") as file:
                    metadata = _IndexUnpickler(file).load()
                metadata.storage_meta.load_id = self.load_id
            except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, ValueError, TypeError) as error:
                raise InputError(f"{path / '.metadata'} is no index of a checkpoint ({in_short(error)}).") from error
            return metadata

    return Reader(path)


def _read_index(reader: Any) -> dict[str, "TensorStorageMetadata"]:
    entries = reader.read_metadata().state_dict_metadata
    if odd := [key for key, entry in entries.items() if not hasattr(entry, "size")]:  # bytes, which DCP would unpickle
        raise InputError(f"{odd[0]} is no tensor: this checkpoint was not written by gossamer.torch.save.")
    return entries


def _tensors(model: torch.nn.Module, optimizer: "Decentralized", state: dict[str, Any]) -> dict[str, Any]:
    """Return what is saved of the model and the optimizer, a key for each tensor, which names the agent."""
    of = {f"model/{key}@{optimizer.place}": value for key, value in model.state_dict().items()}
    return of | {f"optimizer/{k}/{key}": value for k, row in state["state"].items() for key, value in row.items()}


def _name_in_model(key: str) -> str:
    return key.removeprefix("model/").rpartition("@")[0]


def _own_key(optimizer: "Decentralized") -> str:
    """Return the key of what each process has for itself, such as its generators; a node may have several."""
    return f"about/{optimizer.world.part}@{optimizer.place}"


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
        raise InputError(f"has something that PyTorch cannot read ({in_short(error)}).") from error


def _find_other_script(
    content: dict[str, Tensor],
    about: dict[str, Any],
    model: torch.nn.Module,
    optimizer: "Decentralized",
    sampler: SplitSampler | None,
    others: dict[str, Any],
) -> str:
    """Return in what a checkpoint was saved with other things than it is resumed with; "" if in nothing."""
    if set(about["others"]) != set(others):
        return (
            f"was saved with {sorted(about['others']) or 'nothing'} besides model and optimizer, but is "
            f"resumed with {sorted(others) or 'nothing'}: give resume what save was given."
        )
    if about["sampler"] != (present := None if sampler is None else sampler.fingerprint()):
        return (
            f"was saved with a sampler of {about['sampler']}, but is resumed with one of {present}: the place in the "
            "data would be another. Give resume the sampler that save was given, made with the same arguments."
        )
    saved = {_name_in_model(key): tuple(a.shape) for key, a in content.items() if key.startswith("model/")}
    here = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    if odd := sorted(key for key in {*saved, *here} if saved.get(key) != here.get(key)):
        return (
            f"has {saved.get(odd[0], 'nothing')} for {odd[0]} of the model, which here is "
            f"{here.get(odd[0], 'not there')} ({len(odd)} differ in all): give resume the model that save was given."
        )
    return ""


# ---- the state of an optimizer ---------------------------------------------------------------------------------------


def pack_state(optimizer: Any) -> dict[str, Any]:
    """Return the state of a `Decentralized`: see its `state_dict`."""
    flat, inner = optimizer.flat, optimizer.local
    flat.check_kinds()
    rounds, at = optimizer._rounds, f"@{optimizer.place}"
    places = {id(p): k for k, p in enumerate(p for group in optimizer.param_groups for p in group["params"])}
    state: dict[Any, dict[str, Any]] = {places[id(p)]: {} for p in flat.params}
    rows = list(state.values())
    vectors, taken = dict(rounds.buffers), 0 if inner is None else inner.taken
    if optimizer._finite is not None:
        vectors["finite"] = optimizer._finite
    if taken:
        vectors["local"] = flat.read()
    for name, a in vectors.items():
        if a.shape == (flat.size,):
            for row, part in zip(rows, flat.as_parameters(a.clone()), strict=True):
                row[name + at] = part
        else:
            rows[0][name + at] = a.clone()
    for k, value in flat.frozen_later.items():
        rows[k]["still" + at] = value.clone()
    for row, own in zip(rows, [{}] * len(rows) if inner is None else inner.states(), strict=True):
        row |= {f"inner.{key}{at}": value for key, value in own.items()}
    numbers = {"round": rounds.t, "steps": optimizer.guard.step, "answers": len(rounds.answers), "taken": taken}
    numbers |= {"fresh": int(inner is not None and not inner.optimizer.state)}
    numbers |= {"seconds": time.monotonic() - optimizer._began, **asdict(optimizer.counters)}
    rows[0]["progress" + at] = _doubles(numbers[key] for key in PROGRESS)
    rows[0]["rates" + at] = _doubles(_pack_rates(rounds.rates))
    for k, answer in enumerate(rounds.answers):
        is_loop = isinstance(answer, Loop)
        arrays, about = (answer.arrays, [answer.turns, answer.drawn]) if is_loop else (answer.gradients, [-1, 0])
        rows[0][f"answers.{k}{at}"] = _doubles([*about, len(arrays), *_pack_rates(answer.rates)])
        rows[0] |= {f"answers.{k}.{j}{at}": a.clone() for j, a in enumerate(arrays)}
    groups = [
        _options(group) | {"of": optimizer.saved_with(), "params": [places[id(p)] for p in group["params"]]}
        for group in optimizer.param_groups
    ]
    if inner is not None:
        groups[0]["inner"] = [_options(group) for group in inner.optimizer.param_groups]
    return {"state": state, "param_groups": groups}


def load_state(optimizer: Any, state_dict: dict[str, Any]) -> None:
    """Let a `Decentralized` go on from a state: see its `load_state_dict`."""
    optimizer._check_own()
    optimizer.world.refuse(find_misfit(optimizer, state_dict))
    rows, groups, at = _rows_of(optimizer, state_dict), state_dict["param_groups"], f"@{optimizer.place}"
    numbers = dict(zip(PROGRESS, rows[0]["progress" + at].tolist(), strict=True))
    t, device, flat = int(numbers["round"]), optimizer.world.device, optimizer.flat
    buffers = optimizer._rounds.buffers
    optimizer.world.agree({"round that was loaded": "any" if optimizer.asynchronous else str(t)})
    if optimizer.asynchronous:
        # what a neighbour may still take back is of the state before; nobody meets this one again before its next step
        optimizer.exchange.meet()
    optimizer.exchange.drain()
    for group, saved in zip(optimizer.param_groups, groups, strict=True):
        group |= {key: value for key, value in _options(saved).items() if key not in ("of", "inner")}

    def join(name: str) -> Tensor:
        """Return an array of the model's length, which was saved in pieces, by parameter."""
        return torch.cat([local(row[name + at]).reshape(-1) for row in rows]).to(device)

    for name, a in buffers.items():
        a.copy_(join(name) if a.shape == (flat.size,) else rows[0][name + at])
    for key, value in rows[0].items():
        name = key.rpartition("@")[0]
        if name not in buffers and name.partition(".")[0] not in NO_ARRAYS:  # the rule makes it only at its start
            is_in_pieces = value.shape == flat.params[0].shape and all(key in row for row in rows)
            buffers[name] = join(name) if is_in_pieces else value.to(device, copy=True)
    optimizer._finite = join("finite") if "finite" + at in rows[0] else None
    flat.frozen_later.clear()
    flat.frozen_later |= {
        k: row["still" + at].to(device, copy=True) for k, row in enumerate(rows) if "still" + at in row
    }
    optimizer.guard.step, optimizer._began = int(numbers["steps"]), time.monotonic() - numbers["seconds"]
    for name, before in asdict(optimizer.counters).items():
        setattr(optimizer.counters, name, type(before)(numbers[name]))
    answers: list[Evaluation | Loop] = []
    for k in range(int(numbers["answers"])):
        turns, drawn, count, *packed = rows[0][f"answers.{k}{at}"].tolist()
        arrays = tuple(rows[0][f"answers.{k}.{j}{at}"].to(device, copy=True) for j in range(int(count)))
        rates, is_loop = _unpack_rates(packed), turns >= 0
        answers.append(Loop(rates, int(drawn), int(turns), arrays) if is_loop else Evaluation(arrays, rates))
    optimizer._go(t, _unpack_rates(rows[0]["rates" + at].tolist()), answers)
    if (inner := optimizer.local) is not None:
        own = [
            {key[6:].rpartition("@")[0]: value for key, value in row.items() if key.startswith("inner.")}
            for row in rows
        ]
        inner.load(own, fresh=bool(numbers["fresh"]))
        for group, saved in zip(inner.optimizer.param_groups, groups[0].get("inner", ()), strict=True):
            group |= saved
        inner.taken = int(numbers["taken"])
        if inner.taken:
            flat.write(join("local"))


def find_misfit(optimizer: Any, state_dict: dict[str, Any]) -> str:
    """Return why this optimizer cannot load a state; "" if it can."""
    groups, at = state_dict.get("param_groups", []), f"@{optimizer.place}"
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
    saved_size = sum(a.numel() for row in rows for key, a in row.items() if key.startswith("x@"))
    size = sum(p.numel() for p in optimizer.flat.params)
    if len(groups) != len(optimizer.param_groups) or saved_size != size:
        return f"this state is of a model with {saved_size} numbers, but the optimizer's has {size}."
    if "progress" + at not in rows[0]:
        ranks = sorted({key.rpartition("@")[2] for row in rows for key in row})
        return (
            f"this state was saved by rank {', '.join(ranks)}, but this is rank {optimizer.place} of "
            f"{optimizer.world.size}: every rank must load its own, since models and trackers differ between ranks. "
            "gossamer.torch.save and resume keep one for each; on another number of ranks begin from the mean model, "
            "gossamer.torch.mean_model(folder)."
        )
    numbers = dict(zip(PROGRESS, rows[0]["progress" + at].tolist(), strict=True))
    wanted = [f"answers.{k}" for k in range(int(numbers["answers"]))] + ["local"] * bool(numbers["taken"])
    wanted += optimizer._rounds.buffers if numbers["round"] >= 0 else []
    if missing := [name + at for name in wanted if name + at not in rows[0]]:
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


def _options(group: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in group.items() if key != "params"}


def _doubles(values: Iterable[float]) -> Tensor:
    return torch.tensor([*values], dtype=torch.float64)


def _pack_rates(rates: Rates) -> list[float]:
    """Return the momentum, and η of each group, NaN for None."""
    return [math.nan if rate is None else rate for rate in (rates.momentum, *rates.eta)]


def _unpack_rates(saved: list[float]) -> Rates:
    """Return the rates that were packed."""
    momentum, *etas = [None if math.isnan(rate) else rate for rate in saved]
    return Rates(etas, momentum)


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
