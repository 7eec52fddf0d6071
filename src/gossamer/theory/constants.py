r"""The numbers that the theory speaks of, for a problem, a network and an oracle, and where each comes from.

| name | symbol | what |
| --- | --- | --- |
| `agents`, `gap` | $n$, $\rho$ | how many agents, and $1 - \|W - J\|_2$ |
| `smoothness` | $L$ | every $\nabla f_i$ is $L$-Lipschitz |
| `relative`, `absolute` | $M_f$, $\sigma_f^2$ | the squared bias is at most $M_f \|\nabla f_i\|^2 + \sigma_f^2$ |
| `variance` | $\sigma^2$ | the mean square of the noise of one gradient is at most this |
| `heterogeneity` | $\zeta^2$ | the mean over agents of $\|\nabla f_i(x) - \nabla F(x)\|^2$ is at most this |
| `excess` | $F(x^0) - F^*$ | how far the loss can fall |
| `warm` | $k$ | how often the tracker is gossiped before round 0, or "mean": $V^0 = W^k M^0$ or $\bar M^0$ |
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gossamer import oracles
from gossamer.core import InputError, Range, WarmStart, nearest
from gossamer.networks import Network
from gossamer.oracles import COVERED, Measured, Oracle
from gossamer.problems import Problem, Quadratic
from gossamer.problems.problem import cast

Source = Literal["exact", "bound", "estimate", "given"]
"""A bound holds for certain and may be loose. An estimate was measured at a few points and may be too small elsewhere;
that of σ_f² is the upper end of a 95 % interval there."""

QUERIES_AT_A_POINT = 32
"""How often an oracle that states no constants is asked at a point."""

WIDTH = 0.2
"""The widest interval of σ_f², as a share of its upper end, for which these queries are enough; else there are more."""

MOST_QUERIES, MOST_NUMBERS = 4096, 2**30
"""How many queries there are then: so many, or fewer if these would return more numbers in all."""

SURVEY_STEPS = 30
"""How many gradient steps a survey of a loss takes."""

_AT_LEAST_0 = Range(0, float("inf"), False, True, "It is a squared norm, or a ratio of two.")
_ABOVE_0 = Range(0, float("inf"), True, True, "It is how fast gradients change.")


# --- the landscape of a loss ------------------------------------------------------------------------------------------


class Landscape(NamedTuple):
    """The findings of a survey along a path of gradient descent."""

    smoothness: float  # the largest quotient of differences: L is at least this
    heterogeneity: float  # the largest ζ² on the path
    heterogeneity_at_start: float
    gradients_at_start: float  # the mean over agents of ‖∇f_i(x⁰)‖²
    loss_at_start: float
    lowest: float  # F at the lowest point that was found
    bottom: Float[np.ndarray, " d"]  # the lowest point that was found
    is_minimum: bool  # True if it is the minimum of F; if not, it is a local one and F* may lie below


def survey(problem: Problem, smoothness: float | None = None) -> Landscape:
    r"""Walk down from the problem's start: `SURVEY_STEPS` gradient steps of 1/L, then L-BFGS to a local minimum.

    Where the problem does not know its smoothness, it is estimated along the steps of gradient descent,

    $$ L \approx \max_{k, i} \frac{\|\nabla f_i(x_{k+1}) - \nabla f_i(x_k)\|}{\|x_{k+1} - x_k\|} , $$

    which is at most the true L and may be far below it elsewhere.
    """
    start = np.asarray(problem.start, np.float64)
    with jax.enable_x64(True):
        held = cast(problem, np.float64)  # quotients of small differences lose most digits
        first = np.asarray(_gradients(held, start))
        x, g, spread, steepest, rough = start, first, [_spread(first)], 0.0, smoothness or 1.0
        slope = first.mean(0)
        # a difference too short to leave the start, for a first estimate of L there
        nudge = 1e-4 * (1 + np.linalg.norm(x)) * slope / max(float(np.linalg.norm(slope)), 1e-300)
        if smoothness is None and nudge.any():
            rough = max(_quotient(np.asarray(_gradients(held, x - nudge)), g, nudge), 1e-12)
        for _ in range(SURVEY_STEPS):
            step = g.mean(0) / rough
            if not step.any():
                break
            near = np.asarray(_gradients(held, x - step))
            seen = _quotient(near, g, step)
            # a guess that is too small makes steps too long, which may leave the region that the run will see
            steepest, rough = max(steepest, seen), rough if smoothness else max(rough, seen)
            x, g = x - step, near
            spread.append(_spread(g))
        bottom = _find_minimum(held, x)
        spread.append(_spread(np.asarray(_gradients(held, bottom))))
        losses = [float(_loss_and_slope(held, jnp.asarray(point))[0]) for point in (start, bottom)]
    return Landscape(
        smoothness=steepest,
        heterogeneity=max(spread),
        heterogeneity_at_start=spread[0],
        gradients_at_start=float((first**2).sum(1).mean()),
        loss_at_start=losses[0],
        lowest=losses[1],
        bottom=bottom,
        is_minimum=isinstance(problem, Quadratic),
    )


def _find_minimum(problem: Problem, x: np.ndarray) -> np.ndarray:
    if isinstance(problem, Quadratic):
        A, b = np.asarray(problem.A), np.asarray(problem.b)
        return np.linalg.solve(A.sum(0), np.einsum("nde,ne->d", A, b))

    def loss_and_slope(point: np.ndarray) -> tuple[float, np.ndarray]:
        loss, slope = _loss_and_slope(problem, jnp.asarray(point))
        return float(loss), np.asarray(slope)

    from scipy.optimize import minimize  # half a second to import, so only when needed

    return minimize(loss_and_slope, x, jac=True, method="L-BFGS-B", options={"maxiter": 300, "maxcor": 20}).x


def _quotient(near: np.ndarray, g: np.ndarray, step: np.ndarray) -> float:
    """Return the largest change of an agent's gradient over the length of the step: L is at least this."""
    return float(np.linalg.norm(near - g, axis=1).max() / np.linalg.norm(step))


def _spread(g: Float[np.ndarray, "agents d"]) -> float:
    return float(((g - g.mean(0)) ** 2).sum(1).mean())


@jax.jit
def _gradients(problem: Problem, x: Array) -> Any:
    return jax.lax.map(lambda i: problem.local_gradient(i, x), jnp.arange(problem.agents), batch_size=100)


@jax.jit
def _loss_and_slope(problem: Problem, x: Array) -> tuple[Array, Array]:
    return problem.mean_loss(x), problem.mean_gradient(x)


# --- constants --------------------------------------------------------------------------------------------------------


class Start(NamedTuple):
    r"""The errors at the start, where all agents stand at one point, $M^0 = \tilde g(X^0)$ and $V^0 = W^k M^0$."""

    consensus: float  # Ξ_x⁰ = 0
    tracking: float  # Ξ_v⁰
    average: float  # Ĝ⁰
    estimation: float  # 𝒢⁰


@dataclass(frozen=True)
class Constants:
    """All that Theorem 1 asks for. `constants_of` makes it; it can also be written by hand."""

    agents: int
    gap: float
    smoothness: float
    excess: float
    relative: float = 0.0
    absolute: float = 0.0
    variance: float = 0.0
    heterogeneity: float = 0.0
    heterogeneity_at_start: float = 0.0
    gradients_at_start: float = 0.0
    """The mean over agents of ‖∇f_i(x⁰)‖²."""
    sources: Mapping[str, Source] = field(default_factory=dict)
    note: str = ""
    """A note of the oracle about its constants."""
    warm: Any = 0
    """How the tracker starts."""

    @property
    def gradient_at_start(self) -> float:
        """‖∇F(x⁰)‖²: the agents' squared gradients but for their spread around the mean."""
        return max(self.gradients_at_start - self.heterogeneity_at_start, 0.0)

    @property
    def start(self) -> Start:
        r"""Upper bounds of the errors at the start.

        With independent noise and $B = \sum_i \|b_i\|^2 \le n\sigma_f^2 + M_f \sum_i \|\nabla f_i(x^0)\|^2$,
        $\mathcal{G}^0 \le B + n\sigma^2$, $\hat G^0 \le n B + n\sigma^2$, and
        $\Xi_v^0 \le (\sqrt{n \zeta^2(x^0)} + \sqrt B)^2 + (n - 1)\sigma^2$, times what `kept_apart` says.
        """
        n = self.agents
        biases = n * (self.absolute + self.relative * self.gradients_at_start)
        apart = (np.sqrt(n * self.heterogeneity_at_start) + np.sqrt(biases)) ** 2
        return Start(
            0.0,
            float(self.kept_apart * (apart + (n - 1) * self.variance)),
            n * biases + n * self.variance,
            biases + n * self.variance,
        )

    @property
    def kept_apart(self) -> float:
        r"""The share of $\Xi_v^0$ that a warm start leaves, at most: $(1-\rho)^{2k}$, or 0 from the mean."""
        return 0.0 if self.warm == "mean" else (1 - self.gap) ** (2 * self.warm)

    def asdict(self) -> dict[str, Any]:
        return asdict(self) | {"sources": dict(self.sources)}


GIVEN = ("smoothness", "excess", "relative", "absolute", "variance", "heterogeneity")
"""The constants that a caller may give instead."""


def constants_of(
    problem: Problem,
    network: Network,
    oracle: Oracle,
    *,
    seeds: Sequence[int] = (0,),
    warm: int | Literal["mean"] = 0,
    **given: float,
) -> Constants:
    """Find the constants; those that are `given` (by the names of `GIVEN`) are taken as they are.

    What an oracle draws once is drawn as in runs with these seeds.
    """
    warm = WarmStart().check("warm=…", warm)
    for name in given:
        if name not in GIVEN:
            raise InputError(f"there is no constant {name!r} to give; {nearest(name, GIVEN)}")
    allowed = {"smoothness": _ABOVE_0}
    taken = {name: allowed.get(name, _AT_LEAST_0).check(f"{name}=…", value) for name, value in given.items()}
    gap = gap_of(network)
    if oracle.attackers(problem.agents):
        raise InputError("the oracle has attackers, but the theory is about honest agents: leave the attack out.")
    known = taken.get("smoothness", problem.smoothness)
    seen = survey(problem, known)
    bias, note = _oracle_constants(problem, oracle, seeds, taken, seen)
    exact = isinstance(problem, Quadratic)
    # with one Hessian for all, ∇f_i − ∇F does not depend on the point; else no bound over all points exists
    same = isinstance(problem, Quadratic) and bool((np.asarray(problem.A) == np.asarray(problem.A)[0]).all())
    sourced: dict[str, tuple[float, Source]] = {
        "smoothness": (seen.smoothness, "estimate") if known is None else (known, "exact" if exact else "bound"),
        "excess": (seen.loss_at_start - seen.lowest, "exact" if seen.is_minimum else "estimate"),
        "heterogeneity": (seen.heterogeneity, "exact" if same else "estimate"),
        **bias,
    }
    sourced |= {name: (value, "given") for name, value in taken.items()}
    if sourced["smoothness"][0] <= 0:
        raise InputError("the loss is flat along the path that was walked, so L is unknown: give smoothness=….")
    return Constants(
        agents=network.agents,
        gap=gap,
        heterogeneity_at_start=seen.heterogeneity_at_start,
        gradients_at_start=seen.gradients_at_start,
        warm=warm,
        sources={name: source for name, (_, source) in sourced.items()},
        note=note,
        **{name: value for name, (value, _) in sourced.items()},
    )


def gap_of(network: Network) -> float:
    """Return ρ, of a network that the theory covers."""
    if network.attack is not None:
        raise InputError(f"{network.name} has attackers, but the theory is about honest agents: leave the attack out.")
    if network.changes:
        raise InputError(
            f"{network.name} changes from round to round, but the theory is about one W in all rounds: the lemmas ask "
            "every single round to mix. Use a static network such as networks.ring(20)."
        )
    gap = network.gap
    if gap is None or not gap > 0:
        raise InputError(
            f"{network.name} has no spectral gap ρ > 0, which the theory needs: it covers doubly stochastic weights on "
            "a connected graph only. Use an undirected network such as networks.ring(20)."
        )
    return float(gap)


def _oracle_constants(
    problem: Problem, oracle: Oracle, seeds: Sequence[int], taken: Mapping[str, float], seen: Landscape
) -> tuple[dict[str, tuple[float, Source]], str]:
    """Return M_f, σ_f² and σ², stated by the oracle or measured at the start and at the lowest point; and its note."""
    names = ("relative", "absolute", "variance")
    if all(name in taken for name in names):
        return {}, ""
    stated, drawn = oracle.constants(problem), oracles.drawn_constants(oracle, problem, seeds)
    bounds: dict[str, tuple[float, Source]] = {
        name: (float(value), "bound" if value == getattr(stated, name) else "exact")
        for name in names
        if (value := getattr(drawn, name)) is not None
    }
    missing = [name for name in names if name not in bounds and name not in taken]
    if not missing:
        return bounds, "" if drawn == stated and taken else drawn.note
    points = np.stack([np.asarray(problem.start), seen.bottom])
    known = taken.get("relative", bounds.get("relative", (None,))[0])
    measured = oracles.measure(oracle, problem, points, queries=QUERIES_AT_A_POINT)
    relative, low, high = _frontier(measured, known, seen.heterogeneity)
    # a few queries suffice for most oracles; noisy ones are asked again, as often as memory allows
    most = min(MOST_QUERIES, MOST_NUMBERS // (points.size * problem.agents))
    if "absolute" in missing and high - low > WIDTH * high and most > QUERIES_AT_A_POINT:
        measured = oracles.measure(oracle, problem, points, queries=most)
        relative, low, high = _frontier(measured, known, seen.heterogeneity)
    estimates = {"relative": relative, "absolute": high, "variance": measured.variance}
    bounds |= {name: (float(estimates[name]), "estimate") for name in missing}
    if "absolute" not in missing or (measured.queries == 1 and high):
        return bounds, drawn.note
    if not high:
        where = "at the start and at the lowest point, where M_f ‖∇f_i‖² is at least the whole bias"
        return bounds, drawn.add_notes(f"σ_f² is 0 {where}; elsewhere it may be larger.")
    measuring = (
        f"σ_f² is the upper end of a 95 % interval, {low:.4g} to {high:.4g}, from {measured.queries:,} queries of each "
        "agent at the start and at the lowest point."
    )
    return bounds, drawn.add_notes(measuring)


def _frontier(measured: Measured, relative: float | None, heterogeneity: float) -> tuple[float, float, float]:
    """M_f and the 95 % interval of the σ_f² that goes with it.

    Where M_f is not known it is 0, or as much of the bias as the theorem covers: whichever has the lower floor.
    """
    choices = [0.0, min(measured.relative_interval[1], COVERED)] if relative is None else [relative]
    found = [(m, *measured.absolute_interval(m)) for m in choices]
    return min(found, key=lambda one: 64 * one[0] * heterogeneity + 16 * one[2])  # the floor of Theorem 1
