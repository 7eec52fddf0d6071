"""EquiTopo: rates that do not depend on the number of agents, against closed forms and plain loops."""

import math

import numpy as np
import pytest

from gossamer import networks
from gossamer.core import InputError
from tests.table import table


def basis(n, a):
    """Everyone hears the agent at distance a."""
    return np.eye(n) / n + (n - 1) / n * np.roll(np.eye(n), a, axis=0)


def matched(n, a, first):
    """In turn from `first` on, everyone is paired with the agent at distance a if both are free."""
    partner, free = np.arange(n), np.ones(n, bool)
    for i in (first + np.arange(n)) % n:
        j = (i + a) % n
        if free[i] and free[j]:
            partner[[i, j]], free[[i, j]] = [j, i], False
    return np.eye(n)[partner]


def test_the_basis_averages_to_j():
    np.testing.assert_allclose(sum(basis(7, a) for a in range(1, 7)) / 6, 1 / 7, atol=1e-15)


@pytest.mark.parametrize("n", [2, 3, 5, 24])
def test_static_ones_are_means_of_basis_graphs(n):
    for seed in range(4):
        d = min(4, n - 1)
        W = networks.d_equistatic(n, d, seed).mixing
        counts = W[:, 0] * n / (n - 1) * d
        steps = np.arange(1, n).repeat(np.rint(counts[1:]).astype(int))
        assert len(steps) == d
        np.testing.assert_allclose(W, sum(basis(n, a) for a in steps) / d, atol=1e-15)
        both = networks.u_equistatic(n, max(2, d) if n > 2 else 1, seed)
        assert both.symmetric
        assert both.degrees.max() <= max(2, d)
        assert both.mixing[0, 0] == pytest.approx(1 / n)


@pytest.mark.parametrize("n", [10, 100, 1_000, 10_000])
def test_a_degree_of_order_log_n_gives_any_rate(n):
    # The theorem's bound: for each of the draws it fails with probability 1e-3 at most, and it is far from tight.
    epsilon, p = 0.5, 1e-3
    enough = math.ceil(8 / (3 * epsilon**2) * math.log(2 * n / p))
    if enough < n:
        assert networks.d_equistatic(n, enough).gap >= 1 - epsilon
        assert networks.u_equistatic(n, 2 * enough if 2 * enough < n else n - 1).gap >= 1 - epsilon
    # and with few neighbours the rate hardly falls as agents become 1,000 times as many
    assert networks.d_equistatic(n, min(n - 1, 4 * math.ceil(math.log2(n)))).gap > 0.4


@pytest.mark.parametrize("n", [2, 3, 8, 24, 1_001])
def test_the_gap_of_one_peer_at_a_random_distance(n):
    assert networks.od_equidyn(n).gap == pytest.approx(1 - math.sqrt((n - 1) / (2 * n)), abs=1e-12)


@pytest.mark.parametrize("n", [2, 3, 8, 9])
def test_gaps_against_the_mean_over_all_rounds(n):
    rounds = [(a, first) for a in range(1, n) for first in range(n)]
    ahead = [0.5 * np.eye(n) + 0.5 * basis(n, a) for a in range(1, n)]
    paired = [np.eye(n) * (1 + 1 / n) / 2 + (n - 1) / (2 * n) * matched(n, a, first) for a, first in rounds]
    for network, all_rounds in ((networks.od_equidyn(n), ahead), (networks.ou_equidyn(n), paired)):
        square = sum(W.T @ W for W in all_rounds) / len(all_rounds)
        assert network.gap == pytest.approx(1 - math.sqrt(np.linalg.eigvalsh(square - 1 / n)[-1]), abs=1e-12)
        sent = np.mean([np.count_nonzero(W - np.diag(np.diag(W))) / n for W in all_rounds])
        assert network.traffic == pytest.approx(sent, abs=1e-12)


@pytest.mark.parametrize("make", [networks.od_equidyn, networks.ou_equidyn])
def test_drawn_rounds_are_among_those_that_can_be(make):
    n = 9
    network, found = make(n, seed=3), set()
    for t in range(40):
        W = network.matrix(t).toarray()
        if make is networks.od_equidyn:
            a = int(np.flatnonzero(W[:, 0])[1])
            np.testing.assert_allclose(W, (np.eye(n) + basis(n, a)) / 2, atol=1e-15)
            found.add(a)
        else:
            share = (n - 1) / (2 * n)
            possible = [
                ((a, s), (1 - share) * np.eye(n) + share * matched(n, a, s)) for a in range(1, n) for s in range(n)
            ]
            fits = [place for place, V in possible if np.allclose(V, W, atol=1e-15)]
            assert fits
            found.add(fits[0])
    assert len(found) > 5
    assert make(n, seed=4).matrix(0).toarray().tolist() != network.matrix(0).toarray().tolist() or (
        make(n, seed=4).matrix(1).toarray().tolist() != network.matrix(1).toarray().tolist()
    )


@table(
    ("make", "message"),
    [
        (
            lambda: networks.d_equistatic(5, 5),
            r"d_equistatic\(degree\) must be below the number of agents, 5, but is 5",
        ),
        (lambda: networks.u_equistatic(5, 1), r"u_equistatic\(degree\) must be a whole number of at least 2, but is 1"),
        (lambda: networks.d_equistatic(5, 2, -1), r"d_equistatic\(seed\) must be a whole number of at least 0"),
        (lambda: networks.ou_equidyn(5, seed=2**32), r"ou_equidyn\(seed\) must be .* at most 4,294,967,295"),
        (lambda: networks.od_equidyn(2.5), r"od_equidyn\(agents\) must be a whole number of at least 1, but is 2.5"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_drawing_ends(monkeypatch):
    monkeypatch.setattr("gossamer.networks.graphs.DRAWS", 1)
    with pytest.raises(InputError, match=r"All distances and 30 had a common divisor. Use degree 3, or another seed"):
        [networks.d_equistatic(30, 1, seed) for seed in range(20)]


@pytest.mark.parametrize("make", [networks.od_equidyn, networks.ou_equidyn])
def test_one_agent_is_always_agreed(make):
    assert (make(1).gap, make(1).changes) == (1, False)
    assert networks.d_equistatic(1, 1).gap == networks.u_equistatic(1, 1).gap == 1
