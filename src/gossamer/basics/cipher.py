"""The cipher of Threefry-2x32, on arrays of NumPy or JAX: all that is drawn here comes from it.

Reference: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
"""

from typing import Any

import numpy as np

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)

RUN, NETWORK, MEASUREMENT = range(3)
"""The domains of keys: see `gossamer.basics.keys`."""

FAULTS = 1 << 20
"""The first number of faults below the key of a network's round; JAX's own functions split that key into lower ones."""

BURSTS = 1 << 31
"""The first number of states of links below the key of a network, above those of all rounds."""


def encrypt(key: Any, high: Any, low: Any) -> tuple[Any, Any]:
    """Return the block of two words for a counter of two words under a key: arrays of NumPy or JAX."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    a, b = high + schedule[0], low + schedule[1]
    for step in range(5):
        for r in ROTATIONS[step % 2]:
            a = a + b
            b = ((b << np.uint32(r)) | (b >> np.uint32(32 - r))) ^ a
        a = a + schedule[(step + 1) % 3]
        b = b + schedule[(step + 2) % 3] + np.uint32(step + 1)
    return a, b
