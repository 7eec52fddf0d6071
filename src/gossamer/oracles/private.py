r"""Differentially private gradients.

$$ \tilde g_i(x) = \frac{1}{q\, m_i} \Big( \sum_{j \in S} \min\Big(1, \frac{C}{\|g_{ij}(x)\|}\Big)\, g_{ij}(x)
   + \sigma C\, \mathcal N(0, I) \Big) + \alpha \nabla r(x), \qquad P(j \in S) = q, \quad j = 1, \dots, m_i $$

Reference: M. Abadi et al., "Deep learning with differential privacy", 2016, arXiv 1607.00133.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, UInt

from gossamer.basics.arrays import LARGEST
from gossamer.basics.keys import draw_once
from gossamer.basics.pytrees import pytree
from gossamer.basics.text import fields_of, format_call
from gossamer.core import InputError, Range
from gossamer.oracles.constants import ErrorBounds
from gossamer.oracles.oracle import Oracle, Privacy, Site, Stage
from gossamer.oracles.sampling import Exact
from gossamer.problems import Empirical, Problem

WORDS = 2**32


@pytree
@dataclass(frozen=True)
class Private(Stage):
    """The stage of `private`. The stage stands around the exact gradient, and samples in its place."""

    clip: Any
    noise: Any
    rate: Any
    delta: Any
    last: UInt[Any, ""]
    """The largest random word with which a row is taken: with probability `rate` to 32 bits, in any precision."""
    inner: Oracle | None = None

    def __repr__(self) -> str:
        return format_call("Private", fields_of(self, "inner", "last"))

    def around(self, source: Oracle) -> Stage:
        if not isinstance(source, Exact):
            raise InputError(
                f"private draws its own rows, so that it cannot stand around {type(source).__name__}: its ε holds for "
                "rows that are each taken with probability rate. Begin with oracles.private(…), without `batch` in a "
                "spec, and put other stages behind it."
            )
        return dataclasses.replace(self, inner=source)

    def check(self, problem: Problem) -> None:
        if not isinstance(problem, Empirical):
            raise InputError(
                f"private protects samples, but {type(problem).__name__} has none. Use a problem made of samples, such "
                "as problems.logistic, or oracles.additive_bias(std=…, redraw=True) for noise alone."
            )

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        if len(points) != 1:
            raise InputError(
                f"private counts one point for each query, but this rule asks at {len(points)} points on one sample, "
                "which would tell more of it. Use a rule that asks at one point."
            )
        (x,), problem = points, site.problem
        assert isinstance(problem, Empirical)
        total = problem.clipped_sum(site.agent, self._rows(site, problem), x, self.clip)
        # float32 whatever the run's dtype, so that a float64 run sees the same draws
        drawn = draw_once(site.round, lambda: jax.random.normal(self.own_key(site), x.shape, jnp.float32))
        expected = self.rate * problem.sizes[site.agent].astype(x.dtype)
        noisy = total + self.noise * self.clip * drawn.astype(x.dtype)
        return (noisy / expected + problem.penalty_gradient(x),), state

    def full(self) -> Oracle:
        raise InputError(
            "private counts what an agent lets out by its sampled queries, but this rule also asks for gradients over "
            "all samples, which its ε would not hold for. Use a rule that asks for none, such as biased-dmt."
        )

    def constants(self, problem: Problem) -> ErrorBounds:
        note = "What clipping each sample's gradient does to their mean has no closed form: measure it."
        if not isinstance(problem, Empirical):
            return ErrorBounds(None, None, None, note)
        clip, noise, rate, fewest = float(self.clip), float(self.noise), float(self.rate), int(problem.sizes.min())
        drawn = problem.dim * (noise * clip / (rate * fewest)) ** 2
        return ErrorBounds(None, None, drawn + (1 - rate) * clip**2 / (rate * fewest), note)

    @property
    def privacy(self) -> Privacy:
        return Privacy(*(float(value) for value in (self.clip, self.noise, self.rate, self.delta)))

    def _rows(self, site: Site, problem: Empirical) -> Bool[Array, " longest"]:
        key = self.source.own_key(site)
        words = draw_once(site.round, lambda: jax.random.bits(key, (problem.longest,), jnp.uint32))
        return (words <= self.last) & (jnp.arange(problem.longest) < problem.sizes[site.agent])


def private(clip: float, noise: float, rate: float, delta: float = 1e-5) -> Private:
    r"""Differentially private gradients: each sample's gradient clipped, their sum under Gaussian noise.

    At every query an agent takes each of its $m_i$ rows with probability `rate` $= q$ (Poisson sampling), cuts the
    gradient of each to a norm of at most `clip` $= C$, adds noise of deviation $\sigma C$ in each coordinate (`noise`
    $= \sigma$, the noise multiplier) to their sum, and divides by $q\, m_i$, the expected number of rows. The gradient
    of the regulariser depends on no row and is added as it is. It is a source: other stages stand behind it, and do not
    weaken what it protects. A query costs as much as the exact gradient and more, however small $q$ is.

    All that an agent sends in a run is $(\varepsilon, \delta)$-differentially private for adding or removing one of its
    rows, where $m_i$ counts as public. `Result.privacy` computes $\varepsilon$ at `delta`, with Google's dp-accounting
    (``pip install -e '.[privacy]'`` in the clone). What is measured and tuned also sees the data, and is not counted.

    Clipping is a bias with no closed form. The variance is at most
    $d\, \sigma^2 C^2 / (q\, m_i)^2 + (1 - q)\, C^2 / (q\, m_i)$.
    """
    allowed = Range(0, LARGEST, True, False, "It is the largest norm of a sample's gradient.")
    clip = allowed.check("private(clip=…)", clip)
    allowed = Range(0, LARGEST, False, False, "It is the noise multiplier; 0 protects nothing.")
    noise = allowed.check("private(noise=…)", noise)
    allowed = Range(1 / WORDS, 1, False, False, "It is the probability with which each row is taken.")
    rate = allowed.check("private(rate=…)", rate)
    allowed = Range(0, 1, True, True, "It is the δ at which ε is told; take less than one over the number of rows.")
    delta = allowed.check("private(delta=…)", delta)
    last = np.asarray(int(rate * WORDS) - 1, np.uint32)  # rounded down: never more often than ε is computed for
    return Private(np.asarray(clip), np.asarray(noise), np.asarray(rate), np.asarray(delta), last)
