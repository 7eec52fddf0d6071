"""What of an optimizer is saved, and how it goes on from that."""

from abc import abstractmethod
from dataclasses import asdict
from typing import Any

from torch.optim import Optimizer

from gossamer.core import InputError
from gossamer.torch import facts
from gossamer.torch.exchange import Counters
from gossamer.torch.gradients import Gradients
from gossamer.torch.inner import LocalSteps
from gossamer.torch.rounds import Memory
from gossamer.torch.saved import misfit, packed, unpacked
from gossamer.torch.together import Together


class Resumable(Together):
    """The part of `Decentralized` that is saved and loaded."""

    counters: Counters
    local: LocalSteps | None
    _gradients: Gradients

    @property
    def inner(self) -> Optimizer | None:
        """The optimizer that takes the local steps."""
        return None if self.local is None else self.local.optimizer

    def state_dict(self) -> dict[str, Any]:
        """The state of any optimizer, and where the rule stands: its state, the rates in force, and the round."""
        rule = self._saved_with() | packed(self._rounds.memory)
        rule |= {"finite": self._gradients.finite, "steps": self.guard.step, "counters": asdict(self.counters)}
        rule["seconds"] = self._log.seconds
        rule["still"] = {k: value.clone() for k, value in self.flat.still.items()}
        rule["inner state"] = None if self.local is None else self.local.state_dict()
        return super().state_dict() | {"rule": rule}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state that this rank saved. All ranks must load the same step together: the round that they
        are in is begun again."""
        self._check_own()
        self.world.refuse(self.misfit(state_dict))
        saved = state_dict["rule"]
        super().load_state_dict({key: state_dict[key] for key in ("state", "param_groups")})
        self.world.agree({"round that was loaded": "any" if self.asynchronous else str(saved["round"])})
        if self.asynchronous:
            self.exchange.meet()  # what a neighbour may still take back is of the state before
        self.exchange.drain()
        finite = saved["finite"]
        self._gradients.finite = None if finite is None else finite.to(self.world.device, copy=True)
        self.guard.step = saved["steps"]
        vars(self.counters).update(saved["counters"])
        self._log.seconds = saved.get("seconds", self._log.seconds)
        self.flat.still = {k: value.to(self.world.device, copy=True) for k, value in saved.get("still", {}).items()}
        self._go(unpacked(saved, self.world.device))
        if self.local is not None:
            self.local.load_state_dict(saved["inner state"])
        if self.asynchronous:
            self.exchange.meet()  # or else one might meet another that has not loaded yet

    def misfit(self, state_dict: dict[str, Any]) -> str:
        """Why this optimizer cannot load a state; "" if it can."""
        return misfit(state_dict.get("rule", {}), self._saved_with(), sum(self.flat.sizes))

    def __getstate__(self) -> dict[str, Any]:
        raise InputError(
            "Decentralized can be neither copied nor pickled, since it is in the middle of a round with the other "
            "ranks: keep its state_dict(), or use gossamer.torch.save."
        )

    def _saved_with(self) -> dict[str, Any]:
        whole: Any = self
        return facts.saved_with(whole)

    @abstractmethod
    def _go(self, memory: Memory) -> None:
        """Go from a memory to the next question, and show it."""
