"""An example that trains by somebody else's trainer, against a plain loop and itself in two lives, on every rank.

Started by torchrun, as trainers look at what it sets: `python recipes.py NAME FOLDER`.
"""

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
STEPS, STOP, EVERY = 30, 25, 5
"""The run that is interrupted stops in its second epoch."""


def lightning(recipe: dict[str, Any]) -> tuple[Any, ...]:
    from torch.nn.functional import cross_entropy

    module, loader = recipe["make"]()
    made = module.configure_optimizers()
    scheduler = made["lr_scheduler"]["scheduler"]
    return module, made["optimizer"], scheduler, loader, lambda m, b: cross_entropy(m.model(b[0]), b[1])


def accelerate(recipe: dict[str, Any]) -> tuple[Any, ...]:
    """The loader alone is prepared, as the example splits one shuffled data set over the ranks."""
    from torch.nn.functional import cross_entropy

    accelerator, *parts, loader = recipe["make"]()
    return *parts, accelerator.prepare(loader), lambda m, b: cross_entropy(m(b[0]), b[1])


def huggingface(recipe: dict[str, Any]) -> tuple[Any, ...]:
    return *recipe["make"](), lambda m, b: m(**b).loss


def plain(model: Any, optimizer: Any, scheduler: Any, loader: Any, loss: Any) -> Any:
    """The same steps in a loop."""
    from torch.nn.utils import clip_grad_norm_

    step = epoch = 0
    while step < STEPS:
        if hasattr(loader, "set_epoch"):
            loader.set_epoch(epoch)
        for batch in loader:
            optimizer.zero_grad()
            loss(model, batch).backward()
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            step += 1
            if step == STEPS:
                break
        epoch += 1
    return model


def numbers(model: Any) -> list[float]:
    """A sum of every parameter, to the last bit."""
    return [p.detach().double().sum().item() for p in model.parameters()]


def main(name: str, folder: Path) -> None:
    recipe = runpy.run_path(str(EXAMPLES / f"torch_{name}.py"))
    found = {"whole": numbers(recipe["main"](STEPS, str(folder / "whole"), EVERY))}
    recipe["main"](STOP, str(folder / "parts"), EVERY)
    found["in two lives"] = numbers(recipe["main"](STEPS, str(folder / "parts"), EVERY))
    parts = globals()[name](recipe)
    found["plain"] = numbers(plain(*parts).train())
    found["apart"] = [parts[1].consensus_error()]
    (folder / f"rank-{os.environ['RANK']}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
