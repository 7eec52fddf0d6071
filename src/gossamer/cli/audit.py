"""gossamer audit."""

from typing import Annotated

import typer

from gossamer.cli.shared import AsJSON, Cache, SpecFile, With, app, progress, resumable, say, say_json, take


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
    take(own)
    from gossamer.experiments import audit as auditing
    from gossamer.specs.spec import Spec

    with resumable():
        found = auditing.audit(Spec.read(spec), rounds=rounds, queries=queries, progress=progress())
    if as_json:
        say_json(found.asdict())
    else:
        say(found)
