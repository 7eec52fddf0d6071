"""Links hold between the names that they are drawn between, in whatever order a graph lists its nodes."""

import itertools

import hypothesis
import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pytest

import gossamer as gs
from gossamer import networks
from gossamer.core import InputError
from gossamer.engines import simulator
from gossamer.specs.spec import Spec
from tests.commands import gossamer

SITES = ("Aarhus", "Bergen", "Graz", "New York", "Porto", "Turku")
LINKS = (("Turku", "Aarhus"), ("Aarhus", "New York"), ("New York", "Bergen"), ("Turku", "Graz"), ("Graz", "Porto"))
LINKS = (*LINKS, ("Turku", "Porto"))
DRAWN = {frozenset(link) for link in LINKS}

HOLDERS = np.repeat(SITES[::-1], 3)
FEATURES = np.random.default_rng(0).normal(size=(18, 2))
LABELS = np.tile([-1, 1], 9)

WRITERS = {
    "graphml": nx.write_graphml,
    "gml": nx.write_gml,
    "edges": lambda graph, path: path.write_text("".join(f"{a}, {b}\n" for a, b in graph.edges)),
}


def problem(holders=HOLDERS):
    data = gs.data.from_arrays(FEATURES, LABELS, holders=holders)
    return gs.problems.logistic(data, split="column:site", alpha=0.1)


def write_spec(folder, network):
    rows = "".join(f"{a},{b},{label},{site}\n" for (a, b), label, site in zip(FEATURES, LABELS, HOLDERS, strict=True))
    (folder / "sites.csv").write_text("a,b,label,site\n" + rows)
    return {
        "problem": {"name": "logistic", "data": "sites.csv", "split": "column:site"},
        "network": network,
        "run": {"steps": 4},
        "algorithm": [{"name": "d-psgd", "eta": 0.1}],
    }


def links_of(network, names=SITES, t=0):
    """Return the pairs of names that a vector which is 1 at one agent alone reaches in a round."""
    spread = network.mix(np.eye(len(names)), t) > 0
    return {frozenset((names[i], names[j])) for i, j in zip(*np.nonzero(spread), strict=True) if i != j}


@pytest.fixture
def seen(monkeypatch):
    """The networks that runs were given."""
    given = []
    compute = simulator.compute
    monkeypatch.setattr(
        "gossamer.engines.simulator.compute", lambda *args, **named: (given.append(args[2]), compute(*args, **named))[1]
    )
    return given


def simulate(network):
    return gs.simulate(gs.DPSGD(eta=0.1), problem(), network, steps=4, progress=False)


def models(result):
    (state,) = result.states.values()
    return state.tobytes()


def test_agents_are_called_as_the_column_says():
    assert problem().agent_names == SITES
    assert problem(np.repeat([10, 2, 30], 6)).agent_names == ("2", "10", "30")
    assert gs.problems.logistic((FEATURES, LABELS), agents=3).agent_names is None
    assert networks.ring(6).names is None
    assert networks.from_graph(nx.Graph(LINKS)).names == tuple(nx.Graph(LINKS).nodes)


@pytest.mark.parametrize("ending", [None, *WRITERS])
def test_a_run_has_the_links_that_were_drawn(ending, seen, tmp_path):
    graph = nx.Graph(LINKS)
    assert tuple(graph.nodes) != SITES
    given = graph
    if ending:
        given = tmp_path / f"sites.{ending}"
        WRITERS[ending](graph, given)
    result = simulate(given)
    assert links_of(seen[0]) == DRAWN
    assert models(result) == models(simulate(networks.from_graph(graph)))
    assert models(result) == models(simulate(networks.from_graph(graph, nodes=SITES)))
    if ending:
        spec = Spec.of(write_spec(tmp_path, {"name": "file", "file": str(given)}), tmp_path)
        assert links_of(spec.parts().network) == DRAWN


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(
    st.permutations(SITES),
    st.permutations(LINKS),
    st.sampled_from([one for one in networks.WEIGHTS if one != "fdla"]),  # whose solver is exact to 1e-9 only
    st.sampled_from([*WRITERS]),
)
def test_weights_are_the_same_to_the_bit_in_any_order(tmp_path_factory, nodes, links, weights, ending):
    graph, wanted = nx.Graph(), nx.Graph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(links)
    wanted.add_nodes_from(SITES)
    wanted.add_edges_from(LINKS)
    path = tmp_path_factory.mktemp("graph") / f"sites.{ending}"
    WRITERS[ending](graph, path)
    expected = networks.from_graph(wanted, weights).mixing
    from_file = networks.from_file(path, weights=weights, nodes=SITES)
    for network in (from_file, networks.of(networks.from_graph(graph, weights), 6, names=SITES)):
        assert network.names == SITES
        assert np.array_equal(network.mixing, expected)


def test_directed_links_keep_their_direction(tmp_path):
    graph = nx.DiGraph([*itertools.pairwise(SITES[::-1]), (SITES[0], SITES[-1]), ("Porto", "Aarhus")])
    path = tmp_path / "oneway.edges"
    WRITERS["edges"](graph, path)
    ours = [networks.directed(graph, nodes=SITES), networks.from_file(path, directed=True, nodes=SITES)]
    for network in ours:
        for over in ("R", "C"):
            hears = network.matrix(0, over).toarray() > 0
            assert {(SITES[j], SITES[i]) for i, j in zip(*np.nonzero(hears), strict=True) if i != j} == set(graph.edges)


FAULTY = [
    {"links_down": 0.3, "agents_asleep": 0.1},
    {"every": 2},
    {"attack": {"how": "flip", "agents": [0]}},
]


@pytest.mark.parametrize("extra", FAULTY, ids=str)
def test_faults_local_steps_and_attackers_stand_around_the_links_as_drawn(extra, tmp_path):
    WRITERS["edges"](nx.Graph(LINKS), tmp_path / "sites.edges")
    table = {"name": "file", "file": "sites.edges"}
    of_file = Spec.of(write_spec(tmp_path, table | extra), tmp_path).parts().network
    assert set().union(*(links_of(of_file, t=t) for t in range(20))) == DRAWN
    in_turn = {"name": "sequence", "of": [table, {"name": "ring"}]}
    assert links_of(Spec.of(write_spec(tmp_path, in_turn | extra), tmp_path).parts().network) <= DRAWN


def test_the_root_of_a_tree_is_an_agent_of_the_data(tmp_path):
    WRITERS["edges"](nx.Graph(LINKS), tmp_path / "sites.edges")
    table = {"name": "spanning-tree", "of": {"name": "file", "file": str(tmp_path / "sites.edges")}, "root": 5}
    tree = networks.of(table, 6, names=SITES)
    assert links_of(tree) == DRAWN - {frozenset(("Graz", "Porto"))}


def test_a_network_with_rounds_of_its_own_is_refused_in_another_order():
    named = networks.from_graph(nx.Graph(LINKS))
    for network in (networks.failing(named, 0.1), networks.every(named, 2), networks.attacked(named, agents=[0])):
        with pytest.raises(InputError, match=r"from_graph\(graph, nodes=problem\.agent_names\)"):
            simulate(network)
    ordered = networks.from_graph(nx.Graph(LINKS), nodes=SITES)
    assert networks.of(networks.failing(ordered, 0.1), 6, names=SITES).names == SITES
    assert networks.of(networks.asynchronous(named), 6, names=SITES).asynchronous


def test_numbered_nodes_are_positions_among_names():
    graph = nx.Graph([(3, 0), (0, 5), (5, 1), (1, 2), (2, 4)])
    network = networks.of(graph, 6, names=SITES)
    assert links_of(network) == {frozenset((SITES[i], SITES[j])) for i, j in graph.edges}


def test_numbers_that_count_from_one_are_names_where_the_data_say_so(tmp_path):
    path = tmp_path / "sites.edges"
    path.write_text("6 1\n1 4\n4 2\n6 3\n3 5\n")
    ids = tuple("123456")
    assert links_of(networks.of(path, 6, names=ids), ids) == {
        frozenset(pair) for pair in ("61", "14", "42", "63", "35")
    }
    with pytest.raises(InputError, match="Does the file count from 1"):
        networks.from_file(path)


OTHER = "In the graph but not in the data: {}; in the data but not in the graph: {}. "


@pytest.mark.parametrize(
    ("graph", "names", "extra", "missing"),
    [
        (nx.relabel_nodes(nx.Graph(LINKS), {"Graz": "Linz"}), SITES, "Linz", "Graz"),
        (nx.path_graph(3), ("1", "2", "3"), "0", "3"),
        (nx.path_graph(["a", "b"]), ("a", "b", "c"), "none", "c"),
        (nx.path_graph([f"n{k}" for k in range(9)]), ("a",), "n0, n1, n2, n3, n4, n5, n6, 2 more", "a"),
    ],
    ids=["a name", "from 1", "a name less", "many"],
)
def test_other_names_are_refused_with_both_lists(graph, names, extra, missing):
    with pytest.raises(InputError) as told:
        networks.of(graph, len(names), names=names)
    assert OTHER.format(extra, missing) in str(told.value)


def test_a_name_that_is_almost_one_of_the_graph_is_asked_about_and_neither_side_is_blamed():
    """A typo in one row of the data makes an agent more."""
    with pytest.raises(InputError) as told:
        networks.of(nx.path_graph(["Oslo", "Bergen"]), 3, names=("Bergen", "Oslo", "oslo"))
    assert "'oslo' in the data: did you mean 'Oslo'? Use one name for each: mend the data, or the" in str(told.value)


def test_a_run_with_other_names_writes_nothing(tmp_path):
    (tmp_path / "sites.edges").write_text("Aarhus Bergen\nBergen Oslo\n")
    spec = Spec.of(write_spec(tmp_path, {"name": "file", "file": "sites.edges"}), tmp_path)
    (tmp_path / "spec.toml").write_text(spec.toml())
    before = sorted(tmp_path.iterdir())
    done = gossamer("run", "spec.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "not in the data: Oslo;" in " ".join(done.stderr.split())
    assert "not in the graph: Graz, New York, Porto, Turku" in " ".join(done.stderr.split())
    assert sorted(tmp_path.iterdir()) == before
