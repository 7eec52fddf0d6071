r"""The rounds of a rule, left wherever it asks for a gradient that is not there yet.

A rule calls ``agent.gradient(x)`` in the middle of a round, but a training script computes gradients on its own and
then calls ``optimizer.step()``. So a round is left by an exception where it asks, and `answer` runs it again from its
start: what it has heard and was answered before is handed back in the same order, and only what comes after is new.
Rules are pure, so nothing else can differ. No thread, coroutine or greenlet is involved.

A loop over local steps, `agent.repeat`, is not run again: it goes on from where its last whole turn ended, and what was
answered in earlier turns is forgotten. So K local steps cost K gradients and the arithmetic of K steps, and hold one.

Between two rounds the state stands in buffers that are kept: what a rule returns is copied there, so that no array is
another's memory, and whoever loads a state can write it in place. What can be saved is that state, the rates in force,
and what was answered since. Messages are not: they are sent again, and draws depend on the round alone, so that all
ranks hear the same once more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gossamer.core import State
from gossamer.torch.agent import ProcessAgent


class Rates(NamedTuple):
    """The rates that schedulers turn."""

    eta: list[float | None]
    """The step size of each parameter group; None where it goes by the rule's own schedule."""
    momentum: float | None = None
    """The weight of the past, where a scheduler has set another than the rule's."""


class Answer(NamedTuple):
    """Gradients that were answered, and the rates in force from then on."""

    gradients: tuple[Tensor, ...]
    rates: Rates


@dataclass
class Loop:
    """The place of a loop of a round."""

    turns: int = 0
    """How many turns have ended."""
    arrays: tuple[Tensor, ...] = ()
    """The arrays that the last of them made."""
    rates: Rates | None = None
    """The rates in force since."""
    drawn: int = 0
    """How many vectors had been compressed in this round by then."""


class Memory(NamedTuple):
    """All that determines where a rule stands."""

    t: int
    """The round; −1 before the start has been made."""
    state: State
    """The state before this round; before the start has been made, the point alone counts."""
    rates: Rates
    """The rates in force when this round began."""
    told: list[Answer | Loop]
    """What was answered in this round, in order, and where its loops stand."""


class Asked(BaseException):
    """A rule asks for gradients that are not there yet."""

    def __init__(self, points: tuple[Tensor, ...], full: bool):
        super().__init__()
        self.points, self.full = points, full


@dataclass
class Course:
    """What a rule runs on."""

    rule: Any
    """With ``init`` and ``step``, whose hyper-parameters `dial` writes."""
    agent_at: Callable[[int, int], ProcessAgent]
    """The agent of a round, given the number of its draws: 0 for the start, t + 1 for round t."""
    dial: Callable[[int, Rates], None]
    """Writes the hyper-parameters of a round at these rates."""
    awake: Callable[[int], bool]
    """Whether this agent is awake in a round; one that sleeps keeps its state."""
    ahead: bool
    """Whether to go by the rule's ``ahead`` in place of ``step``; where it is in another phase, after its ``shift``."""
    overlap: bool
    """True where ``ahead`` sends its message at once, false where only when the gradient is there."""
    shrunk: Callable[[State, int, Rates], State]
    """The state that a round begins with, after weight decay."""
    stilled: Callable[[Tensor], Tensor]
    """A point where gradients are asked for, with what does not move."""
    check: Callable[[State, Rates], None]
    """Refuses a state, made at these rates, before any of it is sent."""


class Rounds:
    """A rule on its way. `points` is what it asks for now; `memory` is where it stands.

    Args:
        course: what it runs on.
        kept: by name, the buffers of its state. Arrays that have none yet get one.
    """

    points: tuple[Tensor, ...]
    full: bool
    """Whether the gradients are to be over all of this agent's samples."""
    memory: Memory

    def __init__(self, course: Course, kept: dict[str, Tensor]):
        self._course, self.kept, self._over = course, kept, False

    def start(self, t: int, rates: Rates, told: list[Answer | Loop]) -> None:
        """Go from what is kept to the next question.

        Args:
            t: the round; −1 to begin from x alone.
            rates: the rates in force when it began.
            told: what was answered in it.
        """
        self._begin(t, rates, told)
        self._run()

    def check_alive(self) -> None:
        """Refuse to go on after an error."""
        if self._over:
            raise RuntimeError(
                "this optimizer has stopped at an error before and cannot go on: make a new one and resume from the "
                "last checkpoint."
            )

    def answer(self, gradients: tuple[Tensor, ...], rates: Rates) -> None:
        """Go on with the gradients at `points`, at the present rates, to the next question."""
        self.check_alive()
        self.memory.told.append(Answer(gradients, rates))
        del gradients  # a loop forgets what was answered in earlier turns
        self._run()

    def restart(self) -> None:
        """Make of what is kept a state that the rule can go on from among other agents."""
        self._keep(self._course.rule.restart(State(**self.kept)))

    def _begin(self, t: int, rates: Rates, told: list[Answer | Loop]) -> None:
        self.memory, self._heard = Memory(t, State(**self.kept), rates, told), []
        self._agent = self._course.agent_at(max(t, 0), t + 1)

    def _run(self) -> None:
        course = self._course
        self._over = True  # unless it comes to the next question
        self.points = ()
        try:
            while self.memory.t < 0 or self.memory.told or course.overlap or not course.ahead:
                self._round()
            points, full = (self.memory.state.x,), False  # `ahead` asks there, and has time until then
        except Asked as asked:
            # not kept: its traceback would hold all arrays of the round until the garbage collector comes
            points, full = asked.points, asked.full
        self.points, self.full = tuple(map(course.stilled, points)), full
        self._over = False

    def _round(self) -> None:
        """Run this round, from its start to a question, or to its end and the beginning of the next one."""
        course, (t, state, rates, _) = self._course, self.memory
        course.dial(max(t, 0), rates)
        agent = Replaying(self.memory, self._agent, self._heard, partial(course.dial, max(t, 0)))
        if t < 0:
            after, t = course.rule.init(state.x, agent), 0
            if course.ahead and hasattr(course.rule, "shift"):
                after, t = course.rule.shift(course.shrunk(after, 0, agent.rates), agent), 1
        else:
            before = agent.before(state, course.shrunk(state, t, rates))
            after = (course.rule.ahead if course.ahead else course.rule.step)(before, agent)
            after, t = after if course.awake(t) else state, t + 1
        course.check(after, agent.rates)
        still = course.stilled(after.x)
        self._keep(after if still is after.x else State(**dict(after) | {"x": still}))
        self._begin(t, agent.rates, [])

    def _keep(self, state: State) -> None:
        """Copy a state into the buffers. What stands in one of them and moves to another is copied twice."""
        places, kept = {a.untyped_storage().data_ptr() for a in self.kept.values()}, self.kept
        made = dict(state)
        for name, a in made.items():
            if a is not kept.get(name) and a.untyped_storage().data_ptr() in places:
                made[name] = a.clone()
        for name, a in made.items():
            if name not in kept:
                kept[name] = a.clone()
            elif a is not kept[name]:
                kept[name].copy_(a)


class Replaying:
    """The agent of a round that may be run again: what it has heard and was told before is handed back.

    Args:
        memory: what it was told, which it adds to.
        agent: who sends its messages, the same one each time the round is run.
        heard: the messages of this round, which it adds to.
        dial: writes the hyper-parameters at these rates.
    """

    def __init__(self, memory: Memory, agent: ProcessAgent, heard: list[Any], dial: Callable[[Rates], None]):
        self.rates, self._told, self._agent, self._heard, self._dial = memory.rates, memory.told, agent, heard, dial
        self._place = self._ear = 0
        self._shown: tuple[Any, Any] = (None, None)

    def before(self, state: State, shrunk: State) -> State:
        """Return the state after weight decay; gradients that are asked for at its model are at the model before."""
        self._shown = (shrunk.x, state.x)
        return shrunk

    def ones(self) -> Tensor:
        return self._agent.ones()

    def place(self) -> Tensor:
        return self._agent.place()

    def norm(self, a: Tensor) -> Tensor:
        return self._agent.norm(a)

    def gradient(self, *points: Tensor) -> Any:
        return self._asked(points, full=False)

    def full_gradient(self, *points: Tensor) -> Any:
        return self._asked(points, full=True)

    def post(self, *arrays: Tensor, over: Any = "W", late: tuple[int, ...] = ()) -> Callable[[], Any]:
        wait = self._once(lambda: self._agent.post(*arrays, over=over, late=late))
        return lambda: self._once(wait)

    def gossip(self, *arrays: Tensor, over: Any = "W") -> Any:
        return self._once(lambda: self._agent.gossip(*arrays, over=over))

    def gossip_compressed(self, *arrays: Tensor, by: Any) -> Any:
        return self._once(lambda: self._agent.gossip_compressed(*arrays, by=by))

    def gossip_copies(self, copy: Tensor, apart: Tensor, a: Tensor, by: Any = None) -> Any:
        return self._once(lambda: self._agent.gossip_copies(copy, apart, a, by=by))

    def gossip_sum(self, *arrays: Tensor) -> Any:
        return self._once(lambda: self._agent.gossip_sum(*arrays))

    def gossip_robust(self, *arrays: Tensor, by: Any) -> Any:
        return self._once(lambda: self._agent.gossip_robust(*arrays, by=by))

    def mean(self, *arrays: Tensor) -> Any:
        return self._once(lambda: self._agent.mean(*arrays))

    def average(self, a: Tensor, warm: Any, over: Any = "W") -> Any:
        return a if warm == 0 else self._once(lambda: self._agent.average(a, warm, over))

    def repeat(self, times: int, step: Callable[..., Any], *arrays: Tensor) -> Any:
        if self._place == len(self._told):
            self._told.append(Loop(drawn=self._agent.drawn))
        place, ear, loop = self._place, self._ear, self._told[self._place]
        assert isinstance(loop, Loop)
        self._place += 1
        if loop.turns:
            arrays, self._agent.drawn = loop.arrays, max(self._agent.drawn, loop.drawn)
            self._turn(loop.rates)
        while loop.turns < times:
            made = step(*arrays)
            arrays = made if isinstance(made, tuple) else (made,)
            loop.turns, loop.arrays, loop.rates, loop.drawn = loop.turns + 1, arrays, self.rates, self._agent.drawn
            del self._told[place + 1 :], self._heard[ear:]
            self._place, self._ear = place + 1, ear
        return arrays[0] if len(arrays) == 1 else arrays

    def _asked(self, points: tuple[Tensor, ...], full: bool) -> Any:
        if self._place == len(self._told):
            shrunk, whole = self._shown
            raise Asked(tuple(whole if point is shrunk else point for point in points), full)
        answer = self._told[self._place]
        assert isinstance(answer, Answer)
        self._place += 1
        self._turn(answer.rates)
        return answer.gradients[0] if len(points) == 1 else answer.gradients

    def _turn(self, rates: Rates | None) -> None:
        assert rates is not None
        self.rates = rates
        self._dial(rates)

    def _once(self, hear: Callable[[], Any]) -> Any:
        """Return what was heard at this place of the round; the first time, by listening."""
        if self._ear == len(self._heard):
            self._heard.append(hear())
        self._ear += 1
        return self._heard[self._ear - 1]


class Probe:
    """An agent that is asked what a rule's state is made of, and what it posts ahead: nothing is sent or computed."""

    def __init__(self, agents: int, x: Tensor):
        self._agents, self._x = agents, x
        self.posted: tuple[Tensor, ...] = ()

    def gradient(self, *points: Tensor) -> Any:
        return self.gossip(*points)

    full_gradient = gradient

    def gossip(self, *arrays: Tensor, over: Any = "W") -> Any:
        made = tuple(torch.empty_like(a) for a in arrays)
        return made[0] if len(arrays) == 1 else made

    gossip_sum = mean = gossip

    def gossip_robust(self, *arrays: Tensor, by: Any) -> Any:
        return self.gossip(*arrays)

    def gossip_compressed(self, *arrays: Tensor, by: Any) -> Any:
        made = tuple((torch.empty_like(a), torch.empty_like(a)) for a in arrays)
        return made[0] if len(arrays) == 1 else made

    def gossip_copies(self, copy: Tensor, apart: Tensor, a: Tensor, by: Any = None) -> Any:
        return torch.empty_like(a), torch.empty_like(a)

    def post(self, *arrays: Tensor, over: Any = "W", late: tuple[int, ...] = ()) -> Callable[[], Any]:
        self.posted = arrays
        return lambda: self.gossip(*arrays)

    def average(self, a: Tensor, warm: Any, over: Any = "W") -> Tensor:
        return torch.empty_like(a)

    def ones(self) -> Tensor:
        return self._x.new_empty(1)

    def place(self) -> Tensor:
        return self._x.new_empty(self._agents)

    def norm(self, a: Tensor) -> Tensor:
        return a.new_empty(1)

    def repeat(self, times: int, step: Callable[..., Any], *arrays: Tensor) -> Any:
        made = step(*arrays)
        return made


def layout(rule: Any, like: Tensor, agents: int, ahead: bool) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Return the arrays of a rule's state without their numbers, and those of them that it posts ahead, in order.

    Args:
        rule: the rule, as the user made it.
        like: a vector as long as the model.
        agents: how many there are.
        ahead: whether it goes by ``ahead``.
    """
    x = torch.empty_like(like, device="meta")
    probe = Probe(agents, x)
    state = rule.init(x, probe)
    if not ahead:
        return dict(state), ()
    state = rule.shift(state, probe) if hasattr(rule, "shift") else state
    rule.ahead(state, probe)
    names = {id(a): name for name, a in state.items()}
    return dict(state), tuple(names[id(a)] for a in probe.posted)
