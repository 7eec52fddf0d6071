r"""The rounds of a rule, stopped wherever it asks for a gradient.

A rule calls ``agent.gradient(x)`` in the middle of a round, but a training script computes gradients on its own and
then calls ``optimizer.step()``. So the rule runs in a greenlet: where it asks, control goes back to the script with the
points, and `answer` goes on from there with the gradients until it asks again.

What can be saved is the `State` between two rounds, the rates in force, and what was answered since. A suspended round
is begun again from these: draws depend on the round alone, so the replay sends the same messages.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import greenlet
from torch import Tensor

from gossamer.core import State

Rates = list[float | None]
"""The step size of each parameter group; None where it goes by the rule's own schedule."""


class Memory(NamedTuple):
    """All that determines where a rule stands."""

    t: int
    """The round; −1 before the start has been made."""
    state: State
    """The state before this round; before the start has been made, the point alone."""
    rates: list[Rates]
    """The rates in force while each part of this round ran: one more than there are answers."""
    answers: list[tuple[Tensor, ...]]
    """What was answered in this round."""


class Rounds:
    """A rule on its way. `points` is what it asks for now; `memory` is where it stands.

    It owns the greenlet, and nothing in the greenlet's frame leads back to it: the garbage collector cannot look into
    such a frame, and a circle through it would never be freed.
    """

    points: tuple[Tensor, ...]
    full: bool
    """Whether the gradients are to be over all of this agent's samples."""

    def __init__(self, course: "Course"):
        self._course = course
        self._greenlet: Any = None

    @property
    def memory(self) -> Memory:
        return self._course.memory

    def start(self, memory: Memory) -> None:
        """Go from a memory to the next question, with the answers that it holds."""
        self._course.memory = memory._replace(rates=memory.rates[:1], answers=[])
        self._course.dial(max(memory.t, 0), memory.rates[0])
        self._greenlet = greenlet.greenlet(self._course.run)
        self.points, self.full = self._greenlet.switch()
        for answer, rates in zip(memory.answers, memory.rates[1:], strict=True):
            self.answer(answer, rates)

    def answer(self, gradients: tuple[Tensor, ...], rates: Rates) -> None:
        """Go on with the gradients at `points`, at the present rates, to the next question."""
        if self._greenlet.dead:
            raise RuntimeError(
                "this optimizer has stopped at an error before and cannot go on: make a new one and resume from the "
                "last checkpoint."
            )
        # exceptions of the rule surface here; the greenlet's parent must be whoever calls now
        try:
            self._greenlet.parent = greenlet.getcurrent()
        except ValueError as error:
            raise RuntimeError("an optimizer must step in the thread that made it.") from error
        self.memory.answers.append(gradients)
        self.memory.rates.append(rates)
        self._course.dial(max(self.memory.t, 0), rates)
        self.points, self.full = self._greenlet.switch(gradients)


class Course:
    """What runs in the greenlet.

    Args:
        rule: with ``init`` and ``step``, whose hyper-parameters `dial` writes.
        agent_at: the agent of a round, given how it asks and the number of its draws: 0 for the start, t + 1 for
            round t.
        dial: writes the hyper-parameters of a round at these rates.
        awake: whether this agent is awake in a round; one that sleeps keeps its state.
        overlap: whether to go by the rule's ``ahead`` in place of ``step``; where that is in another phase, after its
            ``shift``.
        check: refuses a state, made at these rates, before any of it is sent.
    """

    memory: Memory

    def __init__(
        self,
        rule: Any,
        agent_at: Callable[[int, Callable[..., Any], int], Any],
        dial: Callable[[int, Rates], None],
        awake: Callable[[int], bool],
        overlap: bool,
        check: Callable[[State, Rates], None],
    ):
        self.rule, self.agent_at, self.dial, self.awake = rule, agent_at, dial, awake
        self.overlap, self.check = overlap, check

    def run(self) -> None:
        t, state, *_ = self.memory
        if t < 0:
            agent = self.agent_at(0, _ask, 0)
            state = self.rule.init(state.x, agent)
            t = 0
            if self.overlap and hasattr(self.rule, "shift"):
                state, t = self.rule.shift(state, agent), 1
        while True:
            self._begin(t, state)
            after = (self.rule.ahead if self.overlap else self.rule.step)(state, self.agent_at(t, _ask, t + 1))
            state = after if self.awake(t) else state
            t += 1

    def _begin(self, t: int, state: State) -> None:
        rates = self.memory.rates[-1]
        self.check(state, rates)
        self.memory = Memory(t, state, [rates], [])
        self.dial(t, rates)


def _ask(points: tuple[Tensor, ...], full: bool = False) -> tuple[Tensor, ...]:
    parent = greenlet.getcurrent().parent
    assert parent is not None
    return parent.switch((points, full))
