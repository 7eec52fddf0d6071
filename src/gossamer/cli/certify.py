"""gossamer certify."""

from typing import TYPE_CHECKING

import typer

from gossamer.cli.shared import AsJSON, Cache, SpecFile, With, app, load_own, resumable, say_each, status
from gossamer.core import InputError

if TYPE_CHECKING:
    from gossamer.specs.spec import Spec
    from gossamer.theory import Certificate


@app.command()
def certify(spec: SpecFile, own: With = None, cache: Cache = True, as_json: AsJSON = False) -> None:
    """Check the lemmas and the theorem along the Biased-DMT runs of a spec, both sides of every inequality.

    On quadratics the second moments are exact; elsewhere the bound is compared with the mean over seeds. Ends with exit
    code 4 if an inequality whose conditions hold is violated.

    Examples:

        gossamer certify examples/quadratic.toml

        gossamer certify my.toml --json
    """
    load_own(own)
    from gossamer.specs.spec import Spec

    found = {}
    with resumable(), status("propagating moments, or running the seeds"):
        for variant, several in Spec.read(spec).each(_certify).items():
            for number, one in enumerate(several):
                found[f"{variant} ({number})" if len(several) > 1 else variant] = one
    say_each(found, as_json)
    if not all(one.holds for one in found.values()):
        raise typer.Exit(4)


def _certify(spec: "Spec") -> "list[Certificate]":
    """Return a certificate for each Biased-DMT of a variant."""
    from gossamer import theory
    from gossamer.algorithms.biased_dmt import BiasedDMT

    parts = spec.parts()
    rules = [candidate.fixed for candidate in parts.candidates if candidate.name == "biased-dmt"]
    if parts.plan.apart:
        raise InputError("the theory starts all agents from one point: leave apart out of [run].")
    if not rules:
        raise InputError("the theory is of biased-dmt, but the spec runs none: add it as an [[algorithm]].")
    world = parts.problem, parts.network, parts.oracle
    seeds = spec.run.seeds if isinstance(spec.run.seeds, int) else len(spec.run.seeds)
    found = []
    for hyper in rules:
        missing = [name for name in ("eta", "lam") if not isinstance(hyper.get(name), (int, float))]
        if missing:
            raise InputError(f"a certificate needs {' and '.join(missing)} of biased-dmt as a number.")
        found.append(theory.certify(BiasedDMT(**hyper), *world, steps=spec.run.steps, seeds=max(2, seeds)))
    return found
