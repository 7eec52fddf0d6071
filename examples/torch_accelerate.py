"""Accelerate without its DistributedDataParallel: digits on two processes, by D-PSGD with AdamW inside.

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
from gossamer.torch import Decentralized, resume, save
from gossamer.torch.launch import launch

STEPS = 300


def made() -> tuple[Accelerator, nn.Module, Decentralized, Any, Any]:
    """The accelerator, a model, its optimizer and schedule, and the batches of this rank."""
    images, labels = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
    torch.manual_seed(0)
    # --8<-- [start:made]
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).to(accelerator.device)
    inner = partial(torch.optim.AdamW, lr=3e-3, weight_decay=0.1)
    optimizer: Any = Decentralized(model.parameters(), gs.DPSGD(eta=1.0), "complete", inner=inner, local_steps=4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer.inner, STEPS)
    loader = accelerator.prepare(DataLoader(data, batch_size=32, shuffle=True, drop_last=True))  # the data alone
    # --8<-- [end:made]
    return accelerator, model, optimizer, scheduler, loader


def main(steps: int = STEPS, folder: str = "checkpoints/accelerate", every: int = 100) -> nn.Module:
    """Train up to so many steps, a checkpoint every so many, and return the model of this rank."""
    accelerator, model, optimizer, scheduler, loader = made()
    # --8<-- [start:loop]
    step = resume(folder, model, optimizer, scheduler=scheduler)
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
                save(folder, step, model, optimizer, scheduler=scheduler)
            if step == steps:
                break
    # --8<-- [end:loop]
    with optimizer.average_model(model), torch.no_grad():
        x, y = loader.dataset.tensors
        right = (model(x).argmax(1) == y).float().mean().item()
    accelerator.print(f"Accelerate: {right:.1%} right by the mean model after {step} steps")
    return model


if __name__ == "__main__":
    if "RANK" in os.environ:
        main()
    else:
        raise SystemExit(launch(2, __file__))
