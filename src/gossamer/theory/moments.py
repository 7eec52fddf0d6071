r"""Biased-DMT on quadratics, exactly: means and covariances of all agents' states, round by round.

With an oracle that is affine in the gradient, $\tilde g_i(x) = (I + \Delta_i) A_i (x - b_i) + e_i + \xi_i$, the state
$z = (X, M, V) \in \mathbb{R}^{3nd}$ follows a linear system, and so do its mean and covariance:

$$ z^{t+1} = P z^t + p + Q \xi^{t+1}, \qquad \mu^{t+1} = P\mu^t + p, \qquad C^{t+1} = P C^t P^\top + Q S Q^\top . $$

Every quantity of the analysis is an expected squared norm of something affine in z,
$\mathbb{E}\|Bz + c\|^2 = \|B\mu + c\|^2 + \mathrm{tr}(B C B^\top)$. Nothing is sampled.
"""

import dataclasses
from dataclasses import dataclass, fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gossamer.basics.keys import keys_of
from gossamer.core import InputError
from gossamer.networks import Network
from gossamer.oracles import AdditiveBias, Exact, Oracle, RelativeBias, Site
from gossamer.problems import Quadratic
from gossamer.problems.problem import cast

AFFINE = (Exact, AdditiveBias, RelativeBias)
"""The oracles that are affine in the gradient; of these, only `AdditiveBias` draws noise."""

LONGEST_STATE = 1_200
"""The longest state 3nd that is followed: each round costs two products of such matrices."""

HUGE = 1e60
"""Moments above this are those of a run that diverges; their squares still fit."""

CHANGES = ("moved", "changed")
"""The moments that belong to a step from one round to the next, and not to a round."""

SUM_ROUNDING = 1e-14
"""The relative error of a sum in floating point, with room for the length of the sum."""

Series = Float[np.ndarray, " rounds"]


@dataclass(frozen=True, eq=False)
class Affine:
    """Δ_i, e_i and S_i of every agent."""

    relative: Float[np.ndarray, "agents d d"]
    bias: Float[np.ndarray, "agents d"]
    covariance: Float[np.ndarray, "agents d d"]

    @property
    def constants(self) -> dict[str, float]:
        r"""M_f, σ_f² and σ², as small as they are known to be.

        Where there is both a relative and a constant error,
        $\|\Delta_i g + e_i\|^2 \le 2\|\Delta_i\|^2\|g\|^2 + 2\|e_i\|^2$.
        """
        relative = float((np.linalg.norm(self.relative, 2, axis=(1, 2)) ** 2).max())
        absolute = float((self.bias**2).sum(1).max())
        both = 2.0 if relative and absolute else 1.0
        variance = float(np.trace(self.covariance, axis1=1, axis2=2).max())
        return {"relative": both * relative, "absolute": both * absolute, "variance": variance}


def affine_of(oracle: Oracle, problem: Quadratic, seed: int = 0) -> Affine | None:
    """Return Δ, e and S of an oracle, with one-time draws as in a run with this seed; None if the oracle is not affine.

    The noise is switched off and the stages are asked at points where the answer shows their numbers, so that nothing
    here depends on how they are built.
    """
    stages = _stages(oracle)
    if not all(isinstance(stage, AFFINE) for stage in stages):
        return None
    n, d = problem.agents, problem.dim
    plain = dataclasses.replace(problem, A=np.repeat(np.eye(d)[None], n, 0), b=np.zeros((n, d)), start=np.zeros(d))
    noisy = [depth for depth, stage in enumerate(stages) if isinstance(stage, AdditiveBias) and stage.redraw]
    quiet = _replace_stages(oracle, {depth: {"std": np.asarray(0.0)} for depth in noisy})
    bias = _answers(quiet, plain, np.zeros(d), seed)
    slope = np.stack([_answers(quiet, plain, unit, seed) - bias for unit in np.eye(d)], axis=2)
    covariance = np.zeros((n, d, d))
    for depth in noisy:
        stage: Any = stages[depth]
        mean = np.broadcast_to(stage.mean, (d,))
        pushed = [
            _answers(_replace_stages(quiet, {depth: {"mean": mean + unit}}), plain, np.zeros(d), seed) - bias
            for unit in np.eye(d)
        ]
        gain = np.stack(pushed, axis=2) * float(stage.std)
        covariance += gain @ gain.transpose(0, 2, 1)
    return Affine(slope - np.eye(d), bias, covariance)


def _stages(oracle: Any) -> list[Any]:
    """Return the stages from the outermost to the source."""
    inner = getattr(oracle, "inner", None)
    return [oracle, *(_stages(inner) if inner is not None else [])]


def _replace_stages(oracle: Any, changes: dict[int, dict[str, Any]], depth: int = 0) -> Any:
    """Return the oracle with other numbers in the stages at these depths."""
    inner = getattr(oracle, "inner", None)
    fields = dict(changes.get(depth, {}))
    if inner is not None:
        fields["inner"] = _replace_stages(inner, changes, depth + 1)
    return dataclasses.replace(oracle, **fields) if fields else oracle


def _answers(oracle: Oracle, problem: Quadratic, x: np.ndarray, seed: int) -> Float[np.ndarray, "agents d"]:
    """Return the answer of the oracle to every agent at x."""
    with jax.enable_x64(True):
        keys = keys_of([seed], problem.agents)[0][0]
        return np.asarray(_ask(cast(oracle, np.float64), cast(problem, np.float64), jnp.asarray(x), keys))


@jax.jit
def _ask(oracle: Oracle, problem: Quadratic, x: Array, keys: Array) -> Array:
    def ask(agent: Array, key: Array) -> Array:
        site = Site(problem, agent, key, jnp.int32(0))
        return oracle.query(site, oracle.init(site), (x,))[0][0]

    return jax.vmap(ask)(jnp.arange(problem.agents, dtype=jnp.int32), keys)


@dataclass(frozen=True, eq=False)
class Moments:
    """Expected values at rounds 0, …, T; those of a change from t to t + 1 are one shorter."""

    loss: Series  # E[F(x̄) − F*]
    gradient: Series  # E‖∇F(x̄)‖²
    momentum: Series  # E‖m̄‖²
    consensus: Series  # Ξ_x = E‖X − X̄‖²
    tracking: Series  # Ξ_v = E‖V − V̄‖²
    average: Series  # Ĝ = E‖Σ_i ∇f_i(x_i) − Σ_i m_i‖²
    estimation: Series  # 𝒢 = E‖M − ∇F(X)‖²
    gradients: Series  # E‖∇F(X)‖², all agents' gradients at their own models
    heterogeneity: Series  # E ζ²(x̄)
    moved: Series  # E‖X⁺ − X‖²
    changed: Series  # E‖M⁺ − M‖²
    rounding: dict[str, Series]  # how far each of these may be off because numbers are rounded


def propagate(
    problem: Quadratic,
    network: Network,
    oracle: Affine,
    eta: float,
    lam: float,
    steps: int,
    *,
    start: np.ndarray,
    warm: Any = 0,
) -> Moments:
    """Follow Biased-DMT for `steps` rounds from a common start, with a tracker that starts `warm`."""
    system = System(problem, network.mixing, oracle, eta, lam)
    mean, cov = system.begin(start, warm)
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    for t in range(steps + 1):
        kept.append(system.measure(mean, cov))
        # "not below" and not "above": a NaN ends the run, too
        if not kept[-1][0].max() < HUGE:
            raise InputError(
                f"this run diverges: at round {t} its moments are above {HUGE:g}, and there is nothing to compare. "
                f"Take a smaller eta than {eta:g}; theory.step_limit gives the largest that is stable."
            )
        mean, cov = system.step(mean, cov)
    names = [field.name for field in fields(Moments)][:-1]
    values, rounding = (
        {name: row[:-1] if name in CHANGES else row for name, row in zip(names, np.array(part).T, strict=True)}
        for part in zip(*kept, strict=True)
    )
    return Moments(**values, rounding=rounding)


class System:
    """The linear system of one setting."""

    def __init__(self, problem: Quadratic, W: np.ndarray, oracle: Affine, eta: float, lam: float):
        n, d = problem.agents, problem.dim
        size = n * d
        if 3 * size > LONGEST_STATE:
            raise InputError(
                f"the exact moments of {n} agents with {d} numbers each take matrices of {3 * size} rows, above the "
                f"limit of {LONGEST_STATE}. Take fewer agents or dimensions."
            )
        A, b = np.asarray(problem.A), np.asarray(problem.b)
        eye, mix = np.eye(size), np.kron(W, np.eye(d))
        self.hessian, self.pull = _blocks(A), -np.einsum("nde,ne->nd", A, b).ravel()  # ∇F(X) = H x + h
        tilt = _blocks(np.eye(d) + oracle.relative)
        self.slope, self.offset = tilt @ self.hessian, tilt @ self.pull + oracle.bias.ravel()
        self.noise = _blocks(oracle.covariance)
        self.n, self.mix = n, mix
        X, M, V = (np.hstack([eye if j == k else 0 * eye for j in range(3)]) for k in range(3))
        nextX = mix @ X - eta * V
        change = lam * (self.slope @ nextX - M)  # M⁺ − M, but for λ(offset + ξ)
        self.P = np.vstack([nextX, M + change, mix @ V + change])
        self.p = lam * np.concatenate([0 * self.offset, self.offset, self.offset])
        self.Q = lam * np.vstack([0 * eye, eye, eye])
        self.kick = self.Q @ self.noise @ self.Q.T
        self.drawn_now = lam**2 * np.trace(self.noise)  # the part of ‖M⁺ − M‖² that is drawn in the round itself
        center = np.kron(np.eye(n) - 1 / n, np.eye(d))
        total = np.kron(np.ones((1, n)), np.eye(d))
        mean = total / n
        top = mean @ self.hessian @ total.T  # Ā
        low = mean @ self.pull
        at_mean = self.hessian @ total.T @ mean @ X  # every ∇f_i at x̄
        none = np.zeros(size)
        root = np.linalg.cholesky(top).T / np.sqrt(2)  # F(x) − F* = ‖root (x − x*)‖²
        forms = [
            (root @ mean @ X, root @ np.linalg.solve(top, low)),
            (top @ mean @ X, low),
            (mean @ M, np.zeros(d)),
            (center @ X, none),
            (center @ V, none),
            (total @ (self.hessian @ X - M), total @ self.pull),
            (M - self.hessian @ X, -self.pull),
            (self.hessian @ X, self.pull),
            (center @ at_mean / np.sqrt(n), center @ self.pull / np.sqrt(n)),
            (nextX - X, none),
            (change, lam * self.offset),
        ]
        self.B, self.c = np.vstack([B for B, _ in forms]), np.concatenate([c for _, c in forms])
        self.firsts = np.cumsum([0] + [len(c) for _, c in forms[:-1]])
        self.grams = np.stack([B.T @ B for B, _ in forms]).reshape(len(forms), -1)
        self.sizes = tuple(np.abs(a) for a in (self.B, self.c, self.grams))

    def begin(self, start: np.ndarray, warm: Any = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return the state with all agents at one point, M⁰ = g̃(X⁰) and V⁰ = Wᵏ M⁰, or the mean of M⁰."""
        x = np.tile(np.asarray(start, np.float64), self.n)
        g = self.slope @ x + self.offset
        zero, S, n = np.zeros_like(self.noise), self.noise, self.n
        if warm == "mean":
            gossiped = np.kron(np.full((n, n), 1 / n), np.eye(len(x) // n))
        else:
            gossiped = np.linalg.matrix_power(self.mix, warm)
        SV, VV = S @ gossiped.T, gossiped @ S @ gossiped.T
        return np.concatenate([x, g, gossiped @ g]), np.block([[zero, zero, zero], [zero, S, SV], [zero, SV.T, VV]])

    def step(self, mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.P @ mean + self.p, self.P @ cov @ self.P.T + self.kick

    def measure(self, mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the entries of `Moments`, in order, and how far rounding may have moved them."""
        B, c, grams = self.sizes
        v, off = self.B @ mean + self.c, SUM_ROUNDING * (B @ np.abs(mean) + c)
        values = np.add.reduceat(v * v, self.firsts) + self.grams @ cov.ravel()  # tr(B C Bᵀ) = ⟨BᵀB, C⟩
        errors = np.add.reduceat((2 * np.abs(v) + off) * off, self.firsts) + SUM_ROUNDING * (
            grams @ np.abs(cov.ravel())
        )
        values[-1] += self.drawn_now
        return values, errors


def _blocks(blocks: Float[np.ndarray, "agents d d"]) -> np.ndarray:
    """Return the block-diagonal matrix."""
    n, d, _ = blocks.shape
    out = np.zeros((n, d, n, d))
    out[np.arange(n), :, np.arange(n), :] = blocks
    return out.reshape(n * d, n * d)
