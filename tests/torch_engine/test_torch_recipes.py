"""Popular trainers take the steps of a plain loop, and go on from checkpoints with the same bits."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import gossamer as gs
from gossamer.torch import Decentralized, SplitSampler, callbacks
from gossamer.torch.launch import command, environment
from tests.torch_engine import recipes
from tests.torch_engine.small import weight


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lightning", "accelerate", "huggingface"])
def test_a_trainer_takes_the_steps_of_a_plain_loop_and_resumes_with_the_same_bits(name, tmp_path):
    call = command(2, recipes.__file__, [name, str(tmp_path)], folder=tmp_path)
    env = os.environ | environment(2) | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(call, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2)]
    for found in ranks:
        assert found["whole"] == found["in two lives"]
        np.testing.assert_allclose(found["whole"], found["plain"], rtol=1e-6, atol=1e-6)
    assert ranks[0]["apart"][0] > 0  # their gradients are their own
    assert "same first gradient" not in done.stderr
    said = [line.partition(":")[2] for line in done.stdout.splitlines() if "right by the mean model after" in line]
    assert [int(line.split()[-2]) for line in said] == [recipes.STEPS, recipes.STOP, recipes.STEPS]
    assert said[0] == said[2]  # the mean model is the same, too


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("transformers", lambda: callbacks.huggingface(SimpleNamespace(), DataLoader([0]))),
        ("lightning", lambda: callbacks.lightning("checkpoints")),
        ("accelerate", lambda: callbacks.accelerate(SimpleNamespace())),
    ],
)
def test_a_package_that_is_not_there_is_named(package, call, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ImportError, match=f"needs the package {package}, which is not installed: pip install {package}"
    ):
        call()


def test_an_epoch_of_a_trainer_begins_where_the_sampler_is():
    """Six batches an epoch: after four, an epoch of six goes on into the next, and counts what it gives out."""

    def rows(batches):
        return [row for batch in batches for row in batch.tolist()]

    def loader():
        sampler = SplitSampler(range(12), 2, split="iid", rank=0, world=1)
        return DataLoader(torch.arange(12), batch_sampler=sampler), sampler

    straight, _ = loader()
    expected = rows(straight) + rows(straight)
    given, sampler = loader()
    sampler.seek(4)
    batches = callbacks._Batches(given)
    assert (batches.used, len(batches)) == (4, 6)
    assert rows(batches) == expected[8:20]
    assert batches.used == sampler.position == 10
    batches.begin(10, over=True)
    assert rows(batches) == []


def test_an_optimizer_of_another_kind_is_refused():
    for optimizers in ([], [torch.optim.SGD([weight()], lr=0.1)], [None]):
        with pytest.raises(
            gs.InputError, match="configure_optimizers must have one optimizer, which is a Decentralized"
        ):
            callbacks._check_optimizer(optimizers, "configure_optimizers")
    optimizer = Decentralized([weight()], gs.DPSGD(0.1))
    assert callbacks._check_optimizer([optimizer], "") is optimizer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "a checkpoint of Lightning is the same file on every rank: give Trainer.enable_checkpointing=False"),
        ({"enable_checkpointing": False}, "counts its steps: give Trainer.max_steps=…, max_epochs=-1"),
        ({"strategy": "ddp"}, "DDPStrategy would wrap the model and average gradients"),
    ],
)
def test_a_trainer_of_lightning_that_would_go_wrong_is_refused(options, message, tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")

    trainer = lightning.Trainer(accelerator="cpu", devices=1, logger=False, default_root_dir=tmp_path, **options)
    with pytest.raises(gs.InputError, match=message):
        callbacks.lightning(tmp_path).setup(trainer, None, "fit")
