r"""Who trains together where processes are lost and join: one record in a store that outlives all of them.

    generation 3, formed: the members, in the order of their ranks
    generation 4, gathering: who is expected, and who has come so far

A process that loses a neighbour, or wants to join, opens the next generation and comes. So does everyone whose messages
fail to come because of that, and whoever looks at the record. The gathering ends once every expected member has come
or is known to be dead, or after the timeout; whoever sees that first writes down the members. All changes are made by
compare-and-set, so that no process has a role that could be lost with it.

Dead is a process whose door is shut: each listens at a port that it never serves. The kernel answers for a process that
hangs, and refuses for one that is gone, without a heartbeat and without a wait.
"""

import contextlib
import json
import os
import socket
import time
import uuid
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gossamer.torch.stopping import NeighborLost

KEY = "gossamer/members"
LOOK = 0.05
"""Seconds between two looks at the record of a gathering."""
KNOCK = 0.5
"""Seconds between two knocks at the doors of those that have not come, and that a knock may take."""
CALL = 1.0
"""Seconds between two looks at whether somebody wants to join."""


@dataclass(frozen=True)
class Member:
    """A process: its name, its door, its place among the agents, and whether it has a model to go on from."""

    name: str
    door: tuple[str, int]
    place: int
    veteran: bool


@dataclass(frozen=True)
class Record:
    """What stands in the store."""

    generation: int
    formed: bool
    expected: tuple[Member, ...] = ()
    """Who must come or be dead, while this generation gathers."""
    came: tuple[Member, ...] = ()
    """Who has come; once it is formed, the members in the order of their ranks."""

    @classmethod
    def read(cls, text: bytes) -> "Record":
        """What was written."""
        kept = json.loads(text)
        expected, came = (
            tuple(Member(**member | {"door": tuple(member["door"])}) for member in kept[key])
            for key in ("expected", "came")
        )
        return cls(kept["generation"], kept["formed"], expected, came)

    def written(self) -> str:
        """As text, the same for the same record."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass
class Membership:
    """This process among those that train together.

    Args:
        store: where the record is; it must outlive every process.
        host: the address of this machine by which others reach it.
        wanted: the place that this process would like to have.
        first: how many processes there are at the start; 0 for one that only joins what others began.
        start_timeout: seconds to wait for the last of those, and to be let in later.
        timeout: seconds to wait for a member that is not known to be dead.
    """

    store: Any
    host: str
    wanted: int
    first: int
    start_timeout: float
    timeout: float
    generation: int = 0
    members: tuple[Member, ...] = ()
    """Of this generation, in the order of their ranks."""
    trained: bool = False
    """Whether this process has a model to go on from."""
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def __post_init__(self) -> None:
        self._door = socket.create_server((self.host, 0), backlog=128)
        self._door.setblocking(False)
        _leave_to_parents(self._door)
        self._looked = time.monotonic()

    @property
    def rank(self) -> int:
        """Of this process in its generation."""
        return [member.name for member in self.members].index(self.name)

    def called(self) -> bool:
        """Whether somebody has opened another generation; looked up once a second."""
        if time.monotonic() - self._looked < CALL:
            return False
        self._looked, record = time.monotonic(), self._record()
        return record is not None and record.generation > self.generation

    def gather(self) -> None:
        """Come, and return as a member of the next generation that is formed."""
        began, knocked, shut = time.monotonic(), 0.0, set[str]()
        self._serve()
        while True:
            record, waited = self._record(), time.monotonic() - began
            if record is not None and record.formed and record.generation > self.generation and self._is_in(record):
                self.generation, self.members = record.generation, record.came
                return
            if not self.first and (record is None or (record.generation == 1 and not record.formed)):
                self._check_entry([], waited)
                time.sleep(LOOK)
                continue
            if record is None or record.formed or not self._is_in(record):
                self._write(record, self._coming(record))
                continue
            if time.monotonic() - knocked >= KNOCK:
                shut, knocked = self._shut({*record.expected, *record.came}), time.monotonic()
            if (formed := self._formed(record, shut, waited)) is not None:
                self._write(record, formed)
                continue
            time.sleep(LOOK)

    def close(self) -> None:
        """Shut the door: the others need not wait for this process."""
        self._door.close()

    def _record(self) -> Record | None:
        with _reaching_the_store():
            return Record.read(self.store.get(KEY)) if self.store.check([KEY]) else None

    def _write(self, old: Record | None, new: Record) -> None:
        """Unless somebody else has written meanwhile."""
        with _reaching_the_store():
            self.store.compare_set(KEY, "" if old is None else old.written(), new.written())

    def _is_in(self, record: Record) -> bool:
        return self.name in {member.name for member in record.came}

    def _coming(self, record: Record | None) -> Record:
        """The record after this process has come."""
        known = {} if record is None else {m.name: m for m in (record.came if record.formed else record.expected)}
        # whom the others went on without is as good as new
        veteran = self.trained and self.name in known
        place = known[self.name].place if veteran else self.wanted
        mine = Member(self.name, self._door.getsockname()[:2], place, veteran)
        if record is None:
            return Record(1, False, (), (mine,))
        if record.formed:
            return Record(record.generation + 1, False, record.came, (mine,))
        return replace(record, came=(*record.came, mine))

    def _formed(self, record: Record, shut: set[str], waited: float) -> Record | None:
        """The record with its members written down, if this generation is complete; an error if it cannot be."""
        came = [member for member in record.came if member.name not in shut]
        missing = {m.name for m in record.expected} - {m.name for m in came} - shut
        if record.generation == 1:
            if len(came) < self.first:
                self._check_start(came, waited)
                return None
        elif missing and not (waited > self.timeout and self._may_close(came)):
            self._check_entry(came, waited)
            return None
        elif not any(member.veteran for member in came):
            raise NeighborLost("nobody is left whom this process could join: the run is over, or failed at its start.")
        return replace(record, formed=True, expected=(), came=_placed(came))

    def _may_close(self, came: list[Member]) -> bool:
        """Whether this process may go on without those that are silent: one that joins may not."""
        return any(member.name == self.name and member.veteran for member in came)

    def _check_start(self, came: list[Member], waited: float) -> None:
        if waited > self.start_timeout:
            raise NeighborLost(
                f"only {len(came)} of {self.first} processes came within {self.start_timeout:g} s at the start. See "
                "the output of those that did not; if they only start late, use Decentralized(…, start_timeout=…)."
            )

    def _check_entry(self, came: list[Member], waited: float) -> None:
        if waited > max(self.start_timeout, self.timeout) and not self._may_close(came):
            raise NeighborLost(
                f"no member let this process in within {waited:.0f} s: they look for those that join when they step. "
                "Give more by Decentralized(…, start_timeout=…) where a step takes longer."
            )

    def _shut(self, members: Iterable[Member]) -> set[str]:
        """The names of those that are dead."""
        return {m.name for m in members if m.name != self.name and _is_shut(m.door)}

    def _serve(self) -> None:
        """Make room for those that knock."""
        try:
            while True:
                self._door.accept()[0].close()
        except OSError:  # there is none
            pass


class MeetingLost(RuntimeError):
    """The store with the record of members is gone: without it nobody can regroup."""


@contextlib.contextmanager
def _reaching_the_store() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise MeetingLost(
            "the meeting place of this elastic run is gone, which must outlive all processes: it is kept by the first "
            "`gossamer launch --elastic`, or by the first torchrun. Start again from the last checkpoint."
        ) from error


def _placed(came: Iterable[Member]) -> tuple[Member, ...]:
    """The members by place. One that joins gets the place that it wants, or else the first that is free."""
    came = sorted(came, key=lambda member: (not member.veteran, member.place, member.name))
    taken, placed = set[int](), list[Member]()
    for member in came:
        free = next(place for place in range(len(came)) if place not in taken | {m.place for m in came if m.veteran})
        place = free if member.place in taken else member.place
        taken.add(place)
        placed.append(replace(member, place=place))
    return tuple(sorted(placed, key=lambda member: member.place))


def _is_shut(door: tuple[str, int]) -> bool:
    try:
        socket.create_connection(door, timeout=KNOCK).close()
    except ConnectionRefusedError:
        return True
    except OSError:  # no answer: it may be there
        return False
    return False


def _leave_to_parents(door: socket.socket) -> None:
    """A fork, such as a worker of a DataLoader, does not keep the door open when its parent is gone."""
    known = weakref.ref(door)

    def close() -> None:
        if (mine := known()) is not None:
            mine.close()

    os.register_at_fork(after_in_child=close)
