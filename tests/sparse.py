"""Sparse matrices drawn at random, by a way that all versions of SciPy have."""

import math

import scipy.sparse as sp


def drawn(shape, density, draw):
    """So dense a matrix of numbers in (0, 1); two that fall on one place become one."""
    count = round(math.prod(shape) * density)
    places = draw.integers(0, shape[0], count), draw.integers(0, shape[1], count)
    return sp.csr_array(sp.coo_array((1 - draw.random(count), places), shape=shape))
