"""Which rules run on which networks: refusals with a way out, and invariants where they may."""

from itertools import product
from typing import Any

import networkx as nx
import numpy as np
import pytest

import gossamer as gs
from gossamer.algorithms import ALGORITHMS
from gossamer.core import hyperparameters, kinds_of_parts
from tests import plain
from tests.seldom import seldom

PROBLEM, E = plain.heterogeneous()


def rule_of(kind, eta=0.05):
    numbers = {key: eta if key == "eta" else allowed.example for key, allowed in hyperparameters(kind).items()}
    some = {"compressor": gs.compressors.top_k(k=2), "aggregator": gs.aggregators.median()}
    return kind(**numbers, **{key: some[part] for key, part in kinds_of_parts(kind).items()})


RULES = [rule_of(kind) for kind in ALGORITHMS.values()]


def refused(rule, network, problem=PROBLEM):
    with pytest.raises(gs.InputError) as caught:
        gs.simulate(rule, problem, network, steps=1)
    return str(caught.value)


def test_a_directed_network_is_refused_by_rules_that_need_doubly_stochastic_weights():
    for rule in (rule for rule in RULES if rule.needs == "doubly"):
        message = refused(rule, plain.directed())
        assert f"{rule.name} needs doubly stochastic weights" in message
        for name in ("sgp", "push-pull", "push-diging", "push-pull-dmt", "push-diging-dmt", "frost"):
            assert name in message.split("there are ")[1]


def test_a_column_stochastic_matrix_is_refused_where_it_is_given():
    column = np.array([[0.5, 0.2, 0.0], [0.5, 0.5, 0.3], [0.0, 0.3, 0.7]])
    with pytest.raises(gs.InputError, match=r"from_matrices\(column="):
        gs.networks.from_matrix(column)


def test_compressed_rules_refuse_a_network_that_changes_or_loses():
    networks = [
        gs.networks.one_peer_exponential(8),
        gs.networks.failing(gs.networks.ring(8), links=0.1),
        gs.networks.failing(gs.networks.ring(8), agents=0.1),
        gs.networks.every(gs.networks.ring(8), 4),
    ]
    for name, network in product(("choco-sgd", "beer", "motef", "docom"), networks):
        message = refused(rule_of(ALGORITHMS[name]), network)
        assert f"{name} keeps running sums" in message
        assert "Use a static network, or an uncompressed rule" in message


def test_frost_refuses_a_network_on_which_it_cannot_learn_how_much_each_agent_counts():
    message = refused(gs.FROST(eta=0.05), gs.networks.failing(plain.directed(), links=0.1))
    assert "frost keeps estimates of how much each agent counts" in message
    assert "Use a static network, or a rule that needs none, such as push-pull-dmt" in message


def test_relay_sgd_refuses_what_is_no_tree_and_what_changes():
    message = refused(gs.RelaySGD(eta=0.05), gs.networks.ring(8))
    assert "ring(8) has 8 links between 8 agents, where a tree has 7: sums would come back and count twice" in message
    assert "Use networks.spanning_tree(8, of=…)" in message
    message = refused(gs.RelaySGD(eta=0.05), gs.networks.every(gs.networks.path(8), 2))
    assert "relay-sgd keeps sums of what its neighbours passed on" in message
    tree = gs.networks.spanning_tree(8, gs.networks.ring(8))
    assert len(gs.simulate(gs.RelaySGD(eta=0.05), PROBLEM, tree, steps=1).iterates["relay-sgd"][0]) == 8


def test_rules_of_two_rounds_refuse_what_they_are_wrong_on():
    for name in ("d2", "exact-diffusion", "extra", "lead", "cedas"):
        rule = rule_of(ALGORITHMS[name])
        assert "changes. Use a static network" in refused(rule, gs.networks.random_matching(8))
        assert "symmetric mixing matrix" in refused(rule, gs.networks.exponential(8))


def test_d2_refuses_eigenvalues_that_it_does_not_converge_with():
    message = refused(gs.D2(eta=0.1), gs.networks.ring(8))
    assert "above -0.3333, but the lowest of ring(8) is -0.3333" in message
    assert 'weights="lazy"' in message
    gs.simulate(gs.D2(eta=0.1), PROBLEM, gs.networks.ring(8, weights="lazy"), steps=1)


def test_a_compressor_that_keeps_more_than_there_is_is_refused():
    rule = gs.ChocoSGD(eta=0.1, gamma=0.5, compressor=gs.compressors.top_k(k=6))
    assert "top_k(k=6) keeps more coordinates than the 5" in refused(rule, plain.irregular())
    with pytest.raises(gs.InputError, match=r"compressor=…\) must be made by gossamer.compressors"):
        gs.ChocoSGD(eta=0.1, gamma=0.5, compressor="top-k")


CHANGING = {
    "links": gs.networks.failing(gs.networks.ring(10), links=0.6, seed=1),
    "agents": gs.networks.failing(gs.networks.ring(10), agents=0.6, seed=1),
    "both": gs.networks.failing(gs.networks.random_matching(10), links=0.3, agents=0.3),
    "directed": gs.networks.failing(gs.networks.make("directed-ring", 10), links=0.5, agents=0.2),
    "bursts": gs.networks.gilbert_elliott(gs.networks.ring(10), 0.1, 0.2, 0.1, 0.9, seed=1),
    "one-peer": gs.networks.one_peer_exponential(10),
    "local steps": gs.networks.every(gs.networks.ring(10), 5),
}


@pytest.mark.parametrize("name", seldom(CHANGING, always=["both", "directed"]))
def test_agents_with_one_common_loss_stay_at_its_optimum(name):
    """Started there, under any rate of failure, every rule that may run on the network stays."""
    network = CHANGING[name]
    optimum = np.array([1.0, -2.0, 0.5])
    problem = gs.problems.quadratic(np.diag([3.0, 1.0, 0.5]), np.tile(optimum, (10, 1)), start=optimum)
    allowed = [rule for rule in RULES if _runs(rule, network)]
    assert len(allowed) > 4
    # one rule of each way to gossip is compiled; the others are the same matrices
    some = [rule for rule in allowed if rule.name in ("biased-dmt", "sgp", "push-pull-dmt", "push-diging-dmt")]
    result = gs.simulate(some, problem, network, steps=200, dtype="float64")
    for rule in some:
        np.testing.assert_allclose(result.iterates[rule.name], np.broadcast_to(optimum, (1, 10, 3)), atol=1e-12)


def _runs(rule, network):
    return not rule.static and (network.stochastic == "doubly" or rule.needs != "doubly")


def test_an_agent_that_sleeps_keeps_what_it_has():
    network = gs.networks.failing(plain.irregular(), agents=0.5, seed=3)
    awake = np.asarray(network.awake(0))
    assert 0 < awake.sum() < 8
    result = gs.simulate(gs.DPSGD(eta=0.1), PROBLEM, network, steps=1, start=np.ones(5), dtype="float64")
    moved = np.abs(result.iterates["d-psgd"][0] - 1).max(1) > 0
    np.testing.assert_array_equal(moved, awake)


@pytest.mark.parametrize("name", ["links", "agents", "both", "directed", "bursts", "one-peer", "local steps"])
def test_trackers_settle_where_the_gradient_is_minus_the_mean_bias_on_networks_that_change(name):
    network = CHANGING[name]
    problem, E = plain.heterogeneous(agents=10)
    kind = gs.BiasedDMT if network.stochastic == "doubly" else gs.PushDIGingDMT
    oracle = gs.oracles.exact() | gs.oracles.additive_bias(vectors=E)
    rule: Any = kind(eta=0.02 if kind is gs.BiasedDMT else 0.005, lam=0.3)  # a failing directed ring mixes slowly
    result = gs.simulate(rule, problem, network, oracle, steps=12_000, dtype="float64")
    np.testing.assert_allclose(result.iterates[rule.name][0], np.tile(problem.solution(E), (10, 1)), atol=1e-9)


def test_what_is_paid_on_networks_that_change_and_in_compressed_messages():
    ring = gs.networks.ring(8)
    problem, _ = plain.heterogeneous(d=64)

    def paid(rule, network):
        frame = gs.simulate(rule, problem, network, steps=100).frame()
        last = frame.filter(frame["round"] == 100).to_dicts()[0]
        return last["queries"], last["bytes_sent"], last["messages"]

    assert paid(gs.DPSGD(eta=0.01), ring) == (100, 100 * 2 * 64 * 4, 100)
    assert paid(gs.DPSGD(eta=0.01), gs.networks.every(ring, 4)) == (100, 25 * 2 * 64 * 4, 25)
    slow = gs.networks.failing(ring, links=0.5)
    assert paid(gs.DPSGD(eta=0.01), slow) == (100, pytest.approx(50 * 2 * 64 * 4), 100)
    sleepy = gs.networks.failing(ring, agents=0.5)
    assert paid(gs.DPSGD(eta=0.01), sleepy) == (50, pytest.approx(25 * 2 * 64 * 4), 50)
    # 6 numbers of 32 bits and 6 places of 6 bits
    choco = gs.ChocoSGD(eta=0.01, gamma=0.2, compressor=gs.compressors.top_k(k=6))
    assert paid(choco, ring) == (100, pytest.approx(100 * 2 * 6 * (32 + 6) / 8), 100)
    # push-sum's weight is one number more
    assert paid(gs.SGP(eta=0.01, beta=0), ring) == (100, 100 * 2 * 65 * 4, 100)


def test_a_graph_that_is_not_strongly_connected_is_refused():
    with pytest.raises(gs.InputError, match="reach"):
        gs.networks.directed(nx.DiGraph([(0, 1), (1, 2), (2, 1)]))
