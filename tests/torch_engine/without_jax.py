"""Two ranks that train with what is the library's own. As a script: it prints whether any of them met JAX."""

import multiprocessing
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

import gossamer as gs
from gossamer import compressors, networks
from gossamer.torch import Decentralized, SplitSampler, resume, save

RUNS = {
    "static": (gs.DPSGD(eta=0.1), "ring"),
    "periodic": (gs.BiasedDMT(eta=0.1, lam=0.5), networks.every(networks.one_peer_exponential(2), 2)),
    "sequence": (gs.GNSD(eta=0.1), networks.sequence([networks.complete(2), networks.ring(2)])),
    "matchings": (gs.DPSGD(eta=0.1), "random-matching"),
    "failing": (gs.BiasedDMT(eta=0.1, lam=0.5), networks.failing(networks.ring(2), links=0.3, agents=0.2)),
    "directed": (gs.PushPullDMT(eta=0.1, lam=0.5), "directed-ring"),
    "all at once": (gs.CentralizedSGD(eta=0.1), "complete"),
    **{
        compressor.name: (gs.ChocoSGD(0.1, 0.5, compressor), "ring")
        for compressor in (
            compressors.identity(),
            compressors.top_k(1),
            compressors.scaled_sign(),
            compressors.round_linf(4),
            compressors.round_to(0.1),
            compressors.bf16(),
            compressors.rand_k(1),
            compressors.qsgd(3),
        )
    },
}


def main(rank, folder):
    """Each run from a split of data, with a checkpoint and the mean model."""
    store = dist.FileStore(f"{folder}/store", 2)  # pyright: ignore[reportPrivateImportUsage]
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    for name, (rule, network) in RUNS.items():
        model = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(3))])
        optimizer = Decentralized(model.parameters(), rule, network, timeout=30)
        place = Path(folder, name)
        for step, rows in enumerate(SplitSampler(torch.arange(16), 2, split="iid")):
            optimizer.zero_grad()
            (sum(rows) * model[0].square().sum()).backward()
            optimizer.step()
            save(place, step + 1, model, optimizer)
        assert resume(place, model, optimizer) == 4
        with optimizer.average_model(model):
            assert torch.isfinite(model[0]).all()
    dist.destroy_process_group()
    print(f"{rank} {'jax' in sys.modules}\n", end="", flush=True)  # in one piece


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        ranks = [context.Process(target=main, args=(rank, folder)) for rank in range(2)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
    sys.exit(max(abs(process.exitcode or 0) for process in ranks))
