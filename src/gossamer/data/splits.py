"""Splits of the training rows over agents: no row is held twice."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

from gossamer.basics.arrays import array_of
from gossamer.core import InputError, Range, brief, nearest, whole
from gossamer.data.dataset import Dataset

Rows = Int[np.ndarray, " rows"]
Totals = Int[np.ndarray, " classes"]
Room = Int[np.ndarray, " agents"]
Counts = Int[np.ndarray, "agents classes"]

SPLITS = {
    "by-label": "rows sorted by label and cut into consecutive parts: as different as agents can be",
    "iid": "rows shuffled and cut into parts: agents are alike",
    "mixed:S": "a random share S of the rows is sorted by label and cut, the rest is dealt at random: from `iid` at "
    "S = 0 to `by-label` at S = 1",
    "dirichlet:A": "each class is spread over the agents by Dirichlet(A) shares: the smaller A, the more they differ, "
    "but with equal sizes it soon makes no difference, far from `by-label`: for a scale use `mixed:S`",
    "labels:K": "each agent holds rows of K labels",
    "column:NAME": "each value of a table's column NAME is one agent",
}
"""The forms of `how`, each with a line about it."""

SIZES = {
    "equal": "agents' sizes differ by one row at most",
    "as-they-fall": "sizes are whatever the draw gives",
}

DEALINGS = 50  # a dealing that falls apart into groups rarely allows equal sizes, so others are tried

SHARE = Range(0, 1, advice="It is the share of the rows that are sorted by label: 0 is `iid`, 1 is `by-label`.")
CONCENTRATION = Range(0, math.inf, True, True, "0.1 is far from even, 10 is close to even.")

WAYS_OUT = {
    "iid": 'use fewer agents, or sizes="equal"',
    "mixed": 'use fewer agents, or sizes="equal"',
    "dirichlet": 'use a larger A, fewer agents, or sizes="equal"',
    "labels": 'use another K, fewer agents, or sizes="equal"',
}


def split(
    dataset: Dataset,
    agents: int | None,
    how: str | Sequence[Any] = "by-label",
    *,
    sizes: str = "equal",
    seed: int = 0,
) -> tuple[Rows, ...]:
    r"""Return the rows of each agent, ascending. No row is in two of the arrays, and every row is in one by all forms:

    - ``by-label``: a stable sort by label, cut into consecutive parts. Always equal sizes. Of real labels, the targets
      of a regression, each agent so gets a range.
    - ``iid``: a shuffle, cut into parts. As they fall: each row's agent is drawn uniformly.
    - ``mixed:S``: the first share S of a shuffle, in [0, 1], is sorted by label and cut into equal parts; the rest
      fills up the agents in the order of the shuffle. As they fall: the agent of each row of the rest is drawn
      uniformly. S = 0 is `iid` with the same seed, S = 1 is `by-label`; between, local gradients differ in proportion
      to S, and the heterogeneity $\zeta^2$ grows as $S^2$.
    - ``dirichlet:A``: for each class c, shares $p_c$ of the agents from Dirichlet(A). As they fall: class c is cut in
      these shares. Equal sizes: agent a has room for its part of all rows and wants classes in proportion to
      $n_c p_{c,a}$. All agents ask at once for what fills their room; a class that cannot serve all is shared out in
      proportion to what was asked, and agents ask again among the classes that have rows left, until all are full.
      So a frequent class fills most agents however small A is: below some A the agents differ no more.
    - ``labels:K``: labels get places in proportion to their rows, at least one and at most one for each agent, and K
      places with different labels are dealt to each agent. As they fall: a label's rows are cut evenly over its
      places. Equal sizes: the cuts move as little as possible, in rows, so that all agents have the same size and
      none loses a label; where no dealing allows that, it is an error. This split and the last need classes, and
      refuse real labels.
    - ``column:NAME``: the rows of each value of `dataset.holders`, sorted by value. Sizes are always as they fall,
      and `agents` may be None.

    Or `how` is a list with the row numbers of each agent, from 0, such as partitions that another library made. Rows
    that it leaves out are used by nobody; `sizes` and `seed` do nothing, and `agents` may be None.
    """
    if isinstance(how, (list, tuple)):
        return _by_rows(dataset, agents, how)
    form, colon, setting = how.partition(":") if isinstance(how, str) else ("", "", "")
    settings = {key.partition(":")[0]: ":" in key for key in SPLITS}
    if not isinstance(how, str) or settings.get(form) != bool(setting) or bool(colon) != bool(setting):
        raise InputError(f"unknown split {brief(how)}: {nearest(how, SPLITS)}")
    if not isinstance(sizes, str) or sizes not in SIZES:
        raise InputError(f"unknown sizes {brief(sizes)}: {nearest(sizes, SIZES)}")
    rng = np.random.default_rng(whole("the seed of a split", seed, least=0, most=2**64))
    if form == "column":
        return _by_holder(dataset, agents, setting)
    agents = whole("the number of agents", agents, advice="Each needs a row of its own.")
    if agents > dataset.rows:
        raise InputError(
            f"{agents} agents cannot share {dataset.rows} rows: that is {agents - dataset.rows} more than there are "
            f"rows. Use at most {dataset.rows} agents."
        )
    if form == "by-label":
        return _cut(np.argsort(dataset.labels, kind="stable"), agents)
    if form == "iid":
        if sizes == "equal":
            return _cut(rng.permutation(dataset.rows), agents)
        return _check_parts(_groups(rng.integers(agents, size=dataset.rows), agents), how, form)
    if form == "mixed":
        share = SHARE.check(f"S in {how!r}", _number(setting))
        return _check_parts(_mix(dataset.labels, agents, share, sizes, rng), how, form)
    if dataset.continuous:
        raise InputError(
            f"{how} deals out classes, but the labels of {dataset.name} are {len(dataset.classes):,} different numbers "
            f"in {dataset.rows:,} rows. Use by-label or mixed:S, which sort by them, iid, or column:NAME."
        )
    _, codes, totals = np.unique(dataset.labels, return_inverse=True, return_counts=True)
    room = apportion(dataset.rows, np.ones(agents)) if sizes == "equal" else None
    if form == "dirichlet":
        concentration = CONCENTRATION.check(f"A in {how!r}", _number(setting))
        counts = dirichlet_counts(totals, agents, concentration, room, rng)
    else:
        each = int(setting) if setting.isascii() and setting.isdecimal() else setting
        each = whole(f"K in {brief(how)}, the labels of an agent,", each, most=totals.size)
        if agents * each < totals.size:
            raise InputError(
                f"{how} over {agents} agents holds at most {agents * each} labels, but there are {totals.size}. Use K "
                f"of at least {-(-totals.size // agents)}, or more agents."
            )
        counts = deal_counts(totals, agents, each, room, rng)
        if counts is None:
            raise InputError(
                f'no dealing of {how} over {agents} agents with sizes="equal" was found on {dataset.name}: its '
                f"{totals.size} labels have {totals.min()} to {totals.max()} rows. Use a larger K, or "
                'sizes="as-they-fall".'
            )
    return _check_parts(_draw(counts, codes, rng), how, form)


def _number(setting: str) -> float:
    try:
        return float(setting)
    except ValueError:
        return math.nan


def _by_holder(dataset: Dataset, agents: int | None, column: str) -> tuple[Rows, ...]:
    if dataset.holders is None:
        raise InputError(
            f"{dataset.name} does not say who holds a row, so column:{column} cannot split it. "
            f"Load a table with holder={column!r}, or give `holders` with the arrays."
        )
    if dataset.holder not in (None, column):
        raise InputError(
            f"{dataset.name} was loaded with holder={dataset.holder!r}, so it cannot be split by {column!r}."
        )
    names, codes = np.unique(dataset.holders, return_inverse=True)
    if agents is not None and agents != names.size:
        raise InputError(
            f"column {column!r} of {dataset.name} has {names.size} values, one for each agent, but agents={agents}. "
            f"Use {names.size}, or leave the number out."
        )
    return _groups(codes, names.size)


def _by_rows(dataset: Dataset, agents: int | None, lists: Sequence[Any]) -> tuple[Rows, ...]:
    """Return lists of rows as arrays; raise InputError if one is none, or if two hold the same row."""
    if agents is not None and agents != len(lists):
        raise InputError(f"split has {len(lists)} lists of rows, one for each agent, but agents={agents}.")
    parts = []
    for agent, given in enumerate(lists):
        rows = array_of(f"split: the rows of agent {agent}", given)
        if rows.ndim != 1 or not rows.size or rows.dtype.kind == "f":
            raise InputError(
                f"split: the rows of agent {agent} must be whole numbers, one at least, but are {brief(given)}."
            )
        if not 0 <= rows.min() <= rows.max() < dataset.rows:
            odd = rows.min() if rows.min() < 0 else rows.max()
            raise InputError(
                f"split: agent {agent} has row {odd}, but the rows of {dataset.name} are 0 to {dataset.rows - 1}."
            )
        parts.append(np.sort(rows.astype(np.int64)))
    if not parts:
        raise InputError("split has no lists of rows: give one for each agent.")
    if (held := np.bincount(np.concatenate(parts))).max() > 1:
        row = int(held.argmax())
        owners = [agent for agent, part in enumerate(parts) for _ in range(int((part == row).sum()))]
        raise InputError(
            f"split: row {row} is held {held[row]} times, by agents {brief(owners)}: leave it in one list."
        )
    return tuple(parts)


def holder_names(dataset: Dataset) -> tuple[str, ...]:
    """Return the names of the agents of a split ``column:NAME``, in the order of the agents."""
    assert dataset.holders is not None
    return tuple(map(str, np.unique(dataset.holders).tolist()))


def _cut(order: np.ndarray, agents: int) -> tuple[Rows, ...]:
    return tuple(np.sort(part) for part in np.array_split(order, agents))


def _mix(labels: np.ndarray, agents: int, share: float, sizes: str, rng: np.random.Generator) -> tuple[Rows, ...]:
    """Sort and cut a random share of the rows by label, and deal the rest at random."""
    owner = rng.integers(agents, size=labels.size) if sizes == "as-they-fall" else None
    order = rng.permutation(labels.size)  # as iid shuffles, so that S = 0 is the same split
    ranked, rest = np.split(order, [round(share * labels.size)])
    ranked = np.sort(ranked)
    cut = np.array_split(ranked[np.argsort(labels[ranked], kind="stable")], agents)
    if owner is None:
        room = [whole.size - part.size for whole, part in zip(np.array_split(order, agents), cut, strict=True)]
        dealt = np.split(rest, np.cumsum(room)[:-1])
    else:
        dealt = [rest[places] for places in _groups(owner[rest], agents)]
    return tuple(np.sort(np.concatenate(both)) for both in zip(cut, dealt, strict=True))


def _groups(codes: np.ndarray, groups: int) -> tuple[Rows, ...]:
    """Return the positions of 0, of 1, … in `codes`."""
    ends = np.cumsum(np.bincount(codes, minlength=groups))[:-1]
    return tuple(np.split(np.argsort(codes, kind="stable"), ends))


def _draw(counts: np.ndarray, codes: np.ndarray, rng: np.random.Generator) -> tuple[Rows, ...]:
    """Draw `counts[a, c]` random rows of class c for each agent a."""
    agents, classes = counts.shape
    owner = np.empty(codes.size, int)
    for label, rows in enumerate(_groups(codes, classes)):
        owner[rng.permutation(rows)] = np.repeat(np.arange(agents), counts[:, label])
    return _groups(owner, agents)


def _check_parts(parts: tuple[Rows, ...], how: str, form: str) -> tuple[Rows, ...]:
    empty = [agent for agent, part in enumerate(parts) if not part.size]
    if empty:
        more = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
        raise InputError(f"{how} leaves agent {empty[0]}{more} of {len(parts)} with no row: {WAYS_OUT[form]}.")
    return parts


def apportion(total: int, weights: np.ndarray) -> np.ndarray:
    """Return whole numbers in proportion to the weights, with this total: the largest fractions are rounded up."""
    exact = weights * (total / weights.sum())
    whole = np.floor(exact).astype(int)
    largest = np.argsort(whole - exact, kind="stable")
    whole[largest[: total - whole.sum()]] += 1
    return whole


def dirichlet_counts(
    totals: Totals, agents: int, concentration: float, room: Room | None, rng: np.random.Generator
) -> Counts:
    """Spread each class by Dirichlet shares; with `room`, agents' sizes are exactly that."""
    from scipy.special import logsumexp  # slow to import, so only when needed

    alpha = np.clip(concentration, 1e-100, 1e100)  # beyond, the draws are one-hot or even in float64 anyhow
    shape = (agents, totals.size)
    # Dirichlet shares are gamma variables over their sum; logarithms, as most are below 1e-308 when alpha is small
    gammas = np.log(rng.gamma(alpha + 1, size=shape)) - rng.exponential(size=shape) / alpha
    shares = gammas - logsumexp(gammas, axis=0)
    if room is not None:
        return _fill(shares + np.log(totals), totals, room)
    cuts = np.rint(np.cumsum(np.exp(shares), axis=0) * totals).astype(int)
    cuts[-1] = totals  # a sum of shares may miss 1 by rounding
    return np.diff(cuts, axis=0, prepend=0)


def _fill(log_wishes: Float[np.ndarray, "agents classes"], totals: Totals, room: Room) -> Counts:
    """Fill agents in proportion to their wishes, as far as classes last. Each pass fills all or uses up a class."""
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


def deal_counts(
    totals: Totals, agents: int, labels_each: int, room: Room | None, rng: np.random.Generator
) -> Counts | None:
    """Deal `labels_each` labels to each agent; with `room`, agents' sizes are exactly that, or None if none fits."""
    places = np.ones(totals.size, int)
    for _ in range(agents * labels_each - totals.size):
        # the next place goes to the label with the most rows a place
        places[np.argmax(np.where(places < agents, totals / places, -1))] += 1
    if room is None:
        return _even(_deal(places, agents, labels_each, rng), totals)
    for _ in range(DEALINGS):
        held = _deal(places, agents, labels_each, rng)
        counts = _level(held, _even(held, totals), totals, room)
        if counts is not None:
            return counts
    return None


def _deal(places: Totals, agents: int, labels_each: int, rng: np.random.Generator) -> np.ndarray:
    """Deal labels to agents. Always taking the labels with the most places left succeeds (Gale and Ryser)."""
    held = np.zeros((agents, places.size), bool)
    left = places.copy()
    for agent in rng.permutation(agents):
        taken = np.lexsort((rng.random(left.size), -left))[:labels_each]
        held[agent, taken] = True
        left[taken] -= 1
    return held


def _even(held: np.ndarray, totals: Totals) -> Counts:
    return np.stack([apportion(total, held[:, label]) for label, total in enumerate(totals)], axis=1)


def _level(held: np.ndarray, even: Counts, totals: Totals, room: Room) -> Counts | None:
    """Return the counts nearest to `even`, in rows moved, with these sums: a transport problem with whole vertices."""
    agent, label = np.nonzero(held)
    size = agent.size
    ones, column = np.ones(size), np.arange(size)
    sums = scipy.sparse.csr_array(
        (np.r_[ones, ones], (np.r_[agent, held.shape[0] + label], np.r_[column, column])),
        shape=(sum(held.shape), size),
    )
    start = even[agent, label]
    spare = np.maximum(start - 1, 0)  # every agent keeps a row of each of its labels
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
