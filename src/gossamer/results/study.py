"""A study: one experiment under several variants, such as networks, splits or biases, each with a result."""

import os
import tomllib
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from gossamer.basics.files import exclusive, read, seal, unseal, write
from gossamer.basics.html import panel, tag
from gossamer.basics.text import counted, some
from gossamer.core import InputError, brief, nearest
from gossamer.results.differences import describe_differences, find_differences
from gossamer.results.result import Result, reading
from gossamer.results.summary import Across, Summary

TUNING = ("variant", "replicate", "algorithm", "setting", "criterion", "value", "diverged", "extension", "chosen")
"""The columns of a tuning table that are not hyper-parameters."""

TUNED = "tuned in each of"
"""The first words of a setting whose hyper-parameters were tuned anew in every replicate."""


@dataclass(frozen=True)
class Study:
    """The outcome of a spec: a result for each variant, the tuning of the methods, and facts about the variants."""

    name: str
    title: str
    spec: str
    """The TOML that it was made from."""
    results: dict[str, Result]
    """By variant, in the order of the spec; under "" where the spec has none."""
    tuning: pl.DataFrame | None
    """A row for each setting that was tried: variant, replicate, algorithm, setting, the hyper-parameters (null
    where the algorithm has none of that name), criterion, value (null where a seed diverged), diverged (how many
    seeds), extension (0 for the first grid) and chosen."""
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By variant: agents, network, gap, links, smoothness, heterogeneity at the start, classes and counts (the rows of
    each class that each agent holds), edges, bias_sq (the mean over seeds of ‖ē‖²)."""

    def __repr__(self) -> str:
        algorithms = dict.fromkeys(label for result in self.results.values() for label in result.labels)
        about = [repr(self.name), some(algorithms)]
        if list(self.results) != [""]:
            about.insert(1, f"{counted(len(self.results), 'variant')}: {some(self.results)}")
        if self.tuning is not None:
            about.append(f"tuned over {counted(len(self.tuning), 'setting')}")
        return f"Study({'; '.join(about)})"

    def _repr_html_(self) -> str:
        return panel(tag("b", self.title), tag("div", tag("code", repr(self))), self.summary().html())

    @property
    def result(self) -> Result:
        """The result of a spec without variants."""
        if len(self.results) > 1:
            raise InputError(f"this study has {len(self.results)} variants: choose one from `results`.")
        return next(iter(self.results.values()))

    @property
    def experiment(self) -> str:
        """The experiment of a paper that the spec names; "" if it names none."""
        try:
            return str(tomllib.loads(self.spec).get("experiment", ""))
        except (tomllib.TOMLDecodeError, RecursionError):  # a result may hold any text as its spec
            return ""

    def curves(self) -> dict[str, Result]:
        """Return the results by figure: one for each variant, or, where each has one algorithm, all in one."""
        if len(self.results) < 2 or any(len(result.states) > 1 for result in self.results.values()):
            return self.results
        first = next(iter(self.results.values()))
        named = [
            result.table.with_columns(algorithm=pl.lit(variant), setting=pl.lit(""))
            for variant, result in self.results.items()
        ]
        states = {(variant, ""): next(iter(result.states.values())) for variant, result in self.results.items()}
        metrics = {name: label for result in self.results.values() for name, label in result.metrics.items()}
        table = pl.concat(named, how="diagonal")
        return {"": replace(first, table=table, states=states, biases=None, metrics=metrics)}

    def summary(self) -> Summary:
        """Return the ends of the runs of all variants in one table, with notes on what else differs."""
        if list(self.results) == [""]:
            return self.result.summary()
        parts = {variant: result.summary() for variant, result in self.results.items()}

        def stacked(frames: dict[str, Any]) -> pl.DataFrame:
            named = [frame.select(pl.lit(name).alias("variant"), pl.all()) for name, frame in frames.items()]
            return pl.concat(named, how="diagonal_relaxed")

        table = stacked({variant: part.table for variant, part in parts.items()})
        ends = stacked({variant: part.ends for variant, part in parts.items()})
        labels = {name: label for part in parts.values() for name, label in part.metrics.items()}
        notes = dict.fromkeys(note for part in parts.values() for note in part.notes)
        return Summary(table, labels, ends, (*describe_differences(find_differences(self.results)), *notes))

    def across(self, metric: str = "loss") -> Across:
        """Return the ends of the runs by one metric, methods by variants: "broke" where all runs diverged."""
        return Across.of(self.summary(), metric)

    def plot(self, metric: str = "loss", x: str = "rounds", *, variant: str | None = None, **options: Any) -> Any:
        """Draw one variant, or all where each has a single algorithm: see `Result.plot`."""
        drawn = self.curves()
        if variant is None and len(drawn) > 1:
            raise InputError(f"this study has {len(drawn)} figures, one a variant: give variant=…, {some(drawn)}.")
        if variant is not None and variant not in self.results:
            raise InputError(f"this study has no variant {brief(variant)}; {nearest(variant, self.results)}")
        if variant is not None or len(drawn) == len(self.results):
            return self.results[next(iter(drawn)) if variant is None else variant].plot(metric, x, **options)
        from gossamer.report import figures  # as `Result.plot` does

        return next(iter(drawn.values())).plot(metric, x, looks=figures.variant_looks(self), **options)

    def report(self, file: str | os.PathLike[str]) -> Path:
        """Write a report of the study: one HTML file, which opens offline."""
        from gossamer import report

        return report.write([self], [], Path(file), self.title, "gossamer run spec.toml  # the spec that stands above")

    def to_latex(self, *metrics: str) -> str:
        """Return a table of the ends of the runs for a paper: see `gossamer.report.tables.paper_table`."""
        from gossamer.report.names import rename_variants  # as `Result.plot` does

        summary = self.summary()
        named = {key: rename_variants(self, getattr(summary, key)) for key in ("table", "ends")}
        return replace(summary, **named).to_latex(*metrics)

    def step_sizes(self, variant: str = "") -> pl.DataFrame:
        """Return what each method ended at by its step size: a row for each replicate, algorithm and η.

        `value` is the criterion, the best over what else was varied (null where all diverged), and `stable` says
        whether η belongs to the step sizes around the best that end near the best value of all methods: by a metric on
        a logarithmic axis, such as ‖∇F‖², within a factor of two; by another, such as the loss, within 5 % of the way
        from the start. It needs a tuning by a metric.
        """
        tried = None if self.tuning is None else self.tuning.filter(pl.col("variant") == variant)
        if tried is None or tried.is_empty() or (criterion := tried["criterion"][0]) == "rounds":
            raise InputError(f"step sizes were not compared{f' in {variant!r}' if variant else ''}: tune by a metric.")
        label, value = self.results[variant].metrics[criterion], pl.col("value")
        higher = label.better == "higher"
        top = value.max() if higher else value.min()
        each = tried.group_by("replicate", "algorithm", "eta", maintain_order=True).agg(top)
        start = self.results[variant].table.filter(pl.col("round") == 0)[criterion].mean()
        best = top.over("replicate")
        enough = best * (0.5 if higher else 2) if label.log else best + 0.05 * (pl.lit(start) - best)
        near = (value >= enough if higher else value <= enough).fill_null(False).alias("near")
        parts = [
            grid.with_columns(stable=pl.Series(_around_best(grid, higher)))
            for _, grid in each.with_columns(near).sort("eta").group_by("replicate", "algorithm", maintain_order=True)
        ]
        columns = "replicate", "algorithm", "eta", "value", "stable"
        return pl.concat(parts).select(*columns).sort("replicate", "algorithm", "eta", maintain_order=True)

    def save(self, folder: Path, *, anew: bool = True) -> None:
        """Write the study into a directory that exists: a directory for each variant, and `study.json` last.

        Files that hold the right bytes are not touched; see `Result.write_into` for `anew`.
        """
        places = {variant: place(variant, number) for number, variant in enumerate(self.results)}
        checksums = {}
        with exclusive(folder):
            for variant, result in self.results.items():
                target = folder / places[variant]
                target.mkdir(exist_ok=True)
                own = replace(result, spec=self.spec) if target == folder else result
                checksums[f"{places[variant]}/manifest.json"] = own.write_into(target, anew=anew)
            if self.tuning is not None:
                tuning = BytesIO()
                self.tuning.write_parquet(tuning)
                checksums["tuning.parquet"] = write(folder / "tuning.parquet", tuning.getvalue())
            checksums["spec.toml"] = write(folder / "spec.toml", self.spec.encode())
            record = {"files": checksums, "name": self.name, "title": self.title, "variants": places}
            write(folder / "study.json", seal(record | {"facts": self.facts}))

    @staticmethod
    def load(folder: str | Path) -> "Study":
        """Read a study, or a single result as one. Nothing is unpickled or evaluated, and every file is checked
        against its checksum."""
        source = Path(folder)
        if not os.path.lexists(source / "study.json"):
            result = Result.load(source)
            return Study(source.name, source.name, result.spec or "", {"": result}, None)
        with reading(source):
            record = unseal("study.json", read(source / "study.json"))
            data = {name: read(source / name, expected) for name, expected in record["files"].items()}
            return Study(
                name=record["name"],
                title=record["title"],
                spec=data["spec.toml"].decode(),
                results={variant: Result.load(source / where) for variant, where in record["variants"].items()},
                tuning=pl.read_parquet(BytesIO(data["tuning.parquet"])) if "tuning.parquet" in data else None,
                facts=record["facts"],
            )


def _around_best(grid: pl.DataFrame, higher: bool) -> list[bool]:
    """Return which rows of a grid, sorted by η, are near the best without a gap; none if the best is not."""
    near, values = grid["near"].to_list(), grid["value"].fill_null(float("-inf" if higher else "inf")).to_list()
    low = high = values.index(max(values) if higher else min(values))
    while low > 0 and near[low - 1]:
        low -= 1
    while high + 1 < len(near) and near[high + 1]:
        high += 1
    return [near[k] and low <= k <= high for k in range(len(near))]


def place(variant: str, number: int) -> str:
    """Return the directory of a variant: its number and what of its name is safe in a path; "." without a name."""
    safe = "".join(letter if letter.isalnum() or letter in "-_.=" else "-" for letter in variant)
    return f"{number:02d}-{safe[:40]}" if variant else "."


def study_of(given: Any, name: str) -> Study:
    """Return a study as it is, and a result as a study. Errors for anything else name it by `name`."""
    if isinstance(given, Study):
        return given
    if not isinstance(given, Result):
        raise InputError(f"{brief(name)} must be a Result or a Study, but is {brief(given)}.")
    return Study(name, name, given.spec or "", {"": given}, None)
