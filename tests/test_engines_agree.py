"""One rule object, two engines: the simulator and PyTorch processes have the same iterates."""

import numpy as np
import pytest

from tests.torch_engine import forked, quadratics


@pytest.mark.parametrize("agents", [4, pytest.param(8, marks=pytest.mark.slow)])
def test_simulator_and_processes_have_the_same_iterates(agents):
    ranks = forked.run(quadratics.trained, agents, seconds=240)
    expected = quadratics.simulated(agents) | quadratics.looped(agents)
    for name in ranks[0]:
        found = np.stack([of_rank[name] for of_rank in ranks])
        wanted = expected[name.removesuffix(", in phase")]
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12, err_msg=name)
    assert {name.removesuffix(", in phase") for name in ranks[0]} == set(expected)
