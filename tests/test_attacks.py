"""Attackers: what they send and what their gradients are, and that only honest agents are measured."""

import itertools

import jax
import numpy as np
import pytest
from scipy.stats import norm

import gossamer as gs
from gossamer.attacks import alie_scale, chosen
from gossamer.basics.keys import keys_of
from gossamer.engines.agents import StackedAgents, World
from gossamer.specs.spec import Spec
from gossamer.theory.constants import constants_of
from tests import further_reference as reference
from tests import plain
from tests.oracles import sites
from tests.reference import gnsd as reference_gnsd
from tests.table import table

N, D, BAD = 8, 5, [1, 4]
HONEST = [agent for agent in range(N) if agent not in BAD]
X = np.random.default_rng(0).normal(size=(N, D))


def lies(kind, scale, x):
    """What arrives, by the definitions."""
    sent = x.copy()
    if kind == "alie":
        sent[BAD] = x[HONEST].mean(0) - scale * x[HONEST].std(0, ddof=1)
    else:
        sent[BAD] = {"flip": -scale * x, "scale": scale * x, "constant": np.full_like(x, scale)}[kind][BAD]
    return sent


@pytest.mark.parametrize(("kind", "scale"), [("flip", 1.0), ("scale", 7.0), ("constant", -2.0), ("alie", 1.5)])
def test_what_attackers_send(kind, scale):
    network = gs.networks.attacked(plain.irregular(), kind, agents=BAD, scale=scale)
    problem, W, sent = gs.problems.quadratic(np.eye(D), X), network.mixing, lies(kind, scale, X)
    with jax.enable_x64(True):
        agents = StackedAgents(World(problem, network), gs.oracles.exact(), keys_of([0], N)[0, 1], np.int32(0), None)
        x = jax.numpy.asarray(X)
        mixed, mean = np.asarray(agents.gossip(x)), np.asarray(agents.mean(x))
        own, shrunk = (np.asarray(a) for a in agents.gossip_compressed(x, by=gs.compressors.identity()))
    np.testing.assert_allclose(mixed[HONEST], (W @ sent)[HONEST], rtol=0, atol=1e-12)
    np.testing.assert_allclose(mixed[BAD], (W @ X)[BAD], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(shrunk, mixed)
    np.testing.assert_array_equal(own, X)
    np.testing.assert_allclose(mean[0], sent.mean(0), rtol=0, atol=1e-12)


def test_a_run_under_alie_agrees_with_a_plain_loop_and_is_measured_on_honest_agents():
    problem, _ = plain.heterogeneous()
    network, by, eta, lam = gs.networks.ring(N), gs.aggregators.clipped(radius=0.5), 0.05, 0.3
    attacked = gs.networks.attacked(network, "alie", agents=BAD, scale=1.5)
    rule = gs.RobustDSGD(eta=eta, lam=lam, aggregator=by)
    result = gs.simulate(rule, problem, attacked, steps=30, dtype="float64", start=np.ones(D))
    x = np.ones((N, D))
    m = plain.gradient_of(problem)(x)
    for _ in range(30):
        true = x - eta * m
        sent = lies("alie", 1.5, true)
        heard = [np.where(np.arange(N)[:, None] == i, true, sent) for i in range(N)]
        x = np.stack([reference.combined(heard[i], network.mixing, by)[i] for i in range(N)])
        m = (1 - lam) * m + lam * plain.gradient_of(problem)(x)
    found = result.iterates["robust-dsgd"][0]
    np.testing.assert_allclose(found, x, rtol=1e-12, atol=1e-12)
    last, mean = result.table.row(-1, named=True), x[HONEST].mean(0)
    gradients = np.einsum("nde,ne->nd", problem.A, mean - problem.b)[HONEST]

    def loss(x):
        away = x - problem.b[HONEST]
        return 0.5 * np.einsum("nd,nde,ne->n", away, problem.A[HONEST], away).mean()

    assert last["loss"] == pytest.approx(loss(mean), rel=1e-12)
    assert last["grad_norm_sq"] == pytest.approx((gradients.mean(0) ** 2).sum(), rel=1e-10)
    assert last["consensus"] == pytest.approx(((x[HONEST] - mean) ** 2).sum(1).mean(), rel=1e-10)
    assert last["worst_loss"] == pytest.approx(max(map(loss, x[HONEST])), rel=1e-12)


@pytest.mark.parametrize(("kind", "scale"), [("flip", 4.0), ("constant", -1.0), ("alie", 3.0)])
def test_second_moments_that_attackers_make_negative_give_no_nan(kind, scale):
    """D-AMSGrad divides by the root of max(u, ε), where u is gossip: the loop says how far models go, all finite."""
    problem, _ = plain.heterogeneous()
    network, given = gs.networks.ring(N), {"eta": 1e-4, "beta1": 0.8, "beta2": 0.9, "eps": 1e-3}
    attacked = gs.networks.attacked(network, kind, agents=BAD, scale=scale)
    rule = gs.DAMSGrad(**given)
    found = gs.simulate(rule, problem, attacked, steps=30, dtype="float64", start=np.ones(D))
    lowest = []

    class Attacked:
        def __matmul__(self, a):
            mixed = network.mixing @ lies(kind, scale, a)
            mixed[BAD] = (network.mixing @ a)[BAD]
            lowest.append(mixed.min())
            return mixed

    expected = reference.d_amsgrad(np.ones((N, D)), Attacked(), plain.gradient_of(problem), 30, **given)
    assert min(lowest[::2]) < 0
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(found.iterates["d-amsgrad"][0], expected, rtol=1e-10)
    assert "diverged" not in {*found.table["status"]}


@pytest.mark.parametrize("problem", [sites.PROBLEM, gs.problems.quadratic(np.eye(4), sites.POINTS)], ids=repr)
def test_f_among_some_agents_is_the_mean_of_their_losses(problem):
    some, x = problem.among(np.array([0, 2])), sites.POINTS[1]
    np.testing.assert_allclose(some.gradient(x), problem.gradients(x)[[0, 2]].mean(0), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(some.gradients(x), problem.gradients(x))


def test_where_quadratics_among_some_agents_settle():
    problem, E = plain.heterogeneous()
    some = problem.among(np.array(HONEST))
    np.testing.assert_allclose(some.gradient(some.solution(E)), -E[HONEST].mean(0), atol=1e-12)


def test_an_attacker_that_diverges_is_not_the_run():
    """Flipped gradients climb: attackers leave all bounds, but honest agents clip them."""
    problem = gs.problems.quadratic(np.eye(D), 0.1 * X)
    oracle = gs.oracles.attack("flip", agents=BAD, scale=100)
    rule = gs.RobustDSGD(eta=0.2, lam=1, aggregator=gs.aggregators.clipped(radius=0.01))
    result = gs.simulate(rule, problem, gs.networks.complete(N), oracle, steps=400, dtype="float32")
    x = result.iterates["robust-dsgd"][0]
    assert not np.isfinite(x[BAD]).any()
    assert np.isfinite(x[HONEST]).all()
    assert result.table["status"][-1] != "diverged"
    assert result.table["loss"][-1] < problem.among(np.array(HONEST)).loss(np.zeros(D))


@pytest.mark.parametrize(("kind", "scale"), [("flip", 2.0), ("scale", 3.0), ("constant", -0.5)])
def test_gradients_of_attackers_and_their_constants(kind, scale):
    oracle = gs.oracles.exact() | gs.oracles.attack(kind, agents=[1], scale=scale)
    stated = oracle.constants(sites.PROBLEM)
    for agent, x in itertools.product(range(3), sites.POINTS):
        exact = sites.PROBLEM.gradients(x)[agent]
        with jax.enable_x64(True):
            (found,), _ = sites.ask(oracle, sites.at(agent), x)
        wrong = {"flip": -scale * exact, "scale": scale * exact, "constant": np.full(4, scale)}[kind]
        np.testing.assert_allclose(found, wrong if agent == 1 else exact, rtol=1e-12)
        assert ((found - exact) ** 2).sum() <= stated.relative * (exact**2).sum() + stated.absolute + 1e-12
    if kind != "constant":
        assert stated.relative == pytest.approx(({"flip": -1, "scale": 1}[kind] * scale - 1) ** 2)
    assert oracle.attackers(3) == {1}


@pytest.mark.parametrize("scale", [None, 1.5])
def test_alie_on_gradients_agrees_with_a_plain_loop(scale):
    problem, E = plain.heterogeneous()
    network, eta = plain.irregular(), 0.05
    oracle = gs.oracles.additive_bias(vectors=E) | gs.oracles.attack("alie", agents=BAD, scale=scale)
    found = gs.simulate(gs.GNSD(eta=eta), problem, network, oracle, steps=30, dtype="float64", start=np.ones(D))
    z = alie_scale("attack", N, len(BAD)) if scale is None else scale

    def gradient(x):
        return lies("alie", z, plain.gradient_of(problem, E)(x))

    expected = reference_gnsd(np.ones((N, D)), network.mixing, gradient, 30, eta)
    np.testing.assert_allclose(found.iterates["gnsd"][0], expected, rtol=1e-12, atol=1e-12)


def test_no_attackers_are_no_attack():
    network = gs.networks.ring(N)
    assert gs.networks.attacked(network, share=0) is network
    stated = (gs.oracles.exact() | gs.oracles.attack(share=0)).constants(sites.PROBLEM)
    assert (stated.relative, stated.absolute) == (0, 0)


@pytest.mark.parametrize(("agents", "attackers"), [(50, 24), (20, 5), (11, 2)])
def test_alie_hides_in_the_majority(agents, attackers):
    supporters = agents // 2 + 1 - attackers
    quantile = norm.ppf((agents - attackers - supporters) / (agents - attackers))
    assert alie_scale("attacked", agents, attackers) == pytest.approx(quantile, abs=1e-9)


def test_a_share_is_spread_evenly():
    assert chosen("attacked", 12, None, 0.25) == (0, 4, 8)
    assert len(chosen("attacked", 10, None, 0.3)) == 3


RING = gs.networks.ring(8)


@table(
    ("make", "told"),
    [
        (lambda: gs.networks.attacked(RING, share=1), r"attacked\(share=…\) must be a number in \[0, 1\), but is 1"),
        (lambda: gs.networks.attacked(RING, share=0.01), r"share=0.01\) of 8 agents is 0: take a share from 0.125 to"),
        (lambda: gs.networks.attacked(RING), "give exactly one of them"),
        (lambda: gs.networks.attacked(RING, share=0.5, agents=[1]), "give exactly one of them"),
        (lambda: gs.networks.attacked(RING, agents=[8]), "names agent 8, but there are 8 agents, from 0 on"),
        (lambda: gs.networks.attacked(RING, agents=[-1]), "must be a whole number of at least 0"),
        (lambda: gs.networks.attacked(RING, agents=3), "must be a list of agents' numbers, but is 3"),
        (lambda: gs.networks.attacked(RING, agents=[1, 1]), "names agents twice"),
        (lambda: gs.networks.attacked(RING, agents=range(8)), "names all 8 agents: leave some of them honest"),
        (lambda: gs.networks.attacked(RING, "flop", share=0.5), "is 'flop', which is no attack; did you mean 'flip'"),
        (lambda: gs.networks.attacked(RING, "scale", share=0.5), "needs scale, the number that it takes"),
        (lambda: gs.networks.attacked(RING, "flip", share=0.5, scale="2"), r"attacked\(scale=…\) must be a number"),
        (lambda: gs.networks.attacked(RING, "alie", share=0.5), "a majority of honest agents, but 4 of 8 attack"),
        (lambda: gs.networks.attacked("ring", share=0.5), "must be a network, but is str"),
        (lambda: gs.networks.attacked(gs.networks.attacked(RING, agents=[1]), agents=[2]), "is attacked already"),
        (lambda: gs.networks.every(gs.networks.attacked(RING, agents=[1]), 2), "stand around all the others"),
        (lambda: gs.networks.sequence([gs.networks.attacked(RING, agents=[1])]), "stand around all the others"),
        (lambda: gs.networks.make("ring", 8, attack="flip"), "attack must be a table of how, agents, share, scale"),
        (lambda: gs.networks.make("ring", 8, attack={"part": 0.5}), "attack has no option 'part'"),
        (
            lambda: gs.networks.attacked(gs.networks.ring(3), "alie", agents=[0, 1], scale=1),
            "only 1 of 3 does not attack",
        ),
        (lambda: gs.oracles.attack("lie", share=0.2), "is 'lie', which is no attack; did you mean 'alie'"),
        (
            lambda: gs.oracles.attack("alie", share=0.2) | gs.oracles.clip(1.0),
            "no stage can stand around it: put it last",
        ),
        (lambda: ran(RING, gs.oracles.attack("alie", share=0.5)), "a majority of honest agents, but 4 of 8 attack"),
        (
            lambda: ran(gs.networks.asynchronous(RING), gs.oracles.attack("alie", share=0.25)),
            "all agents' gradients of a round, and there are none there",
        ),
        (
            lambda: gs.oracles.measure(gs.oracles.attack("alie", agents=[0]), sites.PROBLEM, sites.POINTS[0]),
            "no gradients of their own to measure",
        ),
        (lambda: gs.oracles.attack(), "give exactly one of them"),
        (lambda: ran(RING, gs.oracles.attack(agents=[9])), "names agent 9, but there are 8 agents"),
        (
            lambda: ran(gs.networks.attacked(RING, agents=range(4)), gs.oracles.attack(agents=range(4, 8))),
            "are all agents: leave some of them honest",
        ),
        (lambda: theory(gs.networks.attacked(RING, agents=[1]), gs.oracles.exact()), "leave the attack out"),
        (lambda: theory(RING, gs.oracles.exact() | gs.oracles.attack(agents=[1])), "leave the attack out"),
    ],
)
def test_refuses(make, told):
    with pytest.raises(gs.InputError, match=told):
        make()


def ran(network, oracle):
    gs.simulate(gs.DPSGD(eta=0.1), plain.heterogeneous()[0], network, oracle, steps=1)


def theory(network, oracle):
    constants_of(plain.heterogeneous()[0], network, oracle)


def test_a_spec_names_attackers_and_aggregators():
    spec = {
        "problem": {"name": "quadratic", "A": np.eye(2).tolist(), "b": np.ones((6, 2)).tolist()},
        "network": {"name": "complete", "attack": {"how": "constant", "share": 0.5, "scale": 3.0}},
        "oracle": {"stages": [{"kind": "attack", "agents": [1]}]},
        "run": {"steps": 3},
        "algorithm": [
            {"name": "robust-dsgd", "eta": 0.1, "lam": 1.0, "aggregator": {"kind": "trimmed-mean", "trim": 2}}
        ],
    }
    parts = Spec.of(spec).parts()
    assert parts.network.attack.attackers == (0, 2, 4)
    assert parts.oracle.attackers(6) == {1}
    assert parts.candidates[0].fixed["aggregator"] == gs.aggregators.trimmed_mean(2)
