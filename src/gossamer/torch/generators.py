"""The random generators that a training script may draw from: PyTorch's, NumPy's and Python's."""

import random
from typing import Any

import numpy as np
import torch


def states() -> dict[str, Any]:
    """Where all of them stand, as ``weights_only`` can read it."""
    kind, words, place, has_normal, normal = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "python": random.getstate(),
        "numpy": [kind, torch.from_numpy(np.asarray(words, np.int64)), place, has_normal, normal],
    }


def restore(states: dict[str, Any]) -> None:
    """Put all of them where they stood."""
    torch.set_rng_state(states["torch"])
    if states["cuda"]:
        torch.cuda.set_rng_state_all(states["cuda"])
    random.setstate(states["python"])
    kind, words, place, has_normal, normal = states["numpy"]
    np.random.set_state((kind, words.numpy().astype(np.uint32), place, has_normal, normal))
