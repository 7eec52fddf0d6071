r"""Gradients that were compressed, without a memory of what was left out or with one.

$$ \tilde g_i(x) = C(g_i(x)); \qquad
   \text{classic: } \tilde g^t = C(e^t + g^t), \quad e^{t+1} = e^t + g^t - \tilde g^t, \quad e^0 = 0; \qquad
   \text{EF21: } \tilde g^t = \tilde g^{t-1} + C(g^t - \tilde g^{t-1}), \quad \tilde g^{-1} = 0 $$

References: F. Seide et al., "1-bit stochastic gradient descent and its application to data-parallel distributed
training of speech DNNs", 2014; S. P. Karimireddy et al., "Error feedback fixes SignSGD and other gradient compression
schemes", 2019, arXiv 1901.09847; P. Richtárik, I. Sokolov and I. Fatkhullin, "EF21: A new, simpler, theoretically
better, and practically faster error feedback", 2021, arXiv 2106.05203.
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

import jax.numpy as jnp
from jaxtyping import Array, Float

from gossamer import compressors
from gossamer.basics.keys import draw_once
from gossamer.basics.pytrees import pytree
from gossamer.compressors import Compressor
from gossamer.compressors.sparse import count_kept
from gossamer.core import Compressor as Part
from gossamer.core import InputError, brief, nearest
from gossamer.oracles.constants import ErrorBounds, root, square_error, times, total
from gossamer.oracles.oracle import Oracle, Site, Stage
from gossamer.problems import Problem

Method = Literal["ef21", "classic"]


@pytree
@dataclass(frozen=True)
class Compressed(Stage):
    """The stage of `compressed`, `top_k`, `rand_k`, `scaled_sign`, `qsgd`, `round_linf` and `round_to`."""

    compressor: Compressor
    inner: Oracle | None = None

    def check(self, problem: Problem) -> None:
        self.source.check(problem)
        self.compressor.check(problem.dim)

    def change(self, site: Site, g: Array, x: Array) -> Array:
        return draw_once(site.round, partial(self.compressor.compress, self.own_key(site), g))

    def bias(self, site: Site, state: Any) -> Float[Array, " d"] | None:
        return self.source.bias(site, state) if self.compressor.unbiased else None

    def constants(self, problem: Problem) -> ErrorBounds:
        inner, (m, level, v) = self.source.constants(problem), self.compressor.errors(problem.dim)
        if not (m or level or v):
            return inner
        noise = 0.0 if self.compressor.linear else inner.variance
        if self.compressor.unbiased:
            relative, absolute = inner.relative, inner.absolute
        elif inner.unbiased:
            # ‖E C(y) − ∇f‖² ≤ E‖C(y) − y‖² ≤ m E‖y‖² + D, where E‖y‖² = ‖∇f‖² + the variance
            relative, absolute = m, total(level, times(m, noise))
        else:
            slope = total(math.sqrt(m), times(1 + math.sqrt(m), root(inner.relative)))
            rest = times(1 + math.sqrt(m), root(inner.absolute))
            relative, absolute = square_error(slope, total(rest, math.sqrt(level), times(math.sqrt(m), root(noise))))
        name, variance, notes = type(self.compressor).__name__, None, []
        if v:
            notes.append(f"{name}'s variance is up to {v:.3g} ‖g‖²: it has a bound only where gradients have one.")
        elif inner.variance == 0:
            variance = 0.0
        elif m == 0 and inner.variance is not None:
            variance = (math.sqrt(level) + math.sqrt(inner.variance)) ** 2
        else:
            notes.append(f"How much noise is left behind {name} has no bound in closed form: measure it.")
        if (share := getattr(self.compressor, "share", None)) is not None:
            kept = f"keeps {count_kept(None, share, problem.dim)} of {problem.dim} coordinates"
            notes.append(f"{name} with share = {share:g} {kept}.")
        return ErrorBounds(relative, absolute, variance, inner.add_notes(*notes))


def compressed(compressor: Compressor) -> Compressed:
    """Every gradient goes through a compressor, one of `gossamer.compressors` or your own.

    What is left out is lost: there is no error feedback. On noisy gradients a compressor whose mean is not linear adds
    M_f times the variance of the noise to σ_f². A compressed gradient is not the gradient of any loss, so it has no
    function values.
    """
    return Compressed(_check_compressor("oracles.compressed", compressor))


def top_k(k: int | None = None, *, share: float | None = None) -> Compressed:
    """The k coordinates of largest size, the others zero: M_f = 1 − k/d.

    Give `k`, or the `share` of the coordinates. See `gossamer.compressors.top_k`.
    """
    return Compressed(compressors.top_k(k, share=share))


def rand_k(k: int | None = None, *, share: float | None = None, scaled: bool = True) -> Compressed:
    """k coordinates drawn at random at every query, times d/k unless ``scaled=False``: M_f = 0, or (1 − k/d)².

    Give `k`, or the `share` of the coordinates. Its variance is in proportion to ‖g‖². See
    `gossamer.compressors.rand_k`.
    """
    return Compressed(compressors.rand_k(k, share=share, scaled=scaled))


def scaled_sign() -> Compressed:
    """The sign of every coordinate times their mean size: M_f up to 1 − 1/d.

    See `gossamer.compressors.scaled_sign`.
    """
    return Compressed(compressors.scaled_sign())


def qsgd(levels: int) -> Compressed:
    """Random rounding to `levels` parts of the norm: no bias, and a variance in proportion to ‖g‖².

    See `gossamer.compressors.qsgd`.
    """
    return Compressed(compressors.qsgd(levels))


def round_linf(levels: int) -> Compressed:
    """Rounding to the nearest of `levels` parts, on each side, of the largest coordinate: M_f = (d − 1)/(4s² + d − 1).

    See `gossamer.compressors.round_linf`.
    """
    return Compressed(compressors.round_linf(levels))


def round_to(step: float) -> Compressed:
    """Rounding to the nearest multiple of a fixed step Δ: σ_f² = dΔ²/4.

    See `gossamer.compressors.round_to`.
    """
    return Compressed(compressors.round_to(step))


@pytree
@dataclass(frozen=True)
class ErrorFeedback(Stage):
    """The stage of `error_feedback`."""

    compressor: Compressor
    method: Method = field(metadata={"static": True})
    inner: Oracle | None = None

    def check(self, problem: Problem) -> None:
        self.source.check(problem)
        self.compressor.check(problem.dim)

    def init(self, site: Site) -> Any:
        return {"inner": self.source.init(site), "kept": jnp.zeros_like(site.problem.start)}

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        if len(points) != 1:
            raise InputError(
                f"error_feedback keeps one memory for each agent, but this rule asks at {len(points)} points in one "
                "call. Use a rule that asks at one point, or oracles.compressed, which keeps none."
            )
        (g,), inner = self.source.query(site, state["inner"], points)
        before = state["kept"]
        wanted = before + g if self.method == "classic" else g - before
        sent = draw_once(site.round, partial(self.compressor.compress, self.own_key(site), wanted))
        if self.method == "classic":
            return (sent,), {"inner": inner, "kept": wanted - sent}
        return (before + sent,), {"inner": inner, "kept": before + sent}

    def constants(self, problem: Problem) -> ErrorBounds:
        inner, errors = self.source.constants(problem), self.compressor.errors(problem.dim)
        if not any(errors):
            return inner
        variance = 0.0 if inner.variance == 0 and not errors.variance else None
        where = "goes to zero where they come to rest" if self.method == "ef21" else "is made good later"
        note = f"What error_feedback errs by depends on the gradients before, and {where}: measure it along a path."
        return ErrorBounds(None, None, variance, inner.add_notes(note))


def error_feedback(compressor: Part, method: Method = "ef21") -> ErrorFeedback:
    r"""Every gradient goes through a compressor, one of `gossamer.compressors` or your own, with error feedback.

    "ef21" sends the change since its last answer, $C(g - \tilde g)$, and answers with the sum of all that was sent.
    Where gradients come to rest the answers become exact, if $C$ contracts: there is no floor. "classic" adds what was
    left out to the next gradient, $\tilde g = C(e + g)$: the sum of all answers is that of the gradients but for the
    last $e$. Agents that differ never come to rest with it: it leaves a floor, which falls with the step size. In the
    papers $e$ holds steps, $\eta g$, and not gradients: that is the same while $\eta$ is constant and
    $C(\eta a) = \eta\, C(a)$, as for `top_k`.
    """
    if not isinstance(method, str) or method not in get_args(Method):
        raise InputError(f"error_feedback(method={brief(method)}) is not known; {nearest(method, get_args(Method))}")
    return ErrorFeedback(_check_compressor("error_feedback", compressor), method)


def _check_compressor(where: str, given: Any) -> Compressor:
    if not isinstance(given, Compressor):
        raise InputError(
            f"{where} takes a compressor, such as gossamer.compressors.top_k(10), but was given {brief(given)}."
        )
    return given
