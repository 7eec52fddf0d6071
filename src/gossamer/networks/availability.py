"""Agents that come and go by a timetable, which a file has."""

import csv
import functools
import math
import os
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool

from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import InputError, brief, nearest
from gossamer.data.files import existing_file
from gossamer.networks.digraphs import check_strongly_connected
from gossamer.networks.drawn import Drawn
from gossamer.networks.faults import Mended, each_round
from gossamer.networks.mixers import Directed, Explicit, mixer
from gossamer.networks.network import Network, check_plain
from gossamer.networks.sequences import LONGEST_PERIOD
from gossamer.networks.weights import check_one_part, find_links, join_links

HEADER = ["agent", "first", "last"]
WHAT = "It is a CSV file with the header agent,first,last, and a line for each stretch of rounds of an agent."


def availability(network: Network, file: str | os.PathLike[str], nodes: Sequence[str] | None = None) -> Network:
    """Let agents be online only in the rounds that a CSV file says; an agent that is offline sleeps.

    The file has the header ``agent,first,last``. A line says that an agent is online from round `first` to round
    `last`, both included, or to the end of the timetable where `last` is empty. An agent may have several lines; one
    that has none is always online. The timetable ends with the largest number in the file, and then begins again.
    Agents are called by their numbers, or by names: those of the network, or `nodes`, such as `problem.agent_names`.

    An agent that is offline has all its links down and does nothing in that round, as in `failing`.
    """
    check_plain("availability", network)
    if network.mixer.timetabled:
        raise InputError(f"{network.name} has a timetable already: write both into one file.")
    if nodes is not None and not (
        isinstance(nodes, list | tuple)
        and all(isinstance(one, str) for one in nodes)
        and len(nodes) == len(set(nodes)) == network.agents
    ):
        raise InputError(
            f"availability(nodes) must be {network.agents} different names, one for each agent, but is {brief(nodes)}."
        )
    if not isinstance(file, str | os.PathLike):
        raise InputError(f"availability(file) must be the path of a CSV file, but is {brief(file)}.")
    names = network.names or nodes
    online = _read(file, network.agents, None if names is None else list(names))
    shown = f"availability({network.name}, {os.path.basename(file)})"

    def timetable(explicit: Any) -> Timetable:
        return Timetable(network.agents, explicit, online, explicit.is_symmetric)

    found = Network(shown, network.agents, each_round(network.mixer, timetable), names=network.names)
    check_union(found, names)
    return found


def check_union(network: Network, names: Sequence[str] | None = None) -> None:
    """Raise InputError unless the links of all rounds of a timetable connect the agents."""
    union = network.mixer.union()
    assert union is not None
    what = f"{network.name}: the union of the links of all rounds"
    (check_one_part if network.mixer.doubly else check_strongly_connected)(union, what, names)


def _read(file: str | os.PathLike[str], agents: int, names: list[str] | None) -> Bool[np.ndarray, "rounds agents"]:
    """Return who is online in each round of the timetable in a file."""
    path = existing_file(file, WHAT)
    try:
        with open(path, encoding="utf-8-sig", newline="") as text:
            lines = [(number, [cell.strip() for cell in row]) for number, row in enumerate(csv.reader(text), 1) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as CSV: {error}. {WHAT}") from error
    if not lines or lines[0][1] != HEADER:
        raise InputError(f"{path} must begin with the line agent,first,last. {WHAT}")
    stretches = [_read_line(f"{path}, line {number}", row, agents, names) for number, row in lines[1:]]
    rounds = 1 + max((max(first, last or 0) for _, first, last in stretches), default=-1)
    if not stretches:
        raise InputError(f"{path} has no line below its header, so that all agents are always online: leave it out.")
    refuse_beyond_memory(
        f"a timetable of {rounds:,} rounds of {agents:,} agents", rounds * agents, "use shorter ones, or fewer agents"
    )
    online = np.ones((rounds, agents), bool)
    online[:, [agent for agent, _, _ in stretches]] = False
    for agent, first, last in stretches:
        online[first : rounds if last is None else last + 1, agent] = True
    return online


def _read_line(where: str, row: list[str], agents: int, names: list[str] | None) -> tuple[int, int, int | None]:
    """Return the agent, the first and the last round of a line; None stands for the end of the timetable."""
    if len(row) != len(HEADER):
        raise InputError(
            f"{where} must have three cells, agent,first,last, but has {len(row)}: {brief(','.join(row))}."
        )
    if names is not None and row[0] in names:
        agent = names.index(row[0])
    elif names is None and _is_below(row[0], agents):
        agent = int(row[0])
    else:
        known = f"they are 0 … {agents - 1}." if names is None else nearest(row[0], names)
        raise InputError(f"{where}: {brief(row[0])} is no agent of the network; {known}")
    first, last = (_round(where, what, cell) for what, cell in zip(HEADER[1:], row[1:], strict=True))
    if first is None:
        raise InputError(f"{where}: first must be a round, 0 for the first of all, but is empty.")
    if last is not None and last < first:
        raise InputError(f"{where}: the last round, {last}, is before the first, {first}. Swap them?")
    return agent, first, last


def _round(where: str, what: str, cell: str) -> int | None:
    if cell and not _is_below(cell, LONGEST_PERIOD):
        raise InputError(
            f"{where}: {what} must be a whole number from 0 to {LONGEST_PERIOD - 1:,}, the number of a round, but is "
            f"{brief(cell)}."
        )
    return int(cell) if cell else None


def _is_below(cell: str, limit: int) -> bool:
    """Return True if the cell is a whole number from 0 on below the limit."""
    return cell.isascii() and cell.isdecimal() and len(cell) < 10 and int(cell) < limit


@mixer("base", "online")
class Timetable(Mended):
    """Agents that are online in some rounds of a timetable, which begins again after its last."""

    kind: ClassVar[str] = "timetable"
    agents: int
    base: Explicit | Directed | Drawn
    online: Bool[Any, "rounds agents"]
    symmetric: bool

    def awake(self, t: Any, xp: Any = np) -> Bool[Any, " agents"]:
        base, mine = self.base.awake(t, xp), xp.asarray(self.online)[t % len(self.online)]
        return mine if base is None else mine & base

    def up(self, t: Any, xp: Any, i: Any, j: Any) -> Bool[Any, "..."]:
        online = xp.asarray(self.online)[t % len(self.online)]
        return online[i] & online[j]

    def union(self, rounds: Iterable[int] | None = None) -> sp.csr_array:
        """Return the links that are up in some round, or in one of these."""
        i, j = self._pairs
        met = np.zeros(len(i), bool)
        for t in range(len(self.online)) if rounds is None else {t % len(self.online) for t in rounds}:
            met |= self.up(t, np, i, j)
        return join_links(self.agents, i[met], j[met])

    def sends(self, t: int) -> float:
        i, j = self._pairs
        return self.base.sends(t) * float(self.up(t, np, i, j).mean()) if len(i) else 0.0

    @functools.cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        union = self.base.union()
        return find_links(np.ones((self.agents, self.agents)) if union is None else union)

    @property
    def traffic(self) -> float:
        return sum(map(self.sends, range(self.period))) / self.period

    @property
    def pace(self) -> float:
        return sum(self.sends(t) > 0 for t in range(self.period)) / self.period

    @property
    def period(self) -> int:
        return math.lcm(len(self.online), self.base.period)

    @property
    def timetabled(self) -> bool:
        return True

    @property
    def sleeps(self) -> bool:
        return True

    def active(self, t: int) -> float:
        return float(self.online[t % len(self.online)].mean()) * self.base.active(t)
