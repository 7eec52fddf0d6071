"""A message on its way: what must stay until it has arrived, and works that may fail only where they are waited for."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from torch import Tensor

from gossamer.torch.nearby import Elsewhere, Nearby

GLANCE = timedelta(milliseconds=20)
"""How long to wait when looking whether a message is there."""

Works = list[tuple[int | None, Any]]
"""What is waited for, with the neighbour that it is from or for; one without a neighbour answers for all."""


class Sent:
    """Arrays that are sent to neighbours, or lent to those that are near, and what comes from them in the same way.

    Args:
        arrays: what is sent, which must stay as it is until it was given back.
        nearby: the neighbours that read in the memory of this process, and it in theirs.
    """

    def __init__(self, arrays: list[Tensor], nearby: Nearby):
        self._arrays, self._nearby = arrays, nearby
        self.pieces: list[Tensor] = []
        """What travels to neighbours that are not near: the arrays, or all of them in one."""
        self.rows: dict[int, list[Tensor]] = {}
        """Room for the pieces of those neighbours, by ascending rank."""
        self.works: Works = []
        """What must be waited for until all is here."""
        self.arrived: dict[int, list[Any]] | None = None
        """The arrays of each neighbour, once they are here, or where they stand."""
        self._lenders: dict[int, Any] = {}
        self._readers: list[int] = []

    def lent_to(self, peers: list[int]) -> Works:
        """Tell neighbours where the arrays stand."""
        self._readers, places = peers, [a.data_ptr() for a in self._arrays]
        return self._said(peers, *places)

    def lent_by(self, peers: list[int]) -> Works:
        """Hear from neighbours where theirs stand."""
        self._lenders = {peer: self._nearby.listening(peer, len(self._arrays)) for peer in peers}
        return [*self._lenders.items()]

    def unpacked(self, lost: Callable[[int], Callable[[OSError], Exception]]) -> dict[int, list[Any]]:
        """The arrays of each neighbour, by ascending rank, after all is here.

        Args:
            lost: gives the error of a neighbour whose memory cannot be read any more.
        """
        packed = len(self.pieces) < len(self._arrays)
        sizes = [a.numel() for a in self._arrays]
        arrived: dict[int, list[Any]] = {
            peer: [*row[0].split(sizes)] if packed else row for peer, row in self.rows.items()
        }
        for peer, word in self._lenders.items():
            pid, places = self._nearby.pids[peer], zip(word.numbers, self._arrays, strict=True)
            arrived[peer] = [Elsewhere(pid, place, a.numel(), a.dtype, lost(peer)) for place, a in places]
        return dict(sorted(arrived.items()))

    def given_back(self) -> Works:
        """Tell neighbours that what they lent was read, and hear it from those that were lent the arrays."""
        said = self._said(self._lenders, 0)
        return [*((peer, self._nearby.listening(peer, 1)) for peer in self._readers), *said]

    def _said(self, peers: Iterable[int], *numbers: int) -> Works:
        """Say numbers to neighbours, which are few and need not be waited for, and return what could not leave."""
        works = [(peer, begun(self._nearby.say, peer, *numbers)) for peer in peers]
        return [(peer, work) for peer, work in works if work is not None]


class Unsent:
    """A message that could not leave. It is an error only where it is waited for.

    A neighbour that has ended its last step has nothing more to say, and nobody will wait for it.
    """

    def __init__(self, error: Exception):
        self.error = error

    def wait(self, timeout: timedelta) -> None:
        raise self.error


def begun(do: Callable[..., Any], *args: Any) -> Any:
    """The work that sends or receives."""
    try:
        return do(*args)
    except (RuntimeError, OSError) as error:
        return Unsent(error)


def fails(work: Any) -> bool:
    """Whether a work has failed."""
    try:
        work.wait(GLANCE)
    except (RuntimeError, OSError):
        return True
    return False
