"""Networks by name."""

import pytest

from gossamer import networks
from gossamer.core import InputError

NEEDED = {"erdos-renyi": {"probability": 0.5}, "random-regular": {"degree": 3}}


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_every_network_can_be_made_by_name(name):
    network = networks.make(name, 16, **NEEDED.get(name, {}))
    assert network.agents == 16
    assert network.gap > 0
    networks.check_doubly_stochastic(network.mixing)


@pytest.mark.parametrize("name", sorted(set(networks.NETWORKS) - {"complete", "exponential"}))
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
        (12, {"columns": 2}, "torus(6, 2)"),
        (12, {"rows": 4, "columns": 3}, "torus(4, 3)"),
    ],
)
def test_torus_finds_its_sides(agents, given, name):
    assert networks.make("torus", agents, **given).name == name


@pytest.mark.parametrize(
    ("name", "agents", "given", "message"),
    [
        ("rign", 5, {}, "'rign' is not a network; did you mean 'ring'\\? Known: complete, erdos-renyi"),
        ("erdos_renyi", 5, {}, "did you mean 'erdos-renyi'"),
        (None, 5, {}, "None is not a network"),
        ("ring", 0, {}, "ring: agents must be a whole number of at least 1, but is 0"),
        ("torus", 2.5, {}, "torus: agents must be a whole number of at least 1, but is 2.5"),
        ("ring", 5, {"weight": "lazy"}, "ring has no option 'weight'; did you mean 'weights'"),
        ("complete", 5, {"weights": "lazy"}, "complete has no option 'weights'; It has none."),
        ("erdos-renyi", 5, {"probabilty": 0.5}, "did you mean 'probability'"),
        (
            "erdos-renyi",
            5,
            {},
            "needs the option 'probability', which is missing. It takes: probability, seed, weights",
        ),
        ("torus", 7, {}, "would be a ring, because 7 is prime. Use the ring, or 6 or 8 agents"),
        ("torus", 12, {"rows": 5}, "a torus of 12 agents cannot have 5 rows: rows times columns must be 12"),
        ("torus", 12, {"rows": 2, "columns": 3}, "cannot have 2 rows and 3 columns: rows times columns must be 12"),
        ("torus", 12, {"rows": 0}, r"torus\(rows\) must be a whole number of at least 1, but is 0"),
        ("hypercube", 20, {}, "power of two, but is 20"),
    ],
)
def test_what_is_refused(name, agents, given, message):
    with pytest.raises(InputError, match=message):
        networks.make(name, agents, **given)


def test_options():
    assert networks.options("random-regular") == ("degree", "seed", "weights")
    assert networks.options("complete") == ()
    assert networks.options("torus") == ("rows", "columns", "weights")
