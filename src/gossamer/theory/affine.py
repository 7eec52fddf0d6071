r"""Oracles whose error is affine in the gradient, with noise of known covariance: those that can be followed exactly.

$$ \tilde g_i(x) = (I + \Delta_i) \nabla f_i(x) + e_i + \xi_i, \qquad
   \mathbb{E}\,\xi_i = 0, \quad \mathbb{E}\,\xi_i \xi_i^\top = S_i $$
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gossamer.basics.keys import keys_of
from gossamer.oracles import AdditiveBias, Exact, GivenBias, GivenFactors, Oracle, RelativeBias, Site
from gossamer.problems import Quadratic
from gossamer.problems.problem import cast

AFFINE = (Exact, GivenBias, AdditiveBias, RelativeBias, GivenFactors)
"""The oracles that are affine in the gradient; of these, only `AdditiveBias` draws noise."""


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
    """Δ, e and S of an oracle, with one-time draws as in a run with this seed; None if the oracle is not affine.

    The noise is switched off and the stages are asked at points where the answer shows their numbers, so that nothing
    here depends on how they are built.
    """
    stages = _stages(oracle)
    if not all(isinstance(stage, AFFINE) for stage in stages):
        return None
    n, d = problem.agents, problem.dim
    plain = dataclasses.replace(problem, A=np.repeat(np.eye(d)[None], n, 0), b=np.zeros((n, d)), start=np.zeros(d))
    noisy = [depth for depth, stage in enumerate(stages) if isinstance(stage, AdditiveBias) and stage.redraw]
    quiet = _changed(oracle, {depth: {"std": np.asarray(0.0)} for depth in noisy})
    bias = _answers(quiet, plain, np.zeros(d), seed)
    slope = np.stack([_answers(quiet, plain, unit, seed) - bias for unit in np.eye(d)], axis=2)
    covariance = np.zeros((n, d, d))
    for depth in noisy:
        stage: Any = stages[depth]
        mean = np.broadcast_to(stage.mean, (d,))
        pushed = [
            _answers(_changed(quiet, {depth: {"mean": mean + unit}}), plain, np.zeros(d), seed) - bias
            for unit in np.eye(d)
        ]
        gain = np.stack(pushed, axis=2) * float(stage.std)
        covariance += gain @ gain.transpose(0, 2, 1)
    return Affine(slope - np.eye(d), bias, covariance)


def _stages(oracle: Any) -> list[Any]:
    """The stages from the outermost to the source."""
    inner = getattr(oracle, "inner", None)
    return [oracle, *(_stages(inner) if inner is not None else [])]


def _changed(oracle: Any, changes: dict[int, dict[str, Any]], depth: int = 0) -> Any:
    """The oracle with other numbers in the stages at these depths."""
    inner = getattr(oracle, "inner", None)
    fields = dict(changes.get(depth, {}))
    if inner is not None:
        fields["inner"] = _changed(inner, changes, depth + 1)
    return dataclasses.replace(oracle, **fields) if fields else oracle


def _answers(oracle: Oracle, problem: Quadratic, x: np.ndarray, seed: int) -> Float[np.ndarray, "agents d"]:
    with jax.enable_x64(True):
        once = keys_of([seed], problem.agents)[0][0]
        return np.asarray(_ask(cast(oracle, np.float64), cast(problem, np.float64), jnp.asarray(x), once))


@jax.jit
def _ask(oracle: Oracle, problem: Quadratic, x: Array, keys: Array) -> Array:
    def answer_of(agent: Array, key: Array) -> Array:
        site = Site(problem, agent, key, jnp.int32(0))
        return oracle.query(site, oracle.init(site), (x,))[0][0]

    return jax.vmap(answer_of)(jnp.arange(problem.agents, dtype=jnp.int32), keys)
