"""Samplers and checkpoints: who trains on what, and how a run goes on."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import gossamer as gs
from gossamer.data.splits import split
from gossamer.torch import Decentralized, SplitSampler, resume, save

LABELS = np.random.default_rng(0).integers(0, 5, 103)


def samplers(**options):
    return [SplitSampler(LABELS, **({"batch": 4} | options), rank=rank, world=4) for rank in range(4)]


@pytest.mark.parametrize("how", ["by-label", "iid", "dirichlet:0.3", "labels:2"])
def test_ranks_hold_the_splits_of_the_simulator(how):
    dataset = gs.data.from_arrays(np.zeros((103, 1)), LABELS)
    for sampler, rows in zip(samplers(split=how, seed=3), split(dataset, 4, how, seed=3), strict=True):
        assert np.array_equal(sampler.rows, rows)


def test_all_ranks_have_equally_many_batches_of_their_own_rows():
    made = samplers(split="dirichlet:0.5", sizes="as-they-fall", seed=1)
    assert len({len(sampler) for sampler in made}) == 1
    assert len({len(sampler.rows) for sampler in made}) > 1
    for sampler in made:
        batches = list(sampler)
        rows = [row for batch in batches for row in batch]
        assert len(batches) == len(sampler)
        assert {len(batch) for batch in batches} == {4}
        assert len(set(rows)) == len(rows)
        assert set(rows) <= set(sampler.rows.tolist())


def test_epochs_differ_and_any_place_is_found_again():
    sampler, again = (SplitSampler(LABELS, 4, split="iid", rank=1, world=4) for _ in range(2))
    epochs = [list(sampler) for _ in range(3)]
    assert epochs[0] != epochs[1]
    again.seek(len(sampler) + 2)
    assert list(again) == epochs[1][2:]
    assert list(again) == epochs[2]


def test_a_loader_takes_labels_from_its_dataset():
    dataset = TensorDataset(torch.arange(103), torch.from_numpy(LABELS))
    sampler = SplitSampler(dataset, 5, rank=0, world=4)
    seen = torch.cat([rows for rows, _ in DataLoader(dataset, batch_sampler=sampler)])
    assert set(seen.tolist()) <= set(sampler.rows.tolist())
    assert len(seen) == 25


class Unlabelled(torch.utils.data.Dataset):
    pass


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SplitSampler(LABELS, 0), "batch must be a whole number of rows from 1, but is 0"),
        (
            lambda: SplitSampler(LABELS, 26, rank=0, world=4),
            "rank 3 has 25 rows under by-label, fewer than a batch of 26",
        ),
        (lambda: SplitSampler(LABELS, 2, rank=4, world=4), "rank must be in 0 … 3, but is 4"),
        (lambda: SplitSampler(LABELS, 2, split="sorted"), "unknown split 'sorted'"),
        (
            lambda: SplitSampler(Unlabelled(), 2),
            "Unlabelled does not say its labels: it has none of targets, labels, y",
        ),
    ],
)
def test_samplers_refuse(make, message):
    with pytest.raises(gs.InputError, match=message):
        make()


def run(folder, stop=None, steps=12):
    """Train with dropout and shuffled rows; end before the step `stop`, or resume and go to the end."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(), torch.nn.Linear(4, 1)
    )
    data = torch.randn(40, 4, generator=torch.Generator().manual_seed(1))
    optimizer = Decentralized(model.parameters(), gs.BiasedDMT(eta=0.1, lam=0.3))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.9)
    sampler = SplitSampler(np.arange(40), 8, split="iid")
    step = resume(folder, model, optimizer, sampler, scheduler=scheduler)
    started = step
    while step < steps:
        for rows in sampler:
            if step in (stop, steps):
                return model, started
            optimizer.zero_grad()
            model(data[rows]).square().mean().backward()
            optimizer.step()
            scheduler.step()
            step += 1
            if step % 2 == 0:
                save(folder, step, model, optimizer, sampler, scheduler=scheduler)
    return model, started


def test_a_resumed_run_ends_with_the_same_bits(tmp_path):
    straight, _ = run(tmp_path / "a")
    assert run(tmp_path / "b", stop=7)[1] == 0
    resumed, started = run(tmp_path / "b")
    assert started == 6
    for a, b in zip(straight.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_old_checkpoints_are_removed_and_none_is_half_written(tmp_path):
    run(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["step-000000010-rank-0-of-1.pt", "step-000000012-rank-0-of-1.pt"]


def test_checkpoints_of_another_world_are_refused(tmp_path):
    (tmp_path / "step-000000004-rank-2-of-8.pt").touch()
    with pytest.raises(gs.InputError, match="holds checkpoints of 8 ranks, but there are 1: start as many"):
        run(tmp_path)


def test_what_was_saved_must_be_resumed(tmp_path):
    run(tmp_path)
    model = torch.nn.Linear(1, 1)
    optimizer = Decentralized(model.parameters(), gs.BiasedDMT(eta=0.1, lam=0.3))
    with pytest.raises(
        gs.InputError, match=r"was saved with \['scheduler'\] besides model and optimizer, but is resumed"
    ):
        resume(tmp_path, model, optimizer)


def test_a_checkpoint_is_never_unpickled(tmp_path):
    """A file that would run code when unpickled is refused by `weights_only`."""

    class Evil:
        def __reduce__(self):
            return print, ("ran",)

    torch.save({"step": Evil()}, tmp_path / "step-000000004-rank-0-of-1.pt")
    with pytest.raises(Exception, match="Weights only load failed"):
        run(tmp_path)
