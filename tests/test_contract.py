"""What every registered rule must do. A new rule needs one row in `RULES`."""

import jax
import numpy as np
import pytest

import gossamer as gs
from gossamer.algorithms import ALGORITHMS
from gossamer.core import WarmStart, hyperparameters, ranges
from gossamer.engines.block import Block
from gossamer.engines.costs import trace
from tests import compiled, further_reference, plain, reference
from tests.table import table

TOP_2 = gs.compressors.top_k(k=2)
CLIPPED = gs.aggregators.clipped(radius=0.1)

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
    "biased-dmt-atc": ({"eta": 0.05, "lam": 0.3}, reference.biased_dmt_atc, "m"),
    "d2": ({"eta": 0.05}, reference.d2, None),
    "exact-diffusion": ({"eta": 0.05}, reference.exact_diffusion, None),
    "extra": ({"eta": 0.05}, reference.extra, None),
    "gt-hsgd": ({"eta": 0.05, "a": 0.3}, reference.gt_hsgd, "d"),
    "gt-storm": ({"eta": 0.05, "a": 0.3}, reference.gt_storm, "d"),
    "decentlam": ({"eta": 0.02, "beta": 0.8}, reference.decentlam, None),
    "qg-dsgdm": ({"eta": 0.02, "beta": 0.8}, reference.qg_dsgdm, None),
    "choco-sgd": ({"eta": 0.05, "gamma": 0.4, "compressor": TOP_2}, reference.choco_sgd, None),
    "direct-dsgd": ({"eta": 0.05, "gamma": 0.4, "compressor": TOP_2}, reference.direct_dsgd, None),
    "beer": ({"eta": 0.02, "gamma": 0.3, "compressor": TOP_2}, reference.beer, "d"),
    "motef": ({"eta": 0.02, "lam": 0.3, "gamma": 0.3, "compressor": TOP_2}, reference.motef, "m"),
    "docom": ({"eta": 0.02, "a": 0.3, "gamma": 0.3, "compressor": TOP_2}, reference.docom, "d"),
    "lead": ({"eta": 0.05, "gamma": 0.5, "compressor": TOP_2, "alpha": 0.9}, reference.lead, None),
    "local-biased-dmt": ({"eta": 0.05, "lam": 0.3, "inner": 0.02, "local": 3}, further_reference.local_biased_dmt, "m"),
    "k-gt": ({"eta": 0.05, "inner": 0.02, "local": 3}, further_reference.k_gt, None),
    "gt-adam": (
        {"eta": 0.02, "beta1": 0.8, "beta2": 0.9, "eps": 1e-3, "cap": 0.5},
        further_reference.gt_adam,
        "g",
    ),
    "d-amsgrad": ({"eta": 0.02, "beta1": 0.8, "beta2": 0.9, "eps": 1e-3}, further_reference.d_amsgrad, None),
    "d-adamw": (
        {"eta": 0.02, "beta1": 0.8, "beta2": 0.9, "eps": 1e-3, "decay": 0.1},
        further_reference.d_adamw,
        None,
    ),
    "gt-nsgdm": ({"eta": 0.02, "lam": 0.3}, further_reference.gt_nsgdm, "m"),
    "gt-sarah": ({"eta": 0.05, "recursions": 2}, further_reference.gt_sarah, "v"),
    "gt-svrg": ({"eta": 0.05, "corrections": 2}, further_reference.gt_svrg, "v"),
    "cedas": ({"eta": 0.05, "gamma": 0.5, "compressor": TOP_2, "alpha": 0.9}, further_reference.cedas, None),
    "relay-sgd": ({"eta": 0.05}, further_reference.relay_sgd, None),
    "frost": ({"eta": 0.004}, further_reference.frost, None),
    "robust-dsgd": ({"eta": 0.05, "lam": 0.3, "aggregator": CLIPPED}, further_reference.robust_dsgd, None),
    "sgp": ({"eta": 0.05, "beta": 0.5}, reference.sgp, None),
    "push-pull": ({"eta": 0.03}, reference.push_pull, "g"),
    "push-diging": ({"eta": 0.03}, reference.push_diging, "g"),
    "push-pull-dmt": ({"eta": 0.03, "lam": 0.3}, reference.push_pull_dmt, "m"),
    "push-diging-dmt": ({"eta": 0.03, "lam": 0.3}, reference.push_diging_dmt, "m"),
    "stem": ({"eta": 0.05, "a": 0.3}, reference.stem, None),
    "centralized-sgd": ({"eta": 0.05}, reference.centralized_sgd, None),
    "centralized-momentum": ({"eta": 0.05, "lam": 0.3}, reference.centralized_momentum, None),
}


class Rounded:
    """A compressor in NumPy, and a coarse one."""

    def compress(self, key, a):
        return np.round(a, 1)

    def bits(self, size, itemsize):
        return 8 * size * itemsize


def rule(name, **changed):
    return ALGORITHMS[name](**(RULES[name][0] | changed))


def network_for(name):
    """The irregular graph; a directed one, a tree, or lazy weights for the rules that need that."""
    kind = ALGORITHMS[name]
    if kind.tree:
        return plain.tree()
    if kind.needs not in ("doubly", "nothing"):
        return plain.directed()
    return plain.irregular("lazy" if kind.lowest is not None else "metropolis")


def test_every_rule_has_a_row():
    assert set(RULES) == set(ALGORITHMS)


@pytest.mark.parametrize("name", RULES)
def test_agrees_with_a_plain_loop(name):
    problem, E = plain.heterogeneous()
    network = network_for(name)
    oracle = gs.oracles.exact() | gs.oracles.additive_bias(vectors=E)
    given = {"steps": 60, "dtype": "float64", "start": np.ones(5), "progress": False}
    result = gs.simulate(rule(name), problem, network, oracle, **given)
    before = compiled.counted()
    gs.simulate(rule(name, eta=0.001), problem, network, oracle, **given)
    assert compiled.counted() == before, "one compilation serves all settings"
    hyper, loop, _ = RULES[name]
    directed = network.stochastic != "doubly"
    W = tuple(network.matrix(0, by).toarray() for by in "RC") if directed else network.mixing
    expected = loop(np.ones((8, 5)), W, plain.gradient_of(problem, E), 60, **hyper)
    assert result.iterates[name].dtype == np.float64
    np.testing.assert_allclose(result.iterates[name][0], expected, rtol=1e-12, atol=1e-12)


WARM = [name for name, kind in ALGORITHMS.items() if isinstance(hyperparameters(kind).get("warm"), WarmStart)]


def test_every_rule_that_tracks_says_how_its_tracker_starts():
    assert {name for name, row in RULES.items() if row[2]} | {"k-gt"} == set(WARM)


@pytest.mark.parametrize("warm", [3, "mean"])
@pytest.mark.parametrize("name", WARM)
def test_agrees_with_a_plain_loop_from_a_warm_start(name, warm):
    problem, E = plain.heterogeneous()
    network = network_for(name)
    directed = network.stochastic != "doubly"
    if directed and warm == "mean":
        with pytest.raises(gs.InputError, match="column-stochastic weights take a tracker to the share of the sum"):
            rule(name, warm=warm)
        return
    oracle = gs.oracles.exact() | gs.oracles.additive_bias(vectors=E)
    result = gs.simulate(rule(name, warm=warm), problem, network, oracle, steps=20, dtype="float64", start=np.ones(5))
    hyper, loop, _ = RULES[name]
    W = tuple(network.matrix(0, by).toarray() for by in "RC") if directed else network.mixing
    expected = loop(np.ones((8, 5)), W, plain.gradient_of(problem, E), 20, **hyper, warm=warm)
    np.testing.assert_allclose(result.iterates[name][0], expected, rtol=1e-12, atol=1e-12)
    cold = loop(np.ones((8, 5)), W, plain.gradient_of(problem, E), 20, **hyper, warm=0)
    assert np.abs(expected - cold).max() > 1e-6


@pytest.mark.parametrize("name", RULES)
def test_keeps_the_dtype(name):
    problem, _ = plain.heterogeneous()
    traced = trace(rule(name), problem, network_for(name), gs.oracles.exact(), "float32")
    state, memory = traced.before, traced.memory
    assert {leaf.dtype.name for leaf in jax.tree.leaves((state, memory))} == {"float32"}


def test_what_is_measured_keeps_the_dtype():
    problem, _ = plain.heterogeneous()
    network, oracles = network_for("biased-dmt"), [gs.oracles.exact()]
    block = Block([rule("biased-dmt")], problem, network, oracles, seeds=[0], steps=9, dtype="float32")
    rows = block.advance(0, [1, 2], [True, True])
    assert {leaf.dtype.name for leaf in jax.tree.leaves((block.run.state, rows))} == {"float32"}


@pytest.mark.parametrize("warm", [0, 3, "mean"])
@pytest.mark.parametrize("name", [name for name, row in RULES.items() if row[2]])
def test_mean_of_the_tracker_is_the_mean_of_what_it_tracks(name, warm):
    """For every doubly stochastic matrix, another in each round, whatever compression does."""
    problem, E = plain.heterogeneous()
    rng = np.random.default_rng(1)
    permuted = [np.eye(8)[rng.permutation(8)] for _ in range(120)]
    matrices = [(permuted[3 * t] + permuted[3 * t + 1] + permuted[3 * t + 2]) / 3 for t in range(40)]
    changed = {"compressor": Rounded()} if "compressor" in RULES[name][0] else {}
    if ALGORITHMS[name].needs == "doubly" or warm != "mean":
        changed["warm"] = warm
    made, tracked = rule(name, **changed), RULES[name][2]
    for s in plain.states(made, np.ones((8, 5)), matrices, plain.gradient_of(problem, E), 40):
        np.testing.assert_allclose(made.tracker(s).mean(0), s[tracked].mean(0), atol=1e-12)


@table("name", RULES)
def test_refuses_hyperparameters_out_of_range(name):
    for key, allowed in ranges(ALGORITHMS[name]).items():
        outside = [-1.0, float("nan"), float("inf"), "0.1", True, None]
        outside += [0.0] if allowed.low_open else []
        outside += [1.5] if allowed.high == 1 else []
        outside += [1.0] if allowed.high == 1 and allowed.high_open else []
        for value in outside:
            with pytest.raises(gs.InputError, match=rf"{key}=…\) must be a number in "):
                rule(name, **{key: value})


@table("name", RULES)
def test_is_frozen_and_documents_its_equations(name):
    made = rule(name)
    with pytest.raises(AttributeError):
        made.eta = 1.0
    module = __import__(type(made).__module__, fromlist=["_"])
    assert "$$" in module.__doc__
