"""Who trains together, with threads for processes: some are late, dead or stopped in every phase of a generation."""

import threading
import time

import pytest
from gossamer.torch.stopping import NeighborLost
from torch.distributed import HashStore  # pyright: ignore[reportPrivateImportUsage]

from gossamer.torch.membership import READY, Membership, NotLetIn
from tests.torch_engine import forked

TIMEOUT = 0.8
PHASES = ("gathered", "enters", "connect", "stands", "about", "copy", "copied")
"""Where a process may be held up; within "connect" and "copy" it cannot be interrupted."""


class Dead(Exception):
    """Ends a thread."""


class Process(threading.Thread):
    """Comes, forms a generation and goes on, in the order of `Elastic.form` and `Elastic.regroup`.

    Args:
        members: its membership.
        hold: what it does, once, when it comes to a phase.
        phase: that one.
    """

    def __init__(self, members, hold=None, phase=None):
        super().__init__(daemon=True)
        self.members, self.hold, self.phase, self.error, self.formed = members, hold, phase, None, []

    def run(self):
        try:
            while True:
                try:
                    return self.form()
                except NotLetIn:
                    raise
                except NeighborLost:
                    pass
        except Dead:
            pass
        except Exception as error:
            self.error = error

    def at(self, phase):
        if phase == self.phase and self.hold is not None:
            hold, self.hold = self.hold, None
            hold(self.members)

    def form(self):
        members = self.members
        members.gather()
        self.at("gathered")
        members.meet("enters")
        self.at("enters")
        with members.signs():
            self.at("connect")
        members.meet("stands")
        self.at("stands")
        members.meet("about")
        self.at("about")
        with members.signs():
            self.at("copy")
        self.at("copied")
        members.meet(READY)
        members.trained = True
        self.formed.append((members.generation, [member.place for member in members.members]))


class Late(Process):
    """Late in every phase: where it cannot be interrupted, for longer than the timeout."""

    def at(self, phase):
        time.sleep(1.2 * TIMEOUT if phase in ("connect", "copy") else 0.1)


def run(*processes):
    for process in processes:
        process.start()
    for process in processes:
        process.join(20)
        assert not process.is_alive()
        assert process.error is None, process.error


@pytest.fixture
def three():
    """Three members that have formed the first generation, and what makes one that joins them."""
    store, members = HashStore(), []

    def joining(place, first=0, start_timeout=20.0):
        members.append(Membership(store, "127.0.0.1", place, first, start_timeout, TIMEOUT))
        return members[-1]

    began = [joining(place, 3) for place in range(3)]
    run(*map(Process, began))
    yield began, joining
    for one in members:
        one.close()


def test_one_that_is_late_is_waited_for_in_every_phase(three):
    members, _ = three
    processes = [Process(members[0]), Late(members[1]), Process(members[2])]
    run(*processes)
    assert [process.formed for process in processes] == [[(2, [0, 1, 2])]] * 3


@pytest.mark.parametrize("phase", PHASES)
def test_one_that_dies_is_left_out_in_every_phase_and_nobody_else_is(three, phase):
    def dies(members):
        members.close()
        raise Dead

    began = time.monotonic()
    processes = [Process(one, *(dies, phase) if place == 1 else ()) for place, one in enumerate(three[0])]
    run(*processes)
    assert [process.formed for process in processes] == [[(3, [0, 2])], [], [(3, [0, 2])]]
    assert all(one.trained for one in (three[0][0], three[0][2]))
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("phase", ["gathered", "copied"])
def test_one_that_stops_is_left_out_after_the_timeout_and_comes_back_as_a_new_one(three, phase):
    members, _ = three
    back = threading.Event()
    processes = [
        Process(one, *(lambda _: back.wait(20), phase) if place == 1 else ()) for place, one in enumerate(members)
    ]
    for process in processes:
        process.start()
    for place in (0, 2):
        processes[place].join(20)
        assert processes[place].formed == [(3, [0, 2])]
    back.set()
    forked.wait_until(members[0]._is_over, 20)  # they look at the record when they step
    run(others := Process(members[0]), last := Process(members[2]))
    processes[1].join(20)
    assert [one.formed[-1] for one in (others, processes[1], last)] == [(4, [0, 1, 2])] * 3
    assert [member.veteran for member in members[0].members] == [True, False, True]


def test_whom_the_others_went_on_without_stays_new_until_it_has_a_model(three):
    """It comes back, but that generation breaks before it has got a state: it has none in the next one, either."""

    def breaks(_):
        raise NeighborLost("something else")

    members, _ = three
    run(Process(members[0]), Process(members[2]))
    (back := Process(members[1])).start()
    forked.wait_until(members[0]._is_over, 20)  # or else, if it is slow, the others may form one without it
    run(Process(members[0]), Process(members[2], breaks, "about"))
    back.join(20)
    assert back.formed == [(4, [0, 1, 2])]
    assert [member.veteran for member in members[0].members] == [True, False, True]


def test_one_that_joins_does_not_disturb_those_that_form(three):
    members, joining = three
    joins = joining(3)
    held, come = threading.Event(), Process(joins)
    processes = [
        Process(one, *(lambda _: held.wait(20), "copy") if place == 1 else ()) for place, one in enumerate(members)
    ]
    for process in processes:
        process.start()
    forked.wait_until(lambda: joins._record().closed and joins._record().generation == 2, 20)
    come.start()
    time.sleep(0.5)
    assert joins._record().generation == 2
    held.set()
    for process in processes:
        process.join(20)
        assert process.formed == [(2, [0, 1, 2])]
    forked.wait_until(members[0]._is_over, 20)  # or else, if it is slow, the others form the next one without it
    run(*(more := [Process(one) for one in members]))
    come.join(20)
    assert come.formed == more[0].formed == [(3, [0, 1, 2, 3])]


def test_one_that_nobody_lets_in_is_told_so(three):
    members, joining = three
    alone = Process(joining(3, start_timeout=0.5))
    alone.start()
    alone.join(20)
    assert "no member let this process in within" in str(alone.error)
    for one in members:
        one.close()
    late = Process(joining(3))
    late.start()
    late.join(20)
    assert "nobody is left whom this process could join" in str(late.error)


def test_one_that_joins_waits_for_what_members_do_together(three):
    """Two of three are in a checkpoint when the third dies: they end it before anybody joins."""
    members, joining = three
    joins = joining(3)
    come = Process(joins)
    come.start()
    forked.wait_until(members[0]._is_over, 20)
    assert not members[0]._is_broken()
    members[1].close()
    for place in (0, 2):
        members[place].busy = True
    run(one := Process(members[0]), other := Process(members[2]))
    assert one.formed == other.formed == [(2, [0, 2])]
    ends = [threading.Thread(target=members[place].meet, args=("work",)) for place in (0, 2)]
    for thread in ends:
        thread.start()
        forked.wait_until(members[0]._is_over, 20)  # one that joins has come again
    for thread in ends:
        thread.join(20)
    for place in (0, 2):
        members[place].busy = False
    run(one := Process(members[0]), Process(members[2]))
    come.join(20)
    assert one.formed == come.formed == [(3, [0, 2, 3])]


def test_what_one_member_has_come_past_all_do(three):
    """One says it last and ends at once: the other, who looks later, finds that all had come."""
    members, _ = three
    waits = threading.Thread(target=members[0].meet, args=("work",))
    waits.start()
    members[2].store.set(members[2]._keys(1, "work/1", members[2].members)[members[2].name], "")
    members[2].close()
    members[1].meet("work")
    members[1].close()
    waits.join(20)
    assert not waits.is_alive()


def test_what_was_said_is_forgotten_once_all_have_come_further(three):
    members, _ = three
    kept = []
    for _ in range(6):
        threads = [threading.Thread(target=one.meet, args=("work",)) for one in members]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        kept.append(members[0].store.num_keys())
    assert kept[-1] <= kept[0] + 3  # the signs of three, which are looked for where one is late
