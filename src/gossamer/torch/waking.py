"""A rule's ``wake`` on real processes: agents that wait for nobody but the one that they meet.

While a script computes a gradient, threads answer neighbours that ask for a meeting. The state that they mix is apart
from the parameters, into which the model is copied when the next gradient is wanted. An agent that wakes asks one
neighbour after the other, in an order that it draws, until one says yes; where none does, it steps by itself. See
`gossamer.torch.meetings` for why nobody ever waits in a circle, and why nothing of what is tracked is lost.
"""

import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from gossamer import networks
from gossamer.core import InputError, State
from gossamer.networks import Network
from gossamer.torch.exchange import Counters, Exchange
from gossamer.torch.meetings import Anew, Meetings
from gossamer.torch.news import GONE
from gossamer.torch.rounds import Asked, Course, Memory, Rates, Rounds
from gossamer.torch.stopping import NeighborLost
from gossamer.torch.world import ProcessWorld

MOST_ASKED = 3
"""How many neighbours an agent that wakes asks, one after the other, before it steps by itself."""
STOPPED = (
    "this optimizer has stopped at an error before, and cannot go on: make a new one and resume from the last "
    "checkpoint."
)
FINISHED = "this optimizer has finished, and its ranks have gone apart: make a new one to train on."


class Waking:
    """A rule on its way without rounds: it stands in the place of `gossamer.torch.rounds.Rounds`."""

    points: tuple[Tensor, ...]
    full = False

    def __init__(self, course: Course, meetings: Meetings, seed: int):
        self._course, self.meetings = course, meetings
        self._chance = random.Random(f"{seed}/{meetings.world.rank}")
        self._memory = Memory(-1, State(x=torch.zeros(0)), [], [])
        self._over = ""

    @property
    def memory(self) -> Memory:
        """Where the rule stands; what all ranks have adds up where they are at a common point."""
        state = self.meetings.state
        return self._memory if state is None else self._memory._replace(state=state)

    def start(self, memory: Memory) -> None:
        """Go from a memory to the next question."""
        self._memory, self.points = memory, self._shown(memory.state.x)
        self.meetings.put(memory.state if memory.t >= 0 else None)
        if memory.t < 0:
            self._begin(None, memory.rates)

    def check_alive(self) -> None:
        """Refuse to go on after an error, after the end, or where the others have given up on this rank."""
        if self._over:
            raise RuntimeError(self._over)
        world = self.meetings.world
        if int(self.meetings.news.told[world.rank]) == GONE:
            raise NeighborLost(
                f"rank {world.rank} was silent for longer than the timeout of {world.timeout.total_seconds():g} s, and "
                "the others went on without it. Start all again from the last checkpoint.",
                (world.rank,),
            )

    def answer(self, gradients: tuple[Tensor, ...], rates: Rates) -> None:
        """Wake with the gradient at `points`, and go on to the next question."""
        self.check_alive()
        self._over = STOPPED
        if self._memory.t < 0:
            self._begin(gradients[0], rates)
        else:
            self._wake(gradients[0], rates)
        self._over = ""

    def finish(self) -> None:
        """Answer the others until all have finished, and end: the model is then as they left it."""
        if self._over != FINISHED:
            self.check_alive()
            self.meetings.gather()
            self.meetings.end()
            self.points, self._over = self._shown(self.memory.state.x), FINISHED

    def _begin(self, g: Tensor | None, rates: Rates) -> None:
        """Make the rule's start, with its first gradient where it asks for one."""
        self._course.dial(0, rates)
        try:
            state = self._course.rule.init(self._memory.state.x, Starting(self._course.rule.name, g))
        except Asked as asked:
            self.points = self._shown(*asked.points)
            return
        self._course.check(state, rates, ())
        self._go_on(0, state, rates)
        self.meetings.put(state)

    def _wake(self, g: Tensor, rates: Rates) -> None:
        course, t = self._course, self._memory.t
        self.meetings.begin()
        course.dial(t, rates)
        agent = Meeting(self, rates)
        while True:
            try:
                new = course.rule.wake(course.shrunk(self.meetings.present(), t, rates), g, agent)
                break
            except Anew:
                continue
        course.check(new, rates, ())
        self._go_on(t + 1, self.meetings.commit(new), rates)

    def _go_on(self, t: int, state: State, rates: Rates) -> None:
        self._memory, self.points = Memory(t, state, rates, []), self._shown(state.x)

    def _shown(self, *points: Tensor) -> tuple[Tensor, ...]:
        """Points where gradients are asked for, with what does not move."""
        return tuple(map(self._course.stilled, points))

    def met(self, arrays: dict[str, Tensor], order: Iterator[int], rates: Rates) -> dict[str, Tensor]:
        """The means with the first of these neighbours that says yes; the arrays themselves where none does."""
        self._course.check(State(**arrays), rates, ())
        for peer in order:
            theirs = self.meetings.ask(peer, arrays)
            if theirs is not None:
                self.meetings.tally.met += 1
                return {name: (a + theirs[name]) / 2 for name, a in arrays.items()}
        self.meetings.tally.alone += 1
        return arrays

    def order(self) -> Iterator[int]:
        """Whom to ask."""
        there = [peer for peer in self.meetings.news.near if peer not in self.meetings.news.away()]
        return iter(self._chance.sample(there, min(len(there), MOST_ASKED)))


class Meeting:
    """The agent that wakes, as a rule sees it. A rule that wakes anew goes on with those that were not asked yet."""

    def __init__(self, waking: Waking, rates: Rates):
        self._waking, self._rates, self._order = waking, rates, waking.order()

    def meet(self, **arrays: Tensor) -> Any:
        found = self._waking.met(arrays, self._order, self._rates)
        return next(iter(found.values())) if len(found) == 1 else tuple(found[name] for name in arrays)


class Starting:
    """The agent at a rule's start, which may ask for one gradient and nothing else."""

    def __init__(self, rule: str, g: Tensor | None):
        self._rule, self._g = rule, g

    def gradient(self, *points: Tensor) -> Tensor:
        if self._g is None:
            raise Asked(points, full=False)
        return self._g

    def average(self, a: Tensor, warm: Any, over: str = "W") -> Tensor:
        return a if warm == 0 else self.mean(a)  # which is refused

    def __getattr__(self, name: str) -> Any:
        raise InputError(
            f"{self._rule} asks for agent.{name} at its start, where agents that wait for nobody have no more than one "
            "gradient of their own: leave asynchronous out."
        )


def without_rounds(network: Network, overlap: bool | None, on_nonfinite: str, elastic: bool) -> Network:
    """The network on which nobody waits; what needs rounds that all take together is refused."""
    if overlap:
        raise InputError("overlap=True is for rounds, but asynchronous=True has none: leave overlap out.")
    if on_nonfinite == "skip":
        raise InputError(
            'on_nonfinite="skip" leaves a step out on all ranks, which wait for each other to do so, but '
            "asynchronous=True lets nobody wait: leave one of them out."
        )
    if elastic:
        raise InputError(
            "elastic=True forms all ranks anew after a loss, which asynchronous=True outlives without: leave one out."
        )
    return networks.asynchronous(network)


class WakingExchange(Exchange):
    """The exchange of ranks that wait for nobody: they are together where all have come to a common point."""

    def __init__(self, world: ProcessWorld, network: Network, counters: Counters, rule: Any):
        super().__init__(world, network, counters)
        self.meetings = Meetings(world, network, counters, getattr(rule, "restart", lambda state: state))

    def meet(self) -> None:
        """Wait until all ranks are here, answering those that are not. Here none may be lost."""
        self.meetings.gather()
        if lost := tuple(sorted(self.meetings.news.gone())):
            raise NeighborLost(
                f"rank {self.world.rank} cannot go on together with rank {' and rank '.join(map(str, lost))}, which "
                "died or was silent for longer than the timeout. Those that are left may train on, but neither save "
                "nor take the mean of all.",
                lost,
            )


def exchange_for(world: ProcessWorld, network: Network, counters: Counters, rule: Any) -> Exchange:
    """The exchange of a rank on this network."""
    if network.asynchronous:
        return WakingExchange(world, network, counters, rule)
    return Exchange(world, network, counters)


def on_its_way(course: Course, exchange: Exchange, seed: int) -> Rounds | Waking:
    """A rule on its way over this exchange, in rounds or without."""
    if isinstance(exchange, WakingExchange):
        return Waking(course, exchange.meetings, seed)
    return Rounds(course)
