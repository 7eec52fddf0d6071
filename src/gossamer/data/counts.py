"""How many rows of each class every agent gets: the integer matrices behind the random splits."""

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

Totals = Int[np.ndarray, " classes"]
Room = Int[np.ndarray, " agents"]
Counts = Int[np.ndarray, "agents classes"]

DEALINGS = 50  # a dealing that falls apart into groups rarely allows equal sizes, so others are tried


def apportion(total: int, weights: np.ndarray) -> np.ndarray:
    """Whole numbers in proportion to the weights, with this total: the largest fractions are rounded up."""
    exact = weights * (total / weights.sum())
    whole = np.floor(exact).astype(int)
    largest = np.argsort(whole - exact, kind="stable")
    whole[largest[: total - whole.sum()]] += 1
    return whole


def dirichlet_counts(
    totals: Totals, agents: int, concentration: float, room: Room | None, rng: np.random.Generator
) -> Counts:
    """Each class spread by Dirichlet shares; with `room`, agents' sizes are exactly that."""
    from scipy.special import logsumexp  # slow to import, so only when needed

    alpha = np.clip(concentration, 1e-100, 1e100)  # beyond, the draws are one-hot or even in float64 anyhow
    shape = (agents, totals.size)
    # Dirichlet shares are gamma variables over their sum; logarithms, as most are below 1e-308 when alpha is small
    gammas = np.log(rng.gamma(alpha + 1, size=shape)) - rng.exponential(size=shape) / alpha
    shares = gammas - logsumexp(gammas, axis=0)
    if room is not None:
        return _filled(shares + np.log(totals), totals, room)
    cuts = np.rint(np.cumsum(np.exp(shares), axis=0) * totals).astype(int)
    cuts[-1] = totals  # a sum of shares may miss 1 by rounding
    return np.diff(cuts, axis=0, prepend=0)


def _filled(log_wishes: Float[np.ndarray, "agents classes"], totals: Totals, room: Room) -> Counts:
    """Rows in proportion to each agent's wishes, as far as classes last. Each pass fills all or uses up a class."""
    from scipy.special import softmax

    counts = np.zeros(log_wishes.shape, int)
    while (room > counts.sum(1)).any():
        left = totals - counts.sum(0)
        wishes = softmax(np.where(left > 0, log_wishes, -np.inf), axis=1)
        asked = np.stack([apportion(missing, wishes[a]) for a, missing in enumerate(room - counts.sum(1))])
        for label in np.flatnonzero(asked.sum(0) > left):
            asked[:, label] = apportion(left[label], asked[:, label])
        counts += asked
    return counts


def dealt_counts(
    totals: Totals, agents: int, labels_each: int, room: Room | None, rng: np.random.Generator
) -> Counts | None:
    """`labels_each` labels dealt to each agent; with `room`, agents' sizes are exactly that, or None if none fits."""
    places = np.ones(totals.size, int)
    for _ in range(agents * labels_each - totals.size):
        places[np.argmax(np.where(places < agents, totals / places, -1))] += 1
    if room is None:
        return _even(_dealt(places, agents, labels_each, rng), totals)
    for _ in range(DEALINGS):
        held = _dealt(places, agents, labels_each, rng)
        counts = _levelled(held, _even(held, totals), totals, room)
        if counts is not None:
            return counts
    return None


def _dealt(places: Totals, agents: int, labels_each: int, rng: np.random.Generator) -> np.ndarray:
    """Who holds which label. Taking labels with the most places left never gets stuck (Gale and Ryser)."""
    held = np.zeros((agents, places.size), bool)
    left = places.copy()
    for agent in rng.permutation(agents):
        taken = np.lexsort((rng.random(left.size), -left))[:labels_each]
        held[agent, taken] = True
        left[taken] -= 1
    return held


def _even(held: np.ndarray, totals: Totals) -> Counts:
    return np.stack([apportion(total, held[:, label]) for label, total in enumerate(totals)], axis=1)


def _levelled(held: np.ndarray, even: Counts, totals: Totals, room: Room) -> Counts | None:
    """The counts nearest to `even`, in rows moved, with these sums. A transport problem, so its vertices are whole."""
    agent, label = np.nonzero(held)
    size = agent.size
    ones, column = np.ones(size), np.arange(size)
    sums = scipy.sparse.csr_array(
        (np.r_[ones, ones], (np.r_[agent, held.shape[0] + label], np.r_[column, column])),
        shape=(sum(held.shape), size),
    )
    start = even[agent, label]
    spare = np.maximum(start - 1, 0)  # nobody loses a label
    from scipy.optimize import linprog  # half a second to import, so only when needed

    answer = linprog(
        np.ones(2 * size),
        A_eq=scipy.sparse.hstack([sums, -sums]),
        b_eq=np.r_[room, totals] - sums @ start,
        bounds=np.c_[np.zeros(2 * size), np.r_[np.full(size, np.inf), spare]],
        method="highs-ds",
    )
    if not answer.success:
        return None
    counts = np.zeros_like(even)
    counts[agent, label] = start + np.rint(answer.x[:size] - answer.x[size:]).astype(int)
    exact = (counts.sum(1) == room).all() and (counts.sum(0) == totals).all()
    return counts if exact else None
