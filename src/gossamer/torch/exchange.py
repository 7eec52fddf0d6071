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

from gossamer.basics.pytrees import taken_apart
from gossamer.torch.faults import GRACE, NeighborLost
from gossamer.torch.world import ProcessWorld, in_short

if TYPE_CHECKING:
    from gossamer.networks import Network

LONGEST_PACKED = 1 << 20
"""Bytes up to which arrays that stand apart are packed into one piece: a copy is then cheaper than another piece."""
LONGEST_PERIOD = 1000
"""Rounds after which a network may come again so that each of them is looked up only once."""
GLANCE = timedelta(milliseconds=20)
"""How long to wait when looking whether a message is there."""

RankWeights = dict[int, float]
"""The weight that a rank gives to each rank that it hears, itself included, by ascending rank."""


@dataclass
class Counters:
    """What this rank paid since the run began, over all its lives; see `gossamer.torch.resume`."""

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
    """Whom a rank hears in a round, with what weights by each matrix, and whom it sends to."""

    weights: dict[str, RankWeights]
    sources: tuple[int, ...]
    targets: tuple[int, ...]


class Message:
    """A message on its way, to and from all neighbours of a round: what must stay until it has arrived."""

    def __init__(self, sent: list[Tensor], received: dict[int, Tensor]):
        self.sent, self.received = sent, received
        """The pieces that travel, and by neighbour a buffer as long as all of them."""
        self.works: list[tuple[int | None, Any]] = []
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
        """Whether all messages of a round are handed over in one call, as NCCL needs it."""
        self._links: dict[tuple[int, str], Links] = {}
        self._flying: list[Message] = []
        self._free: dict[tuple[int, torch.dtype], list[Tensor]] = {}
        for owner, flying in list(_KEPT):
            if owner() is None:  # ranks that step equally often have all sent theirs by now
                self._drained(flying)
                _KEPT.remove((owner, flying))
        _KEPT.append((weakref.ref(self), self._flying))

    def rewire(self, network: "Network") -> None:
        """Go on with other ranks, by another network; messages of before are forgotten."""
        self.network, self.tag = network, 1  # on all ranks, since each has one such optimizer
        self._flying.clear()
        self._links.clear()

    def links(self, t: int, letters: str) -> Links:
        """Return who talks to whom in round t by these matrices; looked up once where rounds come again."""
        mixer = self.network.mixer
        if mixer.random or mixer.period > LONGEST_PERIOD:
            return self._drawn(t, letters)
        key = t % mixer.period, letters
        if key not in self._links:
            self._links[key] = self._drawn(t, letters)
        return self._links[key]

    def _drawn(self, t: int, letters: str) -> Links:
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

    def post(self, arrays: Sequence[Tensor], letters: str, t: int, bucket: int = 0) -> Callable[[], list[Tensor]]:
        """Send the arrays, and return what waits for those of the neighbours and gives Σ_j w_ij a_j of each.

        Arrays that stand side by side in memory are sent from there: they must stay as they are until then.
        """
        links, sent = self.links(t, letters), _pieces(arrays)
        size = sum(piece.numel() for piece in sent)
        received = {peer: self._buffer(size, sent[0]) for peer in links.sources}
        message = self._begun(Message(sent, received), links, bucket)
        self._flying.append(message)

        def wait() -> list[Tensor]:
            self._flying.remove(message)
            self._arrive(message)
            mixed, first = [], 0
            for a, letter in zip(arrays, letters, strict=True):
                weights, last = links.weights[letter], first + a.numel()
                total = a.reshape(-1) * weights.get(self.world.rank, 0.0)
                for peer, row in received.items():
                    if peer in weights:
                        total.add_(row[first:last], alpha=weights[peer])
                mixed.append(total.view_as(a))
                first = last
            for row in received.values():
                self._free.setdefault((row.numel(), row.dtype), []).append(row)
            return mixed

        return wait

    def swap(self, message: Tensor, t: int) -> tuple[dict[int, Tensor], RankWeights]:
        """Send encoded bytes, and return those of every neighbour and the weights of W."""
        links = self.links(t, "W")
        received = {peer: torch.empty_like(message) for peer in links.sources}
        self._arrive(self._begun(Message([message], received), links, 0))
        return received, links.weights["W"]

    def meet(self) -> None:
        """Wait until all ranks are here. Each hears every other, so that one that is missing can be named."""
        others = tuple(rank for rank in range(self.world.size) if rank != self.world.rank)
        one = torch.zeros(1, dtype=torch.uint8, device=self.world.device)
        received = {peer: torch.empty_like(one) for peer in others}
        self._arrive(self._begun(Message([one], received), Links({}, others, others), 0))

    def settle(self) -> None:
        """Wait until what is on its way has arrived, at both ends; it is read later. All ranks must do it."""
        for message in self._flying:
            self._arrive(message)

    def drain(self) -> None:
        """Let messages arrive that nobody will wait for. All ranks must do it."""
        self._drained(self._flying)

    def _drained(self, flying: list[Message]) -> None:
        while flying:
            self._arrive(flying.pop(0))

    def _begun(self, message: Message, links: Links, bucket: int) -> Message:
        """Begin to send a message, and to receive one from each neighbour."""
        self.counters.messages += len(links.targets)
        self.counters.bytes_sent += len(links.targets) * sum(piece.nbytes for piece in message.sent)
        if self.grouped:
            message.works = [(None, work) for work in self._batch(message, links.targets)]
            return message
        # sends first: gloo takes up to three times as long for short messages that are awaited before they are sent
        group, tag = self.world.group, self.tag + (bucket << 16)
        sends = [(peer, _work(group.send, [piece], peer, tag)) for peer in links.targets for piece in message.sent]
        rows = [(peer, part) for peer, row in message.received.items() for part in _like(message.sent, row)]
        receipts = [(peer, _work(group.recv, [part], peer, tag)) for peer, part in rows]
        message.works = [*receipts, *sends]
        return message

    def _batch(self, message: Message, targets: Sequence[int]) -> list[Any]:
        """Hand all messages of a round to NCCL at once, which answers for all of them.

        It knows no tags: the k-th message from i to j meets the k-th that j awaits from i. Both ends agree on that, as
        rounds, buckets and pieces follow each other in the same order on all ranks, and a bucket has at most one
        message a round between two of them. Within a call nothing waits for anything else, so that no cycle of ranks
        can wait for each other. The ranks have agreed on what they train by then, in a call of all of them, which NCCL
        asks for before any call of some.
        """
        number, group = self.world.everywhere, self.world.group
        ops = [dist.P2POp(dist.isend, a, number(peer), group, self.tag) for peer in targets for a in message.sent]
        rows = [(peer, part) for peer, row in message.received.items() for part in _like(message.sent, row)]
        ops += [dist.P2POp(dist.irecv, a, number(peer), group, self.tag) for peer, a in rows]
        return dist.batch_isend_irecv(ops) if ops else []

    def _arrive(self, message: Message) -> None:
        """Wait until a message is here, and until what this rank sent has left."""
        if message.arrived:
            return
        words, limit = self.world.words, self.world.timeout.total_seconds()
        for k, (peer, work) in enumerate(message.works):
            began = time.monotonic()
            words.waiting = began, limit, peer
            try:
                self.world.wait(work)
            except RuntimeError as error:
                # others may have failed as well, since a rank that loses a neighbour ends
                lost = {peer, *(other for other, later in message.works[k + 1 :] if _fails(later))}
                raise self._lost(
                    {rank for rank in lost if rank is not None}, time.monotonic() - began, error
                ) from error
            finally:
                words.waiting = None
            self.counters.seconds_waiting += time.monotonic() - began
        for piece in message.sent:
            if piece.is_cuda:  # its memory may be used again only after what the stream still does with it
                piece.record_stream(torch.cuda.current_stream(piece.device))
        message.arrived = True

    def _lost(self, ranks: set[int], waited: float, error: Exception) -> RuntimeError:
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

    def _buffer(self, size: int, like: Tensor) -> Tensor:
        free = self._free.get((size, like.dtype))
        return free.pop() if free else like.new_empty(size)


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
    return [flat[0].as_strided((sum(a.numel() for a in flat),), (1,))]


def _like(pieces: Sequence[Tensor], row: Tensor) -> Sequence[Tensor]:
    """Return a buffer in parts as long as these pieces, in the same memory."""
    return [row] if len(pieces) == 1 else row.split([piece.numel() for piece in pieces])


class _Unsent:
    """A message that could not leave. It is an error only where it is waited for.

    A neighbour that has ended its last step has nothing more to say, and nobody will wait for it.
    """

    def __init__(self, error: Exception):
        self.error = error

    def wait(self, timeout: timedelta) -> None:
        raise self.error


def _work(do: Callable[..., Any], *args: Any) -> Any:
    """Return the work that sends or receives."""
    try:
        return do(*args)
    except RuntimeError as error:
        return _Unsent(error)


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
    leaves, structure = taken_apart(network)
    checksum = hashlib.sha256(str(structure).encode())
    for array in (*seen, *map(np.asarray, leaves)):
        checksum.update(array.tobytes())
    digest = checksum.hexdigest()[:12]
    return f"{network.name} of {network.agents} agents, weights {digest}"
