"""gossamer reproduce."""

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.basics.sizes import cores
from gossamer.basics.text import visible
from gossamer.cli.shared import (
    AsJSON,
    Cache,
    app,
    flag,
    output_directory,
    progress,
    resumable,
    rich_text,
    say,
    say_json,
    show,
)
from gossamer.paper.experiments import EXPERIMENTS, ExperimentName, text_of


@app.command()
def reproduce(
    experiments: Annotated[
        list[ExperimentName] | None, typer.Argument(help="The experiments to run [default: all]")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="[default: runs/reproduction, or runs/quick]")] = None,
    quick: Annotated[
        bool,
        flag("--quick", "Only what decides the headline claims: who stalls, the floor, stable step sizes."),
    ] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, help="How many experiments to run at a time [default: one per core]")
    ] = None,
    spec: Annotated[bool, flag("--spec", "Print the spec of an experiment, and run nothing.")] = False,
    cache: Cache = True,
    as_json: AsJSON = False,
) -> None:
    """Reproduce the paper's experiments, judge its claims and write a report.

    Examples:

        gossamer reproduce

        gossamer reproduce fig1 --quick --out runs/look

        gossamer reproduce fig2 --spec > mine.toml
    """
    from gossamer import paper

    names = [name.value for name in experiments or []]
    if spec:
        print("\n".join(text_of(name) for name in names or EXPERIMENTS))
        return
    folder = output_directory(out, Path("runs") / ("quick" if quick else "reproduction"))
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
    """Print a table of the claims that were judged, and a line that counts those that were not run."""
    colors = {"holds": "green", "does not hold": "red", "tie": "cyan"}
    rows = [
        [
            row["experiment"],
            rich_text(row["verdict"], style=colors.get(row["verdict"], "yellow")),
            rich_text(f"{row['claim']}.\n{row['measured']}\n", keep="\n"),
        ]
        for row in verdicts
        if row["verdict"] != "not run"
    ]
    if rows:
        show(("", "verdict", "claim, and what was measured"), rows, whole=("verdict",), width=100)
    left_out = Counter(row["experiment"] for row in verdicts if row["verdict"] == "not run")
    if left_out:
        say(
            f"not run: {', '.join(f'{count} of {name}' for name, count in left_out.items())} (without --quick, all are)"
        )
