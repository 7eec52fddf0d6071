"""Aggregators on tensors do what they do in the simulator; attackers are played there alone."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import numpy as np
import pytest
import torch

import gossamer as gs
from gossamer.aggregators import Aggregator, clipped, median, trimmed_mean
from gossamer.torch.agent import combine
from gossamer.torch.optimizer import network_for


@gs.pytree
@dataclass(frozen=True)
class First(Aggregator):
    """The mean of one's own and the first message alone."""

    name: ClassVar[str] = "first"

    def combine(self, own, messages, weights):
        return (own + messages[0]) / 2


@pytest.mark.parametrize("by", [clipped(0.5), clipped(), trimmed_mean(1), median(), First()], ids=str)
@pytest.mark.parametrize("lie", [3.0, np.inf, np.nan])
def test_agrees_with_the_simulator_s_arithmetic(by, lie):
    rng = np.random.default_rng(0)
    own, messages, weights = rng.normal(size=4), rng.normal(size=(3, 4)), np.array([0.2, 0.3, 0.1])
    messages[2] = lie
    with jax.enable_x64(True):
        expected = np.asarray(by.combine(*map(jax.numpy.asarray, (own, messages, weights))))
    found = combine(by, *map(torch.from_numpy, (own, messages, weights)))
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13, atol=1e-13)


def test_who_hears_nothing_that_is_a_number_stays():
    own = torch.ones(4)
    found = combine(clipped(), own, torch.full((2, 4), torch.nan), torch.full((2,), 0.3))
    assert torch.equal(found, own)


def test_a_network_with_attackers_is_refused():
    with pytest.raises(gs.InputError, match="has attackers, whom only the simulator plays: run it there"):
        network_for(gs.networks.attacked(gs.networks.ring(4), agents=[1]), 4)
