"""The table of a tuning, as people read it: what was tried, what was chosen, and whether a grid was too small."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import polars as pl

from gossamer.algorithms import ALGORITHMS
from gossamer.basics.html import Markup, joined, panel, tag
from gossamer.basics.table import Table
from gossamer.basics.text import counted
from gossamer.core import Range, Whole, hyperparameters
from gossamer.experiments.grids import Edge, edges
from gossamer.metrics import METRICS
from gossamer.results.study import TUNING
from gossamer.specs.candidates import Candidate

WIDEST, LONGEST, TOP = 10, 16, 10
"""The most columns and rows of a grid; a larger one is shown by its best settings."""


class Search(NamedTuple):
    """All that was tried for one algorithm, in one variant and replicate."""

    variant: str
    replicate: int
    algorithm: str
    rows: pl.DataFrame
    allowed: Mapping[str, Range | Whole] = {}
    """By column, what a number may be, as far as it is known."""

    @property
    def chosen(self) -> dict[str, Any]:
        """The row that was chosen."""
        return self.rows.filter("chosen").row(0, named=True)

    @property
    def varied(self) -> list[str]:
        """The hyper-parameters for which several values were tried."""
        return [name for name in numbers_of(self.rows) if self.rows[name].drop_nulls().n_unique() > 1]

    @property
    def title(self) -> str:
        parts = [self.variant] * bool(self.variant) + [self.algorithm]
        return ", ".join(parts)

    def on_edge(self) -> dict[str, Edge]:
        """The numbers whose chosen value lies on an edge of what was tried."""
        values = {name: self.rows[name].drop_nulls().to_list() for name in self.varied}
        return edges(values, self.chosen, self.allowed)


def searches(table: pl.DataFrame, candidates: Mapping[str, Candidate] | None = None) -> Iterator[Search]:
    """What was tried, by variant, replicate and algorithm; `candidates`, by name, are those that have none in
    `ALGORITHMS`."""
    for (variant, replicate, algorithm), rows in table.group_by(
        "variant", "replicate", "algorithm", maintain_order=True
    ):
        candidate = (candidates or {}).get(str(algorithm))
        name = str(algorithm).partition(" (")[0]  # without how its tracker starts
        if candidate is None and name in ALGORITHMS:
            candidate = Candidate.of(name)
        yield Search(str(variant), int(str(replicate)), str(algorithm), rows, _allowed(candidate))


def column_of(key: str, candidate: Candidate) -> str:
    """The column of a hyper-parameter: always eta for the step size, and never a name that is in `TUNING`."""
    return "eta" if key == candidate.step else f"{key}_" if key in TUNING else key


def numbers_of(rows: pl.DataFrame) -> list[str]:
    """The hyper-parameters that these rows have."""
    return [name for name in rows.columns if name not in TUNING and rows[name].null_count() < len(rows)]


def laid_out(search: Search) -> tuple[list[str], list[list[str]]]:
    """What was tried as a table: one number by another with the criterion's values, or the best settings if there are
    more numbers or values than fit. The chosen value has a star."""
    rows, varied = search.rows, search.varied
    across = [name for name in varied if name != "eta"]
    if len(varied) == 2 and len(across) == 1:
        columns, lines = (sorted(rows[name].unique().to_list()) for name in (across[0], "eta"))
        if len(columns) <= WIDEST and len(lines) <= LONGEST:
            cells = {(row["eta"], row[across[0]]): _cell(row) for row in rows.iter_rows(named=True)}
            head = [f"eta \\ {across[0]}", *(f"{column:g}" for column in columns)]
            return head, [[f"{eta:.4g}", *(cells.get((eta, column), "") for column in columns)] for eta in lines]
    known = METRICS.get(rows["criterion"][0])
    higher = known is not None and known.label.better == "higher"
    best = rows.sort("value", descending=higher, nulls_last=True, maintain_order=True).head(TOP)
    return ["setting", best["criterion"][0]], [[row["setting"], _cell(row)] for row in best.iter_rows(named=True)]


def warnings(table: pl.DataFrame, candidates: Mapping[str, Candidate] | None = None) -> list[str]:
    """A sentence for every number whose best value lies on the edge of what was tried."""
    lines = []
    for search in searches(table, candidates):
        for name, word in search.on_edge().items():
            again = f" in replicate {search.replicate}" if table["replicate"].n_unique() > 1 else ""
            lines.append(
                f"{search.title}: {name} = {search.chosen[name]:.4g} is the {word} value that was tried{again}: the "
                "best may lie beyond it, so widen its grid in [tuning]."
            )
    return lines


def tuning_line(table: pl.DataFrame) -> str:
    """A tuning in one line: what was chosen, of how many settings."""
    if table.is_empty():
        return "Tuned(nothing was left open)"
    chosen = ", ".join(f"{search.algorithm}({search.chosen['setting']})" for search in searches(table))
    return f"Tuned({chosen}; by {table['criterion'][0]}, {counted(len(table), 'setting')} tried)"


def tuning_html(table: pl.DataFrame, candidates: Mapping[str, Candidate] | None = None) -> Markup:
    """The settings that were chosen, with all that were tried for each algorithm folded below."""
    if table.is_empty():
        return tag("code", tuning_line(table))
    all_searches = list(searches(table))
    head = ["algorithm", "chosen", table["criterion"][0], "tried", "diverged"]
    rows = [
        [search.title, search.chosen["setting"], _cell(search.chosen, star=False), len(search.rows), _lost(search.rows)]
        for search in all_searches
    ]
    folded = [
        tag("details", tag("summary", f"{search.title}: what was tried"), Table(*laid_out(search)).html())
        for search in all_searches
    ]
    notes = [tag("div", "⚠ ", line) for line in warnings(table, candidates)]
    return panel(
        tag("code", tuning_line(table)),
        Table(head, rows, [False, False, True, True, True]).html(),
        joined(*notes, *folded),
    )


def _allowed(candidate: Candidate | None) -> dict[str, Range | Whole]:
    if candidate is None:
        return {}
    return {column_of(key, candidate): allowed for key, allowed in hyperparameters(candidate.kind).items()}


def _cell(row: dict[str, Any], star: bool = True) -> str:
    if row["value"] is None:
        return "diverged" if row["diverged"] else "–"
    return f"{row['value']:.5g}" + ("*" if star and row["chosen"] else "")


def _lost(rows: pl.DataFrame) -> int:
    """How many settings diverged for some seed."""
    return int((rows["diverged"] > 0).sum())
