"""Networks are made, read and measured without JAX, which knows them once this package uses it."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gossamer import networks
from gossamer.basics.pytrees import flatten
from gossamer.engines.mixing import awake_mask, mix
from gossamer.networks.drawn import Draws
from tests.networks.test_networks_registry import NEEDED

WALK = f"""
import sys
from gossamer import networks
for name in networks.NETWORKS:
    for common in ({{}}, {{"links_down": 0.1, "agents_asleep": 0.2}}, {{"every": 2}}):
        network = networks.make(name, 16, **{NEEDED!r}.get(name, {{}}), **common)
        network.links, network.degrees, network.neighbors(3), network.traffic, network.pace, network.activity
        network.matrix(3, "R"), network.matrix(3, "C"), network.awake(3)
        repr(network), network.gap, network.disagreement(3)
        assert "jax" not in sys.modules, (name, common)
print("walked", len(networks.NETWORKS))
"""

LATER = """
import sys
from gossamer import compressors, networks
ring, rule = networks.ring(4), compressors.round_to(0.5)
network = networks.failing(networks.sequence([ring, networks.star(4)]), links=0.5)
assert "jax" not in sys.modules
import jax
import numpy as np
from gossamer.engines.mixing import mix
mixed = jax.jit(lambda x: mix(network, x, 1))(np.eye(4, dtype=np.float32))
assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves((ring, network, rule)))
print(np.abs(mixed - network.matrix(1).toarray()).max(), jax.tree.map(lambda leaf: 2 * leaf, rule).step)
"""


PLAIN = """
import sys
import scipy.sparse  # which imports both of its own before SciPy 1.16
before = set(sys.modules)
import gossamer
network = gossamer.networks.every(gossamer.networks.failing(gossamer.networks.ring(20), links=0.1), 2)
repr(gossamer.networks.ring(20)), network.matrix(1), network.degrees, gossamer.networks.one_peer_exponential(8).gap
print(*sorted({"networkx", "scipy.sparse.csgraph", "scipy.sparse.linalg"} & set(sys.modules) - before))
"""


def output_of(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_every_network_is_made_and_measured_without_jax():
    assert output_of(WALK) == ["walked", str(len(networks.NETWORKS))]


def test_networks_in_closed_form_need_neither_networkx_nor_graph_searches_nor_eigenvalue_solvers():
    assert output_of(PLAIN) == []


def test_networks_that_were_made_before_jax_was_imported_are_pytrees_when_one_is_mixed():
    error, step = output_of(LATER)
    assert float(error) < 1e-6
    assert step == "1.0"


def test_draws_are_those_of_the_functions_of_jax():
    key = jax.random.fold_in(jax.random.wrap_key_data(np.array([1, 7], np.uint32), impl="threefry2x32"), 3)
    a = np.arange(3000, dtype=np.int32)
    for xp in (np, jnp):
        draws = Draws.of_round(xp, np.uint32(7), 3)
        np.testing.assert_array_equal(draws.permutation(xp.asarray(a)), jax.random.permutation(key, a))
        np.testing.assert_array_equal(draws.uniform((5, 7)), jax.random.uniform(key, (5, 7), np.float32))
        for low, high in ((0, 1), (1, 2), (0, 24), (1, 70_000), (0, 2**31 - 1)):
            assert draws.between(low, high) == jax.random.randint(key, (), low, high, np.int32)


@pytest.mark.parametrize("name", ["random-matching", "redrawn-erdos-renyi", "ou-equidyn", "od-equidyn", "star"])
def test_what_is_drawn_on_the_host_is_what_a_program_draws(name):
    """By NumPy and by JAX: who is linked and who sleeps to the bit, and weights to rounding."""
    both = jax.jit(
        lambda network, x, t, over: (mix(network, x, t, over), awake_mask(network, t)), static_argnames="over"
    )
    drawn = networks.make(name, 9, **NEEDED.get(name, {}))
    for network in (drawn, networks.failing(drawn, links=0.3, agents=0.2, seed=7)):
        over = "W" if network.stochastic == "doubly" else "C"
        for t in (0, 1, 1000):
            with jax.enable_x64(True):
                program, awake = jax.tree.map(np.asarray, both(network, np.eye(9), np.int32(t), over))
            host = network.matrix(t, over).toarray()
            assert np.array_equal(host != 0, program != 0)
            np.testing.assert_allclose(host, program, rtol=0, atol=1e-15)
            assert np.array_equal(network.awake(t), awake)


def test_flattened_without_jax_a_network_has_the_leaves_that_jax_finds():
    rounds = [networks.make(name, 16, **NEEDED.get(name, {})) for name in ("star", "exponential", "random-matching")]
    network = networks.every(networks.failing(networks.sequence(rounds), links=0.1, agents=0.2), 2)
    leaves, structure = flatten(network)
    for mine, theirs in zip(leaves, jax.tree.leaves(network), strict=True):
        assert mine is theirs
    assert structure == flatten(jax.tree.map(np.copy, network))[1]
    others = [networks.every(network, 3), networks.sequence(rounds[::-1]), networks.failing(network, agents=0.1)]
    assert all(flatten(other)[1] != structure for other in others)
    assert all(isinstance(leaf, np.ndarray) for leaf in leaves)
