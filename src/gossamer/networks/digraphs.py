r"""Directed networks: links that go one way.

Weights from degrees cannot be doubly stochastic there, so each network has two matrices on the same links: $R$, whose
rows sum to 1, with which an agent pulls a mean of what it hears, and $C$, whose columns sum to 1, with which it pushes
all that it has in shares. Every agent keeps a share of its own, $r_{ii}, c_{ii} > 0$: without it the weights may only
send values round in a circle, and neither push-sum nor tracking converges.

Reference: S. Pu, W. Shi, J. Xu and A. Nedić, "Push-pull gradient methods for distributed optimization in networks",
2021, arXiv 1810.06653.
"""

import math
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from gossamer.core import InputError, Range, whole
from gossamer.networks import graphs
from gossamer.networks.mixers import Directed, Shifts, choose
from gossamer.networks.network import Network, call_name
from gossamer.networks.weights import (
    as_matrix,
    check_graph,
    check_weights,
    clean,
    find_links,
    join_links,
    size,
    worst_sum,
)


def directed(graph: nx.DiGraph, *, name: str | None = None) -> Network:
    r"""Take any strongly connected directed graph; an edge $j \to i$ means that $i$ hears $j$.

    $$ r_{ij} = \frac{1}{1 + d^{\text{in}}_i}, \qquad c_{ij} = \frac{1}{1 + d^{\text{out}}_j} $$

    Agents are in the order of ``graph.nodes``; self-loops are ignored.
    """
    heard = heard_links(graph)
    check_strongly_connected(heard, "network", list(graph.nodes))
    n = size(heard)
    return Network(name or call_name(graph.name or "directed", n), n, shares(heard))


def directed_ring(agents: int) -> Network:
    """Let each agent send to the next one."""
    n = whole("directed_ring(agents)", agents)
    offsets = ((0,), (1,)) if n > 1 else ((0,),)
    halves = Shifts((n,), offsets, np.full(len(offsets), 1 / len(offsets)))
    return Network(call_name("directed_ring", n), n, Directed(halves, halves))


def directed_erdos_renyi(agents: int, probability: float, seed: int = 0) -> Network:
    """Let each agent send to each other one with this probability. Redrawn until it is strongly connected."""
    where = "directed_erdos_renyi"
    n, seed = whole(f"{where}(agents)", agents), whole(f"{where}(seed)", seed, least=0)
    p = Range(0, 1, True, False, "It is the chance that an agent sends to another.").check(
        f"{where}(probability)", probability
    )
    graphs.refuse_large_graph(f"{where}({n:,}, {p:g})", n, p * n * (n - 1))

    def draw(key: int) -> sp.csr_array:
        graph = nx.fast_gnp_random_graph(n, max(p, graphs.LEAST), seed=key, directed=True)
        return sp.csr_array(graphs.adjacency(graph).T)

    def is_strong(links: sp.csr_array) -> bool:
        return csgraph.connected_components(links, connection="strong", return_labels=False) == 1

    least = math.log(n) / n
    way_out = f"The probability should be above ln(n)/n = {least:.4g}; twice that, {min(1.0, 2 * least):.4g}, is safe."
    heard = graphs.draw_until(is_strong, draw, seed, f"{where}({n}, {p:g}) gave no strongly connected graph", way_out)
    return Network(call_name(where, n, p, seed=seed), n, shares(heard))


def from_matrices(row: Any = None, column: Any = None, *, name: str | None = None) -> Network:
    """Take directed weights of your own: R (its rows sum to 1), C (its columns do), or both on the same links.

    The one that is left out gets equal shares on the links of the other. They are checked and copied; entries of at
    most 1e-12 are taken for rounding errors and dropped.
    """
    given = {line: W for line, W in (("row", row), ("column", column)) if W is not None}
    if not given:
        raise InputError("from_matrices needs row=R, column=C or both, but got neither.")
    checked = {line: _check_stochastic(W, line) for line, W in given.items()}
    if len(checked) == 2:
        _check_same_links(**checked)
    links = next(iter(checked.values()))
    n = size(links)
    heard = join_links(n, *find_links(links))
    check_strongly_connected(heard, "network")
    equal = shares(heard)
    mixers = {line: choose(checked[line]) if line in checked else getattr(equal, line) for line in ("row", "column")}
    return Network(name or call_name("matrices", n), n, Directed(**mixers))


def heard_links(graph: nx.DiGraph) -> sp.csr_array:
    """Return a matrix of who hears whom, without self-loops: entry [i, j] is 1 if there is an edge j → i."""
    check_graph(graph, directed=True)
    sources, targets = find_links(nx.to_scipy_sparse_array(graph, weight=None))  # pyright: ignore[reportArgumentType]  (the stubs lack None)
    return join_links(len(graph), targets, sources)


def shares(heard: sp.csr_array) -> Directed:
    """Return equal shares on these links: R by in-degrees, C by out-degrees."""
    everyone = sp.csr_array(heard + sp.eye_array(size(heard)))
    received, sent = (np.asarray(everyone.sum(axis=axis)).ravel() for axis in (1, 0))
    row, column = sp.diags_array(1 / received) @ everyone, everyone @ sp.diags_array(1 / sent)
    return Directed(choose(sp.csr_array(row)), choose(sp.csr_array(column)))


def check_strongly_connected(heard: sp.csr_array, what: str, names: list | None = None) -> None:
    """Raise InputError if one agent cannot reach another over these links."""
    n = size(heard)
    for forward, links in ((True, heard.T), (False, heard)):
        reached = csgraph.breadth_first_order(sp.csr_array(links), 0, return_predecessors=False)
        if len(reached) == n:
            continue
        missing = np.setdiff1d(np.arange(n), reached)
        other, first = (names[k] if names else int(k) for k in (missing[0], 0))
        source, target = (first, other) if forward else (other, first)
        count = f"{len(missing)} of {n} agents " + ("cannot be" if forward else f"cannot reach {target!r}")
        raise InputError(
            f"{what} must be strongly connected, but agent {target!r} cannot be reached from agent {source!r}; "
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


def _check_same_links(row: sp.csr_array, column: sp.csr_array) -> None:
    if row.shape != column.shape:
        raise InputError(f"row and column must have the same shape, but have {row.shape} and {column.shape}.")
    differ = sp.coo_array(row.astype(bool).astype(np.int8) - column.astype(bool).astype(np.int8))
    differ.eliminate_zeros()
    if differ.nnz:
        i, j = int(differ.row[0]), int(differ.col[0])
        has, lacks = ("row", "column") if differ.data[0] > 0 else ("column", "row")
        raise InputError(
            f"row and column must have the same links, but {has}[{i}, {j}] is not 0 while {lacks}[{i}, {j}] is. Leave "
            "one of them out for equal shares on the links of the other."
        )
