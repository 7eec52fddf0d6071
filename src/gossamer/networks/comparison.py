"""A comparison of all networks that have a name, for one number of agents: their costs, and how fast they mix."""

import inspect
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossamer.basics.progress import Report, reporting
from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.basics.table import Table
from gossamer.core import InputError, Range, whole
from gossamer.networks import measures
from gossamer.networks.network import Network
from gossamer.networks.registry import NETWORKS, make

EXACT = 1e-13
"""The disagreement that is nothing but rounding."""


@dataclass(frozen=True)
class Compared:
    """A network, its measures by name, and the disagreement of its agents after 0, 1, 2, … rounds."""

    name: str
    network: Network
    measures: dict[str, Any]
    """Costs, degrees, diameter, gap, and how fast agents agreed: `rounds` and `messages` are None if they did not."""
    disagreement: np.ndarray
    messages: np.ndarray
    """The messages that an agent had sent by then, in the mean."""


@dataclass(frozen=True)
class NetworkComparison:
    """A table of networks of the same size, those that agree in the fewest rounds first. `print` shows it."""

    agents: int
    target: float
    limit: int
    """The most rounds that were mixed."""
    rows: list[Compared]
    left_out: dict[str, str]
    """The names of which no network was made, each with the reason."""

    def asdict(self) -> dict[str, Any]:
        """Return the table as a dictionary, for a JSON file."""
        rows = [row.measures | {"disagreement": row.disagreement.tolist()} for row in self.rows]
        return {"agents": self.agents, "target": self.target, "networks": rows, "left_out": self.left_out}

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the head and the rows, as text."""
        keys = ("sends", "degree", "diameter", "gap", "effective_neighbors", "rate")
        head = ["network", "sends", "degree", "diameter", "ρ", "in effect", "rate", "rounds", "messages"]
        body = []
        for row in self.rows:
            found, sent = row.measures, row.measures["messages"]
            numbers = (found[key] for key in keys)
            shown = ("–" if x is None else str(x) if isinstance(x, int) else f"{x:.3g}" for x in numbers)
            rounds = f"> {self.limit:,}" if sent is None else f"{found['rounds']:,}"
            body.append([row.name, *shown, rounds, "–" if sent is None else f"{sent:,.0f}"])
        return head, body

    def __str__(self) -> str:
        head, body = self.cells()
        table = Table(head, body, [False] + [True] * (len(head) - 1)).text()
        words = (
            f"{self.agents:,} agents. sends, degree: the others that an agent sends to in a round, and in all rounds;\n"
            "in effect: the agents that it averages with at γ = 0.9. Measured: rate, the share of the disagreement\n"
            f"that a round takes away; rounds and messages of an agent until {self.target:g} of it is left."
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
    progress: bool | Report = False,
) -> NetworkComparison:
    """Compare every network that has a name and can have this number of agents: its costs, and how fast it mixes.

    Args:
        agents: the number of agents, at least 2.
        degree: given to all networks that take one. Random graphs get it in the mean. Without it, networks that need a
            degree get an even one near log₂ n, and random graphs are dense enough to be connected.
        target: the share of the disagreement at which agents count as agreed.
        rounds: the most rounds that are mixed until then.
        progress: True to show progress, or a function to report to.
    """
    n = whole("compare(agents)", agents, least=2, advice="One agent has nobody to agree with.")
    most = {"most": n - 1, "advice": f"Each of {n} agents has {n - 1} others."}
    d = None if degree is None else whole("compare(degree)", degree, **most)
    limit = whole("compare(rounds)", rounds)
    goal = Range(0, 1, False, True, "It is the share of the disagreement that is left.").check(
        "compare(target)", target
    )
    # eight vectors that disagree, their copies, and a matrix of a few entries an agent
    refuse_beyond_memory(f"a comparison of networks of {n:,} agents", 500 * n, "use fewer agents")
    # what a network needs besides the number of agents, if nobody says otherwise; random graphs are then connected
    usual = {
        "degree": max(1, min(n - 1, 2 * max(1, round(math.log2(n) / 2)))),
        "probability": min(1.0, 2 * math.log(n) / n if d is None else d / (n - 1)),
        "radius": math.sqrt((4 * math.log(n) / n if d is None else d / (n - 1)) / math.pi),
    }
    rows, left_out = [], {}
    with reporting(progress) as report:
        for name, maker in NETWORKS.items():
            takes = inspect.signature(maker).parameters
            if d is not None and "degree" in takes:
                given: dict[str, Any] = {"degree": d}
            else:
                required = (key for key, one in takes.items() if one.default is one.empty)
                given = {key: usual[key] for key in required if key in usual}
            try:
                network = make(name, n, **given)
            except InputError as error:
                left_out[name] = str(error)
                continue
            rows.append(_measure(name, network, limit, goal, report))
    # those that did not agree come last
    rows.sort(key=lambda row: (row.measures["rounds"] or math.inf, row.messages[-1], row.name))
    return NetworkComparison(n, goal, limit, rows, left_out)


def _measure(name: str, network: Network, limit: int, goal: float, report: Report) -> Compared:
    """Let the agents gossip until they agree, and count their messages."""
    mixer = network.mixer
    left = measures.disagreement(
        mixer, network.agents, limit, goal, None, 0, lambda rounds: report(name, rounds, limit, None)
    )
    rounds, rest = len(left) - 1, float(left[-1])
    if not network.changes or mixer.random:
        each = np.full(rounds, network.traffic)
    else:
        each = np.resize([mixer.sends(t) for t in range(min(mixer.period, rounds))], rounds)
    messages, agreed = np.append(0.0, np.cumsum(each)), rest <= goal
    found = {
        "name": name,
        "network": network.name,
        "sends": network.traffic,
        "degree": int(network.degrees.max()),
        "mean_degree": float(network.degrees.mean()),
        "diameter": network.diameter,
        "gap": network.gap,
        "effective_neighbors": network.effective_neighbors(),
        # the share of the disagreement that a round takes away; 1 if all that is left is rounding
        "rate": 1.0 if rest < EXACT else 1 - rest ** (1 / rounds),
        "rounds": rounds if agreed else None,
        "messages": float(messages[-1]) if agreed else None,
    }
    return Compared(name, network, found, left, messages)
