"""What a run gives: a tidy table, the final iterates, the biases as drawn, and where it all came from."""

import glob
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gossamer.basics.privacy import Privacy
from gossamer.core import InputError, nearest
from gossamer.metrics import OURS, Label
from gossamer.results import privacy, records, showing
from gossamer.results.files import Damaged, atomic, read, sealed, sweep, unsealed, write
from gossamer.results.npz import packed, unpacked
from gossamer.results.records import MOST, Manifest, believed
from gossamer.results.summary import Summary

PAID = {"rounds": "round", "queries": "queries", "bytes": "bytes_sent", "messages": "messages"}
"""The x-axes of figures, and the columns that count each; a clock adds seconds. The start of a method is counted in all
of them but rounds."""

SECONDS = "seconds"
"""The column of seconds, and its x-axis."""

FILES = ("result.parquet", "arrays.npz")
"""The files of a result that its manifest marks."""

FIELDS = ("files", "algorithms", "seeds", "metrics")
"""Keys of `manifest.json` that have a place of their own in a result."""

Key = tuple[str, str]
"""An algorithm and its setting."""


@dataclass(frozen=True)
class Result:
    """The outcome of `simulate` or of a spec."""

    table: pl.DataFrame
    """The rows of `frame`."""
    states: dict[Key, np.ndarray]
    """The final models, [seeds, agents, d], of each algorithm and setting."""
    seeds: list[int]
    biases: np.ndarray | None
    """The constant bias of each agent, [seeds, agents, d]; None where the oracle has other kinds of bias."""
    manifest: dict[str, Any]
    """Versions, machine, data and seconds."""
    spec: str | None = None
    """The TOML that the run was made from, if it was."""
    metrics: dict[str, Label] = field(default_factory=OURS.copy)
    """What was measured, and how it is shown."""

    def __repr__(self) -> str:
        return showing.result_line(self)

    def _repr_html_(self) -> str:
        return showing.result_html(self)

    def frame(self) -> pl.DataFrame:
        """One row for each algorithm, setting, seed and measured round.

        Seeds of one `replicate` share what was tuned; where nothing was tuned anew, each seed is a replicate.
        A run that diverged ends with a row of status "diverged" at the round in which it did, without metrics; one that
        came to the values of `until` with a row of status "reached", and one that a callback ended with "stopped".
        With a clock, ``seconds`` is when all agents have the model of the round, by the clock and not as measured: the
        mean over the clock's seeds, with its 95 % interval from ``seconds_low`` to ``seconds_high``.
        """
        return self.table

    @property
    def axes(self) -> dict[str, str]:
        """What a method pays, as the x-axes of figures, and the columns that count it."""
        return PAID | ({SECONDS: SECONDS} if SECONDS in self.table.columns else {})

    @property
    def measured(self) -> list[str]:
        """The metrics that some run measured along its way."""
        return [name for name, label in self.metrics.items() if not label.end and self.has(name)]

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
        return Summary.of(self.table, self.metrics, self._private)

    def privacy(self, delta: float | None = None) -> pl.DataFrame:
        """The (ε, δ) that an agent spent by the end of each algorithm's runs, where the oracle was `oracles.private`.

        Every release counts, those of the start too; where agents sleep, as if they did not. δ is that of the oracle
        unless it is given.
        """
        if self._private is None:
            raise InputError("the oracle of this result protects nothing: begin it with oracles.private(…).")
        return privacy.spent(self.table, self._private, delta)

    @property
    def _private(self) -> Privacy | None:
        known = self.manifest.get("privacy")
        return Privacy(**known) if known and privacy.RELEASES in self.table.columns else None

    def plot(self, metric: str = "loss", x: str = "rounds", **options: Any) -> Any:
        """Draw a metric against what was paid ("rounds", "queries", "bytes", "messages" or, with a clock, "seconds"):
        mean and band over seeds, on axes to go on with. `style="ieee"` and others give a column's width and type: see
        `gossamer.report.figures.draw_curves`."""
        from gossamer.report import figures  # figures read results, so results cannot import them first

        return figures.draw_curves(self, metric, x, **options)

    def to_latex(self, *metrics: str) -> str:
        """A table of the ends of the runs for a paper: see `gossamer.report.tables.paper_table`."""
        return self.summary().to_latex(*metrics)

    def has(self, metric: str) -> bool:
        """Whether some run measured it."""
        return metric in self.table.columns and self.table[metric].null_count() < len(self.table)

    def check_metric(self, metric: str) -> None:
        if metric not in self.metrics:
            raise InputError(f"there is no metric {metric!r} in this result; {nearest(metric, self.metrics)}")
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
        files keeps its seconds and versions, which are those of the computation. Returned is how to know it again.
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
        shown = {"metrics": {name: asdict(label) for name, label in self.metrics.items()}}
        made = {"date": datetime.now(UTC).isoformat(" ", "minutes")}  # which a result that was read has already
        manifest = {"files": marks, "algorithms": list(self.states), "seeds": self.seeds, **made, **self.manifest}
        kept = None if anew else _manifest_of(path, marks)
        return write(path, sealed((kept or manifest) | shown))

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
            labels = OURS | {metric: held.label() for metric, held in (record.metrics or {}).items()}
            table = records.checked_runs("result.parquet", table, keys, record.seeds, list(labels))
            arrays = unpacked("arrays.npz", data["arrays.npz"])
            models = records.checked_arrays("arrays.npz", arrays, len(keys), len(record.seeds))
            states = dict(zip(keys, models, strict=True))
            marked = known["files"].get("spec.toml")
            spec = None if marked is None else read(source / "spec.toml", marked).decode()
            manifest = {key: value for key, value in known.items() if key not in FIELDS}
            return Result(table, states, record.seeds, arrays.get("biases"), manifest, spec, labels)


def _manifest_of(path: Path, marks: dict[str, Any]) -> dict[str, Any] | None:
    """What a manifest holds, if it is whole and one of these files."""
    try:
        known = unsealed(path.name, read(path))
        return known if known.get("files") == marks else None
    except (OSError, Damaged):
        return None


def runs_frame(
    algorithm: str,
    setting: str,
    runs: Mapping[int, Any],
    replicates: Mapping[int, int],
    paid: Mapping[str, tuple[float, float]],
    metrics: Mapping[str, Label],
) -> pl.DataFrame:
    """The rows of one algorithm from its runs by seed, and what an agent pays at the start and in each round.

    `replicates` says which replicate a seed belongs to. Metrics that a run does not have, and what of them is no finite
    number, are null.
    """
    parts = []
    for seed, run in runs.items():
        alive = (run.rounds < run.diverged) | (run.diverged < 0)
        lost = [] if run.diverged < 0 else [run.diverged]
        columns: dict[str, Any] = {"round": [*run.rounds[alive].tolist(), *lost]}
        columns["status"] = ["ok"] * (len(columns["round"]) - 1) + [_end(run)]
        for name, label in metrics.items():
            if label.end:
                columns[name] = [None] * (len(columns["round"]) - 1) + [None if lost else run.worst]
            else:
                along = _known(run.metrics[name][alive]) if name in run.metrics else [None] * int(alive.sum())
                columns[name] = along + [None] * len(lost)
        floats = {name: pl.Float64 for name in metrics}
        frame = pl.DataFrame(columns, schema_overrides=floats | {"round": pl.Int64})
        counts = [(start + each * pl.col("round")).alias(name) for name, (start, each) in paid.items()]
        label = [pl.lit(algorithm).alias("algorithm"), pl.lit(setting).alias("setting")]
        label += [pl.lit(replicates[seed], pl.Int64).alias("replicate"), pl.lit(seed, pl.Int64).alias("seed")]
        parts.append(frame.select(*label, pl.all(), *counts))
    return pl.concat(parts)


def _end(run: Any) -> str:
    """The status of a run's last row."""
    if run.diverged >= 0:
        return "diverged"
    return "reached" if run.reached >= 0 else "stopped" if run.stopped >= 0 else "ok"


def _known(values: np.ndarray) -> list[float | None]:
    """The values that a table may hold; a user's own metric may have others."""
    return [value if abs(value) <= MOST else None for value in values.astype(float).tolist()]
