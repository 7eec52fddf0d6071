"""The store: finished cells of a run, found again by all that determines them."""

import hashlib
import io
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from gossamer.core import InputError
from gossamer.results import atomic

MAGIC = b"gossamer cell "


class Store:
    """A directory of cells. A cell is written under another name and renamed, so it is whole or not there.

    Two processes may use one store: at worst both compute a cell, and the same bytes are written twice.
    """

    def __init__(self, folder: Path, say: Callable[[str], None] | None = None):
        self.folder = folder
        self._say = say or (lambda text: print(text, file=sys.stderr, flush=True))

    def get(self, key: Mapping[str, Any]) -> dict[str, np.ndarray] | None:
        """The arrays of a cell, or None if it is not there or damaged, which is said."""
        path = self._path(key)
        try:
            head, _, body = path.read_bytes().partition(b"\n")
            if head != MAGIC + hashlib.sha256(body).hexdigest().encode():
                raise ValueError("its checksum does not match")
            with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
        except FileNotFoundError:
            return None
        except (ValueError, EOFError, BadZipFile) as error:
            self._say(f"{path} is damaged ({error}): computed anew")
            return None
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}.") from error

    def put(self, key: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Keep a cell."""
        body = io.BytesIO()
        np.savez(body, allow_pickle=False, **arrays)
        data = body.getvalue()
        path = self._path(key)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with atomic(path) as part, part.open("wb") as file:
                file.write(MAGIC + hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
        except OSError as error:
            raise InputError(
                f"cannot write {path}: {error.strerror or error}. What was finished before is kept; the same command "
                "goes on from there."
            ) from error

    def _path(self, key: Mapping[str, Any]) -> Path:
        text = json.dumps(key, sort_keys=True, ensure_ascii=True, allow_nan=False)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:40]}.cell"


class Nowhere(Store):
    """A store that keeps nothing: for runs without a directory."""

    def __init__(self) -> None:
        super().__init__(Path())

    def get(self, key: Mapping[str, Any]) -> None:
        return None

    def put(self, key: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        pass
