"""gossamer compare."""

import json
from pathlib import Path
from typing import Annotated

import typer

from gossamer.basics.text import json_ready, visible
from gossamer.cli.shared import AsJSON, app, check_directory, output_directory, say, say_json
from gossamer.core import InputError


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(metavar="RUN_A", help="A finished run.")],
    second: Annotated[Path, typer.Argument(metavar="RUN_B", help="Another one.")],
    as_json: AsJSON = False,
    out: Annotated[
        Path | None, typer.Option(help="Write both as one study, a report and comparison.json into this directory.")
    ] = None,
) -> None:
    """Compare two finished runs: where the methods they share ended, and how their specs, data and code differ.

    A difference is judged by its interval: paired by seed where both ran the same seeds, else Welch's; all intervals
    hold simultaneously at 95 %. Exit code 0 if nothing differs by more than chance, 5 if something does.

    Examples:

        gossamer compare runs/before runs/after

        gossamer compare runs/ring runs/torus --out runs/both --json
    """
    from gossamer.results.comparison import compare as compared
    from gossamer.results.study import SHARED, Study, concat

    names = (str(first), str(second))
    studies = [Study.load(check_directory(folder)) for folder in (first, second)]
    comparison = compared(studies[0], studies[1], names)
    if out is not None:
        folder = output_directory(out, out)
        if folder.exists() and any(folder.iterdir()):
            raise InputError(f"{folder} is not empty: choose another --out, or remove it.")
        labels = (
            ("A", "B") if first.name == second.name or not (first.name and second.name) else (first.name, second.name)
        )
        whole = concat(dict(zip(labels, studies, strict=True)), allow=SHARED)  # all differences are printed here
        try:
            folder.mkdir(parents=True, exist_ok=True)
            whole.save(folder)
            text = json.dumps(json_ready(comparison.asdict()), indent=2, ensure_ascii=False) + "\n"
            (folder / "comparison.json").write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write into {folder}: {error.strerror or error}.") from error
        whole.report(folder / "report.html")
    if as_json:
        say_json(comparison.asdict())
    else:
        say(comparison)
        if out is not None:
            say(f"\nreport: {visible(out / 'report.html')}")
    if comparison.significant:
        raise typer.Exit(5)
