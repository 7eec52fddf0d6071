"""Networks by name."""

from pathlib import Path

import pytest

from gossamer import networks
from gossamer.core import InputError
from tests.table import table

NEEDED = {
    "erdos-renyi": {"probability": 0.5},
    "random-regular": {"degree": 3},
    "random-geometric": {"radius": 0.5},
    "spanning-tree": {"of": "torus"},
    "hierarchical": {"cliques": 4, "between": {"name": "ring"}},
    "d-equistatic": {"degree": 4},
    "u-equistatic": {"degree": 4},
    "k-peer-exponential": {"degree": 3},
    "base-graph": {"degree": 2},
    "redrawn-erdos-renyi": {"probability": 0.3},
    "directed-erdos-renyi": {"probability": 0.5},
    "sequence": {"of": [{"name": "ring"}, {"name": "torus", "rows": 4}]},
    "file": {"file": str(Path(__file__).with_name("torus16.edges"))},
}
DIRECTED = {"directed-ring", "directed-erdos-renyi"}
PEERS = {"one-peer-exponential", "k-peer-exponential", "base-graph", "od-equidyn", "ou-equidyn"}
CHANGING = {*PEERS, "random-matching", "redrawn-erdos-renyi", "sequence"}
ONE_WAY = {"exponential", "one-peer-exponential", "k-peer-exponential", "d-equistatic", "od-equidyn"}
"""Doubly stochastic and not symmetric: when they fail they are directed."""
FIXED = {"complete", "exponential", "d-equistatic", "u-equistatic"}
"""Those with weights of their own."""
COMMON = (
    "every",
    "links_down",
    "agents_asleep",
    "failure_seed",
    "gilbert_elliott",
    "availability",
    "deadline",
    "attack",
    "asynchronous",
)


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_every_network_can_be_made_by_name(name):
    network = networks.make(name, 16, **NEEDED.get(name, {}))
    assert network.agents == 16
    assert network.changes == (name in CHANGING)
    if name in DIRECTED:
        assert (network.stochastic, network.gap) == ("row+column", None)
    else:
        assert network.stochastic == "doubly"
        assert network.gap > 0
        networks.check_doubly_stochastic(network.matrix(3))


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_every_network_can_fail_and_take_local_steps(name):
    faults = {"every": 2, "links_down": 0.1, "agents_asleep": 0.2, "failure_seed": 5}
    network = networks.make(name, 16, **NEEDED.get(name, {}), **faults)
    base = networks.make(name, 16, **NEEDED.get(name, {}))
    assert network.name == f"every(failing({base.name}, links=0.1, agents=0.2, seed=5), 2)"
    assert network.changes
    assert network.activity == 0.8
    assert network.pace == 0.5
    assert network.traffic == pytest.approx(base.traffic * 0.9 * 0.8**2 / 2)
    directed = name in DIRECTED | ONE_WAY
    assert network.stochastic == ("row+column" if directed else "doubly")


@pytest.mark.parametrize("name", sorted(set(networks.NETWORKS) - FIXED - CHANGING - DIRECTED))
def test_weights_can_be_chosen_by_name(name):
    lazy = networks.make(name, 16, weights="lazy", **NEEDED.get(name, {}))
    assert "weights='lazy'" in lazy.name
    assert lazy.mixing.diagonal().min() >= 0.5


@pytest.mark.parametrize(
    ("agents", "given", "name"),
    [
        (12, {}, "torus(3, 4)"),
        (36, {}, "torus(6, 6)"),
        (20, {}, "torus(4, 5)"),
        (3, {}, "torus(1, 3)"),
        (1, {}, "torus(1, 1)"),
        (12, {"rows": 2}, "torus(2, 6)"),
    ],
)
def test_torus_finds_its_sides(agents, given, name):
    assert networks.make("torus", agents, **given).name == name


@table(
    ("name", "agents", "given", "message"),
    [
        ("rign", 5, {}, "'rign' is not a network; did you mean 'ring'\\? Known: base-graph, complete, d-equistatic"),
        ("erdos_renyi", 5, {}, "did you mean 'erdos-renyi'"),
        (None, 5, {}, "None is not a network"),
        ("ring", 0, {}, "ring: agents must be a whole number of at least 1, but is 0"),
        ("torus", 2.5, {}, "torus: agents must be a whole number of at least 1, but is 2.5"),
        ("ring", 5, {"weight": "lazy"}, "ring has no option 'weight'; did you mean 'weights'"),
        (
            "complete",
            5,
            {"weights": "lazy"},
            "complete has no option 'weights'; choose from agents_asleep, asynchronous, attack, availability",
        ),
        ("erdos-renyi", 5, {"probabilty": 0.5}, "did you mean 'probability'"),
        (
            "erdos-renyi",
            5,
            {},
            "needs the option 'probability', which is missing. It takes: probability, seed, weights",
        ),
        ("torus", 7, {}, "would be a ring, because 7 is prime. Use the ring, or 6 or 8 agents"),
        ("torus", 12, {"rows": 5}, "a torus of 12 agents cannot have 5 rows, which do not divide them evenly"),
        ("torus", 12, {"rows": 0}, r"torus\(rows\) must be a whole number of at least 1, but is 0"),
        ("hypercube", 20, {}, "power of two, but is 20"),
        ("random-geometric", 20, {}, "needs the option 'radius', which is missing. It takes: radius, seed, weights"),
        ("spanning-tree", 20, {}, "needs the option 'of', which is missing"),
        ("base-graph", 4, {"degree": 4}, "below the number of agents, 4, but is 4"),
        ("hierarchical", 4, {"clique": 2}, "did you mean 'cliques'"),
        ("ring", 5, {"links_dwn": 0.1}, "did you mean 'links_down'"),
        ("ring", 5, {"links_down": 1}, r"ring: links_down must be a number in \[0, 1\), but is 1. .* at 1 nobody"),
        ("ring", 5, {"agents_asleep": -0.1}, r"ring: agents_asleep must be a number in \[0, 1\), but is -0.1"),
        (
            "ring",
            5,
            {"links_down": 0.1, "failure_seed": 0.5},
            "ring: failure_seed must be a whole number",
        ),
        ("ring", 5, {"links_down": 0.1, "failure_seed": 2**32}, "failure_seed must be .* at most 4,294,967,295"),
        ("ring", 5, {"every": 0}, "ring: every must be a whole number of at least 1, but is 0"),
        ("redrawn-erdos-renyi", 5, {}, "needs the option 'probability', which is missing"),
        ("sequence", 5, {}, "needs the option 'of', which is missing"),
        ("sequence", 5, {"of": []}, r"sequence: of must be a list of tables, such as .* but is \[\]"),
        ("sequence", 5, {"of": [{"name": "ring"}, {"name": "rign"}]}, r"sequence: of\[1\]: 'rign' is not a network"),
    ],
)
def test_what_is_refused(name, agents, given, message):
    with pytest.raises(InputError, match=message):
        networks.make(name, agents, **given)


def test_options():
    assert networks.options("random-regular") == ("degree", "seed", "weights", *COMMON)
    assert networks.options("complete") == COMMON
    assert networks.options("torus") == ("rows", "weights", *COMMON)
    assert networks.options("sequence") == ("of", *COMMON)
    assert networks.options("file") == ("file", "weights", "directed", *COMMON)
