"""What the ranks of an optimizer know and do together: means, disagreement, and how far they are."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.optim import Optimizer

from gossamer.core import InputError
from gossamer.torch import averaging
from gossamer.torch.elastic import Elastic
from gossamer.torch.exchange import Exchange
from gossamer.torch.finite import Guard
from gossamer.torch.log import Log
from gossamer.torch.meetings import Tally
from gossamer.torch.parameters import Flat
from gossamer.torch.rounds import Memory, Rounds
from gossamer.torch.waking import Waking
from gossamer.torch.world import ProcessWorld


class Together(Optimizer):
    """The part of `Decentralized` in which ranks are many, and no rule is run."""

    flat: Flat
    world: ProcessWorld
    exchange: Exchange
    guard: Guard
    elastic: Elastic | None
    asynchronous: bool
    _rounds: Rounds | Waking
    _log: Log
    _averaged: bool

    @property
    def round(self) -> int:
        """The round that the rule is in; −1 before its start has been made."""
        return self._rounds.memory.t

    @property
    def steps(self) -> int:
        """How many steps the ranks have taken, the same on all of them, also where some were lost or joined."""
        return self.guard.step

    @property
    def place(self) -> int:
        """This agent's place, which stays where ranks change because others are lost; else its rank."""
        return self.world.rank if self.elastic is None else self.elastic.place

    @property
    def memory(self) -> Memory:
        """Where the rule stands."""
        return self._rounds.memory

    @property
    def meetings(self) -> Tally | None:
        """What became of this rank's meetings; None where ranks go in rounds."""
        return self._rounds.meetings.tally if isinstance(self._rounds, Waking) else None

    def note(self, **values: float | torch.Tensor) -> None:
        """Put numbers, such as ``loss=loss``, into the next row of the log."""
        self._log.note(values)

    @contextlib.contextmanager
    def average_model(self, module: torch.nn.Module | None = None) -> Iterator[None]:
        """Inside, the parameters are x̄, the mean over all ranks; given the module, so are its floating buffers.

        All ranks must enter it. After it everything is as it was.
        """
        with averaging.averaged(self.flat, self.together(lambda: self._means(module)), module):
            self._averaged = True
            try:
                yield
            finally:
                self._averaged = False

    def consensus_error(self) -> float:
        """(1/n) Σ_i ‖x_i − x̄‖², as the simulator measures it. All ranks must call it."""

        def measured() -> float:
            self.check_together()
            return averaging.consensus_error(self.flat.read(), self.world)

        return self.together(measured)

    def together(self, work: Callable[[], Any]) -> Any:
        """What the work gives, which all ranks do together; where they are elastic, also after a loss."""
        return work() if self.elastic is None else self.elastic.retried(self, work)

    def finish(self) -> None:
        """Wait until all ranks have come to their end. All must call it.

        Where they are asynchronous they step no more: until the last one comes, those that are here answer their
        neighbours, and the parameters are then as those left them.
        """
        self._check_own()
        if isinstance(self._rounds, Waking):
            self._rounds.finish()
            self.flat.write(self._rounds.points[0])
        else:
            self.together(self.exchange.meet if self.elastic is None else lambda: None)

    def check_together(self) -> None:
        """Refuse to go on where ranks differ in how many steps they took, or in lr. All ranks must call it.

        Asynchronous ones may differ: they are waited for until all are here.
        """
        self._check_own()
        if self.asynchronous:
            self.exchange.meet()
            return
        rates = [f"{group['lr']:.12g}" for group in self.param_groups]
        self.flat.check_kinds()
        self.world.agree(
            {
                "number of steps": str(self.guard.step),
                "lr of each parameter group": ", ".join(rates),
                "numbers of the parameters that were frozen": str(sorted(self.flat.still)),
            }
        )

    def _means(self, module: torch.nn.Module | None) -> Any:
        self.check_together()
        self.exchange.settle()  # messages may be sent from the memory of the parameters
        return averaging.means(self.flat, self.world, module)

    def _check_own(self) -> None:
        """Refuse to go on while the parameters are the mean of all ranks."""
        if self._averaged:
            raise InputError(
                "inside of average_model the parameters are the mean of all ranks, and not those of this one: step, "
                "save, load and measure after it."
            )
