"""The commands that run something: run, tune, audit and reproduce."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gossamer.basics.terminal import visible
from gossamer.cli.base import (
    AsJSON,
    Out,
    SpecFile,
    app,
    directory,
    progress,
    resumable,
    safe,
    say,
    say_json,
)
from gossamer.experiments import audit as auditing
from gossamer.experiments import running as experiment
from gossamer.specs.spec import Spec


class Experiment(StrEnum):
    fig1 = "fig1"
    sensitivity = "sensitivity"
    fig2 = "fig2"
    speedup = "speedup"
    topology = "topology"
    heterogeneity = "heterogeneity"


@app.command()
def run(
    spec: SpecFile,
    out: Out = None,
    as_json: AsJSON = False,
) -> None:
    """Run an experiment and save its result.

    Every run is kept when it is done: after an interruption the same command goes on, after the end it only shows the
    result again, and with more rounds or seeds in the spec it computes what is missing.

    Examples:

        gossamer run examples/a9a-ring.toml

        gossamer run my.toml --out results/my --json
    """
    given = Spec.read(spec)
    folder = directory(out, Path("runs") / spec.stem)
    with resumable():
        study = experiment.run(given, folder, name=spec.stem, progress=progress())
    summaries = {variant: result.summary() for variant, result in study.results.items()}
    rows = [{"variant": variant, **row} for variant, one in summaries.items() for row in one.table.to_dicts()]
    if as_json:
        say_json({"out": str(folder), "algorithms": rows})
    else:
        for variant, summary in summaries.items():
            say(f"{visible(variant)}\n{summary}\n" if variant else f"{summary}\n")
        say(f"result: {visible(folder)}    figures: gossamer plot {visible(folder)}")
    if all(row["seeds"] == row["diverged"] for row in rows):
        raise typer.Exit(3)


@app.command()
def tune(
    spec: Annotated[Path, typer.Argument(help="The experiment, a TOML file with a [tuning] section.")],
    out: Out = None,
    as_json: AsJSON = False,
) -> None:
    """Choose hyper-parameters by the spec's [tuning], without the final runs, and print all that were tried.

    Example:

        gossamer tune my.toml
    """
    given = Spec.read(spec)
    folder = directory(out, Path("runs") / spec.stem)
    with resumable():
        table = experiment.tuned(given, folder, progress=progress())
    if as_json:
        say_json(table.to_dicts())
        return
    chosen = table.filter(table["chosen"])
    shown = Table(box=None, pad_edge=False)
    for column in ("variant", "algorithm", "setting", "value", "tried", "diverged"):
        shown.add_column(column)
    for row in chosen.to_dicts():
        tried = table.filter((table["variant"] == row["variant"]) & (table["algorithm"] == row["algorithm"]))
        lost = int((tried["diverged"] > 0).sum())
        cells = [row["variant"], row["algorithm"], row["setting"], f"{row['value']:.6g}", str(len(tried)), str(lost)]
        shown.add_row(*(safe(cell) for cell in cells))
    Console(highlight=False, width=None if sys.stdout.isatty() else 160).print(shown)


@app.command()
def audit(
    spec: SpecFile,
    rounds: Annotated[int, typer.Option(help="At how many rounds of a run to measure.")] = 10,
    queries: Annotated[int, typer.Option(help="How often each agent's query is repeated there.")] = 64,
    as_json: AsJSON = False,
) -> None:
    """Measure the constants of a spec's oracle along its runs: M_f, σ_f² and σ², beside what is stated of them.

    Exit code 0 whether or not the theory's assumption holds; the text says so.

    Examples:

        gossamer audit examples/zeroth-order.toml

        gossamer audit my.toml --rounds 5 --json
    """
    with resumable():
        found = auditing.audit(Spec.read(spec), rounds=rounds, queries=queries, progress=progress())
    if as_json:
        say_json(found.asdict())
    else:
        say(found)


@app.command()
def reproduce(
    experiments: Annotated[list[Experiment] | None, typer.Argument(help="Which; all if none is given.")] = None,
    out: Annotated[Path | None, typer.Option(help="[default: runs/reproduction, or runs/quick]")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Figures 1 and 2 only, with less of everything.")] = False,
    processes: Annotated[int | None, typer.Option(min=1, help="Experiments at a time [default: one a core]")] = None,
    spec: Annotated[bool, typer.Option("--spec", help="Print the spec of an experiment, and run nothing.")] = False,
    as_json: AsJSON = False,
) -> None:
    """Reproduce the paper's experiments, judge its claims and write a report.

    Examples:

        gossamer reproduce

        gossamer reproduce fig1 --quick --out runs/look

        gossamer reproduce fig2 --spec > mine.toml
    """
    from gossamer import paper  # it draws, and a drawing library takes a second to import
    from gossamer.paper.processes import cores

    names = [name.value for name in experiments or []]
    if spec:
        print("\n".join(paper.text_of(name) for name in names or paper.EXPERIMENTS))
        return
    folder = directory(out, Path("runs") / ("quick" if quick else "reproduction"))
    stream = sys.stderr if as_json else sys.stdout

    def tell(text: str) -> None:
        print(visible(text), file=stream, flush=True)

    with resumable():
        verdicts = paper.reproduce(
            names, folder, quick=quick, processes=processes or cores(), progress=progress(), say=tell
        )
    if as_json:
        say_json([verdict.asdict() for verdict in verdicts])
        return
    print_verdicts([verdict.asdict() for verdict in verdicts])
    say(f"report: {visible(folder / 'report.html')}")


def print_verdicts(verdicts: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, title="verdicts", title_justify="left", title_style="bold")
    for column in ("experiment", "claim", "measured", "verdict"):
        table.add_column(column, no_wrap=column in ("experiment", "verdict"))
    colors = {"holds": "green", "does not hold": "red", "tie": "cyan"}
    for row in verdicts:
        cells = [safe(row[key]) for key in ("experiment", "claim", "measured")]
        table.add_row(*cells, Text(row["verdict"], style=colors.get(row["verdict"], "yellow")))
    Console(highlight=False, width=None if sys.stdout.isatty() else 180).print(table)
