"""States that are saved and loaded by tools that know nothing of agents: torch.save, DCP, and what stands on it."""

from functools import partial
from pathlib import Path

import gossamer as gs

RULES = ["biased-dmt", "d-psgd", "d-adamw", "gnsd", "adamw inside", "extra"]
WAYS = ["torch.save", "dcp", "dcp async", "state_dict of dcp", "own"]


def made(name, rank):
    import torch

    from gossamer.torch import Decentralized
    from tests.torch_engine import quadratics

    rules = {
        "biased-dmt": gs.BiasedDMT(eta=0.05, lam=0.3),
        "d-psgd": gs.DPSGD(eta=0.05),
        "d-adamw": gs.DAdamW(eta=0.05),
        "gnsd": gs.GNSD(eta=0.05),
        "adamw inside": gs.BiasedDMT(eta=0.7, lam=0.3),
        "extra": gs.EXTRA(eta=0.05),
    }
    halves, loss = quadratics.model(rank, 4)
    model = torch.nn.ParameterList(halves)
    inner = {"inner": partial(torch.optim.AdamW, lr=0.03), "local_steps": 2} if name == "adamw inside" else {}
    optimizer = Decentralized(model.parameters(), rules[name], "ring", timeout=30, **inner)
    return model, optimizer, loss, halves


def all_ways(rank, size, folder):
    """For each rule and way, "" if a run that goes on from what was saved has the same bits, or how it has not."""
    import torch

    from tests.torch_engine import quadratics

    found = {}
    for name in RULES:
        model, optimizer, loss, halves = made(name, rank)
        quadratics.train(optimizer, loss, 4)
        for way in WAYS:
            stored(way, Path(folder, f"{name}-{way}".replace(" ", "-")), model, optimizer, rank)
        quadratics.train(optimizer, loss, 4)
        straight = quadratics.joined(halves).copy()
        found[name] = {}
        for way in WAYS:
            model, optimizer, loss, halves = made(name, rank)
            try:
                loaded(way, Path(folder, f"{name}-{way}".replace(" ", "-")), model, optimizer, rank)
                quadratics.train(optimizer, loss, 4)
                same = (quadratics.joined(halves) == straight).all()
                found[name][way] = "" if same else f"{quadratics.joined(halves)} in place of {straight}"
            except Exception as error:
                found[name][way] = f"{type(error).__name__}: {error}"
    found |= {"aliases": aliases(made("biased-dmt", rank))}
    found["mixed"], found["chosen"] = mixed(Path(folder, "mixed"), rank)
    del torch
    return found


def stored(way, path, model, optimizer, rank):
    import torch
    from torch.distributed.checkpoint.state_dict import get_state_dict

    from gossamer.torch import save
    from gossamer.torch.checkpoint import dcp

    path.mkdir(exist_ok=True)
    if way == "torch.save":
        torch.save(optimizer.state_dict(), path / f"{rank}.pt")
    elif way == "dcp":
        dcp.save({"model": model.state_dict(), "optim": optimizer.state_dict()}, checkpoint_id=path)
    elif way == "dcp async":
        dcp.async_save({"model": model.state_dict(), "optim": optimizer.state_dict()}, checkpoint_id=path).result()
    elif way == "state_dict of dcp":
        of_model, of_optimizer = get_state_dict(model, optimizer)
        dcp.save({"model": of_model, "optim": of_optimizer}, checkpoint_id=path)
    else:
        save(path, 4, model, optimizer)


def loaded(way, path, model, optimizer, rank):
    import torch
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    from gossamer.torch import resume
    from gossamer.torch.checkpoint import dcp

    if way == "torch.save":
        optimizer.load_state_dict(torch.load(path / f"{rank}.pt", weights_only=True))
    elif way in ("dcp", "dcp async"):
        state = {"model": model.state_dict(), "optim": optimizer.state_dict()}
        dcp.load(state, checkpoint_id=path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optim"])
    elif way == "state_dict of dcp":
        of_model, of_optimizer = get_state_dict(model, optimizer)
        state = {"model": of_model, "optim": of_optimizer}
        dcp.load(state, checkpoint_id=path)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
    else:
        assert resume(path, model, optimizer) == 4


def aliases(run):
    """Entries of a state, or arrays in `optimizer.state`, that begin in the same memory, after a step."""
    from tests.torch_engine import quadratics

    _, optimizer, loss, _ = run
    quadratics.train(optimizer, loss, 2)
    entries = [(f"state/{key}", a) for row in optimizer.state_dict()["state"].values() for key, a in row.items()]
    entries += [(f"kept/{key}", a) for row in optimizer.state.values() for key, a in row.items()]
    places = {}
    for key, a in entries:
        places.setdefault(a.data_ptr(), []).append(key)
    return [names for names in places.values() if len(names) > 1]


def mixed(path, rank):
    """What is said where a script loads the model by DCP and leaves the optimizer as it is; whose model all got."""
    import torch
    import torch.distributed as dist

    from gossamer.torch.checkpoint import dcp
    from tests.torch_engine import quadratics

    model, optimizer, loss, halves = made("biased-dmt", rank)
    quadratics.train(optimizer, loss, 3)
    before = quadratics.joined(halves).copy()
    dcp.save({"model": model.state_dict()}, checkpoint_id=path)
    dcp.load({"model": model.state_dict()}, checkpoint_id=path)
    mine = torch.tensor([float((quadratics.joined(halves) == before).all())])
    gathered = [torch.zeros(1) for _ in range(4)]
    dist.all_gather(gathered, mine)
    chosen = next((k for k, one in enumerate(gathered) if one.item()), -1)
    try:
        optimizer.flat.check_kinds()
        optimizer._check_parameters()
    except gs.InputError as error:
        return str(error), chosen
    return "", chosen
