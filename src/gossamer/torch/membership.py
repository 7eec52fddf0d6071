r"""Who trains together where processes are lost and join: one record in a store that outlives all of them.

    generation 4, gathering: who is expected, and who has come so far
    generation 4, closed: the members, in the order of their ranks
    generation 4, formed: every member has said that it is ready

A process that loses a neighbour, or wants to join, opens the next generation and comes. So does everyone whose messages
fail to come because of that, and whoever looks at the record. The gathering ends once every expected member has come,
is dead, or is silent; whoever sees that first writes down the members. All changes are made by compare-and-set, so that
a generation has one list of members, and no process has a role that could be lost with it.

To form a closed generation takes several steps: to connect, to tell the others where one stands, to copy a state to
those that join. After each step a member says so in the store, and goes on once all have: see `Membership.meet`. That
nobody is left behind on the way follows from these:

- A process waits in one of two ways. At the store it looks again and again, and leaves at once when a later generation
  is opened or somebody it waits for is dead. In a call of PyTorch it cannot be interrupted; every such call has a
  limit, and the process gives signs meanwhile.
- So a live process that is not stopped either comes at once or gives signs, and others go on without a member only if
  it has done neither for `timeout` seconds. No wait is compared with another one: one number decides.
- Nobody waits for a message of another that still forms: messages begin when the generation is formed.
- Only a member opens the next generation before this one is formed. One that joins waits until it is, so that
  those that join cannot keep others from forming. Nor are members disturbed that wait for each other in other work,
  such as a checkpoint: one that joins could not take part in it, and is let in at the next step.
- Whether all have come to a point is decided once, by compare-and-set, and stays in the store. So if one member has
  come past it, all of them do, also those that look when others have left: work ends for all members or for none.
- Who is lost before the first generation is formed had no model that others need: those that are left begin again.
- Whom the others went on without finds that it is not in the record, and joins as a new one. A new one is a veteran
  only once it has the model and its generation is formed.
"""

import collections
import contextlib
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from gossamer.torch.generations import Member, Record, placed
from gossamer.torch.life import Door, Watch, signs
from gossamer.torch.stopping import NeighborLost

KEY = "gossamer/members"
LOOK = 0.05
"""Seconds between two looks at the record of a gathering."""
MEET = 0.002
"""Seconds between the first two looks at who is as far as oneself; later ones are further apart."""
CALL = 1.0
"""Seconds between two looks at whether somebody wants to join."""
READY = "ready"
"""What members say last: the generation is formed."""
ALL, BROKEN = "all", "broken"
"""What may become of a point where members meet: all have come, or some were lost and nobody goes on from it."""


class NotLetIn(NeighborLost):
    """This process cannot become a member."""


class MeetingLost(RuntimeError):
    """The store with the record of members is gone: without it nobody can regroup."""


@dataclass
class Membership:
    """This process among those that train together.

    Args:
        store: where the record is; it must outlive every process.
        host: the address of this machine by which others reach it.
        wanted: the place that this process would like to have.
        first: how many processes there are at the start; 0 for one that only joins what others began.
        start_timeout: seconds to wait for the last of those, and to be let in later.
        timeout: seconds to wait for a member that is silent.
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
    busy: bool = False
    """Whether it is in the middle of work that all members do together, and nobody can join."""
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def __post_init__(self) -> None:
        self._door, self._looked = Door(self.host), time.monotonic()
        self._met = collections.Counter[str]()

    @property
    def rank(self) -> int:
        """Of this process in its generation."""
        return [member.name for member in self.members].index(self.name)

    def called(self) -> bool:
        """Whether somebody has opened another generation; looked up once a second."""
        if time.monotonic() - self._looked < CALL:
            return False
        self._looked = time.monotonic()
        return self._is_over()

    def gather(self) -> None:
        """Come, and return as a member of the next generation that is closed."""
        began, seen, watch = time.monotonic(), -1, self._watch()
        self._door.serve()
        while True:
            record, waited = self._record(), time.monotonic() - began
            number = 0 if record is None else record.generation
            if record is not None and record.closed and number > self.generation and record.has(self.name):
                self.generation, self.members = number, record.came
                self._met.clear()
                return
            if number != seen:
                seen, watch = number, self._watch()
            if self._must_wait(record, watch):
                self._check_entry(waited)
                time.sleep(LOOK)
            elif record is None or record.closed or not record.has(self.name):
                self._write(record, self._coming(record))
            else:
                with _reaching_the_store():
                    watch.look(m for m in {*record.expected, *record.came} if m.name != self.name)
                if (closed := self._closed(record, watch, waited)) is not None:
                    self._write(record, closed)
                else:
                    time.sleep(LOOK)

    def meet(self, what: str, text: str = "") -> list[str]:
        """Say that this process has come to a point, with a text; once all members have, return theirs by rank.

        The members must come to the same points equally often.
        """
        self._met[what] += 1
        point = f"{what}/{self._met[what]}"
        keys, watch = self._keys(self.generation, point, self.members), self._watch()
        lost, pause = list[Member](), MEET
        with _reaching_the_store():
            self.store.set(keys[self.name], text)
            while not (every := self.store.check(list(keys.values()))):
                lost = self._lost(keys, watch)
                if (lost or self._is_broken()) and self._decided(point, BROKEN) == BROKEN:
                    break
                time.sleep(pause)
                pause = min(2 * pause, LOOK)
            if every and self._decided(point, ALL) == ALL:
                self._forget(f"{what}/{self._met[what] - 1}")
                return [self.store.get(keys[member.name]).decode() for member in self.members]
        who = ", ".join(str(member.place) for member in lost) or "another"
        raise NeighborLost(f"the members regroup: place {who} was lost or silent while they met ({what}).")

    def signs(self) -> contextlib.AbstractContextManager[None]:
        """Inside, the others know that this process lives, while it is in a call that cannot be interrupted."""
        return signs(self.store, self.name, self.timeout)

    def close(self) -> None:
        """Shut the door: the others need not wait for this process."""
        self._door.shut()

    def _watch(self) -> Watch:
        return Watch(self.store, self.timeout)

    def _record(self) -> Record | None:
        with _reaching_the_store():
            return Record.read(self.store.get(KEY)) if self.store.check([KEY]) else None

    def _write(self, old: Record | None, new: Record) -> None:
        """Unless somebody else has written meanwhile."""
        with _reaching_the_store():
            self.store.compare_set(KEY, "" if old is None else old.written(), new.written())

    def _is_over(self) -> bool:
        """Whether a later generation has been opened."""
        record = self._record()
        return record is not None and record.generation > self.generation

    def _is_broken(self) -> bool:
        """Whether a member of this generation has left it: not because of one that joins, who waits for a step."""
        record = self._record()
        if record is None or record.generation <= self.generation:
            return False
        left = {member.name for member in record.came} & {member.name for member in self.members}
        return bool(left) or record.closed or record.generation > self.generation + 1

    def _lost(self, keys: dict[str, str], watch: Watch) -> list[Member]:
        """The members that have not come to a point, and are dead or silent."""
        if watch.due:
            watch.look(member for member in self.members if not self.store.check([keys[member.name]]))
        lost = watch.dead | watch.silent
        # one may have come since, and ended
        return [m for m in self.members if m.name in lost and not self.store.check([keys[m.name]])]

    def _decided(self, point: str, outcome: str) -> str:
        """What has become of a point of this generation: this, unless somebody has decided before."""
        return self.store.compare_set(_outcome(self.generation, point), "", outcome).decode()

    def _forget(self, point: str) -> None:
        """Remove what stands of the point before: all have come past it, or they could not have come to the next."""
        self.store.delete_key(self._keys(self.generation, point, self.members)[self.name])
        if self.rank == 0:
            self.store.delete_key(_outcome(self.generation, point))

    def _keys(self, generation: int, point: str, members: tuple[Member, ...]) -> dict[str, str]:
        return {member.name: f"gossamer/{generation}/{point}/{member.name}" for member in members}

    def _must_wait(self, record: Record | None, watch: Watch) -> bool:
        """Whether those that began, or form a generation without this process, must come to an end of that first."""
        if not self.first and (record is None or (record.generation == 1 and not record.closed)):
            return True
        if record is None or not record.closed or record.has(self.name):
            return False
        with _reaching_the_store():
            key = _outcome(record.generation, f"{READY}/1")
            if self.store.check([key]) and self.store.get(key) == ALL.encode():
                return False
            watch.look(record.came)
        if {member.name for member in record.came} <= watch.dead:
            raise NotLetIn(_NOBODY)
        return True

    def _coming(self, record: Record | None) -> Record:
        """The record after this process has come."""
        known = {} if record is None else {m.name: m for m in (record.came if record.closed else record.expected)}
        # whom the others went on without is as good as new, and stays so until it has a model again
        self.trained = veteran = self.trained and self.name in known
        place = known[self.name].place if veteran else self.wanted
        mine = Member(self.name, self._door.address, place, veteran, veteran and self.busy)
        if record is None:
            return Record(1, False, (), (mine,))
        if record.closed:
            return Record(record.generation + 1, False, record.came, (mine,))
        return replace(record, came=(*record.came, mine))

    def _closed(self, record: Record, watch: Watch, waited: float) -> Record | None:
        """The record with its members written down, if this generation is complete; an error if it cannot be."""
        came = [member for member in record.came if member.name not in watch.dead]
        missing = {m.name for m in record.expected} - {m.name for m in came} - watch.dead
        if record.generation == 1:
            if len(came) < self.first:
                self._check_start(came, waited)
                return None
        elif missing and not (missing <= watch.silent and self.trained):
            if not self.trained:  # one that joins may not go on without those that are silent
                self._check_entry(waited)
            return None
        elif not any(member.veteran for member in came) and self._has_begun(record.generation):
            raise NotLetIn(_NOBODY)
        if any(member.busy for member in came):
            came = [member for member in came if member.veteran]
        return replace(record, closed=True, expected=(), came=placed(came))

    def _has_begun(self, generation: int) -> bool:
        """Whether there was a model before this generation; if not, one was lost at the start, and all begin again."""
        keys = [_outcome(past, f"{READY}/1") for past in range(1, generation)]
        with _reaching_the_store():
            return any(self.store.check([key]) and self.store.get(key) == ALL.encode() for key in keys)

    def _check_start(self, came: list[Member], waited: float) -> None:
        if waited > self.start_timeout:
            raise NotLetIn(
                f"only {len(came)} of {self.first} processes came within {self.start_timeout:g} s at the start. See "
                "the output of those that did not; if they only start late, use Decentralized(…, start_timeout=…)."
            )

    def _check_entry(self, waited: float) -> None:
        if waited > max(self.start_timeout, self.timeout):
            raise NotLetIn(
                f"no member let this process in within {waited:.0f} s: they look for those that join when they step. "
                "Give more by Decentralized(…, start_timeout=…) where a step takes longer."
            )


def _outcome(generation: int, point: str) -> str:
    return f"gossamer/{generation}/{point}"


_NOBODY = "nobody is left whom this process could join: the run is over, or failed at its start."


@contextlib.contextmanager
def _reaching_the_store() -> Iterator[None]:
    try:
        yield
    except (NeighborLost, MeetingLost):
        raise
    except RuntimeError as error:
        raise MeetingLost(
            "the meeting place of this elastic run is gone, which must outlive all processes: it is kept by the first "
            "`gossamer launch --elastic`, or by the first torchrun. Start again from the last checkpoint."
        ) from error
