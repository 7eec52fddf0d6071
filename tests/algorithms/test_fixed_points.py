"""Where the algorithms settle on quadratics with a constant bias, against closed forms."""

import numpy as np
import pytest

import gossamer as gs
from gossamer.core import setting
from tests import further_reference, plain

PROBLEM, E = plain.heterogeneous()
NETWORK = plain.irregular()
W = np.kron(NETWORK.mixing, np.eye(5))
EYE = np.eye(40)
A = np.zeros((40, 40))
for i in range(8):
    A[5 * i : 5 * i + 5, 5 * i : 5 * i + 5] = PROBLEM.A[i]
PULL = (np.einsum("nde,ne->nd", PROBLEM.A, PROBLEM.b) - E).ravel()


TOP_2 = gs.compressors.top_k(k=2)


def settled(rule, network=NETWORK, steps=8000):
    oracle = gs.oracles.exact() | gs.oracles.additive_bias(vectors=E)
    return gs.simulate(rule, PROBLEM, network, oracle, steps=steps, dtype="float64").states[rule.name, setting(rule)][0]


@pytest.mark.parametrize(
    "rule",
    [
        gs.BiasedDMT(eta=0.05, lam=0.3),
        gs.BiasedDMT(eta=0.02, lam=0.05),
        gs.MomentumTracking(eta=0.02, beta=0.7),
        gs.GNSD(eta=0.05),
        gs.DSGT(eta=0.05),
        gs.GTDSGD(eta=0.05),
        gs.BiasedDMTATC(eta=0.05, lam=0.3),
        gs.GTHSGD(eta=0.05, a=0.3),
        gs.GTSTORM(eta=0.05, a=0.3),
        gs.D2(eta=0.05),
        gs.ExactDiffusion(eta=0.05),
        gs.EXTRA(eta=0.05),
        gs.BEER(eta=0.02, gamma=0.3, compressor=TOP_2),
        gs.MoTEF(eta=0.02, lam=0.3, gamma=0.3, compressor=TOP_2),
        gs.DoCoM(eta=0.02, a=0.3, gamma=0.3, compressor=TOP_2),
        gs.LEAD(eta=0.05, gamma=0.5, compressor=TOP_2),
        gs.KGT(eta=0.05, inner=0.02, local=10),
        gs.GTAdam(eta=0.01, beta1=0.8, beta2=0.99, eps=1e-3),
        gs.GTSARAH(eta=0.05, recursions=2),
        gs.GTSVRG(eta=0.05, corrections=2),
        gs.CEDAS(eta=0.05, gamma=0.5, compressor=TOP_2),
        gs.RelaySGD(eta=0.05),
        gs.GTNSGDm(eta=lambda t: 0.3 * 0.995**t, lam=0.3),
        gs.FROST(eta=0.004),
        gs.PushPull(eta=0.03),
        gs.PushDIGing(eta=0.03),
        gs.PushPullDMT(eta=0.03, lam=0.3),
        gs.PushDIGingDMT(eta=0.03, lam=0.3),
        gs.CentralizedSGD(eta=0.05),
        gs.CentralizedMomentum(eta=0.05, lam=0.3),
        gs.STEM(eta=0.05, a=0.3),
    ],
    ids=str,
)
def test_trackers_settle_where_the_gradient_is_minus_the_mean_bias(rule):
    directed = rule.needs not in ("doubly", "nothing")
    network = plain.directed() if directed else plain.irregular("lazy" if rule.lowest else "metropolis")
    X = settled(rule, plain.tree() if rule.tree else network)
    np.testing.assert_allclose(X, np.tile(PROBLEM.solution(E), (8, 1)), atol=1e-10)
    np.testing.assert_allclose(PROBLEM.gradient(X[0]), -E.mean(0), atol=1e-10)


def test_local_steps_that_are_corrected_settle_where_one_step_would_and_plain_ones_elsewhere():
    """Ten local steps: what they return for a gradient is biased where losses differ, unless they are corrected."""
    steps = {"eta": 0.05, "lam": 0.3, "inner": 0.02, "local": 10}
    optimum = np.tile(PROBLEM.solution(E), (8, 1))
    np.testing.assert_allclose(settled(gs.LocalBiasedDMT(**steps)), optimum, atol=1e-8)
    plain_steps = further_reference.pseudo_gradients(
        np.zeros((8, 5)), NETWORK.mixing, plain.gradient_of(PROBLEM, E), 2000, **steps
    )
    away = np.linalg.norm(plain_steps - optimum, axis=1)
    assert 0.1 < away.min() < away.max() < 0.3


def test_d_psgd_settles_at_the_solution_of_its_linear_system():
    expected = np.linalg.solve(EYE - W + 0.05 * A, 0.05 * PULL)
    np.testing.assert_allclose(settled(gs.DPSGD(eta=0.05)).ravel(), expected, atol=1e-10)


def test_d_psgd_atc_settles_at_the_solution_of_its_linear_system():
    expected = np.linalg.solve(EYE - W + 0.05 * W @ A, 0.05 * W @ PULL)
    np.testing.assert_allclose(settled(gs.DPSGDATC(eta=0.05)).ravel(), expected, atol=1e-10)


@pytest.mark.parametrize("rule", [gs.DecentLaM(eta=0.05, beta=0.8), gs.QGDSGDm(eta=0.05, beta=0.8)], ids=str)
def test_momentum_after_gossip_settles_where_d_psgd_does(rule):
    expected = np.linalg.solve(EYE - W + 0.05 * W @ A, 0.05 * W @ PULL)
    np.testing.assert_allclose(settled(rule).ravel(), expected, atol=1e-10)


def test_choco_settles_where_d_psgd_would_on_the_damped_matrix():
    r"""Copies have caught up there, whatever the compressor: $x = (I + \gamma (W - I)) (x - \eta g)$."""
    damped = EYE + 0.3 * (W - EYE)
    expected = np.linalg.solve(EYE - damped + 0.05 * damped @ A, 0.05 * damped @ PULL)
    rule = gs.ChocoSGD(eta=0.05, gamma=0.3, compressor=TOP_2)
    np.testing.assert_allclose(settled(rule).ravel(), expected, atol=1e-10)


def test_local_momentum_settles_where_d_psgd_would_with_a_larger_step():
    eta = 0.01 / (1 - 0.8)
    expected = np.linalg.solve(EYE - W + eta * W @ A, eta * W @ PULL)
    np.testing.assert_allclose(settled(gs.DSGDm(eta=0.01, beta=0.8)).ravel(), expected, atol=1e-10)


def test_gossiped_momentum_settles_at_the_solution_of_its_linear_system():
    r"""From $p = \beta W p + g$ and $x = W (x - \eta p)$."""
    gain = 0.01 * W @ np.linalg.inv(EYE - 0.8 * W)
    expected = np.linalg.solve(EYE - W + gain @ A, gain @ PULL)
    np.testing.assert_allclose(settled(gs.DSGDmGossip(eta=0.01, beta=0.8)).ravel(), expected, atol=1e-10)
