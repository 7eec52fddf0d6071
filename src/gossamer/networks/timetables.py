r"""Timetables: agents that are online in some rounds only, by a file, or because rounds close before they are ready.

With a deadline all agents begin a round together. Agent i computes one query for $c_i$ seconds, which its clock draws,
and then sends a message, which comes to agent j after the seconds $d_{ij}$ that it travels. The round closes after $D$
seconds:

- an agent with $c_i > D$ is late: its gradient is dropped, and it sleeps in this round;
- a link with $\max(c_i + d_{ij}, c_j + d_{ji}) > D$ is down in both directions, and both ends know it.

Those who lose weight keep it. A symmetric $W$ stays doubly stochastic, so that trackers sum to the gradients of all,
and what is late costs time and no accuracy.
"""

import csv
import functools
import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import InputError, Range, brief, nearest, whole
from gossamer.data.files import existing_file
from gossamer.networks.drawn import Drawn
from gossamer.networks.faults import Mended, each_round
from gossamer.networks.mixers import Directed, Explicit, Mixer, mixer
from gossamer.networks.network import Network, check_plain
from gossamer.networks.sequences import LONGEST_PERIOD, check_union
from gossamer.networks.weights import find_links, join_links

HEADER = ["agent", "first", "last"]
SECONDS = Range(0, 1e9, low_open=True, advice="It is a number of seconds above 0.")
BYTES = Range(0, 1e15, advice="It is the number of bytes of a message.")

TIES = 1 + 1e-6
"""The factor of a deadline up to which an arrival is in time: rounding in float32."""

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
    online = _read(existing_file(file, WHAT), network.agents, names)

    def timetable(explicit: Any) -> Timetable:
        return Timetable(network.agents, explicit, online, explicit.is_symmetric)

    return _follow(network, timetable, f"availability({network.name}, {os.path.basename(file)})", names)


def _follow(network: Network, law: Callable[[Any], Mixer], name: str, names: Sequence[str] | None = None) -> Network:
    """Return the network under a timetable; raise InputError unless the links of all rounds connect the agents."""
    found = Network(name, network.agents, each_round(network.mixer, law), names=network.names)
    check_union(found.mixer, f"{name}: the union of the links of all rounds", names or network.names)
    return found


def _read(path: Path, agents: int, names: Sequence[str] | None) -> Bool[np.ndarray, "rounds agents"]:
    """Return who is online in each round of the timetable in a file."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as text:
            lines = [(number, [cell.strip() for cell in row]) for number, row in enumerate(csv.reader(text), 1) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as CSV: {error}. {WHAT}") from error
    if not lines or lines[0][1] != HEADER:
        raise InputError(f"{path} must begin with the line agent,first,last. {WHAT}")
    if len(lines) == 1:
        raise InputError(f"{path} has no line below its header, so that all agents are always online: leave it out.")
    places = {str(name): k for k, name in enumerate(range(agents) if names is None else names)}
    stretches = [_read_line(f"{path}, line {number}", row, places, names is None) for number, row in lines[1:]]
    rounds = 1 + max(max(first, last or 0) for _, first, last in stretches)
    refuse_beyond_memory(
        f"a timetable of {rounds:,} rounds of {agents:,} agents", rounds * agents, "use shorter ones, or fewer agents"
    )
    # an agent that no line names stays online
    online = np.ones((rounds, agents), bool)
    online[:, [agent for agent, _, _ in stretches]] = False
    for agent, first, last in stretches:
        online[first : rounds if last is None else last + 1, agent] = True
    return online


def _read_line(where: str, row: list[str], places: dict[str, int], numbered: bool) -> tuple[int, int, int | None]:
    """Return the agent, the first and the last round of a line; None stands for the end of the timetable."""
    if len(row) != len(HEADER):
        raise InputError(
            f"{where} must have three cells, agent,first,last, but has {len(row)}: {brief(','.join(row))}."
        )
    agent, *rounds = row
    if agent not in places:
        known = f"they are 0 … {len(places) - 1}." if numbered else nearest(agent, places)
        raise InputError(f"{where}: {brief(agent)} is no agent of the network; {known}")
    numbers = [
        whole(
            f"{where}: {what}",
            int(text) if text.isdecimal() and len(text) < 10 else text,  # anything else is refused as it stands
            least=0,
            most=LONGEST_PERIOD - 1,
            advice="It is the number of a round, 0 for the first of all.",
        )
        for what, text in zip(HEADER[1:], rounds, strict=True)
        if text or what == "first"
    ]
    first, last = numbers[0], numbers[1] if len(numbers) == 2 else None
    if last is not None and last < first:
        raise InputError(f"{where}: the last round, {last}, is before the first, {first}. Swap them?")
    return places[agent], first, last


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
    def period(self) -> int:
        return math.lcm(len(self.online), super().period)

    @property
    def timetabled(self) -> bool:
        return True

    @property
    def sleeps(self) -> bool:
        return True

    def active(self, t: int) -> float:
        return float(self.online[t % len(self.online)].mean()) * self.base.active(t)


# --- rounds that close ---


def deadline(network: Network, clock: Any, seconds: float, bytes: float = 0.0, rounds: int = 1_000) -> Network:
    """Close every round after so many seconds with whoever has come; an agent that computes for longer sleeps in it.

    All agents begin a round together, compute one query and send one message, as the clock says, whatever the rule does
    in a round. A link is down where one of its two messages comes too late, and weights are mended as in `failing`.
    Under a clock, each round of a run lasts `seconds`.

    Args:
        network: who talks to whom.
        clock: made by `gossamer.clock`: compute times, slow agents, outages and links.
        seconds: the length of a round.
        bytes: the bytes of a message; unless given, a message takes the latency alone.
        rounds: how many rounds are drawn if the clock's times are random; then they begin again.
    """
    check_plain("deadline", network)
    if network.mixer.timetabled:
        raise InputError(f"{network.name} has a timetable already, and a deadline cannot stand on top of another.")
    if not all(hasattr(clock, name) for name in ("times", "absences", "links", "random", "check")):
        raise InputError(f"deadline(clock) must be made by gossamer.clock(…), but is {brief(clock)}.")
    closes, size = SECONDS.check("deadline(seconds)", seconds), BYTES.check("deadline(bytes)", bytes)
    count = whole("deadline(rounds)", rounds, most=LONGEST_PERIOD)
    # times that never change need one round, which begins again
    count = count if clock.random else 1
    n = network.agents
    clock.check(n)
    refuse_beyond_memory(f"a deadline with {count:,} rounds of {n:,} agents", 16 * count * n, "use fewer rounds")
    times = clock.times(0, 0, count, n) + clock.absences(0, 0, count, n)
    # an agent that is late in every round that is drawn would never take part
    least = times.min(axis=0)
    if (late := np.flatnonzero(least > closes * TIES)).size:
        agent = int(late[least[late].argmax()])
        raise InputError(
            f"deadline: agent {agent} never has its gradient after {closes:g} s: it takes {least[agent]:.3g} s at "
            f"least ({late.size} of {n} agents are always late). Allow more seconds, or leave these agents out."
        )
    links = clock.links
    share = network.degrees * size / links.uplinks(n)
    tables = links.group_agents(n), links.latency, size / links.bandwidth, share

    def closing(explicit: Any) -> Deadline:
        online = times <= closes * TIES
        return Deadline(n, explicit, online, explicit.is_symmetric, times, *tables, closes)

    return _follow(network, closing, f"deadline({network.name}, {closes:g} s{f', {size:g} bytes' if size else ''})")


@mixer("base", "online", "times", "group", "latency", "wire", "share")
class Deadline(Timetable):
    """Rounds that close after a time; make it with `deadline`."""

    kind: ClassVar[str] = "deadline"
    times: Float[Any, "rounds agents"]
    """The seconds after which each agent has its gradient."""
    group: Int[Any, " agents"]
    latency: Float[Any, "groups groups"]
    wire: Float[Any, "groups groups"]
    """The seconds of a message on a link, by the groups of its ends."""
    share: Float[Any, " agents"]
    """The seconds of all messages of an agent on its uplink."""
    seconds: float

    def up(self, t: Any, xp: Any, i: Any, j: Any) -> Bool[Any, "..."]:
        # in float32 on the host as well, so that the host and a compiled program agree on who is late
        times, latency, wire, share = (
            xp.asarray(each).astype(np.float32) for each in (self.times, self.latency, self.wire, self.share)
        )
        group, ready = xp.asarray(self.group), times[t % len(self.times)]

        def arrival(i: Any, j: Any) -> Any:
            pair = group[i], group[j]
            return ready[i] + latency[pair] + xp.maximum(wire[pair], share[i])

        return xp.maximum(arrival(i, j), arrival(j, i)) <= np.float32(self.seconds * TIES)

    @property
    def closes(self) -> float:
        return self.seconds
