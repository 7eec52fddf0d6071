"""gossamer prove."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli.shared import (
    AsJSON,
    SpecFile,
    With,
    app,
    end_without_bounds,
    load_own,
    output_directory,
    resumable,
    say_each,
    status,
)
from gossamer.core import InputError


@app.command()
def prove(
    spec: SpecFile,
    steps: Annotated[int | None, typer.Option(help="T [default: the spec's]", min=1)] = None,
    seconds: Annotated[float, typer.Option(help="The budget for all methods together.", min=0)] = 120.0,
    out: Annotated[Path | None, typer.Option(help="A directory for the certificates, a JSON file each.")] = None,
    own: With = None,
    as_json: AsJSON = False,
) -> None:
    """Prove bounds of a spec's methods by machine: the best Lyapunov functions, verified in exact arithmetic.

    Each bound holds for every number of rounds. A method whose step sizes the spec gives is judged at these; of others
    the best are searched. A method of which no bound can be had gets a line with the reason.

    Examples:

        gossamer prove examples/quadratic.toml

        gossamer prove my.toml --seconds 300 --out proofs --json
    """
    load_own(own)
    from gossamer import theory
    from gossamer.specs.spec import Spec

    folder = None if out is None else output_directory(out, out)

    def make_proofs(one: Spec) -> theory.Proofs:
        if one.run.apart:
            raise InputError("a proof starts all agents from one point: leave apart out of [run].")
        parts = one.parts()
        seeds = range(one.run.seeds) if isinstance(one.run.seeds, int) else one.run.seeds
        rounds = one.run.steps if steps is None else steps
        world = parts.problem, parts.network, parts.oracle
        return theory.prove(
            parts.candidates, *world, steps=rounds, seeds=[*seeds], seconds=seconds, progress=_print_progress
        )

    with resumable(), status("measuring the constants of the problem and proving bounds"):
        found = Spec.read(spec).each(make_proofs)
    for variant, one in found.items():
        for number, row in enumerate(one.rows, start=1):
            if folder is not None and row.found is not None:
                folder.mkdir(parents=True, exist_ok=True)
                name = "-".join(part for part in (variant, str(number), row.found.rule.name) if part)
                row.found.write(folder / f"{name.replace('/', '_')}.json")
    say_each(found, as_json)
    end_without_bounds(found)


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
