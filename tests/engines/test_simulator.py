"""The simulator: what it measures, counts, repeats and refuses."""

import math
import time

import jax
import numpy as np
import pytest

import gossamer as gs
from gossamer.engines import agents as stacked
from gossamer.engines import program
from gossamer.engines.block import calls
from tests import compiled, plain, reference

PROBLEM, E = plain.heterogeneous()
NETWORK = plain.irregular()
DMT = gs.BiasedDMT(eta=0.05, lam=0.3)


@pytest.fixture(scope="module")
def digits():
    return gs.problems.logistic("breast-cancer", agents=6, split="dirichlet:0.5", sizes="as-they-fall", seed=3)


def run(*args, **options):
    return gs.simulate(*args, **({"steps": 40, "dtype": "float64", "progress": False} | options))


def test_measures_what_it_says():
    result = run(DMT, PROBLEM, NETWORK, every=10, start=np.ones(5))
    X, T = np.ones((8, 5)), [0, 10, 20, 30, 40]
    g = plain.gradient_of(PROBLEM)
    frame = result.frame()
    assert frame["round"].to_list() == T
    for row, t in zip(frame.iter_rows(named=True), T, strict=True):
        s = plain.states(DMT, X, NETWORK.mixing, g, t)[-1]
        mean = s.x.mean(0)
        assert row["loss"] == pytest.approx(PROBLEM.loss(mean), rel=1e-12)
        assert row["grad_norm_sq"] == pytest.approx((g(np.tile(mean, (8, 1))).mean(0) ** 2).sum(), rel=1e-10)
        assert row["consensus"] == pytest.approx(((s.x - mean) ** 2).sum() / 8, rel=1e-10, abs=1e-28)
        assert row["tracking"] == pytest.approx(((s.v - s.v.mean(0)) ** 2).sum() / 8, rel=1e-10)
        assert row["accuracy"] is None
    worst = max(PROBLEM.loss(x) for x in result.iterates["biased-dmt"][0])
    assert frame["worst_loss"].to_list() == [None] * 4 + [pytest.approx(worst, rel=1e-12)]


def test_rules_without_a_tracker_have_no_tracking_error():
    assert run(gs.DPSGD(eta=0.05), PROBLEM, NETWORK).frame()["tracking"].is_null().all()


def test_counts_queries_and_bytes():
    """The irregular graph has 9 links, so an agent sends to 18/8 others on average."""
    rules = [DMT, gs.GTDSGD(eta=0.05), gs.DPSGD(eta=0.05), gs.CentralizedSGD(eta=0.05), gs.MomentumTracking(0.05, 0.5)]
    result = run(rules, PROBLEM, NETWORK, steps=10)
    vector, degree, reduced = 5 * 8, 18 / 8, 2 * 7 / 8
    paid = {label: result.of(label).select("queries", "bytes_sent").row(-1) for label in result.labels}
    assert paid == {
        "biased-dmt": (11, 10 * 2 * vector * degree),
        "gt-dsgd": (11, (1 + 10 * 2) * vector * degree),
        "d-psgd": (10, 10 * vector * degree),
        "centralized-sgd": (10, 10 * vector * reduced),
        "momentum-tracking": (11, 10 * 2 * vector * degree + vector * reduced),
    }


def test_float32_sends_half_the_bytes():
    sent = [run(DMT, PROBLEM, NETWORK, dtype=dtype).frame()["bytes_sent"][-1] for dtype in ("float32", "float64")]
    assert sent[1] == 2 * sent[0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_repeats_to_the_bit(digits, dtype):
    oracle = gs.oracles.minibatch(8) | gs.oracles.additive_bias(0.01, 0.02, redraw=True)
    first, second = (
        run([DMT, gs.DPSGD(0.1)], digits, gs.networks.ring(6), oracle, seeds=3, every=7, dtype=dtype) for _ in range(2)
    )
    assert first.frame().equals(second.frame())
    for label in first.labels:
        assert np.array_equal(first.iterates[label], second.iterates[label])


def test_how_often_it_measures_changes_nothing_else(digits):
    oracle = gs.oracles.minibatch(4, replace=False)
    often, seldom = (run(DMT, digits, gs.networks.ring(6), oracle, every=every, steps=75) for every in (1, None))
    assert often.frame().height == 76
    assert np.array_equal(often.iterates["biased-dmt"], seldom.iterates["biased-dmt"])


def test_other_algorithms_in_the_list_change_nothing(digits):
    alone = run(DMT, digits, gs.networks.ring(6), gs.oracles.minibatch(8), seeds=2)
    among = run([gs.DPSGD(0.1), DMT], digits, gs.networks.ring(6), gs.oracles.minibatch(8), seeds=2)
    assert np.array_equal(alone.iterates["biased-dmt"], among.iterates["biased-dmt"])


def test_seeds_differ_and_may_be_chosen(digits):
    several = run(DMT, digits, gs.networks.ring(6), gs.oracles.minibatch(8), seeds=3)
    chosen = run(DMT, digits, gs.networks.ring(6), gs.oracles.minibatch(8), seeds=[2])
    x = several.iterates["biased-dmt"]
    assert not np.allclose(x[0], x[1])
    assert several.frame()["seed"].unique().sort().to_list() == [0, 1, 2]
    np.testing.assert_allclose(x[2], chosen.iterates["biased-dmt"][0], rtol=1e-10)


def test_both_dtypes_see_the_same_samples(digits):
    oracle = gs.oracles.minibatch(4) | gs.oracles.additive_bias(0.1, 0.2)
    single, double = (run(DMT, digits, gs.networks.ring(6), oracle, dtype=dtype) for dtype in ("float32", "float64"))
    np.testing.assert_allclose(np.asarray(single.biases), np.asarray(double.biases), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(single.iterates["biased-dmt"], double.iterates["biased-dmt"], rtol=1e-3, atol=1e-5)


def test_all_algorithms_see_the_same_samples(digits):
    rules = [gs.DPSGDATC(0.1), gs.DSGDm(0.1, 0), gs.DSGDmGossip(0.1, 0)]
    result = run(
        rules, digits, gs.networks.ring(6), gs.oracles.minibatch(4) | gs.oracles.additive_bias(0, 1, redraw=True)
    )
    one, two, three = result.iterates.values()
    np.testing.assert_allclose(one, two, rtol=1e-12)
    np.testing.assert_allclose(one, three, rtol=1e-12)


def test_blocks_of_agents_change_no_sample(monkeypatch):
    problem = gs.problems.logistic("breast-cancer", agents=11)
    oracle = gs.oracles.minibatch(4, replace=False) | gs.oracles.additive_bias(0.1, 0.2)
    whole = run(DMT, problem, gs.networks.ring(11), oracle)
    monkeypatch.setattr(stacked, "BLOCK", 4)
    compiled.forgotten()
    blocks = run(DMT, problem, gs.networks.ring(11), oracle)
    compiled.forgotten()
    assert np.array_equal(whole.biases, blocks.biases)
    np.testing.assert_allclose(whole.iterates["biased-dmt"], blocks.iterates["biased-dmt"], rtol=1e-10, atol=1e-12)


def test_schedules_are_read_at_every_round():
    rule = gs.BiasedDMT(eta=lambda t: 0.1 / math.sqrt(1 + t), lam=lambda t: 0.9 if t < 20 else 0.1)
    result = run(rule, PROBLEM, NETWORK, start=np.ones(5))
    X, g, W = np.ones((8, 5)), plain.gradient_of(PROBLEM), NETWORK.mixing
    M = V = g(X)
    for t in range(40):
        X = W @ X - rule.eta(t) * V
        new = (1 - rule.lam(t)) * M + rule.lam(t) * g(X)
        V, M = W @ V + new - M, new
    np.testing.assert_allclose(result.iterates["biased-dmt"][0], X, rtol=1e-12)


def test_a_schedule_out_of_range_is_refused_before_the_run():
    with pytest.raises(gs.InputError, match=r"a schedule, at round 30 must be a number in \(0, ∞\), but is 0"):
        run(gs.DPSGD(eta=lambda t: 30 - t), PROBLEM, NETWORK)


def test_divergence_ends_a_run_at_the_round_it_happens():
    """x grows by exactly −9 a round; the bound is on the mean of ‖x‖²."""
    problem = gs.problems.quadratic([[10.0]], np.zeros((4, 1)))
    result = run(gs.CentralizedSGD(eta=1.0), problem, gs.networks.ring(4), start=[1.0], steps=1000, every=5)
    expected = next(t for t in range(1000) if 81.0**t > program.BOUND)
    frame = result.frame()
    assert frame["round"].to_list() == [*range(0, expected, 5), expected]
    assert frame["status"].to_list() == ["ok"] * (frame.height - 1) + ["diverged"]
    assert frame.row(-1, named=True)["loss"] is None
    assert frame.filter(frame["status"] == "ok")["loss"].is_finite().all()
    assert np.isnan(result.final("loss")["centralized-sgd"]).all()
    assert "1 of 1" in str(result.summary())


def test_a_seed_that_diverges_leaves_the_others_alone():
    """Agent biases of standard deviation 2·10⁸ put some seeds' iterates beyond the bound, and not others'."""
    problem = gs.problems.quadratic([[1.0]], np.zeros((4, 1)))
    kick = gs.oracles.additive_bias(mean=0.0, std=2e8)
    result = run(gs.CentralizedSGD(eta=0.5), problem, gs.networks.ring(4), kick, steps=60, every=10, seeds=8)
    ended = result.frame().group_by("seed", maintain_order=True).last()["status"].to_list()
    size = np.abs(result.mean_bias[:, 0])
    assert set(ended) == {"ok", "diverged"}
    assert max(size[np.array(ended) == "ok"]) < min(size[np.array(ended) == "diverged"])


def test_constant_biases_are_returned_as_drawn():
    oracle = gs.oracles.exact() | gs.oracles.additive_bias(vectors=E)
    result = run(DMT, PROBLEM, NETWORK, oracle, seeds=2)
    np.testing.assert_array_equal(result.biases, np.stack([E, E]))
    np.testing.assert_allclose(np.asarray(result.mean_bias), np.stack([E.mean(0)] * 2))
    assert run(DMT, PROBLEM, NETWORK, gs.oracles.custom(lambda g, x, site: 2 * g)).biases is None
    assert not run(DMT, PROBLEM, NETWORK).biases.any()


def test_ten_thousand_agents_run():
    agents = 10_000
    problem = gs.problems.quadratic(np.eye(2), np.random.default_rng(0).normal(size=(agents, 2)))
    network = gs.networks.ring(agents)
    result = run(gs.BiasedDMT(0.1, 0.5), problem, network, steps=5, start=np.ones(2))
    expected = reference.biased_dmt(np.ones((agents, 2)), network.sparse, plain.gradient_of(problem), 5, 0.1, 0.5)
    np.testing.assert_allclose(result.iterates["biased-dmt"][0], expected, rtol=1e-12)


def test_progress_is_reported_and_may_stop_the_run():
    seen = []
    run([DMT, gs.DPSGD(0.1)], PROBLEM, NETWORK, every=10, progress=lambda *report: seen.append(report))
    assert [name for name, done, total, _ in seen if done == total] == ["biased-dmt", "d-psgd"]
    assert all(loss is None or math.isfinite(loss) for *_, loss in seen)

    def stop(name, done, total, loss):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(DMT, PROBLEM, NETWORK, progress=stop)


def test_calls_are_short_enough_to_interrupt():
    """No call covers more than eight times the rounds of the one before it, so a slow problem is felt in time."""
    t = rounds = spent = 0
    for t, stops, _ in calls([0, 100_000], 0, 100_000):
        rounds = stops[-1] - t
        assert rounds <= max(8, 9 * spent)
        spent = max(spent, rounds)
        time.sleep(rounds * 1e-5)
    assert t + rounds == 100_000


BAD = {
    "no algorithm": (dict(algorithms=[]), "there is no algorithm to run"),
    "not a rule": (dict(algorithms=[3]), "3 is not an algorithm"),
    "a class": (dict(algorithms=gs.BiasedDMT), "is not an algorithm"),
    "twice": (dict(algorithms=[DMT, DMT]), "biased-dmt with eta=0.05, lam=0.3 is given 2 times"),
    "size": (dict(network=gs.networks.ring(5)), r"the problem has 8 agents, but the network ring\(5\) has 5"),
    "problem": (dict(problem=3), "the problem must be made by gossamer.problems"),
    "network": (dict(network=np.eye(8)), "doubly stochastic|agents|network"),
    "steps": (dict(steps=0), "steps must be a whole number of at least 1, but is 0"),
    "steps type": (dict(steps=1.5), "steps must be a whole number"),
    "every": (dict(every=0), "every must be a whole number"),
    "seeds": (dict(seeds=0), "seeds must be a whole number"),
    "negative seed": (dict(seeds=[-1]), "a seed must be a whole number of at least 0"),
    "same seeds": (dict(seeds=[1, 1]), "seeds must be at least one, all different"),
    "dtype": (dict(dtype="float16"), 'dtype must be "float32" or "float64", but is \'float16\''),
    "start": (dict(start=np.ones(4)), "start must be 5 finite numbers"),
    "infinite start": (dict(start=np.full(5, np.inf)), "start must be finite, but is inf at index"),
    "oracle": (dict(oracle=gs.oracles.minibatch(4)), "needs a problem made of samples"),
}


def test_refuses_bad_input():
    for change, message in BAD.values():
        given = {"algorithms": DMT, "problem": PROBLEM, "network": NETWORK, "oracle": None} | change
        with pytest.raises(gs.InputError, match=message):
            run(**given)


def test_compiler_options_are_those_that_this_jaxlib_has():
    options = {"xla_backend_optimization_level": 1, "xla_cpu_no_such_option": True}
    assert program.known_options(options) == {"xla_backend_optimization_level": 1}
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_backend_optimization_level"):
        program.known_options({"xla_backend_optimization_level": "high"})


def test_agents_that_start_apart_do_so_alike_for_all_rules_and_anew_for_each_seed():
    """After one round X¹ = WX⁰ − ηg(X⁰) of quadratics, which X⁰ solves."""
    low, high, eta = -1.0, 3.0, 0.05
    rules = [gs.DPSGD(eta=eta), gs.CentralizedSGD(eta=eta), DMT]
    once = run(rules, PROBLEM, NETWORK, steps=1, seeds=[4, 9], apart=(low, high))
    n, d = PROBLEM.b.shape
    blocks = np.zeros((n, d, n, d))
    for i in range(n):
        blocks[i, :, i, :] = eta * PROBLEM.A[i]
    system = (np.einsum("ij,de->idje", NETWORK.mixing, np.eye(d)) - blocks).reshape(n * d, n * d)
    starts = []
    for seed in (0, 1):
        after = once.iterates["d-psgd"][seed] - eta * np.einsum("nde,ne->nd", PROBLEM.A, PROBLEM.b)
        X = np.linalg.solve(system, after.ravel()).reshape(n, d)
        assert X.min() > low
        assert X.max() < high
        starts.append(X)
        g = plain.gradient_of(PROBLEM)
        np.testing.assert_allclose(once.iterates["biased-dmt"][seed], NETWORK.mixing @ X - DMT.eta * g(X), atol=1e-10)
        central = once.of("centralized-sgd").filter(round=0, seed=[4, 9][seed])
        assert central["consensus"].item() == pytest.approx(((X - X.mean(0)) ** 2).sum() / n, rel=1e-6)
    assert abs(starts[0] - starts[1]).max() > 0.1
    again = run(rules[0], PROBLEM, NETWORK, steps=1, seeds=[9], apart=(low, high))
    np.testing.assert_array_equal(again.iterates["d-psgd"][0], once.iterates["d-psgd"][1])
    # 40 numbers, uniform in [0, 1]: their mean is within 5 standard deviations of ½ (a chance of 6e-7 to fail)
    shares = (np.array(starts) - low) / (high - low)
    assert abs(shares.mean() - 0.5) < 5 * math.sqrt(1 / 12 / shares.size)


@pytest.mark.parametrize("apart", [(1, 0), (0, 0), [1], "0, 1", (0, math.inf)])
def test_ends_of_starts_that_are_no_pair_are_refused(apart):
    with pytest.raises(gs.InputError, match="apart"):
        run(DMT, PROBLEM, NETWORK, apart=apart)
