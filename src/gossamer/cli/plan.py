"""gossamer plan."""

from typing import Annotated

import typer

from gossamer.cli.shared import AsJSON, Cache, SpecFile, With, app, load_own, resumable, say_each, status
from gossamer.core import InputError


@app.command()
def plan(
    spec: SpecFile,
    steps: Annotated[int | None, typer.Option(help="Rounds to plan for [default: the spec's]")] = None,
    target: Annotated[
        float | None, typer.Option(help="In place of rounds: the mean of ‖∇F‖² that the bound should promise.")
    ] = None,
    trial: Annotated[bool, typer.Option(help="Try the practical settings in short runs.")] = True,
    proof: Annotated[
        float, typer.Option(help="Seconds to look for a bound that a machine proves; 0 for none.", min=0)
    ] = 30.0,
    own: With = None,
    cache: Cache = True,
    as_json: AsJSON = False,
) -> None:
    """Plan Biased-DMT for a spec: the step sizes that the theory admits, its promises, and what works in practice.

    The plan is for Biased-DMT, whether the spec has it or not, and its first lines say what holds of the spec's other
    methods. Where the spec's first biased-dmt has a warm start, the plan is for that.

    Examples:

        gossamer plan examples/a9a-ring.toml

        gossamer plan my.toml --target 0.01 --no-trial --json
    """
    load_own(own)
    from gossamer import theory
    from gossamer.specs.spec import Spec

    read = Spec.read(spec)

    def make_plan(one: Spec) -> theory.Plan:
        if one.run.apart:
            raise InputError("the theory starts all agents from one point: leave apart out of [run].")
        parts, rounds = one.parts(), one.run.steps if steps is None and target is None else steps
        warm = next((each.fixed.get("warm", 0) for each in parts.candidates if each.name == "biased-dmt"), 0)
        names = [each.name for each in parts.candidates]
        options = {"steps": rounds, "target": target, "seeds": one.run.seeds, "trial": trial, "warm": warm}
        options["seconds"] = proof
        return theory.plan(parts.problem, parts.network, parts.oracle, methods=names, **options)

    with resumable(), status("measuring the constants of the problem and trying settings"):
        found = read.each(make_plan)
    say_each(found, as_json)
