"""Files of checkpoints: no bit may differ, formats are told apart, nothing in them runs, all ranks go back alike."""

import hashlib

import numpy as np
import pytest
import torch

import gossamer as gs
from gossamer.torch import Decentralized, resume, save, sealed
from tests.torch_engine import forked, worlds
from tests.torch_engine.small import problem, steps


def saved(folder, at=(4, 8)):
    """A model, its optimizer and the files of these steps, the newest last."""
    params, loss = problem()
    model = torch.nn.ParameterList(params)
    optimizer = Decentralized(model.parameters(), gs.BiasedDMT(eta=0.1, lam=0.3))
    files, done = [], 0
    for step in at:
        steps(optimizer, loss, count=step - done, first=done)
        files.append(save(folder, step, model, optimizer))
        done = step
    return model, optimizer, files


def flipped(data, bit):
    other = bytearray(data)
    other[bit // 8] ^= 1 << bit % 8
    return bytes(other)


def test_every_flipped_bit_is_found(tmp_path):
    """All bits of the first line, and 400 anywhere in the file."""
    *_, (path,) = saved(tmp_path, at=(4,))
    data = path.read_bytes()
    anywhere = np.random.default_rng(0).choice(8 * len(data), 400, replace=False).tolist()
    for bit in [*range(8 * sealed.HEADER), *anywhere]:
        path.write_bytes(flipped(data, bit))
        with pytest.raises(sealed.DamagedCheckpoint, match=rf"rank-0-of-1\.pt is damaged .* its {len(data)} bytes"):
            sealed.read(path)
    path.write_bytes(data)
    assert sealed.read(path)["step"] == 4


@pytest.mark.parametrize(
    "hurt", [lambda data: b"", lambda data: data[:50], lambda data: data[:-1], lambda data: data + b"\0"]
)
def test_files_that_are_too_short_or_too_long_are_damaged(hurt, tmp_path):
    model, optimizer, (_, newest) = saved(tmp_path)
    newest.write_bytes(hurt(newest.read_bytes()))
    with pytest.warns(UserWarning, match=rf"{newest.name} is damaged .*: going on from step 4\."):
        assert resume(tmp_path, model, optimizer) == 4


def test_a_file_of_another_rank_or_step_is_not_taken_for_this_one(tmp_path):
    model, optimizer, (older, newest) = saved(tmp_path)
    newest.write_bytes(older.read_bytes())
    with pytest.warns(UserWarning, match=rf"{newest.name} is of rank 0 at step 4: going on from step 4\."):
        assert resume(tmp_path, model, optimizer) == 4


def test_a_later_format_is_refused_and_does_not_lead_back_in_time(tmp_path):
    model, optimizer, (_, newest) = saved(tmp_path)
    title, payload = sealed.TITLE + b"0007 ", b"what later versions write"
    newest.write_bytes(title + hashlib.sha256(title + payload).hexdigest().encode() + b"\n" + payload)
    with pytest.raises(gs.InputError, match=f"{newest.name} has format 0007, but this version of Gossamer reads 0002"):
        resume(tmp_path, model, optimizer)


def test_a_file_without_a_checksum_is_refused(tmp_path):
    model, optimizer, (_, newest) = saved(tmp_path)
    torch.save({"step": 8}, newest)
    with pytest.raises(gs.InputError, match=rf"{newest.name} was written by an earlier version .* without a checksum"):
        resume(tmp_path, model, optimizer)


def test_a_checkpoint_is_never_unpickled(tmp_path, capsys):
    """A file that would run code when unpickled is refused by `weights_only`, checksum or not."""

    class Evil:
        def __reduce__(self):
            return print, ("ran",)

    model, optimizer, (_, newest) = saved(tmp_path)
    sealed.write(newest, {"step": Evil()})
    with pytest.raises(gs.InputError, match=r"is whole, but PyTorch cannot read it .Weights only load failed"):
        resume(tmp_path, model, optimizer)
    assert capsys.readouterr().out == ""


def test_all_ranks_go_back_where_the_file_of_one_is_damaged(tmp_path):
    before = forked.run(worlds.saved_twice, 2, str(tmp_path))
    newest = tmp_path / "step-000000002-rank-1-of-2.pt"
    newest.write_bytes(flipped(newest.read_bytes(), 12345))
    after = forked.run(worlds.resumed, 2, str(tmp_path))
    assert [step for step, *_ in after] == [1, 1]
    for first, (_, x, warned) in zip(before, after, strict=True):
        np.testing.assert_array_equal(x, first)
        assert all("rank-1-of-2.pt is damaged" in text for text in warned)
    assert [len(warned) for *_, warned in after] == [1, 0]
