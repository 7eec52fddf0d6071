"""What a run gives: a tidy table, the final iterates, the biases as drawn, and where it all came from."""

import glob
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gossamer.core import InputError, nearest
from gossamer.results import records, showing
from gossamer.results.files import Damaged, atomic, read, sealed, sweep, unsealed, write
from gossamer.results.links import LINKS
from gossamer.results.npz import packed, unpacked
from gossamer.results.records import Manifest, believed
from gossamer.results.summary import Summary

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

FILES = ("result.parquet", "arrays.npz")
"""The files of a result that its manifest marks."""

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

    def __repr__(self) -> str:
        return showing.result_line(self)

    def _repr_html_(self) -> str:
        return showing.result_html(self)

    def frame(self) -> pl.DataFrame:
        """One row for each algorithm, setting, seed and measured round.

        Seeds of one `replicate` share what was tuned; where nothing was tuned anew, each seed is a replicate.
        A run that diverged ends with a row of status "diverged" at the round in which it did, without metrics. Columns
        ``seconds_…`` are modelled, not measured: see `gossamer.results.links`.
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
        from gossamer.report import figures  # figures read results, so results cannot import them first

        return figures.curves(self, metric, x, **options)

    def to_latex(self, *metrics: str) -> str:
        """A table of the ends of the runs for a paper: see `gossamer.report.paper_table.paper_table`."""
        return self.summary().to_latex(*metrics)

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
            sweep(target.parent, f".{glob.escape(target.name)}.*.part", deep=False)
            with atomic(target, folder=True) as draft:
                self.write_into(draft)
        except OSError as error:
            raise InputError(f"cannot write {target}: {error.strerror or error}.") from error
        return target

    def write_into(self, directory: Path, *, anew: bool = True) -> dict[str, Any]:
        """Write the files into a directory that exists; the manifest comes last and says that all are there.

        Files that hold what they should are not touched. Where nothing was computed `anew`, a manifest of the same
        files stays as well: its seconds and versions are those of the computation. Returned is how to know it again.
        """
        arrays = {f"iterates/{i}": array for i, array in enumerate(self.states.values())}
        if self.biases is not None:
            arrays["biases"] = self.biases
        parquet = BytesIO()
        self.table.write_parquet(parquet)
        files = {"result.parquet": parquet.getvalue(), "arrays.npz": packed(arrays)}
        if self.spec is not None:
            files["spec.toml"] = self.spec.encode()
        marks = {name: write(directory / name, data) for name, data in files.items()}
        path = directory / "manifest.json"
        manifest = {"files": marks, "algorithms": list(self.states), "seeds": self.seeds, **self.manifest}
        kept = None if anew else _manifest_of(path, marks)
        return write(path, sealed(manifest) if kept is None else kept)

    @staticmethod
    def load(directory: str | os.PathLike[str]) -> "Result":
        """Read a result that `save` or `gossamer run` wrote. Nothing is unpickled or evaluated, and every file is
        checked against its checksum."""
        source = Path(directory)
        with believed(source):
            if not os.path.lexists(source / "manifest.json"):
                missing = "does not exist" if not source.exists() else "has no manifest.json: it holds no finished run"
                raise InputError(f"{source} {missing}. A finished run is a directory that `gossamer run --out` made.")
            known = unsealed("manifest.json", read(source / "manifest.json"))
            record = Manifest.model_validate(known)
            data = {name: read(source / name, known["files"][name]) for name in FILES}
            keys = [(algorithm, setting) for algorithm, setting in record.algorithms]
            table = records.table("result.parquet", data["result.parquet"])
            table = records.checked_runs("result.parquet", table, keys, record.seeds, [*METRICS, "worst_loss"])
            arrays = unpacked("arrays.npz", data["arrays.npz"])
            models = records.checked_arrays("arrays.npz", arrays, len(keys), len(record.seeds))
            states = dict(zip(keys, models, strict=True))
            marked = known["files"].get("spec.toml")
            spec = None if marked is None else read(source / "spec.toml", marked).decode()
            manifest = {key: value for key, value in known.items() if key not in ("files", "algorithms", "seeds")}
            return Result(table, states, record.seeds, arrays.get("biases"), manifest, spec)


def _manifest_of(path: Path, marks: dict[str, Any]) -> bytes | None:
    """The bytes of a manifest, if it is whole and one of these files."""
    try:
        data = read(path)
        return data if unsealed(path.name, data).get("files") == marks else None
    except (OSError, Damaged):
        return None


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
