r"""Compressed gradients with a memory of what was left out.

$$ \text{classic: } \tilde g^t = C(e^t + g^t), \quad e^{t+1} = e^t + g^t - \tilde g^t, \quad e^0 = 0; \qquad
   \text{EF21: } \tilde g^t = \tilde g^{t-1} + C(g^t - \tilde g^{t-1}), \quad \tilde g^{-1} = 0 $$

References: F. Seide et al., "1-bit stochastic gradient descent and its application to data-parallel distributed
training of speech DNNs", 2014; S. P. Karimireddy et al., "Error feedback fixes SignSGD and other gradient compression
schemes", 2019, arXiv 1901.09847; P. Richtárik, I. Sokolov and I. Fatkhullin, "EF21: A new, simpler, theoretically
better, and practically faster error feedback", 2021, arXiv 2106.05203.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

import jax.numpy as jnp
from jaxtyping import Array

from gossamer.basics.keys import draw_once
from gossamer.basics.pytrees import pytree
from gossamer.compressors import Compressor
from gossamer.core import Compressor as Part
from gossamer.core import InputError, brief, nearest
from gossamer.oracles.constants import ErrorBounds
from gossamer.oracles.oracle import Oracle, Site, Stage
from gossamer.problems import Problem

Method = Literal["ef21", "classic"]


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
    if not isinstance(compressor, Compressor):
        raise InputError(
            f"error_feedback takes a compressor, such as gossamer.compressors.top_k(10), but was given "
            f"{brief(compressor)}."
        )
    if not isinstance(method, str) or method not in get_args(Method):
        raise InputError(f"error_feedback(method={brief(method)}) is not known; {nearest(method, get_args(Method))}")
    return ErrorFeedback(compressor, method)
