r"""Messages between neighbours: $\sum_j w_{ij} a_j$ where every $a_j$ lives in a process of its own.

One call is one message to each neighbour, whatever it carries. Messages are posted and awaited apart, so that they can
travel while a gradient is computed. An agent adds its neighbours to itself by ascending rank, so that a run repeats to
the bit.
"""

import hashlib
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.basics.pytrees import taken_apart
from gossamer.networks import Network
from gossamer.torch.fused import Vector, weighted
from gossamer.torch.gpus import keep_for_stream
from gossamer.torch.stopping import NeighborLost
from gossamer.torch.world import ProcessWorld, in_short

LONGEST_PACKED = 1 << 20
"""Bytes up to which vectors are packed into one piece: a copy is then cheaper than another piece."""
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


_KEPT: list[tuple["weakref.ref[Exchange]", list["_Sent"]]] = []
"""The messages of every exchange. Those of an exchange that is gone must stay until they have arrived."""


class Exchange:
    """The messages of one optimizer of one rank, told apart from those of others by a tag."""

    def __init__(self, world: ProcessWorld, network: Network, counters: Counters):
        self.world, self.network, self.counters = world, network, counters
        self.tag = next(world.words.tags)
        self._flying: list[_Sent] = []
        self._let_go()
        _KEPT.append((weakref.ref(self), self._flying))
        self.grouped = world.device.type == "cuda"
        """Whether all messages of a round are handed over in one call, as NCCL needs it."""
        self._links: dict[str, Links] = {}

    def rewire(self, network: Network) -> None:
        """Go on with other ranks, by another network; messages of before are forgotten."""
        self.network, self.tag = network, 1  # on all ranks, since each has one such optimizer
        self._flying.clear()
        self._links.clear()

    def links(self, t: int, letters: str) -> Links:
        """Who talks to whom in round t by these matrices; looked up once where nothing changes."""
        if self.network.changes:
            return self._drawn(t, letters)
        if letters not in self._links:
            self._links[letters] = self._drawn(t, letters)
        return self._links[letters]

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

    def post(self, arrays: Sequence[Tensor], letters: str, t: int) -> Callable[[], list[Vector]]:
        """Send the arrays and return what waits for those of the neighbours, and notes down how each is mixed.

        Large arrays travel as they are, and are weighed where they were received: no copy is made.
        """
        links, vectors = self.links(t, letters), [a.reshape(-1) for a in arrays]
        small = len(arrays) > 1 and sum(a.nbytes for a in vectors) <= LONGEST_PACKED
        sizes = [a.numel() for a in vectors]
        sent = self._sent([torch.cat(vectors)] if small else vectors, links)
        self._flying.append(sent)
        by = [links.weights[letter] for letter in letters]

        def wait() -> list[Vector]:
            self._flying.remove(sent)
            arrived = {peer: rows[0].split(sizes) if small else rows for peer, rows in self._arrivals(sent)}
            mixed = []
            for k, (a, weights) in enumerate(zip(vectors, by, strict=True)):
                heard = [peer for peer in arrived if peer in weights]
                parts, given = [arrived[peer][k] for peer in heard], [weights[peer] for peer in heard]
                mixed.append(weighted(parts, given, a, weights.get(self.world.rank, 0.0)))
            return mixed

        return wait

    def drain(self) -> None:
        """Let messages arrive that nobody will wait for. All ranks must do it."""
        self._drained(self._flying)

    def settle(self) -> None:
        """Wait until what is on its way has arrived, at both ends; it is read later. All ranks must do it."""
        for sent in self._flying:
            for _ in self._arrivals(sent):
                pass
            sent.works = [(peer, _Done()) for peer, _ in sent.works]

    def _let_go(self) -> None:
        """Free the messages of exchanges that are gone. Ranks that step equally often have all sent theirs by now."""
        for owner, flying in list(_KEPT):
            if owner() is None:
                self._drained(flying)
                _KEPT.remove((owner, flying))

    def _drained(self, flying: list["_Sent"]) -> None:
        while flying:
            for _ in self._arrivals(flying.pop()):
                pass

    def swap(self, message: Tensor, t: int) -> tuple[dict[int, Tensor], RankWeights]:
        """Send encoded bytes, and return those of every neighbour and the weights of W."""
        links = self.links(t, "W")
        arrived = self._arrivals(self._sent([message], links))
        return {source: buffers[0] for source, buffers in arrived}, links.weights["W"]

    def meet(self) -> None:
        """Wait until all ranks are here. Each hears every other, so that one that is missing can be named."""
        others = tuple(rank for rank in range(self.world.size) if rank != self.world.rank)
        for _ in self._arrivals(self._sent([self._room(1, torch.uint8)], Links({}, others, others))):
            pass

    def _sent(self, pieces: list[Tensor], links: Links) -> "_Sent":
        """Begin to send a message, in pieces, and to receive as many from each neighbour."""
        buffers = {source: [self._room(a.numel(), a.dtype) for a in pieces] for source in links.sources}
        self.counters.messages += len(links.targets)
        self.counters.bytes_sent += len(links.targets) * sum(a.nbytes for a in pieces)
        if self.grouped and (links.targets or links.sources):
            return _Sent(pieces, buffers, [(None, work) for work in self._batch(pieces, buffers, links.targets)])
        # sends first: gloo takes up to three times as long for short messages that are awaited before they are sent
        group, tag = self.world.group, self.tag
        sends = [(peer, _begun(group.send, piece, peer, tag)) for peer in links.targets for piece in pieces]
        receipts = [(peer, _begun(group.recv, to, peer, tag)) for peer, row in buffers.items() for to in row]
        return _Sent(pieces, buffers, [*receipts, *sends])

    def _batch(self, pieces: list[Tensor], buffers: dict[int, list[Tensor]], targets: Sequence[int]) -> list[Any]:
        """NCCL must see all messages at once, and answers for all of them.

        It knows no tags: the k-th message from i to j meets the k-th that j awaits from i. Both ends agree on that, as
        rounds follow each other in the same order on all ranks, a round has at most one message between two of them,
        and its pieces go in one order. Within a call nothing waits for anything else, so that no cycle of ranks can
        wait for each other. The ranks have agreed on what they train by then, in a call of all of them, which NCCL asks
        for before any call of some.
        """
        number, group = self.world.everywhere, self.world.group
        ops = [dist.P2POp(dist.isend, a, number(peer), group, self.tag) for peer in targets for a in pieces]
        ops += [dist.P2POp(dist.irecv, a, number(peer), group, self.tag) for peer, row in buffers.items() for a in row]
        return dist.batch_isend_irecv(ops)

    def _arrivals(self, sent: "_Sent") -> Iterator[tuple[int, list[Tensor]]]:
        """What each neighbour sent, by ascending rank, as soon as it is there; at the end all has been sent, too."""
        pieces = len(sent.pieces)
        for k, (peer, work) in enumerate(sent.works):
            began = time.monotonic()
            try:
                self.world.wait(work)
            except RuntimeError as error:
                raise self._lost(sent.works[k:], time.monotonic() - began, error) from error
            self.counters.seconds_waiting += time.monotonic() - began
            if peer is not None and k < pieces * len(sent.buffers) and (k + 1) % pieces == 0:
                yield peer, sent.buffers[peer]
        keep_for_stream([*sent.pieces, *(a for row in sent.buffers.values() for a in row)])
        if sent.works and sent.works[0][0] is None:  # one work answers for all
            yield from sent.buffers.items()

    def _lost(self, works: list[tuple[int | None, Any]], waited: float, error: RuntimeError) -> RuntimeError:
        """The error to raise: the first work failed, and others may have, since a rank that loses a neighbour ends."""
        if reason := self.world.words.reason():  # by the same connection, and so before its end
            return reason
        lost = {works[0][0]} | {peer for peer, work in works[1:] if _fails(work)}
        ranks = tuple(sorted(peer for peer in lost if peer is not None))
        who = f"rank {' and rank '.join(map(str, ranks))}" if ranks else "a neighbour"
        if waited >= self.world.timeout.total_seconds():
            why = (
                f"silent for {waited:.1f} s (timeout={self.world.timeout.total_seconds():g}): stopped, hanging or late"
            )
        else:
            why = f"gone after {waited:.1f} s: dead, or ended by an error of its own"
        return NeighborLost(
            f"rank {self.world.rank} lost its neighbour {who}, {why}. Start again from the last checkpoint, as "
            f"`torchrun --max-restarts` does ({in_short(error)}).",
            ranks,
        )

    def _room(self, size: int, dtype: torch.dtype) -> Tensor:
        return torch.empty(size, dtype=dtype, device=self.world.device)


@dataclass(eq=False)
class _Sent:
    """The pieces of a message, buffers for as many from each neighbour, by ascending rank, and the works of both."""

    pieces: list[Tensor]
    buffers: dict[int, list[Tensor]]
    works: list[tuple[int | None, Any]]


class _Done:
    """A work that was waited for: gloo would wait for another one."""

    def wait(self, timeout: timedelta) -> None:
        pass


class _Unsent:
    """A message that could not leave. It is an error only where it is waited for.

    A neighbour that has ended its last step has nothing more to say, and nobody will wait for it.
    """

    def __init__(self, error: RuntimeError):
        self.error = error

    def wait(self, timeout: timedelta) -> None:
        raise self.error


def _begun(do: Any, tensor: Tensor, peer: int, tag: int) -> Any:
    try:
        return do([tensor], peer, tag)
    except RuntimeError as error:
        return _Unsent(error)


def _fails(work: Any) -> bool:
    try:
        work.wait(GLANCE)
    except RuntimeError:
        return True
    return False


def fingerprint(network: Network) -> str:
    """A network in a few words, the same on all ranks if they made the same one."""
    letters = ("W",) if network.stochastic == "doubly" else ("R", "C")
    seen = [network.matrix(t, by).toarray() for t in range(3 if network.changes else 1) for by in letters]
    # rounds may differ much later: all that they are made from counts
    leaves, structure = taken_apart(network)
    checksum = hashlib.sha256(str(structure).encode())
    for array in (*seen, *map(np.asarray, leaves)):
        checksum.update(array.tobytes())
    digest = checksum.hexdigest()[:12]
    return f"{network.name} of {network.agents} agents, weights {digest}"
