"""Networks are made, read and measured without JAX, which then knows them when someone imports it."""

import subprocess
import sys

import jax
import numpy as np
import pytest

from gossamer import networks
from gossamer.basics.pytrees import taken_apart
from tests.networks.test_networks_registry import NEEDED

ESTIMATED = {"redrawn-erdos-renyi", "sequence", "base-graph", "k-peer-exponential", "ou-equidyn"}
"""Of these the gap is estimated from rounds that are drawn, which takes JAX, where they fail."""

WALK = f"""
import sys
from gossamer import networks
for name in networks.NETWORKS:
    for common in ({{}}, {{"links_down": 0.1, "agents_asleep": 0.2}}, {{"every": 2}}):
        network = networks.make(name, 16, **{NEEDED!r}.get(name, {{}}), **common)
        network.links, network.degrees, network.neighbors(3), network.traffic, network.pace, network.activity
        network.matrix(3, "R"), network.matrix(3, "C"), network.awake(3)
        if not common or not network.mixer.random or name not in {ESTIMATED!r}:
            repr(network), network.gap, network._repr_html_()
        assert "jax" not in sys.modules, (name, common)
print("walked", len(networks.NETWORKS))
"""

LATER = """
import importlib.util, sys
finders = list(sys.meta_path)
from gossamer import compressors, networks
ring, rule = networks.ring(4), compressors.round_to(0.5)
network = networks.failing(networks.sequence([ring, networks.star(4)]), links=0.5)
assert importlib.util.find_spec("jax").loader is not None
assert "jax" not in sys.modules
import jax
import numpy as np
assert sys.meta_path == finders
assert type(jax.__loader__).__name__ == "SourceFileLoader"
assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves((ring, network, rule)))
mixed = jax.jit(lambda network, x: network.mix(x, 1))(network, np.eye(4, dtype=np.float32))
print(np.abs(mixed - network.matrix(1).toarray()).max(), jax.tree.map(lambda leaf: 2 * leaf, rule).step)
"""


def output_of(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_every_network_is_made_and_measured_without_jax():
    """All but the gap that is estimated from rounds that are drawn, many at once."""
    assert output_of(WALK) == ["walked", str(len(networks.NETWORKS))]


def test_networks_that_were_made_before_jax_was_imported_are_pytrees_when_it_is():
    error, step = output_of(LATER)
    assert float(error) < 1e-6
    assert step == "1.0"


@pytest.mark.parametrize("name", ["random-matching", "redrawn-erdos-renyi", "ou-equidyn", "od-equidyn", "star"])
def test_what_is_drawn_on_the_host_is_what_a_program_draws(name):
    """By NumPy and by JAX: who is linked and who sleeps to the bit, and weights to rounding."""
    mix = jax.jit(lambda network, x, t, over: (network.mix(x, t, over), network.awake(t)), static_argnames="over")
    drawn = networks.make(name, 9, **NEEDED.get(name, {}))
    for network in (drawn, networks.failing(drawn, links=0.3, agents=0.2, seed=7)):
        over = "W" if network.stochastic == "doubly" else "C"
        for t in (0, 1, 1000):
            with jax.enable_x64(True):
                program, awake = jax.tree.map(np.asarray, mix(network, np.eye(9), np.int32(t), over))
            host = network.matrix(t, over).toarray()
            assert np.array_equal(host != 0, program != 0)
            np.testing.assert_allclose(host, program, rtol=0, atol=1e-15)
            assert np.array_equal(network.awake(t), awake)


def test_taken_apart_without_jax_a_network_has_the_leaves_that_jax_finds():
    rounds = [networks.make(name, 16, **NEEDED.get(name, {})) for name in ("star", "exponential", "random-matching")]
    network = networks.every(networks.failing(networks.sequence(rounds), links=0.1, agents=0.2), 2)
    leaves, structure = taken_apart(network)
    for mine, theirs in zip(leaves, jax.tree.leaves(network), strict=True):
        assert mine is theirs
    assert structure == taken_apart(jax.tree.map(np.copy, network))[1]
    others = [networks.every(network, 3), networks.sequence(rounds[::-1]), networks.failing(network, agents=0.1)]
    assert all(taken_apart(other)[1] != structure for other in others)
    assert all(isinstance(leaf, np.ndarray) for leaf in leaves)
