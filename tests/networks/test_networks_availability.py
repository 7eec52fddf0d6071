"""Agents that come and go by the timetable in a file."""

import dataclasses

import jax
import networkx as nx
import numpy as np
import pytest

import gossamer as gs
from gossamer import networks
from gossamer.core import InputError
from gossamer.engines.mixing import awake_mask, mix
from gossamer.specs.spec import Spec
from tests import plain
from tests.table import table

HEADER = "agent,first,last\n"
LINES = "0,0,3\n1,2,5\n2,4,\n2,0,0\n"
"""Agents 0 to 2 of a ring; the others are always online. The timetable has six rounds."""
ONLINE = np.array([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1], [1, 0, 0, 0, 1, 1]], bool)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "online.csv"
    path.write_text(HEADER + LINES)
    return path


def online(agents, t):
    return np.append(ONLINE[:, t % 6], np.ones(agents - 3, bool))


BASES = {
    "ring": networks.ring(6),
    "complete": networks.complete(6),
    "star": networks.star(40),
    "directed": networks.directed_ring(6),
    "exponential": networks.exponential(8),
    "matching": networks.random_matching(6),
    "failing": networks.failing(networks.ring(6), links=0.3, seed=2),
    "local steps": networks.every(networks.ring(6), 2),
}


@pytest.mark.parametrize("name", BASES)
def test_who_is_offline_is_alone_and_every_round_is_mended(name, file):
    base = BASES[name]
    network = networks.availability(base, file)
    x = np.random.default_rng(0).standard_normal((base.agents, 2))
    for over in ("W",) if network.stochastic == "doubly" else ("R", "C"):
        with jax.enable_x64(True):
            mixed = jax.jit(lambda t, over=over: mix(network, x, t, over))
            mask = jax.jit(lambda t: awake_mask(network, t))
            for t in (0, 1, 2, 4, 5, 6, 61):
                W, there = network.matrix(t, over).toarray(), online(base.agents, t)
                np.testing.assert_array_equal(network.awake(t), there)
                np.testing.assert_array_equal(mask(t), there)
                np.testing.assert_allclose(mixed(t), W @ x, atol=1e-13)
                apart = W * ~np.eye(base.agents, dtype=bool)
                assert not apart[~there].any()
                assert not apart[:, ~there].any()
                before = base.matrix(t, over if base.stochastic != "doubly" else "W").toarray()
                both = np.outer(there, there) & ~np.eye(base.agents, dtype=bool)
                np.testing.assert_array_equal(W[both], before[both])
                np.testing.assert_allclose(W.sum(axis=0 if over == "C" else 1), 1, atol=1e-12)
                if over == "W":
                    np.testing.assert_allclose(W.sum(axis=0), 1, atol=1e-12)


@pytest.mark.parametrize("name", ["ring", "complete", "star", "directed", "local steps"])
def test_what_is_sent_is_the_mean_over_the_timetable(name, file):
    network = networks.availability(BASES[name], file)
    n, rounds = network.agents, 12
    over = "W" if network.stochastic == "doubly" else "C"
    matrices = [network.matrix(t, over).toarray() for t in range(rounds)]
    sent = [np.count_nonzero(W * ~np.eye(n, dtype=bool)) / n for W in matrices]
    assert network.traffic == pytest.approx(np.mean(sent), rel=1e-12)
    assert network.pace == pytest.approx(np.mean(np.array(sent) > 0))
    assert network.activity == pytest.approx(np.mean([online(n, t) for t in range(6)]))


def test_the_gap_is_that_of_the_whole_timetable(file):
    network = networks.availability(networks.ring(6), file)
    product = np.eye(6)
    for t in range(6):
        product = network.matrix(t) @ product
    assert network.gap == pytest.approx(1 - np.linalg.norm(product - 1 / 6, 2) ** (1 / 6), rel=1e-9)


def test_names_stand_for_agents_and_numbers_for_others(tmp_path):
    graph = nx.relabel_nodes(nx.cycle_graph(3), dict(enumerate(("Bergen", "Aarhus", "New York"))))
    (tmp_path / "named.csv").write_text('agent,first,last\n"New York",0,1\n Aarhus , 1 , 2\n\n')
    network = networks.availability(networks.from_graph(graph), tmp_path / "named.csv")
    assert network.names is not None
    there = np.stack([np.asarray(network.awake(t)) for t in range(3)], axis=1)
    expected = {"Bergen": [1, 1, 1], "Aarhus": [0, 1, 1], "New York": [1, 1, 0]}
    assert there.astype(int).tolist() == [expected[name] for name in network.names]
    by_nodes = networks.availability(networks.ring(3), tmp_path / "named.csv", nodes=network.names)
    assert by_nodes.awake(0).tolist() == network.awake(0).tolist()  # pyright: ignore[reportOptionalMemberAccess]
    made = networks.make("ring", 3, nodes=network.names, availability=str(tmp_path / "named.csv"))
    assert made.awake(0).tolist() == network.awake(0).tolist()  # pyright: ignore[reportOptionalMemberAccess]


def test_an_agent_that_is_offline_keeps_what_it_has_and_trackers_settle_exactly(file):
    network = networks.availability(networks.ring(10), file)
    problem, E = plain.heterogeneous(agents=10)
    oracle = gs.oracles.exact() | gs.oracles.additive_bias(vectors=E)
    first = gs.simulate(gs.DPSGD(eta=0.1), problem, network, steps=1, start=np.ones(5), dtype="float64")
    moved = np.abs(first.iterates["d-psgd"][0] - 1).max(1) > 0
    np.testing.assert_array_equal(moved, online(10, 0))
    last = gs.simulate(gs.BiasedDMT(eta=0.02, lam=0.3), problem, network, oracle, steps=12_000, dtype="float64")
    settled = np.tile(problem.solution(E), (10, 1))
    np.testing.assert_allclose(last.iterates["biased-dmt"][0], settled, atol=1e-9)
    queries = last.frame()["queries"][-1]
    assert queries == pytest.approx(1 + 12_000 * network.activity)


def test_a_spec_finds_the_file_beside_it_and_its_content_belongs_to_the_run(file):
    text = {
        "problem": {"name": "quadratic", "A": [[1.0, 0.0], [0.0, 1.0]], "b": [[1.0, 0.0]] * 6},
        "network": {"name": "ring", "availability": file.name},
        "run": {"steps": 8},
        "algorithm": [{"name": "d-psgd", "eta": 0.1}],
    }
    setup = Spec.of(text, file.parent).parts()
    assert setup.network.awake(0).tolist() == online(6, 0).tolist()
    file.write_text(HEADER + "0,0,1\n1,1,3\n")
    again = Spec.of(text, file.parent).parts()
    assert again.key != setup.key
    assert again.network.awake(2).tolist() == [False, True, True, True, True, True]


@table(
    ("text", "message"),
    [
        ("", "must begin with the line agent,first,last"),
        ("agent;first;last\n", "must begin with the line agent,first,last"),
        ("0,0,1\n", "must begin with the line agent,first,last"),
        (HEADER, "has no line below its header"),
        (HEADER + "0,0\n", "line 2 must have three cells, agent,first,last, but has 2: '0,0'"),
        (HEADER + "0,0,1\n6,0,1\n", "line 3: '6' is no agent of the network; they are 0 … 5"),
        (HEADER + "Aarhus,0,1\n", "line 2: 'Aarhus' is no agent"),
        (HEADER + "0,,1\n", "line 2: first must be a whole number of at least 0, but is ''"),
        (HEADER + "0,-1,1\n", "line 2: first must be a whole number of at least 0, but is '-1'"),
        (HEADER + "0,0,1.5\n", "line 2: last must be a whole number of at least 0"),
        (HEADER + "0,0,100000\n", "line 2: last must be a whole number of at most 99,999"),
        (HEADER + "0,0,²\n", "line 2: last must be a whole number"),
        (HEADER + "0,5,2\n", "line 2: the last round, 2, is before the first, 5. Swap them"),
        (HEADER + "0,0,0\n1,1,1\n5,1,1\n", "the links of all rounds must be connected, but falls into"),
        (b"agent,first,last\n\xff,0,1\n", "cannot be read as CSV"),
    ],
)
def test_bad_files(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        networks.availability(networks.ring(6), path)
    assert message in str(caught.value)


def test_what_else_is_refused(file):
    with pytest.raises(InputError, match="there is no file"):
        networks.availability(networks.ring(6), file.parent / "onlin.csv")
    with pytest.raises(InputError, match="is a directory"):
        networks.availability(networks.ring(6), file.parent)
    with pytest.raises(InputError, match=r"availability\(file\) must be the path of a CSV file, but is 3"):
        networks.make("ring", 6, availability=3)
    network = networks.availability(networks.ring(6), file)
    with pytest.raises(InputError, match="has a timetable already: write both into one file"):
        networks.availability(network, file)
    with pytest.raises(InputError, match="Use a static undirected network"):
        networks.asynchronous(network)
    choco = gs.ChocoSGD(eta=0.1, gamma=0.5, compressor=gs.compressors.top_k(k=1))
    robust = gs.RobustDSGD(eta=0.1, lam=0.5, aggregator=gs.aggregators.clipped(1.0))
    for rule, told in ((choco, "right only on a network that never changes"), (robust, "follow a timetable")):
        with pytest.raises(InputError, match=told):
            gs.simulate(rule, plain.heterogeneous(agents=6)[0], network, steps=1)
    assert dataclasses.replace(network).kind == "timetable"


def test_a_number_of_an_agent_is_of_plain_digits_and_not_too_long(tmp_path):
    for cell in ("9" * 5_000, "\u0663"):
        (tmp_path / "online.csv").write_text(f"agent,first,last\n{cell},0,1\n", encoding="utf-8")
        with pytest.raises(InputError, match=r"line 2: .* is no agent of the network"):
            networks.availability(networks.ring(6), tmp_path / "online.csv")


def test_an_agent_that_is_there_only_between_the_rounds_of_gossip_is_refused(tmp_path):
    (tmp_path / "online.csv").write_text("agent,first,last\n0,1,1\n", encoding="utf-8")
    shifts = networks.availability(networks.ring(6), tmp_path / "online.csv")
    with pytest.raises(InputError, match="must be connected, but falls into 2 components"):
        networks.every(shifts, 2)
    third = networks.every(shifts, 3)
    links = sum(third.matrix(t).toarray() != 0 for t in range(third.mixer.period))
    np.testing.assert_array_equal((networks.ring(6).matrix(0).toarray() != 0), links > 0)


def test_the_activity_of_a_sequence_counts_who_is_there_in_the_turns_of_each(tmp_path):
    (tmp_path / "online.csv").write_text("agent,first,last\n0,0,0\n1,0,1\n", encoding="utf-8")
    shifts = networks.availability(networks.ring(6), tmp_path / "online.csv")
    assert networks.sequence([shifts, networks.star(6)]).activity == 1
    assert networks.sequence([networks.star(6), shifts]).activity == pytest.approx(11 / 12)
