r"""Directed networks: links that go one way.

Weights from degrees cannot be doubly stochastic there, so each network has two matrices on the same links: $R$, whose
rows sum to 1, with which an agent pulls a mean of what it hears, and $C$, whose columns sum to 1, with which it pushes
all that it has in shares. Every agent keeps a share of its own, $r_{ii}, c_{ii} > 0$: without it the weights may only
send values round in a circle, and neither push-sum nor tracking converges.

Reference: S. Pu, W. Shi, J. Xu and A. Nedić, "Push-pull gradient methods for distributed optimization in networks",
2021, arXiv 1810.06653.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from gossamer.core import InputError, whole
from gossamer.networks.graphs import arrange, draw_pairs
from gossamer.networks.mixers import Directed, Shifts, choose
from gossamer.networks.network import Network, call_name
from gossamer.networks.weights import (
    adjacency,
    as_matrix,
    check_weights,
    clean,
    find_links,
    join_links,
    size,
    worst_sum,
)

if TYPE_CHECKING:
    import networkx as nx


def directed(graph: "nx.DiGraph", *, nodes: Sequence[str] | None = None, name: str | None = None) -> Network:
    r"""Take any strongly connected directed graph; an edge $j \to i$ means that $i$ hears $j$.

    $$ r_{ij} = \frac{1}{1 + d^{\text{in}}_i}, \qquad c_{ij} = \frac{1}{1 + d^{\text{out}}_j} $$

    Agents are in the order of `nodes`, names such as `problem.agent_names`, or else of ``graph.nodes``; self-loops
    are ignored.
    """
    heard, names = heard_links(graph), tuple(map(str, graph.nodes))
    return arrange(from_heard(heard, name or call_name(graph.name or "directed", len(graph)), names), nodes)


def from_heard(heard: sp.csr_array, name: str, names: tuple[str, ...] | None = None) -> Network:
    """Return the network of these links, with equal shares; raise InputError unless they reach everyone."""
    check_strongly_connected(heard, "network", names)
    return Network(name, size(heard), shares(heard), names=names)


def directed_ring(agents: int) -> Network:
    """Let each agent send to the next one."""
    n = whole("directed_ring(agents)", agents)
    offsets = ((0,), (1,)) if n > 1 else ((0,),)
    halves = Shifts((n,), offsets, np.full(len(offsets), 1 / len(offsets)))
    return Network(call_name("directed_ring", n), n, Directed(halves, halves))


def directed_erdos_renyi(agents: int, probability: float, seed: int = 0) -> Network:
    """Let each agent send to each other one with this probability. Redrawn until it is strongly connected."""
    n, p, seed, sends = draw_pairs("directed_erdos_renyi", agents, probability, seed, directed=True)
    return Network(call_name("directed_erdos_renyi", n, p, seed=seed), n, shares(sp.csr_array(sends.T)))


def from_matrices(row: Any = None, column: Any = None, *, name: str | None = None) -> Network:
    """Take directed weights of your own: R (its rows sum to 1), C (its columns do), or both on the same links.

    The one that is left out gets equal shares on the links of the other. They are checked and copied; entries of at
    most 1e-12 are taken for rounding errors and dropped.
    """
    R = None if row is None else _check_stochastic(row, "row")
    C = None if column is None else _check_stochastic(column, "column")
    if R is not None and C is not None:
        if R.shape != C.shape:
            raise InputError(f"row and column must have the same shape, but have {R.shape} and {C.shape}.")
        i, j = find_links(R.astype(bool) != C.astype(bool))
        if len(i):
            raise InputError(
                f"row and column must have the same links, but only one of row[{i[0]}, {j[0]}] and "
                f"column[{i[0]}, {j[0]}] is 0. Leave one of them out for equal shares on the links of the other."
            )
    known = C if R is None else R
    if known is None:
        raise InputError("from_matrices needs row=R, column=C or both, but got neither.")
    n = size(known)
    heard = join_links(n, *find_links(known))
    check_strongly_connected(heard, "network")
    equal = shares(heard)
    weights = Directed(equal.row if R is None else choose(R), equal.column if C is None else choose(C))
    return Network(name or call_name("matrices", n), n, weights)


def heard_links(graph: "nx.DiGraph", nodes: list | None = None) -> sp.csr_array:
    """Return a matrix of who hears whom, without self-loops: entry [i, j] is 1 if there is an edge j → i."""
    sources, targets = find_links(adjacency(graph, nodes, directed=True))
    return join_links(len(graph), targets, sources)


def shares(heard: sp.csr_array) -> Directed:
    """Return equal shares on these links: R by in-degrees, C by out-degrees."""
    # an agent keeps a share of its own, so that it counts in both of its degrees
    everyone = sp.csr_array(heard + sp.eye_array(size(heard)))
    received, sent = (np.asarray(everyone.sum(axis=axis)).ravel() for axis in (1, 0))
    row, column = sp.diags_array(1 / received) @ everyone, everyone @ sp.diags_array(1 / sent)
    return Directed(choose(sp.csr_array(row)), choose(sp.csr_array(column)))


def check_strongly_connected(heard: sp.csr_array, what: str, names: Sequence | None = None) -> None:
    """Raise InputError if one agent cannot reach another over these links."""
    from scipy.sparse import csgraph

    n = size(heard)
    # everyone reaches everyone if agent 0 reaches all and all reach agent 0
    for forward, links in ((True, heard.T), (False, heard)):
        reached = csgraph.breadth_first_order(sp.csr_array(links), 0, return_predecessors=False)
        if len(reached) == n:
            continue
        missing = np.setdiff1d(np.arange(n), reached)
        other, first = (names[k] if names else int(k) for k in (missing[0], 0))
        source, target = (first, other) if forward else (other, first)
        count = f"{len(missing)} of {n} agents " + ("cannot be" if forward else f"cannot reach {target}")
        raise InputError(
            f"{what} must be strongly connected, but agent {target} cannot be reached from agent {source}; "
            f"{count}. Add a link such as {source} → {target}, or keep the largest strongly connected component only."
        )


def _check_stochastic(matrix: Any, line: str) -> sp.csr_array:
    """Return this matrix, clean; raise InputError unless its lines sum to 1 and its diagonal is positive."""
    what = f"from_matrices({line}=…) must be"
    matrix = as_matrix(matrix)
    entries = check_weights(matrix, what, "For equal shares on a directed graph use networks.directed(graph).")
    worst, total = worst_sum(entries, line)
    if abs(total - 1) > 1e-8:
        hint = f"Divide each {line} by its sum."
        other = "column" if line == "row" else "row"
        if abs(worst_sum(entries, other)[1] - 1) <= 1e-8:
            hint = f"Its {other}s sum to 1: give it as {other}=."
        raise InputError(f"{what} {line}-stochastic, but {line} {worst} sums to {total:.10g} (tolerance 1e-08). {hint}")
    copy = clean(matrix)
    own = copy.diagonal()
    if own.min() == 0:
        k = int(own.argmin())
        raise InputError(
            f"{what} positive on the diagonal, but entry [{k}, {k}] is 0: without a share of its own for every agent, "
            "values may go round in a circle, and push-sum and tracking do not converge. Use ½(I + W)."
        )
    return copy
