"""No two draws have the same key: whoever draws, when, for which query, at which stage and what for."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import fold_in, key_data, split

import gossamer as gs
from gossamer.basics import keys
from gossamer.basics.cipher import FAULTS, MEASUREMENT
from gossamer.compressors import Compressor, Errors
from gossamer.engines.block import Block
from gossamer.networks.drawn import Draws
from gossamer.oracles import Oracle, Stage
from gossamer.oracles.measuring import _keys

AGENTS, SEEDS, ROUNDS, QUERIES, STAGES = 3, [0, 1], 2, 3, 2
DIM = 4 + 2 * STAGES
PROBLEM = gs.problems.quadratic(np.eye(DIM), np.zeros((AGENTS, DIM)))


def words(key):
    """A key as two numbers, which float64 holds exactly."""
    return key_data(key).astype(jnp.float64)


@gs.pytree
@dataclass(frozen=True)
class KeySource(Oracle):
    """Its gradient begins with the key of the query, which is a mini-batch's, and with its own."""

    def check(self, problem):
        pass

    def init(self, site):
        return words(self.own_key(site))

    def query(self, site, state, points):
        told = jnp.zeros(DIM).at[:2].set(words(site.key)).at[2:4].set(words(self.own_key(site)))
        return (told,) * len(points), state

    def bias(self, site, state):
        return None


@gs.pytree
@dataclass(frozen=True)
class KeyStage(Stage):
    """Writes its key behind those of what it stands around."""

    inner: Oracle | None = None

    def check(self, problem):
        pass

    def init(self, site):
        return {"inner": self.source.init(site), "own": words(self.own_key(site))}

    def query(self, site, state, points):
        gradients, _ = self.source.query(site, state["inner"], points)
        place = 2 + 2 * self.depth
        return tuple(g.at[place : place + 2].set(words(self.own_key(site))) for g in gradients), state

    def bias(self, site, state):
        return None


@gs.pytree
@dataclass(frozen=True)
class KeyCompressor(Compressor):
    """What arrives is the key, whatever was sent."""

    name = "key"
    needs_key = True

    @property
    def unbiased(self):
        return False

    def compress(self, key, a):
        return jnp.zeros_like(a).at[:2].set(words(key))

    def bits(self, dim, itemsize):
        return 1.0

    def errors(self, dim):
        return Errors(1.0)


@gs.rule("asks-often")
class AsksOften:
    """Several queries and several compressed messages a round; the state holds what they gave."""

    eta: gs.StepSize
    compressor: gs.Compressor

    def init(self, x, agent):
        return self._told(x, agent)

    def step(self, s, agent):
        return self._told(s.x, agent)

    def _told(self, x, agent):
        first = agent.gradient(x)
        (one, _), (two, _) = agent.gossip_compressed(x, x, by=self.compressor)
        asked = [first, *(agent.gradient(x) for _ in range(1, QUERIES))]
        three, _ = agent.gossip_compressed(x, by=self.compressor)
        asked = {f"query{k}": g for k, g in enumerate(asked)}
        return gs.State(x=x, **asked, array0=one, array1=two, array2=three)


def pairs_of(array):
    """The keys that lie along the last axis."""
    numbers = np.asarray(array).reshape(-1, np.shape(array)[-1] // 2, 2).astype(np.uint32)
    return [tuple(key) for row in numbers for key in row.tolist()]


@pytest.fixture(scope="module")
def drawn():
    """Every key of two seeds' runs: what is drawn once, at the start and in each round."""
    network = gs.networks.complete(AGENTS)
    rule, oracle = AsksOften(0.1, KeyCompressor()), KeySource() | KeyStage() | KeyStage()
    block = Block([rule], PROBLEM, network, [oracle], seeds=SEEDS, steps=ROUNDS, dtype="float64")
    rounds = [jax.tree.map(np.array, block.run)]  # a call gives up the arrays of the one before
    for t in range(ROUNDS):
        block.advance(t, [t + 1], [False])
        rounds.append(jax.tree.map(np.array, block.run))
    return rounds


each = jax.vmap(fold_in, in_axes=(None, 0))


def told(many):
    return [key for some in many for key in pairs_of(key_data(some))]


def in_rounds(drawn):
    keys = []
    for run in drawn:
        for name, array in run.state.items():
            keys += pairs_of(array) if name.startswith("query") else []
            keys += pairs_of(array[..., :2]) if name.startswith("array") else []
    return keys


def test_no_two_draws_of_a_run_share_a_key(drawn):
    once = [key for leaf in jax.tree.leaves(drawn[0].memory) for key in pairs_of(leaf)]
    assert len(once) == len(SEEDS) * AGENTS * (1 + STAGES)
    keys = in_rounds(drawn)
    assert len(keys) == len(SEEDS) * AGENTS * (1 + ROUNDS) * (QUERIES * (2 + STAGES) + 3)
    assert len(set(once + keys)) == len(once + keys)


def test_networks_and_measurements_with_the_seed_of_a_run_have_other_keys(drawn):
    """A fault's draw is below the key of its round; a measurement's stages are below the key of its query."""
    own = [Draws.of_round(np, np.uint32(seed), t) for seed in SEEDS for t in range(ROUNDS)]
    below = [draws.fold(FAULTS + depth) for draws in own for depth in (1, 2)]
    rounds, faults = (
        [jax.random.wrap_key_data(jnp.concatenate(draws[1:]), impl=keys.THREEFRY) for draws in level]
        for level in (own, below)
    )
    pairs = [each(key, jnp.arange(AGENTS**2)) for key in faults]
    halves = [split(key) for key in rounds]  # a permutation draws from such
    asked = [_keys(keys.root(MEASUREMENT, seed), (AGENTS, 2, 4)).ravel() for seed in SEEDS]
    stages = [each(key, jnp.arange(STAGES + 1)) for one in asked for key in one]
    others = told([jnp.stack(rounds), jnp.stack(faults), *pairs, *halves, *asked, *stages])
    assert len(set(others)) == len(others)
    # the parents of the run's keys, too: what is folded from them would be shared
    parents = [split(jax.random.key(seed)) for seed in SEEDS]
    agents = [each(part, jnp.arange(AGENTS)) for one in parents for part in one]
    assert {*in_rounds(drawn), *told(parents + agents)}.isdisjoint(others)


def test_the_first_query_draws_from_the_keys_that_the_module_states(drawn):
    """The path of a key is a promise: a stored run can be repeated only while it holds."""
    agent, t, stage = 2, 1, 2
    of_round = fold_in(fold_in(split(jax.random.key(1))[1], agent), t + 1)
    told = np.asarray(drawn[t + 1].state["query0"])[0, 1, agent]
    np.testing.assert_array_equal(told[:2], key_data(of_round))
    np.testing.assert_array_equal(told[2 + 2 * stage :], key_data(fold_in(of_round, stage)))
    second = np.asarray(drawn[t + 1].state["query1"])[0, 1, agent]
    np.testing.assert_array_equal(second[:2], key_data(fold_in(of_round, 2**21 + 1)))
    array = np.asarray(drawn[t + 1].state["array1"])[0, 1, agent]
    np.testing.assert_array_equal(array[:2], key_data(fold_in(of_round, 2**20 + 1)))


@gs.pytree
@dataclass(frozen=True)
class RememberingSource(Oracle):
    """Remembers the key of every query and the one of its own draws."""

    def check(self, problem):
        pass

    def init(self, site):
        return {"asked": jnp.int32(0), "keys": jnp.zeros((MOST, 4), jnp.float64)}

    def query(self, site, state, points):
        told = jnp.concatenate([words(site.key), words(self.own_key(site))])
        keys = state["keys"].at[state["asked"]].set(told)
        return points, {"asked": state["asked"] + 1, "keys": keys}

    def bias(self, site, state):
        return None


INNER, OUTER = 2, 3
MOST = INNER * OUTER * (1 + ROUNDS)


def test_no_two_steps_of_local_training_share_a_key(drawn):
    """Nor do they with the stage around it, or with what is drawn without it, but for the first step of a query."""
    trained = gs.oracles.local_training(INNER, 0.1) | gs.oracles.local_training(OUTER, 0.1)
    oracle = RememberingSource() | trained
    given = [gs.GNSD(eta=0.1)], PROBLEM, gs.networks.complete(AGENTS), [oracle]
    block = Block(*given, seeds=SEEDS, steps=ROUNDS, dtype="float64")
    block.advance(0, [ROUNDS], [False])
    asked, told = (np.asarray(block.run.memory[name]) for name in ("asked", "keys"))
    assert (asked == MOST).all()
    steps = pairs_of(told)
    assert len(steps) == len(set(steps)) == 2 * len(SEEDS) * AGENTS * MOST
    plain = {key for key in steps if key in set(in_rounds(drawn))}
    assert len(plain) == 2 * len(SEEDS) * AGENTS * (1 + ROUNDS)  # those of the first step, which move no sample


@pytest.mark.parametrize(
    ("make", "most", "what"),
    [
        (keys.of_stage, 2**20, "1,048,576 stages"),
        (keys.of_array, 2**20, "1,048,576 compressed arrays"),
        (keys.of_query, 2**32 - 2**21, "4,292,870,144 queries"),
    ],
)
def test_no_number_reaches_those_of_another_purpose(make, most, what):
    make(jax.random.key(0), most - 1)
    with pytest.raises(gs.InputError, match=f"there are keys for {what}, but number {most:,} was asked for"):
        make(jax.random.key(0), most)
