"""Every registered rule runs under PyTorch on the day it is added."""

import numpy as np
import pytest

import gossamer as gs
from gossamer.algorithms import ALGORITHMS
from gossamer.torch.optimizer import network_for
from tests.torch_engine import every_rule, forked, quadratics


@pytest.fixture(scope="module")
def ranks():
    return forked.run(every_rule.trained, 4, seconds=240)


@pytest.mark.parametrize("name", every_rule.CASES)
def test_four_processes_do_what_a_plain_loop_does(name, ranks):
    found = np.stack([of_rank[name][0] for of_rank in ranks])
    np.testing.assert_allclose(found, every_rule.looped(name), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", every_rule.CASES)
def test_a_state_that_is_loaded_goes_on_with_the_same_bits(name, ranks):
    for straight, again, _ in (of_rank[name] for of_rank in ranks):
        assert np.array_equal(straight, again)


@pytest.mark.parametrize("name", every_rule.CASES)
def test_spans_have_the_same_iterates(name, ranks):
    for straight, _, in_spans in (of_rank[name] for of_rank in ranks):
        np.testing.assert_allclose(in_spans, straight, rtol=1e-13, atol=1e-13)


class Posting(quadratics.Stacked):
    """Messages leave at `post` and are read only after the gradient."""

    def post(self, *arrays, late=()):
        sent = [a.copy() for a in arrays]
        return lambda: self.gossip(*sent)


@pytest.mark.parametrize("name", [name for name, kind in ALGORITHMS.items() if hasattr(kind, "ahead")])
def test_the_other_phase_has_the_same_iterates(name):
    rule, network = every_rule.setting(ALGORITHMS[name]), every_rule.network_for(ALGORITHMS[name])
    agents = Posting(4, network, 0)
    start = np.tile(quadratics.problem(4)[3], (4, 1))
    state = rule.init(start, agents)
    # either it is a round on from the start, or it begins with the first
    shifted = rule.shift(state, agents) if hasattr(rule, "shift") else rule.ahead(state, agents)
    for _ in range(30):
        state = rule.step(state, agents)
        np.testing.assert_allclose(shifted.x, state.x, rtol=1e-12, atol=1e-12)
        shifted = rule.ahead(shifted, agents)


def test_a_deadline_of_a_modelled_clock_is_refused():
    network = gs.networks.deadline(gs.networks.ring(4), gs.clock(), 0.3)
    with pytest.raises(gs.InputError, match="closes its rounds by a clock that is a model"):
        network_for(network, 4)
