"""Two nodes of two processes: DistributedDataParallel inside a node, gossip between nodes.

Run it as it is, or as `torchrun --nproc-per-node=4 examples/torch_nodes.py`. Handwritten digits are sorted by label, so
that each node sees five of the ten digits; inside a node gradients are averaged, and between nodes Biased-DMT tracks.
"""

import os

import numpy as np
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import gossamer as gs
from gossamer.torch import SplitSampler, decentralize
from gossamer.torch.launch import launch

STEPS = 200


def main() -> None:
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    x, y = torch.tensor(images[order] / 16, dtype=torch.float32), torch.tensor(labels[order])
    train = TensorDataset(x[:1400], y[:1400])
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("across", "within"))
    averaged = DistributedDataParallel(model, process_group=mesh["within"].get_group())
    optimizer = decentralize(averaged, mesh["across"], gs.BiasedDMT(eta=0.5, lam=0.2), network="complete")
    loader = DataLoader(train, batch_sampler=SplitSampler(train, 32, split="by-label"))
    step = 0
    while step < STEPS:
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(averaged(inputs), targets).backward()
            optimizer.step()
            step += 1
            if step == STEPS:
                break
    apart = optimizer.consensus_error()
    with optimizer.average_model(model), torch.no_grad():
        right = (model(x[1400:]).argmax(1) == y[1400:]).float().mean().item()
    if dist.get_rank() == 0:
        sent = optimizer.counters.bytes_sent / 1e6
        print(f"2 nodes of 2: test accuracy {right:.1%} of the mean model; apart by {apart:.1e}; {sent:.0f} MB sent")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        main()
    else:
        raise SystemExit(launch(4, __file__))
