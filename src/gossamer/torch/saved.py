"""Where a rule stands as plain lists, dicts and tensors, which ``weights_only`` can read, and back."""

from typing import Any

import torch
from torch import Tensor

from gossamer.core import State
from gossamer.torch.rounds import Answer, Loop, Memory


def packed(memory: Memory) -> dict[str, Any]:
    """A memory as it is saved."""
    return {
        "round": memory.t,
        "state": dict(memory.state) | {"x": memory.state.x.clone()},  # it may be the parameters' own memory
        "rates": list(memory.rates),
        "told": [
            {"answer": list(one.gradients), "rates": list(one.rates)}
            if isinstance(one, Answer)
            else {"loop": [one.turns, one.drawn], "arrays": list(one.arrays), "rates": one.rates}
            for one in memory.told
        ],
    }


def unpacked(saved: dict[str, Any], device: torch.device) -> Memory:
    """A memory from what was saved, in memory of its own."""

    def own(arrays: list[Tensor]) -> tuple[Tensor, ...]:
        return tuple(a.to(device, copy=True) for a in arrays)

    told: list[Answer | Loop] = []
    for one in saved["told"]:
        if "answer" in one:
            told.append(Answer(own(one["answer"]), list(one["rates"])))
        else:
            turns, drawn = one["loop"]
            told.append(Loop(turns, own(one["arrays"]), one["rates"], drawn))
    state = State(**dict(zip(saved["state"], own(list(saved["state"].values())), strict=True)))
    return Memory(saved["round"], state, list(saved["rates"]), told)


def misfit(saved: dict[str, Any], facts: dict[str, Any], size: int) -> str:
    """Why a saved state cannot be loaded by an optimizer of these facts and so many numbers; "" if it can."""
    if "rule" not in saved:
        return "this is no state of Decentralized, which says what rule it is of: give what its state_dict() returned."
    if (by := saved.get("saved by")) != (here := facts["saved by"]):
        return (
            f"this state was saved by {by}, but this is {here}: every rank must load its own, since models and "
            "trackers differ between ranks. gossamer.torch.save and resume keep one for each; on another number of "
            "ranks begin from the mean model, gossamer.torch.mean_model(folder)."
        )
    for key, value in facts.items():
        if saved.get(key) != value:
            return (
                f"this state is of {key} = {saved.get(key)!r}, but the optimizer has {value!r}: make it with the rule, "
                "the network, the overlap, the seed, the inner optimizer and the type of parameters that it was saved "
                "with."
            )
    if (held := saved["state"]["x"].numel()) != size:
        return f"this state is of a model with {held} numbers, but the optimizer's has {size}."
    return ""
