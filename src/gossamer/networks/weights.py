r"""Mixing weights for undirected graphs, and the checks that every mixing matrix must pass.

All schemes give a symmetric, doubly stochastic $W$ with $w_{ii} = 1 - \sum_{j \ne i} w_{ij}$, in the order of
``graph.nodes``; self-loops of the graph are ignored. A graph may also be its sparse adjacency matrix, which is faster
where agents are many.
"""

# In this room networkx, scipy.sparse.csgraph and scipy.sparse.linalg are imported by the functions that use them. They
# take 0.2 s, and a run on a network in closed form, such as a ring, calls none of these functions.
import math
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from gossamer.basics.arrays import check_sparse
from gossamer.core import InputError, MissingPackage, Range, brief, nearest

if TYPE_CHECKING:
    import networkx as nx

WHAT = "mixing matrix must be"
WAY_OUT = 'For an undirected graph use networks.from_graph(graph, weights="metropolis").'

ROUNDING = 1e-12
"""An entry of at most this size is a rounding error, not a link."""


def metropolis(graph: "nx.Graph | sp.csr_array") -> sp.csr_array:
    r"""Return $w_{ij} = 1 / (1 + \max(d_i, d_j))$: for any graph; an agent needs only its neighbours' degrees.

    Reference: L. Xiao, S. Boyd and S.-J. Kim, "Distributed average consensus with least-mean-square deviation", 2007.
    """
    rows, columns, degrees = _links(graph)
    return _complete(rows, columns, 1 / (1 + np.maximum(degrees[rows], degrees[columns])), len(degrees))


def max_degree(graph: "nx.Graph | sp.csr_array") -> sp.csr_array:
    r"""Return $w_{ij} = 1 / (1 + \max_k d_k)$: one weight for all links."""
    rows, columns, degrees = _links(graph)
    return _complete(rows, columns, np.full(len(rows), 1 / (1 + degrees.max())), len(degrees))


def lazy(graph: "nx.Graph | sp.csr_array") -> sp.csr_array:
    r"""Return $\tfrac12 (I + W)$ with $W$ of Metropolis: positive semidefinite, as some analyses ask."""
    return _halve(metropolis(graph))


LARGEST = 3000
"""The most agents of which all eigenvalues of the Laplacian are computed."""


def best_constant(graph: "nx.Graph | sp.csr_array") -> sp.csr_array:
    r"""Return $I - \frac{2}{\lambda_2 + \lambda_n} L$, with $L$ the graph's Laplacian: the best single weight of links.

    An agent's own weight may be negative, as that of a star's centre.

    Reference: L. Xiao and S. Boyd, "Fast linear iterations for distributed averaging", 2004,
    doi 10.1016/j.sysconle.2004.02.022.
    """
    rows, columns, degrees = _links(graph)
    n = len(degrees)
    if n > LARGEST:
        raise InputError(
            f"best-constant weights need all eigenvalues of the Laplacian, and {n:,} agents are more than {LARGEST:,}: "
            'take weights="metropolis".'
        )
    if not len(rows):
        return _complete(rows, columns, np.zeros(0), n)
    eigenvalues = np.linalg.eigvalsh(_laplacian(rows, columns, degrees))
    return _complete(rows, columns, np.full(len(rows), 2 / (eigenvalues[1] + eigenvalues[-1])), n)


def lazy_best_constant(graph: "nx.Graph | sp.csr_array") -> sp.csr_array:
    r"""Return $\tfrac12 (I + W)$ with $W$ of the best constant weight."""
    return _halve(best_constant(graph))


def _halve(matrix: sp.csr_array) -> sp.csr_array:
    return sp.csr_array((sp.eye_array(size(matrix), format="csr") + matrix) / 2)


LARGEST_PROGRAM = 60
"""The most agents of the semidefinite program for `fdla`: with 40 and 380 links it takes 3 s, with 80 agents 90 s."""


def fdla(graph: "nx.Graph | sp.csr_array") -> sp.csr_array:
    r"""Return the $W$ of least $\lVert W - J \rVert_2$: no symmetric weights on these links average faster (FDLA).

    Weights may be negative or 0. The best constant weight is taken where it is proven to be the fastest, as wherever an
    automorphism takes every link to every other (a ring, a star, a hypercube). Else a semidefinite program is solved,
    with Clarabel, for up to 60 agents. A torus needs a linear program only: see `gossamer.networks.graphs`.

    Reference: L. Xiao and S. Boyd, "Fast linear iterations for distributed averaging", 2004,
    doi 10.1016/j.sysconle.2004.02.022.
    """
    matrix = best_constant(graph)
    rows, columns, degrees = _links(graph)
    if len(rows) == 0 or _is_constant_fastest(rows, columns, degrees):
        return matrix
    if len(degrees) > LARGEST_PROGRAM:
        raise InputError(
            f"fdla weights of this graph take a semidefinite program, and {len(degrees):,} agents are more than "
            f'{LARGEST_PROGRAM}: take weights="best-constant".'
        )
    once = rows < columns
    i, j = rows[once], columns[once]
    weights = _fastest(i, j, len(degrees))
    return _complete(np.append(i, j), np.append(j, i), np.append(weights, weights), len(degrees))


def _is_constant_fastest(rows: np.ndarray, columns: np.ndarray, degrees: np.ndarray) -> bool:
    """Return True if a dual certificate shows that no weights average faster than the best constant one.

    With E the projector on the eigenvectors of λ₂ and E′ on those of λ_n, αE and βE′ are optimal multipliers of the
    program of `_fastest` if (e_i − e_j)ᵀ(αE − βE′)(e_i − e_j) = 0 on every link: so if both terms are alike on all.
    """
    eigenvalues, vectors = np.linalg.eigh(_laplacian(rows, columns, degrees))
    for extreme in (eigenvalues[1], eigenvalues[-1]):
        basis = vectors[:, np.isclose(eigenvalues, extreme, rtol=1e-9)]
        on_links = ((basis[rows] - basis[columns]) ** 2).sum(1)
        if np.ptp(on_links) > 1e-9 * on_links.max():
            return False
    return True


def _fastest(i: np.ndarray, j: np.ndarray, n: int) -> np.ndarray:
    r"""Return the weights w of the links i–j of least s with $-sI \preceq W \preceq sI$ on vectors that sum to 0.

    $W = I - \sum_k w_k a_k a_k^\top$ with $a_k = e_i - e_j$, in an orthonormal basis of these vectors.
    """
    try:
        import clarabel
    except ImportError:
        raise MissingPackage.of(
            'weights="fdla" of this graph', "clarabel", "or in a clone of Gossamer: pip install -e '.[proofs]'"
        ) from None

    basis = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
    across = basis[i] - basis[j]
    rows, columns = np.tril_indices(n - 1)  # Clarabel has the upper triangle column by column, scaled
    scale = np.where(rows == columns, 1.0, math.sqrt(2))
    parts = (across[:, rows] * across[:, columns]).T * scale[:, None]
    one = (rows == columns).astype(float)
    A = np.block([[-one[:, None], -parts], [-one[:, None], parts]])
    solver: Any = clarabel  # which has no types
    options = solver.DefaultSettings()
    # one thread: the number of cores moved last bits, and with them whole runs that quantise
    options.verbose, options.direct_solve_method, options.max_threads = False, "faer", 1
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-9
    size, cones = len(i) + 1, [solver.PSDTriangleConeT(n - 1)] * 2
    cost, free = np.eye(size)[0], sp.csc_matrix((size, size))
    found = solver.DefaultSolver(free, cost, sp.csc_matrix(A), np.append(-one, one), cones, options).solve()
    if str(found.status) not in ("Solved", "AlmostSolved"):
        raise InputError(f'fdla weights were not found ({found.status}): take weights="best-constant".')
    return np.array(found.x)[1:]


WEIGHTS: dict[str, Callable[[Any], sp.csr_array]] = {
    "metropolis": metropolis,
    "max-degree": max_degree,
    "lazy": lazy,
    "best-constant": best_constant,
    "lazy-best-constant": lazy_best_constant,
    "fdla": fdla,
}
"""The weight schemes by name."""


def scheme(name: str) -> Callable[[Any], sp.csr_array]:
    """Return the weight scheme of this name."""
    if not isinstance(name, str) or name not in WEIGHTS:
        raise InputError(f"weights={brief(name)} is not a weight scheme; {nearest(name, WEIGHTS)}")
    return WEIGHTS[name]


def is_graph(given: Any) -> bool:
    """Return True if this is a networkx graph, which nobody can have without networkx."""
    return "networkx" in sys.modules and isinstance(given, sys.modules["networkx"].Graph)


def adjacency(graph: Any, nodes: list | None = None, directed: bool = False) -> sp.csr_array:
    """Return the adjacency matrix of a simple networkx graph, in the order of `nodes` or of its own.

    Raise InputError unless it has a node, and is directed or not as it should be.
    """
    kind = "DiGraph" if directed else "Graph"
    if not is_graph(graph) or (directed and not graph.is_directed()):
        other = "from_graph(graph) for an undirected graph, and networks.from_matrices(row=R, column=C)"
        raise InputError(
            f"graph must be a networkx.{kind}, but is {type(graph).__name__}. Use networks."
            f"{other if directed else 'from_matrix(W)'} for weights of your own."
        )
    if graph.is_directed() and not directed:
        raise InputError(
            "graph must be undirected, but is directed: weights from degrees are not doubly stochastic there. Use "
            "graph.to_undirected(), or give doubly stochastic weights of your own to networks.from_matrix(W)."
        )
    if graph.is_multigraph():
        raise InputError(
            f"graph must be simple, but is a multigraph. Merge parallel edges with networkx.{kind}(graph)."
        )
    if graph.number_of_nodes() == 0:
        raise InputError("graph must have at least one node, but has none. Each node is an agent.")
    import networkx as nx

    return sp.csr_array(nx.to_scipy_sparse_array(graph, nodes, weight=None, dtype=np.float64))  # pyright: ignore


def size(matrix: sp.csr_array) -> int:
    """Return the number of agents of a square matrix."""
    return len(matrix.indptr) - 1


def find_links(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and the columns of all entries off the diagonal: who hears whom."""
    entries = sp.coo_array(matrix)
    apart = entries.row != entries.col
    return entries.row[apart], entries.col[apart]


def join_links(n: int, rows: np.ndarray, columns: np.ndarray) -> sp.csr_array:
    """Return the adjacency matrix of these links."""
    return sp.csr_array(sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n)))


def join_both_ways(n: int, a: np.ndarray, b: np.ndarray) -> sp.csr_array:
    """Return the adjacency matrix of these links, in both directions."""
    return join_links(n, np.append(a, b), np.append(b, a))


def as_matrix(matrix: Any) -> Any:
    """Return what was given as a NumPy or a SciPy matrix."""
    if sp.issparse(matrix):
        return check_sparse(matrix, "mixing matrix") if matrix.ndim == 2 else matrix
    try:
        return np.asarray(matrix)
    except ValueError:
        raise InputError("mixing matrix must be square, but its rows differ in length.") from None


def clean(matrix: Any) -> sp.csr_array:
    """Return a sparse copy without entries that are rounding errors."""
    copy = sp.csr_array(matrix, dtype=np.float64, copy=True)  # the user may change the original later
    copy.sum_duplicates()
    copy.data[np.abs(copy.data) <= ROUNDING] = 0
    copy.eliminate_zeros()
    return copy


def check_weights(matrix: Any, what: str, way_out: str) -> sp.coo_array:
    """Return the entries of a matrix; raise InputError unless it is square, real, finite and non-negative."""
    shape = matrix.shape
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise InputError(f"{what} square, one row and one column an agent, but has shape {tuple(shape)}. {way_out}")
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"{what} real numbers, but has dtype {matrix.dtype}. {way_out}")
    entries = sp.coo_array(matrix)
    # sums and products of weights leave tiny negative numbers, which are no links
    for bad, problem in ((~np.isfinite(entries.data), "finite"), (entries.data < -ROUNDING, "non-negative")):
        if bad.any():
            k = int(np.flatnonzero(bad)[0])
            place = f"[{entries.row[k]}, {entries.col[k]}]"
            raise InputError(f"{what} {problem}, but entry {place} is {entries.data[k]:.6g}. {way_out}")
    return entries


def worst_sum(entries: sp.coo_array, line: str) -> tuple[int, float]:
    """Return the row or column whose sum is furthest from 1, and that sum."""
    sums = np.asarray(entries.sum(axis=1 if line == "row" else 0)).ravel()
    worst = int(np.abs(sums - 1).argmax())
    return worst, float(sums[worst])


def check_doubly_stochastic(matrix: Any, tolerance: float = 1e-8) -> None:
    """Raise InputError unless the matrix is square, finite and non-negative with row and column sums of 1."""
    tolerance = Range(0, 1, False, False, "It is how far a sum may be from 1.").check("tolerance", tolerance)
    entries, way_out = check_weights(as_matrix(matrix), WHAT, WAY_OUT), WAY_OUT
    worst = {line: worst_sum(entries, line) for line in ("row", "column")}
    wrong = [line for line, (_, total) in worst.items() if abs(total - 1) > tolerance]
    if not wrong:
        return
    if len(wrong) == 1:
        # weights of a directed graph, most likely, which have a function of their own
        right = "column" if wrong == ["row"] else "row"
        way_out = (
            f"It is {right}-stochastic: give it to networks.from_matrices({right}=W), with a rule for directed graphs, "
            f"such as push-pull-dmt. {way_out}"
        )
    line, total = worst[wrong[0]]
    raise InputError(
        f"{WHAT} doubly stochastic, but {wrong[0]} {line} sums to {total:.10g} (tolerance {tolerance:g}). {way_out}"
    )


def check_connected(matrix: Any) -> None:
    """Raise InputError if the matrix leaves agents apart, or only swaps them and so never averages (ρ = 0)."""
    links = sp.csr_array(check_weights(as_matrix(matrix), WHAT, WAY_OUT))
    check_one_part(links, "network")
    check_averages(links)


def check_one_part(matrix: sp.csr_array, what: str, names: Sequence | None = None) -> None:
    """Raise InputError if the matrix leaves agents apart."""
    from scipy.sparse import csgraph

    n = size(matrix)
    links = abs(sp.csr_array(matrix)) > ROUNDING
    count, label = csgraph.connected_components(links, directed=False)
    if count > 1:
        sizes = np.bincount(label)
        # the smallest part is named, as it is most likely the mistake, with a link to the largest
        members = np.flatnonzero(label == sizes.argmin())
        shown = ", ".join(str(names[i] if names else i) for i in members[:5]) + (", …" if len(members) > 5 else "")
        other = np.flatnonzero(label == sizes.argmax() if sizes.min() < sizes.max() else label != label[members[0]])[0]
        pair = f"{names[members[0]] if names else members[0]}–{names[other] if names else other}"
        raise InputError(
            f"{what} must be connected, but falls into {count} components; the smallest has {len(members)} of {n} "
            f"agents: {shown}. Add a link between components, such as {pair}, or keep the largest component only."
        )


def check_averages(matrix: sp.csr_array) -> None:
    """Raise InputError if the matrix only moves values about (ρ = 0)."""
    if only_moves(sp.csr_array(abs(sp.csr_array(matrix)) > ROUNDING)):
        raise InputError(
            "mixing matrix must average, but its spectral gap is ρ = 0: it only moves values between groups of agents "
            'and back. Use the lazy matrix ½(I + W), or weights="lazy".'
        )


def only_moves(matrix: sp.csr_array) -> bool:
    """Return True if ρ = 0: the bipartite graph of rows and columns falls apart, so that WᵀW is reducible."""
    from scipy.sparse import csgraph

    n, entries = size(matrix), sp.coo_array(matrix)
    cover = sp.coo_array((np.ones(entries.nnz), (entries.row, entries.col + n)), shape=(2 * n, 2 * n))
    return csgraph.connected_components(cover, directed=False, return_labels=False) > 1


def _links(graph: "nx.Graph | sp.csr_array") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return both ends of every link, in both directions and without self-loops, and all degrees."""
    links = check_sparse(graph, "graph") if sp.issparse(graph) else adjacency(graph)
    rows, columns = find_links(links)
    return rows, columns, np.bincount(rows, minlength=size(links))


def _laplacian(rows: np.ndarray, columns: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    laplacian = np.diag(degrees.astype(float))
    laplacian[rows, columns] = -1
    return laplacian


def _complete(rows: np.ndarray, columns: np.ndarray, weights: np.ndarray, n: int) -> sp.csr_array:
    """Return the matrix with these off-diagonal weights and the diagonal that makes rows sum to 1."""
    kept = 1 - np.bincount(rows, weights, minlength=n)
    everyone = np.arange(n)
    data = np.concatenate([weights, kept])
    places = np.concatenate([rows, everyone]), np.concatenate([columns, everyone])
    return sp.csr_array(sp.coo_array((data, places), shape=(n, n)))
