"""gossamer compare."""

from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli.shared import AsJSON, app, check_directory, say, say_json


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(metavar="RUN_A", help="A finished run.")],
    second: Annotated[Path, typer.Argument(metavar="RUN_B", help="Another one.")],
    as_json: AsJSON = False,
) -> None:
    """Compare two finished runs: where the methods they share ended, and how their specs, data and code differ.

    A difference is judged by its interval: paired by seed where both ran the same seeds, else Welch's; all intervals
    hold simultaneously at 95 %. Exit code 0 if nothing differs by more than chance, 5 if something does. To see both on
    one page, give both to `gossamer report`.

    Examples:

        gossamer compare runs/before runs/after

        gossamer compare runs/ring runs/torus --json
    """
    from gossamer.results.comparison import compare as compared
    from gossamer.results.study import Study

    studies = [Study.load(check_directory(folder)) for folder in (first, second)]
    comparison = compared(studies[0], studies[1], (str(first), str(second)))
    if as_json:
        say_json(comparison.asdict())
    else:
        say(comparison)
    if comparison.significant:
        raise typer.Exit(5)
