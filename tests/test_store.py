"""The store of finished cells."""

import os
import subprocess
import sys

import numpy as np
import pytest

import gossamer as gs
from gossamer.store import Nowhere, Store

KEY = {"setting": {"eta": 0.1}, "seed": 3}
CELL = {"x": np.arange(6.0).reshape(2, 3), "diverged": np.int32(-1)}


@pytest.fixture
def store(tmp_path):
    said = []
    made = Store(tmp_path / "cells", said.append)
    made.said = said
    return made


def test_what_is_put_is_got(store):
    assert store.get(KEY) is None
    store.put(KEY, CELL)
    found = store.get({"seed": 3, "setting": {"eta": 0.1}})
    assert {name: value.tolist() for name, value in found.items()} == {"x": CELL["x"].tolist(), "diverged": -1}
    assert store.get(KEY | {"seed": 4}) is None
    assert [path.suffix for path in store.folder.iterdir()] == [".cell"]


@pytest.mark.parametrize("where", range(0, 500, 50))
def test_any_changed_byte_is_noticed(store, where):
    store.put(KEY, CELL)
    path = next(store.folder.iterdir())
    data = bytearray(path.read_bytes())
    data[where] ^= 0x20
    path.write_bytes(data)
    assert store.get(KEY) is None
    assert "is damaged (its checksum does not match): computed anew" in store.said[0]


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
        "import sys, numpy as np; from pathlib import Path; from gossamer.store import Store\n"
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


def test_nowhere_keeps_nothing():
    Nowhere().put(KEY, CELL)
    assert Nowhere().get(KEY) is None
