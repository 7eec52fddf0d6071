"""What is done otherwise where agents are many: blocks, one state at a time, and the worst of those furthest away."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.basics.keys import keys_of
from gossamer.engines import agents as crowd
from gossamer.engines import runs
from gossamer.engines.agents import StackedAgents, World
from gossamer.engines.block import Block
from gossamer.metrics import labels, measuring
from gossamer.oracles import minibatch

DRAW = np.random.default_rng(3)
RULE = gs.BiasedDMT(eta=0.2, lam=0.3)


def problem(agents, d=4, rows=3):
    features = DRAW.normal(size=(agents * rows, d))
    return gs.problems.logistic((features, np.sign(features[:, 0])), agents, split="iid")


@pytest.mark.parametrize("agents", [9, 10, 11, 19, 20, 21, 30, 37])
def test_blocks_give_what_all_agents_at_once_give(agents, monkeypatch):
    def of_agent(number, a, tree):
        return {"sum": a.sum() + number, "pair": (tree["b"] * number, number)}

    a, b = DRAW.normal(size=(2, 3, agents, 4)), DRAW.normal(size=(2, 3, agents))

    def all_runs(block):
        monkeypatch.setattr(crowd, "BLOCK", block)
        single = lambda a, b: crowd.each(of_agent, agents, a, {"b": b})  # noqa: E731
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, jax.jit(jax.vmap(jax.vmap(single)))(a, b))

    jax.tree.map(np.testing.assert_array_equal, all_runs(10), all_runs(agents))


@pytest.mark.parametrize("replace", [True, False])
def test_an_agent_draws_the_same_in_any_block(replace, monkeypatch):
    """Gradients and what the oracle remembers, of blocks of 5 (the last reaches back), are those of all 23 at once."""
    agents, oracle = 23, minibatch(2, replace=replace)
    with jax.enable_x64(True):
        world = jax.tree.map(jnp.asarray, World(problem(agents), gs.networks.ring(agents)))
        keys, x = keys_of([0], agents)[0, 1], jnp.asarray(DRAW.normal(size=(agents, 4)))
        memory = jax.vmap(lambda agent, key: oracle.init(crowd.Site(world.problem, agent, key, jnp.int32(0))))(
            jnp.arange(agents, dtype=jnp.int32), keys
        )

        def asked(block):
            monkeypatch.setattr(crowd, "BLOCK", block)

            @jax.jit
            def queried(world, x, memory):
                stacked = StackedAgents(world, oracle, keys, jnp.int32(4), memory)
                return stacked.gradient(x), stacked.gradient(2 * x), stacked.memory

            return queried(world, x, memory)

        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-15), asked(5), asked(100))


def test_a_call_gives_up_its_state_but_not_what_was_read_of_it():
    common = problem(6)
    block = Block([RULE], common, gs.networks.ring(6), [minibatch(2)], seeds=[0], steps=9, dtype="float64")
    block.advance(0, [3], [False])
    before, held = block.x, block.run.state.m
    copy = before.copy()
    block.advance(3, [9], [False])
    np.testing.assert_array_equal(before, copy)
    assert held.is_deleted()
    at_once = Block([RULE], common, gs.networks.ring(6), [minibatch(2)], seeds=[0], steps=9, dtype="float64")
    at_once.advance(0, [9], [False])
    np.testing.assert_array_equal(at_once.x, block.x)
    assert not np.array_equal(copy, block.x)


def test_where_nothing_is_kept_a_run_is_one_block(monkeypatch):
    given, network = problem(5, d=3), gs.networks.ring(5)
    whole = gs.simulate(RULE, given, network, minibatch(2), steps=20, every=5, seeds=2, progress=False)
    made = []
    monkeypatch.setattr(runs, "SEGMENT", 5)
    monkeypatch.setattr(runs, "Block", lambda *args, **options: made.append(1) or Block(*args, **options))
    cut = gs.simulate(RULE, given, network, minibatch(2), steps=20, every=5, seeds=2, progress=False)
    assert made == [1]
    assert cut.table.equals(whole.table)


def worst_by_hand(given, x, models):
    furthest = np.argsort(-((x - x.mean(0)) ** 2).sum(1), kind="stable")[:models]
    loss = jax.jit(given.mean_loss)
    return max(float(loss(jnp.asarray(model))) for model in x[furthest])


@pytest.mark.parametrize(("work", "models"), [(10**9, 30), (30 * 3 * 4 * 12, 11), (1, 8)])
def test_the_worst_of_many_agents_is_that_of_those_furthest_from_the_mean(work, models, monkeypatch):
    """93 rows are held, three of them copies behind the last; 12 models' worth of 90 rows are 11 of 93."""
    given, x = problem(30), DRAW.normal(size=(30, 4)) * DRAW.exponential(size=(30, 1))
    monkeypatch.setattr(measuring, "MOST_WORK", work)
    assert measuring.count_candidates(given) == models
    with jax.enable_x64(True):
        worst = float(jax.jit(lambda x: measuring.worst_loss(given, x, 7))(jnp.asarray(x)))
        assert worst == pytest.approx(worst_by_hand(given, x, models), rel=1e-12)
        assert worst <= worst_by_hand(given, x, 30) * (1 + 1e-12)


@pytest.mark.parametrize(("agents", "models"), [(20, 20), (10_000, 10_000), (100_000, 1_666)])
def test_small_matrices_of_many_agents_count_for_the_time_that_they_take(agents, models):
    """F of 100,000 quadratics takes 5 ms, so that F at all their models would take minutes at the end of a run."""
    given = gs.problems.quadratic(np.ones(agents), np.zeros((agents, 3)))
    assert measuring.count_candidates(given) == models


def test_a_model_that_is_lost_is_a_candidate(monkeypatch):
    monkeypatch.setattr(measuring, "MOST_WORK", 1)
    x = DRAW.normal(size=(30, 4))
    x[17] = np.nan
    with jax.enable_x64(True):
        assert not np.isfinite(float(measuring.worst_loss(problem(30), jnp.asarray(x), 7)))


def test_a_result_says_of_how_many_agents_its_worst_loss_is(monkeypatch, tmp_path):
    given, network = problem(13), gs.networks.ring(13)
    exact = gs.simulate(RULE, given, network, steps=3, progress=False)
    assert exact.metrics == labels()
    monkeypatch.setattr(measuring, "MOST_WORK", 1)
    jax.clear_caches()  # the limit belongs to the program
    result = gs.simulate(RULE, given, network, steps=3, progress=False)
    label = result.metrics["worst_loss"]
    assert "the 8 of 13 agents furthest from the mean" in label.about
    assert label.text == "loss of the worst agent, among the 8 of 13 agents furthest from the mean"
    with jax.enable_x64(True):
        x = np.asarray(result.iterates["biased-dmt"][0], np.float64)
        assert result.final("worst_loss")["biased-dmt"][0] == pytest.approx(worst_by_hand(given, x, 8), rel=1e-5)
    assert gs.Result.load(result.save(tmp_path / "out")).metrics["worst_loss"] == label
    assert "8 of 13" in result.to_latex("worst_loss")


def test_a_bias_that_all_agents_share_is_held_once():
    given, network = problem(13), gs.networks.ring(13)
    shared = gs.simulate(RULE, given, network, minibatch(2), steps=1, progress=False).biases
    assert shared.shape == (1, 13, 4)
    assert shared.strides[1] == 0
    assert not shared.any()
    own = gs.simulate(
        RULE, given, network, gs.oracles.exact() | gs.oracles.additive_bias(std=0.1), steps=1, progress=False
    ).biases
    assert own.shape == (1, 13, 4)
    assert own.strides[1] != 0
    assert len(np.unique(own[0, :, 0])) == 13
