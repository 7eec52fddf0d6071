"""Accelerate: digits on two processes, by D-PSGD with AdamW inside.

Run it as it is, or as `gossamer launch --processes 2 examples/torch_accelerate.py`; `accelerate launch` does as well.
Started again, it goes on from its checkpoints.
"""

import os
from functools import partial
from typing import Any

import torch
from accelerate import Accelerator, skip_first_batches
from accelerate.utils import DataLoaderConfiguration
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gossamer as gs
from gossamer.torch import Decentralized, callbacks
from gossamer.torch.launch import launch

STEPS = 300


def make() -> tuple[Accelerator, nn.Module, Decentralized, Any, Any]:
    """Return the accelerator, a model, its optimizer and schedule, and all batches."""
    images, labels = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))
    callbacks.accelerate(accelerator)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).to(accelerator.device)
    inner = partial(torch.optim.AdamW, lr=3e-3, weight_decay=0.1)
    gossip: Any = Decentralized(model.parameters(), gs.DPSGD(eta=1.0), "complete", inner=inner, local_steps=4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(gossip.inner, STEPS)
    loader = DataLoader(data, batch_size=32, shuffle=True, drop_last=True)
    return accelerator, model, gossip, scheduler, loader


def main(steps: int = STEPS, folder: str = "checkpoints/accelerate", every: int = 100) -> nn.Module:
    """Train up to so many steps, a checkpoint every so many, and return the model of this rank."""
    accelerator, model, gossip, scheduler, loader = make()
    # --8<-- [start:train]
    model, optimizer, scheduler, loader = accelerator.prepare(model, gossip, scheduler, loader)
    step = accelerator.load_state(folder)
    while step < steps:
        epoch, used = divmod(step, len(loader))
        loader.set_epoch(epoch)
        for inputs, targets in skip_first_batches(loader, used):
            optimizer.zero_grad()
            with accelerator.autocast():
                loss = nn.functional.cross_entropy(model(inputs), targets)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            step += 1
            if step % every == 0:
                accelerator.save_state(folder)
            if step == steps:
                break
    with gossip.average_model(model), torch.no_grad():
        x, y = loader.dataset.tensors
        right = (model(x).argmax(1) == y).float().mean().item()
    # --8<-- [end:train]
    accelerator.print(f"Accelerate: {right:.1%} right by the mean model after {step} steps")
    return model


if __name__ == "__main__":
    if "RANK" in os.environ:
        main()
    else:
        raise SystemExit(launch(2, __file__))
