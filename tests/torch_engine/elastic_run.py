"""A short elastic run as a script, for `gossamer launch --elastic`: one process is lost, another takes its place."""

import json
import os
import signal
import sys
from pathlib import Path

STEPS = 1000


def main(folder, fault, size=4):
    """Each process writes where it ended, and how far that is from the optimum of all of them."""
    import numpy as np

    import gossamer as gs
    from tests.torch_engine.elastic_ranks import ETA, LAM, optimum, trained

    rank = int(os.environ["REPLICA_GROUP_ID"])
    Path(folder, f"pid-{os.getpid()}").touch()
    lost, step, kind = fault
    faults = {lost: (step, getattr(signal, kind, kind))}
    found = trained(rank, size, gs.BiasedDMT(eta=ETA, lam=LAM), "ring", faults=faults, steps=STEPS, full=size)
    apart = float(np.abs(found["x"] - optimum(size, range(size))).max())
    left, generations = ([row[key] for row in found["seen"]] for key in ("places", "generation"))
    result = {"apart": apart, "place": found["place"], "left": left, "generations": generations}
    Path(folder, f"result-{rank}").write_text(json.dumps(result))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main(sys.argv[1], json.loads(sys.argv[2]), *map(int, sys.argv[3:]))
