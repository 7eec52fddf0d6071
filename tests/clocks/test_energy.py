"""Energy: joules of computing, idling and sending, against closed forms with times that are exact in binary."""

import dataclasses

import numpy as np
import pytest

import gossamer as gs
from gossamer import clocks
from gossamer.specs.spec import Spec
from tests.table import table

LATENCY, QUERY, UPLINK = 0.25, 0.5, 16384.0
WATTS, IDLE, PRICE = 8.0, 2.0, 1 / 1024
N, DIM = 6, 4
CENTRES = np.random.default_rng(0).normal(size=(N, DIM))
PROBLEM = gs.problems.quadratic(np.stack([np.eye(DIM)] * N), CENTRES)
VECTOR = 8.0 * DIM
"""The bytes of a vector in float64."""


def power(watts=WATTS, idle=IDLE, price=PRICE, links=None, **options):
    energy = {"watts": watts, "idle_watts": idle, "joules_per_byte": price}
    links = clocks.uniform(LATENCY, uplink=UPLINK) if links is None else links
    return gs.clock(links, **{"compute": QUERY, "energy": energy} | options)


def frame(rule, network, clock, **options):
    options = {"steps": 8, "every": 1, "dtype": "float64", "progress": False} | options
    return gs.simulate(rule, PROBLEM, network, clock=clock, **options).frame()


def column(rows, name):
    return rows[name].to_numpy()


def test_equal_agents_on_a_complete_graph():
    """D-PSGD sends while it computes: a round takes the longer of both, and each agent idles for the rest of it."""
    rows = frame(gs.DPSGD(eta=0.1), gs.networks.complete(N), power())
    message = LATENCY + (N - 1) * VECTOR / UPLINK
    seconds = max(message, QUERY)
    rounds = np.arange(9)
    np.testing.assert_array_equal(column(rows, "seconds"), rounds * seconds)
    each = WATTS * QUERY + IDLE * (seconds - QUERY) + PRICE * (N - 1) * VECTOR
    np.testing.assert_allclose(column(rows, "joules"), rounds * each, rtol=1e-14)


@pytest.mark.parametrize(
    "rule", [gs.DPSGD(eta=0.1), gs.GTDSGD(eta=0.1), gs.CentralizedSGD(eta=0.1), gs.MomentumTracking(eta=0.1, beta=0.5)]
)
def test_joules_are_those_of_queries_seconds_and_bytes(rule):
    rows = frame(rule, gs.networks.ring(N), power())
    busy, ends = QUERY * column(rows, "queries"), column(rows, "seconds")
    expected = WATTS * busy + IDLE * (ends - busy) + PRICE * column(rows, "bytes_sent")
    np.testing.assert_allclose(column(rows, "joules"), expected, rtol=1e-13)


def test_a_gradient_that_the_model_does_not_need_yet_is_not_paid_for_yet():
    """Biased-DMT's model of round t is there before the gradient at it is begun, in seconds as in joules."""
    rows = frame(gs.BiasedDMT(eta=0.1, lam=0.2), gs.networks.ring(N), power(idle=0.0, price=0.0))
    computed = column(rows, "joules") / (WATTS * QUERY)
    np.testing.assert_array_equal(computed, [1, *range(1, 9)])
    np.testing.assert_array_equal(column(rows, "queries"), 1 + np.arange(9))


def test_a_hub_pays_for_each_of_its_leaves_at_its_own_price():
    prices = np.array([3.0, 1.0, 1.0, 2.0, 1.0, 1.0])
    rows = frame(gs.DPSGD(eta=0.1), gs.networks.star(N), power(0.0, 0.0, prices))
    each = VECTOR * (3.0 * (N - 1) + prices[1:].sum()) / N
    np.testing.assert_allclose(column(rows, "joules"), np.arange(9) * each, rtol=1e-14)


def test_a_slow_agent_draws_its_own_watts_for_longer_while_the_others_idle():
    watts = np.array([32.0, 8.0, 8.0, 8.0, 8.0, 8.0])
    clock = power(watts, 1.0, 0.0, clocks.uniform(0.0), slow={"agents": [0], "factor": 4.0})
    rows = frame(gs.CentralizedSGD(eta=0.1), gs.networks.ring(N), clock)
    each = (32 * 4 * QUERY + 5 * (8 * QUERY + 1.0 * 3 * QUERY)) / N
    np.testing.assert_allclose(column(rows, "joules"), np.arange(9) * each, rtol=1e-14)


def test_an_agent_that_is_away_or_asleep_idles():
    away = power(WATTS, 0.0, 0.0, outages={"chance": 0.5, "seconds": 4.0}, seeds=1)
    rows = frame(gs.DPSGD(eta=0.1), gs.networks.ring(N), away)
    np.testing.assert_allclose(column(rows, "joules"), np.arange(9) * WATTS * QUERY, rtol=1e-14)
    sleepy = gs.networks.failing(gs.networks.ring(N), agents=0.5, seed=1)
    rows = frame(gs.DPSGD(eta=0.1), sleepy, power(WATTS, 0.0, 0.0))
    awake = np.array([sleepy.awake(t).mean() for t in range(8)])
    np.testing.assert_allclose(column(rows, "joules"), np.append(0, awake.cumsum()) * WATTS * QUERY, rtol=1e-14)


def test_the_same_price_for_each_is_one_price_on_networks_that_change():
    for network in (gs.networks.random_matching(N, seed=1), gs.networks.one_peer_exponential(N)):
        rule = gs.DPSGD(eta=0.1)
        one, each = (column(frame(rule, network, power(price=price)), "joules") for price in (PRICE, [PRICE] * N))
        np.testing.assert_allclose(one, each, rtol=1e-12)


def test_directed_messages_are_paid_for_by_those_who_push_them():
    """Agent 0 pushes to all others, each of whom pushes to the next: agent 0 alone pays."""
    import networkx as nx

    links = [(0, k) for k in range(1, N)] + [(k, (k + 1) % N) for k in range(1, N)]
    network = gs.networks.directed(nx.DiGraph(sorted(links)))
    prices = np.eye(N)[0]
    rows = frame(gs.SGP(eta=0.1, beta=0.0), network, power(0.0, 0.0, prices))
    sent = column(rows, "bytes_sent") * N / len(links)  # over one link
    np.testing.assert_allclose(column(rows, "joules"), sent * (N - 1) / N, rtol=1e-14)


def test_energy_changes_no_time_and_computes_nothing_anew():
    plain, powered = gs.clock("internet", compute=clocks.log_normal(0.02, 0.5)), None
    powered = dataclasses.replace(plain, energy=power().energy)
    assert plain.mark == powered.mark
    rows = [frame(gs.DPSGD(eta=0.1), gs.networks.ring(N), clock) for clock in (plain, powered)]
    assert "joules" not in rows[0].columns
    assert rows[0].equals(rows[1].drop("joules"))
    assert "energy: 8 W computing, 2 W idle" in str(powered)


def test_asynchronous_agents_compute_all_the_time_where_messages_take_none():
    network = gs.networks.asynchronous(gs.networks.ring(N))
    clock = power(WATTS, IDLE, 0.0, clocks.uniform(0.0), compute=clocks.log_normal(0.5, 1.0))
    rows = frame(gs.DPSGD(eta=0.1), network, clock, seeds=2)
    np.testing.assert_allclose(column(rows, "joules"), WATTS * column(rows, "seconds"), rtol=1e-12)


@pytest.mark.parametrize("prices", [PRICE, np.arange(N) * PRICE])
def test_asynchronous_joules_by_a_plain_sum_over_events(prices):
    network = gs.networks.asynchronous(gs.networks.complete(N))
    clock = power(WATTS, IDLE, prices, compute=QUERY, slow={"agents": [0], "factor": 8.0})
    rule = gs.BiasedDMT(eta=0.1, lam=0.2)
    rows = frame(rule, network, clock)
    from gossamer.clocks.events import schedule
    from gossamer.engines.costs import trace, work_of

    placed, oracle = dataclasses.replace(network, clock=clock), gs.oracles.exact()
    work = work_of(rule, PROBLEM, placed, oracle, "float64")
    events = schedule(placed, clock, work, 0, 8)
    took = QUERY * clock.factors(N)
    start = trace(rule, PROBLEM, placed, oracle, "float64").start
    assert start.gossiped == start.reduced == 0
    for t, joules in zip(column(rows, "round"), column(rows, "joules"), strict=True):
        until = events.seconds(int(t), N)
        computed, free = np.minimum(took, until), took.copy()  # the first gradient, and when the next one begins
        for agent, end in zip(events.agents, events.ends, strict=True):
            computed[agent] += np.clip(until - free[agent], 0, took[agent])
            free[agent] = end
        computed += np.clip(until - free, 0, took)
        each = np.broadcast_to(prices, N)
        met = events.agents[: t * N], events.partners[: t * N]
        sent = sum(each[one].sum() for one in met) * work.bytes
        expected = (WATTS * computed.sum() + IDLE * (until * N - computed.sum()) + sent) / N
        assert joules == pytest.approx(expected, rel=1e-12)


def test_joules_are_an_axis_a_cost_and_a_column_of_the_summary():
    rules, network = [gs.BiasedDMT(eta=0.1, lam=0.2), gs.DPSGD(eta=0.1)], gs.networks.ring(N)
    options = {"steps": 60, "every": 1, "seeds": 2, "progress": False}
    result = gs.simulate(rules, PROBLEM, network, clock=power(), **options)
    assert result.plot("loss", x="joules").get_xlabel() == "energy of an agent (J)"
    printed = str(result.verdicts("loss"))
    assert "At equal" in printed
    assert "J" in printed.split("is", 1)[0]
    assert "joules" in str(result.summary())
    until = gs.simulate(rules, PROBLEM, network, clock=power(), until={"consensus": 10.0}, **options)
    assert "joules" in until.frame().columns


def test_a_spec_has_the_same_joules():
    text = {
        "problem": {"name": "quadratic", "A": [[1.0, 0.0], [0.0, 1.0]], "b": [[1.0, 0.0]] * N},
        "network": {"name": "ring"},
        "run": {"steps": 8, "every": 1, "dtype": "float64"},
        "clock": {"compute": 0.5, "energy": {"watts": [1.0] * N, "joules_per_byte": 1e-3}},
        "algorithm": [{"name": "d-psgd", "eta": 0.1}],
    }
    setup = Spec.of(text).parts()
    assert setup.clock is not None
    assert str(setup.clock.energy) == "1 W computing, 0 W idle, 0.001 J a byte"


@table(
    ("energy", "told"),
    [
        (8.0, "energy must be a table of watts, joules_per_byte, idle_watts, but is 8.0"),
        ({"wats": 8.0}, "energy has no option 'wats'; did you mean 'watts'"),
        ({"watts": -1.0}, "energy: watts must be a number in [0, 1e+12]"),
        ({"watts": [8.0, -1.0]}, "energy: watts of agent 1 must be a number in"),
        ({"watts": float("nan")}, "energy: watts must be a number in"),
        ({"watts": [[8.0]]}, "energy: watts must be one number, or one for each agent"),
        ({"idle_watts": []}, "energy: idle_watts must be one number, or one for each agent"),
        ({"joules_per_byte": "much"}, "energy: joules_per_byte"),
        ({"joules_per_byte": [1.0] * (N - 1)}, f"has {N - 1} numbers, but there are {N} agents"),
    ],
)
def test_bad_energy_is_refused_before_the_run(energy, told):
    with pytest.raises(gs.core.InputError) as caught:
        gs.simulate(gs.DPSGD(eta=0.1), PROBLEM, "ring", steps=10, clock=gs.clock(energy=energy), progress=False)
    assert told in str(caught.value)
