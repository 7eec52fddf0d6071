"""Training that goes on when processes are lost or join: `Decentralized(…, elastic=True)`.

Whoever loses a neighbour leaves the group, so that its other neighbours lose it in turn, and all meet again as the next
generation: see `gossamer.torch.membership`. There they form a new process group, tell each other the round, make the
network of those that are left, and restart the rule from the state that each had before the round that failed. One that
joins gets a neighbour's state. The step that failed is left out.

    gather          who comes is a member                           at the store
    meet "enters"   all know it                                     at the store
    connect         a process group of gloo                         in PyTorch, up to the timeout for each neighbour
    meet "stands"   all are connected, and messages can be sent     at the store
    meet "about"    all tell their rounds and what they train       at the store
    copy            those that join get a state                     in PyTorch, up to the timeout for each message
    meet "ready"    the generation is formed                        at the store
"""

import gc
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
from gossamer.core import InputError
from gossamer.networks import Network
from gossamer.networks.compatibility import suits
from gossamer.networks.surviving import surviving
from gossamer.torch.arguments import check_restart, fixed, network_for
from gossamer.torch.copying import copied
from gossamer.torch.exchange import fingerprint
from gossamer.torch.meeting import count_anew, meeting
from gossamer.torch.membership import READY, Membership, NotLetIn
from gossamer.torch.rounds import Memory
from gossamer.torch.stopping import NeighborLost
from gossamer.torch.world import in_short

ATTEMPTS = 8
"""How often in a row the same processes may fail to form a group."""
PATIENCE = 5
"""As the one that is connected to, gloo waits so many times its timeout."""

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
        """Whether this process has just joined others, or begins again with them because one was lost at the start."""
        return self.membership.generation > 1 and not self.membership.members[self.membership.rank].veteran

    @property
    def models(self) -> list[int]:
        """The ranks that have a model to go on from; where all of them begin, the first."""
        return [rank for rank, member in enumerate(self.membership.members) if member.veteran] or [0]

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
            return network_for(self.given, len(places))
        except InputError:
            if max(places) >= self.first or len(places) == self.first:
                raise
            return surviving(networks.of(self.given, self.first), places)

    def start(self) -> None:
        """Form the group of a process that has just begun, and again if others are lost meanwhile."""
        failed: list[str] = []
        for attempt in range(ATTEMPTS):
            try:
                return self.form()
            except NotLetIn:
                raise
            except NeighborLost:
                names = [member.name for member in self.membership.members]
                if attempt == ATTEMPTS - 1 or names == failed:  # nobody was lost: they cannot reach each other
                    raise
                failed = names

    def form(self) -> None:
        """Come to the meeting place, and form the process group of all that did."""
        members = self.membership
        if dist.is_initialized():
            dist.destroy_process_group()
        gc.collect()  # tracebacks of what was lost hold on to groups, with their threads and connections
        members.gather()
        members.meet("enters")
        store = PrefixStore(f"gossamer/{members.generation}", members.store)
        about = {"store": store, "rank": members.rank, "world_size": len(members.members)}
        with members.signs():
            try:
                dist.init_process_group("gloo", **about, timeout=timedelta(seconds=members.timeout / PATIENCE))
            except RuntimeError as error:
                count_anew()
                raise NeighborLost(f"the processes could not form a group again ({in_short(error)}).") from error
        dist.group.WORLD.set_timeout(self._longest)  # pyright: ignore[reportOptionalMemberAccess]
        members.meet("stands")

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
        """What the work gives, which all ranks do together; after a loss, once more among those that are left.

        Nobody returns before all have done it: those that do it once more would else wait for one that is in a step.
        """
        while True:
            try:
                result = work()
                self.membership.meet("work")
                return result
            except NeighborLost as lost:
                self.regroup(optimizer, optimizer.guard.step, lost, busy=True)

    def regroup(self, optimizer: Any, steps: int, lost: NeighborLost | None = None, *, busy: bool = False) -> None:
        """Go on with those that are left and those that join, after so many whole steps.

        Args:
            optimizer: what goes on.
            steps: how many steps this rank has ended.
            lost: why; None where the group has just been formed.
            busy: whether the members are to do something together before the next step, so that nobody can join.
        """
        self.membership.busy = busy
        failed, same = 0, self.membership.members
        while failed < ATTEMPTS:
            try:
                if lost is not None:
                    before = self.membership.members
                    optimizer.world.leave()
                    self.form()
                    optimizer.world.enter(dist.group.WORLD)
                    self._say(before, lost)
                self._go_on(optimizer, steps)
                lost = None  # or else its traceback, which leads here, would keep a group that failed
                return
            except NotLetIn:
                raise
            except NeighborLost as error:
                lost = error
            except InputError:
                self.membership.close()
                raise
            failed, same = (failed + 1 if same == self.membership.members else 1), self.membership.members
        assert lost is not None
        raise lost

    def begun(self, optimizer: Any) -> None:
        """Go on once all members have a model and have started; or without those that were lost by then."""
        self.membership.trained = True
        try:
            self.membership.meet(READY)
        except NeighborLost as lost:
            self.regroup(optimizer, 0, lost)

    def _go_on(self, optimizer: Any, steps: int) -> None:
        memory, world, veterans = optimizer.memory, optimizer.world, self.models
        state = memory.state if self.membership.rank in veterans else None
        arrays = {} if state is None else {key: [list(a.shape), str(a.dtype)] for key, a in state.items()}
        about = {"facts": self._facts, "t": memory.t, "steps": steps, "arrays": arrays, "first": self.first}
        told = [json.loads(text) for text in self.membership.meet("about", json.dumps(about))]
        self.first = told[veterans[0]]["first"]
        self._check_joined(told, veterans)
        network = self.network()
        suits(self.rule, network)
        optimizer.rewire(network)
        begun = all(told[rank]["t"] >= 0 for rank in veterans)
        names = [key for key in told[veterans[0]]["arrays"] if begun or key == "x"]
        t = max(told[rank]["t"] for rank in veterans) if begun else -1
        with self.membership.signs():
            state = copied(world, network, t, state, told, names, veterans, self._frozen)
        self.membership.meet(READY)
        self.membership.trained = True
        optimizer.go_on(Memory(t, state, [], []), max(row["steps"] for row in told))

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
    if not hasattr(dist.ProcessGroup, "set_timeout"):
        raise InputError(f"elastic=True needs PyTorch 2.9 or later, but this is {torch.__version__}.")
    if process_group is not None:
        raise InputError("elastic=True forms the groups of processes itself: leave process_group out.")
    if device.type != "cpu":
        raise InputError(
            f"elastic=True is for parameters on CPUs, whose messages go by gloo, but these are on {device}: a group of "
            "NCCL cannot be left while a message waits for a rank that is gone."
        )
    return Elastic(rule, given, start_timeout, timeout)
