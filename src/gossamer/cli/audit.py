"""gossamer audit."""

from typing import Annotated

import typer

from gossamer.cli.shared import AsJSON, Cache, SpecFile, With, app, load_own, progress, resumable, say, say_json


@app.command()
def audit(
    spec: SpecFile,
    rounds: Annotated[int, typer.Option(help="At how many rounds of a run to measure.")] = 10,
    queries: Annotated[int, typer.Option(help="How often each agent's query is repeated there.")] = 64,
    own: With = None,
    cache: Cache = True,
    as_json: AsJSON = False,
) -> None:
    """Measure the constants of a spec's oracle, M_f, σ_f² and σ², along its runs, beside the stated ones.

    The exit code is 0 whether or not the theory's assumption holds; the output says whether it does.

    Examples:

        gossamer audit examples/zeroth-order.toml

        gossamer audit my.toml --rounds 5 --json
    """
    load_own(own)
    from gossamer.experiments import audit as auditing
    from gossamer.specs.spec import Spec

    with resumable():
        found = auditing.audit(Spec.read(spec), rounds=rounds, queries=queries, progress=progress())
    if as_json:
        say_json(found.asdict())
    else:
        say(found)
