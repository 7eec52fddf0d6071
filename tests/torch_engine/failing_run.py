"""A short run with noise, checkpoints and, if asked for, a rank that kills or stops itself.

As a script, started by torchrun: the first lives end as they were told to, the last one writes its parameters.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

STEPS, EVERY, TIMEOUT = 24, 5, 5.0


def trained(rank, size, folder, fault=None, inside=False):
    """The parameters of this rank after all steps, from the last checkpoint; `fault` is (rank, step, signal).

    With an optimizer `inside`, checkpoints fall into the middle of its three local steps.
    """
    from functools import partial

    import torch

    import gossamer as gs
    from gossamer.torch import Decentralized, SplitSampler, resume, save
    from tests.torch_engine import quadratics

    halves, loss = quadratics.model(rank, size)
    model = torch.nn.ParameterList(halves)
    inner = {"inner": partial(torch.optim.AdamW, lr=0.03), "local_steps": 3} if inside else {}
    rule = gs.BiasedDMT(eta=0.7 if inside else 0.05, lam=0.3)
    optimizer = Decentralized(model.parameters(), rule, "ring", timeout=TIMEOUT, **inner)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer.inner or optimizer, STEPS)
    sampler = SplitSampler(torch.arange(10 * size), 2, split="iid")
    torch.manual_seed(rank)
    step = resume(folder, model, optimizer, sampler, scheduler=scheduler)
    while step < STEPS:
        for rows in sampler:
            if fault and (rank, step) == tuple(fault[:2]):
                Path(folder, "fault").write_text(str(time.time()))
                os.kill(os.getpid(), fault[2])
            optimizer.zero_grad()
            # the rows and the noise stand for data: a resumed run must see the same
            (loss() + 0.01 * sum(rows) * halves[0].sum() + 0.1 * torch.randn(()) * halves[1].sum()).backward()
            optimizer.step()
            scheduler.step()
            step += 1
            if step % EVERY == 0:
                save(folder, step, model, optimizer, sampler, scheduler=scheduler)
            if step == STEPS:
                break
    return quadratics.joined(halves).tolist()


def main(folder, faults):
    """Under torchrun: in each life the next of the faults, and at last a result."""
    from gossamer.torch import NeighborLost

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    life = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    Path(folder, f"pid-{life}-{rank}").write_text(str(os.getpid()))
    fault = faults[life] if life < len(faults) else None
    try:
        found = trained(rank, size, folder, fault)
    except NeighborLost:
        Path(folder, f"noticed-{rank}").write_text(str(time.time()))
        raise
    Path(folder, f"result-{rank}").write_text(json.dumps(found))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    given = json.loads(sys.argv[2])
    main(sys.argv[1], [(rank, step, getattr(signal, name)) for rank, step, name in given])
