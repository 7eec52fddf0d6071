"""The store of finished cells."""

import os
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import gossamer as gs
from gossamer.results.store import NullStore, Store, pack, read_cell, unpack

KEY = {"setting": {"eta": 0.1}, "seed": 3}
CELL = {"x": np.arange(6.0).reshape(2, 3), "diverged": np.int32(-1)}


@pytest.fixture
def store(tmp_path):
    said = []
    made: Any = Store(tmp_path / "cells", said.append)
    made.said = said
    return made


def test_what_is_put_is_got(store):
    assert store.get(KEY) is None
    store.put(KEY, CELL)
    found = store.get({"seed": 3, "setting": {"eta": 0.1}})
    assert {name: value.tolist() for name, value in found.items()} == {"x": CELL["x"].tolist(), "diverged": -1}
    assert store.get(KEY | {"seed": 4}) is None
    assert [path.suffix for path in store.folder.iterdir()] == [".cell"]


@pytest.mark.parametrize("length", [0, 10, 77, 300])
def test_a_truncated_cell_is_noticed(store, length):
    store.put(KEY, CELL)
    path = next(store.folder.iterdir())
    path.write_bytes(path.read_bytes()[:length])
    assert store.get(KEY) is None
    assert len(store.said) == 1


def test_a_full_disk_is_said_and_leaves_nothing(store, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(gs.InputError, match=r"No space left on device\. What was finished before is kept"):
        store.put(KEY, CELL)
    assert list(store.folder.iterdir()) == []


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(gs.InputError, match="cannot write"):
        Store(tmp_path / "file" / "cells").put(KEY, CELL)


def test_two_processes_may_write_one_cell(store):
    """Both write the same cell again and again; whenever a third looks, it is whole."""
    code = (
        "import sys, numpy as np; from pathlib import Path; from gossamer.results.store import Store\n"
        "store = Store(Path(sys.argv[1]))\n"
        "for _ in range(200): store.put({'a': 1}, {'x': np.arange(20000.0)})"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(store.folder)]) for _ in range(2)]
    seen = 0
    while any(writer.poll() is None for writer in writers):
        seen += store.get({"a": 1}) is not None
    assert [writer.wait() for writer in writers] == [0, 0]
    assert seen
    assert store.said == []


def test_a_null_store_keeps_nothing():
    NullStore().put(KEY, CELL)
    assert NullStore().get(KEY) is None


def with_code(seed=3, **made_by):
    return {
        "setting": {"eta": 0.1, "made by": {"gossamer.core": "a", "yours": "b", "jaxlib": "1"} | made_by},
        "seed": seed,
    }


def test_a_cell_in_the_place_of_another_is_noticed(store):
    store.put(with_code(3), CELL)
    store.put(with_code(4), CELL)
    one, other = store.folder.iterdir()
    a, b = one.read_bytes(), other.read_bytes()
    one.write_bytes(b)
    other.write_bytes(a)
    assert store.get(with_code(3)) is None
    assert store.get(with_code(4)) is None
    assert [text.partition("(")[2] for text in store.said] == ["it is the cell of another run): computed anew"] * 2


OTHER = {"gossamer.core": "other"}


def test_a_cell_of_other_code_is_kept_but_not_believed_and_said_once(store):
    for seed in (3, 4):
        store.put(with_code(seed), CELL)
    again = Store(store.folder, store.said.append)
    for seed in (3, 4, 5):
        assert again.get(with_code(seed, **OTHER)) is None
    assert len(store.said) == 1
    assert re.fullmatch(
        rf"{store.folder.parent}: the code changed since 20\S+ \S+ \(gossamer\.core\): computed anew", store.said[0]
    )
    again.put(with_code(3, **OTHER), CELL)
    assert again.get(with_code(3, **OTHER)) is not None
    assert again.get(with_code(3)) is not None
    assert again.get(with_code(3, jaxlib="2")) is None
    assert "what computes it changed since" in store.said[1]
    assert store.said[1].endswith("(jaxlib): computed anew")


def test_cells_of_an_older_version_are_said(store):
    store.put(KEY, CELL)
    (path,) = store.folder.iterdir()
    path.write_bytes(b"gossamer cell 2 0123\n{}\n")
    path.rename(path.with_name(path.name.partition("-")[0] + "-0.cell"))
    again = Store(store.folder, store.said.append)
    assert again.get(KEY) is None
    text = "its cells are damaged, or of another version of Gossamer: computed anew"
    assert store.said == [f"{store.folder.parent}: {text}"]


def test_what_cannot_be_known_is_not_stored_and_said(store):
    key = {"setting": {"eta": 0.1, "made by": {"unknown": "<a lock> has no state"}}, "seed": 3}
    for _ in range(2):
        assert store.get(key) is None
        store.put(key, CELL)
    assert store.said == [f"{store.folder.parent}: not stored, because <a lock> has no state"]
    assert not store.folder.exists()


def test_arrays_come_back_and_are_the_same_bytes():
    arrays = {"x/0": np.arange(6.0).reshape(2, 3).T, "n": np.int32(-1), "none": np.zeros((0, 3)), "t": np.array(True)}
    data = pack(arrays)
    assert pack(arrays) == data
    found = unpack(data)
    assert {name: (value.tolist(), value.dtype) for name, value in found.items()} == {
        name: (np.asarray(value).tolist(), np.asarray(value).dtype) for name, value in arrays.items()
    }
    assert found["x/0"].flags.writeable


def test_objects_are_neither_unpickled_nor_believed(store):
    """Reading must not run what a pickle says, whatever its checksum."""

    class Loud:
        def __reduce__(self):
            return pytest.fail, ("it was unpickled",)

    store.put(KEY, {"x": np.array([Loud()], dtype=object)})
    (path,) = store.folder.iterdir()
    with pytest.raises(ValueError, match="allow_pickle=False"):
        read_cell(path)
    assert store.get(KEY) is None
    assert "is damaged" in store.said[0]
