"""Rules that say how they go on after agents are lost: they settle where a run of those that are left settles."""

import numpy as np
import pytest

from gossamer import aggregators, networks
from gossamer.algorithms import ALGORITHMS
from gossamer.core import State, hyperparameters, kinds_of_parts, ranges
from tests.plain import Nothing, NumpyAgents

ABLE = [name for name, kind in ALGORITHMS.items() if hasattr(kind, "restart")]
ADAPTIVE = {"d-adamw": None, "d-amsgrad": ("u", "vhat"), "gt-adam": ("s", "g"), "gt-nsgdm": ("v", "m")}
"""Rules whose limit, if any, depends on the way; and what they keep with equal sums."""
LEFT = [0, 2, 3]


A, B = np.array([1.0, 1.2, 1.4, 0.8])[:, None], np.arange(8.0).reshape(4, 2) ** 1.5
"""f_i(x) = a_i ‖x − b_i‖² / 2."""
PARTS = {"compressor": Nothing(), "aggregator": aggregators.clipped(1e9)}


def some(those, network):
    """Some of four agents, on a network of as many."""
    return NumpyAgents(network.mixing, lambda x: A[those] * (x - B[those]))


def rule(name):
    kind = ALGORITHMS[name]
    numbers = {key: 0.1 if key in ("eta", "inner") else 0.5 for key in ranges(kind)}
    counted = {key: 2 for key in hyperparameters(kind) if key not in numbers}
    return kind(**numbers, **counted, **{key: PARTS[part] for key, part in kinds_of_parts(kind).items()})


FOUR = some([0, 1, 2, 3], networks.ring(4, weights="lazy"))
THREE = some(LEFT, networks.path(3, weights="lazy"))


def walked(rule, state, agent, rounds):
    for _ in range(rounds):
        state = rule.step(state, agent)
    return state


@pytest.mark.parametrize("name", ABLE)
def test_a_restart_settles_where_those_that_are_left_settle(name):
    made = rule(name)
    state = walked(made, made.init(np.zeros((4, 2)), FOUR), FOUR, 7)
    alone = made.restart(State(**{key: value[LEFT] for key, value in state.items()}))
    np.testing.assert_array_equal(alone.x, state.x[LEFT])
    if name in ADAPTIVE:
        after = walked(made, alone, THREE, 5)
        for key, other in [ADAPTIVE[name]] if ADAPTIVE[name] else []:
            np.testing.assert_allclose(after[key].sum(0), after[other].sum(0), rtol=1e-12)
        return
    fresh = walked(made, made.init(np.zeros((3, 2)), THREE), THREE, 500)
    np.testing.assert_allclose(walked(made, alone, THREE, 500).x, fresh.x, rtol=1e-7, atol=1e-7)


def test_without_a_restart_a_tracker_settles_elsewhere():
    """What the restart is for: the sums of v and m differ by what was lost."""
    made = rule("biased-dmt")
    state = walked(made, made.init(np.zeros((4, 2)), FOUR), FOUR, 7)
    left = State(**{key: value[LEFT] for key, value in state.items()})
    best = (A * B)[LEFT].sum(0) / A[LEFT].sum()
    as_it_is, restarted = (walked(made, s, THREE, 500).x.mean(0) for s in (left, made.restart(left)))
    np.testing.assert_allclose(restarted, best, rtol=1e-9)
    assert np.linalg.norm(as_it_is - best) > 0.1
