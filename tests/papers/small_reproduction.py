"""`gossamer reproduce --quick` on small data: the same code in as many processes, a hundredth of the work.

A script, which the processes that it starts import again: they have the small specs too.
"""

import atexit
import multiprocessing
import os
from pathlib import Path
from typing import Any

from gossamer.basics import cache

if cache.remember(cache.place()):  # before JAX is imported
    atexit.register(cache.seal)

from gossamer.cli import main
from gossamer.core import InputError
from gossamer.papers import paper, reproduction

quick = paper.shorten
STEPS = int(os.environ.get("STEPS", "60"))
DATA = str(Path(__file__).with_name("small.csv"))


def small(spec, least):
    name = spec.experiment
    if name == os.environ.get("FAILING") and multiprocessing.parent_process():
        raise InputError(f"{name} fails on purpose.")
    short = quick(spec, least)
    run = {"steps": STEPS, "every": STEPS // 3, "seeds": 3, "together": 4}
    variants = [variant.model_copy(update={"run": {}, "tuning": {}}) for variant in short.variant[:2]]
    update: dict[str, Any] = {"problem": spec.problem | {"data": DATA, "agents": 4, "alpha": 0.1}, "variant": variants}
    if short.tuning:
        update["tuning"] = short.tuning.model_copy(update={"budget": 4, "replicates": 3, "together": 4})
    else:
        run["settle"] = 2 * STEPS
    return short.model_copy(update=update | {"run": short.run.model_copy(update=run)})


paper.shorten = small
# most of the time is for figures, which the whole quick run draws
reproduction.report.write_artifacts = reproduction.report.draw = lambda *_, **__: []

if __name__ == "__main__":
    main()
