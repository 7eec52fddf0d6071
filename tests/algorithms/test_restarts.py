"""Rules that say how they go on after agents are lost: they settle where a run of those that are left settles."""

import numpy as np
import pytest

from gossamer import networks
from gossamer.algorithms import ALGORITHMS
from gossamer.core import State, hyperparameters, kinds_of_parts, ranges

ABLE = [name for name, kind in ALGORITHMS.items() if hasattr(kind, "restart")]
ADAPTIVE = {"d-adamw": None, "d-amsgrad": ("u", "vhat"), "gt-adam": ("s", "g"), "gt-nsgdm": ("v", "m")}
"""Rules whose limit, if any, depends on the way; and what they keep with equal sums."""
LEFT = [0, 2, 3]


class Few:
    """Some of four agents, each with f_i(x) = ‖x − b_i‖² a_i / 2, in NumPy; what is compressed arrives whole."""

    def __init__(self, those, network):
        self.a, self.b = np.array([1.0, 1.2, 1.4, 0.8])[those, None], np.arange(8.0).reshape(4, 2)[those] ** 1.5
        self.W = network.mixing

    def gradient(self, *points):
        return self._each(points, lambda x: self.a * (x - self.b))

    full_gradient = gradient

    def gossip(self, *arrays, over="W"):
        return self._each(arrays, lambda a: self.W @ a)

    def gossip_compressed(self, *arrays, by):
        return self._each(arrays, lambda a: (a, self.W @ a))

    def gossip_robust(self, *arrays, by):
        return self.gossip(*arrays)

    def mean(self, *arrays):
        return self._each(arrays, lambda a: np.broadcast_to(a.mean(0), a.shape))

    def ones(self):
        return np.ones((len(self.W), 1))

    def norm(self, a):
        return np.linalg.norm(a, axis=1, keepdims=True)

    def repeat(self, times, step, *arrays):
        for _ in range(times):
            made = step(*arrays)
            arrays = made if isinstance(made, tuple) else (made,)
        return arrays[0] if len(arrays) == 1 else arrays

    def _each(self, arrays, do):
        made = tuple(do(a) for a in arrays)
        return made[0] if len(arrays) == 1 else made


def rule(name):
    kind = ALGORITHMS[name]
    numbers = {key: 0.1 if key in ("eta", "inner") else 0.5 for key in ranges(kind)}
    counted = {key: 2 for key in hyperparameters(kind) if key not in numbers}

    class Any:
        compress = bits = combine = fewest = None

    return kind(**numbers, **counted, **{key: Any() for key in kinds_of_parts(kind)})


def walked(rule, state, agent, rounds):
    for _ in range(rounds):
        state = rule.step(state, agent)
    return state


@pytest.mark.parametrize("name", ABLE)
def test_a_restart_settles_where_those_that_are_left_settle(name):
    made = rule(name)
    four, three = Few([0, 1, 2, 3], networks.ring(4, weights="lazy")), Few(LEFT, networks.path(3, weights="lazy"))
    state = walked(made, made.init(np.zeros((4, 2)), four), four, 7)
    alone = made.restart(State(**{key: value[LEFT] for key, value in state.items()}))
    np.testing.assert_array_equal(alone.x, state.x[LEFT])
    if name in ADAPTIVE:
        after = walked(made, alone, three, 5)
        for key, other in [ADAPTIVE[name]] if ADAPTIVE[name] else []:
            np.testing.assert_allclose(after[key].sum(0), after[other].sum(0), rtol=1e-12)
        return
    fresh = walked(made, made.init(np.zeros((3, 2)), three), three, 500)
    np.testing.assert_allclose(walked(made, alone, three, 500).x, fresh.x, rtol=1e-7, atol=1e-7)


def test_without_a_restart_a_tracker_settles_elsewhere():
    """What the restart is for: the sums of v and m differ by what was lost."""
    made = rule("biased-dmt")
    four, three = Few([0, 1, 2, 3], networks.ring(4, weights="lazy")), Few(LEFT, networks.path(3, weights="lazy"))
    state = walked(made, made.init(np.zeros((4, 2)), four), four, 7)
    left = State(**{key: value[LEFT] for key, value in state.items()})
    best = (three.a * three.b).sum(0) / three.a.sum()
    as_it_is, restarted = (walked(made, s, three, 500).x.mean(0) for s in (left, made.restart(left)))
    np.testing.assert_allclose(restarted, best, rtol=1e-9)
    assert np.linalg.norm(as_it_is - best) > 0.1
