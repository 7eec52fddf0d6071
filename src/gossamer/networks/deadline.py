r"""Rounds that close after a time, with whoever has come.

All agents begin a round together. Agent i computes one query for $c_i$ seconds, which its clock draws, and then sends a
message, which comes to agent j after the seconds $d_{ij}$ that it travels. The round closes after $D$ seconds:

- an agent with $c_i > D$ is late: its gradient is dropped, and it sleeps in this round;
- a link with $\max(c_i + d_{ij}, c_j + d_{ji}) > D$ is down in both directions, and both ends know it.

Those who lose weight keep it. A symmetric $W$ stays doubly stochastic, so that trackers sum to the gradients of all,
and what is late costs time and no accuracy.
"""

from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import InputError, Range, brief, whole
from gossamer.networks.availability import Timetable, check_union
from gossamer.networks.faults import each_round
from gossamer.networks.mixers import mixer
from gossamer.networks.network import Network, check_plain
from gossamer.networks.sequences import LONGEST_PERIOD

SECONDS = Range(0, 1e9, low_open=True, advice="It is a number of seconds above 0.")
BYTES = Range(0, 1e15, advice="It is the number of bytes of a message.")

TIES = 1 + 1e-6
"""The factor of a deadline up to which an arrival is in time: rounding in float32."""


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
    count = count if clock.random else 1
    n = network.agents
    clock.check(n)
    refuse_beyond_memory(f"a deadline with {count:,} rounds of {n:,} agents", 16 * count * n, "use fewer rounds")
    times = clock.times(0, 0, count, n) + clock.absences(0, 0, count, n)
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
    name = f"deadline({network.name}, {closes:g} s{f', {size:g} bytes' if size else ''})"

    def closing(explicit: Any) -> Deadline:
        online = times <= closes * TIES
        return Deadline(n, explicit, online, explicit.is_symmetric, times, *tables, closes)

    found = Network(name, n, each_round(network.mixer, closing), names=network.names)
    check_union(found)
    return found


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
