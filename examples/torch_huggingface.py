"""Hugging Face's Trainer without DistributedDataParallel: a small vision transformer, digits sorted by label.

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
from transformers import Trainer, TrainerCallback, TrainingArguments, ViTConfig, ViTForImageClassification

import gossamer as gs
from gossamer.torch import Decentralized, SplitSampler, resume, save
from gossamer.torch.launch import launch

STEPS = 300


# --8<-- [start:trainer]
class OneModelEach(Trainer):
    """Leaves the model as it is, and takes the batches that it is given."""

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        plain = partial(self.accelerator.prepare_model, evaluation_mode=True)  # no DistributedDataParallel around it
        self.accelerator.prepare_model = plain  # pyright: ignore[reportAttributeAccessIssue]

    def get_train_dataloader(self) -> Any:
        return self.batches

    batches: Any


class Batches:
    """As many batches as there are steps, epoch after epoch: the Trainer would end with one that is half over."""

    def __init__(self, loader: DataLoader[Any], steps: int):
        self.loader, self.steps, self.dataset = loader, steps, loader.dataset

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Any:
        while True:
            yield from self.loader


class Checkpoints(TrainerCallback):
    """Saves every rank's state, which the Trainer's own checkpoints do not."""

    def __init__(self, folder: str, every: int, done: int, sampler: SplitSampler):
        self.folder, self.every, self.done, self.sampler = folder, every, done, sampler

    def on_step_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        step = self.done + state.global_step
        if step % self.every == 0:
            optimizer, scheduler = parts["optimizer"].optimizer, parts["lr_scheduler"]
            save(self.folder, step, parts["model"], optimizer, self.sampler, scheduler=scheduler)


# --8<-- [end:trainer]


def made() -> tuple[nn.Module, Decentralized, Any, DataLoader[Any]]:
    """A model, its optimizer and schedule, and the batches of this rank."""
    images, labels = load_digits(return_X_y=True)
    pixels = torch.tensor(images / 16, dtype=torch.float32).view(-1, 1, 8, 8)
    data = TensorDataset(pixels, torch.tensor(labels))
    torch.manual_seed(0)
    # --8<-- [start:made]
    size: Any = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    size |= {"image_size": 8, "patch_size": 2, "num_channels": 1, "num_labels": 10}
    config = ViTConfig(**size)
    model = ViTForImageClassification(config)
    inner = partial(torch.optim.AdamW, lr=3e-3, weight_decay=0.1)
    optimizer: Any = Decentralized(model.parameters(), gs.BiasedDMT(eta=0.7, lam=0.5), "complete", inner=inner)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer.inner, STEPS)
    loader = DataLoader(data, batch_sampler=SplitSampler(data, 32, split="by-label"), collate_fn=named)
    # --8<-- [end:made]
    return model, optimizer, scheduler, loader


def named(rows: list[Any]) -> dict[str, torch.Tensor]:
    """A batch by the names that the model has for its inputs."""
    pixels, labels = zip(*rows, strict=True)
    return {"pixel_values": torch.stack(pixels), "labels": torch.stack(labels)}


def main(steps: int = STEPS, folder: str = "checkpoints/huggingface", every: int = 100) -> nn.Module:
    """Train up to so many steps, a checkpoint every so many, and return the model of this rank."""
    model, optimizer, scheduler, loader = made()
    sampler: Any = loader.batch_sampler
    # --8<-- [start:training]
    arguments = TrainingArguments(
        folder,
        use_cpu=True,
        save_strategy="no",  # it would save rank 0's state alone
        average_tokens_across_devices=False,  # the loss of a rank is its own
        max_grad_norm=1.0,
        logging_steps=100,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = OneModelEach(model, arguments, optimizers=(optimizer, scheduler))
    done = resume(folder, model, optimizer, sampler, scheduler=scheduler)
    arguments.max_steps = steps - done
    trainer.batches = Batches(loader, steps - done)
    trainer.add_callback(Checkpoints(folder, every, done, sampler))
    trainer.train()
    # --8<-- [end:training]
    with optimizer.average_model(model), torch.no_grad():
        batch = named(list(loader.dataset))  # pyright: ignore[reportArgumentType]
        right = (model.eval()(batch["pixel_values"]).logits.argmax(1) == batch["labels"]).float().mean().item()
    if optimizer.world.rank == 0:
        print(f"Hugging Face: {right:.1%} right by the mean model after {done + trainer.state.global_step} steps")
    return model


if __name__ == "__main__":
    if "RANK" in os.environ:
        main()
    else:
        raise SystemExit(launch(2, __file__))
