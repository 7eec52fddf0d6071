"""All networks that have a name, side by side for one number of agents: what they cost and what they are worth."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gossamer.basics.progress import Report, reporting
from gossamer.basics.table import Table
from gossamer.core import InputError, Range, whole
from gossamer.networks import measures
from gossamer.networks.network import Network
from gossamer.networks.registry import NETWORKS, make

EXACT = 1e-13
"""What is left of a disagreement when it is nothing but rounding."""


@dataclass(frozen=True)
class Compared:
    """One network, what was measured of it, and how far the agents were apart after 0, 1, 2, … rounds."""

    name: str
    network: Network
    neighbors: float | None
    disagreement: np.ndarray
    messages: np.ndarray
    """How many messages an agent has sent by then, in the mean."""
    target: float

    @property
    def rounds(self) -> int | None:
        """After how many rounds the target was met."""
        return len(self.disagreement) - 1 if self.disagreement[-1] <= self.target else None

    @property
    def sent(self) -> float | None:
        """How many messages an agent had sent by then."""
        return None if self.rounds is None else float(self.messages[-1])

    @property
    def rate(self) -> float:
        """The share of the disagreement that a round took away, in the mean of those measured; 1 where none is left."""
        left = float(self.disagreement[-1])
        return 1.0 if left < EXACT else 1 - left ** (1 / (len(self.disagreement) - 1))

    def asdict(self) -> dict[str, Any]:
        degrees = self.network.degrees
        return {
            "name": self.name,
            "network": self.network.name,
            "sends": self.network.traffic,
            "degree": int(degrees.max()),
            "mean_degree": float(degrees.mean()),
            "diameter": self.network.diameter,
            "gap": self.network.gap,
            "effective_neighbors": self.neighbors,
            "rate": self.rate,
            "rounds": self.rounds,
            "messages": self.sent,
            "disagreement": self.disagreement.tolist(),
        }


@dataclass(frozen=True)
class Comparison:
    """Networks of the same agents, those that agree in the fewest rounds first. Printed it is text for a terminal."""

    agents: int
    target: float
    decay: float
    limit: int
    """How many rounds were mixed at most."""
    rows: list[Compared]
    left_out: dict[str, str]
    """The names that no network was made of, and why."""

    def asdict(self) -> dict[str, Any]:
        """All of it, for a JSON file."""
        head = {"agents": self.agents, "target": self.target, "decay": self.decay}
        return head | {"networks": [row.asdict() for row in self.rows], "left_out": self.left_out}

    @cached_property
    def cells(self) -> tuple[list[str], list[list[str]]]:
        """The head and the rows, as text."""
        head = ["network", "sends", "degree", "diameter", "ρ", "in effect", "rate", "rounds", "messages"]
        return head, [self._cells(row) for row in self.rows]

    def _cells(self, row: Compared) -> list[str]:
        found = row.asdict()
        gap, neighbors = (found[key] for key in ("gap", "effective_neighbors"))
        return [
            row.name,
            f"{found['sends']:.3g}",
            str(found["degree"]),
            str(found["diameter"]),
            "–" if gap is None else f"{gap:.3g}",
            "–" if neighbors is None else f"{neighbors:.3g}",
            f"{found['rate']:.3g}",
            f"> {self.limit:,}" if row.rounds is None else f"{row.rounds:,}",
            "–" if row.sent is None else f"{row.sent:,.0f}",
        ]

    def __str__(self) -> str:
        head, body = self.cells
        table = Table(head, body, [False] + [True] * (len(head) - 1)).text()
        words = (
            f"{self.agents:,} agents. An agent sends to so many others in a round (sends), to so many in all rounds "
            f"(degree);\nin effect it averages with so many at γ = {self.decay:g}. Measured: the share of the "
            f"disagreement that a round takes\naway, and the rounds and messages of an agent until {self.target:g} of "
            "it is left."
        )
        reasons = [f"  {name}: {reason}" for name, reason in self.left_out.items()]
        return "\n".join([table, "", words, *(["", "Left out:", *reasons] if reasons else [])])

    __repr__ = __str__


def compare(
    agents: int,
    degree: int | None = None,
    *,
    target: float = 1e-6,
    rounds: int = 5_000,
    decay: float = 0.9,
    progress: bool | Report = False,
) -> Comparison:
    """Every network that has a name and can have this number of agents, with what it costs and how fast it mixes.

    Args:
        agents: how many, at least 2.
        degree: given to all networks that take one. Random graphs get it in the mean. Without it, networks that need a
            degree get an even one near log₂ n, and random graphs are dense enough to be connected.
        target: the share of the disagreement at which agents count as agreed.
        rounds: how many rounds are mixed at most until then.
        decay: γ of `Network.effective_neighbors`.
        progress: whether to show it, or a function to report to.
    """
    n = whole("compare(agents)", agents, least=2, advice="One agent has nobody to agree with.")
    most = {"most": n - 1, "advice": f"Each of {n} agents has {n - 1} others."}
    d = None if degree is None else whole("compare(degree)", degree, **most)
    limit = whole("compare(rounds)", rounds)
    goal = Range(0, 1, False, True, "It is the share of the disagreement that is left.").check(
        "compare(target)", target
    )
    gamma = measures.DECAY.check("compare(decay)", decay)
    rows, left_out = [], {}
    with reporting(progress) as report:
        for name in NETWORKS:
            try:
                network = make(name, n, **_options(name, n, d))
            except InputError as error:
                left_out[name] = str(error)
                continue
            rows.append(_compared(name, network, limit, goal, gamma, report))
    rows.sort(key=lambda row: (math.inf if row.rounds is None else row.rounds, row.messages[-1], row.name))
    return Comparison(n, goal, gamma, limit, rows, left_out)


def _compared(name: str, network: Network, limit: int, goal: float, gamma: float, report: Report) -> Compared:
    def seen(rounds: int) -> None:
        report(name, rounds, limit, None)

    left = measures.disagreement(network.mixer, network.agents, limit, goal, None, 0, seen)
    each = _sends(network, len(left) - 1)
    return Compared(name, network, network.effective_neighbors(gamma), left, np.append(0.0, np.cumsum(each)), goal)


def _sends(network: Network, rounds: int) -> np.ndarray:
    """How many messages an agent sends in each round, in the mean over agents."""
    mixer = network.mixer
    if not network.changes or mixer.random:
        return np.full(rounds, network.traffic)
    period = np.array([mixer.sends(t) for t in range(min(mixer.period, rounds))])
    return np.resize(period, rounds)


def _options(name: str, n: int, degree: int | None) -> dict[str, Any]:
    """What a network needs to be told besides the number of agents."""
    takes = inspect.signature(NETWORKS[name]).parameters
    if degree is not None and "degree" in takes:
        return {"degree": degree}
    needed = [key for key, one in takes.items() if one.default is inspect.Parameter.empty and key in USUAL]
    return {key: USUAL[key](n, degree) for key in needed}


def _probability(n: int, degree: int | None) -> float:
    return min(1.0, 2 * math.log(n) / n if degree is None else degree / (n - 1))


def _radius(n: int, degree: int | None) -> float:
    near = 4 * math.log(n) / n if degree is None else degree / (n - 1)
    return math.sqrt(near / math.pi)


USUAL: dict[str, Callable[[int, int | None], Any]] = {
    "degree": lambda n, degree: max(1, min(n - 1, 2 * max(1, round(math.log2(n) / 2)))),
    "probability": _probability,
    "radius": _radius,
}
"""Options that a network needs, by the number of agents."""
