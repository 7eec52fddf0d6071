"""How far agents are from each other, in links."""

import numpy as np
import scipy.sparse as sp

from gossamer.basics.lazy_scipy import csgraph
from gossamer.networks.spectrum import size

SEARCHES = 32
"""From how many agents all others are searched before all are at once."""

BYTES = 64_000_000
"""How much one level of a search from all agents may take at a time."""


def diameter(links: sp.csr_array, alike: bool) -> int:
    """The longest of all shortest paths. Row i holds whom i sends to; all reach each other.

    Where agents are `alike`, from one of them. Where links go both ways, a path from an agent to its furthest bounds
    those from all others, by which few searches suffice on long thin graphs; where they do not, all agents search at
    once, which takes few levels.

    Reference: F. Takes and W. Kosters, "Determining the diameter of small world networks", 2011.
    """
    n = size(links)
    if alike or n == 1:
        return int(_distances(links, 0).max())
    if (links != links.T).nnz:
        return _all_at_once(links)
    links = _without_twins(links)
    n = size(links)
    if n == 1:
        return 1  # all were twins: a complete graph
    low, high, longest = np.zeros(n), np.full(n, np.inf), 0.0
    for search in range(SEARCHES):
        may = np.flatnonzero(high > longest)  # who may have a longer path than any so far
        if not len(may):
            return int(longest)
        agent = may[low[may].argmin() if search % 2 else high[may].argmax()]
        distance = _distances(links, int(agent))
        furthest = distance.max()
        low, high = np.maximum(low, np.maximum(furthest - distance, distance)), np.minimum(high, furthest + distance)
        longest = max(longest, furthest)
    return _all_at_once(links)


def _without_twins(links: sp.csr_array) -> sp.csr_array:
    """The same without agents that have the same neighbours as one they are linked to, as in a clique."""
    numbers = np.random.default_rng(0).integers(2**62, size=size(links))
    seen = sp.csr_array(links + sp.eye_array(size(links))).astype(np.int64) @ numbers  # the sum tells who is seen
    kept = np.sort(np.unique(seen, return_index=True)[1])
    return sp.csr_array(links[kept][:, kept])


def _distances(links: sp.csr_array, agent: int) -> np.ndarray:
    return np.asarray(csgraph.dijkstra(links, indices=agent, unweighted=True))


def _all_at_once(links: sp.csr_array) -> int:
    """Level by level: who is reached is a bit, and an agent reaches what those reach that it sends to."""
    n = size(links)
    hears = sp.csr_array(links + sp.eye_array(n))
    block = 64 * max(1, BYTES // (8 * hears.nnz))
    longest = 0
    for first in range(0, n, block):
        mark = np.zeros((n, -(-min(block, n - first) // 64) * 64), bool)
        mark[range(first, min(first + block, n)), range(min(block, n - first))] = True
        reached, level = np.packbits(mark, axis=1).view(np.uint64), 0
        whole = np.packbits(mark.any(axis=0)).view(np.uint64)
        while (reached != whole).any():
            reached, level = np.bitwise_or.reduceat(reached[hears.indices], hears.indptr[:-1], axis=0), level + 1
        longest = max(longest, level)
    return longest
