"""How the error falls as agents are added."""

import math
import tomllib
from functools import partial

import numpy as np

from gossamer.paper.claims.evidence import DMT, Readings, Runs, average, fact, log_slope
from gossamer.paper.verdicts import Claim, Insufficient, NotRun, NotTested, Question
from gossamer.results.study import Study
from gossamer.theory.lyapunov import kappa

GRAPHS = ("ring", "exponential")
FLOW = "without noise"
"""The variant with exact gradients that the corollary's errors are compared with."""

AGENTS = (4, 8, 16, 32)

AVERAGED_NOISE = -0.8
"""Above this slope of log noise against log n agents do not average each other's noise, whose slope is −1."""

LINEAR_SPEEDUP = -0.4
"""Above this slope of log error against log n there is no linear speed-up, whose slope is −1/2."""


def noise(graph: str, study: Study) -> Question:
    sizes = {f"{graph}-{n}": n for n in AGENTS}
    parts = {name: noise_part(study, f"{name} noisy", f"{name} exact") for name in sizes}
    told = ", ".join(f"{average(parts[name]):.4g} at {n}" for name, n in sizes.items())
    slope = log_slope({name: float(n) for name, n in sizes.items()}, parts)
    quantity = "slope of log ‖x̄ − x̄ without noise‖² against log n"
    return Question(quantity, {"": slope}, below=AVERAGED_NOISE, note=f"by n: {told}")


def noise_part(study: Study, noisy: str, exact: str) -> Readings:
    """The squared distance, at the end, of the mean model from where exact gradients lead from the same start."""
    for variant in (noisy, exact):
        if variant not in study.results:
            raise NotRun(f'the study has no variant "{variant}"')
    with_noise, without = study.results[noisy], study.results[exact]
    if len(Runs.of(study, variant=noisy).replicates) != len(with_noise.seeds):
        raise Insufficient(f'"{noisy}" has several seeds a replicate')
    (noisy_models,), (exact_models,) = with_noise.states.values(), without.states.values()
    distances = ((noisy_models.mean(1) - exact_models[0].mean(0)) ** 2).sum(1)
    return dict(zip(with_noise.seeds, distances.astype(float).tolist(), strict=True))


def least_rounds(agents: float, gap: float) -> float:
    """The fewest rounds that Corollary 1 covers in its repaired form."""
    return 16 * agents**2 * float(kappa(agents, gap)) / gap**2


def corollary(graph: str, study: Study) -> Question:
    known = [f"corollary {graph}-{n}" for n in AGENTS if f"corollary {graph}-{n}" in study.results]
    if not known:
        raise NotRun(f"nothing was run by the corollary on the {graph} graph")
    runs = {name: Runs.of(study, variant=name) for name in known}
    wanted = {name: least_rounds(fact(study, name, "agents"), fact(study, name, "gap")) for name in known}
    if short := [name for name in known if runs[name].last < wanted[name] * (1 - 1e-9)]:
        raise Insufficient(f"{short[0]} has {runs[short[0]].last:,} rounds and needs {wanted[short[0]]:,.0f}")
    agents = {name: fact(study, name, "agents") for name in known}
    errors = {name: runs[name].mean() for name in known}
    told = ", ".join(f"{average(errors[name]):.4g} at {agents[name]:g}" for name in known)
    slope = log_slope(agents, errors)
    needed = max(wanted.values())
    share = max(abs(average(errors[name]) / without_noise(study, name) - 1) for name in known)
    note = f"mean ‖∇F‖² over {runs[known[0]].last:,} rounds, of which up to {needed:,.0f} are needed, by n: {told}; "
    note += f"without noise, over the same ηT, it is the same within {100 * share:.2g} %"
    if share < 0.05:
        note += ", so that the fall is that of the step size, which grows as √n, and not of averaged noise"
    return Question("slope of log mean ‖∇F‖² against log n", {"": slope}, below=LINEAR_SPEEDUP, note=note)


def without_noise(study: Study, name: str) -> float:
    """The mean of ‖∇F‖² along exact gradients with a larger step size, over as long a way ηT as in a variant."""
    if FLOW not in study.results:
        raise NotRun(f'the study has no variant "{FLOW}"')
    variants = tomllib.loads(study.spec)["variant"]
    (run,) = (variant for variant in variants if variant["name"] == name)
    (flow,) = (variant for variant in variants if variant["name"] == FLOW)
    last = run["algorithm"]["eta"] * run["run"]["steps"] / flow["algorithm"]["eta"]
    table = study.results[FLOW].table.sort("round")
    rounds, values = table["round"].to_numpy().astype(float), table["grad_norm_sq"].to_numpy()
    if last > rounds[-1]:
        raise Insufficient(f"{FLOW} has {rounds[-1]:,.0f} rounds and needs {last:,.0f} for {name}")
    kept = np.append(rounds[rounds < last], last)
    return float(np.trapezoid(np.interp(kept, rounds, values), kept) / last)


def corollary_on_ring(study: Study) -> Question:
    wanted = {n: least_rounds(n, fact(study, f"ring-{n} noisy", "gap")) for n in AGENTS}
    told = ", ".join(f"{_rounded(rounds)} rounds for n = {n}" for n, rounds in wanted.items())
    raise NotTested(f"{DMT} on a ring would need at least {told}: too many for a slope over several sizes")


def _rounded(rounds: float) -> str:
    digits = 10 ** max(0, math.floor(np.log10(rounds)) - 2)
    return f"{digits * round(rounds / digits):,}"


COROLLARY = "With the step size and momentum of its corollary the error falls as 1/√(nT), a slope of -1/2 in n."

SPEEDUP = [
    *(
        Claim(
            "speedup",
            f"Agents average each other's noise on the {graph} graph: at fixed step size and momentum the slope of log "
            f"‖x̄ − x̄ without noise‖² against log n is below {AVERAGED_NOISE}",
            "The noise that is left falls as one over the number of agents.",
            partial(noise, graph),
        )
        for graph in GRAPHS
    ),
    *(
        Claim(
            "speedup",
            f"The corollary's rate on the {graph} graph, where its condition on T is met: the slope of log mean ‖∇F‖² "
            f"against log n is below {LINEAR_SPEEDUP}",
            COROLLARY,
            partial(corollary, graph),
        )
        for graph in ("complete", "exponential")
    ),
    Claim(
        "speedup",
        f"The corollary's rate on the ring, where its condition on T is met: the slope of log mean ‖∇F‖² "
        f"against log n is below {LINEAR_SPEEDUP}",
        COROLLARY,
        corollary_on_ring,
    ),
]
