"""Write docs/deep.md from a finished `make deep`: every number and figure on it comes from the run.

python docs/deep.py runs/deep
"""

import sys
import tomllib
from pathlib import Path

import polars as pl
from findings import describe_repetition
from tables import table

from gossamer.basics.text import format_number
from gossamer.report import figures
from gossamer.results.statistics import LEVEL, difference
from gossamer.results.study import TUNING, Study

HERE = Path(__file__).parent
FIGURES = HERE / "assets" / "deep"
SHOWN = {"accuracy": "the share of the test set that is predicted right", "loss": "the loss"}

NO_EDGES = (("lam", 1.0), ("beta", 0.0))
"""Beyond these there is nothing."""

HEAD = (HERE / "templates" / "deep.txt").read_text(encoding="utf-8")


def main(run: Path) -> None:
    study = Study.load(run)
    FIGURES.mkdir(parents=True, exist_ok=True)
    for metric in SHOWN:
        figures.save(study.plot(metric), FIGURES / f"{metric}.png")
    (HERE / "deep.md").write_text(page(study), encoding="utf-8")


def page(study: Study) -> str:
    result, spec, facts = study.result, tomllib.loads(study.spec), study.facts[""]
    state = next(iter(result.states.values()))
    text = HEAD.format(
        parameters=state.shape[-1],
        rows=sum(map(sum, facts["counts"])),
        agents=facts["agents"],
        network=spec["network"]["name"],
        spread=facts["heterogeneity"],
        batch=spec["oracle"]["batch"],
        steps=spec["run"]["steps"],
        seeds=len(result.seeds),
    )
    ends = study.summary().layout()
    text += f"\n## At the end\n\n{table(list(ends.head), [tuple(row) for row in ends.rows])}\n"
    text += "".join(f"![{what}](assets/deep/{metric}.png)\n" for metric, what in SHOWN.items())
    text += f"\n## Against the first\n\n{against(study)}"
    text += f"\n## How they were tuned\n\n{tabulate_tuning(study)}"
    again = describe_repetition({"": study}).replace("$ make reproduce\n$ make findings\n", "$ make deep\n")
    return text + again


def against(study: Study) -> str:
    """Test accuracies less that of the first method, on the same seeds; the intervals hold together at 95 %."""
    (first, reference), *others = study.result.final("accuracy").items()
    rows = []
    for name, values in others:
        mean, half = difference(reference, values, paired=True, level=1 - (1 - LEVEL) / len(others))
        verdict = "not told apart" if abs(mean) <= half else "above" if mean > 0 else "below"
        rows.append((f"`{name.split(' ')[0]}`", f"{100 * mean:+.2f} ± {100 * half:.2f}", verdict))
    head = ["method", f"test accuracy less that of {first.split(' ')[0]}, in percentage points", ""]
    return f"Paired by seed; all intervals hold simultaneously at {100 * LEVEL:.0f} %.\n\n" + table(head, rows)


def tabulate_tuning(study: Study) -> str:
    """Return the table of chosen settings, with the numbers that lie at an edge of what was tried."""
    assert study.tuning is not None
    rows = []
    for (name,), tried in study.tuning.group_by("algorithm", maintain_order=True):
        best = tried.row(by_predicate=pl.col("chosen"), named=True)
        numbers = [key for key in tried.columns if key not in TUNING and best[key] is not None]
        several = [key for key in numbers if tried[key].n_unique() > 1 and (key, best[key]) not in NO_EDGES]
        edges = [key for key in several if best[key] in (tried[key].min(), tried[key].max())]
        rows.append((f"`{name}`", best["setting"], format_number(best["value"]), tried.height, ", ".join(edges) or "–"))
    return table(["method", "chosen", "loss", "settings tried", "at an edge of them"], rows)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "study.json").is_file():
        sys.exit(
            "usage: python docs/deep.py DIRECTORY, where `gossamer run examples/fashion-mnist.toml --out DIRECTORY` ran"
        )
    main(Path(sys.argv[1]))
