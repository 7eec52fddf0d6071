"""gossamer worst-case."""

import sys
from typing import Annotated

import typer

from gossamer.cli.shared import (
    AsJSON,
    Cache,
    SpecFile,
    With,
    app,
    end_without_bounds,
    load_own,
    resumable,
    say_each,
    status,
)
from gossamer.core import InputError


@app.command("worst-case")
def worst_case(
    spec: SpecFile,
    steps: Annotated[int, typer.Option(help="T, the rounds.", min=1)] = 8,
    metric: Annotated[
        str,
        typer.Option(help="mean_gradient, last_gradient or least_gradient; gap, average_gap or distance with --mu."),
    ] = "mean_gradient",
    spectrum: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="LOW HIGH", help="All symmetric W with eigenvalues in this interval, for the network."),
    ] = None,
    mu: Annotated[
        float | None, typer.Option(help="The least curvature of the losses, which are then convex; 0 or more.")
    ] = None,
    smoothness: Annotated[float | None, typer.Option(help="L [default: the problem's]")] = None,
    excess: Annotated[float | None, typer.Option(help="Δ = F(x⁰) − inf F [default: the problem's]")] = None,
    start: Annotated[float | None, typer.Option(help="ζ₀², heterogeneity at x⁰ [default: the problem's]")] = None,
    distance: Annotated[float | None, typer.Option(help="‖x⁰ − x*‖² at most, with --mu.")] = None,
    relative: Annotated[float | None, typer.Option(help="M_f [default: the oracle's]")] = None,
    absolute: Annotated[float | None, typer.Option(help="σ_f² [default: the oracle's]")] = None,
    seconds: Annotated[float, typer.Option(help="The budget for all methods together.", min=0)] = 120.0,
    replay: Annotated[bool, typer.Option(help="Run the worst losses in the simulator.")] = True,
    own: With = None,
    cache: Cache = True,
    as_json: AsJSON = False,
) -> None:
    """Find the exact worst case of a spec's methods: over all losses, starts and biases with its constants.

    Each value is proved in exact arithmetic and replayed in the simulator. A method without one gets a line with the
    reason. The size of every program is said before it is solved, and one beyond the budget is refused.

    Examples:

        gossamer worst-case examples/quadratic.toml

        gossamer worst-case my.toml --steps 6 --relative 0.1 --spectrum -0.3 0.9 --json
    """
    load_own(own)
    from gossamer import theory
    from gossamer.specs.spec import Spec

    constants = {"smoothness": smoothness, "excess": excess, "relative": relative, "absolute": absolute}

    def find(one: Spec) -> theory.WorstCases:
        if one.run.apart:
            raise InputError("a worst case starts all agents from one point: leave apart out of [run].")
        parts = one.parts()
        seeds = range(one.run.seeds) if isinstance(one.run.seeds, int) else one.run.seeds
        given = {name: value for name, value in constants.items() if value is not None}
        return theory.worst_cases(
            parts.candidates,
            *(parts.problem, parts.network, parts.oracle),
            steps=steps,
            metric=metric,
            spectrum=spectrum,
            mu=mu,
            start=start,
            distance=distance,
            seeds=[*seeds],
            seconds=seconds,
            replay=replay,
            progress=_print_progress,
            **given,
        )

    with resumable(), status("measuring the constants of the problem"):
        found = Spec.read(spec).each(find)
        say_each(found, as_json)
        end_without_bounds(found)


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
