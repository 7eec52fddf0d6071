"""A study: results under several variants, such as networks, splits or biases; runs side by side; and what differs."""

import math
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from gossamer.basics.files import exclusive, read, seal, unseal, write
from gossamer.basics.html import panel, tag
from gossamer.basics.table import Table
from gossamer.basics.text import format_between, format_number, plural, some
from gossamer.core import InputError, brief, nearest
from gossamer.metrics import Label
from gossamer.results.exports import RunTable
from gossamer.results.result import Result, Summary, reading

if TYPE_CHECKING:
    from gossamer.results.verdicts import MethodVerdicts

MARKS = ("before", "after")
"""The columns of a tuning by a target: the measured rounds on both sides of it, the means over tuning seeds."""

TUNING = (
    *("variant", "replicate", "algorithm", "setting", "criterion", "value", "diverged", "stage", "chosen", "rounds"),
    *MARKS,
)
"""The columns of a tuning table that are not hyper-parameters."""

TUNED = "tuned in each of"
"""The first words of a setting whose hyper-parameters were tuned anew in every replicate."""

SIDE_BY_SIDE = "side-by-side"
"""The name of a study that puts others together."""

SHARED = {"problem": ("data", "dimension", "F at the start", "problem"), "agents": ("agents",), "dtype": ("dtype",)}
"""Conditions that results must share unless they are allowed to differ, and the settings that show each."""

Differences = dict[str, dict[str, Any]]
"""By setting: the value of each result, by its label; None where the value is not known."""


@dataclass(frozen=True)
class Across:
    """The ends of the runs of all methods in all variants, by one metric. Printed it is text for a terminal."""

    metric: str
    table: pl.DataFrame
    """A row for each variant and method: variant, algorithm, setting, the metric's mean and its `half` width (over
    the replicates that did not diverge), diverged and seeds."""

    def __str__(self) -> str:
        variants = self.table["variant"].unique(maintain_order=True).to_list()
        cells = {}
        for variant, algorithm, setting, mean, half, diverged, seeds in self.table.iter_rows():
            text = format_number(mean, half, digits=3, missing="broke" if seeds and diverged == seeds else "-")
            text += f", {diverged} of {seeds} broke" if diverged and mean is not None else ""
            cells[variant, algorithm, setting] = text
        methods = list(dict.fromkeys(self.table.select("algorithm", "setting").iter_rows()))
        body = [[*method, *(cells.get((variant, *method), "-") for variant in variants)] for method in methods]
        return f"{self.metric} at the end\n{Table(['algorithm', 'setting', *variants], body).text(keys=2)}"

    __repr__ = __str__


@dataclass(frozen=True)
class Study(RunTable):
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
    seeds), stage (from 0 on) and chosen. Of a tuning by a target also before and after: see `MARKS`."""
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By variant: agents, network, gap, links, smoothness, heterogeneity at the start, classes and counts (the rows of
    each class that each agent holds), edges, bias_sq (the mean over seeds of ‖ē‖²)."""

    def __repr__(self) -> str:
        algorithms = dict.fromkeys(label for result in self.results.values() for label in result.labels)
        about = [repr(self.name), some(algorithms)]
        if list(self.results) != [""]:
            about.insert(1, f"{plural(len(self.results), 'variant')}: {some(self.results)}")
        if self.tuning is not None:
            about.append(f"tuned over {plural(len(self.tuning), 'setting')}")
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
        return str(variant_spec(self.spec).get("experiment", ""))

    @property
    def metrics(self) -> dict[str, Label]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The metrics that were measured in some variant, and how each is shown."""
        return {name: label for result in self.results.values() for name, label in result.metrics.items()}

    def frame(self) -> pl.DataFrame:
        """Return the rows of all results as `Result.frame` has them, under the names of their variants."""
        if list(self.results) == [""]:
            return self.result.frame()
        return self._stack([result.frame() for result in self.results.values()])

    def _stack(self, frames: Iterable[Any]) -> pl.DataFrame:
        """Return a table of each variant as one, with the variant in front."""
        named = zip(self.results, frames, strict=True)
        parts = [frame.select(pl.lit(variant).alias("variant"), pl.all()) for variant, frame in named]
        return pl.concat(parts, how="diagonal_relaxed")

    def curves(self) -> dict[str, Result]:
        """Return the results by figure: one for each variant, or, where each has one algorithm, all in one."""
        if len(self.results) < 2 or any(len(result.states) > 1 for result in self.results.values()):
            return self.results
        # the variants are the curves then: a figure for each would hold a single one
        first = next(iter(self.results.values()))
        named = [
            result.table.with_columns(algorithm=pl.lit(variant), setting=pl.lit(""))
            for variant, result in self.results.items()
        ]
        states = {(variant, ""): next(iter(result.states.values())) for variant, result in self.results.items()}
        table = pl.concat(named, how="diagonal")
        return {"": replace(first, table=table, states=states, biases=None, metrics=self.metrics)}

    def summary(self) -> Summary:
        """Return the ends of the runs of all variants in one table, with notes on what else differs."""
        return self._summary

    @cached_property
    def _summary(self) -> Summary:
        # a report asks for it four times: for its page, two files and their LaTeX
        if list(self.results) == [""]:
            return self.result.summary()
        parts = [result.summary() for result in self.results.values()]
        labels = {name: label for part in parts for name, label in part.metrics.items()}
        notes = dict.fromkeys(note for part in parts for note in part.notes)
        table, ends = (self._stack([getattr(part, name) for part in parts]) for name in ("table", "ends"))
        return Summary(table, labels, ends, (*describe_differences(find_differences(self.results)), *notes))

    def across(self, metric: str = "loss") -> Across:
        """Return the ends of the runs by one metric, methods by variants: "broke" where all runs diverged."""
        rows = self.summary().table
        known = [name for name in rows.columns if f"{name}_±" in rows.columns and name != "seconds"]
        if metric not in known:
            raise InputError(f"no metric {brief(metric)} was measured; {nearest(metric, known)}")
        if "variant" not in rows.columns:
            rows = rows.with_columns(variant=pl.lit(""))
        mean, half = pl.col(metric).alias("mean"), pl.col(f"{metric}_±").alias("half")
        return Across(metric, rows.select("variant", "algorithm", "setting", mean, half, "diverged", "seeds"))

    def verdicts(self, metric: str | None = None, matters: float | None = None) -> "MethodVerdicts":
        """Return who is ahead at equal rounds, queries, bytes, seconds and joules, who ties, and by how much.

        Where each variant has a single method, and all have one problem, the variants are compared.

        Args:
            metric: the metric to judge by: unless given, the spec's `[verdict]` or the criterion of its tuning, or the
                loss.
            matters: the smallest difference that matters; see `gossamer.results.verdicts.judge_methods`.
        """
        from gossamer.results.verdicts import MethodVerdicts, judge_methods  # which compares studies

        stated = read_spec(self.spec).get("verdict", {})
        if metric is None:
            tuned = None if self.tuning is None or self.tuning.is_empty() else str(self.tuning["criterion"][0])
            is_measured = tuned in next(iter(self.results.values())).measured
            metric = str(stated.get("metric") or (tuned if is_measured else "loss"))
            if not all(result.has(metric) for result in self.results.values()):  # as where all runs diverged at once
                return MethodVerdicts.none(f"No verdict between methods: {metric} was not measured in all runs.")
        problems = {variant: variant_spec(self.spec, variant).get("problem") for variant in self.results}
        is_one_problem = set(SHARED["problem"]) & find_differences(self.results, problems).keys() == set()
        compared = self.curves() if is_one_problem else self.results
        matters = stated.get("matters") if matters is None else matters
        # the rounds for which each algorithm was tuned, by variant and name; none if tuning counted rounds
        rounds: dict[tuple[str, str], int] = {}
        if self.tuning is not None and {"rounds", "criterion"} <= {*self.tuning.columns}:
            tried = self.tuning.filter(pl.col("criterion") != "rounds").drop_nulls("rounds")
            for variant, title, number in tried.select("variant", "algorithm", "rounds").unique().iter_rows():
                rounds[variant, title.partition(" (")[0]] = number
                rounds["", variant] = number  # where variants with one algorithm each are the methods
        return judge_methods(compared, metric, matters, rounds)

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
        near = (value >= enough if higher else value <= enough).fill_null(False)
        grids = each.with_columns(near=near).sort("replicate", "algorithm", "eta", maintain_order=True)
        # neighbours that are near share a number, which counts those before them that are not
        grids = grids.with_columns(block=(~pl.col("near")).cum_sum().over("replicate", "algorithm"))
        own = pl.col("block").filter(pl.col("near") & (value == top)).first()
        stable = (pl.col("near") & (pl.col("block") == own)).fill_null(False).over("replicate", "algorithm")
        return grids.select("replicate", "algorithm", "eta", "value", stable=stable)

    def save(self, folder: Path) -> None:
        """Write the study into a directory that exists: a directory for each variant, and `study.json` last.

        Files that hold the right bytes are not touched.
        """
        places = {variant: place(variant, number) for number, variant in enumerate(self.results)}
        checksums = {}
        with exclusive(folder):
            for variant, result in self.results.items():
                target = folder / places[variant]
                target.mkdir(exist_ok=True)
                own = replace(result, spec=self.spec) if target == folder else result
                checksums[f"{places[variant]}/manifest.json"] = own.write_into(target)
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
            tuning = pl.read_parquet(BytesIO(data["tuning.parquet"])) if "tuning.parquet" in data else None
            return Study(
                name=record["name"],
                title=record["title"],
                spec=data["spec.toml"].decode(),
                results={variant: Result.load(source / where) for variant, where in record["variants"].items()},
                # "extension" is what the stage was called when tuning extended a grid
                tuning=None if tuning is None else tuning.rename({"extension": "stage"}, strict=False),
                facts=record["facts"],
            )


def format_criterion(row: Mapping[str, Any]) -> str:
    """Return the criterion of a row of a tuning table as text: a target lies between two measured rounds."""
    low, high = (row.get(name) for name in MARKS)
    return format_number(row["value"], digits=5) if low is None or high is None else format_between(low, high)


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


def concat(results: Mapping[str, Result | Study], *, allow: str | Iterable[str] = (), title: str = "") -> Study:
    """Put the results of several runs side by side, as the variants of one study.

    Numbers that were not made under the same conditions are not put into one table unawares: results on different
    problems (other data by their checksum, another dimension, another F at the start or another [problem] in the spec),
    with different numbers of agents or in different precisions are refused. Whatever else differs and is known (the
    network, steps, seeds, the code) stands below the study's summary. An oracle is known only by the specs of runs.

    Args:
        results: by label. A study with variants brings each as "label: variant".
        allow: what may differ nevertheless: "problem", "agents", "dtype".
        title: of the study; the labels if it is not given.
    """
    allowed = [allow] if isinstance(allow, str) else list(allow)
    for word in allowed:
        if word not in SHARED:
            raise InputError(f"concat(allow=…) does not know {brief(word)}; {nearest(word, SHARED)}")
    if not isinstance(results, Mapping) or len(results) < 2:
        raise InputError(f"concat takes a dictionary of several results by label, but got {brief(results)}.")
    studies = {label: study_of(given, label) for label, given in results.items()}
    labelled: dict[str, tuple[Study, str]] = {}
    for label, study in studies.items():
        for variant in study.results:
            name = label if len(study.results) == 1 else f"{label}: {variant}"
            if name in labelled:
                raise InputError(f"two results are called {brief(name)}: give each a label of its own.")
            labelled[name] = study, variant
    by_label = {label: study.results[variant] for label, (study, variant) in labelled.items()}
    problems = {label: variant_spec(study.spec, variant).get("problem") for label, (study, variant) in labelled.items()}
    differences = find_differences(by_label, problems)
    for word, keys in SHARED.items():
        shown = {key: differences[key] for key in keys if key in differences}
        if shown and word not in allowed:
            raise InputError(
                f"these results differ in what they should share: {'; '.join(describe_differences(shown))}. If that is "
                f'what you compare, say so: allow=["{word}"].'
            )
    facts, tuning = {}, []
    for label, (study, variant) in labelled.items():
        own = {key: values[label] for key, values in differences.items()}
        plain = {key: value for key, value in own.items() if isinstance(value, (str, int, float))}
        facts[label] = plain | study.facts.get(variant, {})
        if study.tuning is not None:
            tuning.append(study.tuning.filter(pl.col("variant") == variant).with_columns(variant=pl.lit(label)))
    # as comments: the specs are several, and none describes the whole
    spec = ["# Results of several runs, side by side."]
    for label, study in studies.items():
        spec += ["#", f"# {' '.join(label.split())}:", *(f"#   {line}".rstrip() for line in study.spec.splitlines())]
    return Study(
        name=SIDE_BY_SIDE,
        title=title or ", ".join(studies),
        spec="\n".join(spec) + "\n",
        results={label: replace(by_label[label], spec=study.spec or None) for label, (study, _) in labelled.items()},
        tuning=pl.concat(tuning, how="diagonal_relaxed") if tuning else None,
        facts=facts,
    )


def find_differences(results: Mapping[str, Result], problems: Mapping[str, Any] | None = None) -> Differences:
    """Return the settings that are known of at least two results and not the same in all.

    `problems` holds the [problem] of the spec of each result, by its label.
    """
    settings = {label: _settings(result, (problems or {}).get(label)) for label, result in results.items()}
    rounding = max([result.rounding for result in results.values()], default=0.0)

    # machines sum in different orders: F at the start is compared within what rounding can make
    def is_same(first: Any, second: Any) -> bool:
        if isinstance(first, float) and isinstance(second, float):
            return math.isclose(first, second, rel_tol=rounding, abs_tol=1e-300)
        return first == second

    differences: Differences = {}
    for key in next(iter(settings.values()), {}):
        values = {label: setting[key] for label, setting in settings.items()}
        known = [value for value in values.values() if value is not None]
        if not all([is_same(value, known[0]) for value in known]):
            differences[key] = values
    return differences


def _settings(result: Result, problem: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what is known of a result besides its methods."""
    manifest, seeds = result.manifest, result.seeds
    data, network, versions = (manifest.get(part) or {} for part in ("data", "network", "versions"))
    iterates = next(iter(result.states.values()), None)
    digest = data.get("sha256")
    if problem is not None:  # data with a checksum are known by it, wherever their files are
        by_digest = ("data", "test") if digest is not None else ()
        problem = dict(flatten({key: value for key, value in problem.items() if key not in by_digest}))
    losses = result.table.filter(result.table["round"] == 0)["loss"].drop_nulls()
    in_a_row = seeds == list(range(seeds[0], seeds[0] + len(seeds))) and len(seeds) > 2
    return {
        "data": f"{data.get('name')} ({str(digest)[:12]})" if digest else None,
        "problem": problem,
        "dimension": None if iterates is None else int(iterates.shape[-1]),
        "F at the start": float(losses[0]) if len(losses) else None,
        "agents": network.get("agents"),
        "network": network.get("name"),
        "clock": manifest.get("clock"),
        "dtype": manifest.get("dtype"),
        "steps": manifest.get("steps"),
        "seeds": f"{seeds[0]} … {seeds[-1]}" if in_a_row else ", ".join(map(str, seeds[:20])),
        "code": versions.get("code"),  # of all rooms that decide numbers
        "jax": versions.get("jax"),
    }


def describe_differences(differences: Differences) -> list[str]:
    """Return a line of text for each difference, in which equal values stand once."""

    def text(value: Any) -> str:
        if isinstance(value, dict):
            return ", ".join(f"{key} = {inner}" for key, inner in value.items())
        return "not known" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)

    lines = []
    for key, values in differences.items():
        labels: dict[str, list[str]] = {}
        for label, value in values.items():
            labels.setdefault(text(value), []).append(label)
        lines.append(f"{key} differs: " + "; ".join(f"{value} ({some(own)})" for value, own in labels.items()))
    return lines


def read_spec(spec: str | None) -> dict[str, Any]:
    """Return the tables of a spec; none where the text is no spec, as a result may hold any."""
    try:
        return tomllib.loads(spec or "")
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def variant_spec(spec: str | None, variant: str = "") -> dict[str, Any]:
    """Return the spec of a variant, whose tables add to those of the whole."""
    whole = read_spec(spec)
    own = next((table for table in whole.pop("variant", []) if table.get("name") == variant), {})
    for key, value in own.items():
        is_both = isinstance(value, dict) and isinstance(whole.get(key), dict)
        whole[key] = whole[key] | value if is_both else value
    return whole


def flatten(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a spec by their path; tables of a list by their names, if all have different ones."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from flatten(inner, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list) and value and all(isinstance(inner, dict) for inner in value):
        names = [inner.get("name") for inner in value]
        named = all(isinstance(name, str) for name in names) and len({*names}) == len(names)
        for number, inner in enumerate(value):
            yield from flatten(inner, f"{where}[{names[number] if named else number}]")
    else:
        yield where, value
