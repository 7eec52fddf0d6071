"""gossamer list."""

from enum import StrEnum
from typing import Annotated

import typer

from gossamer.cli.shared import AsJSON, With, app, load_own, say_json, show
from gossamer.specs.catalogue import REGISTRIES, list_kind

# a name for each registry, so that a new one is listed without a word here
Kind = StrEnum("Kind", {kind: kind for kind in (*REGISTRIES, "papers")})


@app.command(name="list")
def list_(
    kind: Annotated[
        Kind | None,  # pyright: ignore[reportInvalidTypeForm]
        typer.Argument(help="What to list; all if it is not given."),
    ] = None,
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
    if kind == "papers":
        from gossamer.papers import installed

        papers = installed().values()
        if as_json:
            listed = [
                {
                    "name": paper.name,
                    **paper.about.model_dump(include={"title", "arxiv", "year", "about"}),
                    "experiments": list(paper.experiments),
                    "claims": len(paper.claims),
                    "minutes": paper.minutes,
                }
                for paper in papers
            ]
            say_json(listed)
            return
        head = ("name", "title", "arXiv", "claims", "minutes of a core")
        rows = [(one.name, one.about.title, one.arxiv, str(len(one.claims)), f"{one.minutes:.2g}") for one in papers]
        show(head, rows, whole=["name", "arXiv"])
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
