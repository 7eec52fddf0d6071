"""What every registered rule must do. A new rule needs one row in `RULES`."""

import jax
import numpy as np
import plain
import pytest
import reference

import gossamer as gs
from gossamer.algorithms import ALGORITHMS
from gossamer.core import ranges
from gossamer.engines import program
from gossamer.engines.block import Block

RULES = {
    # name: (hyper-parameters, the loop to agree with, the state that the tracker tracks)
    "biased-dmt": ({"eta": 0.05, "lam": 0.3}, reference.biased_dmt, "m"),
    "biased-dsgd": ({"eta": 0.05}, reference.d_psgd, None),
    "d-psgd": ({"eta": 0.05}, reference.d_psgd, None),
    "d-psgd-atc": ({"eta": 0.05}, reference.d_psgd_atc, None),
    "dsgdm": ({"eta": 0.02, "beta": 0.8}, reference.dsgdm, None),
    "dsgdm-gossip": ({"eta": 0.02, "beta": 0.8}, reference.dsgdm_gossip, None),
    "gnsd": ({"eta": 0.05}, reference.gnsd, "g"),
    "dsgt": ({"eta": 0.05}, reference.dsgt, "g"),
    "gt-dsgd": ({"eta": 0.05}, reference.gt_dsgd, "g"),
    "momentum-tracking": ({"eta": 0.02, "beta": 0.7}, reference.momentum_tracking, "u"),
    "centralized-sgd": ({"eta": 0.05}, reference.centralized_sgd, None),
    "centralized-momentum": ({"eta": 0.05, "lam": 0.3}, reference.centralized_momentum, None),
}


def rule(name, **changed):
    return ALGORITHMS[name](**(RULES[name][0] | changed))


def test_every_rule_has_a_row():
    assert set(RULES) == set(ALGORITHMS)


@pytest.mark.parametrize("name", RULES)
def test_agrees_with_a_plain_loop(name):
    problem, E = plain.heterogeneous()
    network = plain.irregular()
    oracle = gs.oracles.exact() | gs.oracles.additive_bias(vectors=E)
    result = gs.simulate(rule(name), problem, network, oracle, steps=60, dtype="float64", start=np.ones(5))
    hyper, loop, _ = RULES[name]
    expected = loop(np.ones((8, 5)), network.mixing, plain.gradient_of(problem, E), 60, **hyper)
    np.testing.assert_allclose(result.iterates[name][0], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_keeps_the_dtype(name, dtype):
    problem, _ = plain.heterogeneous()
    block = Block([rule(name)], problem, plain.irregular(), [gs.oracles.exact()], seeds=[0], steps=2, dtype=dtype)
    begun = block.run
    rows = block.advance(0, [1, 2], [True, True])
    assert {leaf.dtype.name for leaf in jax.tree.leaves((begun.state, block.run.state, rows))} == {dtype}


@pytest.mark.parametrize("name", RULES)
def test_compiles_once_for_all_settings(name):
    problem, _ = plain.heterogeneous()
    first, *others = (rule(name, eta=eta) for eta in (0.01, 0.02, 0.03))
    gs.simulate(first, problem, plain.irregular(), steps=9, every=2)
    before = program.advance._cache_size(), program.begin._cache_size()
    gs.simulate(others, problem, plain.irregular(), steps=9, every=4)
    assert (program.advance._cache_size(), program.begin._cache_size()) == before


@pytest.mark.parametrize("name", [name for name, row in RULES.items() if row[2]])
def test_mean_of_the_tracker_is_the_mean_of_what_it_tracks(name):
    """For every doubly stochastic matrix, another in each round."""
    problem, E = plain.heterogeneous()
    rng = np.random.default_rng(1)
    permuted = [np.eye(8)[rng.permutation(8)] for _ in range(120)]
    matrices = [(permuted[3 * t] + permuted[3 * t + 1] + permuted[3 * t + 2]) / 3 for t in range(40)]
    made, tracked = rule(name), RULES[name][2]
    for s in plain.states(made, np.ones((8, 5)), matrices, plain.gradient_of(problem, E), 40):
        np.testing.assert_allclose(made.tracker(s).mean(0), s[tracked].mean(0), atol=1e-12)


@pytest.mark.parametrize("name", RULES)
def test_refuses_hyperparameters_out_of_range(name):
    for key, allowed in ranges(ALGORITHMS[name]).items():
        outside = [-1.0, float("nan"), float("inf"), "0.1", True, None]
        outside += [0.0] if allowed.low_open else []
        outside += [1.5] if allowed.high == 1 else []
        outside += [1.0] if allowed.high == 1 and allowed.high_open else []
        for value in outside:
            with pytest.raises(gs.InputError, match=rf"{key}=…\) must be a number in "):
                rule(name, **{key: value})


@pytest.mark.parametrize("name", RULES)
def test_is_frozen_and_documents_its_equations(name):
    made = rule(name)
    with pytest.raises(AttributeError):
        made.eta = 1.0
    module = __import__(type(made).__module__, fromlist=["_"])
    assert "$$" in module.__doc__
