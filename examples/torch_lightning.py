"""Lightning with one device for each process: digits sorted by label on two processes, by Biased-DMT.

Run it as it is, or as `gossamer launch --processes 2 examples/torch_lightning.py`. Started again, it goes on from its
checkpoints.
"""

import os
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.strategies import SingleDeviceStrategy
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gossamer as gs
from gossamer.torch import Decentralized, SplitSampler, resume, save
from gossamer.torch.launch import launch

STEPS = 300


class Digits(LightningModule):
    """Trains a classifier by an optimizer that was made before, and saves every rank's state."""

    # --8<-- [start:module]
    def __init__(self, model: nn.Module, optimizer: Decentralized, scheduler: Any, loader: Any):
        super().__init__()
        self.model, self.optimizer, self.scheduler, self.loader = model, optimizer, scheduler, loader
        self.sampler, self.folder, self.every, self.done = loader.batch_sampler, "", 0, 0

    def configure_optimizers(self) -> Any:
        return {"optimizer": self.optimizer, "lr_scheduler": {"scheduler": self.scheduler, "interval": "step"}}

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        inputs, targets = batch
        return nn.functional.cross_entropy(self.model(inputs), targets)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        step = self.done + self.global_step
        if step % self.every == 0:
            save(self.folder, step, self.model, self.optimizer, self.sampler, scheduler=self.scheduler)

    def on_train_end(self) -> None:
        with self.optimizer.average_model(self.model), torch.no_grad():
            x, y = self.loader.dataset.tensors
            right = (self.model(x).argmax(1) == y).float().mean().item()
        if self.optimizer.world.rank == 0:
            print(f"Lightning: {right:.1%} right by the mean model after {self.done + self.global_step} steps")

    # --8<-- [end:module]


def made() -> Digits:
    """A module with its model, its optimizer and the batches of this rank."""
    images, labels = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
    torch.manual_seed(0)
    # --8<-- [start:made]
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = Decentralized(model.parameters(), gs.BiasedDMT(eta=0.5, lam=0.2), "complete")
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    loader = DataLoader(data, batch_sampler=SplitSampler(data, 32, split="by-label"))
    # --8<-- [end:made]
    return Digits(model, optimizer, scheduler, loader)


def main(steps: int = STEPS, folder: str = "checkpoints/lightning", every: int = 100) -> nn.Module:
    """Train up to so many steps, a checkpoint every so many, and return the model of this rank."""
    module = made()
    # --8<-- [start:trainer]
    module.folder, module.every = folder, every
    module.done = resume(folder, module.model, module.optimizer, module.sampler, scheduler=module.scheduler)
    trainer = Trainer(
        strategy=SingleDeviceStrategy("cpu"),  # no DistributedDataParallel around the model
        max_steps=steps - module.done,
        max_epochs=-1,
        gradient_clip_val=1.0,
        enable_checkpointing=False,  # every rank would write the same file
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, module.loader)
    # --8<-- [end:trainer]
    return module.model


if __name__ == "__main__":
    if "RANK" in os.environ:
        main()
    else:
        raise SystemExit(launch(2, __file__))
