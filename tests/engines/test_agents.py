"""What a rule may touch: loops, norms and full gradients, in the simulator."""

from dataclasses import dataclass

import numpy as np
import pytest

import gossamer as gs
from tests import plain

PROBLEM, E = plain.heterogeneous()
NETWORK = plain.irregular()
TWO_WAYS = gs.compressors.rand_k(k=2)


@pytest.fixture(scope="module")
def samples():
    """22 rows for 4 agents: 5 or 6 for each."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(22, 3))
    targets = features @ [1.0, -2.0, 0.5] + rng.normal(size=22)
    return gs.problems.least_squares((features, targets), 4, split="iid")


def run(rules, problem, network, oracle, **options):
    return gs.simulate(rules, problem, network, oracle, **({"dtype": "float64", "progress": False} | options))


def looping(name, repeated):
    """A rule that draws samples and compresses in a loop, in Python's or in the agent's."""

    @gs.rule(name)
    class Looping:
        eta: gs.StepSize
        times: gs.Count

        def init(self, x, agent):
            return gs.State(x=x)

        def step(self, s, agent):
            def once(x):
                q, wq = agent.gossip_compressed(x - self.eta * agent.gradient(x), by=TWO_WAYS)
                return x + 0.1 * (wq - q) - self.eta * agent.gradient(x)

            if repeated:
                return gs.State(x=agent.gossip(agent.repeat(self.times, once, s.x)) - self.eta * agent.gradient(s.x))
            x = s.x
            for _ in range(self.times):
                x = once(x)
            return gs.State(x=agent.gossip(x) - self.eta * agent.gradient(s.x))

    return Looping


def test_a_repeated_step_is_a_loop_with_the_same_draws_memory_and_costs():
    """Noise for the draws, and a delay for what the oracle remembers."""
    rules = [looping("unrolled", False)(0.01, 3), looping("repeated", True)(0.01, 3)]
    oracle = gs.oracles.additive_bias(mean=0, std=0.5, redraw=True) | gs.oracles.delay(2)
    result = run(rules, PROBLEM, NETWORK, oracle, steps=5)
    np.testing.assert_allclose(result.iterates["repeated"], result.iterates["unrolled"], rtol=1e-12)
    paid = [result.of(name).select("queries", "bytes_sent", "messages").row(-1) for name in result.labels]
    assert paid[0] == paid[1]
    assert paid[0][0] == 5 * (2 * 3 + 1)


def test_local_steps_cost_a_query_each_and_one_message():
    rules = [gs.LocalBiasedDMT(0.05, 0.3, 0.02, 7), gs.KGT(0.05, 0.02, 7)]
    result = run(rules, PROBLEM, NETWORK, gs.oracles.exact(), steps=10)
    vector, degree, reduced = 5 * 8, 18 / 8, 2 * 7 / 8
    paid = [result.of(name).select("queries", "bytes_sent").row(-1) for name in result.labels]
    assert paid == [(71, 10 * 2 * vector * degree), (71, 10 * 2 * vector * degree + reduced * vector)]


def test_a_full_gradient_is_of_all_samples_and_counts_as_their_batches(samples):
    """5.5 rows an agent, on average, in batches of two."""
    sarah = gs.GTSARAH(eta=0.02, recursions=4)
    result = run(sarah, samples, gs.networks.ring(4), gs.oracles.minibatch(2), steps=10)
    assert result.of("gt-sarah")["queries"].to_list()[-1] == 10 * (5.5 / 2 + 2 * 4)

    @gs.rule("full-descent")
    class FullDescent:
        eta: gs.StepSize

        def init(self, x, agent):
            return gs.State(x=x)

        def step(self, s, agent):
            return gs.State(x=agent.gossip(s.x) - self.eta * agent.full_gradient(s.x))

    biased = gs.oracles.additive_bias(mean=0.1, std=0.2)
    drawn, whole = (
        run(rule, samples, gs.networks.ring(4), source | biased, steps=5)
        for rule, source in ((FullDescent(0.1), gs.oracles.minibatch(1)), (gs.DPSGD(0.1), gs.oracles.exact()))
    )
    np.testing.assert_allclose(drawn.iterates["full-descent"], whole.iterates["d-psgd"], rtol=1e-12)
    assert drawn.of("full-descent")["queries"].to_list()[-1] == 5 * 5.5


def test_full_gradients_now_and_then_remove_the_floor_of_the_noise(samples):
    """At a constant step, with one sample a query: GT-SARAH goes to a stationary point, GT-DSGD stays at a floor."""
    rules = [gs.GTSARAH(eta=0.02, recursions=5), gs.GTDSGD(eta=0.02)]
    result = run(rules, samples, gs.networks.ring(4), gs.oracles.minibatch(1), steps=2000, every=2000)
    left = {name: result.of(name)["grad_norm_sq"].to_list()[-1] for name in result.labels}
    assert left["gt-sarah"] < 1e-20
    assert left["gt-dsgd"] > 1e-6


def test_a_source_without_full_gradients_is_refused():
    @gs.pytree
    @dataclass(frozen=True)
    class Own(gs.oracles.Oracle):
        def check(self, problem):
            pass

        def query(self, site, state, points):
            return tuple(site.problem.local_gradient(site.agent, x) for x in points), state

        def bias(self, site, state):
            return None

    with pytest.raises(gs.InputError, match=r"Own has no gradient over all samples of an agent.*oracles\.minibatch"):
        run(gs.GTSARAH(eta=0.02, recursions=5), PROBLEM, NETWORK, Own(), steps=1)


def test_a_norm_is_of_each_agent_s_vector():
    @gs.rule("unit")
    class Unit:
        eta: gs.StepSize

        def init(self, x, agent):
            return gs.State(x=x)

        def step(self, s, agent):
            g = agent.gradient(s.x)
            return gs.State(x=self.eta * g / agent.norm(g))

    result = run(Unit(eta=0.5), PROBLEM, NETWORK, gs.oracles.exact(), steps=1)
    np.testing.assert_allclose(np.linalg.norm(result.iterates["unit"][0], axis=1), 0.5, rtol=1e-12)
