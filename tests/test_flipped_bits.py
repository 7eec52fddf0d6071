"""A bit of a stored file changes, anywhere in it: whoever reads the file says so, and believes nothing of it."""

import re

import numpy as np
import pytest

import gossamer as gs
from gossamer.basics.files import Damaged, seal, unseal
from gossamer.results.store import Store
from gossamer.results.study import Study
from tests.results import test_damage, test_store


def flip(data, bit):
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def each_flipped(files, times):
    """Change one bit of these files in turn, so many times, and put it back after each."""
    draw = np.random.default_rng(0)
    for number in range(times):
        path = files[number % len(files)]
        data = path.read_bytes()
        path.write_bytes(flip(data, draw.integers(8 * len(data))))
        yield path
        path.write_bytes(data)


def test_of_a_record():
    known = {"name": "a", "seeds": [1, 2], "facts": {"é": None, "gap": 0.5}}
    data = seal(known)
    assert unseal("it", data) == known
    for bit in range(8 * len(data)):
        with pytest.raises(Damaged):
            unseal("it", flip(data, bit))


@pytest.mark.parametrize("variants", [("",), ("a", "../b")], ids=["single", "variants"])
def test_of_a_study(variants, tmp_path):
    test_damage.made_up(variants).save(tmp_path)
    files = test_damage.files(tmp_path)
    assert {path.name for path in files} == {
        *("arrays.npz", "manifest.json", "result.parquet", "spec.toml", "study.json", "tuning.parquet")
    }
    for _ in each_flipped(files, times=150):
        with pytest.raises(gs.InputError, match=r"is damaged|another version"):
            Study.load(tmp_path)
    for path in files:  # and where the end is missing
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 3])
        with pytest.raises(gs.InputError, match="is damaged"):
            Study.load(tmp_path)
        path.write_bytes(data)
    Study.load(tmp_path)


def test_of_a_cell(tmp_path):
    said = []
    store = Store(tmp_path, said.append)
    store.put(test_store.KEY, test_store.CELL)
    for _ in each_flipped([*tmp_path.iterdir()], times=300):
        assert store.get(test_store.KEY) is None
    assert len(said) == 300
    damage = "does not match|is no record|is of format"
    assert all(re.search(rf"\.cell is damaged \(its .*({damage}).*\): computed anew", text) for text in said)
    assert store.get(test_store.KEY) is not None


@pytest.mark.parametrize("name", ["__0_0.distcp", ".metadata"])
def test_of_a_checkpoint(name, tmp_path):
    from gossamer.torch import checkpoint
    from tests.torch_engine.test_torch_checkpoints import saved

    *_, (path,) = saved(tmp_path, at=(4,))
    for _ in each_flipped([path / name], times=200):
        assert checkpoint._find_damage(path) == f"step-000000004/{name} is damaged (its checksum does not match)"
    assert checkpoint._find_damage(path) == ""
