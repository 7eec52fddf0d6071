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
    """Before this round; before the start, the point alone."""
    rates: list[Rates]
    """In force while each part of this round ran: one more than there are answers."""
    answers: list[tuple[Tensor, ...]]
    """What was answered in this round."""


class Rounds:
    """A rule on its way. `points` is what it asks for now; `memory` is where it stands.

    Args:
        rule: with ``init`` and ``step``, whose hyper-parameters `dial` writes.
        agent_at: the agent of a round, given how it asks and the number of its draws: 0 for the start, t + 1 for
            round t.
        dial: writes the hyper-parameters of a round at these rates.
        awake: whether this agent is awake in a round; one that sleeps keeps its state.
        overlap: whether to go by the rule's ``ahead`` in place of ``step``; where that is in another phase, after its
            ``shift``.
    """

    points: tuple[Tensor, ...]
    memory: Memory

    def __init__(
        self,
        rule: Any,
        agent_at: Callable[[int, Callable[..., Any], int], Any],
        dial: Callable[[int, Rates], None],
        awake: Callable[[int], bool],
        overlap: bool,
    ):
        self.rule, self.agent_at, self.dial, self.awake, self.overlap = rule, agent_at, dial, awake, overlap
        self._greenlet: Any = None

    def start(self, memory: Memory) -> None:
        """Go from there to the next question, answering again what had been answered."""
        self.memory = memory._replace(rates=memory.rates[:1], answers=[])
        self.dial(max(memory.t, 0), memory.rates[0])
        self._greenlet = greenlet.greenlet(self._run)
        self.points = self._greenlet.switch()
        for answer, rates in zip(memory.answers, memory.rates[1:], strict=True):
            self.answer(answer, rates)

    def answer(self, gradients: tuple[Tensor, ...], rates: Rates) -> None:
        """Go on with the gradients at `points`, at the rates of now, to the next question."""
        if self._greenlet.dead:
            raise RuntimeError(
                "this optimizer has stopped at an error before and cannot go on: make a new one and resume from the "
                "last checkpoint."
            )
        self.memory.answers.append(gradients)
        self.memory.rates.append(rates)
        self.dial(max(self.memory.t, 0), rates)
        # exceptions of the rule surface here; the greenlet's parent must be whoever calls now
        self._greenlet.parent = greenlet.getcurrent()
        self.points = self._greenlet.switch(gradients)

    def _run(self) -> None:
        t, state, *_ = self.memory
        if t < 0:
            agent = self.agent_at(0, self._ask, 0)
            state = self.rule.init(state.x, agent)
            t = 0
            if self.overlap and hasattr(self.rule, "shift"):
                state, t = self.rule.shift(state, agent), 1
        while True:
            self._begin(t, state)
            made = (self.rule.ahead if self.overlap else self.rule.step)(state, self.agent_at(t, self._ask, t + 1))
            state = made if self.awake(t) else state
            t += 1

    def _begin(self, t: int, state: State) -> None:
        rates = self.memory.rates[-1]
        self.memory = Memory(t, state, [rates], [])
        self.dial(t, rates)

    def _ask(self, points: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        parent = greenlet.getcurrent().parent
        assert parent is not None
        return parent.switch(points)
