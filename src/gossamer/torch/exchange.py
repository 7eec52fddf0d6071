r"""Messages between neighbours: $\sum_j w_{ij} a_j$ where every $a_j$ lives in a process of its own.

One call is one message to each neighbour, whatever it carries. Messages are posted and awaited apart, so that they can
travel while a gradient is computed, from the memory where the arrays stand if that is one piece, into buffers that are
kept. An agent adds its neighbours to itself by ascending rank, so that a run repeats to the bit.
"""

import hashlib
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.basics.pytrees import flatten
from gossamer.torch.faults import GRACE, NeighborLost
from gossamer.torch.world import ProcessWorld, in_short

if TYPE_CHECKING:
    from gossamer.networks import Network

LONGEST_PACKED = 1 << 20
"""Bytes up to which arrays that stand apart are packed into one piece: a copy is then cheaper than another piece."""
PADDING = 1024
"""Numbers by which a buffer may be longer than its message: the last bucket is a little shorter than the others."""
LONGEST_PERIOD = 1000  # rounds after which a network may come again so that each of them is looked up only once
GLANCE = timedelta(milliseconds=20)  # how long to wait when looking whether a message is there

RankWeights = dict[int, float]
"""The weight that a rank gives to each rank that it hears, itself included, by ascending rank."""


@dataclass
class Counters:
    """Costs of this rank since the run began, over all its lives; see `gossamer.torch.resume`."""

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


class Links(NamedTuple):
    """The neighbours of a rank in a round: the weights by each matrix, whom it hears, and whom it sends to."""

    weights: dict[str, RankWeights]
    sources: tuple[int, ...]
    targets: tuple[int, ...]


class Message:
    """A message on its way, to and from all neighbours of a round: what must stay until it has arrived."""

    def __init__(self, sent: list[Tensor], received: dict[int, Tensor]):
        self.sent, self.received = sent, received
        """The pieces that travel, and by neighbour a buffer as long as all of them."""
        self.works: Sequence[tuple[int | None, Any]] = ()
        """Works to wait for, each with the neighbour that it is from or for; one without answers for all."""
        self.arrived = False


_KEPT: list[tuple["weakref.ref[Exchange]", list[Message]]] = []
"""The messages of every exchange. Those of an exchange that is gone must stay until they have arrived."""


class Exchange:
    """The messages of one optimizer of one rank, told apart from those of others by tags."""

    def __init__(self, world: ProcessWorld, network: "Network", counters: Counters):
        self.world, self.network, self.counters = world, network, counters
        self.tag = next(world.words.tags)
        self.grouped = world.device.type == "cuda"
        """True where all messages of a round are handed over in one call, as NCCL needs it."""
        # a wait with a timeout would stop the host of a GPU: see `ProcessWorld.wait`
        self._limit = () if world.device.type == "cuda" else (world.timeout,)
        self._flying: list[Message] = []
        self._free: dict[tuple[int, torch.dtype], list[Tensor]] = {}
        self._set(network)
        for owner, flying in list(_KEPT):
            if owner() is None:  # ranks that step equally often have all sent theirs by now
                self._drain(flying)
                _KEPT.remove((owner, flying))
        _KEPT.append((weakref.ref(self), self._flying))

    def _set(self, network: "Network") -> None:
        self.network, self.changes, mixer = network, network.changes, network.mixer
        self._period = None if mixer.random or mixer.period > LONGEST_PERIOD else mixer.period
        self._links: dict[tuple[int, str], Links] = {}

    def rewire(self, network: "Network") -> None:
        """Go on with other ranks, by another network; messages of before are forgotten."""
        self.tag = 1  # on all ranks, since each has one such optimizer
        self._flying.clear()
        self._set(network)

    def links(self, t: int, letters: str) -> Links:
        """Return who talks to whom in round t by these matrices; looked up once where rounds come again."""
        if self._period is None:
            return self._look_up(t, letters)
        key = t % self._period, letters
        if key not in self._links:
            self._links[key] = self._look_up(t, letters)
        return self._links[key]

    def _look_up(self, t: int, letters: str) -> Links:
        rank, weights, sources, targets = self.world.rank, {}, set(), set()
        for letter in sorted(set(letters)):
            matrix = self.network.matrix(t, letter)  # pyright: ignore[reportArgumentType]
            row = matrix[[rank], :].tocoo()
            heard = sorted(zip(row.col.tolist(), row.data.tolist(), strict=True))
            weights[letter] = {source: weight for source, weight in heard if weight != 0}
            column = matrix[:, [rank]].tocoo()
            targets |= {int(j) for j, weight in zip(column.row, column.data, strict=True) if weight != 0}
            sources |= set(weights[letter])
        return Links(weights, tuple(sorted(sources - {rank})), tuple(sorted(targets - {rank})))

    def post(
        self, arrays: Sequence[Tensor], letters: str, t: int, bucket: int = 0, buckets: int = 1
    ) -> Callable[[], Any]:
        """Send the arrays, and return what waits for those of the neighbours and gives Σ_j w_ij a_j of each.

        Arrays that stand side by side in memory are sent from there: they must stay as they are until then.

        Args:
            arrays: the arrays of one message.
            letters: the matrix of each array.
            t: the round.
            bucket: the number of the bucket that the arrays are of.
            buckets: how many buckets have such a message on its way at the same time.
        """
        links, sent = self.links(t, letters), _pieces(arrays)
        size = sum(map(Tensor.numel, sent))
        rows = self._take(len(links.sources), buckets, size, sent[0])
        message = Message(sent, {peer: row[:size] for peer, row in zip(links.sources, rows, strict=True)})
        self._begin(message, links, bucket)
        self._flying.append(message)

        def wait() -> Any:
            self._flying.remove(message)
            self._arrive(message)
            mixed, first = [], 0
            for a, letter in zip(arrays, letters, strict=True):
                weights, last = links.weights[letter], first + a.numel()
                total = a.reshape(-1) * weights.get(self.world.rank, 0.0)
                for peer, row in message.received.items():
                    if peer in weights:
                        total.add_(row[first:last], alpha=weights[peer])
                mixed.append(total.view_as(a))
                first = last
            for row in rows:
                self._free[row.numel(), row.dtype].append(row)
            return mixed[0] if len(mixed) == 1 else tuple(mixed)

        return wait

    def _take(self, count: int, buckets: int, size: int, like: Tensor) -> list[Tensor]:
        """Return so many free buffers, each at least so long.

        New ones are made for all buckets in one piece: kept between the temporaries of a step, short ones would
        scatter the free memory of the process, so that no gradient fits there any more.
        """
        length = -(-size // PADDING) * PADDING
        free = self._free.setdefault((length, like.dtype), [])
        if len(free) < count:
            free += like.new_empty(count * buckets, length).unbind()
        taken = free[len(free) - count :]
        del free[len(free) - count :]
        return taken

    def swap(self, message: Tensor, t: int) -> tuple[dict[int, Tensor], RankWeights]:
        """Send encoded bytes, and return those of every neighbour and the weights of W."""
        links = self.links(t, "W")
        received = {peer: torch.empty_like(message) for peer in links.sources}
        self._arrive(self._begin(Message([message], received), links, 0))
        return received, links.weights["W"]

    def meet(self) -> None:
        """Wait until all ranks are here. Each hears every other, so that one that is missing can be named."""
        others = tuple(rank for rank in range(self.world.size) if rank != self.world.rank)
        one = torch.zeros(1, dtype=torch.uint8, device=self.world.device)
        received = {peer: torch.empty_like(one) for peer in others}
        self._arrive(self._begin(Message([one], received), Links({}, others, others), 0))

    def settle(self) -> None:
        """Wait until what is on its way has arrived, at both ends; it is read later. All ranks must do it."""
        for message in self._flying:
            self._arrive(message)

    def drain(self) -> None:
        """Let messages arrive that nobody will wait for. All ranks must do it."""
        self._drain(self._flying)

    def _drain(self, flying: list[Message]) -> None:
        while flying:
            self._arrive(flying.pop(0))

    def _begin(self, message: Message, links: Links, bucket: int) -> Message:
        """Begin to send a message, and to receive one from each neighbour."""
        sent, targets = message.sent, links.targets
        lengths = [piece.numel() for piece in sent]
        self.counters.messages += len(targets)
        self.counters.bytes_sent += len(targets) * sum(lengths) * sent[0].element_size()
        outward = [(peer, piece) for peer in targets for piece in sent]
        inward = [(peer, part) for peer, row in message.received.items() for part in row.split(lengths)]
        if self.grouped:
            message.works = [(None, work) for work in self._batch(outward, inward)]
            return message
        group, tag, works = self.world.group, self.tag + (bucket << 16), []
        # sends first: gloo takes up to three times as long for short messages that are awaited before they are sent
        for do, pairs in ((group.send, outward), (group.recv, inward)):
            for peer, a in pairs:
                try:
                    works.append((peer, do([a], peer, tag)))
                except RuntimeError as error:
                    works.append((peer, _Unsent(error)))
        message.works = works[len(outward) :] + works[: len(outward)]
        return message

    def _batch(self, outward: Sequence[tuple[int, Tensor]], inward: Sequence[tuple[int, Tensor]]) -> list[Any]:
        """Hand all messages of a round to NCCL at once, which answers for all of them.

        It knows no tags: the k-th message from i to j meets the k-th that j awaits from i. Both ends agree on that, as
        rounds, buckets and pieces follow each other in the same order on all ranks, and a bucket has at most one
        message a round between two of them. Within a call nothing waits for anything else, so that no cycle of ranks
        can wait for each other. The ranks have agreed on what they train by then, in a call of all of them, which NCCL
        asks for before any call of some.
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
        for piece in message.sent:
            if piece.is_cuda:  # its memory may be used again only after what the stream still does with it
                piece.record_stream(torch.cuda.current_stream(piece.device))
        message.arrived = True

    def _lost(self, ranks: set[Any], waited: float, error: Exception) -> RuntimeError:
        """Return the error to raise where these ranks did not answer."""
        words, limit = self.world.words, self.world.timeout.total_seconds()
        if reason := words.reason(GRACE):
            return reason
        behind = words.blamed(ranks, limit)
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


def _pieces(arrays: Sequence[Tensor]) -> list[Tensor]:
    """Return the arrays as vectors to send: one, unless they are long and stand apart, so that a copy would cost more.

    Where they stand side by side in memory, one needs no copy.
    """
    flat = [a.reshape(-1) for a in arrays]
    if len(flat) == 1:
        return flat
    end, storage = flat[0].data_ptr(), flat[0].untyped_storage().data_ptr()
    for a in flat:
        if a.data_ptr() != end or a.untyped_storage().data_ptr() != storage:
            short = sum(piece.nbytes for piece in flat) <= LONGEST_PACKED
            return [torch.cat(flat)] if short or len({piece.dtype for piece in flat}) > 1 else flat
        end += a.nbytes
    return [flat[0].as_strided((sum(map(Tensor.numel, flat)),), (1,))]


class _Unsent:
    """A message that could not leave. It is an error only where it is waited for.

    A neighbour that has ended its last step has nothing more to say, and nobody will wait for it.
    """

    def __init__(self, error: Exception):
        self.error = error

    def wait(self, timeout: timedelta) -> None:
        raise self.error


def _fails(work: Any) -> bool:
    """Return whether a work has failed."""
    try:
        work.wait(GLANCE)
    except RuntimeError:
        return True
    return False


def fingerprint(network: "Network") -> str:
    """Describe a network in a few words, the same on all ranks if they made the same one."""
    letters = ("W",) if network.stochastic == "doubly" else ("R", "C")
    seen = [network.matrix(t, by).toarray() for t in range(3 if network.changes else 1) for by in letters]
    # rounds may differ much later: all that they are made from counts
    leaves, structure = flatten(network)
    checksum = hashlib.sha256(str(structure).encode())
    for array in (*seen, *map(np.asarray, leaves)):
        checksum.update(array.tobytes())
    digest = checksum.hexdigest()[:12]
    return f"{network.name} of {network.agents} agents, weights {digest}"
