"""`gossamer reproduce --quick` on small data: the same code in as many processes, a hundredth of the work.

A script, which the processes that it starts import again: they have the small specs too.
"""

from gossamer import paper
from gossamer.cli import main

quick = paper._shortened


def small(name, spec):
    short = quick(name, spec)
    changed = {"steps": 60, "every": 20, "seeds": 3, "settle": 120 if name == "fig2" else None, "together": 4}
    update = {"problem": spec.problem | {"data": "breast-cancer", "agents": 4}, "run": short.run.model_copy(update=changed)}
    if short.tuning:
        update["tuning"] = short.tuning.model_copy(update={"budget": 8, "grids": {"lam": [0.5]}, "replicates": 3, "together": 4})
        update["algorithm"] = short.algorithm[:2]
    else:
        update["variant"] = short.variant[:4]
    return short.model_copy(update=update)


paper._shortened = small

if __name__ == "__main__":
    main()
