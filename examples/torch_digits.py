"""Handwritten digits sorted by label on four processes: Biased-DMT against D-PSGD, 600 steps each.

Run it as it is, or as `torchrun --nproc-per-node=4 examples/torch_digits.py`. Every process sees two or three of the
ten digits and talks to its two neighbours on a ring; nobody sees all the data.
"""

import os
import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gossamer as gs
from gossamer.torch import Decentralized, SplitSampler
from gossamer.torch.launch import launch

STEPS = 600


def main() -> None:
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    x, y = torch.tensor(images[order] / 16, dtype=torch.float32), torch.tensor(labels[order])
    train, (test_x, test_y) = TensorDataset(x[:1400], y[:1400]), (x[1400:], y[1400:])
    for name, rule in {"biased-dmt": gs.BiasedDMT(eta=0.5, lam=0.2), "d-psgd": gs.DPSGD(eta=0.5)}.items():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        optimizer = Decentralized(model.parameters(), rule, network="ring")
        loader = DataLoader(train, batch_sampler=SplitSampler(train, 32, split="by-label"))
        began, step = time.perf_counter(), 0
        while step < STEPS:
            for inputs, targets in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(inputs), targets).backward()
                optimizer.step()
                step += 1
                if step == STEPS:
                    break
        seconds, own, apart = time.perf_counter() - began, accuracy(model, test_x, test_y), optimizer.consensus_error()
        worst = min(map(float, optimizer.world.texts(str(own))))
        with optimizer.average_model(model):
            mean = accuracy(model, test_x, test_y)
        if optimizer.world.rank == 0:
            print(
                f"{name:<11} test accuracy: {mean:6.1%} of the mean model, {worst:6.1%} of the worst process; "
                f"apart by {apart:.1e}; {optimizer.counters.bytes_sent / 1e6:.0f} MB sent, {seconds:.1f} s"
            )


def accuracy(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


if __name__ == "__main__":
    if "RANK" in os.environ:
        main()
    else:
        raise SystemExit(launch(4, __file__))
