"""Random graphs as arrays of links, drawn all at once.

They are the graphs that networkx draws link by link from the same seed: `random.Random` and NumPy's `RandomState` are
the same generator, seeded alike by an array of one word.
"""

import math
from collections import Counter
from random import Random

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from gossamer.basics.lazy_scipy import csgraph

Ends = Int[np.ndarray, " links"]


def erdos_renyi_links(n: int, p: float, seed: int) -> tuple[Ends, Ends]:
    """Both ends of every link of ``networkx.fast_gnp_random_graph(n, p, seed)``: the higher one first."""
    return _ends(_chosen(n * (n - 1) // 2, p, np.random.RandomState([seed])))


def directed_erdos_renyi_links(n: int, p: float, seed: int) -> tuple[Ends, Ends]:
    """Where every link of the directed ``networkx.fast_gnp_random_graph(n, p, seed)`` begins, and where it ends."""
    random, pairs = np.random.RandomState([seed]), n * (n - 1) // 2
    forward, backward = (_ends(_chosen(pairs, p, random)) for _ in range(2))
    return np.append(forward[1], backward[0]), np.append(forward[0], backward[1])


def regular_links(n: int, degree: int, seed: int) -> tuple[Ends, Ends]:
    """Both ends of every link of ``networkx.random_regular_graph(degree, n, seed)``: the lower one first."""
    random = Random(seed)
    while (links := _paired(n, degree, random)) is None:
        pass
    return links // n, links % n


def geometric_links(n: int, radius: float, seed: int) -> tuple[Ends, Ends]:
    """Both ends of every link of ``networkx.random_geometric_graph(n, radius, seed=seed)``: the lower one first."""
    places = np.random.RandomState([seed]).random_sample((n, 2))
    from scipy.spatial import KDTree  # takes its time, and few need it

    links = KDTree(places).query_pairs(radius, output_type="ndarray")
    return links[:, 0], links[:, 1]


def _paired(n: int, degree: int, random: Random) -> Ends | None:
    """Stubs, `degree` of each agent, paired at random; those that would make a loop or a second link, once more. None
    where they cannot be paired any more. A link of agents a < b is the number a n + b.

    Reference: A. Steger and N. Wormald, "Generating random regular graphs quickly", 1999.
    """
    stubs, links = list(range(n)) * degree, np.zeros(0, np.int64)
    while stubs:
        random.shuffle(stubs)
        ends = np.sort(np.reshape(stubs, (-1, 2)), axis=1)
        named = ends[:, 0] * n + ends[:, 1]
        fresh = np.zeros(len(named), bool)
        fresh[np.unique(named, return_index=True)[1]] = True
        fresh &= (ends[:, 0] != ends[:, 1]) & ~np.isin(named, links)
        links = np.append(links, named[fresh])
        again = Counter(ends[~fresh].ravel().tolist())
        if again and not _can_pair(list(again), n, set(links.tolist())):
            return None
        stubs = list(again.elements())
    return links


def _can_pair(agents: list[int], n: int, links: set[int]) -> bool:
    """Whether two of these agents are not linked yet, as networkx looks for them, which may overlook some."""
    for a in agents:
        for b in agents:
            if a == b:
                break
            a, b = min(a, b), max(a, b)
            if a * n + b not in links:
                return True
    return False


def adjacency(n: int, rows: Ends, columns: Ends) -> sp.csr_array:
    """The matrix with a one at each of these places."""
    return sp.csr_array(sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n)))


def both_ways(links: sp.csr_array) -> sp.csr_array:
    """Links that go one way, in both."""
    return sp.csr_array(links + links.T)


def in_one_part(links: sp.csr_array, connection: str = "weak") -> bool:
    """Whether these links connect all agents, in both directions where the connection is "strong"."""
    return csgraph.connected_components(links, directed=True, connection=connection, return_labels=False) == 1


def _chosen(pairs: int, p: float, random: np.random.RandomState) -> Ends:
    """Which of the given number of pairs are linked, each with probability p. The distances between them are geometric.

    Reference: V. Batagelj and U. Brandes, "Efficient generation of large random networks", 2005.
    """
    if p >= 1 or not pairs:
        return np.arange(pairs)
    several = int(p * pairs + 6 * math.sqrt(p * pairs)) + 16
    chosen = np.zeros(0, np.int64)
    last = -1
    while last < pairs:
        before = random.get_state()
        # beyond the last pair it is all the same, and a sum of such distances must not overflow
        distances = np.minimum(np.log(1.0 - random.random_sample(several)) / math.log(1.0 - p), pairs).astype(np.int64)
        places = last + np.cumsum(distances + 1)
        beyond = int(np.searchsorted(places, pairs))
        if beyond < several:  # what comes next takes up where this draw of a distance left off
            random.set_state(before)
            random.random_sample(beyond + 1)
        chosen, last = np.append(chosen, places[:beyond]), int(places[min(beyond, several - 1)])
    return chosen


def _ends(pairs: Ends) -> tuple[Ends, Ends]:
    """The agents v > w of the pairs in the order (1, 0), (2, 0), (2, 1), (3, 0), …: pair v (v − 1) / 2 + w."""
    high = ((1 + np.sqrt(1.0 + 8.0 * pairs)) / 2).astype(np.int64)
    high -= high * (high - 1) // 2 > pairs  # the root is rounded
    high += high * (high + 1) // 2 <= pairs
    return high, pairs - high * (high - 1) // 2
