"""The clock of synchronous rounds: closed forms with times that are exact in binary, and a plain event simulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gossamer as gs
from gossamer import clocks
from gossamer.clocks.rounds import (
    Average,
    Query,
    Receive,
    Reduce,
    Route,
    Routes,
    RuleOperations,
    Send,
    even_ring,
    ring,
    seconds,
)
from tests.clocks.events import Plain, ring_all_reduce
from tests.seldom import seldom

LATENCY, QUERY, BYTES, UPLINK = 0.25, 0.5, 4096.0, 16384.0
"""All powers of two: sums and quotients of them have no rounding."""

FIRST = (Query(1),)
IN_TURN = (Send(BYTES, 1), Receive(1), Query(1))
OVERLAPPED = (Send(BYTES, 1), Query(1), Receive(1))


def binary(**options):
    return gs.clock(clocks.uniform(LATENCY, uplink=UPLINK), compute=QUERY, **options)


def ends(each, network, clock, rounds=8, lead=0, turn=()):
    return seconds(RuleOperations(FIRST, turn, each, lead), network, clock, range(rounds + 1))


def test_a_ring_of_equal_agents():
    n, message = 16, LATENCY + 2 * BYTES / UPLINK
    rounds = np.arange(9)
    in_turn, overlapped = (ends(each, gs.networks.ring(n), binary())[0] for each in (IN_TURN, OVERLAPPED))
    assert in_turn.tolist() == (QUERY + rounds * (message + QUERY)).tolist()
    assert overlapped.tolist() == (QUERY + rounds * max(message, QUERY)).tolist()


def test_a_complete_graph_of_equal_agents():
    n = 17
    message = LATENCY + (n - 1) * BYTES / UPLINK
    got = ends(IN_TURN, gs.networks.complete(n), binary())[0]
    assert got.tolist() == (QUERY + np.arange(9) * (message + QUERY)).tolist()


def test_a_star_waits_for_its_hub_and_the_hub_for_its_leaves():
    """A message goes to the leaves over the hub's uplink, and comes back over a leaf's own: two rounds a cycle."""
    n = 5
    down, up = LATENCY + (n - 1) * BYTES / UPLINK, LATENCY + BYTES / UPLINK
    cycle = down + up + 2 * QUERY
    expected = [QUERY + t // 2 * cycle + t % 2 * (down + QUERY) for t in range(9)]
    assert ends(IN_TURN, gs.networks.star(n), binary())[0].tolist() == expected


def test_a_hub_with_many_leaves_is_bound_by_its_uplink():
    n = 64
    got = ends(OVERLAPPED, gs.networks.star(n), binary(), rounds=40)[0]
    assert np.diff(got)[-1] == (n - 1) * BYTES / UPLINK


@pytest.mark.parametrize(("kind", "n"), [("ring", 8), ("tree", 8), ("tree", 1), ("server", 9)])
def test_reductions_of_equal_agents(kind, n):
    one = BYTES / UPLINK
    closed = {
        "ring": 2 * (n - 1) * (LATENCY + one / n),
        "tree": 2 * (n.bit_length() - 1) * (LATENCY + one),
        "server": 2 * (LATENCY + (n - 1) * one),
    }[kind]
    network = gs.networks.from_matrix(np.eye(1)) if n == 1 else gs.networks.ring(n)
    got = ends((Query(1), Reduce(BYTES)), network, binary(reduce=kind))[0]
    assert got.tolist() == (QUERY + np.arange(9) * (QUERY + closed)).tolist()


def test_a_server_with_a_slow_line_receives_every_message_through_it():
    """Agents send eight times as fast as the server receives, so that all of its 8 messages wait for its line."""
    n, one = 9, BYTES / UPLINK
    links = clocks.matrix(LATENCY * (1 - np.eye(n)), uplink=[UPLINK, *[8 * UPLINK] * (n - 1)])
    got = ends((Query(1), Reduce(BYTES)), gs.networks.ring(n), gs.clock(links, compute=QUERY, reduce="server"))[0]
    assert got.tolist() == (QUERY + np.arange(9) * (QUERY + 2 * (LATENCY + (n - 1) * one))).tolist()


@pytest.mark.parametrize("each", [(Query(64),), (Query(64), Reduce(0.0))], ids=["alone", "together"])
def test_an_agent_fails_once_in_a_piece_of_work_of_many_queries(each):
    n, away = 4, 8.0
    clock = gs.clock(clocks.uniform(0.0), compute=QUERY, outages={"chance": 0.5, "seconds": away}, seeds=3)
    for seed, got in enumerate(seconds(RuleOperations((), (), each), gs.networks.ring(n), clock, range(9))):
        absent = clock.absences(seed, 0, 8, n)
        assert {*absent.ravel()} == {0.0, away}
        worked = 64 * QUERY + absent
        apart = worked.cumsum(0).max(1) if len(each) == 1 else worked.max(1).cumsum()
        assert got.tolist() == [0.0, *apart]


def test_seconds_of_passes_over_all_samples_grow_by_one_outage_each_at_most():
    """GT-SVRG: 5 rounds of 2 pieces of work, 1 of them a pass over all samples, and 4 s of outage for each piece."""
    problem = gs.problems.logistic("breast-cancer", agents=4)
    both = [
        gs.clock(clocks.uniform(0.0), compute=0.0, outages={"chance": chance, "seconds": 4.0})
        for chance in (0.0, 0.999)
    ]
    rule = gs.GTSVRG(eta=0.05, corrections=1)
    never, always = (
        gs.simulate(rule, problem, gs.networks.ring(4), gs.oracles.minibatch(1), steps=5, clock=clock).table["seconds"]
        for clock in both
    )
    assert never[-1] == 0
    assert 36 < always[-1] <= 40


def test_a_model_that_is_a_round_ahead_is_there_a_round_earlier():
    turn = (Send(BYTES, 1), Receive(1))
    got = ends(OVERLAPPED, gs.networks.ring(8), binary(), lead=1, turn=turn)[0]
    message = LATENCY + 2 * BYTES / UPLINK
    assert got.tolist() == [QUERY] + [QUERY + t * message for t in range(1, 9)]


def uneven(n):
    rng = np.random.default_rng(3)
    latency, bandwidth = rng.uniform(0.01, 0.2, (n, n)), rng.uniform(2e4, 2e5, (n, n))
    uplink = rng.uniform(2e4, 1e5, n)
    return clocks.matrix(latency, bandwidth, uplink), latency, bandwidth, uplink


NETWORKS = {
    "ring": gs.networks.ring(6),
    "star": gs.networks.star(6),
    "complete": gs.networks.complete(6),
    "directed": gs.networks.directed_ring(6),
    "one-peer": gs.networks.one_peer_exponential(6),
    "matchings": gs.networks.random_matching(6),
    "local steps": gs.networks.every(gs.networks.ring(6), 2),
}

TWICE = (Send(BYTES, 1), Receive(1), Query(2), Send(2 * BYTES, 2), Query(1), Receive(2))


@pytest.mark.parametrize("name", seldom(NETWORKS, always=["ring", "directed", "matchings"]))
def test_random_times_are_those_of_a_plain_event_simulation(name):
    n, rounds, network = 6, 12, NETWORKS[name]
    links, latency, bandwidth, uplink = uneven(n)
    if name in ("ring", "complete", "one-peer"):
        links = clocks.uniform(0.03, uplink=5e4)
        latency, bandwidth, uplink = np.full((n, n), 0.03), np.full((n, n), np.inf), np.full(n, 5e4)
    clock = gs.clock(
        links,
        compute=clocks.log_normal(0.1, 0.8),
        slow={"agents": [2], "factor": 3.0},
        outages={"chance": 0.2, "seconds": 0.5},
        seeds=2,
    )
    orders = RuleOperations(FIRST, (), TWICE)
    got = seconds(orders, network, clock, range(rounds + 1))
    over = "W" if network.stochastic == "doubly" else "C"

    def neighbours(program, agent):
        held = network.matrix(max(program - 1, 0), over).toarray()[:, agent]
        return [int(i) for i in np.flatnonzero(held) if i != agent]

    for seed in range(2):
        times, absences = (draw(seed, 0, 1 + 2 * rounds, n) for draw in (clock.times, clock.absences))
        plain = Plain(n, times, absences, latency, bandwidth, uplink, neighbours).run([FIRST] + [TWICE] * rounds)
        np.testing.assert_allclose(got[seed], [max(end) for end in plain], rtol=1e-9)


@pytest.mark.parametrize("name", ["ring", "matchings"])
def test_messages_before_round_0_go_over_the_links_of_the_first_rounds(name):
    n, rounds, network = 6, 5, NETWORKS[name]
    links, latency, bandwidth, uplink = uneven(n)
    clock = gs.clock(links, compute=clocks.log_normal(0.1, 0.8), seeds=2)
    got = seconds(RuleOperations((*FIRST, Average(BYTES, 4)), (), TWICE), network, clock, range(rounds + 1))

    def neighbours(program, agent):
        t = program - 1 if program <= 4 else program - 5
        held = network.matrix(max(t, 0)).toarray()[:, agent]
        return [int(i) for i in np.flatnonzero(held) if i != agent]

    programs = [FIRST, *[(Send(BYTES, 1), Receive(1))] * 4, *[TWICE] * rounds]
    for seed in range(2):
        times = clock.times(seed, 0, 1 + 2 * rounds, n)
        plain = Plain(n, times, np.zeros_like(times), latency, bandwidth, uplink, neighbours).run(programs)
        np.testing.assert_allclose(got[seed], [max(end) for end in plain[4:]], rtol=1e-9)


@pytest.mark.parametrize("differ", ["nothing", "latencies", "uplinks"])
def test_random_times_with_a_ring_all_reduce(differ):
    n, rounds = 6, 10
    links, latency, _, _ = uneven(n)
    rate = np.full(n, 5e4) if differ != "uplinks" else np.linspace(1e4, 8e4, n)
    links = clocks.uniform(0.03, uplink=5e4) if differ == "nothing" else clocks.matrix(latency, uplink=rate)
    latency = np.full((n, n), 0.03) if differ == "nothing" else latency
    clock = gs.clock(links, compute=clocks.shifted_exponential(0.05, 0.2), seeds=1)
    got = seconds(RuleOperations(FIRST, (), (Query(1), Reduce(BYTES))), gs.networks.ring(n), clock, range(rounds + 1))[
        0
    ]
    times = clock.times(0, 0, rounds + 1, n)
    ready = times[0]
    assert got[0] == pytest.approx(ready.max(), rel=1e-12)
    for t in range(rounds):
        ready = ring_all_reduce(np.array(ready) + times[t + 1], BYTES, latency, rate)
        assert got[t + 1] == pytest.approx(max(ready), rel=1e-9)


def test_who_sleeps_does_not_compute():
    n = 6
    network = gs.networks.failing(gs.networks.ring(n), agents=0.5, seed=1)
    clock = gs.clock(clocks.uniform(0.0), compute=QUERY)
    got = ends((Query(1),), network, clock)[0]
    awake = np.array([network.awake(t) for t in range(8)])
    assert got.tolist() == [QUERY, *(QUERY + QUERY * awake.cumsum(0).max(1)).tolist()]


def test_more_rounds_do_not_change_the_first(monkeypatch):
    clock = gs.clock("campus", compute=clocks.log_normal(0.1, 0.5), seeds=3)
    few = ends(OVERLAPPED, gs.networks.ring(6), clock, rounds=5)
    monkeypatch.setattr("gossamer.clocks.rounds.ROUNDS", 4)
    assert ends(OVERLAPPED, gs.networks.ring(6), clock, rounds=11)[:, :6].tolist() == few.tolist()


@jax.jit
def both_rings(routes, ready):
    return [kind(routes, BYTES, ready) for kind in (even_ring, ring)]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 4, 7]))
def test_a_ring_of_even_links_needs_no_steps(seed, n):
    """The closed form against the loop of steps, with latencies of their own and agents that come at any time."""
    rng = np.random.default_rng(seed)
    ready, latency = rng.exponential(1.0, n), rng.exponential(rng.choice([0.01, 1.0]), n)
    with jax.enable_x64(True):
        route = Route(jnp.asarray(latency), jnp.full(n, 8.0))
        routes = Routes(route, route, jnp.asarray(8.0), jnp.asarray(0))
        got, stepped = both_rings(routes, jnp.asarray(ready))
    np.testing.assert_allclose(got, stepped, rtol=1e-12)


def test_links_between_all_pairs_that_do_not_fit_are_refused_before_they_are_made():
    everyone = gs.networks.complete(200_000)
    with pytest.raises(
        gs.InputError, match=r"between each two of 200,000 agents needs about 8 TB .* or a sparser graph"
    ):
        ends((), everyone, gs.clock("continents"))
