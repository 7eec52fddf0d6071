"""A study: one experiment under several variants (another network, split, bias …), each with a result of its own."""

import os
import tomllib
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from gossamer.basics.text import some
from gossamer.core import InputError, brief, nearest
from gossamer.results import showing
from gossamer.results.across import Across
from gossamer.results.files import Damaged, exclusive, read, sealed, unsealed, write
from gossamer.results.records import Record, believed, checked_tuning, table
from gossamer.results.result import Result
from gossamer.results.settings import differing, told
from gossamer.results.summary import Summary

TUNING = ("variant", "replicate", "algorithm", "setting", "criterion", "value", "diverged", "extension", "chosen")
"""The columns of a tuning table that are not hyper-parameters."""

TUNED = "tuned in each of"
"""How the setting of a method begins whose hyper-parameters were tuned anew in every replicate."""


@dataclass(frozen=True)
class Study:
    """The outcome of a spec: a result for each variant, how the methods were tuned, and what the variants are."""

    name: str
    title: str
    spec: str
    """The TOML that it was made from."""
    results: dict[str, Result]
    """By variant, in the order of the spec; under "" where the spec has none."""
    tuning: pl.DataFrame | None
    """One row for each setting that was tried: variant, replicate, algorithm, setting, the hyper-parameters (null
    where the algorithm has none of that name), criterion, value (null where a seed diverged), diverged (how many
    seeds), extension (0 for the first grid) and chosen."""
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By variant: agents, network, gap, links, smoothness, heterogeneity at the start, classes and counts (the rows of
    each class that each agent holds), edges, bias_sq (the mean over seeds of ‖ē‖²)."""

    def __repr__(self) -> str:
        return showing.study_line(self)

    def _repr_html_(self) -> str:
        return showing.study_html(self)

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
        """What belongs into one figure: a result for each variant, or, where each has one algorithm, all in one."""
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
        """The ends of the runs of all variants in one table; notes below it say in what else the variants differ."""
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
        return Summary(table, labels, ends, (*told(differing(self.results)), *notes))

    def across(self, metric: str = "loss") -> Across:
        """The ends of the runs by one metric, methods by variants; where all runs of a method diverged, it "broke"."""
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
        """Write one HTML file about it, which opens offline."""
        from gossamer import report

        return report.write([self], [], Path(file), self.title, "gossamer run spec.toml  # the spec that stands above")

    def to_latex(self, *metrics: str) -> str:
        """A table of the ends of the runs for a paper: see `gossamer.report.tables.paper_table`."""
        from gossamer.report.names import rename_variants  # as `Result.plot` does

        summary = self.summary()
        named = {key: rename_variants(self, getattr(summary, key)) for key in ("table", "ends")}
        return replace(summary, **named).to_latex(*metrics)

    def step_sizes(self, variant: str = "") -> pl.DataFrame:
        """What each method ended at by its step size: a row for each replicate, algorithm and η that was tried.

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
        """Write it into a directory that exists: a directory for each variant, and `study.json` last.

        Files that hold what they should are not touched; see `Result.write_into` for `anew`.
        """
        with exclusive(folder):
            self._write_into(folder, anew)

    def _write_into(self, folder: Path, anew: bool) -> None:
        places = {variant: place(variant, number) for number, variant in enumerate(self.results)}
        marks = {}
        for variant, result in self.results.items():
            target = folder / places[variant]
            target.mkdir(exist_ok=True)
            own = replace(result, spec=self.spec) if target == folder else result
            marks[f"{places[variant]}/manifest.json"] = own.write_into(target, anew=anew)
        if self.tuning is not None:
            tuning = BytesIO()
            self.tuning.write_parquet(tuning)
            marks["tuning.parquet"] = write(folder / "tuning.parquet", tuning.getvalue())
        marks["spec.toml"] = write(folder / "spec.toml", self.spec.encode())
        known = {"files": marks, "name": self.name, "title": self.title, "variants": places, "facts": self.facts}
        write(folder / "study.json", sealed(known))

    @staticmethod
    def load(folder: str | Path) -> "Study":
        """Read a study, or a single result as one. Nothing is unpickled or evaluated, and every file is checked
        against its checksum."""
        source = Path(folder)
        if not os.path.lexists(source / "study.json"):
            result = Result.load(source)
            return Study(source.name, source.name, result.spec or "", {"": result}, None)
        with believed(source):
            known = unsealed("study.json", read(source / "study.json"))
            record, marks = Record.model_validate(known), known["files"]
            for number, (variant, where) in enumerate(record.variants.items()):
                if where != place(variant, number):
                    raise Damaged(
                        f"study.json puts the variant {variant!r} at {where!r}, not {place(variant, number)!r}"
                    )
                read(source / where / "manifest.json", marks[f"{where}/manifest.json"])
            results = {variant: Result.load(source / where) for variant, where in record.variants.items()}
            spec = read(source / "spec.toml", marks["spec.toml"]).decode()
            tuning = None
            if "tuning.parquet" in marks:
                tuning = table("tuning.parquet", read(source / "tuning.parquet", marks["tuning.parquet"]))
                tuning = checked_tuning("tuning.parquet", tuning, record.variants)
            return Study(record.name, record.title, spec, results, tuning, known["facts"])


def _around_best(grid: pl.DataFrame, higher: bool) -> list[bool]:
    """Which rows of a grid, sorted by η, are near without a gap from the best on; none if the best is not."""
    near, values = grid["near"].to_list(), grid["value"].fill_null(float("-inf" if higher else "inf")).to_list()
    low = high = values.index(max(values) if higher else min(values))
    while low > 0 and near[low - 1]:
        low -= 1
    while high + 1 < len(near) and near[high + 1]:
        high += 1
    return [near[k] and low <= k <= high for k in range(len(near))]


def place(variant: str, number: int) -> str:
    """The directory of a variant: its number and what of its name is safe in a path; the study's own if unnamed."""
    safe = "".join(letter if letter.isalnum() or letter in "-_.=" else "-" for letter in variant)
    return f"{number:02d}-{safe[:40]}" if variant else "."


def study_of(given: Any, name: str) -> Study:
    """A study as it is, and a result as one; anything else is refused, with the name that it was given."""
    if isinstance(given, Study):
        return given
    if not isinstance(given, Result):
        raise InputError(f"{brief(name)} must be a Result or a Study, but is {brief(given)}.")
    return Study(name, name, given.spec or "", {"": given}, None)
