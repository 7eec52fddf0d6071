"""What an agent does in a round, in order: the words in which a rule is traced, and which a clock times."""

from typing import NamedTuple


class Query(NamedTuple):
    """It computes a number of queries, one after the other, as one piece of work."""

    number: float
    passes: int = 0
    """Passes over all its samples, before it is known how many queries one is."""


class Send(NamedTuple):
    """A message of the given size leaves for every neighbour. The slot tells which `Receive` waits for the answer."""

    bytes: float
    slot: int


class Receive(NamedTuple):
    """It waits for the messages that its neighbours sent into this slot."""

    slot: int


class Reduce(NamedTuple):
    """An all-reduce of the given number of bytes."""

    bytes: float


class Average(NamedTuple):
    """Messages of the given size to every neighbour, each after the last was answered, before round 0: by
    the links of rounds 0, 1, …, `times` − 1."""

    bytes: float
    times: int


Operation = Query | Send | Receive | Reduce | Average

Order = tuple[Operation, ...]
"""Operations of one agent, one after the other."""


class Orders(NamedTuple):
    """What a rule does from the start on."""

    start: Order
    """Before round 0 is there to be measured."""
    turn: Order
    """Once after that, before the first round."""
    each: Order
    """In each round."""
    lead: int = 0
    """By how many rounds the model is ahead: that of round t is there after t − lead of them, if t is above 0."""


def pieces(order: Order) -> int:
    """How many pieces of work an order has."""
    return sum(isinstance(operation, Query) for operation in order)
