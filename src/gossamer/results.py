"""What a run gives: a tidy table, the final iterates, the biases as drawn, and where it all came from."""

import json
import os
import shutil
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import polars as pl

from gossamer.core import InputError, nearest
from gossamer.summary import Summary

PAID = {"rounds": "round", "queries": "queries", "bytes": "bytes_sent"}
"""What a method pays, as the x-axes of figures, and the columns that count it."""

Key = tuple[str, str]
"""An algorithm and its setting."""


@dataclass(frozen=True)
class Result:
    """The outcome of `simulate` or of a spec."""

    table: pl.DataFrame
    """What `frame` returns."""
    states: dict[Key, np.ndarray]
    """The final models, [seeds, agents, d], of each algorithm and setting."""
    seeds: list[int]
    biases: np.ndarray | None
    """The constant bias of each agent, [seeds, agents, d]; None where the oracle has other kinds of bias."""
    manifest: dict[str, Any]
    """Versions, machine, data and seconds."""
    spec: str | None = None
    """The TOML that the run was made from, if it was."""

    def frame(self) -> pl.DataFrame:
        """One row for each algorithm, setting, seed and measured round.

        A run that diverged ends with a row of status "diverged" at the round in which it did, without metrics.
        """
        return self.table

    @property
    def labels(self) -> dict[str, Key]:
        """A short name for each algorithm and setting: the setting is left out where there is only one."""
        names = [algorithm for algorithm, _ in self.states]
        return {key[0] if names.count(key[0]) == 1 else f"{key[0]}({key[1]})": key for key in self.states}

    @property
    def iterates(self) -> dict[str, np.ndarray]:
        """The final model of every agent, by label: [seeds, agents, d]."""
        return {label: self.states[key] for label, key in self.labels.items()}

    @property
    def mean_bias(self) -> np.ndarray | None:
        """ē, the agents' mean bias, for each seed: [seeds, d]."""
        return None if self.biases is None else self.biases.mean(1)

    def of(self, label: str) -> pl.DataFrame:
        """The rows of one algorithm."""
        if label not in self.labels:
            raise InputError(f"this result has no algorithm {label!r}; {nearest(label, self.labels)}")
        algorithm, setting = self.labels[label]
        return self.table.filter((pl.col("algorithm") == algorithm) & (pl.col("setting") == setting))

    def final(self, metric: str) -> dict[str, np.ndarray]:
        """The last value of a metric for each seed, by label; not a number where the run diverged."""
        self.check_metric(metric)
        last = {label: self.of(label).group_by("seed", maintain_order=True).last() for label in self.labels}
        return {label: rows[metric].cast(pl.Float64).fill_null(np.nan).to_numpy() for label, rows in last.items()}

    def summary(self) -> Summary:
        """The end of every run: mean over seeds, with 95 % intervals."""
        return Summary.of(self.table)

    def plot(self, metric: str = "loss", x: str = "rounds", **options: Any) -> Any:
        """A figure of a metric against what was paid ("rounds", "queries" or "bytes"): mean and band over seeds."""
        from gossamer import figures  # figures read results, so results cannot import them first

        return figures.curves(self, metric, x, **options)

    def has(self, metric: str) -> bool:
        """Whether some run measured it."""
        return metric in self.table.columns and self.table[metric].null_count() < len(self.table)

    def check_metric(self, metric: str) -> None:
        known = [name for name in self.table.columns if self.table[name].dtype == pl.Float64]
        if metric not in known:
            raise InputError(f"there is no metric {metric!r}; {nearest(metric, known)}")
        if not self.has(metric):
            raise InputError(f"nothing in this result has the metric {metric!r}.")

    @staticmethod
    def joined(results: "list[Result]") -> "Result":
        """The results of several algorithms on one problem as one."""
        first = results[0]
        seconds = reduce(lambda a, b: a | b, (result.manifest["seconds"] for result in results))
        return replace(
            first,
            table=pl.concat([result.table for result in results]),
            states=reduce(lambda a, b: a | b, (result.states for result in results)),
            manifest=first.manifest | {"seconds": seconds},
        )

    def save(self, directory: str | os.PathLike[str]) -> Path:
        """Write the result as a directory: `result.parquet`, `arrays.npz`, `manifest.json`, and `spec.toml` if any.

        It is written under another name and renamed, so that a killed process leaves nothing half written.
        """
        target = Path(directory)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise InputError(f"{target} is not empty: choose another directory, or remove it first.")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            draft = target.with_name(f".{target.name}.{os.getpid()}.part")
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            self.write_into(draft)
            os.replace(draft, target)
        except OSError as error:
            raise InputError(f"cannot write {target}: {error.strerror or error}.") from error
        return target

    def write_into(self, directory: Path) -> None:
        """Write the files into a directory that exists; the manifest comes last and says that all are there."""
        arrays = {f"iterates/{i}": array for i, array in enumerate(self.states.values())}
        if self.biases is not None:
            arrays["biases"] = self.biases
        manifest = {"format": 1, "algorithms": list(self.states), "seeds": self.seeds, **self.manifest}
        with atomic(directory / "arrays.npz") as part, part.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
        with atomic(directory / "result.parquet") as part:
            self.table.write_parquet(part)
        if self.spec is not None:
            with atomic(directory / "spec.toml") as part:
                part.write_text(self.spec, encoding="utf-8")
        with atomic(directory / "manifest.json") as part:
            part.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")

    @staticmethod
    def load(directory: str | os.PathLike[str]) -> "Result":
        """Read a result that `save` or `gossamer run` wrote. Nothing is unpickled or evaluated."""
        source = Path(directory)
        if not (source / "manifest.json").is_file():
            missing = "does not exist" if not source.exists() else "has no manifest.json: it holds no finished run"
            raise InputError(f"{source} {missing}. A finished run is a directory that `gossamer run --out` made.")
        try:
            manifest = json.loads((source / "manifest.json").read_text(encoding="utf-8"))
            table = pl.read_parquet(source / "result.parquet")
            with (source / "arrays.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                stored = {name: arrays[name] for name in arrays.files}
            keys = [(str(algorithm), str(setting)) for algorithm, setting in manifest.pop("algorithms")]
            seeds = [int(seed) for seed in manifest.pop("seeds")]
            manifest.pop("format")
            states = {key: stored[f"iterates/{i}"] for i, key in enumerate(keys)}
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile, pl.exceptions.PolarsError) as error:
            raise InputError(f"{source} is damaged ({error}): remove it and run again.") from error
        spec = source / "spec.toml"
        text = spec.read_text(encoding="utf-8") if spec.is_file() else None
        return Result(table, states, seeds, stored.get("biases"), manifest, text)


class atomic:
    """A path to write to that takes the place of another when all went well."""

    def __init__(self, path: Path):
        self.path, self.part = path, path.with_name(f".{path.name}.{os.getpid()}.part")

    def __enter__(self) -> Path:
        return self.part

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            os.replace(self.part, self.path)
        else:
            self.part.unlink(missing_ok=True)


def rows_frame(
    *,
    algorithm: str,
    setting: str,
    seeds: list[int],
    rounds: list[int],
    metrics: dict[str, np.ndarray],
    worst: np.ndarray,
    diverged: np.ndarray,
    queries: tuple[int, int],
    bytes_sent: tuple[float, float],
    names: tuple[str, ...] = ("loss", "grad_norm_sq", "consensus", "tracking", "accuracy"),
) -> pl.DataFrame:
    """The rows of one algorithm from metrics of shape [rounds, seeds].

    `queries` and `bytes_sent` are what an agent paid at the start and in each round; `worst` is the last row's only.
    """
    parts = []
    for s, seed in enumerate(seeds):
        alive = [k for k, t in enumerate(rounds) if diverged[s] < 0 or t < diverged[s]]
        ended = [] if diverged[s] < 0 else [int(diverged[s])]
        columns: dict[str, Any] = {"round": [rounds[k] for k in alive] + ended}
        columns["status"] = ["ok"] * len(alive) + ["diverged"] * len(ended)
        blank = [None] * len(ended)
        for name in names:
            values = metrics[name][alive, s].astype(float).tolist() if name in metrics else [None] * len(alive)
            columns[name] = values + blank
        last = float(worst[s]) if not ended else None
        columns["worst_loss"] = [None] * (len(columns["round"]) - 1) + [last]
        parts.append(pl.DataFrame(columns, schema_overrides={name: pl.Float64 for name in (*names, "worst_loss")}))
        parts[-1] = parts[-1].select(
            pl.lit(algorithm).alias("algorithm"),
            pl.lit(setting).alias("setting"),
            pl.lit(seed, pl.Int64).alias("seed"),
            pl.all(),
            (queries[0] + queries[1] * pl.col("round")).alias("queries"),
            (bytes_sent[0] + bytes_sent[1] * pl.col("round")).cast(pl.Float64).alias("bytes_sent"),
        )
    return pl.concat(parts)
