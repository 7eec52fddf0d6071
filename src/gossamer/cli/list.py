"""gossamer list."""

from typing import Annotated, Literal

import typer

from gossamer.cli.shared import AsJSON, With, app, load_own, say_json, show

Kind = Literal[
    "algorithms",
    "networks",
    "oracles",
    "compressors",
    "aggregators",
    "schedules",
    "problems",
    "datasets",
    "metrics",
    "links",
    "compute-times",
    "papers",
]


@app.command(name="list")
def list_(
    kind: Annotated[Kind | None, typer.Argument(help="What to list; all if it is not given.")] = None,
    own: With = None,
    as_json: AsJSON = False,
) -> None:
    """List what a spec can name, or the papers that `gossamer reproduce` knows.

    Examples:

        gossamer list algorithms

        gossamer list papers

        gossamer list --json
    """
    load_own(own)
    from gossamer.specs.catalogue import REGISTRIES, list_kind

    if kind == "papers":
        list_papers(as_json)
        return
    kinds = [kind] if kind else list(REGISTRIES)
    found = {name: list_kind(name) for name in kinds}
    if as_json:
        say_json(found[kinds[0]] if kind else {name.replace("-", "_"): entries for name, entries in found.items()})
        return
    for name, entries in found.items():
        rows = [(entry["name"], entry["about"], ", ".join(entry["options"])) for entry in entries]
        show(("name", "what it is", "options"), rows, whole=["name"], title=name)
        print()


def list_papers(as_json: bool) -> None:
    """Print the papers, with their arXiv numbers, how many claims are judged, and about how long that takes."""
    from gossamer.papers import installed

    papers = installed().values()
    if as_json:
        told = [
            {
                "name": paper.name,
                **paper.about.model_dump(include={"title", "arxiv", "year", "about"}),
                "experiments": list(paper.experiments),
                "claims": len(paper.claims),
                "minutes": paper.minutes,
            }
            for paper in papers
        ]
        say_json(told)
        return
    rows = [
        (paper.name, paper.about.title, paper.arxiv, str(len(paper.claims)), f"{paper.minutes:.2g}") for paper in papers
    ]
    show(("name", "title", "arXiv", "claims", "minutes of a core"), rows, whole=["name", "arXiv"])
