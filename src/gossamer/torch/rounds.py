r"""The rounds of a rule, left wherever it asks for a gradient that is not there yet.

A rule calls ``agent.gradient(x)`` in the middle of a round, but a training script computes gradients on its own and
then calls ``optimizer.step()``. So a round is left by an exception where it asks, and `answer` runs it again from its
start: what it has heard and was answered before is handed back in the same order, and only what comes after is new.
Rules are pure, so nothing else can differ. No thread, coroutine or greenlet is involved.

A loop over local steps, `agent.repeat`, is not run again: it goes on from where its last whole turn ended, and what was
answered in earlier turns is forgotten. So K local steps cost K gradients and the arithmetic of K steps, and hold one.

What can be saved is the `State` between two rounds, the rates in force, and what was answered since. Messages are not:
they are sent again, and draws depend on the round alone, so that all ranks hear the same once more.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor

from gossamer.core import State
from gossamer.torch.agent import ProcessAgent
from gossamer.torch.fused import Vector, computed, lend

Rates = list[float | None]
"""The step size of each parameter group; None where it goes by the rule's own schedule."""


class Answer(NamedTuple):
    """Gradients that were answered, and the rates in force from then on."""

    gradients: tuple[Tensor, ...]
    rates: Rates


@dataclass
class Loop:
    """Where a loop of a round stands."""

    turns: int = 0
    """How many turns have ended."""
    arrays: tuple[Tensor, ...] = ()
    """What the last of them made."""
    rates: Rates | None = None
    """The rates in force since."""
    drawn: int = 0
    """How many vectors had been compressed in this round by then."""


class Memory(NamedTuple):
    """All that determines where a rule stands."""

    t: int
    """The round; −1 before the start has been made."""
    state: State
    """The state before this round; before the start has been made, the point alone."""
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
    fused: bool
    """Whether its arithmetic is noted down, and done at the end of the round: see `gossamer.torch.fused`."""
    agent_at: Callable[[int, int], ProcessAgent]
    """The agent of a round, given the number of its draws: 0 for the start, t + 1 for round t."""
    dial: Callable[[int, Rates], None]
    """Writes the hyper-parameters of a round at these rates."""
    awake: Callable[[int], bool]
    """Whether this agent is awake in a round; one that sleeps keeps its state."""
    overlap: bool
    """Whether to go by the rule's ``ahead`` in place of ``step``; where it is in another phase, after its ``shift``."""
    shrunk: Callable[[State, int, Rates], State]
    """The state that a round begins with, after weight decay."""
    held: Callable[[State], State]
    """A state that is about to begin a round, in the memory that it is to be held in."""
    stilled: Callable[[Tensor], Tensor]
    """A point where gradients are asked for, with what does not move."""
    check: Callable[[State, Rates, Collection[str]], None]
    """Refuses a state, made at these rates, before any of it is sent; to look at these arrays is enough."""


class Rounds:
    """A rule on its way. `points` is what it asks for now; `memory` is where it stands."""

    points: tuple[Tensor, ...]
    full: bool
    """Whether the gradients are to be over all of this agent's samples."""
    memory: Memory

    def __init__(self, course: Course):
        self._course, self._over = course, False

    def start(self, memory: Memory) -> None:
        """Go from a memory to the next question."""
        self._begin(memory)
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

    def _begin(self, memory: Memory) -> None:
        if memory.t >= 0:
            memory = memory._replace(state=self._course.held(memory.state))
        self.memory, self._heard = memory, []
        self._agent = self._course.agent_at(max(memory.t, 0), memory.t + 1)

    def _run(self) -> None:
        self._over = True  # unless it comes to the next question
        self.points = ()
        try:
            while True:
                self._round()
        except Asked as asked:
            self.points, self.full = tuple(map(self._course.stilled, asked.points)), asked.full
            self._over = False

    def _round(self) -> None:
        """Run this round, from its start to a question, or to its end and the beginning of the next one."""
        course, (t, state, rates, _) = self._course, self.memory
        course.dial(max(t, 0), rates)
        dial = partial(course.dial, max(t, 0))
        agent = Replaying(self.memory, self._agent, self._heard, dial, course.fused)
        if t < 0:
            after, t = course.rule.init(agent.seen(state).x, agent), 0
            if course.overlap and hasattr(course.rule, "shift"):
                shrunk = agent.seen(course.shrunk(_computed(after), 0, agent.rates))
                after, t = course.rule.shift(shrunk, agent), 1
        else:
            before = agent.before(state, course.shrunk(state, t, rates))
            after = (course.rule.ahead if course.overlap else course.rule.step)(before, agent)
            after, t = after if course.awake(t) else state, t + 1
            del before
        state, now = _computed(after), agent.rates
        telling = [name for name, a in after.items() if not (isinstance(a, Vector) and a.shows)]
        del agent, after
        self._agent.exchange.release()
        course.check(state, now, telling)
        self._begin(Memory(t, state, now, []))


class Replaying:
    """The agent of a round that may be run again: what it has heard and was told before is handed back.

    Args:
        memory: what it was told, which it adds to.
        agent: who sends its messages, the same one each time the round is run.
        heard: the messages of this round, which it adds to.
        dial: writes the hyper-parameters at these rates.
        fused: whether the rule gets vectors whose arithmetic is noted down, or tensors.
    """

    def __init__(
        self, memory: Memory, agent: ProcessAgent, heard: list[Any], dial: Callable[[Rates], None], fused: bool
    ):
        self.rates, self._told, self._agent, self._heard, self._dial = memory.rates, memory.told, agent, heard, dial
        self._place = self._ear = 0
        self._shown: tuple[Any, Any] = (None, None)
        self._fused = fused

    def before(self, state: State, shrunk: State) -> State:
        """The state after weight decay; gradients that are asked for at its model are those at the model before."""
        seen = self.seen(shrunk)
        self._shown = (seen.x, state.x)
        return seen

    def seen(self, state: State) -> State:
        """A state as the rule sees it."""
        return State(**{name: self._kept(a) for name, a in state.items()})

    def ones(self) -> Any:
        return self._kept(self._agent.ones())

    def place(self) -> Any:
        return self._kept(self._agent.place())

    def norm(self, a: Any) -> Any:
        return self._kept(self._agent.norm(*computed([a])))

    def gradient(self, *points: Tensor) -> Any:
        return self._asked(points, full=False)

    def full_gradient(self, *points: Tensor) -> Any:
        return self._asked(points, full=True)

    def post(self, *arrays: Tensor, over: Any = "W", late: tuple[int, ...] = ()) -> Callable[[], Any]:
        place = self._ear
        lend(arrays)
        self._once(lambda: self._agent.post(*computed(arrays), over=over, late=late))

        def wait() -> Any:
            arrived = self._once(lambda: self._heard[place](noted=self._fused))
            self._heard[place] = None  # it holds buffers
            return self._given(arrived)

        return wait

    def gossip(self, *arrays: Tensor, over: Any = "W") -> Any:
        lend(arrays)
        return self._given(self._once(lambda: self._agent.gossip(*computed(arrays), over=over)))

    def gossip_compressed(self, *arrays: Tensor, by: Any) -> Any:
        return self._given(self._once(lambda: self._agent.gossip_compressed(*computed(arrays), by=by)))

    def gossip_copies(self, copy: Tensor, apart: Tensor, a: Tensor, by: Any = None) -> Any:
        return self._given(self._once(lambda: self._agent.gossip_copies(*computed([copy, apart, a]), by=by)))

    def gossip_sum(self, *arrays: Tensor) -> Any:
        return self._given(self._once(lambda: self._agent.gossip_sum(*computed(arrays))))

    def gossip_robust(self, *arrays: Tensor, by: Any) -> Any:
        return self._given(self._once(lambda: self._agent.gossip_robust(*computed(arrays), by=by)))

    def mean(self, *arrays: Tensor) -> Any:
        return self._given(self._once(lambda: self._agent.mean(*computed(arrays))))

    def average(self, a: Tensor, warm: Any, over: Any = "W") -> Any:
        if warm == 0:
            return a
        lend([a])
        return self._given(self._once(lambda: self._agent.average(computed([a])[0], warm, over)))

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
            made = step(*map(self._kept, arrays))
            arrays = computed(made if isinstance(made, tuple) else (made,))
            loop.turns, loop.arrays, loop.rates, loop.drawn = loop.turns + 1, arrays, self.rates, self._agent.drawn
            del self._told[place + 1 :], self._heard[ear:]
            self._place, self._ear = place + 1, ear
        given = tuple(map(self._kept, arrays))
        return given[0] if len(given) == 1 else given

    def _asked(self, points: tuple[Tensor, ...], full: bool) -> Any:
        if self._place == len(self._told):
            shrunk, whole = self._shown
            raise Asked(computed(whole if point is shrunk else point for point in points), full)
        answer = self._told[self._place]
        assert isinstance(answer, Answer)
        self._place += 1
        self._turn(answer.rates)
        last = self._place == len(self._told)  # others may have been saved
        given = tuple(self._given(gradient) if last else self._kept(gradient) for gradient in answer.gradients)
        return given[0] if len(points) == 1 else given

    def _turn(self, rates: Rates | None) -> None:
        assert rates is not None
        self.rates = rates
        self._dial(rates)

    def _once(self, hear: Callable[[], Any]) -> Any:
        """What was heard at this place of the round; the first time, by listening."""
        if self._ear == len(self._heard):
            self._heard.append(hear())
        self._ear += 1
        return self._heard[self._ear - 1]

    def _given(self, made: Any) -> Any:
        """What was made for this round alone, as the rule sees it."""
        if isinstance(made, tuple):
            return tuple(map(self._given, made))
        return Vector(made, spent=True) if self._fused and isinstance(made, Tensor) else made

    def _kept(self, a: Any) -> Any:
        """What is needed after this round, as the rule sees it."""
        return Vector(a) if self._fused and isinstance(a, Tensor) else a


def _computed(state: State) -> State:
    """The state that a rule made of what it was given, which nobody needs any more."""
    return State(**dict(zip(state, computed(state.values(), last=True), strict=True)))
