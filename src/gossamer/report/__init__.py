"""Reports: one HTML file that opens offline, and the figures and tables of a paper."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from gossamer.basics import files
from gossamer.core import InputError
from gossamer.report import curves, figures, page, sections, tables, tuning
from gossamer.report.verdicts import checked
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
        verdicts: what became of a paper's claims, each with `experiment` (a study's name), `claim`, `paper` (what it
            says), `measured`, `interval` ([low, high] or None), `level` (of the interval) and `verdict` ("holds",
            "does not hold", "tie", "undecided" or "not run"); `evidence` and `short`, as
            `gossamer.paper.Verdict` has them, make its picture.
        file: the HTML file; its directory is made if it is missing.
        title: the page's title.
        how_to_repeat: the commands that make the studies again.
        about: what stands below the title, such as the paper and how much of it was run, by name.
    """
    if not studies:
        raise InputError("there is no study to report on: give at least one.")
    text = page.made(studies, checked(verdicts), title, how_to_repeat, about)
    file = Path(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        files.write(file, text.encode(errors="replace"))
    except OSError as error:
        raise InputError(f"cannot write {file}: {error.strerror or error}.") from error
    return file


def artifacts(studies: list[Study], verdicts: list[dict[str, Any]], folder: Path, *, drawn: bool = False) -> list[Path]:
    """Write what a paper needs: `figures` as PDF and PNG in a column's width, `tables` as CSV and LaTeX.

    A figure is named after its study, its variant and what it shows: `bias-00-ring-loss-rounds.pdf`. Those that `draw`
    has `drawn` before are left as they are.
    """
    checked(verdicts)
    folder, named, written = Path(folder), _named(studies), []
    for name, study in named.items():
        written += [] if drawn else draw(study, folder, name)
    for name, study in named.items():
        target = folder / "tables" / f"{name}-summary"
        written.append(tables.csv(sections.summarised(study), Path(f"{target}.csv")))
        written.append(tables.written(Path(f"{target}.tex"), study.to_latex()))
    judged = _frame(verdicts) if verdicts else None
    told = None if judged is None else judged.select("experiment", "claim", "measured", "verdict")
    both = {"verdicts": (judged, told)}
    both |= {f"{name}-tuning": (tuning.chosen(study),) * 2 for name, study in named.items()}
    for name, (whole, shown) in both.items():
        if whole is not None and shown is not None:
            target = folder / "tables" / name
            written += [tables.csv(whole, Path(f"{target}.csv")), tables.latex(shown, Path(f"{target}.tex"))]
    return written


def draw(study: Study, folder: Path, name: str) -> list[Path]:
    """Write the figures of one study, under this name."""
    shown, written = study.curves(), []
    for number, (variant, result) in enumerate(shown.items()):
        stem = f"{name}-{place(variant, number)}" if variant else name
        for metric in curves.metrics(result):
            figure = study.plot(metric, "rounds", variant=variant if len(shown) > 1 else None)
            target = folder / "figures" / f"{stem}-{metric}-rounds"
            written += figures.save_both(figure, target)
    return written + _step_sizes(study, folder / "figures" / name)


def _step_sizes(study: Study, stem: Path) -> list[Path]:
    """A figure of what methods ended at by step size, for each variant that was tuned by a metric."""
    if study.tuning is None:
        return []
    written = []
    tuned = study.tuning.filter(pl.col("criterion") != "rounds").select("variant", "criterion").unique()
    for variant, criterion in tuned.sort("variant").iter_rows():
        number = list(study.results).index(variant)
        result = study.results[variant]
        order = [name for name, _ in result.states]  # that of the curves
        figure = figures.step_sizes(study.step_sizes(variant), result.metrics[criterion], order=order)
        target = f"{stem}-{place(variant, number)}-step-sizes" if variant else f"{stem}-step-sizes"
        written += figures.save_both(figure, target)
    return written


def _named(studies: list[Study]) -> dict[str, Study]:
    """The studies by names that are safe in a path, and all different."""
    named: dict[str, Study] = {}
    for number, study in enumerate(studies):
        safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in study.name).strip(".")[:60]
        named[safe if safe and safe not in named else f"{safe or 'study'}-{number}"] = study
    return named


def _frame(verdicts: list[dict[str, Any]]) -> pl.DataFrame:
    """The verdicts as a table, with the ends of the interval in columns of their own."""
    rows = []
    for verdict in verdicts:
        low, high = verdict["interval"] or (None, None)
        row = {key: None if verdict[key] is None else str(verdict[key]) for key in ("experiment", "claim", "paper")}
        measured = verdict["measured"]
        row["measured"] = f"{measured:.6g}" if isinstance(measured, float) else str(measured)
        rows.append(row | {"low": low, "high": high, "level": verdict["level"], "verdict": verdict["verdict"]})
    return pl.DataFrame(rows, schema_overrides=dict.fromkeys(("low", "high", "level"), pl.Float64))
