"""A run that goes on, read from its store: the study of all that is finished so far."""

import hashlib
import json
import math
import os
import time
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from gossamer.core import InputError, brief
from gossamer.engines.simulator import planned
from gossamer.metrics import COLUMNS, OURS
from gossamer.report import names, page
from gossamer.report.tables import duration
from gossamer.results.result import LARGEST_METRIC, Result
from gossamer.results.store import MADE_BY, read_cell
from gossamer.results.study import Study
from gossamer.specs.spec import Spec


class Piece(NamedTuple):
    """What a cell tells of a run between two rounds."""

    setting: dict[str, Any]
    seed: int
    first: int
    last: int
    rounds: list[int]
    metrics: dict[str, list[float | None]]
    diverged: int
    bias_sq: float | None
    """‖ē‖², where the cell has it."""


class Running:
    """The directory of a run, or of several side by side as a reproduction makes them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._known: dict[Path, Piece | None] = {}
        if not self.parts():
            raise InputError(
                f"{brief(str(folder))} holds no run: give the directory of `gossamer run --out` or of "
                "`gossamer reproduce --out`, once it has begun."
            )

    def parts(self) -> list[Path]:
        """The directories of single runs."""
        if (self.folder / "spec.toml").is_file():
            return [self.folder]
        try:
            return sorted(path for path in self.folder.iterdir() if (path / "spec.toml").is_file())
        except OSError:
            return []

    def mark(self) -> str:
        """A mark that changes with every finished cell."""
        seen = [(str(path), *_stamp(path)) for path in self._files()]
        return hashlib.sha256(json.dumps(sorted(seen)).encode()).hexdigest()[:16]

    def newest(self) -> float:
        """When something was last written, in seconds since the epoch."""
        return max((_stamp(path)[1] / 1e9 for path in self._files()), default=0.0)

    @property
    def finished(self) -> bool:
        """Whether everything that was started is done."""
        parts = self.parts()
        alone = parts == [self.folder]
        last = self.folder / ("study.json" if alone else "verdicts.json")
        cells = (path for part in parts for path in _cells(part))
        return last.is_file() and all(_stamp(last)[1] >= _stamp(path)[1] for path in cells)

    def page(self, mark: str) -> str:
        """The page of what there is now; of a finished run that of its report, which asks for nothing any more."""
        studies, told = [], {}
        for part in self.parts():
            study, state = self._study(part)
            told["State" if part == self.folder else part.name] = state
            if study is not None:
                studies.append(study)
        title = f"{self.folder.resolve().name}, {'finished' if self.finished else 'so far'}"
        how = f"gossamer watch {self.folder}"
        if self.parts() == [self.folder]:
            how = f"gossamer run {self.folder / 'spec.toml'} --out {self.folder}"
        if not studies:
            studies = [Study("nothing", "Nothing is finished yet", "", {"": _empty()}, None)]
        return page.made(studies, [], title, how, told, None if self.finished else mark)

    def _files(self) -> Iterable[Path]:
        for part in self.parts():
            yield from _cells(part)
            yield from (path for path in (part / "study.json",) if path.exists())
        yield from (path for path in (self.folder / "verdicts.json",) if path.exists())

    def _study(self, part: Path) -> tuple[Study | None, str]:
        """The study of a run, and a line about its state."""
        if (part / "study.json").is_file():
            try:
                return Study.load(part), "finished"
            except InputError:
                pass  # it is being written anew
        spec = Spec.read(part / "spec.toml")
        pieces = [piece for path in _cells(part) if (piece := self._piece(path)) is not None]
        _, seeds = planned(spec.run.steps, spec.run.every, spec.run.seeds, spec.run.dtype)
        runs = [piece for piece in pieces if piece.seed in seeds]
        tried = {json.dumps([piece.setting, piece.seed], sort_keys=True) for piece in pieces if piece.seed not in seeds}
        begun = {json.dumps([piece.setting, piece.seed], sort_keys=True) for piece in runs}
        age = duration(
            max(0.0, time.time() - max((_stamp(path)[1] / 1e9 for path in _cells(part)), default=time.time()))
        )
        state = f"running: {len(begun)} runs so far, up to round {max((piece.last for piece in runs), default=0):,}"
        state += f"; {len(tried)} runs of the tuning" if tried else ""
        return _study_of(part.name, spec, runs), f"{state}; last written {age} ago"

    def _piece(self, path: Path) -> Piece | None:
        """What a cell holds; None if it is no cell, or a damaged one. It is read once."""
        if path not in self._known:
            self._known[path] = _read(path)
        return self._known[path]


def _cells(part: Path) -> list[Path]:
    return sorted((part / "cells").glob("*.cell"))


def _stamp(path: Path) -> tuple[int, int]:
    try:
        stat = os.stat(path)
    except OSError:  # it was replaced just now
        return 0, 0
    return stat.st_size, stat.st_mtime_ns


def _read(path: Path) -> Piece | None:
    try:
        key, cell = read_cell(path)
        bias = cell.get("bias")
        return Piece(
            setting={name: value for name, value in key["setting"].items() if name != MADE_BY},
            seed=int(key["seed"]),
            first=int(key["rounds"][0]),
            last=int(key["rounds"][1]),
            rounds=[int(t) for t in cell["rounds"]],
            metrics={
                name.removeprefix("metric/"): [_number(value) for value in values]
                for name, values in cell.items()
                if name.startswith("metric/")
            },
            diverged=int(cell["diverged"]),
            bias_sq=None if bias is None else _number((np.asarray(bias, float).mean(0) ** 2).sum()),
        )
    except (OSError, ValueError, KeyError, TypeError, InputError):
        return None


def _number(value: Any) -> float | None:
    value = float(value)
    return value if math.isfinite(value) and abs(value) <= LARGEST_METRIC else None


def _study_of(name: str, spec: Spec, pieces: list[Piece]) -> Study | None:
    """What there is of a run as a study; its variants are told apart by what their settings differ in."""
    if not pieces:
        return None
    keys = [
        json.dumps({part: piece.setting.get(part) for part in ("problem", "network", "oracle")}) for piece in pieces
    ]
    apart = names.apart({key: json.loads(key) for key in sorted(keys)})
    order = [str(given.get("name")) for given in spec.algorithm]  # methods look as they will at the end
    results, facts = {}, {}
    for key, variant in apart.items():
        own = [piece for piece, other in zip(pieces, keys, strict=True) if other == key]
        results[variant] = _result(own, order)
        biases = [piece.bias_sq for piece in own if piece.bias_sq is not None]
        facts[variant] = {"bias_sq": float(np.mean(biases))} if biases else {}
    return Study(name, spec.title or name, spec.toml(), results, None, facts)


def _result(pieces: list[Piece], order: list[str]) -> Result:
    places = {name: place for place, name in enumerate(order)}

    def method(piece: Piece) -> tuple[str, str, int]:
        hyper = piece.setting.get("hyper") or {}
        setting = ", ".join(f"{name}={value}" for name, value in hyper.items())
        return str(piece.setting.get("algorithm")), setting, piece.seed

    rows: list[dict[str, Any]] = []
    known = sorted(pieces, key=lambda piece: (places.get(method(piece)[0], len(order)), *method(piece), piece.first))
    for (algorithm, setting, seed), group in groupby(known, method):
        for piece in group:
            label = {"algorithm": algorithm, "setting": setting, "replicate": seed, "seed": seed, "status": "ok"}
            for k, mark in enumerate(piece.rounds):
                if piece.diverged < 0 or mark < piece.diverged:
                    measured = {name: values[k] for name, values in piece.metrics.items() if name in OURS}
                    rows.append({**label, "round": mark, **measured})
            if piece.diverged >= 0:
                rows.append({**label, "round": piece.diverged, "status": "diverged"})
    dtypes = {"text": pl.String, "count": pl.Int64, "number": pl.Float64}
    schema: dict[str, Any] = {column.name: dtypes[column.kind] for column in COLUMNS if not column.optional}
    table = pl.DataFrame(rows, schema=schema | dict.fromkeys(OURS, pl.Float64))
    seeds = table["seed"].unique().sort().to_list()
    keys = list(dict.fromkeys(table.select("algorithm", "setting").iter_rows()))
    return Result(table, {key: np.zeros((len(seeds), 0, 0)) for key in keys}, seeds, None, {})


def _empty() -> Result:
    """A result for which nothing has been measured yet."""
    first = Piece({"algorithm": "–"}, 0, 0, 0, [0], {}, -1, None)
    return _result([first], [])
