"""The claims of the Biased-DMT paper and ours about it, each a question that measurements could answer either way.

Every claim is a sentence of the paper, in our words and with its section, and is tested once. Those that the paper does
not make are ours, and say so. Methods are tuned by what is judged, at the horizon at which it is judged.
"""

import math
import tomllib
from collections.abc import Mapping
from functools import partial
from itertools import pairwise

import numpy as np
import polars as pl

from gossamer.papers.verdicts import OURS, Claim, Insufficient, NotRun, Question
from gossamer.papers.vocabulary import (
    FACTOR,
    FLAT,
    PAID,
    SHARE,
    BiasFloor,
    Cost,
    End,
    Floor,
    LowerLoss,
    Order,
    Ratio,
    Reading,
    Readings,
    Runs,
    Slope,
    average,
    bias_sq,
    chosen,
    difference,
    fact,
    is_algorithm,
    log_ratio,
    log_slope,
    pair,
    read_arrived,
    resolution,
    result_of,
    slope_question,
    target,
    way,
)
from gossamer.results.study import Study
from gossamer.theory.theorem import kappa

DMT = "biased-dmt"

# --- the methods that are compared ------------------------------------------------------------------------------------

RIVALS = ("biased-dsgd", "dsgdm", "gt-dsgd")
"""The methods that the paper compares with."""

CONTROLS = ("gnsd", "momentum-tracking", "centralized-sgd")
"""The methods that we add."""


# --- figure 1: loss, and rounds to a target -------------------------------------------------------------------------


def fewest_rounds(others: tuple[str, ...], study: Study) -> Question:
    lams = sorted(chosen(study, DMT, "lam"))
    finest = max(resolution(study, name) for name in (DMT, *others))
    # a margin below what the grids resolve would let a grid decide
    asked = Ratio(Cost(), DMT, others, margin=max(FACTOR, finest))(study)
    note = (
        f"{asked.note}; λ chosen for {DMT}: {', '.join(f'{lam:.3g}' for lam in lams)}; the criterion changes by at "
        f"most {100 * (finest - 1):.2g} % from a chosen step size to its better neighbour"
    )
    return asked._replace(note=note)


# --- error against horizon --------------------------------------------------------------------------------------------

HORIZONS = ("T = 2,000", "T = 8,000", "T = 32,000")


def _over_floor(study: Study, algorithm: str, horizon: str) -> Readings:
    """Return the error at the end over ‖ē‖², the level that no tracker settles below."""
    end, bias = Runs.of(study, algorithm, horizon).end("grad_norm_sq"), bias_sq(study, horizon)
    return {replicate: end[replicate] / bias[replicate] for replicate in end.keys() & bias.keys()}


def _curve(study: Study, algorithm: str) -> str:
    """Return the error over the floor at each horizon that was run: a quick reproduction has the last alone."""
    return f"{algorithm} " + ", ".join(
        f"{average(_over_floor(study, algorithm, horizon)):.3g} at {horizon.removeprefix('T = ')}"
        for horizon in HORIZONS
        if horizon in study.results
    )


def stalls(algorithms: tuple[str, ...], study: Study) -> Question:
    parts = {
        name if len(algorithms) > 1 else "": np.log(pair(_over_floor(study, name, HORIZONS[-1]))[0])
        for name in algorithms
    }
    beside = [DMT] if all(horizon in study.results for horizon in HORIZONS) else []
    note = "‖∇F‖² over ‖ē‖² by horizon, each tuned there: " + "; ".join(
        _curve(study, name) for name in (*algorithms, *beside)
    )
    quantity = f"‖∇F‖² over ‖ē‖² at {HORIZONS[-1]}"
    return Question(quantity, parts, above=2, tie=(1 / FACTOR, FACTOR), ratio=True, note=note)


def buys_time(study: Study) -> Question:
    ratios = {
        horizon: log_ratio(
            Runs.of(study, "biased-dsgd", horizon).end("grad_norm_sq"), Runs.of(study, DMT, horizon).end("grad_norm_sq")
        )
        for horizon in HORIZONS
    }
    shown = ", ".join(
        f"{math.exp(values.mean()):.3g} at {name.removeprefix('T = ')}" for name, values in ratios.items()
    )
    quantity = f"how often the ratio of errors, biased-dsgd to {DMT}, at {HORIZONS[0]} is that at {HORIZONS[-1]}"
    note = f"ratio of errors by horizon, each tuned there: {shown}"
    return Question(quantity, {"": ratios[HORIZONS[0]] - ratios[HORIZONS[-1]]}, above=2, ratio=True, note=note)


# --- figure 2: growing bias -------------------------------------------------------------------------------------------

READINGS = ("once", "redrawn")
"""When the paper's e_i is drawn: once for each agent, or anew at each query."""

MAGNITUDES = range(1, 6)
SIGNS = {"": "positive mean", "-minus": "negative mean"}
ALIKE = 0.05
"""The largest difference of losses on the way that still counts as alike, as a share of the way."""


def _readings(study: Study) -> list[str]:
    """Return the readings that were run: a quick reproduction has the first alone."""
    return [reading for reading in READINGS if f"{reading}-1" in study.results] or [READINGS[0]]


def staircase(study: Study) -> Question:
    stairs = [["unbiased", *(f"{reading}-{k}" for k in MAGNITUDES)] for reading in _readings(study)]
    asked = [Order(BiasFloor(), [f"{DMT} @ {step}" for step in steps])(study) for steps in stairs]
    parts = {name: values for one in asked for name, values in one.parts.items()}
    return asked[0]._replace(parts=parts, note="; ".join(one.note for one in asked))


def floor_as_predicted(study: Study) -> Question:
    least, parts = Runs.of(study, DMT, "unbiased").floor(), {}
    for variant in (f"{reading}-{k}" for reading in _readings(study) for k in MAGNITUDES):
        bias = bias_sq(study, variant)
        expected = {replicate: least[replicate] + bias[replicate] for replicate in least.keys() & bias.keys()}
        parts[variant] = log_ratio(Runs.of(study, DMT, variant).floor_of_gradient(bias), expected)
    quantity = "floor of ‖∇F‖² over ‖ē‖² + the floor without bias"
    return Question(quantity, parts, above=0.9, below=1.1, ratio=True, note="floors by ‖ē‖² + ‖∇F + ē‖²")


def _on_the_way(study: Study, variant: str) -> tuple[np.ndarray, float, str]:
    """Return the mean loss minus that without bias until 90 % of the way down, that way, and the marks of its end."""
    unbiased, biased = Runs.of(study, DMT, "unbiased"), Runs.of(study, DMT, variant)
    start, end = way([unbiased])
    goal = target([unbiased], 0.9)
    arrival = average(unbiased.arrivals(goal))
    parts = difference(biased.mean("loss", arrival), unbiased.mean("loss", arrival))
    return parts, start - end, unbiased.between(goal)


def alike_at_first(study: Study) -> Question:
    parts, down = {}, 0.0
    for variant in (f"once-{k}" for k in MAGNITUDES):
        parts[variant], down, _ = _on_the_way(study, variant)
    quantity, most = "mean loss on the way minus that without bias", ALIKE * down
    return Question(quantity, parts, above=-most, below=most, note=f"{100 * ALIKE:g} % of the way is {most:.3g}")


def bias_accelerates(study: Study) -> Question:
    parts, down, rounds = {}, 0.0, ""
    for sign, word in SIGNS.items():
        parts[word], down, rounds = _on_the_way(study, f"once-{MAGNITUDES[-1]}{sign}")
    least = SHARE * down
    note = f"without bias 90 % of the way takes {rounds} rounds; smallest difference that matters {least:.2g}"
    return Question("mean loss on the way minus that without bias", parts, below=-least, tie=(-least, least), note=note)


# --- heterogeneity ----------------------------------------------------------------------------------------------------

PROPORTION = 0.25
"""How far the exponent of a proportion to heterogeneity may be off: relative biases differ much from draw to draw."""

MIXED_SPLITS = ("mixed:0", "mixed:0.25", "mixed:0.5", "mixed:0.75", "mixed:1")


def floor_by_heterogeneity(bias: str, above: float, below: float) -> Slope:
    floor, runs = BiasFloor() if bias == "absolute" else Floor(), [f"{DMT} @ {bias} {split}" for split in MIXED_SPLITS]
    return Slope(floor, runs, "heterogeneity_at_end", above=above, below=below, against="ζ² at the end")


# --- number of agents -------------------------------------------------------------------------------------------------

GRAPHS = ("ring", "exponential")
AGENTS = (4, 8, 16, 32)
POWER = 0.15
"""How far the exponent of a power law of noise may be off."""


def noise_by_agents(study: Study) -> Question:
    slopes, told = {}, []
    for graph in GRAPHS:
        sizes = {f"{graph}-{n}": float(n) for n in AGENTS}
        parts = {name: _noise(study, f"{name} noisy", f"{name} exact") for name in sizes}
        slopes[graph] = log_slope(sizes, parts)
        told.append(f"{graph} {', '.join(f'{average(parts[name]):.4g} at {n:g}' for name, n in sizes.items())}")
    quantity = "slope of log ‖x̄ − x̄ without noise‖² against log n"
    return Question(quantity, slopes, above=-1 - POWER, below=-1 + POWER, note=f"by n: {'; '.join(told)}")


def _noise(study: Study, noisy: str, exact: str) -> Readings:
    """Return the squared distance, at the end, of the mean model from that of exact gradients from the same start."""
    with_noise, without = result_of(study, noisy), result_of(study, exact)
    if len(Runs.of(study, DMT, noisy).replicates) != len(with_noise.seeds):
        raise Insufficient(f'"{noisy}" has several seeds a replicate')
    (noisy_models,), (exact_models,) = with_noise.states.values(), without.states.values()
    distances = ((noisy_models.mean(1) - exact_models[0].mean(0)) ** 2).sum(1)
    return dict(zip(with_noise.seeds, distances.astype(float).tolist(), strict=True))


def least_rounds(agents: float, gap: float) -> float:
    """Return the fewest rounds that Corollary 1 covers in its repaired form."""
    return 16 * agents**2 * float(kappa(agents, gap)) / gap**2


def corollary(study: Study) -> Question:
    horizon = 25_600
    families = {
        "n, complete": {f"complete-{n}, T = {horizon:,}": float(n) for n in AGENTS},
        "n, exponential": {f"exponential-{n}, T = {horizon:,}": float(n) for n in AGENTS[:3]},
        "T, complete": {f"complete-8, T = {steps:,}": float(steps) for steps in (6_400, 25_600, 102_400)},
    }
    slopes, told = {}, []
    for name, family in families.items():
        runs = {variant: Runs.of(study, DMT, variant) for variant in family}
        for variant, each in runs.items():
            needed = least_rounds(fact(study, variant, "agents"), fact(study, variant, "gap"))
            if each.last < needed * (1 - 1e-9):
                raise Insufficient(f"{variant} needs {needed:,.0f} rounds")
        errors = {variant: each.mean() for variant, each in runs.items()}
        slopes[name] = log_slope(family, errors)
        told.append(f"{name}: {', '.join(f'{average(errors[v]):.3g} at {x:g}' for v, x in family.items())}")
    note = f"mean ‖∇F‖² by {'; '.join(told)}. On a ring of 16 agents the condition asks for "
    note += f"{least_rounds(16, 2 / 3 * (1 - math.cos(math.pi / 8))):.2g} rounds: not tested there"
    note += "; noise in M⁰ adds a part that falls as n^(−3/2), so slopes in n may be steeper"
    return Question("slope of log mean ‖∇F‖²", slopes, below=-0.5 + POWER, note=note)


# --- networks, and the start of the tracker ---------------------------------------------------------------------------

NETWORKS = ("complete", "exponential", "torus", "ring", "path")
STARTED = ("complete", "exponential", "torus", "random", "ring", "path")


def cost_to_target(study: Study, graph: str, start: str, by: str = "round") -> Reading:
    """Return what Biased-DMT pays until it reaches the target on a graph, from a start, whose name is shown, too."""
    method = f"{DMT} @ {graph} {start}"
    reading = read_arrived(Cost(pays=by), study, [method])[method]  # pyright: ignore[reportArgumentType]
    return reading._replace(shown=f"{reading.shown} {start}")


def _marks(study: Study, graph: str) -> str:
    """Return how finely rounds are known on a graph."""
    return Runs.of(study, DMT, f"{graph} cold").resolution


def same_rounds(study: Study) -> Question:
    gaps = {name: fact(study, f"{name} cold", "gap") for name in STARTED}
    costs = {name: cost_to_target(study, name, "cold") for name in STARTED}
    rounds = {name: cost.values for name, cost in costs.items()}
    asked = slope_question(gaps, rounds, "rounds to the target", "ρ", above=-FLAT, below=FLAT)
    by_gap = sorted(STARTED, key=gaps.__getitem__)
    note = f"rounds by ρ: {', '.join(f'{costs[name].shown} at {gaps[name]:.4g}' for name in by_gap)}"
    return asked._replace(note=f"{note}; {_marks(study, STARTED[0])}")


SPARSEST = ("ring", "path")
"""The graphs on which k = 1/ρ gossips are fewer than the rounds that a cold start loses."""

DEAR = ("messages", "bytes_sent", "seconds")
"""The columns that count the start."""


def cost_of_start(study: Study) -> Question:
    parts, ideal = {}, cost_to_target(study, "complete", "cold")
    kinds = {name: ("cold", "warm", *(("mean",) if name in SPARSEST else ())) for name in STARTED[1:]}
    costs = {name: {kind: cost_to_target(study, name, kind) for kind in some} for name, some in kinds.items()}
    for graph in SPARSEST:
        cold, mean, least = pair(costs[graph]["cold"].values, costs[graph]["mean"].values, ideal.values)
        if not (cold > least).all():
            raise Insufficient(f"on {graph} a cold start takes no more rounds than on the complete graph")
        parts[graph] = (cold - mean) / (cold - least)
    note = (
        f"rounds, without those of the start: complete {ideal.shown}; {_list_costs(costs)}; {_marks(study, 'complete')}"
    )
    return Question(
        "share of the rounds beyond the complete graph's that a mean start saves", parts, above=0.5, note=note
    )


def warm_start_pays(by: str, study: Study) -> Question:
    costs = {name: {kind: cost_to_target(study, name, kind, by) for kind in ("cold", "warm")} for name in STARTED[1:]}
    parts = {name: log_ratio(costs[name]["warm"].values, costs[name]["cold"].values) for name in SPARSEST}
    note = f"{_list_costs(costs)}; {_marks(study, SPARSEST[0])}"
    return Question(
        f"ratio of {PAID[by]}, warm to cold", parts, below=1 / FACTOR, tie=(1 / FACTOR, FACTOR), ratio=True, note=note
    )


def _list_costs(costs: Mapping[str, Mapping[str, Reading]]) -> str:
    return "; ".join(f"{graph} {', '.join(one.shown for one in each.values())}" for graph, each in costs.items())


# --- step sizes, in common units --------------------------------------------------------------------------------------

LARGER = 1.25
"""The smallest ratio of stable step sizes that matters."""


def largest_step(study: Study) -> Question:
    if study.tuning is None or "" not in study.results:
        raise NotRun("no step sizes were tried")
    tried = study.step_sizes()
    names = (DMT, "gt-dsgd", "gnsd", "momentum-tracking")
    tops = {}
    for name in names:
        own = tried.filter(is_algorithm(name))
        if name in names[:2] or not own.is_empty():  # the others stand in the note alone
            tops[name] = _tops(own, name)
    etas = sorted(tried["eta"].unique().to_list())
    step = max(b / a for a, b in pairwise(etas))
    if any(top == etas[-1] for each in tops.values() for top in each.values()):
        raise Insufficient(f"the largest step size that was tried, {etas[-1]:g}, is stable")
    rules = {each["name"]: each for each in tomllib.loads(study.spec)["algorithm"] if "eta" not in each}
    lam = rules[DMT]["lam"]
    ratio = log_ratio(tops[DMT], tops["gt-dsgd"])
    note = "largest stable η " + ", ".join(f"{name} {average(each):.4g}" for name, each in tops.items())
    if "momentum-tracking" in tops:
        note += f" (momentum-tracking is {DMT} with η in the second unit)"
    note += f"; intervals hold one step of the grid, {step:.3g}"
    # the truth lies anywhere between two step sizes of the grid
    parts = {"per round of a constant gradient": ratio, "of the newest gradient": ratio + math.log(lam)}
    quantity = "ratio of the largest stable step to that of gt-dsgd"
    tie = (1 / LARGER, LARGER)
    return Question(quantity, parts, above=LARGER, tie=tie, ratio=True, note=note, wider=math.log(step))


def _tops(tried: pl.DataFrame, name: str) -> Readings:
    """Return the largest stable step size in each replicate."""
    if tried.is_empty():
        raise NotRun(f"no step size of {name} was tried")
    tops = tried.filter("stable").group_by("replicate").agg(pl.col("eta").max())
    if len(tops) < tried["replicate"].n_unique():
        raise Insufficient(f"no step size of {name} is stable in every replicate")
    return dict(tops.iter_rows())


# --- the list ---------------------------------------------------------------------------------------------------------

MARGIN = f"margin {100 * SHARE:g} % of the way from the start to the lowest end"

CLAIMS: list[Claim] = [
    Claim(
        "fig1",
        f"Biased-DMT ends at a lower loss than each of Biased-DSGD, DSGDm and GT-DSGD ({MARGIN})",
        "Section V-B",
        "Biased-DMT ends at the lowest training loss of all methods compared.",
        "Under a bias the lowest loss is passed on the way to the floor, so a tuned rival may stop there as well.",
        LowerLoss(DMT, RIVALS),
    ),
    Claim(
        "fig1",
        f"Biased-DMT ends at a lower loss than GNSD, Momentum Tracking and centralized SGD ({MARGIN})",
        OURS,
        "The paper has no such controls: no tracker without momentum in its own form, and no all-reduce.",
        "They may do as well: GNSD is Biased-DMT with λ = 1, and an all-reduce needs no tracking.",
        LowerLoss(DMT, CONTROLS),
    ),
    Claim(
        "descent",
        "On the ring Biased-DMT descends fastest: it reaches the target in fewer rounds than each of Biased-DSGD, "
        "DSGDm and GT-DSGD, all tuned for that (margin 10 %, or what the grids resolve)",
        "Section V-B",
        "Biased-DMT has the steepest descent of all methods compared.",
        "GT-DSGD adapts before it combines, and allows larger steps than Algorithm 1's form at λ = 1; where a graph "
        "mixes fast, methods without tracking lose little.",
        partial(fewest_rounds, RIVALS),
    ),
    Claim(
        "descent",
        "It is the momentum: Biased-DMT reaches the target in fewer rounds than GNSD, which is Biased-DMT with λ = "
        "1, both tuned for that (margin 10 %, or what the grids resolve)",
        "Section V-B",
        "Without acceleration by momentum gradient tracking converges more slowly.",
        "Tuning may choose λ = 1, or a λ that gains less than the margin.",
        partial(fewest_rounds, ("gnsd",)),
    ),
    Claim(
        "horizon",
        "Biased-DSGD stalls above the floor of the bias: tuned at 32,000 rounds, its ‖∇F‖² is there still more than "
        "twice ‖ē‖²",
        "Section V-B",
        "The steady error of Biased-DSGD stays bounded from below by the heterogeneity of the data.",
        "Its fixed point depends on the step size, and tends to that of a tracker as the step size tends to 0.",
        partial(stalls, ("biased-dsgd",)),
        "Biased-DSGD stalls above the floor of the bias",
    ),
    Claim(
        "horizon",
        "DSGDm with β = 0.9 stalls above the floor of the bias, with local and with gossiped momentum: tuned at "
        "32,000 rounds, its ‖∇F‖² is there still more than twice ‖ē‖²",
        "Section V-B",
        "DSGDm does not converge tightly, because it remains vulnerable to heterogeneous data.",
        "As for Biased-DSGD: a smaller step brings it as close as one likes, given time.",
        partial(stalls, ("dsgdm", "dsgdm-gossip")),
        "DSGDm with β = 0.9 stalls above the floor of the bias",
    ),
    Claim(
        "horizon",
        "On the ring tracking buys time, not a floor: how much larger the error of Biased-DSGD is than that of "
        "Biased-DMT falls by more than half from 2,000 to 32,000 rounds, each tuned at its horizon",
        OURS,
        "The paper speaks of a floor that stays; it states no horizon.",
        "Were it a floor for ever, the ratio would stay or grow; on a better graph there is less time to buy.",
        buys_time,
    ),
    Claim(
        "sensitivity",
        f"Biased-DMT with λ = 0.1 bears a step more than {LARGER} times that of GT-DSGD, in both units of a step: "
        "what a constant gradient moves the model a round, and what the newest gradient moves it",
        OURS,
        "The paper says that tuning λ frees the step size from the network, and compares no step sizes.",
        "Momentum spreads a gradient over 1/λ rounds, so one unit may favour it and the other not.",
        largest_step,
    ),
    Claim(
        "sensitivity",
        "At η = 0.1, the step of a constant gradient, the agents of Biased-DMT with λ = 0.1 disagree less than those "
        "of GT-DSGD and GNSD (margin 10 %)",
        OURS,
        "The paper says nothing of it.",
        "GT-DSGD mixes after each step, which brings agents together by itself.",
        Ratio(End("consensus", tuned=False), DMT, ("gt-dsgd", "gnsd")),
    ),
    Claim(
        "fig2",
        "The floor of ‖∇F‖² rises at each of five steps of the bias, drawn once or redrawn at every query (margin 10 "
        "%)",
        "Section V-C",
        "Larger biases give higher floors, like stairs.",
        "It follows from ∇F = −ē only if runs settle and noise does not hide the smallest step.",
        staircase,
    ),
    Claim(
        "fig2",
        "The floor of ‖∇F‖² is ‖ē‖² plus the floor without bias, within ±10 % at every magnitude and for both draws",
        "Section V-B",
        "Under an absolute bias the floor depends on the bias alone.",
        "Any error that heterogeneous data leave, or that bias and noise make together, would add to it.",
        floor_as_predicted,
    ),
    Claim(
        "fig2",
        "At first all biases descend alike: until 90 % of the way is covered, the mean loss is within "
        f"±{100 * ALIKE:g} % of that way of the loss without bias",
        "Section V-C",
        "In the first phase all magnitudes of the bias converge similarly and fast.",
        "The bias is of the size of the gradients that are left after a few dozen rounds.",
        alike_at_first,
    ),
    Claim(
        "fig2",
        "The largest bias speeds up the start, whatever its sign: the mean loss is lower than without bias until 90 "
        f"% of the way is covered (margin {100 * SHARE:g} % of that way)",
        "Section V-C",
        "A large bias makes the iterates drift and overshoot, which speeds up their escape from the start.",
        "The paper leaves the direction open: a bias along the descent helps, and one against it does not.",
        bias_accelerates,
    ),
    Claim(
        "heterogeneity",
        "Under an absolute bias the floor does not depend on heterogeneity: the slope of log floor against log ζ² is "
        f"within ±{FLAT}",
        "Theorem 1, Corollary 1",
        "Under an absolute bias heterogeneous data leave no error.",
        "Tracking would have to fail: D-PSGD's floor grows with ζ².",
        floor_by_heterogeneity("absolute", -FLAT, FLAT),
        "Under an absolute bias the floor does not depend on heterogeneity",
    ),
    Claim(
        "heterogeneity",
        "Under a relative bias with M_f = 1/256, the most that Theorem 1 allows, the floor is in proportion to "
        f"heterogeneity: the slope of log floor against log ζ² is within 1 ± {PROPORTION}",
        "Theorem 1",
        "Under a relative bias an error of order M_f ζ² is left.",
        "The theorem bounds it from above only: errors of different agents may cancel.",
        floor_by_heterogeneity("relative", 1 - PROPORTION, 1 + PROPORTION),
        "Under a relative bias the floor is in proportion to heterogeneity",
    ),
    Claim(
        "speedup",
        "Noise falls as one over the number of agents, at fixed step size and momentum: the slope of log ‖x̄ − x̄ "
        f"without noise‖² against log n is within −1 ± {POWER} on ring and exponential graph",
        "Theorem 1",
        "The leading term of the noise has the factor 1/n.",
        "Its other terms grow with n and 1/ρ, and could dominate on the ring.",
        noise_by_agents,
        "Noise falls as one over the number of agents",
    ),
    Claim(
        "corollary",
        "The corollary's rate where noise dominates: with its λ and η the slope of log mean ‖∇F‖² is −1/2 or steeper "
        f"(below {POWER - 0.5:g}), against log n on the complete and the exponential graph, and against log T",
        "Corollary 1",
        "With λ = √(n/T) and η = λ/(16L) the error falls as 1/√(nT).",
        "Started at the minimum there is no way down: noise that agents did not average, or that the network added, "
        "would show.",
        corollary,
        "The corollary's rate where noise dominates",
    ),
    Claim(
        "topology",
        f"The floor does not depend on the network: the slope of log floor of ‖∇F‖² against log ρ is within ±{FLAT}, "
        "at one step size and momentum",
        "Section II-C",
        "The spectral gap does not enter the level at which the error stays.",
        "The theorem's noise term has 1/ρ², and at this step size the conditions of the theorem do not hold.",
        Slope(BiasFloor(), [f"{DMT} @ {name}" for name in NETWORKS], "gap", above=-FLAT, below=FLAT, against="ρ"),
    ),
    Claim(
        "start",
        "The network does not slow it down when η and λ are tuned on each: the slope of log rounds to the target "
        f"against log ρ is within ±{FLAT}",
        "Remark on Theorem 1",
        "Tuning λ absorbs what the network costs in the first phase.",
        "Φ⁰ holds the disagreement of the trackers at the start, divided by ρ.",
        same_rounds,
        "The network does not slow it down when it is tuned",
    ),
    Claim(
        "start",
        "Most of what a sparse network costs Biased-DMT is its start: from the mean gradient it saves more than half "
        "of the rounds that ring and path take beyond the complete graph",
        OURS,
        "Algorithm 1 starts each tracker from the agent's own gradient.",
        "Rounds may be lost to slow mixing all along, and not to the start alone.",
        cost_of_start,
        "Most of what a sparse network costs is the start",
    ),
    *(
        Claim(
            "start",
            f"A warm start pays on ring and path, in {PAID[by]}: from Wᵏg⁰ with k = 1/ρ, whose gossips count, the "
            "target takes less than from g⁰ (margin 10 %)",
            OURS,
            "Algorithm 1 starts each tracker from the agent's own gradient.",
            "The k gossips may cost as much as they save.",
            partial(warm_start_pays, by),
            f"A warm start pays on ring and path, in {PAID[by]}",
        )
        for by in DEAR
    ),
]
"""Every claim, by experiment: figures first, then theorems."""
