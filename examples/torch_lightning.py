"""Lightning: digits sorted by label on two processes, by Biased-DMT.

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
from gossamer.torch import Decentralized, SplitSampler, callbacks
from gossamer.torch.launch import launch

STEPS = 300


class Digits(LightningModule):
    """A classifier, as any other of Lightning."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def configure_optimizers(self) -> Any:
        optimizer = Decentralized(self.parameters(), gs.BiasedDMT(eta=0.5, lam=0.2), "complete")
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        inputs, targets = batch
        return nn.functional.cross_entropy(self.model(inputs), targets)

    def validation_step(self, batch: Any, batch_idx: int) -> None:  # at the mean model
        inputs, targets = batch
        self.log("right", (self.model(inputs).argmax(1) == targets).float().mean())


def make() -> tuple[Digits, DataLoader[Any]]:
    """Return a module, and the batches of this rank."""
    images, labels = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
    torch.manual_seed(0)
    return Digits(), DataLoader(data, batch_sampler=SplitSampler(data, 32, split="by-label"))


def main(steps: int = STEPS, folder: str = "checkpoints/lightning", every: int = 100) -> nn.Module:
    """Train up to so many steps, a checkpoint every so many, and return the model of this rank."""
    module, loader = make()
    quiet: Any = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    # --8<-- [start:train]
    trainer = Trainer(
        strategy=SingleDeviceStrategy("cpu"),  # no DistributedDataParallel around the model
        max_steps=steps,
        max_epochs=-1,
        gradient_clip_val=1.0,
        enable_checkpointing=False,  # every rank would write the same file
        num_sanity_val_steps=0,
        callbacks=[callbacks.lightning(folder, every, sampler=loader.batch_sampler)],
        **quiet,
    )
    trainer.fit(module, loader)
    found = trainer.validate(module, DataLoader(loader.dataset, batch_size=1797), verbose=False)
    # --8<-- [end:train]
    if os.environ.get("RANK", "0") == "0":
        print(f"Lightning: {found[0]['right']:.1%} right by the mean model after {trainer.global_step} steps")
    return module


if __name__ == "__main__":
    if "RANK" in os.environ:
        main()
    else:
        raise SystemExit(launch(2, __file__))
