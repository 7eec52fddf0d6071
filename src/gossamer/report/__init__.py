"""Reports: one HTML file that opens offline, and the figures and tables of a paper."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from gossamer.basics.text import json_ready
from gossamer.report import figures, page, tables
from gossamer.results.study import Study, place


def write(
    studies: list[Study],
    verdicts: list[dict[str, Any]],
    file: Path,
    title: str,
    how_to_repeat: str,
    about: Mapping[str, str] | None = None,
) -> Path:
    """Write the report of studies as one HTML file that asks no network for anything.

    Args:
        studies: a section for each.
        verdicts: verdicts on claims, each with `experiment` (a study's name), `claim`, `paper` (what a paper says),
            `measured`, `interval` ([low, high] or None), `level` (of the interval) and `verdict` ("holds",
            "does not hold", "tie", "undecided", "not run" or "not tested"); `evidence` and `short`, where there are
            some, make its picture; `reading`, `setting` and `differs` say how it was run.
        file: the HTML file; its directory is made if it is missing.
        title: the page's title.
        how_to_repeat: the commands that make the studies again.
        about: lines below the title, such as the paper and how much of it was run, by name.
    """
    return tables.write_file(Path(file), page.render(studies, verdicts, title, how_to_repeat, about))


def write_all(
    studies: list[Study],
    verdicts: list[dict[str, Any]],
    folder: Path,
    title: str,
    how_to_repeat: str,
    about: Mapping[str, str] | None = None,
    *,
    drawn: bool = False,
) -> None:
    """Write the verdicts, the report, figures and tables into a directory; see `write` and `write_artifacts`.

    `verdicts.json` has the verdicts on claims, if there are some; `methods.json` those between the methods of a study.
    """
    judged = [page.judge_study(study) for study in studies]
    methods = {study.name: found and found.asdict() for study, found in zip(studies, judged, strict=True)}
    for name, given in (("verdicts", verdicts), ("methods", methods)):
        if given:
            text = json.dumps(json_ready(given), indent=2, ensure_ascii=False) + "\n"
            tables.write_file(folder / f"{name}.json", text)
    tables.write_file(folder / "report.html", page.render(studies, verdicts, title, how_to_repeat, about, judged))
    write_artifacts(studies, folder, drawn=drawn)


def write_artifacts(studies: list[Study], folder: Path, *, drawn: bool = False) -> list[Path]:
    """Write `figures` for a paper as PDF and PNG in a column's width, and `tables` as CSV; ends of runs in LaTeX, too.

    A figure is named after its study, its variant and its axes: `bias-00-ring-loss-rounds.pdf`. Figures that `draw` has
    `drawn` before are left as they are.
    """
    folder, written = Path(folder), []
    named: dict[str, Study] = {}
    for number, study in enumerate(studies):
        safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in study.name).strip(".")[:60]
        named[safe if safe and safe not in named else f"{safe or 'study'}-{number}"] = study
    for name, study in named.items():
        written += [] if drawn else draw(study, folder, name)
        stem = folder / "tables" / name
        written.append(tables.write_file(Path(f"{stem}-summary.csv"), page.summarize(study).write_csv()))
        written.append(tables.write_file(Path(f"{stem}-summary.tex"), study.to_latex()))
        chosen = page.chosen_settings(study)
        if chosen is not None:
            written.append(tables.write_file(Path(f"{stem}-tuning.csv"), chosen.write_csv()))
    return written


def draw(study: Study, folder: Path, name: str) -> list[Path]:
    """Write the figures of one study, under this name: its curves, and the ends by step size where it was tuned."""
    shown, written, folder = study.curves(), [], folder / "figures"
    for number, (variant, result) in enumerate(shown.items()):
        stem = f"{name}-{place(variant, number)}" if variant else name
        for metric in page.find_metrics(result):
            axes = study.plot(metric, "rounds", variant=variant if len(shown) > 1 else None)
            written += figures.save_both(axes, folder / f"{stem}-{metric}-rounds")
    if study.tuning is None:
        return written
    tuned = study.tuning.filter(pl.col("criterion") != "rounds").select("variant", "criterion").unique()
    for variant, criterion in tuned.sort("variant").iter_rows():
        result = study.results[variant]
        order = [algorithm for algorithm, _ in result.states]  # that of the curves, for the same colours
        axes = figures.draw_step_sizes(study.step_sizes(variant), result.metrics[criterion], order=order)
        stem = f"{name}-{place(variant, list(study.results).index(variant))}" if variant else name
        written += figures.save_both(axes, folder / f"{stem}-step-sizes")
    return written
