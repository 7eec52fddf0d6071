"""gossamer networks."""

from pathlib import Path
from typing import Annotated

import typer

from gossamer.basics.text import visible
from gossamer.cli.shared import AsJSON, Cache, With, app, check_place, load_own, progress, resumable, say, say_json


@app.command()
def networks(
    agents: Annotated[int, typer.Option(help="How many agents the networks have.")],
    degree: Annotated[
        int | None,
        typer.Option(help="The number of neighbours, for networks that take a degree; its mean, for random ones."),
    ] = None,
    target: Annotated[float, typer.Option(help="Agents agree when this share of their disagreement is left.")] = 1e-6,
    rounds: Annotated[int, typer.Option(help="Give up after this many rounds.")] = 5_000,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the graphs and the curves too: .png, .pdf or .svg.")
    ] = None,
    own: With = None,
    cache: Cache = True,
    as_json: AsJSON = False,
) -> None:
    """Compare all networks of a given size: what each costs, and how fast its agents agree.

    A network that does not exist in that size is listed with the reason; this is not an error.

    Examples:

        gossamer networks --agents 24

        gossamer networks --agents 24 --degree 4 --plot networks.png

        gossamer networks --agents 1000 --target 1e-3 --json
    """
    load_own(own)
    from gossamer.networks import compare

    if plot is not None:
        from gossamer.report import figures  # matplotlib takes a while to import

        check_place(plot)
        figures.check_file(plot)
    with resumable():
        found = compare(agents, degree, target=target, rounds=rounds, progress=progress())
    if plot is not None:
        from gossamer.report import figures

        figures.save(figures.draw_networks(found), plot)
    if as_json:
        say_json(found.asdict())
    else:
        say(found)
        if plot is not None:
            say(f"\nfigure: {visible(plot)}")
