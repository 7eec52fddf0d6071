"""The contract of an aggregator: one vector from an agent's own and those that its neighbours sent."""

import abc
from typing import ClassVar

from jaxtyping import Float

from gossamer.basics.lazy_jax import Array
from gossamer.basics.text import fields_of, format_call


class Aggregator(abc.ABC):
    """Stands where gossip takes the weighted mean, for one agent.

    An aggregator of your own is a frozen dataclass under `gossamer.pytree`; what decides its shapes is static.
    """

    name: ClassVar[str]
    """The name of the function that makes it."""

    @property
    def fewest(self) -> int:
        """How many messages, its own among them, an agent must have in a round with gossip."""
        return 1

    def check(self, dim: int) -> None:  # noqa: B027
        """Refuse, before any work, a dimension that it cannot serve; ours serve all."""

    @abc.abstractmethod
    def combine(
        self, own: Float[Array, " d"], messages: Float[Array, "width d"], weights: Float[Array, " width"]
    ) -> Float[Array, " d"]:
        """The agent's next vector. A message of weight 0 is padding, and nobody's; the agent's own weight is what the
        others leave of 1."""

    def __init_subclass__(cls) -> None:
        if "__repr__" not in vars(cls):
            cls.__repr__ = Aggregator.__repr__  # so that no dataclass writes another

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """The call that makes it."""
        return format_call(self.name, fields_of(self))
