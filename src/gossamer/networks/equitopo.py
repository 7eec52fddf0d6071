r"""EquiTopo: graphs of random distances, whose consensus rate does not depend on the number of agents.

The basis graph $A^{(a)}$ lets everyone hear the agent at distance $a$, $1 \le a < n$:

$$ (A^{(a)} x)_i = \tfrac1n x_i + \tfrac{n-1}{n} x_{i - a}, \qquad \frac{1}{n - 1} \sum_{a=1}^{n-1} A^{(a)} = J. $$

A mean of few of them, drawn at random, is close to $J$; so is a round drawn anew each time, in the mean.

Reference: Z. Song, W. Li, K. Jin, L. Shi, M. Yan, W. Yin and K. Yuan, "Communication-efficient topologies for
decentralized learning with O(1) consensus rate", 2022, arXiv 2210.07881.
"""

import functools
import math
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int, UInt

from gossamer.core import whole
from gossamer.networks.drawn import Drawn, Draws, seed_leaf
from gossamer.networks.graphs import check_degree, draw_until
from gossamer.networks.mixers import MatrixName, Neighbours, Shifts, mixer
from gossamer.networks.network import Network, call_name


def d_equistatic(agents: int, degree: int, seed: int = 0) -> Network:
    r"""Take the mean of random basis graphs: everyone sends to agents at the same few distances, drawn once.

    $W = \tfrac1M \sum_{m=1}^M A^{(a_m)}$ with $M$ = `degree` distances, which may coincide. Directed, yet doubly
    stochastic. $\lVert W - J \rVert_2 \le \varepsilon$ with probability $1 - p$ if
    $M \ge \tfrac{8}{3 \varepsilon^2} \ln \tfrac{2n}{p}$. Redrawn until it is connected.
    """
    return _static("d_equistatic", agents, degree, seed, both_ways=False)


def u_equistatic(agents: int, degree: int, seed: int = 0) -> Network:
    r"""Take the mean of random basis graphs and their transposes: links both ways at few distances, drawn once.

    $W = \tfrac{1}{2M} \sum_{m=1}^M (A^{(a_m)} + A^{(a_m)\top})$ with $M = \lfloor \text{degree} / 2 \rfloor$,
    which is symmetric. The bound of `d_equistatic` holds with this $M$. Redrawn until it is connected.
    """
    return _static("u_equistatic", agents, degree, seed, both_ways=True)


def od_equidyn(agents: int, seed: int = 0) -> Network:
    r"""Let everyone hear one other in each round, all at the same distance, which is drawn anew.

    $W^t = \tfrac12 (I + A^{(a_t)})$ with $a_t$ uniform on $1, \dots, n - 1$: one message a round.
    $\rho = 1 - \sqrt{\tfrac{n - 1}{2n}}$.
    """
    return _dynamic("od_equidyn", Ahead, agents, seed)


def ou_equidyn(agents: int, seed: int = 0) -> Network:
    r"""Pair the agents at one distance in each round, drawn anew, from a random agent on; some may rest.

    $W^t = \tfrac12 (I + \tfrac1n I + \tfrac{n-1}{n} M^t)$ with $M^t$ the matching, which is symmetric.
    """
    return _dynamic("ou_equidyn", Paired, agents, seed)


def _static(where: str, agents: Any, degree: Any, seed: Any, both_ways: bool) -> Network:
    n, seed = whole(f"{where}(agents)", agents), whole(f"{where}(seed)", seed, least=0)
    d = check_degree(where, degree, n, least=2 if both_ways and n > 2 else 1)
    name = call_name(where, n, d, seed=seed)
    if n == 1:
        return Network(name, 1, Shifts((1,), ((0,),), np.ones(1)))
    basis = max(1, d // 2) if both_ways else d

    def draw(key: int) -> np.ndarray:
        return np.random.default_rng(key).integers(1, n, size=basis)

    problem = f"{where}({n}, {d}) gave no connected graph"
    way_out = f"All distances and {n} had a common divisor. Use degree {d + 2}, or another seed."
    steps = draw_until(lambda steps: math.gcd(n, *map(int, steps)) == 1, draw, seed, problem, way_out)
    # a transpose goes the other way round
    ways = np.append(steps, n - steps) if both_ways else steps
    weights = np.bincount(ways, minlength=n) * ((n - 1) / n / len(ways))
    weights[0] = 1 / n
    used = np.flatnonzero(weights)
    return Network(name, n, Shifts((n,), tuple((int(step),) for step in used), weights[used]))


def _dynamic(where: str, kind: "type[Ahead] | type[Paired]", agents: Any, seed: Any) -> Network:
    n, key = whole(f"{where}(agents)", agents), seed_leaf(f"{where}(seed)", seed)
    name = call_name(where, n, seed=int(key))
    if n == 1:
        return Network(name, 1, Shifts((1,), ((0,),), np.ones(1)))
    return Network(name, n, kind(n, np.asarray(0.5 * (n - 1) / n), key))


@mixer("share", "seed")
class Ahead(Drawn):
    r"""The rounds of `od_equidyn`: $x_i \leftarrow (1 - s) x_i + s\, x_{i - a}$, $a$ uniform on $1, \dots, n - 1$."""

    kind: ClassVar[str] = "ahead"
    alike: ClassVar[bool] = True
    agents: int
    share: Float[Any, ""]
    seed: UInt[Any, ""]

    def at(self, t: Any, over: MatrixName, xp: Any = np) -> Neighbours:
        everyone = xp.arange(self.agents, dtype=np.int32)
        step = Draws.of_round(xp, self.seed, t).between(1, self.agents)
        return _meet(everyone, (everyone - step) % self.agents, self.share, xp)

    def sends(self, t: int) -> float:
        return 1.0

    @functools.cached_property
    def is_symmetric(self) -> bool:
        return self.agents == 2

    def contraction(self, agents: int) -> float:
        # the same for all frequencies, because the cosines sum to −1
        s = float(self.share)
        return 1 - 2 * s * (1 - s) * agents / (agents - 1)


@mixer("share", "seed")
class Paired(Drawn):
    r"""The rounds of `ou_equidyn`: $x_i \leftarrow (1 - s) x_i + s\, x_j$ for pairs at distance $a$.

    $a$ is uniform on $1, \dots, n - 1$. From an agent that is drawn too, everyone in turn is paired with the one at
    distance $a$ if both are still free.
    """

    kind: ClassVar[str] = "paired"
    agents: int
    share: Float[Any, ""]
    seed: UInt[Any, ""]

    def at(self, t: Any, over: MatrixName, xp: Any = np) -> Neighbours:
        far, near = Draws.of_round(xp, self.seed, t).split()
        step, first = far.between(1, self.agents), near.between(0, self.agents)
        everyone = xp.arange(self.agents, dtype=np.int32)
        partner = (first + partners(self.agents, step, (everyone - first) % self.agents, xp)) % self.agents
        return _meet(everyone, partner, self.share, xp)

    def sends(self, t: int) -> float:
        return float(2 * count_pairs(self.agents).mean() / self.agents)

    def contraction(self, agents: int) -> float:
        # A matching squared is I, and the mean matching is a sum of translations.
        n, s, often = agents, float(self.share), count_pairs(agents) / agents
        chance = np.zeros(n)  # of meeting the agent at this distance
        chance[1:] = (often + often[::-1]) / (n - 1)
        chance[0] = 1 - chance.sum()
        largest = np.fft.fft(chance).real[1:].max()
        return float((1 - s) ** 2 + s**2 + 2 * s * (1 - s) * largest)


def partners(n: int, step: Any, place: Int[Any, " agents"], xp: Any) -> Int[Any, " agents"]:
    """Return the partner of each agent at this distance, or the agent; places count from the first agent on."""
    back, where = n - step, xp.where
    beyond = _pair_row(n - 2 * back, back, place - back, xp) + back
    wrapped = where(place < back, place + step, where(place >= step, place - step, beyond))
    return where(2 * step <= n, _pair_row(n, step, place, xp), wrapped)


def _pair_row(length: Any, step: Any, place: Any, xp: Any) -> Any:
    """Pair places in a row with those `step` ahead: blocks of that length, the first with the second and so on."""
    ahead, even = place + step, place // step % 2 == 0
    return xp.where(even, xp.where(ahead < length, ahead, place), place - step)


def count_pairs(n: int) -> Int[np.ndarray, " distances"]:
    """Count the pairs at distance 1, 2, …, n − 1."""
    step = np.arange(1, n)
    back = n - step

    def in_row(length: Any, step: Any) -> Any:
        return length // (2 * step) * step + np.maximum(length % (2 * step) - step, 0)

    return np.where(2 * step <= n, in_row(n, step), back + in_row(np.maximum(n - 2 * back, 0), back))


def _meet(everyone: Any, other: Any, share: Any, xp: Any) -> Neighbours:
    s = xp.asarray(share)
    weights = xp.stack([1 - s, s])[None].repeat(len(everyone), axis=0)
    return Neighbours(xp.stack([everyone, other], axis=1), weights)
