"""Which form features are held in."""

from typing import Any

import numpy as np

from gossamer.problems.inputs.bits import Bits


def hold(features: np.ndarray) -> Any:
    """The same features in the form that is fastest: packed bits where all are 0 or 1, else as they are."""
    # Measured on a9a (123 columns, batch 64, 20 agents): the gradient of a mini-batch takes 0.5 to 0.7 of what
    # it takes from int8, whose 4.2 MB miss the cache where 0.5 MB of bits do not.
    zero_or_one = bool(((features == 0) | (features == 1)).all())
    return Bits.of(features) if zero_or_one else features
