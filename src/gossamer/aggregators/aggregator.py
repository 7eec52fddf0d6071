"""The contract of an aggregator: one vector from an agent's own and those that its neighbours sent."""

import abc
from typing import ClassVar

from jaxtyping import Float

from gossamer.basics.lazy import Array
from gossamer.basics.text import fields_of, format_call


class Aggregator(abc.ABC):
    """A robust mean that one agent computes in place of the weighted mean of gossip.

    An aggregator of your own is a frozen dataclass under `gossamer.pytree`; what decides its shapes is static.
    """

    name: ClassVar[str]
    """The name of the function that makes the aggregator."""

    @property
    def fewest(self) -> int:
        """Return the number of messages, its own among them, that an agent needs in a round with gossip."""
        return 1

    def check(self, dim: int) -> None:  # noqa: B027
        """Raise InputError, before any work, for a dimension that the aggregator cannot serve; ours serve all."""

    @abc.abstractmethod
    def combine(
        self, own: Float[Array, " d"], messages: Float[Array, "width d"], weights: Float[Array, " width"]
    ) -> Float[Array, " d"]:
        """Return the agent's next vector.

        A message of weight 0 is padding. The agent's own weight is 1 minus the sum of the others.
        """

    def __init_subclass__(cls) -> None:
        if "__repr__" not in vars(cls):
            cls.__repr__ = Aggregator.__repr__  # or @dataclass would write another

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """Return the call that makes the aggregator."""
        return format_call(self.name, fields_of(self))
