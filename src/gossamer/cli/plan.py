"""gossamer plan."""

from typing import TYPE_CHECKING, Annotated

import typer

from gossamer.cli.shared import AsJSON, Cache, SpecFile, With, app, flag, load_own, resumable, say_each, status

if TYPE_CHECKING:
    from gossamer import theory


@app.command()
def plan(
    spec: SpecFile,
    steps: Annotated[int | None, typer.Option(help="Rounds to plan for [default: the spec's]")] = None,
    target: Annotated[float | None, typer.Option(help="Or the mean of ‖∇F‖² that the bound should promise.")] = None,
    trial: Annotated[bool, typer.Option(metavar="", help="Try the practical settings in short runs.")] = True,
    orders: Annotated[bool, flag("--orders", "Add the paper's Table I for these constants.")] = False,
    own: With = None,
    cache: Cache = True,
    as_json: AsJSON = False,
) -> None:
    """Plan a spec: the step sizes that the theory admits, what it then promises, and what works in practice.

    Where the spec's first biased-dmt has a warm start, the plan is for that.

    Examples:

        gossamer plan examples/a9a-ring.toml

        gossamer plan my.toml --target 0.01 --no-trial --json
    """
    load_own(own)
    from gossamer import theory
    from gossamer.specs.spec import Spec

    read = Spec.read(spec)

    def planned(one: Spec) -> theory.Plan:
        parts, rounds = one.parts(), one.run.steps if steps is None and target is None else steps
        warm = next((each.fixed.get("warm", 0) for each in parts.candidates if each.name == "biased-dmt"), 0)
        told = {"steps": rounds, "target": target, "seeds": one.run.seeds, "trial": trial, "warm": warm}
        return theory.plan(parts.problem, parts.network, parts.oracle, **told)

    with resumable(), status("measuring the constants of the problem and trying settings"):
        found = read.each(planned)
    tables = {variant: _orders(one) for variant, one in found.items()} if orders else {}
    say_each(found, as_json, tables)


def _orders(found: "theory.Plan") -> "theory.Orders":
    from gossamer import theory

    bounds = [one.bound for one in found.prescriptions if one.bound is not None]
    steps = found.steps or (bounds[-1].steps if bounds else 1)
    return theory.orders_of(found.constants, steps)
