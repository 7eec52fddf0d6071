"""Training that goes on when processes are lost or join: `Decentralized(…, elastic=True)`.

Whoever loses a neighbour leaves the group, so that its other neighbours lose it in turn, and all meet again as the next
generation: see `gossamer.torch.membership`. There they form a new process group, agree on the round, make the network
of those that are left, and restart the rule from the state that each had before the round that failed. One that joins
gets a neighbour's state. The step that failed is left out.
"""

import json
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore  # pyright: ignore[reportPrivateImportUsage]

from gossamer import networks
from gossamer.algorithms import ALGORITHMS
from gossamer.basics.lazy_networkx import is_graph
from gossamer.core import InputError, State
from gossamer.networks import NETWORKS, Network
from gossamer.networks.compatibility import suits
from gossamer.networks.surviving import surviving
from gossamer.torch.exchange import fingerprint
from gossamer.torch.meeting import meeting
from gossamer.torch.membership import Membership
from gossamer.torch.parameters import local
from gossamer.torch.rounds import Memory
from gossamer.torch.stopping import NeighborLost
from gossamer.torch.world import ProcessWorld, in_short

ATTEMPTS = 8
"""How often in a row the processes may fail to form a group."""
COPIES = 0x60553
"""The tag of what a process that joins is sent."""

says = logging.getLogger("gossamer.torch")


class Elastic:
    """The members of an elastic run, and how an optimizer goes on among them.

    Args:
        rule: must have a ``restart``.
        given: the network as the user gave it.
        start_timeout: seconds to wait for the last process at the start, and to be let in later.
        timeout: seconds to wait for a member that is silent.
    """

    def __init__(self, rule: Any, given: Any, start_timeout: float, timeout: float):
        check_restart(rule)
        if dist.is_initialized():
            raise InputError(
                "elastic=True forms the process group itself, and again after a loss: leave init_process_group out, "
                "and make one such optimizer in a process."
            )
        self.rule, self.given = rule, given
        self.fixed = fixed(given)
        """The network, where it is not given by name: a place in it is an agent's for good."""
        self.first = self.fixed.agents if self.fixed else 0
        """How many agents the first network had."""
        store, host, wanted, first = meeting(start_timeout)
        self.membership = Membership(store, host, wanted, first, start_timeout, timeout)
        self._longest = timedelta(seconds=max(start_timeout, timeout))
        self.joined = False
        """Whether this process has joined others on their way."""
        self._frozen: list[Tensor] = []
        self._facts: dict[str, str] = {}

    @property
    def late(self) -> bool:
        """Whether this process has just joined others that have a model to go on from."""
        return self.membership.generation > 1 and not self.membership.members[self.membership.rank].veteran

    @property
    def place(self) -> int:
        """The place of this process among the agents: its rank at the start; one that joins gets one that is free."""
        return self.membership.members[self.membership.rank].place

    def network(self) -> Network:
        """The network of the present members."""
        places = [member.place for member in self.membership.members]
        self.first = self.first or len(places)
        if self.fixed is not None:
            if max(places) >= self.fixed.agents:
                raise InputError(
                    f"{self.fixed.name} has {self.fixed.agents} places, all of them taken: no more can join it. Give "
                    "the network by name."
                )
            return surviving(self.fixed, places)
        try:
            return networks.of(self.given, len(places), counted="processes")
        except InputError:
            if max(places) >= self.first or len(places) == self.first:
                raise
            return surviving(networks.of(self.given, self.first), places)

    def form(self) -> None:
        """Come to the meeting place, and form the process group of all that did."""
        members = self.membership
        members.gather()
        store = PrefixStore(f"gossamer/{members.generation}", members.store)
        try:
            dist.init_process_group(
                "gloo", store=store, rank=members.rank, world_size=len(members.members), timeout=self._longest
            )
        except RuntimeError as error:
            raise NeighborLost(f"the processes could not form a group again ({in_short(error)}).") from error

    def begin(self, facts: dict[str, str], frozen: Sequence[Tensor]) -> None:
        """Keep what those that join must agree on, and the tensors besides the parameters that they are given."""
        named = isinstance(self.given, str) or self.fixed is None
        about = str(self.given) if named else fingerprint(self.fixed)  # pyright: ignore[reportArgumentType]
        self._facts, self._frozen = facts | {"network": about}, list(frozen)

    def listen(self) -> None:
        """Leave the group if somebody wants to join."""
        if self.membership.called():
            raise NeighborLost("the members regroup, since a process joins or another one was lost.")

    def retried(self, optimizer: Any, work: Callable[[], Any]) -> Any:
        """What the work gives, which all ranks do together; after a loss, once more among those that are left."""
        while True:
            try:
                return work()
            except NeighborLost as lost:
                self.regroup(optimizer, optimizer.guard.step, lost)

    def regroup(self, optimizer: Any, steps: int, lost: NeighborLost | None = None) -> None:
        """Go on with those that are left and those that join, after so many whole steps.

        Args:
            optimizer: what goes on.
            steps: how many steps this rank has ended.
            lost: why; None where the group has just been formed.
        """
        for _ in range(ATTEMPTS):
            try:
                if lost is not None:
                    before = self.membership.members
                    optimizer.world.leave()
                    self.form()
                    optimizer.world.enter(dist.group.WORLD)
                    self._say(before, lost)
                self._go_on(optimizer, steps)
                return
            except NeighborLost as error:
                lost = error
            except InputError:
                self.membership.close()
                raise
        assert lost is not None
        raise lost

    def _go_on(self, optimizer: Any, steps: int) -> None:
        memory, world = optimizer.memory, optimizer.world
        state = None if self.late else memory.state
        arrays = {} if state is None else {key: [list(a.shape), str(a.dtype)] for key, a in state.items()}
        about = {"facts": self._facts, "t": memory.t, "steps": steps, "arrays": arrays, "first": self.first}
        told = [json.loads(text) for text in world.texts(json.dumps(about))]
        veterans = [rank for rank, member in enumerate(self.membership.members) if member.veteran]
        self.first = told[veterans[0]]["first"]
        self._check_joined(told, veterans)
        network = self.network()
        suits(self.rule, network)
        optimizer.rewire(network)
        begun = all(told[rank]["t"] >= 0 for rank in veterans)
        names = [key for key in told[veterans[0]]["arrays"] if begun or key == "x"]
        t = max(told[rank]["t"] for rank in veterans) if begun else -1
        state = self._shared(world, network, t, state, told, names, veterans)
        optimizer.go_on(Memory(t, state, [], []), max(row["steps"] for row in told))
        self.membership.trained = True

    def _check_joined(self, told: list[dict[str, Any]], veterans: list[int]) -> None:
        """One that joins with other facts is refused; the others go on without it."""
        facts, rank = told[veterans[0]]["facts"], self.membership.rank
        limit = self.fixed.agents if self.fixed else None
        for other, member in enumerate(self.membership.members):
            if other in veterans:
                continue
            differ = [key for key, value in facts.items() if told[other]["facts"].get(key) != value]
            if not differ and (limit is None or member.place < limit):
                continue
            if other == rank:
                self.network()  # says so where there is no place
                mine = told[other]["facts"].get(differ[0])
                raise InputError(
                    f"this process cannot join: its {differ[0]} is {mine}, but that of the members is "
                    f"{facts[differ[0]]}. Start it by the same script with the same arguments."
                )
            raise NeighborLost(f"rank {other} wanted to join, but is of another run.")

    def _shared(
        self,
        world: ProcessWorld,
        network: Network,
        t: int,
        state: State | None,
        told: list[dict[str, Any]],
        names: list[str],
        veterans: list[int],
    ) -> State:
        """The state of this rank; those that join are sent that of a neighbour, and what else the models consist of."""
        sources = {
            rank: _source(network, max(t, 0), rank, veterans) for rank in range(world.size) if rank not in veterans
        }
        for rank, source in sources.items():
            if source == world.rank and state is not None:
                sent = [state[name] for name in names] + [local(a) for a in self._frozen]
                for a in sent:
                    _done(world, world.group.send([a.contiguous()], rank, COPIES), rank)
        if state is not None:
            return State(**{name: state[name] for name in names})
        source = sources[world.rank]
        kinds = [told[source]["arrays"][name] for name in names]
        received = [
            torch.empty(shape, dtype=getattr(torch, kind.removeprefix("torch.")), device=world.device)
            for shape, kind in kinds
        ]
        others = [torch.empty_like(local(a), memory_format=torch.contiguous_format) for a in self._frozen]
        for a in (*received, *others):
            _done(world, world.group.recv([a], source, COPIES), source)
        with torch.no_grad():
            for mine, a in zip(map(local, self._frozen), others, strict=True):
                mine.copy_(a)
        return State(**dict(zip(names, received, strict=True)))

    def _say(self, before: Sequence[Any], why: NeighborLost) -> None:
        members = self.membership
        now, then = {m.name: m.place for m in members.members}, {m.name: m.place for m in before}
        gone = [f"place {place} was lost" for name, place in then.items() if name not in now]
        came = [f"place {place} joined" for name, place in now.items() if name not in then]
        what = ", ".join([*gone, *came]) or f"nobody was lost ({why})"
        says.warning("generation %d, rank %d of %d: %s", members.generation, members.rank, len(now), what)


def elastic_of(
    wanted: bool,
    rule: Any,
    given: Any,
    device: torch.device,
    process_group: Any,
    start_timeout: float,
    timeout: float,
) -> Elastic | None:
    """What lets a run go on after a loss, where that is wanted."""
    if not wanted:
        return None
    if process_group is not None:
        raise InputError("elastic=True forms the groups of processes itself: leave process_group out.")
    if device.type != "cpu":
        raise InputError(
            f"elastic=True is for parameters on CPUs, whose messages go by gloo, but these are on {device}: a group of "
            "NCCL cannot be left while a message waits for a rank that is gone."
        )
    return Elastic(rule, given, start_timeout, timeout)


def check_restart(rule: Any) -> None:
    """Refuse a rule that does not say how it goes on among others."""
    if not hasattr(rule, "restart"):
        able = ", ".join(name for name, kind in ALGORITHMS.items() if hasattr(kind, "restart"))
        raise InputError(
            f"elastic=True needs a rule that says how it goes on after a loss, by restart(self, s), which {rule.name} "
            f"does not. Those that do: {able}."
        )


def fixed(given: Any) -> Network | None:
    """The network that was given as links or a matrix; None where it has a name, and so is made for any number."""
    if (isinstance(given, str) and given in NETWORKS) or isinstance(given, dict):
        return None
    if isinstance(given, str):
        network = networks.from_file(given)
    elif isinstance(given, Network):
        network = given
    else:
        network = networks.of(given, given.number_of_nodes() if is_graph(given) else len(given))
    surviving(network, range(network.agents))  # says whether it can lose agents at all
    return network


def _source(network: Network, t: int, rank: int, veterans: list[int]) -> int:
    """Whose state a rank is sent that joins: that of its first neighbour, if it has one that has a state."""
    row = network.matrix(t, "W" if network.stochastic == "doubly" else "R")[[rank], :].tocoo()
    return min({int(j) for j in row.col} & set(veterans), default=veterans[0])


def _done(world: ProcessWorld, work: Any, rank: int) -> None:
    try:
        world.wait(work)
    except RuntimeError as error:
        raise NeighborLost(f"rank {world.rank} lost rank {rank} while it joined ({in_short(error)}).") from error
