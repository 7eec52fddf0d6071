"""Hugging Face's Trainer: a small vision transformer on two processes, digits sorted by label.

Run it as it is, or as `gossamer launch --processes 2 examples/torch_huggingface.py`. The model is made from a config,
so that nothing is downloaded. Started again, it goes on from its checkpoints.
"""

import os
from functools import partial
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

import gossamer as gs
from gossamer.torch import Decentralized, SplitSampler, callbacks
from gossamer.torch.launch import launch

STEPS = 300


def make() -> tuple[nn.Module, Decentralized, Any, DataLoader[Any]]:
    """Return a model, its optimizer and schedule, and the batches of this rank."""
    images, labels = load_digits(return_X_y=True)
    pixels = torch.tensor(images / 16, dtype=torch.float32).view(-1, 1, 8, 8)
    data = TensorDataset(pixels, torch.tensor(labels))
    torch.manual_seed(0)
    size: Any = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    size |= {"image_size": 8, "patch_size": 2, "num_channels": 1, "num_labels": 10}
    model = ViTForImageClassification(ViTConfig(**size))
    inner = partial(torch.optim.AdamW, lr=3e-3, weight_decay=0.1)
    optimizer: Any = Decentralized(model.parameters(), gs.BiasedDMT(eta=0.7, lam=0.5), "complete", inner=inner)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer.inner, STEPS)
    loader = DataLoader(data, batch_sampler=SplitSampler(data, 32, split="by-label"), collate_fn=collate)
    return model, optimizer, scheduler, loader


def collate(rows: list[Any]) -> dict[str, torch.Tensor]:
    """Return a batch by the names that the model has for its inputs."""
    pixels, labels = zip(*rows, strict=True)
    return {"pixel_values": torch.stack(pixels), "labels": torch.stack(labels)}


def main(steps: int = STEPS, folder: str = "checkpoints/huggingface", every: int = 100) -> nn.Module:
    """Train up to so many steps, a checkpoint every so many, and return the model of this rank."""
    model, optimizer, scheduler, loader = make()
    settings: Any = {"use_cpu": True, "logging_steps": 100, "report_to": "none", "disable_tqdm": True}
    # --8<-- [start:train]
    arguments = TrainingArguments(folder, max_steps=steps, save_steps=every, max_grad_norm=1.0, **settings)
    data: Any = loader.dataset
    trainer = Trainer(
        model, arguments, collate, eval_dataset=data, optimizers=(optimizer, scheduler), compute_metrics=right
    )
    callbacks.huggingface(trainer, loader)
    trainer.train()
    found = trainer.evaluate()  # of the mean model
    # --8<-- [end:train]
    if optimizer.world.rank == 0:
        print(
            f"Hugging Face: {found['eval_right']:.1%} right by the mean model after {trainer.state.global_step} steps"
        )
    return model


def right(outputs: Any) -> dict[str, float]:
    """Return the share of digits that are recognised."""
    return {"right": float((outputs.predictions.argmax(1) == outputs.label_ids).mean())}


if __name__ == "__main__":
    if "RANK" in os.environ:
        main()
    else:
        raise SystemExit(launch(2, __file__))
