"""Pytrees of parameters as one flat vector."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gossamer.basics.arrays import numbers
from gossamer.core import InputError, brief


def flattened(params: Any) -> tuple[np.ndarray, Callable[[Array], Any]]:
    """All numbers as one float64 vector, and the function that turns such a vector back into the pytree."""
    # Not ravel_pytree: it rounds to float32 unless x64 is on, and its inverse insists on the dtype that it was given.
    leaves, tree = jax.tree.flatten(params)
    if not leaves:
        raise InputError(f"params must be a pytree of arrays with a number at least, but is {brief(params)}.")
    leaves = [numbers("params", leaf) for leaf in leaves]
    shapes = [leaf.shape for leaf in leaves]
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]

    def unravel(x: Array) -> Any:
        pieces = zip(jnp.split(x, ends), shapes, strict=True)
        return jax.tree.unflatten(tree, [piece.reshape(shape) for piece, shape in pieces])

    return np.concatenate([leaf.ravel() for leaf in leaves]), unravel
