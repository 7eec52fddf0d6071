"""Checkpoints: no bit may differ, nothing in them runs, all ranks go back alike, and no tool mixes up agents."""

import json
import pickle

import numpy as np
import pytest
import torch

import gossamer as gs
from gossamer.torch import Decentralized, checkpoint, resume, save, written
from tests.test_flipped_bits import flip
from tests.torch_engine import forked, kept_states, worlds
from tests.torch_engine.small import problem, steps


def saved(folder, at=(4, 8), **options):
    """A model, its optimizer and the folders of these steps, the newest last."""
    params, loss = problem()
    model = torch.nn.ParameterList(params)
    optimizer = Decentralized(model.parameters(), gs.BiasedDMT(eta=0.1, lam=0.3))
    paths, done = [], 0
    for step in at:
        steps(optimizer, loss, count=step - done, first=done)
        paths.append(save(folder, step, model, optimizer, **options))
        done = step
    return model, optimizer, paths


@pytest.mark.parametrize("hurt", [lambda data: b"", lambda data: data[:-1], lambda data: data + b"\0", None])
def test_files_that_are_too_short_too_long_or_gone_are_damaged(hurt, tmp_path):
    model, optimizer, (_, newest) = saved(tmp_path)
    file = newest / "__0_0.distcp"
    if hurt is None:
        file.unlink()
    else:
        file.write_bytes(hurt(file.read_bytes()))
    with pytest.warns(UserWarning, match=r"000000008/__0_0\.distcp is damaged .*: going on from step 4\."):
        assert resume(tmp_path, model, optimizer) == 4


def test_a_checkpoint_that_was_cut_short_does_not_count(tmp_path):
    model, optimizer, (_, newest) = saved(tmp_path)
    (newest / "sum-0.json").unlink()
    assert resume(tmp_path, model, optimizer) == 4


def test_a_later_format_is_refused_and_does_not_lead_back_in_time(tmp_path):
    model, optimizer, (_, newest) = saved(tmp_path)
    told = json.loads((newest / "sum-0.json").read_text()) | {"format": 7}
    (newest / "sum-0.json").write_text(json.dumps(told))
    with pytest.raises(gs.InputError, match="step-000000008 has format 7, but this version of Gossamer reads 4"):
        resume(tmp_path, model, optimizer)


class Evil:
    def __reduce__(self):
        return print, ("ran",)


def test_nothing_in_a_checkpoint_is_executed(tmp_path, capsys):
    """Neither by the index, which DCP pickles, nor by what belongs to a rank, whatever its checksums say."""
    model, optimizer, (path,) = saved(tmp_path, at=(4,))
    for hurt in (Evil(), checkpoint._as_tensor({"a": 1}), {"state": json.JSONDecoder}):
        (path / ".metadata").write_bytes(pickle.dumps(hurt))
        told = json.loads((path / "sum-0.json").read_text())
        told["files"][".metadata"] = checkpoint._checksum(path / ".metadata")
        (path / "sum-0.json").write_text(json.dumps(told))
        with pytest.raises(gs.InputError, match=r"\.metadata is no index of a checkpoint .*has no place in an index"):
            resume(tmp_path, model, optimizer)
    buffer = checkpoint.io.BytesIO()
    torch.save({"step": Evil()}, buffer)
    with pytest.raises(gs.InputError, match=r"something that PyTorch cannot read .Weights only load failed"):
        checkpoint._as_object(torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8))
    assert capsys.readouterr().out == ""


def test_what_is_written_while_training_goes_on_is_what_was_then(tmp_path):
    params, loss = problem()
    model = torch.nn.ParameterList(params)
    optimizer = Decentralized(model.parameters(), gs.BiasedDMT(eta=0.1, lam=0.3))
    steps(optimizer, loss, count=3)
    save(tmp_path, 3, model, optimizer, wait=False)
    steps(optimizer, loss, count=4, first=3)
    straight = [p.detach().clone() for p in params]
    written()
    assert resume(tmp_path, model, optimizer) == 3
    steps(optimizer, loss, count=4, first=3)
    assert all(torch.equal(a, b) for a, b in zip(straight, params, strict=True))


def test_all_ranks_go_back_where_the_file_of_one_is_damaged(tmp_path):
    before = forked.run(worlds.saved_twice, 2, str(tmp_path))
    newest = tmp_path / "step-000000002" / "__1_0.distcp"
    newest.write_bytes(flip(newest.read_bytes(), 12345))
    after = forked.run(worlds.resumed, 2, str(tmp_path))
    assert [step for step, *_ in after] == [1, 1]
    for first, (_, x, warned) in zip(before, after, strict=True):
        np.testing.assert_array_equal(x, first)
        assert all("__1_0.distcp is damaged" in text for text in warned)
    assert [len(warned) for *_, warned in after] == [1, 0]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return forked.run(kept_states.all_ways, 4, str(tmp_path_factory.mktemp("ways")))


@pytest.mark.parametrize("rule", kept_states.RULES)
@pytest.mark.parametrize("way", kept_states.WAYS)
def test_every_way_to_save_gives_back_what_was_saved_on_four_ranks(way, rule, ranks):
    """Saved after 3 steps, loaded by a fresh model and optimizer, 4 steps more: the bits of 7 steps."""
    for found in ranks:
        assert found[rule][way] == "", found[rule][way]


def test_no_two_arrays_of_a_state_share_memory(ranks):
    assert all(found["aliases"] == [] for found in ranks)


def test_a_model_of_another_rank_that_a_tool_loaded_is_noticed(ranks):
    """DCP takes equal keys for equal tensors, and so gives every rank the model of one."""
    for rank, found in enumerate(ranks):
        assert ("was written into since the optimizer did" in found["mixed"]) or rank == found["chosen"]
