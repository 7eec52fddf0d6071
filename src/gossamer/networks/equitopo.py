r"""EquiTopo: graphs of random distances, whose consensus rate does not depend on the number of agents.

The basis graph $A^{(a)}$ lets everyone hear the agent at distance $a$, $1 \le a < n$:

$$ (A^{(a)} x)_i = \tfrac1n x_i + \tfrac{n-1}{n} x_{i - a}, \qquad \frac{1}{n - 1} \sum_{a=1}^{n-1} A^{(a)} = J. $$

A mean of few of them, drawn at random, is close to $J$; so is a round drawn anew each time, in the mean.

Reference: Z. Song, W. Li, K. Jin, L. Shi, M. Yan, W. Yin and K. Yuan, "Communication-efficient topologies for
decentralized learning with O(1) consensus rate", 2022, arXiv 2210.07881.
"""

import math
from typing import Any

import numpy as np

from gossamer.core import InputError, Range, whole
from gossamer.networks.graphs import DRAWS, call_name, draw_until
from gossamer.networks.mixing.peers import Ahead, Paired
from gossamer.networks.mixing.static import Shifts
from gossamer.networks.network import Network
from gossamer.networks.sequences import draw_seed

WEIGHT = Range(0, 1, True, True, "It is how much comes from the basis graph; the rest an agent keeps.")


def d_equistatic(agents: int, degree: int, seed: int = 0) -> Network:
    r"""The mean of random basis graphs: everyone sends to agents at the same few distances, drawn once.

    $W = \tfrac1M \sum_{m=1}^M A^{(a_m)}$ with $M$ = `degree` distances, which may coincide. Directed, yet doubly
    stochastic. $\lVert W - J \rVert_2 \le \varepsilon$ with probability $1 - p$ if
    $M \ge \tfrac{8}{3 \varepsilon^2} \ln \tfrac{2n}{p}$. Redrawn until it is connected.
    """
    return _static("d_equistatic", agents, degree, seed, both_ways=False)


def u_equistatic(agents: int, degree: int, seed: int = 0) -> Network:
    r"""The mean of random basis graphs and their transposes: links at the same few distances both ways, drawn once.

    $W = \tfrac{1}{2M} \sum_{m=1}^M (A^{(a_m)} + A^{(a_m)\top})$ with $M = \lfloor \text{degree} / 2 \rfloor$,
    which is symmetric. The bound of `d_equistatic` holds with this $M$. Redrawn until it is connected.
    """
    return _static("u_equistatic", agents, degree, seed, both_ways=True)


def od_equidyn(agents: int, seed: int = 0, *, weight: float = 0.5) -> Network:
    r"""Each round everyone hears one other, all at the same distance, which is drawn anew.

    $W^t = (1 - \eta) I + \eta A^{(a_t)}$ with $\eta$ = `weight` and $a_t$ uniform on $1, \dots, n - 1$: one message a
    round. With $s = \eta \tfrac{n-1}{n}$, $\rho = 1 - \sqrt{1 - 2 s (1 - s) \tfrac{n}{n-1}}$; at $\eta = \tfrac12$ that
    is $1 - \sqrt{\tfrac{n - 1}{2n}}$.
    """
    return _drawn("od_equidyn", Ahead, agents, seed, weight)


def ou_equidyn(agents: int, seed: int = 0, *, weight: float = 0.5) -> Network:
    r"""Each round the agents are paired at one distance, drawn anew, from a random agent on; some may rest.

    $W^t = (1 - \eta) I + \eta (\tfrac1n I + \tfrac{n-1}{n} M^t)$ with $\eta$ = `weight` and $M^t$ the matching, which
    is symmetric.
    """
    return _drawn("ou_equidyn", Paired, agents, seed, weight)


def _static(where: str, agents: Any, degree: Any, seed: Any, both_ways: bool) -> Network:
    n, seed = whole(f"{where}(agents)", agents), whole(f"{where}(seed)", seed, least=0)
    d = whole(f"{where}(degree)", degree, least=2 if both_ways and n > 2 else 1)
    if d >= max(n, 2):
        raise InputError(
            f"{where}(degree) must be below the number of agents, {n}, but is {d}. With all {max(n - 1, 1)} others "
            "networks.complete is exact."
        )
    name = call_name(where, n, d, seed=seed)
    if n == 1:
        return Network(name, 1, Shifts((1,), ((0,),), np.ones(1)))
    basis = max(1, d // 2) if both_ways else d

    def draw(key: int) -> np.ndarray:
        return np.random.default_rng(key).integers(1, n, size=basis)

    steps = draw_until(lambda steps: math.gcd(n, *map(int, steps)) == 1, draw, seed)
    if steps is None:
        raise InputError(
            f"{where}({n}, {d}) gave no connected graph in {DRAWS} draws: all distances and {n} had a common divisor. "
            f"Use degree {d + 2}, or another seed."
        )
    ways = np.append(steps, n - steps) if both_ways else steps
    weights = np.bincount(ways, minlength=n) * ((n - 1) / n / len(ways))
    weights[0] = 1 / n
    used = np.flatnonzero(weights)
    return Network(name, n, Shifts((n,), tuple((int(step),) for step in used), weights[used]))


def _drawn(where: str, kind: type[Ahead] | type[Paired], agents: Any, seed: Any, weight: Any) -> Network:
    n, key = whole(f"{where}(agents)", agents), draw_seed(f"{where}(seed)", seed)
    eta = WEIGHT.check(f"{where}(weight)", weight)
    name = call_name(where, n, seed=int(key))
    name = name if eta == 0.5 else f"{name[:-1]}, weight={eta:g})"
    if n == 1:
        return Network(name, 1, Shifts((1,), ((0,),), np.ones(1)))
    return Network(name, n, kind(n, np.asarray(eta * (n - 1) / n), key))
