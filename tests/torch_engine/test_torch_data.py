"""Samplers and checkpoints: who trains on what, and how a run goes on."""

import json

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import gossamer as gs
from gossamer.data.splits import split
from gossamer.torch import Decentralized, SplitSampler, resume, save
from tests.table import table

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
    def __len__(self):
        return 103


def test_iid_needs_no_labels():
    expected = SplitSampler(LABELS, 4, split="iid", rank=2, world=4).rows
    for rows in (Unlabelled(), TensorDataset(torch.zeros(103, 2), torch.zeros(103, 3)), range(103)):
        assert np.array_equal(SplitSampler(rows, 4, split="iid", rank=2, world=4).rows, expected)


def test_a_part_of_a_dataset_is_split_by_its_own_labels():
    dataset = TensorDataset(torch.arange(103), torch.from_numpy(LABELS))
    chosen = list(range(0, 103, 2))
    subset = torch.utils.data.Subset(dataset, chosen)
    mine, direct = (SplitSampler(rows, 4, rank=1, world=4).rows for rows in (subset, LABELS[chosen]))
    assert np.array_equal(mine, direct)


@table(
    ("make", "message"),
    [
        (lambda: SplitSampler(LABELS, 0), "batch must be a whole number of at least 1, but is 0"),
        (
            lambda: SplitSampler(LABELS, 26, rank=0, world=4),
            "rank 3 has 25 rows under by-label, fewer than a batch of 26",
        ),
        (lambda: SplitSampler(LABELS, 2, rank=4, world=4), "rank must be a whole number of at most 3, but is 4"),
        (lambda: SplitSampler(LABELS, 2, split="sorted"), "unknown split 'sorted'"),
        (
            lambda: SplitSampler(Unlabelled(), 2),
            "Unlabelled has no labels that can be found: it has none of targets, labels, y",
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
    sampler = SplitSampler(data, 8, split="iid")
    loader = DataLoader(data, batch_sampler=sampler)
    step = resume(folder, model, optimizer, sampler, scheduler=scheduler)
    started = step
    while step < steps:
        for rows in loader:
            if step in (stop, steps):
                return model, started
            optimizer.zero_grad()
            model(rows).square().mean().backward()
            optimizer.step()
            scheduler.step()
            step += 1
            if step % 2 == 0:
                save(folder, step, model, optimizer, sampler, scheduler=scheduler)
    return model, started


@pytest.mark.parametrize(("stop", "expected"), [(7, 6), (11, 10)], ids=["within an epoch", "between epochs"])
def test_a_resumed_run_ends_with_the_same_bits(stop, expected, tmp_path):
    """Dropout draws from the generator of which a DataLoader takes a seed for each epoch, here of five batches."""
    straight, _ = run(tmp_path / "a")
    assert run(tmp_path / "b", stop=stop)[1] == 0
    resumed, started = run(tmp_path / "b")
    assert started == expected
    for a, b in zip(straight.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_old_checkpoints_are_removed_and_none_is_half_written(tmp_path):
    run(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["step-000000010", "step-000000012"]
    for path in tmp_path.iterdir():
        assert sorted(file.name for file in path.iterdir()) == [".metadata", "__0_0.distcp", "sum-0.json"]


def test_checkpoints_of_another_world_are_refused(tmp_path):
    (tmp_path / "step-000000004").mkdir()
    for rank in range(8):
        told = {"format": 4, "step": 4, "ranks": 8, "agents": 8, "files": {}}
        (tmp_path / "step-000000004" / f"sum-{rank}.json").write_text(json.dumps(told))
    with pytest.raises(gs.InputError, match="holds checkpoints of 8 ranks, but there are 1: start as many"):
        run(tmp_path)
    model = torch.nn.Linear(1, 1)
    with pytest.raises(gs.InputError, match="holds checkpoints of 8 ranks, but there are 1: start as many"):
        save(tmp_path, 1, model, Decentralized(model.parameters(), gs.DPSGD(eta=0.1)))
    assert len(list(tmp_path.iterdir())) == 1  # or else nobody could go on from either


@pytest.mark.parametrize(
    ("rule", "layers", "message"),
    [
        (gs.BiasedDMT(eta=0.1, lam=0.4), 1, "but the optimizer has 'biased-dmt lam=0.4'"),
        (
            gs.BiasedDMT(eta=0.1, lam=0.3),
            2,
            r"has nothing for 0.0.bias of the model, which here is \(2,\) \(14 differ",
        ),
    ],
)
def test_what_cannot_be_resumed_changes_nothing(rule, layers, message, tmp_path):
    """Neither the model nor what was saved besides."""

    def made(rule, layers):
        module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
        model = module if layers == 1 else torch.nn.Sequential(module)
        optimizer = Decentralized(model.parameters(), rule)
        return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1)

    model, optimizer, scheduler = made(gs.BiasedDMT(eta=0.1, lam=0.3), 1)
    model(torch.ones(2, 2)).sum().backward()
    optimizer.step()
    scheduler.step()
    save(tmp_path, 1, model, optimizer, scheduler=scheduler)
    model, optimizer, scheduler = made(rule, layers)
    before = [value.clone() for value in model.state_dict().values()]
    with pytest.raises(gs.InputError, match=message):
        resume(tmp_path, model, optimizer, scheduler=scheduler)
    assert all(torch.equal(a, b) for a, b in zip(before, model.state_dict().values(), strict=True))
    assert scheduler.last_epoch == 0


def test_what_was_saved_must_be_resumed(tmp_path):
    run(tmp_path)
    model = torch.nn.Linear(1, 1)
    optimizer = Decentralized(model.parameters(), gs.BiasedDMT(eta=0.1, lam=0.3))
    with pytest.raises(
        gs.InputError, match=r"was saved with \['scheduler'\] besides model and optimizer, but is resumed"
    ):
        resume(tmp_path, model, optimizer)


def test_a_damaged_checkpoint_is_passed_over(tmp_path):
    straight, _ = run(tmp_path)
    newest = tmp_path / "step-000000012" / "__0_0.distcp"
    newest.write_bytes(newest.read_bytes()[:1000])
    with pytest.warns(UserWarning, match=f"{newest.name} is damaged .*: going on from step 10"):
        resumed, started = run(tmp_path)
    assert started == 10
    for a, b in zip(straight.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_a_checkpoint_is_not_removed_for_later_ones_of_another_run(tmp_path):
    model = torch.nn.Linear(1, 1)
    optimizer = Decentralized(model.parameters(), gs.DPSGD(eta=0.1))
    for step in (990, 1000):
        save(tmp_path, step, model, optimizer)
    with pytest.warns(UserWarning, match="holds a checkpoint of step 1000, later than this one of step 10"):
        assert save(tmp_path, 10, model, optimizer).exists()


def test_a_place_in_the_data_that_cannot_be_is_refused(tmp_path):
    model = torch.nn.Linear(1, 1)
    optimizer = Decentralized(model.parameters(), gs.DPSGD(eta=0.1))
    sampler = SplitSampler(range(40), 8, split="iid")
    for _ in range(2):
        list(sampler)
    with pytest.raises(gs.InputError, match=r"given out 10 batches, which does not fit 5 .* save\(…, batches=…\)"):
        save(tmp_path, 5, model, optimizer, sampler)
    assert not list(tmp_path.iterdir())
    assert save(tmp_path, 5, model, optimizer, sampler, batches=10).exists()
