"""The store: finished cells of a run, found again by all that determines them, the code included."""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.core import InputError
from gossamer.results.files import FORMAT, Damaged, OtherFormat, atomic
from gossamer.results.npz import packed, unpacked

MAGIC = b"gossamer cell "

MADE_BY = "made by"
"""Where the key of a setting tells what code and machine computed it; see `gossamer.results.fingerprint.made_by`."""

CellKey = Mapping[str, Any]
CellCheck = Callable[[dict[str, np.ndarray]], None]


class Store:
    """A directory of cells. A cell is written under another name and renamed, so it is whole or not there.

    Its name is a hash of what was asked for and one of all that determines the answer. So a store can tell a cell that
    other code computed, which it keeps but does not believe, from one that is not there.

    Two processes may use one store: at worst both compute a cell, and the same numbers are written twice.
    """

    keeps = True
    """Whether anything is kept."""

    def __init__(self, folder: Path, say: Callable[[str], None] | None = None):
        self.folder = folder
        self.written = 0
        """How many cells were put."""
        self._say = say or (lambda text: print(text, file=sys.stderr, flush=True))
        self._said: set[str] = set()
        self._before: dict[str, Path] | None = None

    def get(self, key: CellKey, check: CellCheck = lambda arrays: None) -> dict[str, np.ndarray] | None:
        """The arrays of a cell, or None if it is not there, or damaged, or of other code, which is said.

        `check` raises `Damaged` if the arrays are none that were put."""
        if unknown := _unknown(key):
            self._say_once(unknown, f"not stored, because {unknown}")
            return None
        path = self._path(key)
        try:
            arrays = _opened(path.read_bytes(), key)
            check(arrays)
            return arrays
        except FileNotFoundError:
            self._explain(key)
            return None
        except OtherFormat as error:
            raise InputError(f"{path} {error}: remove it, or use the version that wrote it.") from None
        except (ValueError, EOFError) as error:
            self._say(f"{path} is damaged ({error}): computed anew")
            return None
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}.") from error

    def put(self, key: CellKey, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep a cell."""
        self.written += 1
        if _unknown(key):
            return
        path, rest = self._path(key), b"\n".join([_text(key).encode(), packed(arrays)])
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with atomic(path) as part:
                part.write_bytes(_head(b"%d" % FORMAT, rest) + rest)
        except OSError as error:
            raise InputError(
                f"cannot write {path}: {error.strerror or error}. What was finished before is kept; the same command "
                "goes on from there."
            ) from error

    @property
    def _run(self) -> Path:
        """The directory of the run, as its user knows it."""
        return self.folder.parent if self.folder.name == "cells" else self.folder

    def _path(self, key: CellKey) -> Path:
        return self.folder / f"{_asked(key)}-{_hash(_text(key))[:24]}.cell"

    def _explain(self, key: CellKey) -> None:
        """Say why there is no cell, if there is one that other code or another version computed."""
        if self._before is None:
            cells = sorted(self.folder.glob("*.cell")) if self.folder.is_dir() else []
            self._before = {path.name.partition("-")[0]: path for path in cells}
        if (other := self._before.get(_asked(key))) is not None:
            try:
                since = datetime.fromtimestamp(other.stat().st_mtime).isoformat(" ", "minutes")
                with other.open("rb") as file:
                    file.readline(200)
                    was = json.loads(file.readline(1_000_000))["setting"][MADE_BY]
            except (OSError, ValueError, KeyError, TypeError):
                return
            now = _made_by(key)
            changed = ", ".join(name for name in now if not isinstance(was, dict) or was.get(name) != now[name])
            what = "the code" if {*changed.split(", ")} <= {"gossamer", "yours"} else "what computes it"
            self._say_once(changed, f"{what} changed since {since} ({changed}): computed anew")
        elif any("-" not in path.name for path in self._before.values()):
            self._say_once("version", "its cells are of another version of Gossamer: computed anew")

    def _say_once(self, what: str, text: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._say(f"{self._run}: {text}")


class Nowhere(Store):
    """A store that keeps nothing: for runs without a directory."""

    keeps = False

    def __init__(self) -> None:
        super().__init__(Path())

    def get(self, key: CellKey, check: CellCheck = lambda arrays: None) -> None:
        return None

    def put(self, key: CellKey, arrays: Mapping[str, np.ndarray]) -> None:
        pass


def _opened(data: bytes, key: CellKey) -> dict[str, np.ndarray]:
    head, _, rest = data.partition(b"\n")
    number = head.removeprefix(MAGIC).rpartition(b" ")[0]
    if head + b"\n" != _head(number, rest):
        raise Damaged("its checksum does not match")
    if number != b"%d" % FORMAT:
        raise OtherFormat(f"is of format {number.decode(errors='replace')}; this version reads format {FORMAT}")
    text, _, body = rest.partition(b"\n")
    if text != _text(key).encode():
        raise Damaged("it is the cell of another run")
    return unpacked("it", body)


def _head(number: bytes, rest: bytes) -> bytes:
    """The first line of a cell: its format, and a checksum of the format, the key and the arrays."""
    checksum = hashlib.sha256(number + b"\n" + rest).hexdigest().encode()
    return MAGIC + number + b" " + checksum + b"\n"


def _unknown(key: CellKey) -> str | None:
    """Why nothing can tell whether the code is the same, if so."""
    return _made_by(key).get("unknown")


def _made_by(key: CellKey) -> Mapping[str, Any]:
    return key.get("setting", {}).get(MADE_BY, {})


def _asked(key: CellKey) -> str:
    """The hash of a key without what computes it."""
    setting = {name: value for name, value in key.get("setting", {}).items() if name != MADE_BY}
    return _hash(_text({**key, "setting": setting}))[:24]


def _text(key: CellKey) -> str:
    return json.dumps(key, sort_keys=True, ensure_ascii=True, allow_nan=False)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
