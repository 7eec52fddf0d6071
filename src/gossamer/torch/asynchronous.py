r"""Asynchronous training: a rule's ``wake`` on real processes, without rounds.

An agent that has computed a gradient wakes: it takes the gradient in, meets one peer and steps. Two agents that meet
replace some of their arrays by the mean of both. While the script computes the next gradient, threads answer the peers
that ask for a meeting. They mix a state that is apart from the parameters, so that no gradient sees its model change.
A meeting of i with j takes three messages:

    i -> j  REQUEST           the arrays of i, which waits for the reply, for `timeout` at most
    j -> i  ACCEPT, DECLINE   with ACCEPT the arrays of j, which holds the means from then on
    i -> j  COMMIT, ABORT     i holds the means as well; or ACCEPT came too late, and j reverts its change

**No deadlock.** Only i waits, and only for a thread of j that never waits: an agent that is waking itself declines at
once. If i and j ask each other at the same time, the higher rank accepts, withdraws its own request and wakes again.

**At both or at neither.** Messages between two ranks keep their order and are not lost while both live. So a meeting
that one of the two abandons is reverted by the other, and Σ v = Σ m holds again once all messages have arrived.

**Common points.** To save, to average and to end, all ranks meet: each answers its peers until all have arrived and all
accepted meetings are settled. From there until its own next step a rank declines, so that its state stays as it is.

**Failures.** A peer that does not reply within `timeout` is not asked again until it is heard. A process that dies, or
is silent at a common point, ends the run: who notices it tells all ranks by its last words (`gossamer.torch.faults`),
so that all raise a `NeighborLost` that names the same rank.
"""

import atexit
import contextlib
import enum
import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer import networks
from gossamer.core import InputError, State
from gossamer.networks import Network
from gossamer.torch.agent import ProcessAgent
from gossamer.torch.exchange import Counters, Exchange
from gossamer.torch.faults import GRACE, MOMENT, NeighborLost, Words
from gossamer.torch.hyperparameters import Rates
from gossamer.torch.rounds import Evaluation, GradientRequest, Gradients, Loop, Rounds
from gossamer.torch.world import ProcessWorld

MAX_REQUESTS = 3  # peers that an agent asks, one after the other, before it steps alone
HEARTBEATS = 8  # heartbeats that a peer must miss at a common point to be lost
CLOSING = 1.0  # seconds that a process waits at its end for peers to read its messages, and for its threads
LAST = -1  # the number of a PING after which nothing is sent
NOTICED = 1 << 62  # the step in the words of a rank that lost another: of several words those of the lowest step count
FOREVER = timedelta(days=30)
HEAD, BODY, UNUSED = 1, 2, 3  # tags of the two parts of a message, and of a message that is never sent


class Kind(enum.IntEnum):
    """The kinds of messages."""

    REQUEST = 0  # asks for a meeting, with the arrays of the sender
    ACCEPT = 1  # accepts, with the arrays of the sender before the meeting
    DECLINE = 2  # declines: the sender is waking, or has not stepped since the last common point
    COMMIT = 3  # confirms that the sender of the request holds the means as well
    ABORT = 4  # asks to revert the meeting, since ACCEPT came too late
    PING = 5  # asks for a PONG, while the sender waits at a common point
    PONG = 6
    ARRIVED = 7  # a rank has arrived at a common point; passed on by all
    LEAVE = 8  # ends the messages of the sender


class PeerMessage(NamedTuple):
    """A message between two peers: five integers, and arrays in one piece."""

    kind: Kind
    number: int = 0  # of the request, or the rank that has ARRIVED
    epoch: int = 0  # the number of common points that the sender had passed at its last step; with ARRIVED has reached
    names: int = 0  # the names of the arrays, as bits by their place in the sorted names of the state
    body: Tensor | None = None  # the arrays, in the order of their names


class Transport:
    """Point-to-point messages over gloo. Each peer has a reader and a writer thread; a stopped peer blocks only those.

    A wait of gloo that times out closes all connections of its group. So the threads wait without a limit, on a group
    of their own. They call `receive` with a peer and its message, or with None once the connection has closed.
    """

    def __init__(self, world: ProcessWorld, peers: list[int], receive: Callable[[int, PeerMessage | None], None]):
        self._dtype, self._receive = world.dtype, receive
        self._group: Any = dist.new_group(backend="gloo", timeout=world.timeout)
        self._queues: dict[int, queue.SimpleQueue[PeerMessage | None]] = {peer: queue.SimpleQueue() for peer in peers}
        self._behind = set(peers)  # peers that have not read everything
        self._writers = [threading.Thread(target=self._write, args=(peer,), daemon=True) for peer in peers]
        self._readers = [threading.Thread(target=self._read, args=(peer,), daemon=True) for peer in peers]
        atexit.register(self._close)
        for thread in self._writers + self._readers:
            thread.start()

    def send(self, peer: int, message: PeerMessage) -> None:
        """Queue a message, without waiting for it to leave."""
        self._queues[peer].put(message)

    def finish(self, seconds: float) -> None:
        """Wait until everything is written and read, up to the LEAVE of this rank and of each peer."""
        if _join(self._writers + self._readers, seconds):
            atexit.unregister(self._close)

    def _close(self) -> None:
        """Close all connections and end all threads: gloo's, in an interpreter that shuts down, abort the process."""
        for peer in self._queues:
            self.send(peer, PeerMessage(Kind.PING, LAST))
        end = time.monotonic() + CLOSING
        while self._behind and time.monotonic() < end:
            time.sleep(0.002)  # a connection that closes early may discard what the peer has not read yet
        for messages in self._queues.values():
            messages.put(None)
        for peer in self._queues:  # the first wait that times out closes all connections; one for a lost peer does not
            with contextlib.suppress(RuntimeError):
                self._group.recv([torch.zeros(1)], peer, UNUSED).wait(MOMENT)
        _join(self._writers + self._readers, CLOSING)

    def _write(self, peer: int) -> None:
        while message := self._queues[peer].get():
            *head, body = message
            try:
                length = -1 if body is None else body.numel()
                self._group.send([torch.tensor([*head, length])], peer, HEAD).wait(FOREVER)
                if body is not None:
                    self._group.send([body], peer, BODY).wait(FOREVER)
            except RuntimeError:
                return  # the reader reports it, once it has read what the peer sent before
            if message.kind == Kind.LEAVE:
                return

    def _read(self, peer: int) -> None:
        kind = None
        while kind != Kind.LEAVE:
            head, body = torch.zeros(5, dtype=torch.int64), None
            try:
                self._group.recv([head], peer, HEAD).wait(FOREVER)
                kind, number, epoch, names, length = head.tolist()
                if length >= 0:
                    body = torch.empty(length, dtype=self._dtype)
                    self._group.recv([body], peer, BODY).wait(FOREVER)
            except RuntimeError:
                self._behind.discard(peer)
                return self._receive(peer, None)
            if kind == Kind.PONG and number == LAST:
                self._behind.discard(peer)
            self._receive(peer, PeerMessage(Kind(kind), number, epoch, names, body))
        return self._behind.discard(peer)


def _join(threads: list[threading.Thread], seconds: float) -> bool:
    """Wait for threads, for so many seconds in all, and return True if they have ended."""
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


@dataclass
class Tally:
    """The outcomes of this rank's meetings, shown by `optimizer.meetings`."""

    met: int = 0  # times that this rank woke and met a peer
    alone: int = 0  # times that it woke and stepped alone
    answered: int = 0  # times that it accepted the request of a peer
    refused: int = 0  # times that a peer declined its request
    silent: int = 0  # times that a peer did not reply within the timeout
    undone: int = 0  # times that it reverted a meeting that it had accepted too late


class Preempted(Exception):
    """The peer that was asked has asked as well, and has changed the state: the rule must wake again from that."""


class Meetings:
    """The messages by which peers mix their states with that of this rank."""

    def __init__(self, world: ProcessWorld, network: Network, counters: Counters, tag: int):
        self.world, self.counters, self.tally, self._tag = world, counters, Tally(), tag
        self.peers: list[int] = network.neighbors(world.rank).tolist()
        self._timeout = world.timeout.total_seconds()
        self.state: dict[str, Tensor] = {}  # buffers; none before the rule has started
        self._is_waking = self._has_left = False
        self._failure: Exception | None = None
        self._request: tuple[int, int] | None = None  # the peer and the number of the one that waits for a reply
        self._reply: PeerMessage | None = None
        self._requests, self._unanswered = 0, dict.fromkeys(self.peers, 0)
        # what each accepted meeting has added to the state, by peer and number, until it is settled
        self._unsettled: dict[tuple[int, int], dict[str, Tensor]] = {}
        # what was aborted while this rank is waking: it is subtracted from the state that comes out
        self._aborted: list[dict[str, Tensor]] = []
        self._epoch, self._arrivals = 0, [0] * network.agents
        self._missed = dict.fromkeys(self.peers, 0)  # heartbeats, of each peer that has not left
        self._silent: set[int] = set()
        self.lock = threading.Condition()  # for everything above; it is notified after each message
        with self.lock:  # messages may arrive at once
            self._transport = Transport(world, self.peers, self._receive)

    def begin_step(self) -> None:
        """Decline all requests until `end_step`."""
        with self.lock:
            self._is_waking, self._epoch = True, self._arrivals[self.world.rank]

    def end_step(self, state: dict[str, Tensor]) -> None:
        """Mix these buffers from now on, after subtracting what was aborted since `begin_step`."""
        with self.lock:
            self.state, self._is_waking = state, False
            for added in self._aborted:
                self._revert(added)
            self._aborted.clear()

    def _revert(self, added: dict[str, Tensor]) -> None:
        for name, a in added.items():
            self.state[name] -= a

    def request(self, peer: int, arrays: dict[str, Tensor]) -> dict[str, Tensor] | None:
        """Ask a peer for a meeting and return its arrays; None if it declines or does not reply within the timeout."""
        began = time.monotonic()
        with self.lock:
            if peer in self._silent:
                return None
            self._requests += 1
            self._request, self._reply = (peer, self._requests), None
            self._unanswered[peer] += 1
            self._send(peer, Kind.REQUEST, self._requests, arrays)
            self.lock.wait_for(lambda: self._reply is not None or self._failure is not None, self._timeout)
            reply, self._request = self._reply, None
            self.counters.seconds_waiting += time.monotonic() - began
            self.check_alive()
            if reply is None:
                self._silent.add(peer)
                self.tally.silent += 1
                return None
            if reply.kind == Kind.ABORT:
                raise Preempted
            self.tally.refused += reply.kind == Kind.DECLINE
            return None if reply.body is None else _split(reply.body, arrays)

    def gather(self) -> None:
        """Wait at a common point until all ranks have arrived, answering peers that have not."""
        with self.lock:
            if self._has_left:
                return  # all have arrived at the end
            rank, self._missed = self.world.rank, dict.fromkeys(self._missed, 0)
            self._wait(lambda: not any(self._unanswered.values()))
            self._arrive(PeerMessage(Kind.ARRIVED, rank, self._arrivals[rank] + 1))
            self._wait(lambda: min(self._arrivals) >= self._arrivals[rank])
            # that a peer has arrived may be known, by way of others, before its COMMIT is here
            self._wait(lambda: not self._unsettled)

    def leave(self) -> None:
        """End all messages, after `gather`."""
        with self.lock:
            for peer in self.peers:
                self._send(peer, Kind.LEAVE)
            self._has_left = True
        self._transport.finish(self._timeout)

    def check_alive(self) -> None:
        """Raise the error that ends the run, if there is one, after telling all ranks."""
        if (failure := self._failure) is None:
            return
        words, rank = self.world.words, self.world.rank
        if reason := words.reason(GRACE):
            raise reason
        if not words.is_over(self._tag):
            lost = getattr(failure, "ranks", ())
            words.say(Words(NOTICED, rank, self._tag, type(failure).__name__, str(failure), lost))
        raise failure

    def _wait(self, is_done: Callable[[], bool]) -> None:
        """Wait, and lose peers that miss their heartbeats. None is counted while this process itself is stopped."""
        period = min(1.0, self._timeout / HEARTBEATS)
        while not self.lock.wait_for(lambda: is_done() or self._failure is not None, period):
            if reason := self.world.words.reason():
                raise reason
            for peer in self._missed:
                self._missed[peer] += 1
                if self._missed[peer] * period > self._timeout:
                    self._lose(peer, f"was silent for longer than timeout={self._timeout:g} s where all ranks meet")
                self._send(peer, Kind.PING)
        if not is_done():  # a peer may end as soon as it has what it waited for
            self.check_alive()

    def _lose(self, peer: int, why: str) -> None:
        way_out = "Start all again from the last checkpoint, as `torchrun --max-restarts` does."
        error = NeighborLost(f"rank {self.world.rank} lost rank {peer}, which {why}. {way_out}", (peer,))
        self._failure = self._failure or error

    def _receive(self, peer: int, message: PeerMessage | None) -> None:
        """Answer a message at once, in the thread that has read it."""
        with self.lock:
            if message is None:
                # only noted: in a process that ends, and closes its connections itself, nobody reads it
                self._lose(peer, "closed its connections: it died, or ended without optimizer.finish()")
                return self.lock.notify_all()
            self._silent.discard(peer)
            self._missed[peer] = 0
            try:
                match message.kind:
                    case Kind.REQUEST:
                        self._answer(peer, message)
                    case Kind.ACCEPT | Kind.DECLINE:
                        self._take_reply(peer, message)
                    case Kind.COMMIT | Kind.ABORT:
                        self._settle(peer, message)
                    case Kind.PING:
                        self._send(peer, Kind.PONG, message.number)
                    case Kind.ARRIVED:
                        self._arrive(message)
                    case Kind.LEAVE:
                        del self._missed[peer]
                    case Kind.PONG:  # counted above
                        pass
            except Exception as error:  # such as no memory, which the script must see
                self._failure = self._failure or error
            return self.lock.notify_all()

    def _answer(self, peer: int, message: PeerMessage) -> None:
        """Accept a request, or decline it."""
        number = message.number
        crosses = self._request is not None and self._request[0] == peer and self._reply is None
        is_free = not self._is_waking or (crosses and peer < self.world.rank)
        if not self.state or message.body is None or not is_free or message.epoch != self._epoch:
            return self._send(peer, Kind.DECLINE, number)
        mine = {name: a for place, (name, a) in enumerate(sorted(self.state.items())) if message.names >> place & 1}
        theirs = _split(message.body, mine)
        self._send(peer, Kind.ACCEPT, number, mine)
        self._unsettled[peer, number] = added = {name: (theirs[name] - a) / 2 for name, a in mine.items()}
        for name, a in added.items():
            self.state[name] += a
        self.tally.answered += 1
        if crosses:
            self._reply = PeerMessage(Kind.ABORT)
        return None

    def _take_reply(self, peer: int, message: PeerMessage) -> None:
        """Give the reply to the request that waits for it; abort the meeting if none does any more."""
        self._unanswered[peer] -= 1
        is_wanted = self._request == (peer, message.number) and self._reply is None
        if is_wanted:
            self._reply = message
        if message.kind == Kind.ACCEPT:
            self._send(peer, Kind.COMMIT if is_wanted else Kind.ABORT, message.number)

    def _settle(self, peer: int, message: PeerMessage) -> None:
        """Forget what a meeting has added to the state, and subtract it if the peer has aborted."""
        added = self._unsettled.pop((peer, message.number))
        if message.kind == Kind.COMMIT:
            return
        self.tally.undone += 1
        if self._is_waking:
            self._aborted.append(added)
        else:
            self._revert(added)

    def _arrive(self, message: PeerMessage) -> None:
        """Note that a rank has arrived and, if it is new, pass it on to all peers."""
        if message.epoch > self._arrivals[message.number]:
            self._arrivals[message.number] = message.epoch
            for peer in self.peers:
                self._post(peer, message)

    def _send(self, peer: int, kind: Kind, number: int = 0, arrays: dict[str, Tensor] | None = None) -> None:
        names, body = 0, None
        if arrays is not None:
            names = sum(1 << place for place, name in enumerate(sorted(self.state)) if name in arrays)
            body = torch.cat([arrays[name].reshape(-1) for name in sorted(arrays)]).to("cpu", self.world.dtype)
        self._post(peer, PeerMessage(kind, number, self._epoch, names, body))

    def _post(self, peer: int, message: PeerMessage) -> None:
        self.counters.messages += 1
        self.counters.bytes_sent += 5 * 8 + (0 if message.body is None else message.body.nbytes)
        self._transport.send(peer, message)


def _split(body: Tensor, like: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the arrays of a body, which lie in the order of their names."""
    names = sorted(like)
    parts = body.split([like[name].numel() for name in names])
    return {name: part.to(like[name]).view_as(like[name]) for name, part in zip(names, parts, strict=True)}


class AsynchronousRounds(Rounds):
    """A rule that runs without rounds. From a common point until the next step, the states of all ranks add up.

    Args:
        agent: its exchange has the messages.
        parts: what else `Rounds` takes. Threads write into the buffers.
        seed: the seed of the order in which peers are asked.
        options: the options of `Rounds`.
    """

    full = False

    def __init__(self, agent: ProcessAgent, *parts: Any, seed: int, **options: Any):
        super().__init__(agent, *parts, **options)
        exchange: Any = agent.exchange
        self.meetings, self.tally = exchange.meetings, exchange.meetings.tally
        self._random, self._has_finished = random.Random(f"{seed}/{exchange.world.rank}"), False

    def start(self, t: int, rates: Rates, answers: list[Evaluation | Loop]) -> None:
        """Go on from the buffers to the point where the next gradient is wanted. All ranks must be together."""
        self.meetings.state, self.t, self.rates = {}, t, rates
        if t < 0:
            self._init(None, rates)
        else:
            self._go_on(t, State(**self.buffers), rates)

    def check_alive(self) -> None:
        """Raise an error if a rank is lost, after an earlier error, and after the end."""
        self.meetings.check_alive()
        super().check_alive()
        if self._has_finished:
            raise RuntimeError("this optimizer has finished, and its ranks have left: make a new one to train on.")

    def answer(self, gradients: Gradients, rates: Rates) -> None:
        """Wake with the gradient at `points`, and go on to the next point."""
        self.check_alive()
        self._is_over = True  # unless the step ends
        (g,) = gradients(self.flat.whole)
        if self.t < 0:
            self._init(g, rates)
        else:
            self._wake(g, rates)
        self._is_over = False

    def finish(self) -> None:
        """Answer peers until all ranks have finished, and end: the model is then as the peers have left it."""
        if not self._has_finished:
            self.check_alive()
            self.meetings.gather()
            self.meetings.leave()
            self.points, self._has_finished = (self.freeze(self.buffers["x"]),), True

    def _init(self, g: Tensor | None, rates: Rates) -> None:
        """Start the rule, or stop where it asks for its first gradient."""
        self.hyperparameters.set(self.flat.whole, 0, rates)
        try:
            state = self.rule.init(self.buffers["x"], StartingAgent(self.rule.name, g))
        except GradientRequest as request:
            self.points = tuple(map(self.freeze, request.points))
            return
        self._go_on(0, state, rates)

    def _wake(self, g: Tensor, rates: Rates) -> None:
        peers, t, new = self.meetings.peers, self.t, None
        order = self._random.sample(peers, min(len(peers), MAX_REQUESTS))
        self.meetings.begin_step()
        self.hyperparameters.set(self.flat.whole, t, rates)
        while new is None:
            with contextlib.suppress(Preempted):
                agent, state = WakingAgent(self, self.meetings, order, rates), State(**self.buffers)
                if self.hyperparameters.shrinks:
                    state = self.hyperparameters.shrink(state, self.flat.whole, t, rates)
                new = self.rule.wake(state, g, agent)
        self._go_on(t + 1, new, rates)

    def _go_on(self, t: int, state: State, rates: Rates) -> None:
        self.check(state, rates)
        with self.meetings.lock:
            self._keep(dict(state))
            self.meetings.end_step(self.buffers)
            self.t, self.rates = t, rates
            self.points = (self.freeze(self.buffers["x"].clone()),)


class WakingAgent:
    """The agent of a rule's ``wake``. It takes the peers that it asks out of the list, so that each is asked once."""

    def __init__(self, rounds: "AsynchronousRounds", meetings: Meetings, peers: list[int], rates: Rates):
        self._rounds, self._meetings, self._peers, self._rates = rounds, meetings, peers, rates
        self._has_met = False

    def meet(self, **arrays: Tensor) -> Any:
        """Return the means with the first peer that accepts; the arrays themselves if none does."""
        name, state, theirs = self._rounds.rule.name, self._meetings.state, None
        if self._has_met:
            raise InputError(f"{name} calls agent.meet twice in one wake: give all arrays to one call.")
        if unknown := ", ".join(arrays.keys() - state.keys()):
            raise InputError(f"{name} meets with {unknown}, but has only {', '.join(state)} to hold the mean in.")
        self._rounds.check(arrays, self._rates)
        while theirs is None and self._peers:
            theirs = self._meetings.request(self._peers.pop(), arrays)
        self._has_met = True
        if theirs is None:
            self._meetings.tally.alone += 1
        else:
            self._meetings.tally.met += 1
            arrays = {key: (a + theirs[key]) / 2 for key, a in arrays.items()}
        return next(iter(arrays.values())) if len(arrays) == 1 else tuple(arrays.values())


class StartingAgent:
    """The agent of a rule's ``init``, which may ask for one gradient and for nothing else."""

    def __init__(self, rule: str, g: Tensor | None):
        self._rule, self._g = rule, g

    def gradient(self, *points: Tensor) -> Tensor:
        if self._g is None:
            raise GradientRequest(points, full=False)
        return self._g

    def average(self, a: Tensor, warm: Any, over: str = "W") -> Tensor:
        return a if warm == 0 else self.mean(a)  # which is refused

    def __getattr__(self, name: str) -> Any:
        raise InputError(
            f"{self._rule} asks for agent.{name} at its start, but an asynchronous start has one gradient and no "
            "messages: leave asynchronous out."
        )


class AsynchronousExchange(Exchange):
    """The exchange of asynchronous ranks."""

    def __init__(self, world: ProcessWorld, network: Network, counters: Counters):
        super().__init__(world, network, counters)
        self.meetings = Meetings(world, network, counters, self.tag)

    def meet(self) -> None:
        """Wait until all ranks are here, answering those that are not."""
        self.meetings.gather()


def without_rounds(
    network: Network, overlap: bool | str | None, on_nonfinite: str, elastic: bool, process_group: Any
) -> Network:
    """Return the asynchronous form of a network. Raise InputError if another argument needs rounds."""
    arguments = {"overlap": overlap, 'on_nonfinite="skip"': on_nonfinite == "skip", "elastic": elastic}
    if given := [name for name, value in arguments.items() if value]:
        raise InputError(
            f"{given[0]} needs rounds that all ranks take together, but asynchronous=True has none: leave one out."
        )
    if process_group is not None:
        raise InputError(
            "process_group= makes several processes one agent, as DDP and FSDP do inside a node, but with "
            "asynchronous=True each of them would meet others at its own times, and their copies would drift apart. "
            "Leave process_group out, so that each process is an agent of its own, or leave asynchronous out."
        )
    return networks.asynchronous(network)
