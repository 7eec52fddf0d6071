r"""The constants of Assumption 3 measured at given points, where no closed form gives them.

With $Z_k$ the error of query $k$ of $K$, and $s^2 = \frac{1}{K-1} \sum_k \|Z_k - \bar Z\|^2$,

$$ \|b\|^2 \approx \|\bar Z\|^2 - s^2 / K, \qquad \sigma^2 \approx s^2 $$

which is unbiased. Its standard error is the jackknife's: the spread of the estimate as one query after the other is
left out. If an oracle is known to draw nothing, one query is exact.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from gossamer.basics.arrays import numbers
from gossamer.basics.cipher import MEASUREMENT, RUN
from gossamer.basics.keys import keys_of, root
from gossamer.basics.pytrees import refuse_mistakable
from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.basics.text import plural
from gossamer.core import InputError, whole
from gossamer.oracles.constants import COVERED, ErrorBounds
from gossamer.oracles.oracle import Oracle, Site
from gossamer.oracles.sampling import completed
from gossamer.problems import Problem
from gossamer.problems.problem import cast, check_problem

QUERIES_TOGETHER = 16
"""Queries of one agent that are computed at once."""

NUMBERS = 2**21
"""Numbers of gradients that are held at once, which decides the number of agents in a block."""


@dataclass(frozen=True)
class Measured:
    """Estimates of the constants of Assumption 3. A maximum is over the points and agents measured, and no others.

    The maximum of many noisy estimates is too large on average. So each estimate's interval is widened (Bonferroni)
    until all intervals hold together in 95 % of cases: the maximum of the lower ends and that of the upper ends then
    enclose the true maximum.
    """

    bias_sq: Float[np.ndarray, "points agents"]
    """‖b_i(x)‖², estimated without bias, and so at times below zero."""
    error: Float[np.ndarray, "points agents"]
    """The standard error of `bias_sq`."""
    grad_sq: Float[np.ndarray, "points agents"]
    """‖∇f_i(x)‖²."""
    noise: Float[np.ndarray, "points agents"]
    """s², the variance of a query."""
    queries: int
    """K, the number of queries at every point and of every agent."""

    @staticmethod
    def join(parts: Sequence["Measured"]) -> "Measured":
        """Concatenate measurements at several points."""
        names = ("bias_sq", "error", "grad_sq", "noise")
        arrays = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
        return Measured(*arrays, queries=parts[0].queries)

    @property
    def relative(self) -> float:
        """Return the smallest M_f that holds with σ_f² = 0: max ‖b‖²/‖∇f_i‖², infinite if ∇f_i = 0 and b ≠ 0."""
        return float(_ratio(self.bias_sq, self.grad_sq).max())

    @property
    def relative_interval(self) -> tuple[float, float]:
        """Return the 95 % interval of `relative`."""
        low, high = (float(_ratio(end, self.grad_sq).max()) for end in self._ends())
        return low, high

    def absolute_at(self, relative: float) -> float:
        """Return the smallest σ_f² that holds with this M_f: max (‖b‖² − M_f ‖∇f_i‖²)₊."""
        return self._beyond(self.bias_sq, relative)

    def absolute_interval(self, relative: float) -> tuple[float, float]:
        """Return the 95 % interval of `absolute_at`."""
        low, high = self._ends()
        return self._beyond(low, relative), self._beyond(high, relative)

    @property
    def variance(self) -> float:
        """Return σ², the largest s²."""
        return float(self.noise.max())

    @property
    def mean_variance(self) -> float:
        """Return the mean s²."""
        return float(self.noise.mean())

    def asdict(self) -> dict[str, Any]:
        """Return the numbers for a JSON file; an infinite one is null."""

        def finite(value: Any) -> Any:
            if isinstance(value, tuple):
                return [finite(end) for end in value]
            return value if math.isfinite(value) else None

        summary: dict[str, Any] = {
            "points": self.bias_sq.shape[0],
            "agents": self.bias_sq.shape[1],
            "queries": self.queries,
            "relative": self.relative,
            "relative_interval": self.relative_interval,
            "absolute_at_0": self.absolute_at(0),
            "absolute_at_0_interval": self.absolute_interval(0),
            "absolute_at_covered": self.absolute_at(COVERED),
            "absolute_at_covered_interval": self.absolute_interval(COVERED),
            "variance": self.variance,
            "mean_variance": self.mean_variance,
        }
        return {name: finite(value) for name, value in summary.items()}

    def __repr__(self) -> str:
        points, agents = self.bias_sq.shape
        found = f"M_f={self.relative:.4g}, sigma_f_sq={self.absolute_at(0):.4g}, sigma_sq={self.variance:.4g}"
        return f"Measured({found}; {plural(points, 'point')}, {plural(agents, 'agent')})"

    def __str__(self) -> str:
        points, agents = self.bias_sq.shape
        asked = "1 query, exact" if self.queries == 1 else f"{self.queries} queries"

        def line(name: str, value: float, interval: tuple[float, float]) -> str:
            ends = "" if self.queries == 1 else f"   95 %: {interval[0]:.4g} to {interval[1]:.4g}"
            return f"  {name:<22}{value:.4g}{ends}"

        return "\n".join(
            [
                f"measured at {plural(points, 'point')}, {plural(agents, 'agent')}, {asked} each; the largest:",
                line("M_f with σ_f² = 0", self.relative, self.relative_interval),
                line("σ_f² with M_f = 0", self.absolute_at(0), self.absolute_interval(0)),
                line("σ_f² with M_f = 1/256", self.absolute_at(COVERED), self.absolute_interval(COVERED)),
                f"  {'σ²':<22}{self.variance:.4g}   mean {self.mean_variance:.4g}",
            ]
        )

    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        if self.queries == 1:
            return self.bias_sq, self.bias_sq
        from scipy.special import stdtrit  # a tenth of a second to import

        half = stdtrit(self.queries - 1, 1 - 0.025 / self.bias_sq.size) * self.error
        return self.bias_sq - half, self.bias_sq + half

    def _beyond(self, bias_sq: np.ndarray, relative: float) -> float:
        return max(0.0, float((bias_sq - relative * self.grad_sq).max()))


def measure(
    oracle: Oracle,
    problem: Problem,
    points: Any,
    *,
    memory: Any = None,
    queries: int = 64,
    seed: int = 0,
    round: int = 0,
) -> Measured:
    """Measure the bias and the noise of an oracle by many queries at the same points, in float64.

    `points` are [d], or [points, d], or [points, agents, d] for points of each agent's own. Each agent is asked
    `queries` times at each point, or once if the oracle is known to have no variance. Every query starts from the same
    `memory`, the oracle's state of every agent, which is by default the state before the first query. So an error that
    was drawn once counts as bias, and so does the rest of an epoch. `round` is the round that the oracle sees.
    """
    check_problem(problem)
    oracle = completed(oracle)
    refuse_mistakable(problem, oracle)
    oracle.check(problem)
    if oracle.together(problem.agents) is not None:
        raise InputError(
            "attackers that answer with ALIE have no gradients of their own to measure: leave the attack out, or take "
            'how = "flip", "scale" or "constant".'
        )
    seed, round = whole("seed", seed, least=0), whole("round", round, least=0)
    x, agents, d = numbers("points", points, finite=False), problem.agents, problem.dim
    if x.ndim in (1, 2) and x.shape[-1] == d and x.size:
        x = np.repeat(np.atleast_2d(x)[:, None], agents, axis=1)
    if x.ndim != 3 or x.shape[1:] != (agents, d) or not x.size:
        raise InputError(
            f"points must be [{d}], or [points, {d}], or [points, {agents}, {d}] for this problem, but have shape "
            f"{x.shape}."
        )
    if not np.isfinite(x).all():
        raise InputError("points must be finite, but some are not: a run that diverged has no gradients to measure.")
    queries = count_of(queries)
    asked = 1 if oracle.constants(problem).variance == 0 else queries  # queries that draw nothing are all alike
    block = max(1, min(100, NUMBERS // (asked * problem.dim)))
    with jax.enable_x64(True):
        oracle, problem = cast(oracle, np.float64), cast(problem, np.float64)
        once, _ = jax.random.split(root(RUN, seed))  # what is drawn once is drawn as in a run with this seed
        fresh = partial(_memories, oracle, problem, once)
        shapes = jax.eval_shape(fresh)
        needed = 2 * sum(float(leaf.size) * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))  # and a copy
        refuse_beyond_memory(
            "what the oracle remembers", needed, "lower the delay or the number of agents, or leave out saga"
        )
        held = fresh() if memory is None else cast(memory, np.float64)
        drawn = _keys(root(MEASUREMENT, seed), (problem.agents, x.shape[0], asked))
        moments = _moments(oracle, problem, jnp.asarray(x), held, drawn, jnp.int32(round), block)
        return Measured(*(np.asarray(values).T for values in moments), queries=asked)


def drawn_constants(oracle: Oracle, problem: Problem, seeds: Sequence[int] = (0,)) -> ErrorBounds:
    """Return the constants that an oracle states, with σ_f² if it is decided by errors that are drawn once.

    Such an oracle has the same bias at every point, whose size needs no measurement once it is drawn: σ_f² is the
    largest of all agents in runs with these seeds.
    """
    oracle = completed(oracle)
    stated = oracle.constants(problem)
    # other oracles without a σ_f² state no M_f, or have a bias that depends on the point
    if stated.relative != 0 or stated.absolute is not None:
        return stated
    with jax.enable_x64(True):
        keys = keys_of(list(seeds), problem.agents)[:, 0]
        found = _bias_sq(cast(oracle, np.float64), cast(problem, np.float64), keys)
    largest = float(np.asarray(found).max())
    if np.isnan(largest):  # there is no constant bias
        return stated
    note = stated.add_notes(f"Over the draws of {plural(len(seeds), 'seed')} it is {largest:.4g}.")
    return dataclasses.replace(stated, absolute=largest, note=note)


@jax.jit
def _bias_sq(oracle: Oracle, problem: Problem, keys: Key[Array, "seeds agents"]) -> Float[Array, "seeds agents"]:
    def one_agent(agent: Array, key: Array) -> Any:
        site = Site(problem, agent, key, jnp.int32(0))
        bias = oracle.bias(site, oracle.init(site))
        # NaN stands for None, which a loop over blocks of agents cannot return
        return jnp.nan if bias is None else bias @ bias

    agents = jnp.arange(problem.agents, dtype=jnp.int32)
    return jax.lax.map(lambda row: _map_rows(one_agent, (agents, row), 100), keys)


def count_of(queries: Any) -> int:
    """Return the number of queries; raise InputError if they are too few for a standard error."""
    return whole("queries", queries, least=4, advice="64 is a good start.")


@jax.jit
def _memories(oracle: Oracle, problem: Problem, key: Key[Array, ""]) -> Any:
    def memory_of(agent: Array) -> Any:
        return oracle.init(Site(problem, agent, jax.random.fold_in(key, agent), jnp.int32(0)))

    return jax.vmap(memory_of)(jnp.arange(problem.agents, dtype=jnp.int32))


@partial(jax.jit, static_argnums=1)
def _keys(key: Key[Array, ""], shape: tuple[int, int, int]) -> Key[Array, "agents points queries"]:
    # folded by the numbers of the agent, the point and the query: no block and no other point changes a draw
    fold = jax.vmap(jax.random.fold_in, (None, 0))
    for size in shape:
        key, fold = fold(key, jnp.arange(size)), jax.vmap(fold, (0, None))
    return key


@partial(jax.jit, static_argnums=6)
def _moments(
    oracle: Oracle, problem: Problem, points: Array, memory: Any, keys: Array, round: Array, block: int
) -> tuple[Array, Array, Array, Array]:
    """Return the arrays of `Measured`, each [agents, points]."""

    def one_agent(agent: Array, points: Array, memory: Any, keys: Array) -> Any:
        def at(x: Array, keys: Array) -> Any:
            true = problem.local_gradient(agent, x)

            def error(key: Array) -> Array:
                return oracle.query(Site(problem, agent, key, round), memory, (x,))[0][0] - true

            bias_sq, deviation, noise = _bias_and_noise(_map_rows(error, (keys,), QUERIES_TOGETHER))
            return bias_sq, deviation, true @ true, noise

        return _map_rows(at, (points, keys), 1)

    agents = jnp.arange(problem.agents, dtype=jnp.int32)
    return _map_rows(one_agent, (agents, points.swapaxes(0, 1), memory, keys), block)


def _map_rows(function: Any, arrays: tuple[Any, ...], together: int) -> Any:
    """Apply a function to every row of the arrays, at most `together` rows at once."""
    rows = jax.tree.leaves(arrays)[0].shape[0]
    if rows <= together:
        return jax.vmap(function)(*arrays)
    return jax.lax.map(lambda row: function(*row), arrays, batch_size=together if together > 1 else None)


def _bias_and_noise(errors: Float[Array, "queries d"]) -> tuple[Array, Array, Array]:
    """Return ‖b‖² without bias, its jackknife standard error, and s²."""
    k, mean = errors.shape[0], errors.mean(0)
    if k == 1:
        return mean @ mean, jnp.zeros_like(mean[0]), jnp.zeros_like(mean[0])
    noise = ((errors - mean) ** 2).sum() / (k - 1)
    # the estimate without query q is a constant plus this, so that no mean is computed K times
    without = 2 * ((errors**2).sum(1) - k * errors @ mean) / ((k - 1) * (k - 2))
    variance = (k - 1) / k * ((without - without.mean()) ** 2).sum()
    return mean @ mean - noise / k, jnp.sqrt(variance), noise


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    above = np.maximum(above, 0)
    return np.divide(above, below, out=np.where(above > 0, math.inf, 0.0), where=below > 0)
