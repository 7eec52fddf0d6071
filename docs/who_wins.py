"""Measure who wins when, and write docs/who-wins.md: every number and figure on that page comes from here.

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

import networkx as nx
import numpy as np
from findings import table
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

import gossamer as gs
from gossamer.report import figures
from gossamer.report.styles import COLORS
from gossamer.results.statistics import interval

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
UNITS = ("rounds", "bytes", "messages")


class Method(NamedTuple):
    """A method of the diagram, and what a round of it costs."""

    family: str
    color: str
    vectors: int
    messages: int
    warm: bool = False


METHODS = {
    "D-PSGD": Method("d-psgd", COLORS[4], 1, 1),
    "GT-DSGD": Method("gt-dsgd", COLORS[2], 2, 2),
    "GNSD": Method("gnsd", COLORS[5], 2, 1),
    "Biased-DMT": Method("biased-dmt", COLORS[0], 2, 1),
    "Biased-DMT, warm": Method("biased-dmt", COLORS[1], 2, 1, warm=True),
}
OURS, OTHERS = ("Biased-DMT", "Biased-DMT, warm"), ("D-PSGD", "GT-DSGD", "GNSD")
FAMILIES: dict[str, tuple[Callable[[float, float], Any], Iterable[int]]] = {
    "d-psgd": (lambda eta, lam: gs.DPSGD(eta=eta), (0,)),
    "gt-dsgd": (lambda eta, lam: gs.GTDSGD(eta=eta), (0,)),
    "biased-dmt": (lambda eta, lam: gs.BiasedDMT(eta=eta, lam=lam), LAMBDAS[::COARSE]),
}
CONTROLS: dict[str, tuple[Callable[[float, float], Any], Iterable[int]]] = {
    "Biased-DMT, adapt then combine": (lambda eta, lam: gs.BiasedDMTATC(eta=eta, lam=lam), LAMBDAS[:: 2 * COARSE]),
    "DSGDm": (lambda eta, lam: gs.DSGDm(eta=eta * lam, beta=1 - lam), LAMBDAS[:: 2 * COARSE]),
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
        return mixed if len(mixed) > 1 else mixed[0]


class System:
    """The linear system of a rule on one coordinate: s⁰ = B x⁰ + C u⁰ and s⁺ = P s + Q u⁺, from unit vectors."""

    def __init__(self, rule: Any, W: np.ndarray, a: np.ndarray):
        n = len(W)
        self.eye, self.zero = np.eye(n), np.zeros((n, n))
        self.rule, self.W, self.a = rule, W, a
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

    def start(self, warm: int) -> tuple[np.ndarray, np.ndarray]:
        """Return B, all agents at one point, and C; `warm` gossips of V⁰ come before the first round."""
        made = []
        for x, u in ((np.ones((len(self.W), 1)), self.zero[:, :1]), (self.zero, self.eye)):
            s = self.rule.init(x, Agents(self.W, self.a, u))
            if warm:
                s = self.State(**{**s, "v": np.linalg.matrix_power(self.W, warm) @ s.v})
            made.append(self.flat(s))
        return made[0][:, 0], made[1]

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


def terms(rule: Any, W: np.ndarray, A: np.ndarray, steps: int, warms: Iterable[int] = (0,)) -> np.ndarray:
    r"""Return the four terms of $E\|\nabla F(\bar x^t)\|^2$, [starts, t, 4], exactly.

    The expectation is over the noise, a start with $E\|\nabla F(x^0)\|^2 = 1$, differences $h_i$ of the gradients at the
    optimum with mean 0 and $\frac1n \sum_i E\|h_i\|^2 = \zeta^2$, and a bias that all agents share with
    $E\|e\|^2 = \sigma_f^2$, all of them isotropic and of mean 0: it is term 0 + ζ² term 1 + σ_f² term 2 + σ² term 3.
    """
    d, n = A.shape
    found = np.zeros((len(list(warms)), steps + 1, 4))
    for a in A:
        system = System(rule, W, a)
        seen = system.seen(steps)
        answers = seen[:-1] @ system.Q
        constant = np.vstack([np.zeros(n), answers.cumsum(0)])
        noise = np.concatenate([[0.0], (answers**2).sum(1).cumsum()])
        for k, warm in enumerate(warms):
            B, C = system.start(warm)
            first = seen @ C
            whole = constant + first  # of a constant input of each agent
            found[k, :, 0] += (seen @ B / a.mean()) ** 2 / d
            found[k, :, 1] += whole.var(1) * n**2 / (n - 1) / d
            found[k, :, 2] += whole.sum(1) ** 2 / d
            found[k, :, 3] += (noise + (first**2).sum(1)) / d
    return found


def rounds_at(method: Method, unit: str, gossips: int) -> int:
    """Return the rounds that a method takes for the price of HORIZON rounds of Biased-DMT in this unit."""
    price = {"rounds": (HORIZON, 1), "bytes": (2 * HORIZON, method.vectors), "messages": (HORIZON, method.messages)}
    budget, each = price[unit]
    return (budget - gossips) // each


def price(method: Method, unit: str, gossips: int, rounds: float) -> float:
    """Return what so many rounds and the gossips before them cost in this unit: bytes are counted in vectors."""
    each = {"rounds": 1, "bytes": method.vectors, "messages": method.messages}[unit]
    return each * rounds + gossips


def values(rule: Any, W: np.ndarray, A: np.ndarray, starts: list[tuple[Method, int]]) -> np.ndarray:
    """Return, for each start and cell, the errors at the horizons and the first round at the target, [starts, 4, cells]."""
    found = []
    longest = max(rounds_at(method, unit, 0) for method, _ in starts for unit in UNITS)
    weights = np.array([(1, zeta, bias, noise) for bias, noise, zeta in CELLS]).T
    warms = [gossips if method.warm else 0 for method, gossips in starts]
    with np.errstate(all="ignore"):  # settings that diverge overflow
        errors = terms(rule, W, A, longest, warms) @ weights
    errors = np.where(np.isfinite(errors), errors, np.inf)
    for (method, gossips), curve in zip(starts, errors, strict=True):
        ends = [rounds_at(method, unit, gossips) for unit in UNITS]
        reached = curve <= TARGET
        first = np.where(reached.any(0), reached.argmax(0), np.inf)
        found.append(np.stack([*(curve[end] for end in ends), first]))
    return np.stack(found)


class Search:
    """The settings of a family that were tried on a graph: a coarse lattice, then finer around every optimum."""

    def __init__(self, family: tuple[Any, Iterable[int]], W: np.ndarray, A: np.ndarray, starts: Any):
        self.make, self.rows = family
        self.W, self.A, self.starts = W, A, starts
        self.tried: dict[tuple[int, int], np.ndarray] = {}
        for j in self.rows:
            worse = 0
            for i in ETAS[::COARSE]:
                self.try_one(i, j)
                worse = worse + 1 if not self.tried[i, j][0, 0].min() < 1 else 0
                if worse == 3:  # all larger steps diverge too
                    break
        for stride in (2, 1):
            while self.try_all({(i + s, j) for row in self.rows for i, j in self.optima([row]) for s in (-stride, stride)}):
                pass
        for stride in (2, 1) if len(list(self.rows)) > 1 else ():
            near = [(s * stride, r * stride) for s in (-2, -1, 0, 1, 2) for r in (-1, 0, 1)]
            while self.try_all({(i + s, j + r) for s, r in near for i, j in self.optima(None)}):
                pass

    def try_one(self, i: int, j: int) -> None:
        rule = self.make(STEP**i, STEP**j)
        self.tried[i, j] = values(rule, self.W, self.A, self.starts)

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
        starts = {"d-psgd": [(METHODS["D-PSGD"], 0)], "gt-dsgd": [(METHODS["GT-DSGD"], 1)]}
        starts["biased-dmt"] = [(METHODS["Biased-DMT"], 0), (METHODS["Biased-DMT, warm"], k)]
        searches = {name: Search(FAMILIES[name], W, A, starts[name]) for name in FAMILIES}
        tried += sum(len(search.tried) for search in searches.values())
        kept = {}
        for name, method in METHODS.items():
            search = searches["biased-dmt" if method.family == "gnsd" else method.family]
            least, where = search.best([0] if method.family == "gnsd" else None)
            kept[name] = (least[int(method.warm)], where[int(method.warm)])
        for search in searches.values():
            (fine, _), halved = search.best(), search.halved()
            for c, (_, noise, _) in enumerate(CELLS):
                pair = np.maximum(fine[:, 0, c], EXACT), np.maximum(halved[:, 0, c], EXACT)
                key = "with noise" if noise else "without noise"
                slack[key] = max(slack[key], float((pair[1] / pair[0]).max()))
        for c, (bias, noise, zeta) in enumerate(CELLS):
            one: dict[str, Any] = {"graph": graph, "zeta": zeta, "bias": bias, "noise": noise}
            for q, quantity in enumerate((*UNITS, "target")):
                one[quantity] = {
                    name: [_short(v[q, c]), _short(STEP ** int(w[q, c, 0])), _short(STEP ** int(w[q, c, 1]))]
                    for name, (v, w) in kept.items()
                }
            cells.append(one)
        profiles += profile(graph, searches["biased-dmt"], ("Biased-DMT", "Biased-DMT, warm"))
        found["graphs"] = found.get("graphs", {}) | {
            graph: {"gap": gap, "gossips": k, "least": float(np.linalg.eigvalsh(W)[0])}
        }
        print(f"{graph}: {time.perf_counter() - began:.0f} s, {tried} settings", flush=True)
    found["problem"] = {"curvatures": A.tolist(), "agents": AGENTS, "dim": DIM}
    found["tuning"] = {"settings": tried, "slack": slack, "seconds": time.perf_counter() - began}
    found["cells"], found["profiles"] = cells, profiles


def profile(graph: str, search: Search, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the error at the horizon for each λ, with η tuned for it, where there is noise and no bias."""
    rows = {j: search.best([j]) for j in search.rows}
    return [
        {
            "graph": graph,
            "method": name,
            "zeta": zeta,
            "noise": noise,
            "lam": [_short(STEP**j) for j in rows],
            "error": [_short(least[k, 0, c]) for least, _ in rows.values()],
            "eta": [_short(STEP ** int(where[k, 0, c, 0])) for _, where in rows.values()],
        }
        for k, name in enumerate(names)
        for c, (bias, noise, zeta) in enumerate(CELLS)
        if bias == 0 and noise > 0
    ]


def measure_momentum(found: dict[str, Any]) -> None:
    """Add the profiles of the controls to those of Biased-DMT."""
    A, began = curvatures(), time.perf_counter()
    ours = [one for one in found["profiles"] if one["method"] in OURS]
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
