"""Operations of an agent, as a rule is traced and a clock times them."""

from typing import NamedTuple


class Query(NamedTuple):
    """A number of queries, one after the other, as one piece of work."""

    number: float
    passes: int = 0
    """Passes over all samples of the agent, before it is known how many queries one is."""


class Send(NamedTuple):
    """A message to every neighbour. The `Receive` with the same slot waits for their messages."""

    bytes: float
    slot: int


class Receive(NamedTuple):
    """The wait for the messages that neighbours sent into this slot."""

    slot: int


class Reduce(NamedTuple):
    """An all-reduce of the given number of bytes."""

    bytes: float


class Average(NamedTuple):
    """Gossip before round 0: messages to every neighbour, each after the last was answered, over the links of rounds
    0, 1, …, `times` − 1."""

    bytes: float
    times: int


Operation = Query | Send | Receive | Reduce | Average

Order = tuple[Operation, ...]
"""Operations of one agent, one after the other."""


class Orders(NamedTuple):
    """The operations of a rule from the start on."""

    start: Order
    """Operations before the model of round 0 is there."""
    turn: Order
    """Operations once after the start, before the first round."""
    each: Order
    """Operations of each round."""
    lead: int = 0
    """The number of rounds by which the model is ahead: for t > 0, that of round t is there after t − lead rounds."""
