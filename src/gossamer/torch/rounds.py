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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gossamer.core import State
from gossamer.torch.agent import ProcessAgent


class Rates(NamedTuple):
    """The rates that schedulers turn."""

    eta: list[float | None]  # the step size of each parameter group; None where it goes by the rule's own schedule
    momentum: float | None = None  # the weight of the past, where a scheduler has set another than the rule's


class Answer(NamedTuple):
    """Gradients that were answered, and the rates in force from then on."""

    gradients: tuple[Tensor, ...]
    rates: Rates


@dataclass
class Loop:
    """The place of a loop of a round."""

    turns: int = 0  # how many turns have ended
    arrays: tuple[Tensor, ...] = ()  # the arrays that the last of them made
    rates: Rates | None = None  # the rates in force since
    drawn: int = 0  # how many vectors had been compressed in this round by then


class Memory(NamedTuple):
    """The place of a rule: all that determines how it goes on."""

    t: int  # the round; −1 before the start has been made
    state: State  # the state before this round; before the start has been made, the point alone counts
    rates: Rates  # the rates in force when this round began
    told: list[Answer | Loop]  # what was answered in this round, in order, and where its loops stand


class Asked(BaseException):
    """A rule asks for gradients that are not there yet."""

    def __init__(self, points: tuple[Tensor, ...], full: bool):
        super().__init__()
        self.points, self.full = points, full


@dataclass
class Course:
    """The engine that a rule runs on."""

    rule: Any  # with ``init`` and ``step``, whose hyper-parameters `dial` writes
    agent_at: Callable[[int, int], ProcessAgent]
    """The agent of a round, given the number of its draws: 0 for the start, t + 1 for round t."""
    dial: Callable[[int, Rates], None]  # writes the hyper-parameters of a round at these rates
    awake: Callable[[int], bool] | None
    """Returns True if this agent is awake in a round; one that sleeps keeps its state. None where nobody sleeps."""
    ahead: bool
    """True to go by the rule's ``ahead`` in place of ``step``; where it is in another phase, after its ``shift``."""
    overlap: bool  # true where ``ahead`` sends its message at once, false where only when the gradient is there
    shrink: Callable[[State, int, Rates], State] | None
    """The state that a round begins with, after weight decay; None where there is none."""
    still: Mapping[int, Tensor]  # the parameters that do not move; in most runs none
    hold: Callable[[Tensor], Tensor]  # returns a model, with what does not move
    check: Callable[[Mapping[str, Tensor], Rates], None]
    """Refuses a state, made at these rates, before any of it is sent."""


class Rounds:
    """A rule on its way. `points` is what it asks for now; `memory` is where it stands.

    Args:
        course: what it runs on.
        kept: by name, the buffers of its state. Arrays that have none yet get one.
    """

    points: tuple[Tensor, ...]
    full: bool  # whether the gradients are to be over all of this agent's samples
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
        self.memory.told.append(Answer(gradients, rates))
        del gradients  # a loop forgets what was answered in earlier turns
        self._run()

    def restart(self) -> None:
        """Make of what is kept a state that the rule can go on from among other agents."""
        self._keep(dict(self._course.rule.restart(State(**self.kept))))

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
        self.points, self.full = tuple(map(course.hold, points)) if course.still else points, full
        self._over = False

    def _round(self) -> None:
        """Run this round, from its start to a question, or to its end and the beginning of the next one."""
        course, rule, (t, state, rates, _) = self._course, self._course.rule, self.memory
        course.dial(max(t, 0), rates)
        agent = Replaying(self.memory, self._agent, self._heard, partial(course.dial, max(t, 0)))
        if t < 0:
            after, t = rule.init(state.x, agent), 0
            if course.ahead and hasattr(rule, "shift"):
                after, t = rule.shift(course.shrink(after, 0, agent.rates) if course.shrink else after, agent), 1
        else:
            before = course.shrink(state, t, rates) if course.shrink else state
            if before is not state:  # gradients that are asked for at its model are at the model before
                agent.shown = before.x, state.x
            after = (rule.ahead if course.ahead else rule.step)(before, agent)
            after, t = after if course.awake is None or course.awake(t) else state, t + 1
        arrays = dict(after)
        course.check(arrays, agent.rates)
        if course.still:
            arrays["x"] = course.hold(arrays["x"])
        self._keep(arrays)
        self._begin(t, agent.rates, [])

    def _keep(self, arrays: dict[str, Tensor]) -> None:
        """Copy a state into the buffers. What stands in one of them and moves to another is copied twice."""
        kept = self.kept
        places = {a.untyped_storage().data_ptr() for a in kept.values()}
        for name, a in arrays.items():
            if a is not kept.get(name) and a.untyped_storage().data_ptr() in places:
                arrays[name] = a.clone()
        for name, a in arrays.items():
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
        self.shown: tuple[Any, Any] = (None, None)
        """A model after weight decay, and the model before: gradients at the first are asked for at the second."""

    def gradient(self, *points: Tensor, full: bool = False) -> Any:
        if self._place == len(self._told):
            shrunk, whole = self.shown
            raise Asked(points if shrunk is None else tuple(whole if p is shrunk else p for p in points), full)
        answer = self._told[self._place]
        assert isinstance(answer, Answer)
        self._place += 1
        self.rates = answer.rates
        self._dial(answer.rates)
        return answer.gradients[0] if len(points) == 1 else answer.gradients

    def full_gradient(self, *points: Tensor) -> Any:
        return self.gradient(*points, full=True)

    def post(self, *arrays: Tensor, over: Any = "W", late: tuple[int, ...] = ()) -> Callable[[], Any]:
        if self._ear == len(self._heard):
            self._heard.append(self._agent.post(*arrays, over=over, late=late))
        wait = self._heard[self._ear]
        self._ear += 1
        return lambda: self._once(wait)

    def average(self, a: Tensor, warm: Any, over: Any = "W") -> Any:
        return a if warm == 0 else self._once(lambda: self._agent.average(a, warm, over))

    def __getattr__(self, name: str) -> Any:
        """Return any other method of the agent; what it returns is kept for the next time the round is run."""
        method = getattr(self._agent, name)
        return lambda *arrays, **options: self._once(lambda: method(*arrays, **options))

    def repeat(self, times: int, step: Callable[..., Any], *arrays: Tensor) -> Any:
        if self._place == len(self._told):
            self._told.append(Loop(drawn=self._agent.drawn))
        place, ear, loop = self._place, self._ear, self._told[self._place]
        assert isinstance(loop, Loop)
        self._place += 1
        if loop.turns:
            assert loop.rates is not None
            arrays, self._agent.drawn = loop.arrays, max(self._agent.drawn, loop.drawn)
            self.rates = loop.rates
            self._dial(loop.rates)
        while loop.turns < times:
            made = step(*arrays)
            arrays = made if isinstance(made, tuple) else (made,)
            loop.turns, loop.arrays, loop.rates, loop.drawn = loop.turns + 1, arrays, self.rates, self._agent.drawn
            del self._told[place + 1 :], self._heard[ear:]
            self._place, self._ear = place + 1, ear
        return arrays[0] if len(arrays) == 1 else arrays

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

    def gossip(self, *arrays: Tensor, **_: Any) -> Any:
        made = tuple(torch.empty_like(a) for a in arrays)
        return made[0] if len(arrays) == 1 else made

    gradient = full_gradient = gossip_sum = gossip_robust = mean = gossip

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
        return step(*arrays)


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
