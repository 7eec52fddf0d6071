"""The commands of the theory: plan and certify."""

from typing import Annotated, Any

import typer

from gossamer import theory
from gossamer.algorithms import BiasedDMT
from gossamer.basics.terminal import visible
from gossamer.cli.base import AsJSON, SpecFile, app, resumable, say, say_json, working
from gossamer.core import InputError
from gossamer.specs.spec import Spec


@app.command()
def plan(
    spec: SpecFile,
    steps: Annotated[int | None, typer.Option(help="Rounds to plan for [default: the spec's]")] = None,
    target: Annotated[float | None, typer.Option(help="Or the mean of ‖∇F‖² that the bound should promise.")] = None,
    trial: Annotated[bool, typer.Option(help="Try the practical settings in short runs.")] = True,
    orders: Annotated[bool, typer.Option("--orders", help="Add the paper's Table I for these constants.")] = False,
    as_json: AsJSON = False,
) -> None:
    """What the theory admits for a spec's problem, network and oracle, what it promises, and what works in practice.

    Examples:

        gossamer plan examples/a9a-ring.toml

        gossamer plan my.toml --target 0.01 --no-trial --json
    """
    read = Spec.read(spec)

    def planned(one: Spec) -> theory.Plan:
        parts, rounds = one.parts(), one.run.steps if steps is None and target is None else steps
        return theory.plan(parts.problem, parts.network, parts.oracle, steps=rounds, target=target, trial=trial)

    with resumable(), working("measuring the constants of the problem and trying settings"):
        found = read.each(planned)
    tables = {variant: _orders(one) for variant, one in found.items()} if orders else {}
    _print(found, as_json, tables)


@app.command()
def certify(spec: SpecFile, as_json: AsJSON = False) -> None:
    """Check the lemmas and the theorem along the Biased-DMT runs of a spec, both sides of every inequality.

    On quadratics the second moments are exact; elsewhere the bound is compared with the mean over seeds. Ends with exit
    code 4 if an inequality whose conditions hold is violated.

    Examples:

        gossamer certify examples/quadratic.toml

        gossamer certify my.toml --json
    """
    found = {}
    with resumable(), working("propagating moments, or running the seeds"):
        for variant, several in Spec.read(spec).each(_certificates).items():
            for number, one in enumerate(several):
                found[f"{variant} ({number})" if len(several) > 1 else variant] = one
    _print(found, as_json)
    if not all(one.holds for one in found.values()):
        raise typer.Exit(4)


def _certificates(spec: Spec) -> list[theory.Certificate]:
    """One for each Biased-DMT of a variant."""
    parts = spec.parts()
    rules = [hyper for name, hyper in parts.algorithms if name == "biased-dmt"]
    if not rules:
        raise InputError("the theory is of biased-dmt, but the spec runs none: add it as an [[algorithm]].")
    return [_certificate(spec, parts, hyper) for hyper in rules]


def _certificate(spec: Spec, parts: Any, hyper: dict[str, Any]) -> theory.Certificate:
    missing = [name for name in ("eta", "lam") if not isinstance(hyper.get(name), (int, float))]
    if missing:
        raise InputError(f"a certificate needs {' and '.join(missing)} of biased-dmt as a number.")
    rule = BiasedDMT(**hyper)
    seeds = spec.run.seeds if isinstance(spec.run.seeds, int) else len(spec.run.seeds)
    return theory.certify(rule, parts.problem, parts.network, parts.oracle, steps=spec.run.steps, seeds=max(2, seeds))


def _orders(found: theory.Plan) -> theory.Orders:
    bounds = [one.bound for one in found.prescriptions if one.bound is not None]
    steps = found.steps or (bounds[-1].steps if bounds else 1)
    return theory.orders_of(found.constants, steps)


def _print(found: dict[str, Any], as_json: bool, tables: dict[str, theory.Orders] | None = None) -> None:
    tables = tables or {}
    if as_json:
        extra = {variant: {"orders": table.asdict()} for variant, table in tables.items()}
        rows = [{"variant": variant, **one.asdict(), **extra.get(variant, {})} for variant, one in found.items()]
        say_json(rows[0] if list(found) == [""] else rows)
        return
    for variant, one in found.items():
        blocks = [visible(variant), str(one), str(tables.get(variant, ""))]
        say("\n\n".join(block for block in blocks if block) + "\n")
