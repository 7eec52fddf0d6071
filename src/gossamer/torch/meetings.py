"""Meetings of two agents, each in a process of its own: at both or at neither, and nobody waits for a third.

An agent asks one neighbour and waits for its answer alone, and an answer never waits for anything: who is in the middle
of a meeting of its own says no at once. So who waits, waits for a thread that does not, and there can be no circle of
agents that wait for each other. Of two that ask each other at the same time the one of higher rank says yes, and begins
its own meeting anew.

**At both or at neither.** Who says yes has mixed already. Whether the other one still wanted it, it says by a third
letter, KEPT or VOID; after VOID the first takes back what it added. Nobody waits for that letter. Letters between two
ranks stay in their order and are not lost while both live.

**Ranks that die** take what they held with them. All that survive restart the rule's tracker from what is their own
(v = m) when they hear of it, and meet only those who know of the same deaths: what is tracked then adds up to what it
should again, over those that are left. One that is only silent is asked no more until it is heard again.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gossamer.core import State
from gossamer.networks import Network
from gossamer.torch.exchange import Counters
from gossamer.torch.letters import Kind, Letter, Letters
from gossamer.torch.news import News
from gossamer.torch.world import ProcessWorld


@dataclass
class Tally:
    """What became of this rank's meetings."""

    met: int = 0
    """Times that it woke and met a neighbour."""
    alone: int = 0
    """Times that it woke and stepped by itself."""
    answered: int = 0
    """Times that a neighbour asked and it said yes."""
    refused: int = 0
    """Times that it asked and heard no."""
    silent: int = 0
    """Times that it asked and heard nothing within the timeout."""
    undone: int = 0
    """Times that its yes came too late, and was taken back."""


@dataclass
class Question:
    """A meeting that this rank has asked for."""

    peer: int
    number: int
    outcome: Kind | None = None
    """YES or NO; VOID where it must be asked anew."""
    body: Tensor | None = None


class Anew(Exception):
    """The state has changed under a rule that is waking: it must wake anew, from the present one."""


class Meetings:
    """The state of this rank, which it shares with neighbours that meet it.

    Args:
        world: the ranks.
        network: says who may meet.
        counters: count letters, and seconds of waiting.
        restart: makes a state whose tracker is this rank's own.
    """

    def __init__(self, world: ProcessWorld, network: Network, counters: Counters, restart: Callable[[State], State]):
        self.world, self.counters, self.tally = world, counters, Tally()
        self.news = News(world.rank, network)
        self._restart, self._seconds = restart, world.timeout.total_seconds()
        self._lock = threading.Condition()
        self._state: State | None = None
        self._busy = self._stale = self._ended = False
        self._question: Question | None = None
        self._asked = 0
        self._unanswered = dict.fromkeys(self.news.near, 0)
        self._kept: dict[tuple[int, int], dict[str, Tensor]] = {}
        """By rank and number: what was added to the state in meetings that the other one has not settled yet."""
        self._later: list[dict[str, Tensor]] = []
        """What is to be taken back after the meeting that goes on."""
        self._letters = Letters(world, self.news.near, self._received, self._lose)
        self._letters.begin()

    @property
    def state(self) -> State | None:
        """The state as it is now; None before there is one, when all are told no."""
        with self._lock:
            return self._state

    def put(self, state: State | None) -> None:
        """Hold a state from now on."""
        with self._lock:
            self._state = state

    def begin(self) -> None:
        """Say no to all that ask, until `commit`."""
        with self._lock:
            self._busy = True

    def present(self) -> State:
        """The state from which to wake."""
        with self._lock:
            self._refresh()
            assert self._state is not None
            return self._state

    def commit(self, new: State) -> State:
        """The new state, as it is held: without what was taken back meanwhile."""
        with self._lock:
            for added in self._later:
                new = _without(new, added)
            self._later.clear()
            self._state, self._busy = new, False
            self._refresh()
            return self._state

    def ask(self, peer: int, arrays: dict[str, Tensor]) -> dict[str, Tensor] | None:
        """The arrays of a neighbour that says yes; None where it says no, or nothing within the timeout."""
        began = time.monotonic()
        with self._lock:
            if self._stale:
                raise Anew
            if peer in self.news.away():
                return None
            self._asked += 1
            question = self._question = Question(peer, self._asked)
            self._unanswered[peer] += 1
            self._send(peer, Kind.ASK, self._asked, arrays)
            self._lock.wait_for(lambda: question.outcome is not None, self._seconds)
            self._question = None
            self.counters.seconds_waiting += time.monotonic() - began
            if question.outcome is None:
                self.news.silent.add(peer)
                self.tally.silent += 1
            if question.outcome == Kind.VOID:
                raise Anew
            self.tally.refused += question.outcome == Kind.NO
            return None if question.body is None else _apart(question.body, arrays)

    def gather(self) -> None:
        """Wait until all ranks are here, answering those that are not; then no state changes until they go on.

        A rank that does not answer for longer than the timeout is lost, and the others go on without it. After the end
        all are here.
        """
        if self._ended:
            return
        with self._lock:
            self._wait(lambda: any(self._unanswered.values()))
            self._learn(self.news.arrived())
            self._wait(self.news.awaited)
            self._wait(lambda: bool(self._kept))

    def end(self) -> None:
        """After `gather`: take leave of all."""
        with self._lock:
            gone = self.news.gone()
            for peer in set(self.news.near) - gone:
                self._send(peer, Kind.BYE)
            self._ended = True
        self._letters.end(gone, self._seconds)

    def _received(self, peer: int, letter: Letter) -> None:
        """Answer a letter at once: by the thread that reads those of this neighbour."""
        with self._lock:
            self.news.hear(peer)
            self._learn(dict(enumerate(letter.news.tolist())))
            match letter.kind:
                case Kind.ASK:
                    self._asked_by(peer, letter)
                case Kind.YES | Kind.NO:
                    self._answered(peer, letter)
                case Kind.KEPT | Kind.VOID:
                    self._settled(peer, letter)
                case Kind.CALL:
                    self._send(peer, Kind.NEWS)
                case Kind.BYE:
                    self.news.left.add(peer)
                case Kind.NEWS:
                    pass
            self._lock.notify_all()

    def _asked_by(self, peer: int, letter: Letter) -> None:
        question, state = self._question, self._state
        crossing = question is not None and question.peer == peer and question.outcome is None
        free = not self._busy or (crossing and peer < self.world.rank)
        if state is None or not free or self.news.gone(letter.news) != self.news.gone():
            return self._send(peer, Kind.NO, letter.number)
        assert letter.body is not None
        mine = {name: state[name] for place, name in enumerate(sorted(state)) if letter.which >> place & 1}
        theirs = _apart(letter.body, mine)
        means = {name: (a + theirs[name]) / 2 for name, a in mine.items()}
        self._kept[peer, letter.number] = {name: means[name] - a for name, a in mine.items()}
        self._send(peer, Kind.YES, letter.number, mine)
        self._state = State(**dict(state) | means)
        self.tally.answered += 1
        if crossing and question is not None:
            question.outcome = Kind.VOID
        return None

    def _answered(self, peer: int, letter: Letter) -> None:
        question = self._question
        self._unanswered[peer] = max(0, self._unanswered[peer] - 1)
        wanted = question is not None and (question.peer, question.number) == (peer, letter.number)
        if question is not None and wanted and question.outcome is None:
            question.outcome, question.body = letter.kind, letter.body
        else:
            wanted = False
        if letter.kind == Kind.YES:
            self._send(peer, Kind.KEPT if wanted else Kind.VOID, letter.number)

    def _settled(self, peer: int, letter: Letter) -> None:
        added = self._kept.pop((peer, letter.number), None)
        if letter.kind == Kind.KEPT or added is None:
            return
        self.tally.undone += 1
        if self._busy:
            self._later.append(added)
        elif self._state is not None:
            self._state = _without(self._state, added)

    def _lose(self, peer: int) -> None:
        if not threading.main_thread().is_alive():  # this process ends and hangs up itself: its peers are well
            return
        with self._lock:
            if not self._ended and peer not in self.news.left:
                self._learn(self.news.lost(peer))
                self._lock.notify_all()

    def _learn(self, told: dict[int, int]) -> None:
        """Take in news, and pass on what is new; deaths make the tracker begin anew."""
        known = self.news.gone()
        if not self.news.take(told):
            return
        lost = self.news.gone() - known
        for peer in lost & set(self.news.near):
            self._unanswered[peer] = 0
        if lost:
            self._kept.clear()
            self._later.clear()
            self._stale = self._state is not None
            if self._question is not None and self._question.outcome is None:
                self._question.outcome = Kind.VOID
            if not self._busy:
                self._refresh()
        for peer in set(self.news.near) - self.news.away():
            self._send(peer, Kind.NEWS)

    def _refresh(self) -> None:
        """Begin the tracker anew, where ranks were lost since."""
        if self._stale and self._state is not None:
            self._state, self._stale = self._restart(self._state), False

    def _wait(self, missing: Callable[[], bool]) -> None:
        """Wait until nothing is missing, and call neighbours meanwhile: those that do not answer are lost."""
        began = time.monotonic()
        while not self._lock.wait_for(lambda: not missing(), min(1.0, self._seconds / 4)):
            for peer in set(self.news.near) - self.news.gone() - self.news.left:
                if time.monotonic() - max(began, self.news.heard.get(peer, 0.0)) > self._seconds:
                    self._learn(self.news.lost(peer))
                else:
                    self._send(peer, Kind.CALL)

    def _send(self, peer: int, kind: Kind, number: int = 0, arrays: dict[str, Tensor] | None = None) -> None:
        which, body = 0, None
        if arrays is not None and self._state is not None:
            which = sum(1 << place for place, name in enumerate(sorted(self._state)) if name in arrays)
            body = torch.cat([arrays[name].reshape(-1) for name in sorted(arrays)]).cpu()
        letter = Letter(kind, number, which, self.news.told.clone(), body)
        self.counters.messages += 1
        self.counters.bytes_sent += letter.nbytes
        self._letters.send(peer, letter)


def _apart(body: Tensor, like: dict[str, Tensor]) -> dict[str, Tensor]:
    """Arrays that were sent in one piece, in the order of their names."""
    names = sorted(like)
    parts = body.split([like[name].numel() for name in names])
    return {name: part.to(like[name]).view_as(like[name]) for name, part in zip(names, parts, strict=True)}


def _without(state: State, added: dict[str, Tensor]) -> State:
    return State(**dict(state) | {name: state[name] - a for name, a in added.items()})
