"""What a run gives: a tidy table, the final iterates, the biases as drawn, and where it all came from."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import polars as pl

from gossamer.core import InputError, nearest
from gossamer.links import LINKS
from gossamer.summary import Summary

METRICS = {
    "loss": "F(x̄), the loss of the agents' mean",
    "grad_norm_sq": "‖∇F(x̄)‖²",
    "stationarity": "‖∇F(x̄) + ē‖², the distance from where a constant mean bias ē lets a method settle",
    "consensus": "mean over agents of ‖x_i − x̄‖²",
    "tracking": "mean over agents of ‖v_i − v̄‖², for rules with a tracker v",
    "accuracy": "share of the test set that x̄ predicts right",
}
"""The metric columns of a result, and what each is."""

PAID = {"rounds": "round", "queries": "queries", "bytes": "bytes_sent"} | {link: f"seconds_{link}" for link in LINKS}
"""What a method pays, as the x-axes of figures, and the columns that count it."""

Key = tuple[str, str]
"""An algorithm and its setting."""


@dataclass(frozen=True)
class Result:
    """The outcome of `simulate` or of a spec."""

    table: pl.DataFrame
    """The rows of `frame`, without the modelled seconds."""
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

        Seeds of one `replicate` share what was tuned; where nothing was tuned anew, each seed is a replicate.
        A run that diverged ends with a row of status "diverged" at the round in which it did, without metrics. Columns
        ``seconds_…`` are modelled, not measured: see `gossamer.links`.
        """
        return self.table.with_columns(**{f"seconds_{name}": link.seconds() for name, link in LINKS.items()})

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
        return self.frame().filter((pl.col("algorithm") == algorithm) & (pl.col("setting") == setting))

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
        known = [*METRICS, "worst_loss"]
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
        try:
            if kind is None:
                os.replace(self.part, self.path)
        finally:
            self.part.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove what killed processes left half written."""
    for part in folder.rglob(".*.part"):
        try:
            os.kill(int(part.name.split(".")[-2]), 0)
        except (ProcessLookupError, ValueError):
            part.unlink(missing_ok=True)
        except PermissionError:
            continue  # the process of another user is alive


def runs_frame(
    algorithm: str,
    setting: str,
    runs: Mapping[int, Any],
    replicates: Mapping[int, int],
    paid: Mapping[str, tuple[float, float]],
) -> pl.DataFrame:
    """The rows of one algorithm from its runs by seed, and what an agent pays at the start and in each round.

    `replicates` says which replicate a seed belongs to.
    """
    parts = []
    for seed, run in runs.items():
        alive = (run.rounds < run.diverged) | (run.diverged < 0)
        ended = [] if run.diverged < 0 else [run.diverged]
        blank = [None] * len(ended)
        columns: dict[str, Any] = {"round": [*run.rounds[alive].tolist(), *ended]}
        columns["status"] = ["ok"] * int(alive.sum()) + ["diverged"] * len(ended)
        for name in METRICS:
            values = (
                run.metrics[name][alive].astype(float).tolist() if name in run.metrics else [None] * int(alive.sum())
            )
            columns[name] = values + blank
        columns["worst_loss"] = [None] * (len(columns["round"]) - 1) + [None if ended else run.worst]
        floats = {name: pl.Float64 for name in (*METRICS, "worst_loss")}
        frame = pl.DataFrame(columns, schema_overrides=floats | {"round": pl.Int64})
        counts = [(start + each * pl.col("round")).alias(name) for name, (start, each) in paid.items()]
        label = [pl.lit(algorithm).alias("algorithm"), pl.lit(setting).alias("setting")]
        label += [pl.lit(replicates[seed], pl.Int64).alias("replicate"), pl.lit(seed, pl.Int64).alias("seed")]
        parts.append(frame.select(*label, pl.all(), *counts))
    return pl.concat(parts)
