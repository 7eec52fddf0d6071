"""gossamer reproduce."""

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.basics.sizes import cores
from gossamer.basics.text import visible
from gossamer.cli.shared import (
    ELSEWHERE,
    AsJSON,
    Cache,
    With,
    app,
    flag,
    load_own,
    output_directory,
    progress,
    resumable,
    rich_text,
    say,
    say_json,
    show,
)

COLORS = {"holds": "green", "does not hold": "red", "tie": "cyan"}

READINGS = ("as published", "tuned alike", "with our numbers", "exactly")
"""The readings of an experiment, as columns."""


@app.command()
def reproduce(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PAPER] [EXPERIMENT]...",
            help="A paper, by name, arXiv number or folder [default: Biased-DMT], and the experiments [default: all]",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="[default: runs/reproduction, or runs/quick; of other papers runs/papers/NAME]")
    ] = None,
    quick: Annotated[
        bool,
        flag(
            "--quick",
            "Of Biased-DMT only what decides the headline claims: who stalls, the floor, stable step sizes. "
            "Of other papers four replicates, and at most 16 settings of each method.",
        ),
    ] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, help="How many experiments to run at a time [default: one per core]")
    ] = None,
    reseed: Annotated[
        int, typer.Option(min=0, max=100_000, help="Add this to all seeds, to see if verdicts stay as they are.")
    ] = 0,
    spec: Annotated[bool, flag("--spec", "Print the spec of an experiment, and run nothing.")] = False,
    own: With = None,
    cache: Cache = True,
    as_json: AsJSON = False,
) -> None:
    """Reproduce a paper's experiments, judge its claims and write a report.

    Examples:

        gossamer reproduce

        gossamer reproduce fig1 --quick --out runs/look

        gossamer reproduce beer

        gossamer reproduce ./mine --with method.py

        gossamer reproduce fig2 --spec > mine.toml
    """
    load_own(own)
    from gossamer.papers import choose
    from gossamer.papers import reproduce as run
    from gossamer.papers.paper import DEFAULT

    paper, names = choose(words or [])
    if spec:
        print("\n".join(paper.text_of(name) for name in names or paper.experiments))
        return
    usual = {False: "reproduction", True: "quick"} if paper.name == DEFAULT else {}
    named = usual.get(quick, f"papers/{paper.name}{'-quick' * quick}")
    folder = output_directory(out, Path("runs") / named)
    stream = sys.stderr if as_json else sys.stdout

    def tell(text: str) -> None:
        print(visible(text), file=stream, flush=True)

    with resumable():
        verdicts = run(
            paper,
            names,
            folder,
            quick=quick,
            reseed=reseed,
            processes=processes or cores(),
            own=own or (),
            progress=progress(),
            say=tell,
        )
    if as_json:
        say_json([verdict.asdict() for verdict in verdicts])
        return
    print_verdicts([verdict.asdict() for verdict in verdicts])
    say(f"report: {visible(folder / 'report.html')}")


def print_verdicts(verdicts: list[dict[str, Any]]) -> None:
    """Print a table of the claims that were judged, and a line that counts those that were not run.

    Where experiments have two readings, a table of both follows, side by side. What differs from the authors' setting
    comes last, for each experiment.
    """
    judged = [row for row in verdicts if row["verdict"] != "not run"]
    rows = [
        [
            row["experiment"],
            rich_text(row["verdict"], style=COLORS.get(row["verdict"], "yellow")),
            rich_text(f"{row['claim']}.\n{row['measured']}\n", keep="\n"),
        ]
        for row in judged
    ]
    if rows:
        show(("", "verdict", "claim, and what was measured"), rows, whole=("verdict",), width=100)
    if any(row.get("reading") == "as published" for row in judged):
        print_readings(judged)
    with_runs = [row for row in judged if row.get("setting") and row["reading"] != "exactly"]
    settings = {row["experiment"].removesuffix("-tuned"): (row["setting"], row["differs"]) for row in with_runs}
    for experiment, (setting, differs) in settings.items():
        followed = "the authors' setting" if setting == "theirs" else f"{setting} the authors' setting"
        say(f"{experiment}: {followed}" + f", but for: {'; '.join(differs)}" * bool(differs))
    left_out = Counter(row["experiment"] for row in verdicts if row["verdict"] == "not run")
    if left_out:
        say(
            f"not run: {', '.join(f'{count} of {name}' for name, count in left_out.items())} (without --quick, all are)"
        )


def print_readings(rows: list[dict[str, Any]]) -> None:
    """Print the verdicts of both readings side by side, with the number that decides each."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        style = COLORS.get(row["verdict"], "yellow")
        found.setdefault(row["short"], {})[row["reading"]] = rich_text(tell(row), style=style)
    readings = [one for one in READINGS if any(one in each for each in found.values())]
    table = [[claim, *(each.get(one, "–") for one in readings)] for claim, each in found.items()]
    show(("claim", *readings), table, whole=(), width=ELSEWHERE)


def tell(row: dict[str, Any]) -> str:
    """Return a verdict with the number that decides it; "reproduced" takes the authors' setting and numbers."""
    theirs = row.get("setting") == "theirs" and row.get("reading") == READINGS[0]
    word = "reproduced" if theirs and row["verdict"] == "holds" else row["verdict"]
    part = next((one for one in (row["evidence"] or {}).get("parts", ()) if one["decides"]), None)
    if part is None or None in (part["value"], part["low"], part["high"]):
        return word
    return f"{word}: {part['value']:.3g} [{part['low']:.3g}, {part['high']:.3g}]"
