"""What is promised of a private oracle."""

from typing import NamedTuple


class Privacy(NamedTuple):
    """What decides the (ε, δ) of a private oracle, besides how often it was asked."""

    clip: float
    noise: float
    """The noise multiplier σ: the deviation of the noise over `clip`."""
    rate: float
    """The probability with which each row is taken."""
    delta: float
    """The δ at which ε is told."""
