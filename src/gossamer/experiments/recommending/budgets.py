"""What rounds of a way cost, and how many a budget pays for."""

import math
from typing import NamedTuple

import numpy as np

from gossamer.clocks.recursion import seconds
from gossamer.clocks.schedule import schedule
from gossamer.core import Rule
from gossamer.engines.costs import orders, paid, work_of
from gossamer.experiments.recommending.question import Paid
from gossamer.experiments.recommending.ways import Way

PROBE = 128
"""Rounds that are timed exactly while the search goes on; later ones take as long as the second half of these."""

MOST = 2**31 - 1


class Costs(NamedTuple):
    """What the rounds of a way cost."""

    ends: np.ndarray
    """When each of the first rounds is over, from round 0 on, in seconds by the clock; the mean over its seeds."""
    sent: tuple[float, float]
    """Bytes that an agent sends at the start, and in each round."""
    queries: float = 1.0
    """Gradients that an agent asks for in each round."""

    def at(self, currency: Paid, rounds: float) -> float:
        """What so many rounds cost; between two, on a straight line."""
        if currency == "rounds":
            return rounds
        if currency == "bytes":
            return self.sent[0] + rounds * self.sent[1]
        last = len(self.ends) - 1
        if rounds <= last:
            return float(np.interp(rounds, np.arange(last + 1), self.ends))
        return float(self.ends[-1] + (rounds - last) * self._pace)

    def within(self, currency: Paid, amount: float) -> int:
        """How many whole rounds a budget pays for; −1 if it does not even pay for the start."""
        if self.at(currency, 0) > amount:
            return -1
        if currency == "seconds" and self.ends[-1] > amount:
            return int(np.searchsorted(self.ends, amount, side="right")) - 1
        if currency == "seconds":
            extra, each = amount - float(self.ends[-1]), self._pace
            return MOST if not each else min(MOST, len(self.ends) - 1 + math.floor(extra / each))
        each = 1.0 if currency == "rounds" else self.sent[1]
        return MOST if not each else min(MOST, math.floor((amount - self.at(currency, 0)) / each))

    @property
    def _pace(self) -> float:
        half = (len(self.ends) - 1) // 2
        return float(self.ends[-1] - self.ends[half]) / (len(self.ends) - 1 - half)


def costs_of(way: Way, rule: Rule, dtype: str, rounds: int = PROBE, seeds: tuple[int, ...] = (0,)) -> Costs:
    """The costs of a way, timed exactly for so many rounds; where nobody waits, by the schedules of these seeds."""
    parts = way.parts
    made_of = rule, parts.problem, parts.network, parts.oracle, dtype
    pays = paid(*made_of)
    assert parts.clock is not None
    if parts.network.asynchronous:
        assert parts.network.clock is not None
        work, agents = work_of(*made_of), parts.network.agents
        several = [schedule(parts.network, parts.network.clock, work, seed, rounds) for seed in seeds]
        ends = np.mean([np.append(one.begin, one.ends[agents - 1 :: agents]) for one in several], axis=0)
    else:
        ends = seconds(orders(*made_of), parts.network, parts.clock, range(rounds + 1)).mean(0)
    return Costs(ends, pays["bytes_sent"], pays["queries"][1])


def exact_costs(
    way: Way, rule: Rule, dtype: str, currency: Paid, amount: float, near: Costs, seeds: tuple[int, ...]
) -> Costs:
    """The costs of a way, timed exactly for all rounds that a budget pays for."""
    rounds = max(PROBE, math.ceil(1.02 * near.within(currency, amount)) + 2)
    while True:
        exact = costs_of(way, rule, dtype, rounds, seeds)
        if exact.within(currency, amount) < len(exact.ends):
            return exact
        rounds *= 2
