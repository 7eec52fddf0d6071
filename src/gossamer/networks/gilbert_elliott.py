r"""Links that fail in bursts: each is a two-state Markov chain, of Gilbert and Elliott.

In each round a good link turns bad with chance $p$ and a bad one good with chance $q$; a link is down with chance
$e_G$ while it is good and $e_B$ while it is bad. With $\lambda = 1 - p - q$,

$$ \pi_B = \frac{p}{p + q}, \qquad P_h(a, B) = \pi_B + \lambda^h (1_{a = B} - \pi_B), $$

so that bad states last $1/q$ rounds in the mean, and have the autocorrelation $\lambda^h$ after $h$ rounds.

The state of round t follows from the seed without the rounds before. At the ends of blocks of $2^K$ rounds, where
$|\lambda|^{2^K} < 2^{-32}$ is less than a draw resolves, states are drawn from $\pi$; within a block the middle of an
interval is drawn given its two ends,

$$ P(s_{t+h} = B \mid s_t = a, s_{t+2h} = b) = \frac{P_h(a, B)\, P_h(B, b)}{P_{2h}(a, b)}, $$

and so on with the half in which the round lies: K + 2 draws, that all who ask for any round of the block share.

References: E. N. Gilbert, "Capacity of a burst-noise channel", 1960; E. O. Elliott, "Estimates of error rates for codes
on burst-noise channels", 1963.
"""

import math
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, UInt

from gossamer.basics.cipher import BURSTS, NETWORK
from gossamer.core import InputError, Range
from gossamer.networks.drawn import Drawn, Draws, seed_leaf
from gossamer.networks.faults import Chances, each_round, unit
from gossamer.networks.mixers import Directed, Explicit, mixer
from gossamer.networks.network import Network, check_plain

TURNS = Range(1e-6, 1, advice="It is the chance that the state of a link changes in one round.")
LOSS = Range(0, 1, advice="It is the chance that a link is down in one round.")

RESOLVED = 2.0**-32
"""The correlation of two states below which they are drawn independently."""


def gilbert_elliott(
    network: Network, to_bad: float, to_good: float, loss_good: float = 0.0, loss_bad: float = 1.0, seed: int = 0
) -> Network:
    r"""Let links fail in bursts: each has a good and a bad state, and is down with a chance that its state decides.

    A good link turns bad with chance `to_bad` in a round, a bad one good with chance `to_good`; it is down with chance
    `loss_good` or `loss_bad`. So a bad state lasts 1 / `to_good` rounds in the mean, and a link is down in the share
    `(to_good * loss_good + to_bad * loss_bad) / (to_bad + to_good)` of all rounds. Both directions of a link share its
    state and fail at once; weights are mended as in `failing`.

    `gap` is that of one round. Rounds depend on each other here, and a burst delays a network by more than it says.
    """
    check_plain("gilbert_elliott", network)
    p, q = TURNS.check("gilbert_elliott(to_bad)", to_bad), TURNS.check("gilbert_elliott(to_good)", to_good)
    good, bad = LOSS.check("gilbert_elliott(loss_good)", loss_good), LOSS.check("gilbert_elliott(loss_bad)", loss_bad)
    if good > bad:
        raise InputError(
            f"gilbert_elliott: loss_good = {good:g} is above loss_bad = {bad:g}: the good state loses less. Swap them?"
        )
    if good == 1:
        raise InputError("gilbert_elliott: loss_good = 1 lets nobody ever meet: take a smaller one.")
    if p + q > 2 - 2 * TURNS.low:
        raise InputError(
            f"gilbert_elliott: to_bad = {p:g} and to_good = {q:g} let every link change its state in every round, "
            "which is no chance any more: take smaller ones."
        )
    key = seed_leaf("gilbert_elliott(seed)", seed)
    bridges, share, losses = _bridges(p, q), np.asarray(p / (p + q)), np.array([good, bad])

    def bursts(explicit: Any) -> Bursts:
        return Bursts(network.agents, explicit, bridges, share, losses, key, explicit.is_symmetric)

    shown = f", loss_good={good:g}" * (good != 0) + f", loss_bad={bad:g}" * (bad != 1)
    name = f"gilbert_elliott({network.name}, to_bad={p:g}, to_good={q:g}{shown}, seed={key})"
    return Network(name, network.agents, each_round(network.mixer, bursts), names=network.names)


def _bridges(p: float, q: float) -> Float[np.ndarray, "levels 2 2"]:
    """Return the chance that the middle of an interval is bad, by its ends: of 2, 4, 8, … rounds."""
    lam = 1 - p - q
    levels = 1 if not lam else max(1, math.ceil(math.log2(math.log(RESOLVED) / math.log(abs(lam)))))
    stationary = np.array([q, p]) / (p + q)

    # the chance of each state after so many rounds, by the state now
    def after(rounds: int) -> np.ndarray:
        return stationary + lam**rounds * (np.eye(2) - stationary)

    tables = []
    for level in range(levels):
        half, whole = after(2**level), after(2 ** (level + 1))
        both = half[:, [1]] * half[1]
        # two ends that never meet have no middle
        tables.append(np.divide(both, whole, out=np.zeros((2, 2)), where=whole > 0))
    return np.stack(tables)


@mixer("base", "bridges", "stationary", "loss", "seed")
class Bursts(Chances):
    """Links that are down in bursts; make it with `gilbert_elliott`."""

    kind: ClassVar[str] = "bursts"
    agents: int
    base: Explicit | Directed | Drawn
    bridges: Float[Any, "levels 2 2"]
    stationary: Float[Any, ""]
    """The share of rounds in which a link is bad."""
    loss: Float[Any, "2"]
    """The chance that a good link is down, and that of a bad one."""
    seed: UInt[Any, ""]
    symmetric: bool

    @property
    def rates(self) -> tuple[float, float]:
        good, bad = map(float, self.loss)
        return good + float(self.stationary) * (bad - good), 0.0

    @property
    def spacing(self) -> int:
        return max(2 ** min(len(self.bridges), 23), super().spacing)  # 256 times as much is a round that is known

    def up(self, t: Any, xp: Any, i: Any, j: Any) -> Bool[Any, "..."]:
        good, bad = xp.asarray(self.loss).astype(np.float32)
        return self.chance(t, xp, i, j) >= xp.where(self.bad(t, xp, i, j), bad, good)

    def bad(self, t: Any, xp: Any, i: Any, j: Any) -> Bool[Any, "..."]:
        """Return True where the link of agents i and j is bad in round t."""
        levels = len(self.bridges)
        t = xp.asarray(t).astype(np.uint32)
        start = t >> np.uint32(levels) << np.uint32(levels)
        half = np.uint32(1) << np.arange(levels - 1, -1, -1, dtype=np.uint32)
        middles = (t & ~(2 * half - np.uint32(1))) + half  # of the interval of each level in which the round lies
        moments = xp.concatenate([xp.stack([start, start + np.uint32(2**levels)]), middles])
        key = Draws(xp, xp.full(1, NETWORK, np.uint32), xp.asarray(self.seed).astype(np.uint32).reshape(1))
        drawn = unit(key.fold(np.uint32(BURSTS + self.depth)).words_below(moments, self.number(xp, i, j)))
        left, right = drawn[:2] < xp.asarray(self.stationary).astype(np.float32)
        bridges = xp.asarray(self.bridges).astype(np.float32)[::-1]
        for moment, number, ((gg, gb), (bg, bb)) in zip(middles, drawn[2:], bridges, strict=True):
            middle = number < xp.where(left, xp.where(right, bb, bg), xp.where(right, gb, gg))
            left, right = xp.where(moment <= t, middle, left), xp.where(moment <= t, right, middle)
        return left
