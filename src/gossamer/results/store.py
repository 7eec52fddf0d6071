"""The store: finished cells of runs, found by all that determines them, the code included.

A cell is one file: a sealed record of its key on the first line, and arrays in the .npz format after it.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.basics.files import Damaged, atomic, checksum, seal, unseal
from gossamer.core import InputError

MADE_BY = "made by"
"""The entry of a key's setting that holds the code and the machine; see `gossamer.results.cache_key.describe_code`."""

CellKey = Mapping[str, Any]


class Store:
    """A directory of cells. A cell is written atomically, so that it is whole or not there.

    A file is named by two hashes: of what was asked for, and of all that determines the answer. So the store can tell a
    cell that other code computed, which is kept but not used, from one that is not there.

    Several processes may use one store: at worst each computes a cell, and the same numbers are written twice.
    """

    keeps = True
    """False for a store that keeps nothing."""

    def __init__(self, folder: Path, say: Callable[[str], None] | None = None):
        self.folder = folder
        self.written = 0
        """The number of cells that were put."""
        self._say = say or (lambda text: print(text, file=sys.stderr, flush=True))
        self._said: set[str] = set()
        self._before: dict[str, Path] | None = None

    def get(self, key: CellKey) -> dict[str, np.ndarray] | None:
        """Return the arrays of a cell, or None. Say so if the cell is damaged or was computed by other code."""
        code, request, path = self._locate(key)
        if unknown := code.get("unknown"):
            self._say_once(unknown, f"not stored, because {unknown}")
            return None
        try:
            if not path.exists():
                self._explain(request, code)
                return None
            stored, arrays = read_cell(path)
            if stored != json.loads(json.dumps(key)):  # as JSON has it, in which a tuple is a list
                raise Damaged("it is the cell of another run")
            return arrays
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}.") from error
        except Exception as error:  # whatever a damaged file leads to
            self._say(f"{path} is damaged ({error}): computed anew")
        return None

    def put(self, key: CellKey, arrays: Mapping[str, np.ndarray]) -> None:
        """Write a cell."""
        self.written += 1
        code, _, path = self._locate(key)
        if "unknown" in code:
            return
        body = pack(arrays)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with atomic(path) as part:
                part.write_bytes(seal({"key": key, "arrays": checksum(body)}, indent=None) + body)
        except OSError as error:
            raise InputError(
                f"cannot write {path}: {error.strerror or error}. What was finished before is kept; the same command "
                "goes on from there."
            ) from error

    def _locate(self, key: CellKey) -> tuple[Mapping[str, Any], str, Path]:
        """Return the code that computes a cell, the hash of what was asked for, and the cell's file."""
        setting = key.get("setting", {})
        asked = json.dumps({**key, "setting": {**setting, MADE_BY: None}}, sort_keys=True, allow_nan=False)
        whole = json.dumps(key, sort_keys=True, allow_nan=False)
        request, determined = hashlib.sha256(asked.encode()), hashlib.sha256(whole.encode())
        file = f"{request.hexdigest()[:24]}-{determined.hexdigest()[:24]}.cell"
        return setting.get(MADE_BY, {}), request.hexdigest()[:24], self.folder / file

    def _explain(self, request: str, now: Mapping[str, Any]) -> None:
        """Say so if there is a cell for the same request that other code, or another version, computed."""
        if self._before is None:  # listed once: a directory may hold thousands of cells
            cells = sorted(self.folder.glob("*.cell")) if self.folder.is_dir() else []
            self._before = {path.name.partition("-")[0]: path for path in cells}
        if (other := self._before.get(request)) is None:
            return
        try:
            since = datetime.fromtimestamp(other.stat().st_mtime).isoformat(" ", "minutes")
            with other.open("rb") as file:
                was = unseal(other.name, file.readline())["key"]["setting"][MADE_BY]
        except (OSError, Damaged, KeyError):
            self._say_once("version", "its cells are damaged, or of another version of Gossamer: computed anew")
            return
        changed = [name for name in {**was, **now} if was.get(name) != now.get(name)]
        by_code = all(name in ("yours", "parts") or name.startswith("gossamer.") for name in changed)
        what, names = "the code" if by_code else "what computes it", ", ".join(changed)
        self._say_once(names, f"{what} changed since {since} ({names}): computed anew")

    def _say_once(self, what: str, text: str) -> None:
        if what not in self._said:
            self._said.add(what)
            run = self.folder.parent if self.folder.name == "cells" else self.folder  # as its user knows it
            self._say(f"{run}: {text}")


class NullStore(Store):
    """A store that keeps nothing, for runs without a directory."""

    keeps = False

    def __init__(self) -> None:
        super().__init__(Path())

    def get(self, key: CellKey) -> None:
        return None

    def put(self, key: CellKey, arrays: Mapping[str, np.ndarray]) -> None:
        pass


def read_cell(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the key and the arrays of a cell's file."""
    head, _, body = path.read_bytes().partition(b"\n")
    record = unseal("its first line", head + b"\n")
    if checksum(body) != record["arrays"]:
        raise Damaged("its checksum does not match")
    return record["key"], unpack(body)


def pack(arrays: Mapping[str, Any]) -> bytes:
    """Return the bytes of an .npz file: the same bytes for the same arrays."""
    data = BytesIO()
    np.savez(data, **arrays)
    return data.getvalue()


def unpack(data: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file. Objects, which would have to be unpickled, are refused."""
    with np.load(BytesIO(data), allow_pickle=False) as arrays:
        return dict(arrays)
