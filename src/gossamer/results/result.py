"""A result: the tidy table of runs, the final iterates, the biases as drawn, and their provenance; and its summary."""

import glob
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from gossamer.basics.files import Damaged, OtherFormat, atomic, read, seal, sweep, unseal, write
from gossamer.basics.html import Markup, panel, tag
from gossamer.basics.table import Table
from gossamer.basics.text import format_number, plural, some
from gossamer.core import InputError, nearest
from gossamer.metrics import AXES, COLUMNS, OURS, Label
from gossamer.results import privacy
from gossamer.results.exports import RunTable
from gossamer.results.statistics import by_replicate, interval
from gossamer.results.store import pack, unpack

if TYPE_CHECKING:
    from gossamer.results.verdicts import MethodVerdicts

LARGEST_METRIC = 1e250
"""The largest value of a metric that a table holds: a figure can still show it, and a run diverges long before."""

TEXTS = ("variant", "algorithm", "setting")
"""Columns of a summary that are aligned to the left."""

TOTALS = [column for column in COLUMNS if column.total is not None]
"""Columns of a result whose last value a summary shows."""

Key = tuple[str, str]
"""An algorithm and its setting."""


@dataclass(frozen=True)
class Summary:
    """A table of the last measured round: means over the runs that did not diverge, with 95 % intervals.

    Intervals are over replicates: seeds, or tunings with their seeds.

    Printed it is text for a terminal; `table` is the same as a polars frame.
    """

    table: pl.DataFrame
    metrics: Mapping[str, Label] = field(default_factory=OURS.copy)
    """The labels of the metrics."""
    ends: pl.DataFrame | None = None
    """The last row of every run, which the table is made of."""
    notes: tuple[str, ...] = ()
    """Differences between the runs besides their methods, one line each."""

    @staticmethod
    def of(
        frame: pl.DataFrame, metrics: Mapping[str, Label] = OURS, private: Mapping[str, float] | None = None
    ) -> "Summary":
        """Return the summary of a result's table. The manifest's privacy, where the oracle has one, decides ε."""
        names, rows = [name for name, label in metrics.items() if label.summary or label.end], []
        ends = last_rows(frame)
        starts = frame.group_by("algorithm", "setting", maintain_order=True).first()
        for (algorithm, setting), last in ends.group_by("algorithm", "setting", maintain_order=True):
            alive = last.filter(pl.col("status") != "diverged")
            reached = last.filter(pl.col("status") == "reached").height
            row: dict[str, Any] = {"algorithm": algorithm, "setting": setting, "round": last["round"].max()}
            row |= _over_replicates(alive, names)
            # seeds of a method pay the same, unless one ended early: the longest run is what was asked for
            row |= {column.name: last[column.name].max() for column in TOTALS}
            if "seconds" in last.columns:
                row |= _over_replicates(last, ["seconds"])
                # the interval over the clock's seeds; where each run has a schedule of its own, over runs
                wide = (last["seconds_high"] - last["seconds_low"]).mean()
                if isinstance(wide, float):
                    row["seconds_±"] = wide / 2 or None
            if "joules" in last.columns:
                row["joules"] = last["joules"].mean()
            row |= {"seeds": len(last), "diverged": len(last) - len(alive), "reached": reached or None}
            start, end = starts.row(len(rows), named=True).get("loss"), row.get("loss")
            row["ended_above_start"] = (start is not None and end is not None and end > start) or None
            rows.append(row)
        kinds: dict[str, Any] = {column: pl.Float64 for name in names for column in (name, f"{name}_±")}
        table = pl.DataFrame(rows, schema_overrides=kinds | {"reached": pl.Int64, "ended_above_start": pl.Boolean})
        if private is None:
            return Summary(table, dict(metrics), ends)
        if privacy.is_installed():
            table = table.with_columns(privacy.spend(frame, private).select("epsilon", "delta"))
        return Summary(table, dict(metrics), ends, (privacy.describe(private),))

    def layout(self) -> Table:
        """Return the columns that a reader needs, as text."""
        table = self.table
        columns: dict[str, list[str]] = {name: table[name].to_list() for name in TEXTS if name in table.columns}
        shown = [name for name, label in self.metrics.items() if label.summary and name in table.columns]

        def with_half(name: str) -> list[str]:
            pairs = table.select(name, f"{name}_±").iter_rows()
            return [format_number(value, half, missing="-") for value, half in pairs]

        for name in shown:
            if table[name].null_count() < len(table):
                columns[name] = with_half(name)
        for column in TOTALS:
            paid = [value / column.unit for value in table[column.name]]
            digits = column.total
            columns[column.short] = [format_number(one, digits=digits) if digits else f"{one:,.0f}" for one in paid]
        if "seconds" in table.columns:
            columns["seconds"] = with_half("seconds")
        if "joules" in table.columns:
            columns["joules"] = [format_number(value, missing="-") for value in table["joules"]]
        lost = table.select("diverged", "seeds", "ended_above_start").iter_rows()
        columns["diverged"] = [f"{k} of {seeds}" + ", ended above its start" * bool(above) for k, seeds, above in lost]
        if table["reached"].null_count() < len(table):
            columns["reached"] = [f"{k or 0} of {seeds}" for k, seeds in table.select("reached", "seeds").iter_rows()]
        if "epsilon" in table.columns:
            columns["ε"] = [format_number(value, missing="-") for value in table["epsilon"]]
        rows = list(zip(*columns.values(), strict=True))
        return Table([*columns], rows, [name not in TEXTS for name in columns])

    def __str__(self) -> str:
        table = self.layout()
        keys = table.head.index("setting")
        is_unique = len({tuple(row[:keys]) for row in table.rows}) == len(table.rows)
        # where algorithms do not tell rows apart, their settings do; text is aligned to the left
        shown = replace(table, numeric=()).text(keys if is_unique else keys + 1)
        return "\n".join([shown, *self.notes])

    __repr__ = __str__

    def html(self) -> Markup:
        """Return the table and its notes for a notebook."""
        return tag("div", self.layout().html(), *(tag("div", note, style="margin-top: 4px") for note in self.notes))

    _repr_html_ = html

    def to_latex(self, *metrics: str) -> str:
        """Return a table for a paper, in LaTeX's booktabs: see `gossamer.report.tables.paper_table`."""
        from gossamer.report.tables import paper_table

        return paper_table(self, metrics)


@dataclass(frozen=True)
class Result(RunTable):
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
    metrics: Mapping[str, Label] = field(default_factory=OURS.copy)
    """The metrics that were measured, and how each is shown."""

    def __repr__(self) -> str:
        rounds: Any = self.table["round"].max()
        about = [
            some(self.labels),
            f"{plural(len(self.seeds), 'seed')}, {plural(int(rounds or 0), 'round')}",
        ]
        if network := self.manifest.get("network"):
            about.append(f"{network.get('name')}, {plural(int(network.get('agents') or 0), 'agent')}")
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
        mean over the clock's seeds, with its 95 % interval from ``seconds_low`` to ``seconds_high``. If the clock has
        an energy, ``joules`` is what an agent has drawn until then, the mean over agents and over the clock's seeds.
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
    def rounding(self) -> float:
        """The relative difference that arithmetic alone can make."""
        return {"float64": 1e-10}.get(str(self.manifest.get("dtype")), 1e-5)

    @cached_property
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
        last = {label: last_rows(self.of(label)) for label in self.labels}
        return {label: rows[metric].cast(pl.Float64).fill_null(np.nan).to_numpy() for label, rows in last.items()}

    def summary(self) -> Summary:
        """Return the end of every run: means over seeds, with 95 % intervals."""
        return Summary.of(self.table, self.metrics, self._privacy)

    def verdicts(self, metric: str = "loss", matters: float | None = None) -> "MethodVerdicts":
        """Return who is ahead at equal cost, who ties, and by how much; see `Study.verdicts`."""
        from gossamer.results.verdicts import judge_methods  # which reads results

        return judge_methods({"": self}, metric, matters)

    def privacy(self, delta: float | None = None) -> pl.DataFrame:
        """Return the (ε, δ) that an agent spent by the end of each algorithm's runs with `oracles.private`.

        Every release counts, those of the start too; where agents sleep, as if they did not. δ is that of the oracle
        unless it is given.
        """
        if self._privacy is None:
            raise InputError("the oracle of this result protects nothing: begin it with oracles.private(…).")
        return privacy.spend(self.table, self._privacy, delta)

    @property
    def _privacy(self) -> dict[str, float] | None:
        return self.manifest.get("privacy") if privacy.RELEASES in self.table.columns else None

    def plot(self, metric: str = "loss", x: str = "rounds", **options: Any) -> Any:
        """Draw a metric against what was paid ("rounds", "queries", "bytes", "messages" or, with a clock, "seconds" and
        "joules"): mean and band over seeds, on axes to go on with. `style="ieee"` and others give a column's width and
        type: see `gossamer.report.figures.draw_curves`."""
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
        # they share the problem, the seeds and all of the manifest but how long each took
        first = results[0]
        seconds = {key: value for result in results for key, value in result.manifest["seconds"].items()}
        return replace(
            first,
            table=pl.concat([result.table for result in results]),
            states={key: models for result in results for key, models in result.states.items()},
            manifest=first.manifest | {"seconds": seconds},
        )

    def save(self, directory: str | os.PathLike[str]) -> Path:
        """Write the result as a directory: `result.parquet`, `arrays.npz`, `manifest.json`, and `spec.toml` if any.

        The directory is written under another name and renamed, so that a killed process leaves nothing half written.
        """
        target = Path(directory)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise InputError(f"{target} is not empty: choose another directory, or remove it first.")
        target.parent.mkdir(parents=True, exist_ok=True)
        sweep(target.parent, f".{glob.escape(target.name)}.*.part", deep=False)
        with atomic(target, folder=True) as draft:
            self.write_into(draft)
        return target

    def write_into(self, directory: Path) -> dict[str, Any]:
        """Write the files into a directory that exists, the manifest last. Return the manifest's checksum.

        Files that hold the right bytes are not touched. Beside the same files, the manifest that is there stays: it
        says when, by which versions and in how many seconds they were computed.
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
        record = {"files": checksums, "algorithms": list(self.states), "seeds": self.seeds}
        # a result that was read from files has its date in its manifest
        record |= {"date": datetime.now(UTC).isoformat(" ", "minutes"), **self.manifest}
        path = directory / "manifest.json"
        try:
            before = unseal(path.name, read(path))
            record = before if before["files"] == checksums else record
        except (OSError, Damaged):
            pass  # there is no manifest, or it is damaged
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
        has_diverged = run.diverged >= 0
        alive = run.rounds < run.diverged if has_diverged else slice(None)
        rounds = np.append(run.rounds[alive], [run.diverged] * has_diverged).astype(np.int64)
        end = "diverged" if has_diverged else "reached" if run.reached >= 0 else "stopped" if run.stopped >= 0 else "ok"
        status = ["ok"] * (len(rounds) - 1) + [end]
        columns: dict[str, Any] = {"replicate": replicates[seed], "seed": seed, "round": rounds, "status": status}
        for name in metrics:
            values = columns[name] = np.full(len(rounds), np.nan)
            if name in run.metrics:
                measured = run.metrics[name][alive]
                values[: len(measured)] = measured
            elif not has_diverged:  # of the end, or not measured in this run at all
                values[-1] = run.ends.get(name, np.nan)
        parts.append(pl.DataFrame(columns, schema_overrides={"replicate": pl.Int64, "seed": pl.Int64}))
    # a figure and a mean have no use for what is not finite, or nearly so
    values = pl.col(list(metrics))
    return pl.concat(parts).select(
        pl.lit(algorithm).alias("algorithm"),
        pl.lit(setting).alias("setting"),
        pl.col("replicate", "seed", "round").cast(pl.Int64),
        "status",
        pl.when(values.is_finite() & (values.abs() <= LARGEST_METRIC)).then(values),
        *[(start + each * pl.col("round")).alias(name) for name, (start, each) in paid.items()],
    )


class SeedRun(NamedTuple):
    """The costs and the metric of a run at the rounds at which the metric was measured."""

    costs: np.ndarray
    """[axes, marks]: a row for each axis of figures that was asked for, such as rounds and bytes."""
    values: np.ndarray
    status: str


class MethodRuns(NamedTuple):
    """The runs of one method for one metric, as verdicts and comparisons read them from a table."""

    by_seed: dict[int, SeedRun]
    replicates: dict[int, int]
    """The replicate of each seed."""
    last: int
    """The last round."""

    @staticmethod
    def of(rows: pl.DataFrame, key: Key, metric: str, axes: Sequence[str] = ()) -> "MethodRuns":
        """Return the runs of a method among rows of a result's table, with their costs on some axes."""
        own = rows.filter((pl.col("algorithm") == key[0]) & (pl.col("setting") == key[1]))
        columns, runs = [AXES[axis].name for axis in axes], {}
        for (seed,), each in own.group_by("seed", maintain_order=True):
            known = each.filter(pl.col(metric).is_finite())
            costs = known.select(columns).cast(pl.Float64).to_numpy().T
            runs[int(str(seed))] = SeedRun(costs, known[metric].to_numpy(), str(each["status"][-1]))
        return MethodRuns(runs, dict(own.select("seed", "replicate").iter_rows()), int(own["round"].to_numpy().max()))

    @property
    def lost(self) -> int:
        """The number of runs that diverged or have no value."""
        return sum([run.status == "diverged" or not len(run.values) for run in self.by_seed.values()])

    @property
    def ends(self) -> dict[int, float]:
        """The last value of each replicate, the mean over its seeds without those that diverged."""
        alive = {seed: run for seed, run in self.by_seed.items() if run.status != "diverged" and len(run.values)}
        # the seeds of one tuning are not independent: they are averaged before anything is compared
        return by_replicate({seed: float(run.values[-1]) for seed, run in alive.items()}, self.replicates)


def last_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the last row of every run of a result's table."""
    return frame.group_by("algorithm", "setting", "seed", maintain_order=True).last()


def _over_replicates(rows: pl.DataFrame, names: list[str]) -> dict[str, float | None]:
    """Return the means of some columns and, under `NAME_±`, the half-widths of their intervals, where there are any."""
    means = rows.group_by("replicate", maintain_order=True).agg(pl.col(names).mean())
    found: dict[str, float | None] = {}
    for name in names:
        known = means[name].drop_nulls().to_numpy()
        mean, half = interval(known) if len(known) else (None, math.nan)
        found |= {name: mean, f"{name}_±": None if math.isnan(half) else half}
    return found
