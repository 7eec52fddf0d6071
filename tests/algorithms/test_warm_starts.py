"""Starts of trackers: what `warm` gossips before round 0 give, what they cost, and what is refused."""

import numpy as np
import pytest

import gossamer as gs
from gossamer.core import State
from tests import plain
from tests.algorithms.test_identities import X0, G, W, begun, path, same
from tests.table import table

PROBLEM, E = plain.heterogeneous()
VECTOR, DEGREE = 5 * 8, 18 / 8


def simulated(rules, network, **options):
    given = {"steps": 5, "dtype": "float64", "start": np.ones(5), "progress": False} | options
    return gs.simulate(rules, PROBLEM, network, gs.oracles.exact() | gs.oracles.additive_bias(vectors=E), **given)


def ends(network, *starts, steps=5):
    """Where Biased-DMT ends from each of these starts."""
    return [
        simulated(gs.BiasedDMT(0.05, 0.3, warm=warm), network, steps=steps).iterates["biased-dmt"][0] for warm in starts
    ]


def test_on_a_one_peer_exponential_graph_three_rounds_of_eight_agents_are_the_mean():
    three, two, mean = ends(gs.networks.one_peer_exponential(8), 3, 2, "mean")
    np.testing.assert_allclose(three, mean, rtol=0, atol=1e-14)
    assert np.abs(two - mean).max() > 1e-3


def test_on_a_changing_network_the_gossips_are_those_of_its_first_rounds():
    network = gs.networks.random_matching(8, seed=4)
    rule = gs.BiasedDMT(0.05, 0.3, warm=3)
    matrices = [network.matrix(t).toarray() for t in range(5)]
    V = matrices[2] @ matrices[1] @ matrices[0] @ G(X0)
    s = State(x=X0, m=G(X0), v=V)
    for t in range(5):
        s = rule.step(s, plain.NumpyAgents(matrices[t], G))
    np.testing.assert_allclose(ends(network, 3)[0], s.x, rtol=0, atol=1e-13)


def test_more_gossips_come_to_the_mean_as_fast_as_the_network_mixes():
    """After one round models have seen V⁰ alone, so that they are off by η (W − J)ᵏ g⁰."""
    network = plain.irregular()
    mean, *others = ends(network, "mean", 10, 20, 40, 400, steps=1)
    away = [np.linalg.norm(end - mean) for end in others]
    spread = np.linalg.norm(G(X0) - G(X0).mean(0))
    bounds = [0.05 * (1 - network.gap) ** k * spread for k in (10, 20, 40)]
    assert all(off <= bound * (1 + 1e-9) for off, bound in zip(away, bounds, strict=False))
    assert away[2] > bounds[2] / 10
    assert away[3] < 1e-13


@pytest.mark.parametrize("warm", [0, 2, "mean"])
@pytest.mark.parametrize("lam", [0.1, 0.5, 1.0])
def test_momentum_tracking_is_biased_dmt_from_a_momentum_that_starts_at_zero(lam, warm):
    """Its V⁰ is λ Wᵏ g⁰ and its M⁰ is g⁰ − (1 − λ) Wᵏ g⁰, of mean λ ḡ⁰: without momentum, that of `warm` = k itself."""
    eta = 0.05
    warmed = plain.NumpyAgents(W, G).average(G(X0), warm)
    tracked = path(gs.MomentumTracking(eta=lam * eta, beta=1 - lam, warm=warm))
    dmt = gs.BiasedDMT(eta=eta, lam=lam, warm=warm)
    assert same(tracked, begun(dmt, G, m=G(X0) - (1 - lam) * warmed, v=lam * warmed))
    assert same(tracked, path(dmt)) == (lam == 1)


@pytest.mark.parametrize("warm", [0, 2, "mean"])
def test_k_gt_with_one_local_step_is_dsgt_from_the_same_start(warm):
    kgt = gs.KGT(eta=0.05, inner=0.02, local=1, warm=warm)
    assert same(path(kgt), path(gs.DSGT(eta=0.05, warm=warm)))


def paid(rule, **options):
    frame = simulated(rule, plain.irregular(), steps=4, **options).of(rule.name)
    return frame.select("queries", "bytes_sent", "messages").row(0)


def test_the_start_costs_a_message_of_one_vector_for_each_gossip():
    first = {warm: paid(gs.BiasedDMT(0.05, 0.3, warm=warm)) for warm in (0, 7, "mean")}
    assert first[0] == (1, 0, 0)
    assert first[7] == (1, 7 * VECTOR * DEGREE, 7)
    assert first["mean"] == (1, VECTOR * 2 * 7 / 8, 2 * 7)
    # one that gossips its start by itself pays for that as well
    assert paid(gs.GTDSGD(0.05, warm=7)) == (1, 8 * VECTOR * DEGREE, 8)
    # and what a compressor would shrink goes whole
    compressor = gs.compressors.top_k(k=2)
    assert paid(gs.MoTEF(0.02, 0.3, 0.3, compressor, warm=7)) == first[7]


def test_rules_that_start_from_zero_pay_for_the_gradient_that_a_warm_start_is_made_of():
    assert (paid(gs.GTNSGDm(0.02, 0.3)), paid(gs.GTNSGDm(0.02, 0.3, warm=7))[0]) == ((0, 0, 0), 1)
    assert [paid(gs.GTSARAH(0.05, 2, warm=warm))[0] for warm in (0, 7)] == [0, 1]
    assert [paid(gs.KGT(0.05, 0.02, 3, warm=warm))[0] for warm in (0, 7, "mean")] == [0, 1, 1]


def test_a_round_costs_the_same_from_every_start_and_the_axis_of_messages_counts_both():
    result = simulated([gs.BiasedDMT(0.05, 0.3), gs.BiasedDMT(0.05, 0.3, warm=7)], plain.irregular(), every=1, steps=4)
    cold, warm = result.labels
    assert (cold, warm) == ("biased-dmt(eta=0.05, lam=0.3)", "biased-dmt(eta=0.05, lam=0.3, warm=7)")
    assert result.of(cold)["messages"].to_list() == [0, 1, 2, 3, 4]
    assert result.of(warm)["messages"].to_list() == [7, 8, 9, 10, 11]
    axes = result.plot("loss", x="messages")
    lines = {line.get_label(): line.get_xdata().tolist() for line in axes.get_lines()}
    assert lines == {
        "Biased-DMT (eta=0.05, lam=0.3)": [0, 1, 2, 3, 4],
        "Biased-DMT (warm=7)": [7, 8, 9, 10, 11],
    }


@pytest.mark.parametrize("network", [gs.networks.ring(8), gs.networks.one_peer_exponential(8)])
def test_the_clock_waits_for_the_messages_of_the_start(network):
    """All powers of two: a query takes 0.5 s, a message 0.25 s and what its bytes take on the shared uplink."""
    clock = gs.clock(gs.clocks.uniform(0.25, uplink=512.0), compute=0.5)
    rules = [gs.BiasedDMT(0.05, 0.3), gs.BiasedDMT(0.05, 0.3, warm=7), gs.BiasedDMT(0.05, 0.3, warm="mean")]
    result = simulated(rules, network, clock=clock)
    cold, warm, mean = (result.of(label)["seconds"].to_numpy() for label in result.labels)
    neighbours = 1 if network.changes else 2
    assert cold[0] == 0.5
    assert warm[0] == 0.5 + 7 * (0.25 + neighbours * VECTOR / 512)
    assert mean[0] == 0.5 + 2 * 7 * (0.25 + VECTOR / 8 / 512)
    np.testing.assert_allclose(warm - warm[0], cold - cold[0], rtol=1e-12)


@table("warm", [-1, 2.5, "avg", "7", True, None, float("nan"), 2**31])
def test_what_is_no_start_is_refused(warm):
    message = r"warm=…\) must be a whole number .* Give how often the tracker is gossiped before round 0"
    for kind in (gs.BiasedDMT, gs.PushPullDMT):
        with pytest.raises(gs.InputError, match=message):
            kind(0.05, 0.3, warm=warm)


def test_nobody_averages_a_start_where_nobody_waits():
    network = gs.networks.asynchronous(gs.networks.ring(8))
    simulated(gs.BiasedDMT(0.05, 0.3, warm=0), network, clock=gs.clock(compute=0.1))
    for warm in (3, "mean"):
        with pytest.raises(gs.InputError, match=r"is asynchronous. Use warm=0, or the network without asynchronous"):
            simulated(gs.BiasedDMT(0.05, 0.3, warm=warm), network, clock=gs.clock(compute=0.1))
