r"""Messages between neighbours: $\sum_j w_{ij} a_j$ where every $a_j$ lives in a process of its own.

One call is one message to each neighbour, whatever it carries. Posting and mixing are two calls, so that a message can
travel while a gradient is computed. Arrays that stand side by side in memory are sent from there; received ones go into
buffers that are used again. An agent adds its neighbours to itself by ascending rank, so that a run repeats to the bit.
"""

import hashlib
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.basics.pytrees import flatten
from gossamer.torch.faults import GRACE, NeighborLost, alive
from gossamer.torch.world import ProcessWorld, in_short

if TYPE_CHECKING:
    from gossamer.networks import Network

LONGEST_PERIOD = 1000  # rounds after which a network may come again so that each of them is looked up only once
GLANCE = timedelta(milliseconds=20)  # how long to wait when looking whether a message is there

RankWeights = dict[int, float]
"""The weight that a rank gives to each rank that it hears, itself included, by ascending rank."""


@dataclass
class Counters:
    """Costs of this rank since the run began, also before it was resumed."""

    bytes_sent: int = 0
    """Bytes sent to all neighbours together."""
    messages: int = 0
    """Messages sent to all neighbours together."""
    bytes_reduced: int = 0
    """Bytes put into all-reduces."""
    seconds_waiting: float = 0.0
    """Seconds spent waiting for messages that had not arrived when they were needed, and for the rule's all-reduces."""
    overflows: int = 0
    """Steps of this rank with gradients that overflowed under mixed precision."""
    skipped: int = 0
    """Steps that all ranks left out because the gradient of one of them was not finite."""


class Neighbors(NamedTuple):
    """The neighbours of a rank in a round: the weights by each matrix, whom it hears, and whom it sends to."""

    weights: dict[str, RankWeights]
    sources: tuple[int, ...]
    targets: tuple[int, ...]


@dataclass(eq=False)
class Message:
    """A message on its way, to and from all neighbours of a round: all that must stay until it has arrived."""

    sent: Tensor  # the vector that travels
    received: dict[int, Tensor]  # by neighbour, a buffer that is at least as long
    works: Sequence[tuple[int | None, Any]]  # to wait for, each with its neighbour; one without answers for all
    arrays: Sequence[Tensor] = ()  # the arrays that it carries
    weights: Sequence[RankWeights] = ()  # for each of them, the weights that mix it
    arrived: bool = False


_ORPHANS: list[list[Message]] = []  # messages of exchanges that are gone, whose memory must stay until they arrive


class Exchange:
    """The messages of one optimizer of one rank, told apart from those of others by tags."""

    def __init__(self, world: ProcessWorld, network: "Network", counters: Counters):
        self.world, self.counters = world, counters
        self.grouped = world.device.type == "cuda"
        """True where all messages of a round are handed over in one call, as NCCL needs it."""
        # a wait with a timeout would stop the host of a GPU: see `ProcessWorld.wait`
        self._limit = () if world.device.type == "cuda" else (world.timeout,)
        self._free: list[Tensor] = []
        self._flying: list[Message] = []
        self.rewire(network, next(world.words.tags))
        while _ORPHANS:  # ranks that step equally often have all sent theirs by now
            for message in _ORPHANS.pop():
                self._arrive(message)
        weakref.finalize(self, _ORPHANS.append, self._flying)

    def rewire(self, network: "Network", tag: int = 1) -> None:
        """Begin among the ranks of this network; messages of before are forgotten.

        After a loss the tag is 1 on all ranks, since each has one such optimizer.
        """
        self.network, self.changes, self.tag = network, network.changes, tag
        mixer = network.mixer
        self._period = None if mixer.random or mixer.period > LONGEST_PERIOD else mixer.period
        self._neighbors: dict[tuple[int, str], Neighbors] = {}
        self._group = weakref.ref(self.world.group)  # whoever keeps a group keeps its threads
        self._flying.clear()

    def neighbors(self, t: int, matrices: str) -> Neighbors:
        """Return who talks to whom in round t by these matrices; looked up once where rounds come again."""
        key = t if self._period is None else t % self._period, matrices
        if key in self._neighbors:
            return self._neighbors[key]
        rank, weights, sources, targets = self.world.rank, {}, set(), set()
        for name in sorted(set(matrices)):
            matrix = self.network.matrix(t, name)  # pyright: ignore[reportArgumentType]
            row, column = matrix[[rank], :].tocoo(), matrix[:, [rank]].tocoo()
            pairs = sorted(zip(row.col.tolist(), row.data.tolist(), strict=True))
            weights[name] = {source: weight for source, weight in pairs if weight != 0}
            targets |= {int(j) for j, weight in zip(column.row, column.data, strict=True) if weight != 0}
            sources |= set(weights[name])
        neighbors = Neighbors(weights, tuple(sorted(sources - {rank})), tuple(sorted(targets - {rank})))
        if self._period is not None:
            self._neighbors[key] = neighbors
        return neighbors

    def post(self, arrays: Sequence[Tensor], over: str, t: int, late: Sequence[int] = ()) -> list[Message]:
        """Send arrays to the neighbours; `mix` waits for theirs. The arrays must stay as they are until then.

        Args:
            arrays: the arrays of one message.
            over: the matrix that mixes them; "RC" mixes the first by R and the second by C.
            t: the round.
            late: for each array, how many rounds ago it was made, whose weights may have been others. On a network that
                changes, such arrays go to the neighbours of their own round each, by messages of their own, in the
                order of the arrays at both ends.
        """
        matrices = over if over == "RC" else over * len(arrays)
        parcels: list[tuple[Sequence[Tensor], str, int]] = [(arrays, matrices, t)]
        if self.changes and any(late):
            parcels = [([a], name, t - ago) for a, name, ago in zip(arrays, matrices, late, strict=True)]
        messages, free = [], self._free
        for own, names, when in parcels:
            neighbors, sent, received = self.neighbors(when, names), _pack(own), dict[int, Tensor]()
            for peer in neighbors.sources:
                # the last span is a little shorter than the others, and may have the buffer of one of them
                fit = [k for k, row in enumerate(free) if row.numel() >= sent.numel() and row.dtype == sent.dtype]
                received[peer] = free.pop(fit[0]) if fit else torch.empty_like(sent)
            message = self._send(sent, received, neighbors.targets)
            message.arrays, message.weights = own, list(map(neighbors.weights.__getitem__, names))
            messages.append(message)
        self._flying += messages
        return messages

    def mix(self, messages: Sequence[Message], first: int, last: int) -> Any:
        """Return Σ_j w_ij a_j of the numbers from `first` up to `last` of each array, once all have arrived."""
        mixed, rank = [], self.world.rank
        for message in messages:
            if not message.arrived:
                self._arrive(message)
            start = 0
            for a, weights in zip(message.arrays, message.weights, strict=True):
                flat, size = a.reshape(-1), a.numel()
                stop = min(last, size)
                total = flat[first:stop] * weights.get(rank, 0.0)
                for peer, row in message.received.items():
                    if peer in weights:
                        total.add_(row[start + first : start + stop], alpha=weights[peer])
                mixed.append(total.view_as(a) if total.numel() == size else total)
                start += size
        return mixed[0] if len(mixed) == 1 else tuple(mixed)

    def release(self, messages: Sequence[Message]) -> None:
        """Use the buffers of messages again, which have been mixed."""
        for message in messages:
            self._flying.remove(message)
            self._free += message.received.values()

    def drop_buffers(self) -> None:
        """Drop the buffers of the start, whose messages are shorter or longer than those of a round."""
        self._free.clear()

    def swap(self, sent: Tensor, t: int) -> tuple[dict[int, Tensor], RankWeights]:
        """Send encoded bytes, and return those of every neighbour and the weights of W."""
        neighbors = self.neighbors(t, "W")
        received = {peer: torch.empty_like(sent) for peer in neighbors.sources}
        self._arrive(self._send(sent, received, neighbors.targets))
        return received, neighbors.weights["W"]

    def meet(self) -> None:
        """Wait until all ranks are here. Each hears every other, so that one that is missing can be named."""
        others = tuple(rank for rank in range(self.world.size) if rank != self.world.rank)
        one = torch.zeros(1, dtype=torch.uint8, device=self.world.device)
        self._arrive(self._send(one, {peer: torch.empty_like(one) for peer in others}, others))

    def settle(self) -> None:
        """Wait until what is on its way has arrived, at both ends; it is read later. All ranks must do it."""
        for message in self._flying:
            self._arrive(message)

    def drain(self) -> None:
        """Let messages arrive that nobody will wait for. All ranks must do it."""
        self.settle()
        self._flying.clear()

    def _send(self, sent: Tensor, received: dict[int, Tensor], targets: Sequence[int]) -> Message:
        """Begin to send a vector, and to receive one as long from each neighbour."""
        self.counters.messages += len(targets)
        self.counters.bytes_sent += len(targets) * sent.nbytes
        outward = [(peer, sent) for peer in targets]
        inward = [(peer, row[: sent.numel()]) for peer, row in received.items()]
        if self.grouped:
            return Message(sent, received, [(None, work) for work in self._batch(outward, inward)])
        works, group = [], alive(self._group)
        # sends first: gloo takes up to three times as long for short messages that are awaited before they are sent
        for do, pairs in ((group.send, outward), (group.recv, inward)):
            for peer, a in pairs:
                try:
                    works.append((peer, do([a], peer, self.tag)))
                except RuntimeError as error:
                    works.append((peer, _Unsent(error)))
        return Message(sent, received, works[len(outward) :] + works[: len(outward)])

    def _batch(self, outward: Sequence[tuple[int, Tensor]], inward: Sequence[tuple[int, Tensor]]) -> list[Any]:
        """Hand all messages of a round to NCCL at once, which answers for all of them.

        It knows no tags: the k-th message from i to j meets the k-th that j awaits from i. Both ends agree on that, as
        messages follow each other in the same order on all ranks. Within a call nothing waits for anything else, so
        that no cycle of ranks can wait for each other. The ranks have agreed on what they train by then, in a call of
        all of them, which NCCL asks for before any call of some.
        """
        number, group = self.world.everywhere, self.world.group
        ops = [dist.P2POp(dist.isend, a, number(peer), group, self.tag) for peer, a in outward]
        ops += [dist.P2POp(dist.irecv, a, number(peer), group, self.tag) for peer, a in inward]
        return dist.batch_isend_irecv(ops) if ops else []

    def _arrive(self, message: Message) -> None:
        """Wait until a message is here, and until what this rank sent has left."""
        if message.arrived:
            return
        words, limit = self.world.words, self.world.timeout.total_seconds()
        start = began = time.monotonic()
        try:
            for k, (peer, work) in enumerate(message.works):
                words.waiting = began, limit, peer
                try:
                    work.wait(*self._limit)
                except RuntimeError as error:
                    # others may have failed as well, since a rank that loses a neighbour ends
                    lost = {peer, *(other for other, later in message.works[k + 1 :] if _fails(later))} - {None}
                    raise self._lost(lost, time.monotonic() - began, error) from error
                began = time.monotonic()
        finally:
            words.waiting = None
        self.counters.seconds_waiting += began - start
        if message.sent.is_cuda:  # its memory may be used again only after what the stream still does with it
            message.sent.record_stream(torch.cuda.current_stream(message.sent.device))
        message.arrived = True

    def _lost(self, ranks: set[Any], waited: float, error: Exception) -> RuntimeError:
        """Return the error to raise where these ranks did not answer."""
        words, limit = self.world.words, self.world.timeout.total_seconds()
        if reason := words.reason(GRACE):
            return reason
        behind = words.find_silent(ranks, limit)
        who = f"rank {' and rank '.join(map(str, behind))}" if behind else "a neighbour"
        if beside := sorted(ranks - set(behind)):
            who += f", for which rank {' and rank '.join(map(str, beside))} waited"
        else:
            who = f"its neighbour {who}"
        if waited >= limit or beside:
            why = f"silent for {waited:.1f} s (timeout={limit:g}): stopped, hanging or late"
        else:
            why = f"gone after {waited:.1f} s: dead, or ended by an error of its own"
        return NeighborLost(
            f"rank {self.world.rank} lost {who}, {why}. Start again from the last checkpoint, as "
            f"`torchrun --max-restarts` does ({in_short(error)}).",
            behind,
        )


def _pack(arrays: Sequence[Tensor]) -> Tensor:
    """Return the arrays as one vector to send: without a copy where they are adjacent in memory."""
    flat = list(map(torch.flatten, arrays))
    end, storage = flat[0].data_ptr(), flat[0].untyped_storage().data_ptr()
    for a in flat:
        if a.data_ptr() != end or a.untyped_storage().data_ptr() != storage:
            return torch.cat(flat)
        end += a.nbytes
    return flat[0].as_strided((sum(map(Tensor.numel, flat)),), (1,))


class _Unsent:
    """A message that could not leave. It is an error only where it is waited for.

    A neighbour that has ended its last step has nothing more to say, and nobody will wait for it.
    """

    def __init__(self, error: Exception):
        self.error = error

    def wait(self, timeout: timedelta) -> None:
        raise self.error


def _fails(work: Any) -> bool:
    """Return True if a work has failed."""
    try:
        work.wait(GLANCE)
    except RuntimeError:
        return True
    return False


def fingerprint(network: "Network") -> str:
    """Describe a network in a few words, the same on all ranks if they made the same one."""
    matrices = ("W",) if network.stochastic == "doubly" else ("R", "C")
    dense = [network.matrix(t, by).toarray() for t in range(3 if network.changes else 1) for by in matrices]
    # rounds may differ much later: all that they are made from counts
    leaves, structure = flatten(network)
    checksum = hashlib.sha256(str(structure).encode())
    for array in (*dense, *map(np.asarray, leaves)):
        checksum.update(array.tobytes())
    return f"{network.name} of {network.agents} agents, weights {checksum.hexdigest()[:12]}"
