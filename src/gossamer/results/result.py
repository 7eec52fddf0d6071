"""A result: the tidy table of runs, the final iterates, the biases as drawn, and their provenance."""

import glob
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gossamer.basics.files import Damaged, OtherFormat, atomic, read, seal, sweep, unseal, write
from gossamer.basics.html import panel, tag
from gossamer.basics.privacy import Privacy
from gossamer.basics.text import counted, some
from gossamer.core import InputError, nearest
from gossamer.metrics import AXES, OURS, Label
from gossamer.results import privacy
from gossamer.results.store import pack, unpack
from gossamer.results.summary import Summary

LARGEST_METRIC = 1e250
"""The largest value of a metric that a table holds: a figure can still show it, and a run diverges long before."""

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
    """The TOML that the run was made from, if any."""
    metrics: dict[str, Label] = field(default_factory=OURS.copy)
    """The metrics that were measured, and how each is shown."""

    def __repr__(self) -> str:
        rounds: Any = self.table["round"].max()
        about = [some(self.labels), f"{counted(len(self.seeds), 'seed')}, {counted(int(rounds or 0), 'round')}"]
        if network := self.manifest.get("network"):
            about.append(f"{network.get('name')}, {counted(int(network.get('agents') or 0), 'agent')}")
        if data := self.manifest.get("data"):
            about.append(str(data.get("name")))
        return f"Result({'; '.join(about)})"

    def _repr_html_(self) -> str:
        return panel(tag("code", repr(self)), self.summary().html())

    def frame(self) -> pl.DataFrame:
        """Return one row for each algorithm, setting, seed and measured round.

        Seeds of one `replicate` share what was tuned; where nothing was tuned anew, each seed is a replicate.
        A run that diverged ends with a row of status "diverged" at the round in which it did, without metrics; one that
        came to the values of `until` with a row of status "reached", and one that a callback ended with "stopped".
        With a clock, ``seconds`` is when all agents have the model of the round, by the clock and not as measured: the
        mean over the clock's seeds, with its 95 % interval from ``seconds_low`` to ``seconds_high``.
        """
        return self.table

    @property
    def axes(self) -> dict[str, str]:
        """The x-axes of figures, and the columns that they show: all that a method pays."""
        return {name: axis.name for name, axis in AXES.items() if not axis.optional or axis.name in self.table.columns}

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
        """Return the rows of one algorithm."""
        if label not in self.labels:
            raise InputError(f"this result has no algorithm {label!r}; {nearest(label, self.labels)}")
        algorithm, setting = self.labels[label]
        return self.frame().filter((pl.col("algorithm") == algorithm) & (pl.col("setting") == setting))

    def final(self, metric: str) -> dict[str, np.ndarray]:
        """Return the last value of a metric for each seed, by label; not a number where the run diverged."""
        self.check_metric(metric)
        last = {label: self.of(label).group_by("seed", maintain_order=True).last() for label in self.labels}
        return {label: rows[metric].cast(pl.Float64).fill_null(np.nan).to_numpy() for label, rows in last.items()}

    def summary(self) -> Summary:
        """Return the end of every run: means over seeds, with 95 % intervals."""
        return Summary.of(self.table, self.metrics, self._privacy)

    def privacy(self, delta: float | None = None) -> pl.DataFrame:
        """Return the (ε, δ) that an agent spent by the end of each algorithm's runs with `oracles.private`.

        Every release counts, those of the start too; where agents sleep, as if they did not. δ is that of the oracle
        unless it is given.
        """
        if self._privacy is None:
            raise InputError("the oracle of this result protects nothing: begin it with oracles.private(…).")
        return privacy.spent(self.table, self._privacy, delta)

    @property
    def _privacy(self) -> Privacy | None:
        known = self.manifest.get("privacy")
        return Privacy(**known) if known and privacy.RELEASES in self.table.columns else None

    def plot(self, metric: str = "loss", x: str = "rounds", **options: Any) -> Any:
        """Draw a metric against what was paid ("rounds", "queries", "bytes", "messages" or, with a clock, "seconds"):
        mean and band over seeds, on axes to go on with. `style="ieee"` and others give a column's width and type: see
        `gossamer.report.figures.draw_curves`."""
        from gossamer.report import figures  # figures read results, so results cannot import them first

        return figures.draw_curves(self, metric, x, **options)

    def to_latex(self, *metrics: str) -> str:
        """Return a table of the ends of the runs for a paper: see `gossamer.report.tables.paper_table`."""
        return self.summary().to_latex(*metrics)

    def has(self, metric: str) -> bool:
        """Return whether some run measured a metric."""
        return metric in self.table.columns and self.table[metric].null_count() < len(self.table)

    def check_metric(self, metric: str) -> None:
        """Raise InputError if no run measured a metric."""
        if metric not in self.metrics:
            raise InputError(f"there is no metric {metric!r} in this result; {nearest(metric, self.metrics)}")
        if not self.has(metric):
            raise InputError(f"nothing in this result has the metric {metric!r}.")

    @staticmethod
    def join(results: "list[Result]") -> "Result":
        """Return the results of several algorithms on one problem as one."""
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

        The directory is written under another name and renamed, so that a killed process leaves nothing half written.
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
        """Write the files into a directory that exists, the manifest last. Return the manifest's checksum.

        Files that hold the right bytes are not touched. Where nothing was computed `anew`, a manifest of the same
        files keeps its seconds and versions, which are those of the computation.
        """
        arrays = {f"iterates/{i}": array for i, array in enumerate(self.states.values())}
        if self.biases is not None:
            arrays["biases"] = self.biases
        parquet = BytesIO()
        self.table.write_parquet(parquet)
        files = {"result.parquet": parquet.getvalue(), "arrays.npz": pack(arrays)}
        if self.spec is not None:
            files["spec.toml"] = self.spec.encode()
        checksums = {name: write(directory / name, data) for name, data in files.items()}
        path = directory / "manifest.json"
        record = {"files": checksums, "algorithms": list(self.states), "seeds": self.seeds}
        # a result that was read from files has its date in its manifest
        record |= {"date": datetime.now(UTC).isoformat(" ", "minutes"), **self.manifest}
        if not anew:
            try:
                before = unseal(path.name, read(path))
                record = before if before["files"] == checksums else record
            except (OSError, Damaged):
                pass  # the manifest is not there, or damaged
        labels = {name: asdict(label) for name, label in self.metrics.items()}
        return write(path, seal(record | {"metrics": labels}))

    @staticmethod
    def load(directory: str | os.PathLike[str]) -> "Result":
        """Read a result that `save` or `gossamer run` wrote. Nothing is unpickled or evaluated, and every file is
        checked against its checksum."""
        source = Path(directory)
        with reading(source):
            if not os.path.lexists(source / "manifest.json"):
                missing = "does not exist" if not source.exists() else "has no manifest.json: it holds no finished run"
                raise InputError(f"{source} {missing}. A finished run is a directory that `gossamer run --out` made.")
            record = unseal("manifest.json", read(source / "manifest.json"))
            data = {name: read(source / name, expected) for name, expected in record.pop("files").items()}
            arrays, labels = unpack(data["arrays.npz"]), record.pop("metrics")
            keys = [(algorithm, setting) for algorithm, setting in record.pop("algorithms")]
            return Result(
                table=pl.read_parquet(BytesIO(data["result.parquet"])),
                states={key: arrays[f"iterates/{number}"] for number, key in enumerate(keys)},
                seeds=record.pop("seeds"),
                biases=arrays.get("biases"),
                manifest=record,
                spec=data["spec.toml"].decode() if "spec.toml" in data else None,
                metrics={name: Label(**label) for name, label in labels.items()},
            )


@contextmanager
def reading(source: Path) -> Iterator[None]:
    """Turn whatever goes wrong in reading stored files into an InputError that names them and the way out."""
    try:
        yield
    except InputError:
        raise
    except OtherFormat as error:
        raise InputError(
            f"{source} was written by another version of Gossamer ({error}): run its command again."
        ) from None
    except (Exception, pl.exceptions.PanicException) as error:
        text = f"{error} is missing" if isinstance(error, KeyError) else getattr(error, "strerror", None) or str(error)
        reason = (text.splitlines() or [type(error).__name__])[0][:200]
        raise InputError(f"{source} is damaged ({reason}): run its command again, or remove it.") from error


def runs_frame(
    algorithm: str,
    setting: str,
    runs: Mapping[int, Any],
    replicates: Mapping[int, int],
    paid: Mapping[str, tuple[float, float]],
    metrics: Mapping[str, Label],
) -> pl.DataFrame:
    """Return the rows of one algorithm.

    Metrics that a run does not have, and values that are not finite, are null.

    Args:
        algorithm: its name.
        setting: its hyper-parameters as text.
        runs: by seed.
        replicates: the replicate of each seed.
        paid: by column, what an agent pays at the start and in each round.
        metrics: the metrics, and how each is shown.
    """
    parts = []
    for seed, run in runs.items():
        alive = (run.rounds < run.diverged) | (run.diverged < 0)
        lost = [] if run.diverged < 0 else [run.diverged]
        columns: dict[str, Any] = {"round": [*run.rounds[alive].tolist(), *lost]}
        end = "diverged" if lost else "reached" if run.reached >= 0 else "stopped" if run.stopped >= 0 else "ok"
        columns["status"] = ["ok"] * (len(columns["round"]) - 1) + [end]
        for name, label in metrics.items():
            if label.end:
                columns[name] = [None] * (len(columns["round"]) - 1) + [None if lost else run.worst]
            elif name in run.metrics:
                values = run.metrics[name][alive].astype(float).tolist()
                columns[name] = [value if abs(value) <= LARGEST_METRIC else None for value in values] + [None] * len(
                    lost
                )
            else:
                columns[name] = [None] * len(columns["round"])
        floats = {name: pl.Float64 for name in metrics}
        frame = pl.DataFrame(columns, schema_overrides=floats | {"round": pl.Int64})
        counts = [(start + each * pl.col("round")).alias(name) for name, (start, each) in paid.items()]
        label = [pl.lit(algorithm).alias("algorithm"), pl.lit(setting).alias("setting")]
        label += [pl.lit(replicates[seed], pl.Int64).alias("replicate"), pl.lit(seed, pl.Int64).alias("seed")]
        parts.append(frame.select(*label, pl.all(), *counts))
    return pl.concat(parts)
