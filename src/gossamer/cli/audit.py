"""gossamer audit."""

from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli import shared


@shared.app.command()
def audit(
    spec: shared.SpecFile,
    rounds: Annotated[int, typer.Option(help="At how many rounds of a run to measure.")] = 10,
    queries: Annotated[int, typer.Option(help="How often each agent's query is repeated there.")] = 64,
    out: shared.Out = None,
    own: shared.With = None,
    cache: shared.Cache = True,
    as_json: shared.AsJSON = False,
) -> None:
    """Measure the constants of a spec's oracle, M_f, σ_f² and σ², along its runs, beside the stated ones.

    Open hyper-parameters are first chosen by the spec's [tuning], as `gossamer tune` does; a finished run's are used
    again. The exit code is 0 whether or not the theory's assumption holds; the output says whether it does.

    Examples:

        gossamer audit examples/zeroth-order.toml

        gossamer audit my.toml --rounds 5 --json
    """
    shared.load_own(own)
    from gossamer.experiments import audit as auditing
    from gossamer.experiments import running, tuning
    from gossamer.specs.spec import Spec

    given = Spec.read(spec)
    with shared.resumable():
        is_open = any(candidate.open for one in given.each(Spec.parts).values() for candidate in one.candidates)
        if is_open and given.tuning is not None:
            table = running.tune_spec(
                given, shared.output_directory(out, Path("runs") / spec.stem), progress=shared.progress()
            )
            given = Spec.of(tuning.apply_tuning(given, table))
        found = auditing.audit(given, rounds=rounds, queries=queries, progress=shared.progress())
    if as_json:
        shared.say_json(found.asdict())
    else:
        shared.say(found)
