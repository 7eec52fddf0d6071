"""Recommendations: a ranking of methods with intervals, the reasons of eliminations, and the winner's spec."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gossamer.basics.files import write
from gossamer.basics.table import Table
from gossamer.basics.text import format_between, format_number, json_ready
from gossamer.results.statistics import decide

HEAD = ("method", "graph", "value", "worse by", "", "seconds", "MB sent", "rounds", "setting")


@dataclass(frozen=True)
class Recommendation:
    """The outcome of `gossamer.recommend`. Printed it is text for a terminal."""

    sought: str
    threshold: str
    """The least difference that matters, which was set before the search."""
    matters: float
    """The same as a share."""
    criterion: str
    currency: str | None
    """The unit of a target's values; None where the criterion itself is judged."""
    clock: str
    ranking: list[dict[str, Any]]
    """The finalists, the best first: value with its 95 % interval, what was paid, and how much worse than the first."""
    eliminated: list[dict[str, str]]
    """The methods that did not come so far, the stage in which each was eliminated, and why."""
    curves: dict[str, dict[str, list[float]]]
    """The criterion of each finalist along what was paid."""
    within: tuple[int, int]
    """The methods within what matters of the best in the first stage, on its one seed, and all that were tried."""
    more: list[str]
    """The gain to expect of more seeds and of a larger budget."""
    winner: str
    """The spec of the answer, as TOML: the simplest of the first and those that tie with it."""
    took: float
    """Seconds of the search itself."""

    @property
    def ties(self) -> list[str]:
        """The first, and those that differ from it by nothing that matters."""
        return [title(row) for row in self.ranking if row["verdict"] in ("first", "tie")]

    @property
    def answer(self) -> dict[str, Any]:
        """The line of the method to run: of the first and those that tie with it, the simplest."""
        return next(row for row in self.ranking if row["answer"])

    @property
    def verdict(self) -> str:
        """The answer in a sentence or two."""
        first, names, answer = self.ranking[0], self.ties, self.answer
        name, numbers = title(answer), answer["setting"]
        near, of_all = self.within
        text = f"Run {name} with {numbers}."
        if self.currency is not None and first["reached"] < first["seeds"]:
            text = f"Nothing reached the target for good on all seeds. Nearest: {name} with {numbers}."
        elif answer["simplest"]:
            text = (
                f"Keep {name}, the simplest method, with {numbers}: nothing is better by what "
                f"matters. {near} of {of_all} methods were within that margin of the best in the first stage."
            )
        elif answer is not first:
            text = f"Run {name}, the simplest of those that tie, with {numbers}."
        if len(names) > 1:
            contiguous = names == [title(row) for row in self.ranking[: len(names)]]
            which = f"the first {len(names)}" if contiguous else ", ".join(names)
            text += f" No difference that matters between {which}."
        unsure = [title(row) for row in self.ranking if row["verdict"] == "undecided"]
        if unsure:
            text += f" Undecided after {first['seeds']} seeds: whether {' and '.join(unsure)} is worse by what matters."
        return text

    @property
    def pareto(self) -> list[str]:
        """The finalists on the front: at some point no other has a lower error for as few bytes and seconds."""
        axes = ("mean", "seconds", "bytes")
        points = {name: list(zip(*(curve[key] for key in axes), strict=True)) for name, curve in self.curves.items()}
        everyone = [(name, point) for name, several in points.items() for point in several]

        def is_dominated(name: str, point: Sequence[float]) -> bool:
            return any(
                other != name and all(a <= b for a, b in zip(theirs, point, strict=True)) and theirs != point
                for other, theirs in everyone
            )

        # the start is common to all, and no merit
        return [name for name, several in points.items() if any(not is_dominated(name, point) for point in several[1:])]

    def asdict(self) -> dict[str, Any]:
        """Return all fields, for a JSON file."""
        return asdict(self) | {"verdict": self.verdict, "ties": self.ties, "pareto": self.pareto}

    def plot(self) -> Any:
        """Draw the Pareto front: the criterion against seconds, and against bytes."""
        from gossamer.report.figures import draw_front

        return draw_front(self)

    def save(self, folder: Path) -> None:
        """Write recommendation.json, winner.toml, eliminated.txt and pareto.png into a directory."""
        from gossamer.report.figures import save

        folder.mkdir(parents=True, exist_ok=True)
        write(folder / "recommendation.json", json.dumps(json_ready(self.asdict()), indent=1).encode())
        write(folder / "winner.toml", self.winner.encode())
        dropped = [f"{row['what']} ({row['stage']}): {row['why']}\n" for row in self.eliminated]
        write(folder / "eliminated.txt", "".join(dropped).encode())
        save(self.plot(), folder / "pareto.png")

    def __str__(self) -> str:
        table = Table(HEAD, [_cells(row, self.matters) for row in self.ranking]).text(keys=2)
        counts = sorted({row["seeds"] for row in self.ranking})
        judged = self.criterion
        if self.currency is not None:
            judged = f"{self.currency} until the target, between the measured rounds before and after it"
        words = [
            f"Sought: {self.sought}. Clock: {self.clock}.",
            f"value: {judged}; the mean over {' or '.join(map(str, counts))} seeds with its 95 % interval.",
            f"worse by: the difference from the first on the same samples. Differences above {self.threshold} matter.",
            f"On the Pareto front of error, bytes and seconds: {', '.join(self.pareto)}.",
        ]
        words.append(f"Eliminated: {len(self.eliminated)}; eliminated.txt in the saved directory says when and why.")
        return "\n".join([self.verdict, *self.more, "", table, "", *words])

    def __repr__(self) -> str:
        return f"Recommendation({self.verdict})"


def title(row: dict[str, Any]) -> str:
    """Return the name of a line of the ranking."""
    return f"{row['method']} on {row['graph']}"


def format_apart(row: dict[str, Any], matters: float) -> str:
    """Return by what share a method is worse, with digits enough to leave the verdict as it is."""
    mean, low, high = (100 * row[key] for key in ("worse_by", "worse_low", "worse_high"))
    decided, digits = decide(low, high, 100 * matters), 2
    while digits < 17 and decide(float(f"{low:.{digits}g}"), float(f"{high:.{digits}g}"), 100 * matters) != decided:
        digits += 1
    mean, low, high = (format_number(share, digits=digits) for share in (mean, low, high))
    return f"{mean} % [{low}, {high}]"


def _cells(row: dict[str, Any], matters: float) -> list[str]:
    half, between = row["high"] - row["value"], row["between"]
    value = format_number(row["value"]) if between is None else format_between(*between)
    return [
        row["method"],
        row["graph"],
        f"{value} ± {format_number(half, digits=1)}" if math.isfinite(half) else value,
        "" if row["verdict"] == "first" or not math.isfinite(row["worse_by"]) else format_apart(row, matters),
        row["verdict"],
        format_number(row["seconds"]),
        format_number(row["bytes"] / 1e6, digits=3),
        f"{row['rounds']:,}",
        row["setting"],
    ]
