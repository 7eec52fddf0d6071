"""The privacy parameters of an oracle."""

from typing import NamedTuple


class Privacy(NamedTuple):
    """Parameters that decide the (ε, δ) of a private oracle, together with the number of its releases."""

    clip: float
    noise: float
    """The noise multiplier σ: the deviation of the noise over `clip`."""
    rate: float
    """The probability with which each row is taken."""
    delta: float
    """The δ at which ε is stated."""
