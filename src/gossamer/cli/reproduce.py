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
        flag("--quick", "Only what decides the headline claims: who stalls, the floor, stable step sizes."),
    ] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, help="How many experiments to run at a time [default: one per core]")
    ] = None,
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

    The readings of a claim stand one below the other, and what differs from the authors' setting after the table.
    """
    colors = {"holds": "green", "does not hold": "red", "tie": "cyan"}
    rows = [
        [
            row["experiment"],
            rich_text(
                "\n".join(filter(None, [row["verdict"], row.get("reading")])),
                keep="\n",
                style=colors.get(row["verdict"], "yellow"),
            ),
            rich_text(f"{row['claim']}.\n{row['measured']}\n", keep="\n"),
        ]
        for row in verdicts
        if row["verdict"] != "not run"
    ]
    if rows:
        show(("", "verdict", "claim, and what was measured"), rows, whole=("verdict",), width=100)
    settings = {
        (row["experiment"].removesuffix("-tuned"), row.get("setting", ""), tuple(row.get("differs", ())))
        for row in verdicts
        if row["verdict"] != "not run"
    }
    for experiment, setting, differs in sorted(settings):
        if setting:
            followed = "the authors' setting" if setting == "theirs" else "in the spirit of the authors' setting"
            say(f"{experiment}: {followed}" + f", but for: {'; '.join(differs)}" * bool(differs))
    left_out = Counter(row["experiment"] for row in verdicts if row["verdict"] == "not run")
    if left_out:
        say(
            f"not run: {', '.join(f'{count} of {name}' for name, count in left_out.items())} (without --quick, all are)"
        )
