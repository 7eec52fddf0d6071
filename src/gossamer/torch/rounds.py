r"""The rounds of a rule, left wherever it asks for a gradient that is not there yet.

A rule calls ``agent.gradient(x)`` in the middle of a round, but a training script computes gradients on its own and
then calls ``optimizer.step()``. So a round is left by an exception where it asks, and `answer` runs it again from its
start: earlier messages and answers are handed back in the same order, and only what comes after is new. Rules are pure,
so nothing else can differ. No thread, coroutine or greenlet is involved.

A loop over local steps, `agent.repeat`, is not run again: it goes on from where its last whole turn ended, and what was
answered in earlier turns is forgotten. So K local steps cost K gradients and the arithmetic of K steps, and hold one.

A rule of the library that posts its message ahead runs span by span once its gradient is there, so that its temporaries
stay in the cache: its arithmetic is elementwise. Its message is one for all spans if it travels while a gradient is
computed; otherwise each span has its own, and they share the buffers for what is received.

Between two rounds the state stands in buffers: what a rule returns is copied there, so that no array is another's
memory, and whoever loads a state can write it in place. What can be saved is that state, the rates in force, and what
was answered since. Messages are not: they are sent again, and draws depend on the round alone, so that all ranks
receive the same once more.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gossamer.core import State
from gossamer.torch.agent import ProcessAgent, like
from gossamer.torch.exchange import Message
from gossamer.torch.faults import Guard
from gossamer.torch.flat import Flat, Span
from gossamer.torch.hyperparameters import Hyperparameters, Rates

Gradients = Callable[[Span], tuple[Tensor, ...]]
"""A function that returns the gradients of a span, one for each point that the rule asks at."""


class Evaluation(NamedTuple):
    """Gradients that a rule has asked for, and the rates in force from then on."""

    gradients: tuple[Tensor, ...] | Gradients  # a function only where the rule is done with it within the call
    rates: Rates


@dataclass
class Loop:
    """The place of a loop of a round."""

    rates: Rates  # the rates in force since its last turn ended
    drawn: int  # how many vectors had been compressed in this round by then
    turns: int = 0  # how many turns have ended
    arrays: tuple[Tensor, ...] = ()  # what the last of them returned


class GradientRequest(BaseException):
    """A request of a rule for gradients that are not there yet."""

    def __init__(self, points: tuple[Tensor, ...], full: bool):
        super().__init__()
        self.points, self.full = points, full


class Replay:
    """The agent of a round that may be run again: messages, results and answers of before are handed back.

    Args:
        agent: sends its messages.
        hyperparameters: the numbers of the rule, which are set anew with each answer.
        apart: True if each span has a message of its own.
    """

    def __init__(self, agent: ProcessAgent, hyperparameters: Hyperparameters, apart: bool):
        self.agent, self.hyperparameters, self.apart = agent, hyperparameters, apart
        self.answers: list[Evaluation | Loop] = []
        self.messages: list[list[Message]] = []
        self.results: list[Any] = []

    def rewind(self, span: Span, rates: Rates) -> None:
        """Begin the round again, for a span of the vector, at the rates of its start."""
        self.span, self.rates = span, rates
        self._answer = self._message = self._result = 0
        self.model: tuple[Any, Any] = (None, None)
        """A model after weight decay, and the model before: gradients at the first are asked for at the second."""
        self.hyperparameters.set(span, self.agent.t, rates)

    def gradient(self, *points: Tensor, full: bool = False) -> Any:
        if self._answer == len(self.answers):
            shrunk, whole = self.model
            raise GradientRequest(
                points if shrunk is None else tuple(whole if p is shrunk else p for p in points), full
            )
        answer = self.answers[self._answer]
        assert isinstance(answer, Evaluation)
        self._answer += 1
        if answer.rates != self.rates:
            self.rates = answer.rates
            self.hyperparameters.set(self.span, self.agent.t, self.rates)
        found: Any = answer.gradients(self.span) if callable(answer.gradients) else answer.gradients
        if self.hyperparameters.decays_gradient:
            found = self.hyperparameters.decay_gradients(found, points, self.span)
        return found[0] if len(points) == 1 else found

    def full_gradient(self, *points: Tensor) -> Any:
        return self.gradient(*points, full=True)

    def post(self, *arrays: Tensor, over: Any = "W", late: tuple[int, ...] = ()) -> Callable[[], Any]:
        agent = self.agent
        if self._message == len(self.messages):
            self.messages.append(agent.exchange.post(arrays, over, agent.t, late))
        self._message += 1
        start = self.span.first if self.apart else 0  # of the arrays that the message carries
        first, last = self.span.first - start, self.span.last - start
        return partial(agent.exchange.mix, self.messages[self._message - 1], first, last)

    def release(self) -> None:
        """Give back the buffers of all messages, which have been mixed."""
        for posted in self.messages:
            self.agent.exchange.release(posted)
        self.messages = []

    def average(self, a: Tensor, warm: Any, over: Any = "W") -> Any:
        return a if warm == 0 else self._once(lambda: self.agent.average(a, warm, over))

    def __getattr__(self, name: str) -> Any:
        """Return any other method of the agent; its result is handed back the next time the round is run."""
        method = getattr(self.agent, name)
        return lambda *arrays, **options: self._once(lambda: method(*arrays, **options))

    def repeat(self, times: int, step: Callable[..., Any], *arrays: Tensor) -> Any:
        if self._answer == len(self.answers):
            self.answers.append(Loop(self.rates, self.agent.drawn))
        place, results, loop = self._answer + 1, self._result, self.answers[self._answer]
        assert isinstance(loop, Loop)
        self._answer = place
        arrays = loop.arrays if loop.turns else arrays
        self.rates, self.agent.drawn = loop.rates, max(self.agent.drawn, loop.drawn)
        self.hyperparameters.set(self.span, self.agent.t, loop.rates)
        while loop.turns < times:
            result = step(*arrays)
            arrays = result if isinstance(result, tuple) else (result,)
            loop.rates, loop.drawn, loop.turns, loop.arrays = self.rates, self.agent.drawn, loop.turns + 1, arrays
            del self.answers[place:], self.results[results:]
            self._answer, self._result = place, results
        return like(arrays, arrays)

    def _once(self, compute: Callable[[], Any]) -> Any:
        """Return the result at this place of the round; the first time, compute it."""
        if self._result == len(self.results):
            self.results.append(compute())
        self._result += 1
        return self.results[self._result - 1]


class Rounds:
    """A rule on its way through its rounds. `points` is where it asks for gradients now.

    Args:
        agent: sends its messages.
        hyperparameters: has the rule, and its numbers of each round.
        flat: the parameters.
        guard: refuses a state that is not finite before any of it is sent.
        buffers: by name, the arrays of its state. Those that have none yet get one.
        ahead: True to go by the rule's ``ahead`` in place of ``step``; where that is in another phase, after ``shift``.
        overlap: True if ``ahead`` sends its message at once, False if only when the gradient is there.
        in_spans: True if the rule may run span by span.
        may_sleep: True if this agent may be asleep in a round, and keeps its state then.
    """

    points: tuple[Tensor, ...]
    full: bool  # True if the gradients are to be over all of this agent's samples
    t: int  # the round; −1 before the start has been made
    rates: Rates  # the rates in force when this round began

    def __init__(
        self,
        agent: ProcessAgent,
        hyperparameters: Hyperparameters,
        flat: Flat,
        guard: Guard,
        buffers: dict[str, Tensor],
        *,
        ahead: bool,
        overlap: bool,
        in_spans: bool,
        may_sleep: bool,
    ):
        self.hyperparameters, self.rule, self.flat = hyperparameters, hyperparameters.rule, flat
        self.check, self.buffers, self.may_sleep = guard.check, buffers, may_sleep
        self._ahead, self._overlap, self._in_spans, self._is_over = ahead, overlap, in_spans, False
        # after a loss an elastic run goes back to the state before the round: no span may have moved on by then
        apart = in_spans and not overlap and not may_sleep
        self._spans = flat.divide(apart) if in_spans else [flat.whole]
        self._replay = Replay(agent, hyperparameters, apart)

    @property
    def answers(self) -> list[Evaluation | Loop]:
        """The answers of this round, in order, and where its loops stand."""
        return self._replay.answers

    def start(self, t: int, rates: Rates, answers: list[Evaluation | Loop]) -> None:
        """Go from the buffers to the next question.

        Args:
            t: the round; −1 to begin from x alone.
            rates: the rates in force when it began.
            answers: what was answered in it.
        """
        self._begin(t, rates, answers)
        self._run()

    def check_alive(self) -> None:
        """Refuse to go on after an error."""
        if self._is_over:
            raise RuntimeError(
                "this optimizer has stopped at an error before and cannot go on: make a new one and resume from the "
                "last checkpoint."
            )

    def answer(self, gradients: Gradients, rates: Rates) -> None:
        """Go on with the gradients at `points`, at the present rates, to the next question."""
        replay = self._replay
        if len(self._spans) > 1 and self.t >= 0 and not replay.messages and not replay.apart:
            self._is_over = True
            with contextlib.suppress(GradientRequest):
                self._round()  # to its question: the message of all spans leaves
        replay.answers.append(Evaluation(gradients if self._in_spans else gradients(self.flat.whole), rates))
        del gradients  # a loop forgets what was answered in earlier turns
        self._run()

    def restart(self) -> None:
        """Make of the buffers a state that the rule can go on from among other agents."""
        self._keep(dict(self.rule.restart(State(**self.buffers))))

    def freeze(self, x: Tensor) -> Tensor:
        """Return a model, with the parameters that were frozen later as they were."""
        return self.flat.freeze(x, self.flat.whole)

    def _begin(self, t: int, rates: Rates, answers: list[Evaluation | Loop]) -> None:
        self.t, self.rates, self._state, replay = t, rates, State(**self.buffers), self._replay
        replay.answers, replay.messages, replay.results = answers, [], []
        agent = replay.agent
        agent.t, agent.number, agent.drawn = max(t, 0), t + 1, 0

    def _run(self) -> None:
        self._is_over = True  # unless it comes to the next question
        self.points = ()
        try:
            while self.t < 0 or self._replay.answers or self._overlap or not self._ahead:
                self._round()
            points, full = (self.buffers["x"],), False  # `ahead` asks there, and has time until then
        except GradientRequest as request:
            # not kept: its traceback would hold all arrays of the round until the garbage collector comes
            points, full = request.points, request.full
        self.points, self.full = tuple(map(self.freeze, points)), full
        self._is_over = False

    def _round(self) -> None:
        """Run this round, from its start to a question, or to its end and the beginning of the next one."""
        t, replay, sums = self.t, self._replay, list[Tensor]()
        step = self.rule.ahead if self._ahead else self.rule.step
        whole = not replay.answers or t < 0 or len(self._spans) == 1
        others = dict[str, Tensor]()  # arrays that are no vectors of the model: all spans need those of before
        for span in (self.flat.whole,) if whole else self._spans:
            replay.rewind(span, self.rates)
            view = self.buffers if whole else self._cut(span)
            if t < 0:
                after = self._start_rule()
            elif self.hyperparameters.shrinks:
                shrunk = self.hyperparameters.shrink(State(**view), span, t, self.rates)
                replay.model = shrunk.x, view["x"]  # gradients that are asked for at its model are at the model before
                after = step(shrunk, replay)
            else:
                after = step(self._state if whole else State(**view), replay)
            if replay.apart:
                replay.release()
            if t < 0 or not self.may_sleep or self._is_awake(t):
                arrays = dict(after)
                sums += map(torch.sum, arrays.values())
                if self.flat.frozen_later:
                    arrays["x"] = self.flat.freeze(arrays["x"], span)
                if not whole:
                    others |= {name: arrays.pop(name) for name in [*arrays] if view[name] is self.buffers[name]}
                self._keep(arrays, view)
        if others:
            self._keep(others)
        self.check(self.buffers, replay.rates, sums)
        replay.release()
        if t < 0:
            replay.agent.exchange.drop_buffers()
        self._begin(t + 1 if t >= 0 else int(self._ahead and hasattr(self.rule, "shift")), replay.rates, [])

    def _start_rule(self) -> State:
        """Return the state that the rule starts with, in the phase that it goes on in."""
        replay, rule = self._replay, self.rule
        after = rule.init(self.buffers["x"], replay)
        if not (self._ahead and hasattr(rule, "shift")):
            return after
        if self.hyperparameters.shrinks:
            after = self.hyperparameters.shrink(after, self.flat.whole, 0, replay.rates)
        return rule.shift(after, replay)

    def _is_awake(self, t: int) -> bool:
        exchange = self._replay.agent.exchange
        awake = exchange.network.awake(t)
        return awake is None or self.rule.needs == "nothing" or bool(np.asarray(awake)[exchange.world.rank])

    def _cut(self, span: Span) -> dict[str, Tensor]:
        """Return the buffers of a span: views of those that are as long as the model, and all others whole."""
        return {name: span.of(a) if a.shape == (self.flat.size,) else a for name, a in self.buffers.items()}

    def _keep(self, arrays: dict[str, Tensor], view: dict[str, Tensor] | None = None) -> None:
        """Copy a state into the buffers, or a view of them. An array in one that moves to another is copied twice."""
        view, storages = self.buffers if view is None else view, set()
        for a in self.buffers.values():
            storages.add(a.untyped_storage().data_ptr())
        for name, a in arrays.items():
            if a is not view.get(name) and a.untyped_storage().data_ptr() in storages:
                arrays[name] = a.clone()
        for name, a in arrays.items():
            if name not in view:
                self.buffers[name] = a.clone()
            elif a is not view[name]:
                view[name].copy_(a)


class Probe:
    """An agent that is asked what a rule's state is made of, and what it posts ahead: nothing is sent or computed."""

    def __init__(self, agents: int, x: Tensor):
        self._agents, self._x = agents, x
        self.posted: tuple[Tensor, ...] = ()

    def gossip(self, *arrays: Tensor, **_: Any) -> Any:
        return like(arrays, map(torch.empty_like, arrays))

    gradient = full_gradient = gossip_sum = gossip_robust = mean = gossip

    def gossip_compressed(self, *arrays: Tensor, by: Any) -> Any:
        return like(arrays, [(torch.empty_like(a), torch.empty_like(a)) for a in arrays])

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


def probe_state(rule: Any, x: Tensor, agents: int, ahead: bool) -> tuple[Mapping[str, Tensor], Sequence[str]]:
    """Return the arrays of a rule's state without their numbers, and those of them that it posts ahead, in order.

    Args:
        rule: the rule.
        x: a vector as long as the model, on the device "meta".
        agents: how many there are.
        ahead: True if it goes by ``ahead``.
    """
    probe = Probe(agents, x)
    state = rule.init(x, probe)
    if not ahead:
        return state, ()
    state = rule.shift(state, probe) if hasattr(rule, "shift") else state
    rule.ahead(state, probe)
    names = {id(a): name for name, a in state.items()}
    return state, [names[id(a)] for a in probe.posted]
