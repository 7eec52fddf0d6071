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
]


@app.command(name="list")
def list_(
    kind: Annotated[Kind | None, typer.Argument(help="What to list; all if it is not given.")] = None,
    own: With = None,
    as_json: AsJSON = False,
) -> None:
    """List what a spec can name.

    Examples:

        gossamer list algorithms

        gossamer list --json
    """
    load_own(own)
    from gossamer.specs.catalogue import REGISTRIES, list_kind

    kinds = [kind] if kind else list(REGISTRIES)
    found = {name: list_kind(name) for name in kinds}
    if as_json:
        say_json(found[kinds[0]] if kind else {name.replace("-", "_"): entries for name, entries in found.items()})
        return
    for name, entries in found.items():
        rows = [(entry["name"], entry["about"], ", ".join(entry["options"])) for entry in entries]
        show(("name", "what it is", "options"), rows, whole=["name"], title=name)
        print()
