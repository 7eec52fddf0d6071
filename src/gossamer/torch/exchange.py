r"""Messages between neighbours: $\sum_j w_{ij} a_j$ where every $a_j$ lives in a process of its own.

One call is one message to each neighbour, whatever it carries. Messages are posted and awaited apart, so that they can
travel while a gradient is computed. An agent adds its neighbours to itself by ascending rank, so that a run repeats to
the bit. Messages to processes of the same machine say where the arrays stand, which are read there: see
`gossamer.torch.nearby`.
"""

import hashlib
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.basics.pytrees import taken_apart
from gossamer.networks import Network
from gossamer.torch import spare
from gossamer.torch.fused import Vector, weighted
from gossamer.torch.gpus import keep_for_stream
from gossamer.torch.messages import Sent, begun, fails
from gossamer.torch.nearby import Nearby, here
from gossamer.torch.stopping import GRACE, NeighborLost
from gossamer.torch.world import ProcessWorld, in_short

LONGEST_PACKED = 1 << 20
"""Bytes up to which vectors are packed into one piece: a copy is then cheaper than another piece."""
LONGEST_PERIOD = 1000
"""Rounds after which a network may come again so that each of them is looked up only once."""

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


_KEPT: list[tuple["weakref.ref[Exchange]", list[Sent]]] = []
"""The messages of every exchange. Those of an exchange that is gone must stay until they have arrived."""


class Exchange:
    """The messages of one optimizer of one rank, told apart from those of others by a tag."""

    def __init__(self, world: ProcessWorld, network: Network, counters: Counters):
        self.world, self.network, self.counters = world, network, counters
        self.tag = next(world.words.tags)
        self.nearby = Nearby(world, wanted=False)
        """The ranks that read messages in the memory of this one, and it in theirs."""
        self.grouped = world.device.type == "cuda"
        """Whether all messages of a round are handed over in one call, as NCCL needs it."""
        self._links: dict[tuple[int, str], Links] = {}
        self._flying: list[Sent] = []
        self._lent: list[Sent] = []
        """Messages that are here, but of which arrays may still be read, at both ends."""
        self._let_go()
        _KEPT.append((weakref.ref(self), self._flying))

    def rewire(self, network: Network) -> None:
        """Go on with other ranks, by another network; messages of before are forgotten."""
        self.network, self.tag = network, 1  # on all ranks, since each has one such optimizer
        self._flying.clear()
        self._links.clear()

    def links(self, t: int, letters: str) -> Links:
        """Who talks to whom in round t by these matrices; looked up once where rounds come again."""
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

    def post(self, arrays: Sequence[Tensor], letters: str, t: int) -> Callable[[], list[Vector]]:
        """Send the arrays and return what waits for those of the neighbours, and notes down how each is mixed.

        Large arrays travel as they are, and are weighed where they were received: no copy is made. They must stay as
        they are until `release`, and so must those of the neighbours.
        """
        links, vectors = self.links(t, letters), [a.reshape(-1) for a in arrays]
        sent = self._sent(vectors, links)
        self._flying.append(sent)
        by = [links.weights[letter] for letter in letters]

        def wait() -> list[Vector]:
            self._flying.remove(sent)
            arrived, mixed = self._arrived(sent), []
            for k, (a, weights) in enumerate(zip(vectors, by, strict=True)):
                heard = [peer for peer in arrived if peer in weights]
                parts, given = [arrived[peer][k] for peer in heard], [weights[peer] for peer in heard]
                mixed.append(weighted(parts, given, a, weights.get(self.world.rank, 0.0)))
            return mixed

        return wait

    def release(self) -> None:
        """Say to neighbours that what they lent was read, and wait until they have read what this rank lent."""
        while self._lent:
            sent = self._lent.pop(0)  # whose arrays must stay while they are waited for
            self._await(sent.given_back())

    def drain(self) -> None:
        """Let messages arrive that nobody will wait for. All ranks must do it."""
        self._drained(self._flying)
        self.release()

    def settle(self) -> None:
        """Wait until what is on its way has arrived, at both ends; it is read later. All ranks must do it."""
        for sent in self._flying:
            sent.arrived = {peer: [*map(here, rows)] for peer, rows in self._arrived(sent).items()}
        self.release()

    def _let_go(self) -> None:
        """Free the messages of exchanges that are gone. Ranks that step equally often have all sent theirs by now.

        None of them will read what was lent, but some may still keep their exchange: nothing is given back.
        """
        for owner, flying in list(_KEPT):
            if owner() is None:
                self._drained(flying)
                self._lent.clear()
                _KEPT.remove((owner, flying))

    def _drained(self, flying: list[Sent]) -> None:
        while flying:
            self._arrived(flying.pop(0))

    def swap(self, message: Tensor, t: int) -> tuple[dict[int, Tensor], RankWeights]:
        """Send encoded bytes, and return those of every neighbour and the weights of W."""
        links = self.links(t, "W")
        arrived = self._arrived(self._sent([message], links))
        received = {source: here(rows[0]) for source, rows in arrived.items()}
        self.release()
        return received, links.weights["W"]

    def meet(self) -> None:
        """Wait until all ranks are here. Each hears every other, so that one that is missing can be named."""
        others = tuple(rank for rank in range(self.world.size) if rank != self.world.rank)
        self._arrived(self._sent([self._room(1, torch.uint8)], Links({}, others, others)))
        self.release()

    def _sent(self, arrays: list[Tensor], links: Links) -> Sent:
        """Begin to send arrays, and to receive as many from each neighbour."""
        self.counters.messages += len(links.targets)
        self.counters.bytes_sent += len(links.targets) * sum(a.nbytes for a in arrays)
        sent, near = Sent(arrays, self.nearby), self.nearby.pids
        far, targets = ([peer for peer in peers if peer not in near] for peers in (links.sources, links.targets))
        if far or targets:
            small = len(arrays) > 1 and sum(a.nbytes for a in arrays) <= LONGEST_PACKED
            sent.pieces = [torch.cat(arrays)] if small else arrays
        sent.rows = {peer: [self._room(a.numel(), a.dtype) for a in sent.pieces] for peer in far}
        if self.grouped and (far or targets):
            sent.works = [(None, work) for work in self._batch(sent, targets)]
            return sent
        # sends first: gloo takes up to three times as long for short messages that are awaited before they are sent
        group, tag = self.world.group, self.tag
        sends = [(peer, begun(group.send, [a], peer, tag)) for peer in targets for a in sent.pieces]
        sends += sent.lent_to([peer for peer in links.targets if peer in near])
        receipts = [(peer, begun(group.recv, [to], peer, tag)) for peer, row in sent.rows.items() for to in row]
        receipts += sent.lent_by([peer for peer in links.sources if peer in near])
        sent.works = [*receipts, *sends]
        return sent

    def _batch(self, sent: Sent, targets: Sequence[int]) -> list[Any]:
        """NCCL must see all messages at once, and answers for all of them.

        It knows no tags: the k-th message from i to j meets the k-th that j awaits from i. Both ends agree on that, as
        rounds follow each other in the same order on all ranks, a round has at most one message between two of them,
        and its pieces go in one order. Within a call nothing waits for anything else, so that no cycle of ranks can
        wait for each other. The ranks have agreed on what they train by then, in a call of all of them, which NCCL asks
        for before any call of some.
        """
        number, group = self.world.everywhere, self.world.group
        ops = [dist.P2POp(dist.isend, a, number(peer), group, self.tag) for peer in targets for a in sent.pieces]
        ops += [
            dist.P2POp(dist.irecv, a, number(peer), group, self.tag) for peer, row in sent.rows.items() for a in row
        ]
        return dist.batch_isend_irecv(ops)

    def _arrived(self, sent: Sent) -> dict[int, list[Any]]:
        """The arrays of each neighbour, by ascending rank, or where they stand; by then all has been sent, too."""
        if sent.arrived is None:
            self._await(sent.works)
            keep_for_stream([*sent.pieces, *(a for row in sent.rows.values() for a in row)])
            sent.arrived = sent.unpacked(lambda peer: partial(self._lost, (peer,), 0.0))
            self._lent.append(sent)
        return sent.arrived

    def _await(self, works: list[tuple[int | None, Any]]) -> None:
        """Wait for works with neighbours, of which one may be lost."""
        for k, (peer, work) in enumerate(works):
            began = time.monotonic()
            try:
                self.world.wait(work)
            except (RuntimeError, OSError) as error:
                # others may have failed as well, since a rank that loses a neighbour ends
                lost = {peer, *(other for other, later in works[k + 1 :] if fails(later))}
                ranks = tuple(sorted(rank for rank in lost if rank is not None))
                raise self._lost(ranks, time.monotonic() - began, error) from error
            self.counters.seconds_waiting += time.monotonic() - began

    def _lost(self, ranks: tuple[int, ...], waited: float, error: Exception) -> RuntimeError:
        """The error to raise where these ranks are lost."""
        # by the same connection, and so before its end, but for those that are near
        if reason := self.world.words.reason(GRACE if isinstance(error, OSError) else 0.0):
            return reason
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
        return spare.empty(size, dtype, self.world.device)


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
