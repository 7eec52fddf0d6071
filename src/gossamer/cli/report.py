"""gossamer report."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gossamer.basics.text import visible
from gossamer.cli.shared import app, check_directory, output_directory, say
from gossamer.core import InputError


@app.command()
def report(
    directories: Annotated[list[Path], typer.Argument(metavar="RUN", help="A finished run, or several.")],
    out: Annotated[
        Path | None, typer.Option(help="The directory of a report on several runs, or another one of a single run.")
    ] = None,
) -> None:
    """Write the report of a finished run, its figures and its tables into its directory.

    Several runs go on one page: first side by side, method by method, and then each on its own.

    Examples:

        gossamer report runs/a9a-ring

        gossamer report runs/ring runs/torus runs/path --out runs/together
    """
    from gossamer.algorithms import ALGORITHMS
    from gossamer.report import write_all
    from gossamer.results.study import SHARED, Study, concat

    if len(directories) > 1 and out is None:
        raise InputError("a report on several runs belongs to none of them: give it a directory with --out.")
    studies = {str(folder): Study.load(check_directory(folder)) for folder in directories}
    folder = output_directory(out, directories[0])
    commands = []
    for one in directories:
        named = dict.fromkeys(name for result in studies[str(one)].results.values() for name, _ in result.states)
        own = ", ".join(name for name in named if name not in ALGORITHMS)
        with_own = f" --with FILE  # the Python file that defines {own}" if own else ""
        commands.append(f"gossamer run {one / 'spec.toml'}{with_own}")
    how = "\n".join(commands)
    if len(studies) == 1:
        (study,) = studies.values()
        shown, title = {study.name: study}, study.title
    else:
        names = [one.name for one in directories]
        labels = names if len({*names}) == len(names) and all(names) else list(studies)
        named = {label: replace(one, name=label) for label, one in zip(labels, studies.values(), strict=True)}
        both = concat(named, allow=SHARED, title="Side by side")
        shown, title = {both.name: both, **named}, ", ".join(labels)
    if any(study.experiment for study in shown.values()):
        from gossamer import papers  # it imports everything: only a report on their experiments needs it

        papers.finish(shown, folder, title, how)
    else:
        write_all(list(shown.values()), [], folder, title, how)
    say(visible(folder / "report.html"))
