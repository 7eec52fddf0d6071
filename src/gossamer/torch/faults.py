"""Faults between ranks: who is lost, who has inf or NaN, and how a rank tells the others before it goes.

A rank that stops with an error sends its last words to all others first. They lie ready there, and are read only when a
message fails to come or the next step begins, so that they cost nothing while all goes well. One that waits for long
says for whom, so that a rank that stands still is blamed, and not the one beside it that waits as well. Words travel by
gloo; a group without it has none.
"""

import atexit
import contextlib
import itertools
import json
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.core import InputError

if TYPE_CHECKING:
    from gossamer.torch.exchange import Exchange
    from gossamer.torch.rounds import Rates

LENGTH = 1024  # the length of the last words, in bytes
TAG = 0x60551  # the tag of the last words, apart from those of messages, which count from 1, and from those of scripts
HEARING = timedelta(seconds=2)  # how long a rank that stops stays until the others have its words
MOMENT = timedelta(milliseconds=1)  # a wait that is too short for anything to arrive
GRACE = 0.05
"""Seconds that words may be behind the loss of the rank that said them: torchrun soon ends those that are left."""
PAUSE = 0.1
"""Seconds for others to read the last words, and for the threads of a group that somebody else keeps to let it go."""
LONG = 0.6
"""The part of the timeout after which a rank says for whom it waits: the others must hear it before theirs is over."""
WAITS = "waits"  # stands in the words of a rank that only waits, in the place of its error
LONGEST_ROW = 40
"""How many steps in a row may be left out: after as many halvings, the scale of mixed precision was not the cause."""

OnNonfinite = Literal["stop", "skip"]


class NeighborLost(RuntimeError):
    """Neighbours died, stopped, or were silent for longer than the timeout: `ranks`, empty where it cannot be told."""

    def __init__(self, message: str, ranks: tuple[int, ...] = ()):
        super().__init__(message)
        self.ranks = ranks


class NotFinite(RuntimeError):
    """A gradient or a state of `rank` has inf or NaN at `step`. All ranks raise it."""

    def __init__(self, message: str, rank: int, step: int):
        super().__init__(message)
        self.rank, self.step = rank, step


@dataclass(frozen=True)
class Words:
    """The last words of a rank that stopped: at which step of which optimizer, with what error."""

    step: int
    rank: int
    optimizer: int
    error: str
    message: str
    lost: tuple[int, ...] = ()  # the ranks that it had lost itself, which are to be blamed

    def pack(self) -> Tensor:
        """Return the words as `LENGTH` bytes; a message that is too long is cut."""
        cut = self.message
        while len(text := json.dumps(asdict(self) | {"message": cut}).encode()) > LENGTH:
            cut = cut[: len(cut) * 9 // 10] + "…"
        return torch.tensor(list(text.ljust(LENGTH)), dtype=torch.uint8)

    @classmethod
    def read(cls, row: Tensor) -> "Words":
        """Return what was packed."""
        fields = json.loads(bytes(row.tolist()))
        return cls(**fields | {"lost": tuple(fields["lost"])})

    def as_error(self, mine: int) -> RuntimeError:
        """Return the error that rank `mine` raises when it hears these words."""
        if self.error == NotFinite.__name__:
            return NotFinite(f"{self.message} (Rank {mine} stops because of it.)", self.rank, self.step)
        if self.lost:
            return NeighborLost(f"{self.message} (Rank {mine} stops because of it.)", tuple(self.lost))
        why = f"{self.error}: {self.message}"
        return NeighborLost(
            f"rank {mine} lost rank {self.rank}, which stopped at step {self.step} by {why}", (self.rank,)
        )


class LastWords:
    """The line by which ranks of a group hear each other's last words."""

    def __init__(self, group: Any, rank: int, size: int):
        self._group, self._rank = weakref.ref(group), rank
        has_gloo = "cpu:gloo" in dist.get_backend_config(group)
        self._others = [peer for peer in range(size) if peer != rank] if has_gloo else []
        self.carried = size == 1 or bool(self._others)  # true where words reach the others
        self._rows = torch.zeros(size, LENGTH, dtype=torch.uint8)
        self._received: list[Words] = []
        self._over: set[int] = set()
        self._works = {peer: self._listen(peer) for peer in self._others}
        self.tags = itertools.count(1)  # the tags of the optimizers on this group, told apart by them
        self.waiting: tuple[float, float, int | None] | None = None
        """Since when this rank waits, how long at most, and for whom."""
        self._waits: dict[int, tuple[float, int]] = {}  # by rank, when it said that it waits, and for whom
        if self._others:
            threading.Thread(target=_watch, args=(weakref.ref(self),), daemon=True).start()

    def say(self, words: Words) -> None:
        """Tell all ranks that can still hear it, and leave the group."""
        self._over.add(words.optimizer)
        for work in self._send(words):
            with contextlib.suppress(RuntimeError):
                work.wait(HEARING)
        # a connection that is closed with messages unread takes with it what the other end has not read yet
        time.sleep(PAUSE if self._others else 0.0)
        self.hang_up()

    def is_over(self, optimizer: int) -> bool:
        """Return whether an optimizer has stopped, and all were told."""
        return optimizer in self._over

    def hang_up(self) -> None:
        """End all connections, as gloo does where a wait runs out of time: the others need not wait for the process.

        One wait ends all of them, unless it was for a rank that is gone: then it fails before it waits.
        """
        for peer in self._others:
            with contextlib.suppress(RuntimeError):
                alive(self._group).recv([torch.zeros(1)], peer, TAG + 1).wait(MOMENT)

    def reason(self, grace: float = 0.0) -> RuntimeError | None:
        """Return why this rank must stop, if another has said so. Of several the first counts, once an optimizer.

        Before it is returned, it is passed on to those ranks that would only notice the loss of this one.

        Args:
            grace: how many seconds to wait if nothing was said yet.
        """
        end = time.monotonic() + grace
        while True:
            if self._rows[:, -1].any():
                self._read()
            if self._received and (pending := [words for words in self._received if words.optimizer not in self._over]):
                first = min(pending, key=lambda words: (words.step, words.rank))
                self.say(first)
                return first.as_error(self._rank)
            if not self._others or time.monotonic() >= end:
                return None
            time.sleep(0.01)

    def find_silent(self, ranks: Iterable[int], timeout: float) -> tuple[int, ...]:
        """Return who stands still behind ranks that did not answer: those of them that wait themselves do not."""
        self._read()
        found, seen, left = set[int](), set[int](), set(ranks)
        while left:
            rank = left.pop()
            when, behind = self._waits.get(rank, (-math.inf, rank))
            if behind not in (rank, self._rank) and time.monotonic() - when < timeout and rank not in seen:
                left.add(behind)
            else:
                found.add(rank)
            seen.add(rank)
        return tuple(sorted(found))

    def say_whom(self) -> None:
        """Tell all ranks for whom this one waits, if it has waited for long."""
        since, timeout, peer = self.waiting or (0.0, 0.0, None)
        if peer is None:
            return
        if time.monotonic() - since > LONG * timeout and self._waits.get(self._rank) != (since, peer):
            self._waits[self._rank] = since, peer  # once for each wait
            self._said = self._send(Words(0, self._rank, 0, WAITS, str(peer)))

    def _send(self, words: Words) -> list[Any]:
        packed, works = words.pack(), []
        for peer in self._others:
            with contextlib.suppress(RuntimeError):  # it may have gone itself
                works.append(alive(self._group).send([packed], peer, TAG))
        return works

    def _read(self) -> None:
        for peer in self._others:
            if self._rows[peer, -1]:
                words = Words.read(self._rows[peer])
                if words.error == WAITS:
                    self._waits[words.rank] = time.monotonic(), int(words.message)
                else:
                    self._received.append(words)
                self._rows[peer] = 0
                self._works[peer] = self._listen(peer)

    def _listen(self, peer: int) -> Any:
        try:
            return alive(self._group).recv([self._rows[peer]], peer, TAG)
        except RuntimeError:  # it has gone since
            return None


def _watch(words: "weakref.ref[LastWords]") -> None:
    """Say for whom a rank waits while it does, which its own thread cannot: in a thread, until the words are gone."""
    while (watched := words()) is not None:
        with contextlib.suppress(RuntimeError):
            watched.say_whom()
        waiting = watched.waiting
        del watched
        time.sleep(0.25 if waiting is None else min(0.25, waiting[1] / 20))


_OF_GROUPS: list[tuple[Any, Any, LastWords]] = []
"""Groups with their world. All others hold them weakly, so that they can be let go."""


def alive(group: "weakref.ref[Any]") -> Any:
    """Return the group that is referred to."""
    if (found := group()) is None:
        raise RuntimeError("this process group is gone: its world was left, or the process ends.")
    return found


@atexit.register  # when this is imported, and so after all that leaves groups at the end
def let_go() -> None:
    """Let go of all groups, which ends their threads while the interpreter is whole, unless somebody else keeps them.

    A thread of gloo may give back the tensors of a collective later than that is over. PyTorch asks for the lock of the
    interpreter then; if that ends just now, CPython ends the thread, inside of a destructor, and the process aborts:
    "terminate called without an active exception" (pytorch issue 190489). `destroy_process_group` waits for the threads
    only where nobody else holds the group; PyTorch itself does, as default of functions of torch.distributed.nn, where
    the first optimizer is made after the group, and so does DistributedDataParallel.
    """
    groups = [weakref.ref(group) for _, group, _ in _OF_GROUPS]
    _OF_GROUPS.clear()
    if any(group() is not None for group in groups):
        time.sleep(PAUSE)


def last_words(group: Any) -> LastWords:
    """Return the last words of a group of ranks: one listener for all optimizers of this process on it."""
    # a world that was left is gone with its groups
    _OF_GROUPS[:] = [row for row in _OF_GROUPS if row[0] is dist.group.WORLD]
    for _, known, words in _OF_GROUPS:
        if known is group:
            return words
    words = LastWords(group, dist.get_rank(group), dist.get_world_size(group))
    _OF_GROUPS.append((dist.group.WORLD, group, words))
    return words


class Guard:
    """The check of gradients before a rule gets them, and of states before they are sent.

    A sum over finite numbers that do not overflow is finite, and one with an inf or a NaN in it never is: so one sum
    tells that all is well, and numbers are looked at one by one only if it does not.

    Args:
        exchange: the exchange of the ranks that stop together.
        mode: "stop", or "skip", which leaves the step out on all ranks.
        rule: the name of the rule.
        locate: names the parameter that the first inf or NaN of such pieces belongs to.
    """

    def __init__(self, exchange: "Exchange", mode: OnNonfinite, rule: str, locate: Callable[[Sequence[Tensor]], str]):
        if mode not in ("stop", "skip"):
            raise InputError(f'on_nonfinite must be "stop" or "skip", but is {mode!r}.')
        self.exchange, self.world, self.mode, self.rule, self._locate = exchange, exchange.world, mode, rule, locate
        self.step = 0  # the step that is being taken, counted from 1
        self._row = self._turned = 0
        self.late = LateFlag() if exchange.world.device.type == "cuda" and mode == "stop" else None
        """On a GPU what is not finite is found one step later: the host does not wait for each sum."""

    def tell(self, error: Exception) -> None:
        """Let the others know why this rank stops, unless one of them has said it."""
        if not self.world.words.is_over(self.exchange.tag):
            what = type(error).__name__, str(error), getattr(error, "ranks", ())
            self.world.words.say(Words(self.step, self.world.rank, self.exchange.tag, *what))

    def passes(self, gradients: Sequence[Tensor], local: bool = False) -> bool:
        """Return whether to take the step with these gradients, given in pieces; if not, no rank takes it.

        Args:
            gradients: pieces of gradients, whose order is that of the parameters.
            local: whether it is a local step, which this rank leaves out by itself.
        """
        sums = []
        for a in gradients:
            sums.append(a.sum(dtype=torch.promote_types(a.dtype, torch.float32)))  # half precision ends at 65504
        total = sums[0] if len(sums) == 1 else torch.stack(sums).sum()
        if self.late is not None:
            self.late.put(~torch.isfinite(total))
            if (
                self._turned != self.step
            ):  # once a step, also where the last local step and the displacement are looked at
                self._turned = self.step
                if self.late.turn():
                    raise NotFinite(
                        f"rank {self.world.rank} has inf or NaN in its gradient or its state of step {self.step - 1}, "
                        "or got them from a neighbour in that step: on a GPU they are found one step late. Look at "
                        "losses and data of all ranks; a smaller lr or clipping may help. Go on from the last "
                        "checkpoint.",
                        self.world.rank,
                        self.step,
                    )
            return True
        bad = 0 if math.isfinite(total) else sum(map(_count_bad, gradients))
        # the others will hear of it by its words, or need not
        is_alone = local or (self.mode == "stop" and self.world.words.carried)
        counts = {self.world.rank: bad} if is_alone else dict(enumerate(self.world.numbers(bad)))
        rank = next((rank for rank, count in counts.items() if count), None)
        if rank is None:
            self._row = 0 if self.mode == "skip" else self._row  # in the other mode `count_overflow` counts
            return True
        size = sum(gradient.numel() for gradient in gradients)
        where = f", first in {self._locate(gradients)}" if rank == self.world.rank else ""
        what = (
            f"rank {rank}'s gradient at step {self.step}{', a local one,' if local else ''} is not finite (inf or NaN "
            f"in {counts[rank]} of {size} numbers{where})"
        )
        if self.mode == "stop":
            raise NotFinite(
                f"{what}. Look at its loss and data; a smaller lr{' of the inner optimizer' * local} or clipping may "
                f"help. Go on from the last checkpoint or leave such steps out{'' if local else ' on all ranks'} by "
                'Decentralized(…, on_nonfinite="skip").',
                rank,
                self.step,
            )
        self.exchange.counters.skipped += 1
        self._count(True, what if local else f"{what}, and some rank had such a gradient", rank)
        return False

    def count_overflow(self, here: bool) -> None:
        """Count if this rank's gradient overflowed under mixed precision, where the step is taken all the same."""
        self.exchange.counters.overflows += here
        if self.mode == "stop":
            self._count(here, f"rank {self.world.rank}'s gradient overflowed", self.world.rank)

    def _count(self, bad: bool, what: str, rank: int) -> None:
        """Stop where there are too many steps without a gradient in a row."""
        self._row = self._row + 1 if bad else 0
        if self._row >= LONGEST_ROW:
            raise NotFinite(
                f"{what} in each of the last {self._row} steps: nothing is trained. Look at the loss, the data and lr.",
                rank,
                self.step,
            )

    def check(self, state: Mapping[str, Tensor], rates: "Rates", sums: list[Tensor] | None = None) -> None:
        """Refuse a state, made at these rates, that is not finite, before any of it is sent.

        Args:
            state: the arrays, by name.
            rates: the rates, of which a rule may divide by η.
            sums: sums of all its numbers, where they are known.
        """
        sums = list(map(torch.sum, state.values())) if sums is None else sums
        if not sums:  # an agent that is asleep has no new state
            return
        total = torch.stack(sums).sum()
        if self.late is not None and self.step:
            return self.late.put(~torch.isfinite(total))
        if math.isfinite(total):
            return
        for name, value in state.items():
            if not (bad := _count_bad(value)):
                continue
            if 0 in rates.eta:
                raise InputError(f"{self.rule} divides by lr, which is 0: begin the warm-up with a number above 0.")
            # the others check, too, before they send; but what is sent within a round may overflow on its way
            if reason := self.world.words.reason(GRACE):
                raise reason
            if self.step:
                where = f"state at step {self.step}"
                kind = str(value.dtype).removeprefix("torch.")
                out = f"Its gradient was finite: the run has diverged beyond {kind}: go on from an earlier checkpoint "
                out += "with a smaller lr."
            else:
                where, out = "start", "Give a model whose parameters are finite, on rank 0 if not on all."
            raise NotFinite(
                f"rank {self.world.rank}'s {where} is not finite: {name} of {self.rule} has inf or "
                f"NaN in {bad} of {value.numel()} numbers. {out}",
                self.world.rank,
                self.step,
            )


class LateFlag:
    """A flag that is read one step later: the device has finished by then."""

    def __init__(self) -> None:
        self._parts: list[Tensor] = []
        self._last: Tensor | None = None
        self._ready: torch.cuda.Event | None = None

    def put(self, flag: Tensor) -> None:
        """Note one more flag of this step."""
        self._parts.append(flag.detach())

    def turn(self) -> bool:
        """Return whether a flag of the last step was true; those of this step are read at the next turn."""
        if self._ready is not None:
            self._ready.synchronize()
        was = self._last is not None and bool(self._last)
        self._last = self._ready = None
        if self._parts:
            this = torch.stack(self._parts).any()
            self._last = torch.empty((), dtype=torch.bool, pin_memory=this.is_cuda)
            self._last.copy_(this, non_blocking=True)
            if this.is_cuda:
                self._ready = torch.cuda.Event()
                self._ready.record()
        self._parts = []
        return was


def _count_bad(a: Tensor) -> int:
    return int((~torch.isfinite(a)).sum())
