"""Rounds that close after a time, with whoever has come."""

import jax
import numpy as np
import pytest

import gossamer as gs
from gossamer import clocks, networks
from gossamer.core import InputError
from gossamer.engines.mixing import awake_mask, mix
from gossamer.specs.spec import Spec
from tests import plain
from tests.table import table

LATENCY, SECONDS, N = 0.05, 0.3, 10
CLOCK = gs.clock(clocks.uniform(LATENCY), compute=clocks.log_normal(0.2, 0.5))
TIMES = CLOCK.times(0, 0, 1_000, N)
BASES = {
    "ring": networks.ring(N),
    "complete": networks.complete(N),
    "star": networks.star(N),
    "directed": networks.directed_ring(N),
    "matching": networks.random_matching(N),
    "local steps": networks.every(networks.ring(N), 2),
}


@pytest.mark.parametrize("name", BASES)
def test_the_links_of_a_round_are_those_whose_messages_came(name):
    base = BASES[name]
    network = networks.deadline(base, CLOCK, SECONDS)
    x = np.random.default_rng(0).standard_normal((N, 2))
    lost = 0
    for over in ("W",) if network.stochastic == "doubly" else ("R", "C"):
        with jax.enable_x64(True):
            mixed, mask = jax.jit(lambda t, o=over: mix(network, x, t, o)), jax.jit(lambda t: awake_mask(network, t))
            for t in (0, 1, 2, 500, 1_003):
                W, before = network.matrix(t, over).toarray(), base.matrix(t, over).toarray()
                took = TIMES[t % 1_000]
                came = np.maximum.outer(took, took) + LATENCY <= SECONDS
                apart = ~np.eye(N, dtype=bool)
                np.testing.assert_array_equal(W[came & apart], before[came & apart])
                assert not W[~came & apart].any()
                lost += np.count_nonzero(before[~came & apart])
                np.testing.assert_array_equal(network.awake(t), took <= SECONDS)
                np.testing.assert_array_equal(mask(t), took <= SECONDS)
                np.testing.assert_allclose(mixed(t), W @ x, atol=1e-13)
                np.testing.assert_allclose(W.sum(axis=0 if over == "C" else 1), 1, atol=1e-12)
                if over == "W":
                    np.testing.assert_allclose(W.sum(axis=0), 1, atol=1e-12)
    assert lost > 0


def test_a_message_takes_its_bytes_on_the_link_or_on_the_shared_uplink():
    """Queries take 0.25 s: a ring's two messages of 4096 bytes share an uplink, and come after half a second more."""
    compute, size, uplink = 0.25, 4096.0, 16384.0
    clock = gs.clock(clocks.uniform(LATENCY, uplink=uplink), compute=compute)
    whole = compute + LATENCY + 2 * size / uplink
    assert networks.deadline(networks.ring(N), clock, whole, size).traffic == 2
    with pytest.raises(InputError, match="the links of all rounds must be connected"):
        networks.deadline(networks.ring(N), clock, whole - 0.01, size)
    assert networks.deadline(networks.ring(N), clock, compute + LATENCY).traffic == 2
    by_pairs = clocks.matrix(np.full((N, N), LATENCY), bandwidth=np.full((N, N), 8192.0))
    on_links = gs.clock(by_pairs, compute=compute)
    assert networks.deadline(networks.ring(N), on_links, compute + LATENCY + 0.5, size).traffic == 2
    with pytest.raises(InputError, match="the links of all rounds must be connected"):
        networks.deadline(networks.ring(N), on_links, compute + LATENCY + 0.49, size)


def test_a_slow_link_is_down_while_its_agents_are_there():
    latency = np.full((N, N), LATENCY)
    latency[3, 4] = 1.0  # one way is enough
    network = networks.deadline(networks.ring(N), gs.clock(clocks.matrix(latency), compute=0.1), 0.5)
    W = network.matrix(0).toarray()
    assert W[3, 4] == W[4, 3] == 0
    assert W[3, 3] == W[4, 4] == pytest.approx(2 / 3)
    assert network.activity == 1
    assert network.traffic == pytest.approx(2 * 9 / 10)


def test_means_stay_and_trackers_sum_to_the_gradients():
    """DSGT's tracker: the sum of v is that of the last gradients, whoever was late; gossip alone keeps the mean."""
    network = networks.deadline(networks.ring(N), CLOCK, SECONDS)
    problem, _ = plain.heterogeneous(agents=N)
    A, b = np.asarray(problem.A, np.float64), np.asarray(problem.b, np.float64)
    eta = 0.02

    def gradient(x):
        return np.einsum("nde,ne->nd", A, x) - np.einsum("nde,ne->nd", A, b)

    x = np.zeros_like(b)
    g = gradient(x)
    v, mean = g.copy(), x.mean(0)
    for t in range(300):
        W, there = network.matrix(t).toarray(), np.asarray(network.awake(t))[:, None]
        mean = mean - eta * (v * there).mean(0)  # W keeps the mean of all models, and those who sleep keep theirs
        x_next = W @ (x - eta * v * there)
        g_next = np.where(there, gradient(x_next), g)
        x, v, g = x_next, W @ v + g_next - g, g_next
        np.testing.assert_allclose(v.mean(0), g.mean(0), atol=1e-12)
        np.testing.assert_allclose(x.mean(0), mean, atol=1e-12)
    assert np.linalg.norm(g.mean(0)) < np.linalg.norm(gradient(np.zeros_like(b)).mean(0)) / 10


def test_trackers_settle_at_the_exact_optimum():
    network = networks.deadline(networks.ring(N), CLOCK, SECONDS)
    problem, E = plain.heterogeneous(agents=N)
    oracle = gs.oracles.exact() | gs.oracles.additive_bias(vectors=E)
    result = gs.simulate(gs.BiasedDMT(eta=0.02, lam=0.3), problem, network, oracle, steps=12_000, dtype="float64")
    settled = np.tile(problem.solution(E), (N, 1))
    np.testing.assert_allclose(result.iterates["biased-dmt"][0], settled, atol=1e-9)
    queries = result.frame()["queries"][-1]
    assert queries == pytest.approx(1 + 12_000 * (TIMES <= SECONDS).mean())


def test_a_round_lasts_as_long_as_it_says_and_who_is_late_computes_until_then():
    n, compute = 4, 0.25
    clock = gs.clock(clocks.uniform(0.0), compute=compute, energy={"watts": 8.0, "idle_watts": 2.0})
    network = networks.deadline(networks.ring(n), clock, 0.5)
    problem, _ = plain.heterogeneous(agents=n)
    rows = gs.simulate(gs.GTDSGD(eta=0.01), problem, network, steps=8, every=1, clock=clock).frame()
    rounds = np.arange(9)
    np.testing.assert_allclose(rows["seconds"], compute + 0.5 * rounds, rtol=1e-12)
    np.testing.assert_allclose(rows["joules"], 8 * compute + rounds * (8 * compute + 2 * (0.5 - compute)), rtol=1e-12)
    late = gs.clock(clocks.uniform(0.0), compute=1.0, energy={"watts": 8.0, "idle_watts": 2.0})
    rows = gs.simulate(gs.GTDSGD(eta=0.01), problem, network, steps=8, every=1, clock=late).frame()
    np.testing.assert_allclose(rows["joules"], 8 * 1.0 + rounds * 8 * 0.5, rtol=1e-12)


SPEC = {
    "problem": {"name": "quadratic", "A": [[1.0, 0.0], [0.0, 1.0]], "b": [[1.0, 0.0]] * 6},
    "network": {"name": "ring", "deadline": {"seconds": 0.3, "rounds": 50}},
    "clock": {"links": "internet", "compute": {"kind": "log-normal", "mean": 0.1, "sigma": 0.5}},
    "run": {"steps": 8},
    "algorithm": [{"name": "d-psgd", "eta": 0.1}],
}


def test_a_spec_s_deadline_goes_by_its_clock_which_belongs_to_the_run():
    setup, again = Spec.of(SPEC).parts(), Spec.of(SPEC).parts()
    assert setup.network.name == "deadline(ring(6), 0.3 s)"
    assert setup.network.mixer.closes == 0.3
    assert networks.every(setup.network, 2).mixer.closes == 0.3
    assert setup.key == again.key
    other = SPEC | {"clock": SPEC["clock"] | {"seed": 1}}
    assert Spec.of(other).parts().key != setup.key
    with pytest.raises(InputError, match=r"\[network\].* deadline needs a clock.* add a section \[clock\] to the spec"):
        Spec.of({key: value for key, value in SPEC.items() if key != "clock"}).parts()


@table(
    ("values", "message"),
    [
        ({"seconds": 0.0}, "deadline(seconds) must be a number in (0, 1e+09], but is 0.0"),
        ({"seconds": "soon"}, "deadline(seconds) must be a number"),
        ({"bytes": -1.0}, "deadline(bytes) must be a number in [0, 1e+15]"),
        ({"rounds": 0}, "deadline(rounds) must be a whole number"),
        ({"clock": "internet"}, "deadline(clock) must be made by gossamer.clock(…), but is 'internet'"),
        ({"network": "ring"}, "deadline(network) must be a network, but is str"),
        ({"seconds": 1e-3}, "never has its gradient after 0.001 s: it takes"),
        ({"seconds": 1e-3}, f"({N} of {N} agents are always late)"),
        (
            {"clock": gs.clock(compute=0.1, slow={"agents": [7], "factor": 10.0})},
            f"agent 7 never has its gradient after 0.3 s: it takes 1 s at least (1 of {N} agents",
        ),
        ({"clock": gs.clock(clocks.uniform(0.4), compute=0.1)}, "the links of all rounds must be connected"),
        ({"clock": gs.clock(clocks.matrix(np.zeros((3, 3))))}, "have 3 places, but there are 10 agents"),
    ],
)
def test_senseless_deadlines(values, message):
    given = {"network": networks.ring(N), "clock": CLOCK, "seconds": SECONDS} | values
    with pytest.raises(InputError) as caught:
        networks.deadline(**given)
    assert message in str(caught.value)


def test_what_else_is_refused():
    network = networks.deadline(networks.ring(N), CLOCK, SECONDS)
    with pytest.raises(InputError, match="has a timetable already"):
        networks.deadline(network, CLOCK, SECONDS)
    with pytest.raises(InputError, match="Use a static undirected network"):
        networks.asynchronous(network)
    with pytest.raises(InputError, match=r"deadline must be a table of clock, seconds, bytes, rounds, but is 0.3"):
        networks.make("ring", N, deadline=0.3)


def test_who_is_away_until_a_round_closes_computes_nothing_in_it():
    problem, ring = gs.problems.quadratic([[2.0]], np.arange(6.0)[:, None]), networks.ring(6)
    outages = {"chance": 0.5, "seconds": 100.0}
    clock = gs.clock(clocks.uniform(0.0), compute=0.5, outages=outages, energy={"watts": 1.0}, seeds=3)
    closing = networks.deadline(ring, clock, 1.0)
    found = gs.simulate(gs.DPSGD(0.1), problem, closing, steps=40, every=40, clock=clock, progress=False).frame()
    there = [(clock.absences(seed, 0, 40, 6) == 0).mean() for seed in range(3)]
    assert found["joules"][-1] == pytest.approx(40 * 0.5 * np.mean(there), rel=1e-6)


def test_a_centralized_method_closes_no_round_and_loses_no_gradient():
    problem, ring = gs.problems.quadratic([[2.0]], np.arange(6.0)[:, None]), networks.ring(6)
    clock = gs.clock("internet", compute=clocks.log_normal(mean=0.1, sigma=0.8))
    faulty = networks.deadline(ring, clock, 0.2), networks.failing(ring, agents=0.5)
    last = [
        gs.simulate(gs.CentralizedSGD(0.1), problem, network, steps=9, clock=clock, progress=False).frame().row(-1)
        for network in (ring, *faulty)
    ]
    assert last[0] == last[1] == last[2]
