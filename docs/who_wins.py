"""Measure who wins when, and write docs/who-wins.md from docs/templates/who-wins.txt and what was measured.

python docs/who_wins.py                     all of it
python docs/who_wins.py diagram momentum    some of `diagram`, `momentum` and `bias`, anew, and the page
python docs/who_wins.py page                only the figures and the page, from what was stored
"""

import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import drawing
import networkx as nx
import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from tables import table

import gossamer as gs
from gossamer.report.styles import COLORS, method_style
from gossamer.results.statistics import END, interval

HERE = Path(__file__).parent
ASSETS = HERE / "assets" / "who-wins"
FOUND = ASSETS / "found.json"

AGENTS, DIM, CONDITION, SPREAD = 16, 3, 100.0, (0.2, 1.8)
"""The quadratics: mean curvatures from 1/CONDITION to 1, those of an agent between SPREAD times them."""
HORIZON, TARGET, MARGIN = 1000, 0.01, 1.1
"""Rounds; the error to reach, where that of the start is 1; values up to MARGIN times the best tie with it."""
EXACT = 1e-12
"""Errors below this count as equal: rounding is near."""
ZETAS, BIASES, NOISES = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0), (0.0, 0.01, 0.1), (0.0, 0.1, 1.0, 10.0, 100.0)
"""ζ², σ_f² and σ², in units of ‖∇F‖² at the start."""
CELLS = list(itertools.product(BIASES, NOISES, ZETAS))
STEP, COARSE = 1.05, 4
"""Step sizes and λ are powers of this; every fourth is tried first."""
ETAS, LAMBDAS = range(-144, 92), range(0, -113, -1)
"""Their exponents."""
CLOSE = 2.0
"""A method up to so many times the best is close: how well it is tuned matters to who wins."""
UNITS = ("rounds", "bytes", "messages")


class Method(NamedTuple):
    """A method of the diagram, and what a round of it costs."""

    family: str
    color: str
    vectors: int
    messages: int
    warm: bool = False


def color_of(method: str) -> str:
    """Return the colour that a method has in all figures."""
    return method_style(method).color


METHODS = {
    "D-PSGD": Method("d-psgd", color_of("d-psgd"), 1, 1),
    "GT-DSGD": Method("gt-dsgd", color_of("gt-dsgd"), 2, 2),
    "GNSD": Method("gnsd", color_of("gnsd"), 2, 1),
    "Biased-DMT": Method("biased-dmt", color_of("biased-dmt"), 2, 1),
    "Biased-DMT, warm": Method("biased-dmt", color_of("biased-dmt"), 2, 1, warm=True),
}
WARM = {
    "GT-DSGD, warm": Method("gt-dsgd", color_of("gt-dsgd"), 2, 2, warm=True),
    "GNSD, warm": Method("gnsd", color_of("gnsd"), 2, 1, warm=True),
}
"""Controls: the same start for the others that track."""
OURS, OTHERS = ("Biased-DMT", "Biased-DMT, warm"), ("D-PSGD", "GT-DSGD", "GNSD")
Family = tuple[Callable[[float, float, int], Any], Iterable[int]]
"""A function that builds a rule from η, λ and gossips before round 0, and the exponents of λ that are tried first."""
FAMILIES: dict[str, Family] = {
    "d-psgd": (lambda eta, lam, warm: gs.DPSGD(eta=eta), (0,)),
    "gt-dsgd": (lambda eta, lam, warm: gs.GTDSGD(eta=eta, warm=warm), (0,)),
    "biased-dmt": (lambda eta, lam, warm: gs.BiasedDMT(eta=eta, lam=lam, warm=warm), LAMBDAS[::COARSE]),
}
CONTROLS: dict[str, Family] = {
    "Biased-DMT, adapt then combine": (
        lambda eta, lam, warm: gs.BiasedDMTATC(eta=eta, lam=lam, warm=warm),
        LAMBDAS[:: 2 * COARSE],
    ),
    "DSGDm": (lambda eta, lam, warm: gs.DSGDm(eta=eta * lam, beta=1 - lam), LAMBDAS[:: 2 * COARSE]),
}
"""Momentum without the order of Biased-DMT, and without tracking. A step size is the movement of the model in a round
that a constant gradient of length 1 causes: η/(1 − β) for DSGDm."""


def graphs() -> dict[str, Any]:
    """Return the networks, from the sparsest."""
    return {
        "path": gs.networks.path(AGENTS),
        "ring": gs.networks.ring(AGENTS),
        "ring, 4 neighbours": gs.networks.from_graph(nx.circulant_graph(AGENTS, [1, 2])),
        "torus": gs.networks.torus(4, 4),
        "complete": gs.networks.complete(AGENTS),
    }


def curvatures() -> np.ndarray:
    """Draw the diagonals of the agents' Hessians, [d, agents]; the mean of each row is that of F."""
    share = np.random.default_rng(0).uniform(*SPREAD, (DIM, AGENTS))
    return np.geomspace(1 / CONDITION, 1, DIM)[:, None] * share / share.mean(1, keepdims=True)


class Agents:
    """A rule's agents on one coordinate: the gradient of agent i at x is a_i x + u_i, column by column."""

    def __init__(self, W: np.ndarray, a: np.ndarray, u: np.ndarray):
        self.W, self.a, self.u = W, a[:, None], u

    def gradient(self, x: np.ndarray) -> np.ndarray:
        return self.a * x + self.u

    def gossip(self, *arrays: np.ndarray) -> Any:
        mixed = tuple(self.W @ a for a in arrays)
        return mixed[0] if len(mixed) == 1 else mixed

    def average(self, a: np.ndarray, warm: int) -> np.ndarray:
        return np.linalg.matrix_power(self.W, warm) @ a


class System:
    """The linear system of a rule on one coordinate: s⁰ = B x⁰ + C u⁰ and s⁺ = P s + Q u⁺, from unit vectors."""

    def __init__(self, rule: Any, W: np.ndarray, a: np.ndarray):
        n = len(W)
        self.eye, self.zero = np.eye(n), np.zeros((n, n))
        self.W, self.a = W, a
        first = rule.init(self.zero, Agents(W, a, self.zero))
        self.names, self.State = list(first), type(first)
        size = n * len(self.names)
        units = np.eye(size).reshape(len(self.names), n, size)
        still = self.State(**dict.fromkeys(self.names, self.zero))
        moved = self.State(**dict(zip(self.names, units, strict=True)))
        self.P = self.flat(rule.step(moved, Agents(W, a, np.zeros((n, size)))))
        self.Q = self.flat(rule.step(still, Agents(W, a, self.eye)))

    def flat(self, s: Any) -> np.ndarray:
        return np.vstack([s[name] for name in self.names])

    def start(self, rule: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return B, for all agents at one point, and C of a rule that differs in its start only."""
        one, none = np.ones((len(self.W), 1)), np.zeros((len(self.W), 1))
        B = self.flat(rule.init(one, Agents(self.W, self.a, none)))
        return B[:, 0], self.flat(rule.init(self.zero, Agents(self.W, self.a, self.eye)))

    def seen(self, steps: int) -> np.ndarray:
        """Return r Pᵗ for t = 0, …, steps, where r s is the derivative of F at x̄: rows double with each squaring."""
        n, r = len(self.W), np.zeros(len(self.P))
        r[self.names.index("x") * n :][:n] = self.a.mean() / n
        rows, power = r[None], self.P
        while True:
            rows = np.vstack([rows, rows @ power])
            if len(rows) > steps:
                return rows[: steps + 1]
            power = power @ power


def terms(rules: list[Any], W: np.ndarray, A: np.ndarray, steps: int) -> np.ndarray:
    r"""Return the four terms of $E\|\nabla F(\bar x^t)\|^2$, [rules, t, 4], exactly; rules differ in their start only.

    The expectation is over the noise, a start with $E\|\nabla F(x^0)\|^2 = 1$, differences $h_i$ of the gradients at
    the optimum with mean 0 and $\frac1n \sum_i E\|h_i\|^2 = \zeta^2$, and a bias that all agents share with
    $E\|e\|^2 = \sigma_f^2$, all of them isotropic and of mean 0: it is term 0 + ζ² term 1 + σ_f² term 2 + σ² term 3.
    """
    d, n = A.shape
    found = np.zeros((len(rules), steps + 1, 4))
    for a in A:
        system = System(rules[0], W, a)
        seen = system.seen(steps)
        answers = seen[:-1] @ system.Q
        constant = np.vstack([np.zeros(n), answers.cumsum(0)])
        noise = np.concatenate([[0.0], (answers**2).sum(1).cumsum()])
        for k, rule in enumerate(rules):
            B, C = system.start(rule)
            first = seen @ C
            whole = constant + first  # of a constant input of each agent
            found[k, :, 0] += (seen @ B / a.mean()) ** 2 / d
            found[k, :, 1] += whole.var(1) * n**2 / (n - 1) / d
            found[k, :, 2] += whole.sum(1) ** 2 / d
            found[k, :, 3] += (noise + (first**2).sum(1)) / d
    return found


def rounds_at(method: Method, unit: str, before: int) -> int:
    """Return the rounds that a method takes for the price of HORIZON rounds of Biased-DMT in this unit."""
    price = {"rounds": (HORIZON, 1), "bytes": (2 * HORIZON, method.vectors), "messages": (HORIZON, method.messages)}
    budget, each = price[unit]
    return (budget - before) // each


def gossips(method: Method, warm: int) -> int:
    """Return the gossips of one vector before round 0; GT-DSGD starts from W g⁰."""
    return (method.family == "gt-dsgd") + method.warm * warm


def price(method: Method, unit: str, before: int, rounds: float) -> float:
    """Return what so many rounds and the gossips before them cost in this unit: bytes are counted in vectors."""
    each = {"rounds": 1, "bytes": method.vectors, "messages": method.messages}[unit]
    return each * rounds + before


Starts = list[tuple[Method, int]]
"""Methods that differ in their start only, each with its gossips before round 0."""


def values(rules: list[Any], W: np.ndarray, A: np.ndarray, starts: Starts) -> np.ndarray:
    """Return the errors at the horizons and the round from which on the error is at the target, [starts, 4, cells].

    The error at a horizon is the mean over its last tenth, and the target must hold until the end: momentum can swing
    through a low error in one round.
    """
    found = []
    longest = max(rounds_at(method, unit, 0) for method, _ in starts for unit in UNITS)
    weights = np.array([(1, zeta, bias, noise) for bias, noise, zeta in CELLS]).T
    with np.errstate(all="ignore"):  # settings that diverge overflow
        errors = terms(rules, W, A, longest) @ weights
    errors = np.where(np.isfinite(errors), np.minimum(errors, 1e100), np.inf)
    for (method, before), curve in zip(starts, errors, strict=True):
        ends = [rounds_at(method, unit, before) for unit in UNITS]
        last = np.cumsum(curve > TARGET, axis=0).argmax(0)  # the last round above the target
        first = np.where(curve[max(ends)] <= TARGET, last + 1.0, np.inf)
        found.append(np.stack([*(curve[math.ceil(END * end) : end + 1].mean(0) for end in ends), first]))
    return np.stack(found)


class Search:
    """A search over the settings of a family on a graph: a coarse lattice, then finer around every optimum."""

    def __init__(self, family: Family, W: np.ndarray, A: np.ndarray, starts: Starts, warm: int = 0):
        self.make, self.rows = family
        self.W, self.A, self.starts, self.warm = W, A, starts, warm
        self.tried: dict[tuple[int, int], np.ndarray] = {}
        for j in self.rows:
            worse = 0
            for i in ETAS[::COARSE]:
                self.try_one(i, j)
                worse = worse + 1 if not self.tried[i, j][0, 0].min() < 1 else 0
                if worse == 3:  # all larger steps diverge too
                    break
        for stride in (2, 1):
            while self.try_all(
                {(i + s, j) for row in self.rows for i, j in self.optima([row]) for s in (-stride, stride)}
            ):
                pass
        for stride in (2, 1) if len(list(self.rows)) > 1 else ():
            near = [(s * stride, r * stride) for s in (-2, -1, 0, 1, 2) for r in (-1, 0, 1)]
            while self.try_all({(i + s, j + r) for s, r in near for i, j in self.optima(None)}):
                pass

    def try_one(self, i: int, j: int) -> None:
        rules = [self.make(STEP**i, STEP**j, self.warm if method.warm else 0) for method, _ in self.starts]
        self.tried[i, j] = values(rules, self.W, self.A, self.starts)

    def try_all(self, settings: set[tuple[int, int]]) -> bool:
        new = {(i, j) for i, j in settings - self.tried.keys() if i in ETAS and j in LAMBDAS}
        for i, j in sorted(new):
            self.try_one(i, j)
        return bool(new)

    def best(self, rows: Iterable[int] | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the least values, [starts, 4, cells], and the settings (i, j) that have them."""
        settings = [one for one in self.tried if rows is None or one[1] in rows]
        stacked = np.stack([self.tried[one] for one in settings])
        return stacked.min(0), np.array(settings)[stacked.argmin(0)]

    def optima(self, rows: Iterable[int] | None) -> set[tuple[int, int]]:
        least, where = self.best(rows)
        return {(int(i), int(j)) for i, j in where[np.isfinite(least)]}

    def halved(self) -> np.ndarray:
        """Return the least values on the lattice with every second η and λ only."""
        return np.stack([self.tried[i, j] for i, j in self.tried if i % 2 == 0 and j % 2 == 0]).min(0)


def measure_diagram(found: dict[str, Any]) -> None:
    """Tune every method in every cell, and keep what each has there."""
    A, began = curvatures(), time.perf_counter()
    cells, profiles, tried, slack = [], [], 0, {"with noise": 1.0, "without noise": 1.0}
    for graph, network in graphs().items():
        W, gap = network.matrix().toarray(), float(network.gap)
        k = math.ceil(1 / gap - 1e-9)
        starts: dict[str, Starts] = {name: [] for name in FAMILIES}
        for method in (METHODS | WARM).values():
            if method.family != "gnsd":  # Biased-DMT with λ = 1
                starts[method.family].append((method, gossips(method, k)))
        searches = {name: Search(FAMILIES[name], W, A, starts[name], k) for name in FAMILIES}
        tried += sum(len(search.tried) for search in searches.values())
        lattices = [(search.best()[0], search.halved()) for search in searches.values()]
        kept = {}
        for name, method in (METHODS | WARM).items():
            search = searches["biased-dmt" if method.family == "gnsd" else method.family]
            least, where = search.best([0] if method.family == "gnsd" else None)
            kept[name] = (least[int(method.warm)], where[int(method.warm)])
        for c, (_, noise, _) in enumerate(CELLS):
            pairs = [np.maximum([best[:, 0, c], halves[:, 0, c]], EXACT) for best, halves in lattices]
            fine, halved = np.concatenate(pairs, axis=1)
            close = fine <= CLOSE * fine.min()
            key = "with noise" if noise else "without noise"
            slack[key] = max(slack[key], float((halved / fine)[close].max()))
        for c, (bias, noise, zeta) in enumerate(CELLS):
            one: dict[str, Any] = {"graph": graph, "zeta": zeta, "bias": bias, "noise": noise}
            for q, quantity in enumerate((*UNITS, "target")):
                one[quantity] = {name: [_short(v[q, c]), *w[q, c].tolist()] for name, (v, w) in kept.items()}
            cells.append(one)
        profiles += profile(graph, searches["biased-dmt"], ["Biased-DMT"])
        found["graphs"] = found.get("graphs", {}) | {
            graph: {"gap": gap, "gossips": k, "least": float(np.linalg.eigvalsh(W)[0])}
        }
        print(f"{graph}: {time.perf_counter() - began:.0f} s, {tried} settings", flush=True)
    found["problem"] = {"curvatures": A.tolist(), "agents": AGENTS, "step": STEP}
    found["tuning"] = {"settings": tried, "slack": slack, "seconds": time.perf_counter() - began}
    found["cells"], found["profiles"] = cells, profiles


def profile(graph: str, search: Search, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the error at the horizon for each λ, with η tuned for it, where there is noise and no bias."""
    rows = {j: search.best([j])[0] for j in search.rows}
    return [
        {
            "graph": graph,
            "method": name,
            "zeta": zeta,
            "noise": noise,
            "lam": [_short(STEP**j) for j in rows],
            "error": [_short(least[k, 0, c]) for least in rows.values()],
        }
        for k, name in enumerate(names)
        for c, (bias, noise, zeta) in enumerate(CELLS)
        if bias == 0 and noise > 0 and zeta in PROFILED
    ]


def measure_momentum(found: dict[str, Any]) -> None:
    """Add the profiles of the controls to those of Biased-DMT."""
    A, began = curvatures(), time.perf_counter()
    ours = [one for one in found["profiles"] if one["method"] == OURS[0]]
    added: list[dict[str, Any]] = []
    for graph, network in graphs().items():
        for name, family in CONTROLS.items():
            search = Search(family, network.matrix().toarray(), A, [(Method(name, "", 2, 1), 0)])
            added += profile(graph, search, [name])
        print(f"controls, {graph}: {time.perf_counter() - began:.0f} s", flush=True)
    found["profiles"] = ours + added


def _short(number: float) -> float | None:
    """Return the number with five digits, which is enough for a page; None for infinity, which JSON lacks."""
    return float(f"{number:.5g}") if math.isfinite(number) else None


DATA = {
    "a9a": (0.01, gs.oracles.minibatch(256), 0.5, 12_000),
    "breast-cancer": (0.1, gs.oracles.exact(), 0.2, 12_000),
}
"""By name: α, and the gradients, η and rounds of the runs that confirm."""
COMMON, OWN, CROWDS = (0.0, 0.01, 0.03), (0.0, 0.03, 0.1), (4, 16, 64)
"""‖μ‖; √d σ_e, the size of an agent's own error; and n."""
DIRECTIONS = ("along", "against", "random")
REPLICATES, LAM, LIMIT = 8, 0.05, (1e-3, 10.0)
"""Draws of the biases; λ of the runs; the range in which the largest ‖μ‖ is looked for."""


def measure_bias(found: dict[str, Any]) -> None:
    """Find where a bias lets the agents settle, and confirm some of it by runs."""
    points, limits, runs = [], [], []
    for data, (alpha, *_) in DATA.items():
        for agents in CROWDS:
            problem = gs.problems.logistic(data, agents=agents, alpha=alpha)
            slope = np.asarray(problem.mean_gradient(problem.start), float)
            optimum = gs.problems.settling_point(problem)
            for direction, common, own in itertools.product(DIRECTIONS, COMMON, OWN):
                if (common or own) and (common or direction == "random") and (own or agents == CROWDS[1]):
                    points.append(settle(problem, data, slope, optimum, direction, common, own))
            if agents == CROWDS[1]:
                limits += [
                    {
                        "data": data,
                        "direction": one,
                        "size": largest(problem, slope, optimum, one),
                        "slope": norm(slope),
                    }
                    for one in DIRECTIONS
                ]
                cases = (("random", 0.01, 0.0), ("along", 0.01, 0.0), ("random", 0.0, 0.1), ("against", 0.01, 0.1))
                runs += [confirm(problem, data, slope, *case) for case in cases]
            print(f"{data}, {agents} agents", flush=True)
    found["bias"] = {"points": points, "limits": limits, "runs": runs}


def norm(vector: np.ndarray) -> float:
    return float(np.linalg.norm(vector))


def toward(direction: str, slope: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the unit vector along the gradient at the start, against it, or a random one."""
    vector = {"along": slope, "against": -slope}.get(direction)
    vector = rng.standard_normal(slope.size) if vector is None else vector
    return vector / norm(vector)


def settle(problem: Any, data: str, slope: np.ndarray, optimum: np.ndarray, direction: str, common: float, own: float):
    """Return ‖∇F‖² where Biased-DMT settles, over draws of the biases, and how often there is such a point."""
    floors, losses, count = [], [], REPLICATES if own or direction == "random" else 1
    best, rounded = float(problem.mean_loss(optimum)), (round(1e6 * common), round(1e6 * own))
    for seed in range(count):
        rng = np.random.default_rng([seed, problem.agents, DIRECTIONS.index(direction), *rounded])
        mu = common * toward(direction, slope, rng)
        errors = mu + own / math.sqrt(problem.dim) * rng.standard_normal((problem.agents, problem.dim))
        try:
            x = gs.problems.settling_point(problem, errors.mean(0), start=optimum)
        except gs.InputError:
            continue
        floors.append(norm(np.asarray(problem.mean_gradient(x), float)) ** 2)
        losses.append(float(problem.mean_loss(x)) - best)
    return {
        "data": data,
        "agents": problem.agents,
        "direction": direction,
        "common": common,
        "own": own,
        "predicted": common**2 + own**2 / problem.agents,
        "floors": [_short(one) for one in floors],
        "losses": [_short(one) for one in losses],
        "draws": count,
    }


def largest(problem: Any, slope: np.ndarray, optimum: np.ndarray, direction: str) -> float:
    """Return the largest ‖μ‖ in this direction up to which there is a point with ∇F = −μ, by bisection."""
    unit, (low, high) = toward(direction, slope, np.random.default_rng(0)), LIMIT
    while high / low > STEP:
        middle = math.sqrt(low * high)
        try:
            gs.problems.settling_point(problem, middle * unit, start=optimum)
            low = middle
        except gs.InputError:
            high = middle
    return _short(low) or 0.0


def confirm(problem: Any, data: str, slope: np.ndarray, direction: str, common: float, own: float) -> dict[str, Any]:
    """Run Biased-DMT on a ring with biases drawn once, and return the end of ‖∇F‖² beside ‖ē‖², seed by seed."""
    _, source, eta, steps = DATA[data]
    mu = common * toward(direction, slope, np.random.default_rng(0))
    oracle = source | gs.oracles.additive_bias(mean=mu, std=own / math.sqrt(problem.dim))
    rule, ring = gs.BiasedDMT(eta=eta, lam=LAM), gs.networks.ring(problem.agents)
    shared: dict[str, Any] = {"steps": steps, "every": steps // 200, "seeds": REPLICATES, "dtype": "float64"}
    result = gs.simulate(rule, problem, ring, oracle, progress=False, **shared)
    end = result.frame().filter(pl.col("round") > 0.9 * steps).group_by("seed").agg(pl.col("grad_norm_sq").mean())
    ends = end.sort("seed")["grad_norm_sq"].to_list()
    size = (np.asarray(result.mean_bias, float) ** 2).sum(1)
    return {
        "data": data,
        "direction": direction,
        "common": common,
        "own": own,
        "predicted": common**2 + own**2 / problem.agents,
        "floors": [_short(one) for one in ends],
        "squares": [_short(float(one)) for one in size],
    }


def verdict(found: dict[str, Any], cell: dict[str, Any], unit: str, target: bool, methods: Iterable[str]) -> dict:
    """Return, by method, the error at the horizon of a unit, or the price of the target in it; infinite if missed."""
    costs = {}
    for name in methods:
        method = (METHODS | WARM)[name]
        value = cell["target" if target else unit][name][0]
        if not target:
            costs[name] = math.inf if value is None else max(value, EXACT)
            continue
        before = gossips(method, found["graphs"][cell["graph"]]["gossips"])
        paid = math.inf if value is None else price(method, unit, before, value)
        costs[name] = paid if paid <= HORIZON * (2 if unit == "bytes" else 1) else math.inf
    return costs


def winners(costs: dict[str, float]) -> list[str]:
    """Return the methods that tie for the least cost; none where all miss."""
    least = min(costs.values())
    return [name for name, cost in costs.items() if math.isfinite(least) and cost <= MARGIN * least]


def advantage(costs: dict[str, float]) -> float:
    """Return how many times the cost of the best Biased-DMT the best of the others has."""
    ours, others = (
        min(cost for name, cost in costs.items() if name.startswith("Biased") is mine) for mine in (True, False)
    )
    return others / ours if math.isfinite(ours) else 0.0 if math.isfinite(others) else math.nan


def side(costs: dict[str, float]) -> str:
    """Return who is ahead by more than the margin: "ours", "others", "tie", or "none" where nobody arrives."""
    won = {name.startswith("Biased") for name in winners(costs)}
    return {frozenset(): "none", frozenset({True}): "ours", frozenset({False}): "others"}.get(frozenset(won), "tie")


SHORT = {"ring, 4 neighbours": "ring, 4", "complete": "all"}
"""Names of graphs that are too long below a cell."""


def drawn_diagram(found: dict[str, Any], unit: str, target: bool) -> Figure:
    """Draw who wins over ρ and ζ², a panel for each bias and noise; ties are striped."""
    biases = BIASES[:1] if target else BIASES
    noises = [noise for noise in NOISES if not target or noise < 10]
    figure = Figure(figsize=(1.15 + 1.95 * len(noises), 1.1 + 1.75 * len(biases)), layout="constrained", dpi=200)
    panels: Any = figure.subplots(len(biases), len(noises), sharex=True, sharey=True, squeeze=False)
    names = list(found["graphs"])
    labels = [f"{facts['gap']:.2g}\n{SHORT.get(one, one)}" for one, facts in found["graphs"].items()]
    for (row, bias), (column, noise) in itertools.product(enumerate(biases), enumerate(noises)):
        panel = panels[row, column]
        for cell in found["cells"]:
            if (cell["bias"], cell["noise"]) != (bias, noise):
                continue
            x, y = names.index(cell["graph"]), ZETAS.index(cell["zeta"])
            costs = verdict(found, cell, unit, target, METHODS)
            won = winners(costs)
            for k, name in enumerate(won):
                panel.add_patch(Rectangle((x + k / len(won), y), 1 / len(won), 1, **_filling(METHODS[name])))
            panel.add_patch(Rectangle((x, y), 1, 1, fill=False, edgecolor="white", linewidth=1.2))
            if won:
                text = {"size": 5.5, "ha": "center", "va": "center", "color": "black"}
                box = {"boxstyle": "round,pad=0.12", "facecolor": "white", "alpha": 0.8, "linewidth": 0}
                panel.text(x + 0.5, y + 0.5, _times(advantage(costs)), bbox=box, **text)
        panel.set(xlim=(0, len(names)), ylim=(0, len(ZETAS)))
        panel.set_xticks(np.arange(len(names)) + 0.5, labels, size=6)
        panel.set_yticks(np.arange(len(ZETAS)) + 0.5, [f"{zeta:g}" for zeta in ZETAS], size=7)
        panel.tick_params(length=0)
        panel.spines[:].set_visible(False)
        if row == 0:
            panel.set_title(rf"noise $\sigma^2 = {noise:g}$", size=8)
        if column == 0:
            panel.set_ylabel(rf"bias $\sigma_f^2 = {bias:g}$" + "\n" + r"heterogeneity $\zeta^2$", size=8)
        if row == len(biases) - 1:
            panel.set_xlabel(r"spectral gap $\rho$", size=8)
    handles = [Patch(**_filling(method), label=name) for name, method in METHODS.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False, fontsize=8)
    return figure


def _filling(method: Method) -> dict[str, Any]:
    """Return the filling of a method's boxes; a warm start is hatched in the method's colour."""
    return {"facecolor": method.color, "edgecolor": "white", "linewidth": 0, "hatch": "///" if method.warm else None}


def _times(ratio: float) -> str:
    """Return a ratio in at most four characters."""
    if not math.isfinite(ratio):
        return "∞"
    if ratio >= 1000:
        return f"10{str(int(math.log10(ratio))).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
    return f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}"


def picked(found: dict[str, Any], **wanted: Any) -> list[dict[str, Any]]:
    return [cell for cell in found["cells"] if all(cell[key] == value for key, value in wanted.items())]


def profile_of(found: dict[str, Any], method: str, graph: str, noise: float, zeta: float) -> dict[str, Any]:
    return next(
        one
        for one in found["profiles"]
        if (one["method"], one["graph"], one["noise"], one["zeta"]) == (method, graph, noise, zeta)
    )


LINES = {
    "Biased-DMT": method_style("biased-dmt"),
    "Biased-DMT, adapt then combine": method_style("biased-dmt-atc"),
    "DSGDm": method_style("dsgdm"),
}
SHOWN_ZETA, PROFILED = 1.0, (0.0, 1.0, 100.0)
"""ζ² of the figure and of the table of momentum."""


def drawn_momentum(found: dict[str, Any]) -> Figure:
    """Draw the error at the horizon against λ, with η tuned for each, as a multiple of the least of Biased-DMT."""
    noises, names = NOISES[1:], [name for name in found["graphs"] if name not in SHORT or name == "complete"]
    figure = Figure(figsize=(9, 1.6 * len(names) + 0.6), layout="constrained", dpi=200)
    panels: Any = figure.subplots(len(names), len(noises), sharex=True, sharey="col")
    for (row, graph), (column, noise) in itertools.product(enumerate(names), enumerate(noises)):
        panel = panels[row, column]
        (cell,) = picked(found, graph=graph, noise=noise, zeta=SHOWN_ZETA, bias=0.0)
        unit = cell["rounds"]["Biased-DMT"][0]
        for name, look in LINES.items():
            one = profile_of(found, name, graph, noise, SHOWN_ZETA)
            errors = np.array([math.nan if error is None else error for error in one["error"]]) / unit
            panel.plot(one["lam"], errors, look.line, color=look.color, linewidth=1.3, label=name)
        panel.axhline(cell["rounds"]["GT-DSGD"][0] / unit, color=color_of("gt-dsgd"), linewidth=0.8, label="GT-DSGD")
        panel.set(xscale="log", yscale="log", ylim=(0.93, 8))
        panel.set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"], size=7)
        panel.set_yticks([], minor=True)
        panel.tick_params(axis="x", labelsize=7)
        panel.grid(alpha=0.25, linewidth=0.5)
        if row == 0:
            panel.set_title(rf"noise $\sigma^2 = {noise:g}$", size=8)
        if row == len(names) - 1:
            panel.set_xlabel(r"$\lambda$, or $1 - \beta$", size=8)
        if column == 0:
            panel.set_ylabel(rf"{graph.split(',')[0]}, $\rho = {found['graphs'][graph]['gap']:.2g}$", size=8)
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False, fontsize=8
    )
    return figure


def drawn_bias(found: dict[str, Any]) -> Figure:
    """Draw the floor against the number of agents, and the largest common error that still has a floor."""
    figure = Figure(figsize=(10, 3.2), layout="constrained", dpi=200)
    panels: Any = figure.subplots(1, len(DATA) + 1)
    for panel, data in zip(panels, DATA, strict=False):
        for number, (common, own) in enumerate(((0.0, 0.03), (0.0, 0.1), (0.01, 0.1), (0.03, 0.1))):
            color = COLORS[number]
            finer = np.geomspace(CROWDS[0], CROWDS[-1], 50)
            label = rf"$\|\mu\| = {common:g}$, $\sqrt{{d}}\,\sigma_e = {own:g}$"
            panel.plot(finer, common**2 + own**2 / finer, color=color, linewidth=1, label=label)
            for one in found["bias"]["points"]:
                if (one["data"], one["direction"], one["common"], one["own"]) == (data, "random", common, own):
                    if len(one["floors"]) < 2:
                        continue
                    mean, half = interval(np.array(one["floors"]))
                    full = "full" if len(one["floors"]) == one["draws"] else "none"
                    panel.errorbar(
                        one["agents"], mean, half, fmt="o", color=color, capsize=2, markersize=4, fillstyle=full
                    )
        panel.set(xscale="log", yscale="log", xlabel="agents $n$", title=data)
        panel.set_xticks(CROWDS, [str(n) for n in CROWDS])
        panel.set_xticks([], minor=True)
        panel.grid(alpha=0.25, linewidth=0.5)
    panels[0].set_ylabel(r"floor of $\|\nabla F\|^2$")
    panels[1].legend(fontsize=6.5, frameon=False)
    width = 0.8 / len(DATA)
    for k, data in enumerate(DATA):
        limits = [one["size"] for one in found["bias"]["limits"] if one["data"] == data]
        panels[-1].bar(np.arange(len(limits)) + k * width, limits, width, color=COLORS[4 + k], label=data)
    panels[-1].set_xticks(np.arange(len(DIRECTIONS)) + width / 2, DIRECTIONS)
    panels[-1].set(yscale="log", ylabel=r"largest $\|\mu\|$ with a floor", xlabel=r"direction of $\mu$")
    panels[-1].legend(fontsize=7, frameon=False)
    panels[-1].grid(axis="y", alpha=0.25, linewidth=0.5)
    return figure


def tally(found: dict[str, Any], target: bool) -> str:
    """Return the table of who is ahead, by noise and unit; at the target with the advantages."""
    rows = []
    for noise in NOISES:
        cells = [cell for cell in picked(found, noise=noise) if not (target and cell["bias"])]
        row: list[Any] = [f"{noise:g}"]
        for unit in UNITS:
            sides = [side(verdict(found, cell, unit, target, METHODS)) for cell in cells]
            row.append(" / ".join(str(sides.count(one)) for one in ("ours", "tie", "others")))
            if target and len(values := gains(found, unit, True, noise=noise, bias=0.0)):
                row[-1] += f"; {spread(values)}"
        if not target or len(gains(found, "rounds", True, noise=noise, bias=0.0)):
            rows.append(tuple(row))
    return table(["σ²", *UNITS], rows)


def gains(found: dict[str, Any], unit: str, target: bool = False, **wanted: Any) -> np.ndarray:
    """Return the advantages of Biased-DMT in some cells, smallest first; cells that nobody reaches are left out."""
    ratios = [advantage(verdict(found, cell, unit, target, METHODS)) for cell in picked(found, **wanted)]
    return np.sort([ratio for ratio in ratios if not math.isnan(ratio)])


def spread(values: np.ndarray) -> str:
    return f"{_times(float(np.median(values)))} ({_times(float(values[0]))} to {_times(float(values[-1]))})"


def warm_table(found: dict[str, Any]) -> str:
    """Return the table of what the warm start changes, by graph."""
    rows = []
    for graph, facts in found["graphs"].items():
        row: list[Any] = [graph, facts["gossips"]]
        for target in (False, True):
            pairs = [verdict(found, cell, "rounds", target, OURS) for cell in picked(found, graph=graph, bias=0.0)]
            ratios = [pair[OURS[0]] / pair[OURS[1]] for pair in pairs if math.isfinite(min(pair.values()))]
            better, worse = (sum(r > MARGIN for r in ratios), sum(r < 1 / MARGIN for r in ratios))
            row.append(f"{better} / {len(ratios) - better - worse} / {worse}")
        rows.append(tuple(row))
    return table(["graph", "gossips", "error", "target"], rows)


def count_sides(found: dict[str, Any], unit: str, methods: Iterable[str], **wanted: Any) -> dict[str, int]:
    sides = [side(verdict(found, cell, unit, False, methods)) for cell in picked(found, **wanted)]
    return {one: sides.count(one) for one in ("ours", "tie", "others")}


def lambdas(found: dict[str, Any], noisy: bool) -> np.ndarray:
    """Return the λ of the better start of Biased-DMT where it is ahead in rounds, smallest first."""
    kept = []
    for cell in found["cells"]:
        costs = verdict(found, cell, "rounds", False, METHODS)
        if (cell["noise"] > 0) is noisy and side(costs) == "ours":
            kept.append(STEP ** cell["rounds"][min(OURS, key=lambda name: costs[name])][2])
    return np.sort(kept)


def d_psgd_limit(found: dict[str, Any], noise: float, unit: str) -> str:
    """Return up to which ζ² D-PSGD is among the best on every graph, without bias."""

    def holds(zeta: float) -> bool:
        cells = picked(found, noise=noise, zeta=zeta, bias=0.0)
        return all("D-PSGD" in winners(verdict(found, cell, unit, False, METHODS)) for cell in cells)

    held = list(itertools.takewhile(holds, ZETAS))
    return f"{held[-1]:g}" if held else "none"


def over_ours(found: dict[str, Any], name: str, **wanted: Any) -> np.ndarray:
    """Return how many times the error of the better Biased-DMT a method has in some cells, smallest first."""
    costs = [verdict(found, cell, "rounds", False, METHODS) for cell in picked(found, **wanted)]
    return np.sort([cost[name] / min(cost[ours] for ours in OURS) for cost in costs])


def momentum_rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the best λ, and the errors of other methods over its error, in cells with noise and without bias."""
    rows = []
    graphs: list[str] = list(found["graphs"])
    for noise, graph, zeta in itertools.product(NOISES[1:], graphs, PROFILED):
        (cell,) = picked(found, graph=graph, noise=noise, zeta=zeta, bias=0.0)
        error, _, exponent = cell["rounds"]["Biased-DMT"]
        row = {"noise": noise, "zeta": zeta, "lam": STEP**exponent}
        row |= {name: cell["rounds"][name][0] / error for name in ("GNSD", "GT-DSGD")}
        for name in CONTROLS:
            errors = profile_of(found, name, graph, noise, zeta)["error"]
            row[name] = min(value for value in errors if value is not None) / error
        rows.append(row)
    return rows


def momentum_table(rows: list[dict[str, Any]]) -> str:
    columns, shown = ("GNSD", "GT-DSGD", *CONTROLS), []
    for noise in NOISES[1:]:
        own = [row for row in rows if (row["noise"], row["zeta"]) == (noise, SHOWN_ZETA)]
        lams = dict.fromkeys(f"{lam:.2g}" for lam in (min(r["lam"] for r in own), max(r["lam"] for r in own)))
        spreads = [spread(np.sort([row[name] for row in own])) for name in columns]
        shown.append((f"{noise:g}", " to ".join(lams), *spreads))
    return table(["σ²", "best λ", "GNSD, λ = 1", *columns[1:]], shown)


def limits_table(found: dict[str, Any]) -> str:
    sizes = {(one["data"], one["direction"]): one for one in found["bias"]["limits"]}
    rows = [
        (data, f"{sizes[data, 'along']['slope']:.3g}", *(f"{sizes[data, one]['size']:.2g}" for one in DIRECTIONS))
        for data in DATA
    ]
    return table(["", "‖∇F‖ at the start", *DIRECTIONS], rows)


def runs_in_words(found: dict[str, Any]) -> str:
    """Return the ends of the runs over ‖ē‖², by data, as their range over the errors that were tried."""
    ends: dict[str, list[float]] = {}
    for one in found["bias"]["runs"]:
        ends.setdefault(one["data"], []).append(float(np.mean(np.array(one["floors"]) / np.array(one["squares"]))))
    return ", ".join(f"{min(values):.2f} to {max(values):.2f} on {data}" for data, values in ends.items())


def holds_prediction(one: dict[str, Any]) -> bool:
    mean, half = interval(np.array(one["floors"]))
    return abs(mean - one["predicted"]) <= half


def in_short(found: dict[str, Any]) -> str:
    """Return the findings in a few lines, whichever way they are."""
    rounds, sent = (count_sides(found, unit, METHODS, bias=0.0) for unit in ("rounds", "bytes"))
    most = count_sides(found, "rounds", METHODS, bias=BIASES[-1])
    noisy = {noise: gains(found, "rounds", noise=noise, bias=0.0) for noise in NOISES[1:]}
    leads = ", ".join(f"{np.median(values):.2f} at σ² = {noise:g}" for noise, values in noisy.items())
    return (
        f"- **By rounds, without bias**, Biased-DMT is ahead in {rounds['ours']} of {sum(rounds.values())} cells, ties "
        f"in {rounds['tie']} and is behind in {rounds['others']}.\n"
        f"- **By bytes** it is ahead in {sent['ours']}, ties in {sent['tie']} and is behind in {sent['others']}. "
        "D-PSGD, which sends half as much, is best where agents are alike or noise dominates.\n"
        f"- **Its lead shrinks as noise grows.** The median error of the best other method over its error is {leads}.\n"
        f"- **With a bias** of σ_f² = {BIASES[-1]:g} it is ahead in {most['ours']}, ties in {most['tie']} and is "
        f"behind in {most['others']} of {sum(most.values())} cells.\n"
    )


def page(found: dict[str, Any]) -> str:
    rows, every = momentum_rows(found), found["cells"]
    quiet, noisy = lambdas(found, False), lambdas(found, True)
    start = [count_sides(found, "rounds", methods) for methods in (METHODS, METHODS | WARM)]
    ties = [count_sides(found, "rounds", METHODS, bias=bias) for bias in (BIASES[0], BIASES[-1])]
    sure = [one for one in found["bias"]["points"] if len(one["floors"]) == one["draws"] > 1 and one["own"]]
    reached = [noise for noise in NOISES if len(gains(found, "rounds", True, noise=noise, bias=0.0))]
    apart = {
        zeta: "; ".join(f"{name} {spread(np.sort([r[name] for r in rows if r['zeta'] == zeta]))}" for name in CONTROLS)
        for zeta in (PROFILED[0], PROFILED[-1])
    }
    return (
        (HERE / "templates" / "who-wins.txt")
        .read_text(encoding="utf-8")
        .format(
            short=in_short(found),
            agents=AGENTS,
            dim=DIM,
            flattest=f"{1 / CONDITION:g}",
            low=SPREAD[0],
            high=SPREAD[1],
            step=STEP,
            eta_low=f"{STEP ** ETAS[0]:.2g}",
            eta_high=f"{STEP ** ETAS[-1]:.2g}",
            lam_low=f"{STEP ** LAMBDAS[-1]:.2g}",
            settings=f"{found['tuning']['settings']:,}",
            slack_noise=f"{found['tuning']['slack']['with noise'] - 1:.1%}",
            slack_none=f"{found['tuning']['slack']['without noise'] - 1:.1%}",
            margin=f"{MARGIN - 1:.0%}",
            graphs=table(
                ["graph", "ρ", "smallest eigenvalue of W", "gossips of the warm start"],
                [
                    (name, f"{g['gap']:.3g}", f"{round(g['least'], 2) + 0:g}", g["gossips"])
                    for name, g in found["graphs"].items()
                ],
            ),
            horizon=f"{HORIZON:,}",
            vectors=f"{2 * HORIZON:,}",
            exact=f"{EXACT:g}",
            each=len(picked(found, noise=0.0)),
            error_tally=tally(found, False),
            lam_quiet=f"{quiet[0]:.2g} and {quiet[-1]:.2g}",
            lam_noisy=f"{noisy[0]:.2g} and {noisy[-1]:.2g}",
            lam_one=int((quiet == 1).sum() + (noisy == 1).sum()),
            lam_cells=len(quiet) + len(noisy),
            ties_none=f"{ties[0]['tie'] / sum(ties[0].values()):.0%}",
            ties_most=f"{ties[1]['tie'] / sum(ties[1].values()):.0%}",
            most=f"{BIASES[-1]:g}",
            negative=f"{found['graphs']['torus']['least']:.2g}",
            torus=spread(over_ours(found, "GNSD", graph="torus", noise=1.0, bias=0.0)),
            complete=spread(over_ours(found, "GNSD", graph="complete", noise=1.0, bias=0.0)),
            start_before=start[0]["ours"],
            start_after=start[1]["ours"],
            start_behind=start[1]["others"],
            cells=len(every),
            d_psgd=table(
                ["σ²", "by rounds", "by bytes"],
                [(f"{noise:g}", *(d_psgd_limit(found, noise, unit) for unit in UNITS[:2])) for noise in NOISES],
            ),
            target=f"{TARGET:g}",
            target_tally=tally(found, True),
            unreached=f"{NOISES[len(reached)]:g}",
            warm=warm_table(found),
            zeta=f"{SHOWN_ZETA:g}",
            momentum=momentum_table(rows),
            noisy_cells=len(rows),
            profiled=", ".join(f"{zeta:g}" for zeta in PROFILED),
            ties_one=sum(row["GNSD"] <= MARGIN for row in rows),
            ties_gt=sum(row["GT-DSGD"] <= MARGIN for row in rows),
            controls_alike=apart[PROFILED[0]],
            most_zeta=f"{PROFILED[-1]:g}",
            controls_apart=apart[PROFILED[-1]],
            data=" and ".join(f"{data} (α = {alpha:g})" for data, (alpha, *_) in DATA.items()),
            draws=REPLICATES,
            limits=limits_table(found),
            sure=len(sure),
            held=sum(holds_prediction(one) for one in sure),
            ring=CROWDS[1],
            lam=f"{LAM:g}",
            data_runs=" and ".join(
                f"{steps:,} rounds with η = {eta:g} on {data}" for data, (_, _, eta, steps) in DATA.items()
            ),
            runs=runs_in_words(found),
        )
    )


def main() -> None:
    parts = {"diagram": measure_diagram, "momentum": measure_momentum, "bias": measure_bias}
    wanted = sys.argv[1:] or list(parts)
    ASSETS.mkdir(parents=True, exist_ok=True)
    found = json.loads(FOUND.read_text(encoding="utf-8")) if FOUND.exists() else {}
    for name, measure in parts.items():
        if name in wanted:
            measure(found)
            FOUND.write_text(json.dumps(found, separators=(",", ":")) + "\n", encoding="utf-8")
    for target, unit in itertools.product((False, True), UNITS[:2]):
        name = f"{'target' if target else 'error'}-{unit}.png"
        drawing.save(drawn_diagram(found, unit, target), ASSETS / name)
    drawing.save(drawn_momentum(found), ASSETS / "momentum.png")
    drawing.save(drawn_bias(found), ASSETS / "bias.png")
    (HERE / "who-wins.md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
