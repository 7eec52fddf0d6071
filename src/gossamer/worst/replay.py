r"""The worst case as a run: real losses, a real oracle and a real network, for the simulator.

A solution's Gram matrices become vectors, and each agent's points $x_j$, gradients $g_j$ and values $f_j$ become the
largest loss of the class that has them. With $M = L - \mu$, $h_j = f_j - \frac\mu2 \|x_j\|^2$ and
$k_j = g_j - \mu x_j$ that is

$$ f(x) = \frac\mu2 \|x\|^2 + \min_{\theta \in \Delta} \Big( \sum_j \theta_j \big(h_j - \tfrac{1}{2M} \|k_j\|^2\big)
   + \frac M2 \Big\| x - \sum_j \theta_j \big(x_j - \tfrac1M k_j\big) \Big\|^2 \Big) , $$

which is L-smooth with curvature at least μ whatever the data are. For subgradients of at most G it is the least convex
one, $\max_j f_j + \langle g_j, x - x_j \rangle$. So the run is one of the class for certain, and what is measured is a
lower bound of the worst case, but for the bounds that the replay states as violated.

Reference: D. Azagra and C. Mudarra, "An extension theorem for convex functions of class C^{1,1} on Hilbert spaces",
2017, arXiv 1603.00241.
"""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gossamer import networks, oracles
from gossamer.basics.pytrees import pytree
from gossamer.compressors.compressor import Compressor, Errors
from gossamer.core import parts
from gossamer.engines.simulator import simulate
from gossamer.networks import Network
from gossamer.oracles import Oracle
from gossamer.oracles.oracle import Site, Stage
from gossamer.problems import Problem
from gossamer.worst.spaces import Eigenvalues, Given, Vectors

if TYPE_CHECKING:
    from gossamer.worst.exact import Worst

DESCENT = 2_000
"""Steps of descent from each point in search of inf F."""

MOST = 2_000
"""Steps of the method that evaluates a loss."""

NEAR = 1e-7
"""The difference below which pieces of a loss that is not smooth are equal."""


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class Interpolating(Problem):
    """Losses of a class that take given gradients and values at given points."""

    x: Float[Any, "agents points d"]
    g: Float[Any, "agents points d"]
    f: Float[Any, "agents points"]
    L: Any
    mu: Any
    start: Float[Any, " d"]
    smooth: bool = field(metadata={"static": True})

    def __repr__(self) -> str:
        return f"Interpolating({self.agents} agents, {self.x.shape[1]} points each, d = {self.dim})"

    @property
    def agents(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.x.shape[0]

    @property
    def dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.x.shape[2]

    @property
    def local_smoothness(self) -> np.ndarray | None:
        return np.full(self.agents, float(self.L)) if self.smooth else None

    def local_loss(self, agent: Array, x: Array) -> Array:
        return self._evaluate(agent, x)[0]

    def local_gradient(self, agent: Array, x: Array) -> Array:
        return self._evaluate(agent, x)[1]

    def mean_loss(self, x: Array) -> Array:
        return self.mean_loss_and_gradient(x)[0]

    def mean_gradient(self, x: Array) -> Array:
        return self.mean_loss_and_gradient(x)[1]

    def mean_loss_and_gradient(self, x: Array) -> tuple[Array, Array]:
        losses, gradients = jax.vmap(self._evaluate, (0, None))(jnp.arange(self.agents), x)
        return losses.mean(), gradients.mean(0)

    def _evaluate(self, agent: Array, x: Array) -> tuple[Array, Array]:
        X, G, f = self.x[agent], self.g[agent], self.f[agent]
        if not self.smooth:
            return _evaluate_kinked(X, G, f, x)
        M, k = self.L - self.mu, G - self.mu * X
        apart = X - k / M - x
        b = f - self.mu / 2 * (X**2).sum(1) - (k**2).sum(1) / (2 * M)
        weights = _least_on_simplex(M * apart @ apart.T, b)
        away = weights @ apart
        loss = b @ weights + M / 2 * away @ away + self.mu / 2 * x @ x
        return loss, -M * away + self.mu * x


def _evaluate_kinked(X: Array, G: Array, f: Array, x: Array) -> tuple[Array, Array]:
    """Return max_j f_j + ⟨g_j, x − x_j⟩, and of the pieces that attain it the gradient of the nearest point's."""
    values = f + ((x - X) * G).sum(1)
    distances = jnp.where(values >= values.max() - NEAR * (1 + jnp.abs(values).max()), ((X - x) ** 2).sum(1), jnp.inf)
    return values.max(), G[distances.argmin()]


def _least_on_simplex(P: Float[Array, "m m"], b: Float[Array, " m"]) -> Float[Array, " m"]:
    """Return the θ ≥ 0 of sum 1 with the least ½ θᵀPθ + bᵀθ, by an accelerated projected gradient method.

    It begins at the best vertex, which at the points of the data is the solution.
    """
    m = len(b)
    step = 1 / jnp.maximum(jnp.abs(P).sum(1).max(), 1e-300)
    scale = 1e-15 * (jnp.abs(b - b.min()).max() + jnp.abs(jnp.diag(P)).max())

    def gap(theta: Array) -> Array:
        g = P @ theta + b
        return g @ theta - g.min()

    def advance(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        theta, ahead, momentum, k = carry
        fresh = _project(ahead - step * (P @ ahead + b))
        again = jnp.where((ahead - fresh) @ (fresh - theta) > 0, 1.0, momentum)  # restarts where it overshoots
        more = (1 + jnp.sqrt(1 + 4 * again**2)) / 2
        return fresh, fresh + (again - 1) / more * (fresh - theta), more, k + 1

    first = jax.nn.one_hot((b + jnp.diag(P) / 2).argmin(), m, dtype=b.dtype)
    return jax.lax.while_loop(
        lambda carry: (gap(carry[0]) > scale) & (carry[3] < MOST),
        advance,
        (first, first, jnp.ones((), b.dtype), jnp.int32(0)),
    )[0]


def _project(a: Float[Array, " m"]) -> Float[Array, " m"]:
    """Return the nearest point of the simplex."""
    ordered = jnp.sort(a)[::-1]
    excess = (jnp.cumsum(ordered) - 1) / jnp.arange(1, len(a) + 1)
    kept = (ordered > excess).sum() - 1
    return jnp.maximum(a - excess[kept], 0)


@pytree
@dataclass(frozen=True)
class Adversary(Stage):
    """A stage that adds the worst bias of each query in turn, or as much of it as the bounds allow."""

    e: Float[Any, "queries agents d"]
    relative: Any
    """M_f."""
    absolute: Any
    """σ_f²."""
    inner: Oracle | None = None

    def init(self, site: Site) -> Any:
        return {"inner": self.source.init(site), "asked": jnp.int32(0)}

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        gradients, inner = self.source.query(site, state["inner"], points)
        numbers = state["asked"] + jnp.arange(len(points), dtype=jnp.int32)
        added = self.e[jnp.minimum(numbers, len(self.e) - 1), site.agent]
        told = tuple(g + self._shorten(e, g) for g, e in zip(gradients, added, strict=True))
        return told, {"inner": inner, "asked": state["asked"] + len(points)}

    def _shorten(self, e: Array, g: Array) -> Array:
        most = self.relative * g @ g + self.absolute
        return e * jnp.sqrt(jnp.minimum(1.0, most / jnp.maximum(e @ e, 1e-300)))


@pytree
@dataclass(frozen=True)
class WorstCompressor(Compressor):
    """A compressor that answers each message of the worst case as it was answered there, and leaves others alone."""

    name = "worst_case"
    given: Float[Any, "messages d"]
    made: Float[Any, "messages d"]
    left: float = field(metadata={"static": True})

    @property
    def unbiased(self) -> bool:
        return False

    def compress(self, key: Any, a: Array) -> Array:
        distances = ((self.given - a) ** 2).sum(1)
        at = distances.argmin()
        return jnp.where(distances[at] < NEAR**2 * (1 + a @ a), self.made[at], a)

    def bits(self, dim: int, itemsize: int) -> float:
        return 8.0 * itemsize * dim

    def errors(self, dim: int) -> Errors:
        return Errors(self.left)


@dataclass(frozen=True, repr=False)
class WorstRun:
    """A worst case that was run in the simulator. Its parts are at hand: `simulate(rule, problem, network, oracle)`."""

    value: float
    """The metric, measured."""
    violation: float
    """The largest amount by which a bound of the case fails; negative where all are kept."""
    violated: str
    """The bound that this is of."""
    rule: Any
    problem: Interpolating
    network: Network
    oracle: Oracle

    @property
    def agents(self) -> int:
        return self.problem.agents

    @property
    def dim(self) -> int:
        return self.problem.dim

    def __repr__(self) -> str:
        return f"WorstRun({self.value:.10g}, violation {self.violation:.1e} of {self.violated})"


class Embedding:
    """Real vectors with the Gram matrices of a worst case, and the network whose agents they are of."""

    def __init__(self, worst: "Worst"):
        space = worst.case.space
        roots = []
        for S in worst.solution.grams:
            w, Q = np.linalg.eigh((S + S.conj().T) / 2)
            kept = w > 1e-15 * max(w.max(initial=0), 1e-300)
            roots.append((Q[:, kept] * np.sqrt(w[kept])).conj())
        self.roots, self.parts = roots, []
        if isinstance(space, Given):
            self.network = space.network
            return
        assert isinstance(space, Eigenvalues)
        self.network = worst.network or two_agents(float(space.values[1, 0].real))
        n = self.network.agents
        W = self.network.matrix().toarray() if n > 1 else np.ones((1, 1))  # pyright: ignore[reportAttributeAccessIssue]
        for value in space.values[:, 0]:  # each eigenspace by its projector, which all agents see alike
            self.parts.append(_eigenvectors(W - 1 / n, value, n) if self.parts else np.ones((n, 1)))

    def __call__(self, a: Vectors) -> Float[np.ndarray, "agents d"]:
        """Return the agents' vectors."""
        c = a.wide
        if not self.parts:
            return c @ self.roots[0]
        n, rows = self.network.agents, []
        for part, row, root in zip(self.parts, c, self.roots, strict=True):
            block = np.einsum("nl,r->nlr", part, row @ root).reshape(n, -1)
            rows += [block.real, block.imag] if np.iscomplexobj(block) else [block]
        return np.concatenate(rows, 1)


def _eigenvectors(rest: np.ndarray, value: complex, n: int) -> np.ndarray:
    """Return an orthonormal basis of an eigenspace of a normal W − J, times √(n/dim), without the mean."""
    U, size, _ = np.linalg.svd(rest - value * np.eye(n))
    own = U[:, size < 1e-8]  # of a normal matrix the left null space is the right one
    own = own - own.mean(0)  # the mean's eigenvalue is 0 here
    basis, size, _ = np.linalg.svd(own, full_matrices=False)
    basis = basis[:, size > 1e-6]
    return basis * math.sqrt(n / basis.shape[1])


def two_agents(w: float) -> Network:
    """Return the network of two agents with this second eigenvalue."""
    return networks.from_matrix(
        np.array([[1 + w, 1 - w], [1 - w, 1 + w]]) / 2, name=f"two agents with eigenvalue {w:g}"
    )


def four_agents(low: float, high: float) -> Network:
    """Return the network of four equal agents whose W has the eigenvalues low, twice, high and 1."""
    row = np.array([(1 + high) / 2 + low, (1 - high) / 2, (1 + high) / 2 - low, (1 - high) / 2]) / 2
    return networks.from_matrix(
        np.array([np.roll(row, k) for k in range(4)]), name=f"four agents with {low:g} and {high:g}"
    )


def replay(worst: "Worst") -> WorstRun:
    """Run the rule of a worst case in the simulator, in float64, on losses and with biases that attain it.

    Where a solver's rounding broke a bound, all vectors are shortened until the real losses keep it: the values of all
    bounds and metrics are squares of them.
    """
    embed = Embedding(worst)
    problem, oracle, rule = build(worst, embed, 1.0)
    found = find_violations(worst, problem)
    over = [
        worst.bounds[name] / (worst.bounds[name] + by) for name, by in found.items() if by > 0 and name in worst.bounds
    ]
    if over and min(over) > 0:
        problem, oracle, rule = build(worst, embed, math.sqrt(min(over)) * (1 - 1e-15))
        found = find_violations(worst, problem)
    value = measure(worst, rule, problem, embed.network, oracle)
    violated = max(found, key=lambda name: found[name], default="nothing")
    return WorstRun(value, found.get(violated, 0.0), violated, rule, problem, embed.network, oracle)


def build(worst: "Worst", embed: Embedding, scale: float) -> tuple[Interpolating, Oracle, Any]:
    """Return the losses, the oracle and the rule of a worst case, with all vectors times `scale`."""
    case, functions, n = worst.case, worst.functions, embed.network.agents

    def stack(arrays: list[Vectors]) -> np.ndarray:
        return scale * np.stack([embed(a) for a in arrays])

    X, G = stack([p.x for p in case.points]), stack([p.g for p in case.points])
    F = scale**2 * np.array([np.broadcast_to(worst.solution.values[[*p.f]], n) for p in case.points])
    x, g, f = (np.ascontiguousarray(np.moveaxis(a, 1, 0)) for a in (X, G, F))
    smooth = math.isfinite(functions.L)
    L, mu = np.float64(functions.L if smooth else 1.0), np.float64(functions.mu)
    problem = Interpolating(x, g, f, L, mu, np.zeros(X.shape[2]), smooth)
    oracle, rule = oracles.exact(), worst.rule
    if case.answers:
        errors = {id(a.point): scale * embed(a.e) for a in case.answers}
        e = np.stack([errors.get(id(p), np.zeros(X.shape[1:])) for p in case.asked])
        oracle = oracle | Adversary(e, np.float64(case.bias.relative), np.float64(case.bias.absolute))
    if case.compressed:
        key = next(key for key, part in parts(rule).items() if isinstance(part, Compressor))
        given, made = (stack([*each]).reshape(-1, X.shape[2]) for each in list(zip(*case.compressed, strict=True))[:2])
        rule = dataclasses.replace(rule, **{key: WorstCompressor(given, made, case.compressed[0][2])})
    return problem, oracle, rule


def measure(worst: "Worst", rule: Any, problem: Interpolating, network: Network, oracle: Oracle) -> float:
    """Return the metric of a run in the simulator."""
    steps, metric = worst.steps, worst.metric

    def run(to: int) -> Any:
        return simulate(rule, problem, network, oracle, steps=to, every=1, dtype="float64", progress=False)

    def models(t: int) -> np.ndarray:
        if t == 0:
            return np.zeros((problem.agents, problem.dim))
        return next(iter(run(t).iterates.values())).reshape(problem.agents, problem.dim)

    if metric.endswith("gradient"):
        squares = run(steps).frame().sort("round")["grad_norm_sq"].to_numpy()
        return float({"mean": squares[:-1].mean(), "last": squares[-1], "least": squares.min()}[metric.split("_")[0]])
    best = np.asarray(problem.x)[0, next(k for k, p in enumerate(worst.case.points) if p.optimum)]
    if metric == "distance":
        return float(((models(steps) - best) ** 2).sum(1).mean())
    of = range(steps + 1) if metric == "average_gap" else [steps]
    x = np.mean([models(t).mean(0) for t in of], axis=0)
    return problem.loss(x) - problem.loss(best)


def find_violations(worst: "Worst", problem: Interpolating) -> dict[str, float]:
    """Return by how much each bound of the case fails on the real losses; negative where it is kept."""
    case, x, found = worst.case, np.asarray(problem.x), {}
    x0, best = np.zeros(problem.dim), next((k for k, p in enumerate(case.points) if p.optimum), None)
    for name, bound in worst.bounds.items():
        match name:
            case "start":
                found[name] = problem.heterogeneity(x0) - bound
            case "heterogeneity":
                means = [x[0, k] for k, p in enumerate(case.points) if p in case.means]
                found[name] = max(problem.heterogeneity(at) for at in means) - bound
            case "optimum":
                found[name] = float((problem.gradients(x[0, best]) ** 2).sum(1).mean()) - bound
            case "distance":
                found[name] = float((x[0, best] ** 2).sum()) - bound
            case "excess":
                lowest = find_lowest(problem) if best is None else problem.loss(x[0, best])
                found[name] = problem.loss(x0) - lowest - bound
            case "gradients":
                found[name] = float((np.asarray(problem.g) ** 2).sum(2).max()) - bound
    if best is not None:
        found["∇F(x*) = 0"] = float(np.linalg.norm(problem.gradient(x[0, best])))
    return found


def find_lowest(problem: Interpolating) -> float:
    r"""Return the least value of F that descent finds from every point of every agent.

    Losses that are not convex have μ = −L, so that F is the least over y and all θ_i of

    $$ \frac1n \sum_i \big(b_i^\top \theta_i + L \|y - C_i^\top \theta_i\|^2\big) - \frac L2 \|y\|^2 : $$

    y in closed form and an accelerated projected gradient step of every θ_i take turns.
    """
    L, X, G = float(problem.L), np.asarray(problem.x), np.asarray(problem.g)
    k = G + L * X
    C, b = X - k / (2 * L), np.asarray(problem.f) + L / 2 * (X**2).sum(2) - (k**2).sum(2) / (4 * L)
    n, m, _ = X.shape
    centre = C.mean((0, 1))
    C = C - centre  # of numbers near 0 less is lost
    sizes = np.maximum(np.linalg.norm(C @ C.swapaxes(1, 2), 2, axis=(1, 2)), 1e-30)[
        :, None
    ]  # 0 of an agent's one point
    theta = ahead = np.broadcast_to(np.eye(m)[:, None], (m, n, m))  # [starts, agents, points]
    momentum, least = np.ones((m, 1, 1)), np.inf
    for _ in range(DESCENT):
        made = np.einsum("snm,nmd->snd", ahead, C)
        y = 2 * made.mean(1) + centre
        away = y[:, None] - made
        losses = np.einsum("snm,nm->sn", ahead, b) + L * (away**2).sum(2)
        least = min(least, float((losses.mean(1) - L / 2 * ((y + centre) ** 2).sum(1)).min()))
        slope = b - 2 * L * np.einsum("snd,nmd->snm", away, C)
        fresh = _project_rows(ahead - slope / (2 * L * sizes))
        turned = ((ahead - fresh) * (fresh - theta)).sum((1, 2), keepdims=True) > 0
        momentum = np.where(turned, 1.0, momentum)  # restarts where it overshoots
        more = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        theta, ahead, momentum = fresh, _project_rows(fresh + (momentum - 1) / more * (fresh - theta)), more
    return least


def _project_rows(a: np.ndarray) -> np.ndarray:
    """Return the nearest points of the simplex."""
    ordered = -np.sort(-a, axis=-1)
    excess = (np.cumsum(ordered, -1) - 1) / np.arange(1, a.shape[-1] + 1)
    kept = (ordered > excess).sum(-1, keepdims=True) - 1
    return np.maximum(a - np.take_along_axis(excess, kept, -1), 0)
