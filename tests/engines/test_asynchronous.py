"""Asynchronous runs: schedules, waves, and the numbers that they give."""

import re

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import gossamer as gs
from gossamer import clocks
from gossamer.clocks.events import EventSchedule, Work, schedule
from gossamer.clocks.rounds import Query
from gossamer.core import State
from gossamer.engines.asynchronous import make_waves
from gossamer.experiments.running import run
from gossamer.specs.spec import Spec
from tests import plain
from tests.table import table

PROBLEM, _ = plain.heterogeneous()
N = PROBLEM.agents
RING = gs.networks.ring(N)
FREE = gs.networks.asynchronous(RING)
UNEVEN = gs.clock(
    clocks.uniform(0.05, uplink=1e5),
    compute=clocks.log_normal(1.0, 0.5),
    slow={"agents": 2, "factor": 5.0},
    outages={"chance": 0.05, "seconds": 20.0},
)
WORK = Work((Query(1),), 1, 80.0)


def optimum():
    curvature, minima = np.asarray(PROBLEM.A, float), np.asarray(PROBLEM.b, float)
    return np.linalg.solve(curvature.sum(0), np.einsum("nij,nj->i", curvature, minima))


class Pair:
    """The agent that wakes in a plain loop, and its partner's state, which `meet` changes."""

    def __init__(self, partner):
        self.partner = partner

    def meet(self, **arrays):
        means = {name: a if self.partner is None else (a + self.partner[name]) / 2 for name, a in arrays.items()}
        if self.partner is not None:
            self.partner |= means
        return next(iter(means.values())) if len(means) == 1 else tuple(means.values())


def by_events(rule, held, events, gradient, seen=lambda held: None):
    """The states after events (agent, partner), one after the other; a gradient is that at the agent's last event."""
    asked = [state["x"] for state in held]
    for i, j in events:
        after = rule.wake(State(**held[i]), gradient(i, asked[i]), Pair(None if i == j else held[j]))
        held[i] = dict(after)
        asked[i] = held[i]["x"]
        seen(held)
    return held


def started(rule):
    x = np.zeros(PROBLEM.dim)

    def state(i):
        return {"x": x, "m": gradient(i, x), "v": gradient(i, x)} if isinstance(rule, gs.BiasedDMT) else {"x": x}

    return [state(i) for i in range(N)]


def gradient(i, x):
    return np.asarray(PROBLEM.A[i], float) @ (x - np.asarray(PROBLEM.b[i], float))


@pytest.fixture(scope="module")
def long():
    rules = [gs.BiasedDMT(0.03, 0.3), gs.DPSGD(0.03), gs.GNSD(0.02)]
    return gs.simulate(rules, PROBLEM, FREE, steps=3000, every=1000, seeds=2, dtype="float64", clock=UNEVEN)


def test_it_settles_at_the_closed_form_whoever_is_slow_and_ad_psgd_away_from_it(long):
    far = {name: np.abs(x - optimum()).max() for name, x in long.iterates.items()}
    assert far["biased-dmt"] < 1e-10
    assert far["gnsd"] < 1e-10
    assert far["d-psgd"] > 0.1


@pytest.mark.parametrize("rule", [gs.BiasedDMT(0.03, 0.3), gs.DPSGD(0.03)], ids=lambda rule: rule.name)
def test_waves_do_what_one_event_after_the_other_does(rule):
    result = gs.simulate(rule, PROBLEM, FREE, steps=20, seeds=[3], dtype="float64", clock=UNEVEN, start=np.zeros(5))
    work = WORK if rule.name == "biased-dmt" else Work((), 1, 40.0)
    found = schedule(FREE, UNEVEN, work, 3, 20)
    events = zip(found.agents.tolist(), found.partners.tolist(), strict=True)
    held = by_events(rule, started(rule), events, gradient)
    np.testing.assert_allclose(result.iterates[rule.name][0], [state["x"] for state in held], rtol=1e-11, atol=1e-12)
    seconds = result.frame()["seconds"]
    assert [seconds[0], seconds[-1]] == [found.begin, found.ends[-1]]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, N - 1), st.integers(0, N - 1)), max_size=60), st.floats(0.01, 1.0))
def test_the_sum_of_v_is_the_sum_of_m_at_every_event(events, lam):
    def kept(held):
        total = [sum(state[name] for state in held) for name in ("v", "m")]
        np.testing.assert_allclose(*total, atol=1e-9)

    by_events(gs.BiasedDMT(0.01, lam), started(gs.BiasedDMT(0.01, lam)), events, gradient, kept)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 9), st.integers(1, 5), st.randoms(use_true_random=False))
def test_waves_keep_the_order_of_events_that_share_an_agent(agents, rounds, random):
    pairs = np.array([[random.randrange(agents), random.randrange(agents)] for _ in range(agents * rounds)], np.int32)
    numbers = np.arange(len(pairs), dtype=np.int32)
    waves = make_waves([EventSchedule(0.0, pairs[:, 0], pairs[:, 1], numbers, 1.0 * numbers, ())], agents, rounds)
    place = {}
    for wave in range(waves.agents.shape[1]):
        real = waves.agents[0, wave] < agents
        touched = [{i, j} for i, j in zip(waves.agents[0, wave][real], waves.partners[0, wave][real], strict=True)]
        assert sum(len(pair) for pair in touched) == len(set().union(*touched))
        place |= dict.fromkeys(waves.turns[0, wave][real].tolist(), wave)
    assert sorted(place) == numbers.tolist()
    for first in range(len(pairs)):
        assert waves.begins[0, first // agents] <= place[first] < waves.begins[0, first // agents + 1]
        for second in range(first + 1, len(pairs)):
            if {*pairs[first]} & {*pairs[second]}:
                assert place[first] < place[second]


def test_two_agents_of_equal_speed_take_turns():
    """Both wake at 1.5, with half a second for their start; they can meet one at a time, a quarter there and back."""
    pair = gs.networks.asynchronous(gs.networks.path(2))
    clock = gs.clock(clocks.uniform(0.125), compute=0.5)
    found = schedule(pair, clock, Work((Query(1),), 2, 0.0), 0, 3)
    assert found.begin == 0.5
    assert found.agents.tolist() == [0, 1, 0, 1, 0, 1]
    assert found.partners.tolist() == [1, 0, 1, 0, 1, 0]
    assert found.turns.tolist() == [0, 0, 1, 1, 2, 2]
    assert found.ends.tolist() == [1.75, 2.0, 3.0, 3.25, 4.25, 4.5]


def test_slow_agents_wake_less_often_and_more_rounds_change_none_of_the_first():
    clock = gs.clock(clocks.uniform(0.0), compute=clocks.log_normal(1.0, 0.3), slow={"agents": [2], "factor": 4.0})
    found, longer = (schedule(FREE, clock, WORK, 0, rounds) for rounds in (400, 500))
    woken = np.bincount(found.agents, minlength=N)
    assert np.delete(woken, 2).mean() / woken[2] == pytest.approx(4, rel=0.1)
    assert (np.diff(found.ends) >= 0).all()
    for one, other in zip(found[1:5], longer[1:5], strict=True):
        np.testing.assert_array_equal(one, other[: len(one)])
    for one, other in zip(found.work, longer.work, strict=True):
        np.testing.assert_array_equal(one, other[: len(one)])
    near = (found.agents - found.partners) % N
    assert set(near.tolist()) == {1, N - 1}


def test_where_nothing_takes_any_time_nobody_is_left_out():
    found = schedule(FREE, gs.clock(clocks.uniform(0.0), compute=0.0), WORK, 0, 20)
    assert np.bincount(found.agents, minlength=N).tolist() == [20] * N


def test_nobody_meets_an_agent_that_is_away_and_it_comes_back():
    clock = gs.clock(clocks.uniform(0.0), compute=1.0, outages={"chance": 0.3, "seconds": 50.0}, seed=1)
    found = schedule(FREE, clock, WORK, 0, 100)
    asked, gone = dict.fromkeys(range(N), 1.0), {}
    away = clock.absences(0, 0, 5000, N)
    begun = away[0] + 1.0
    gone = {i: (begun[i], begun[i] + away[1, i]) for i in range(N)}
    for i, j, turn, end in zip(*(column.tolist() for column in found[1:5]), strict=True):
        assert i == j or not gone[j][0] <= end < gone[j][1]
        gone[i] = (end, end + away[turn + 2, i])
        asked[i] = end
    assert (found.agents == found.partners).any(), "both neighbours of an agent may be away"
    assert min(np.bincount(found.agents, minlength=N)) > 5


def test_queries_and_bytes_are_counted_by_event(long):
    last = long.of("biased-dmt").filter(long.of("biased-dmt")["round"] == 1000)[0]
    assert last["queries"].item() == 1001
    assert last["bytes_sent"].item() == 1000 * 2 * 2 * 5 * 8
    assert long.of("d-psgd")["messages"].max() == 2 * 3000
    assert long.plot("loss", "seconds").get_xlabel() == "time by the clock (s)"
    assert long.frame()["seconds"].n_unique() > 2 * 3, "every seed has a schedule of its own"


REFUSED = {
    "a rule that cannot": (
        {"algorithms": gs.GTDSGD(0.1)},
        "gt-dsgd waits for all its neighbours in each round, but asynchronous(ring(8)) is asynchronous. With an "
        "asynchronous form there are biased-dmt, d-psgd, gnsd; or use the network without asynchronous",
    ),
    "no clock": ({"clock": None}, "asynchronous(ring(8)) needs a clock, which says who wakes when: give one"),
    "wakes without end": (
        {"clock": gs.clock(compute=0.0, outages={"chance": 0.1, "seconds": 1.0})},
        "would wake without end: give compute a time above 0, or take out the outages",
    ),
    "devices": ({"devices": 1}, "asynchronous(ring(8)) runs on one device: leave devices out"),
}


@table("name", REFUSED)
def test_what_cannot_be_is_refused(name):
    options, message = REFUSED[name]
    whole = {"algorithms": gs.DPSGD(0.1), "problem": PROBLEM, "network": FREE, "steps": 2, "clock": UNEVEN} | options
    with pytest.raises(gs.InputError, match=re.escape(message)):
        gs.simulate(**whole)


@pytest.mark.parametrize(
    "network",
    [gs.networks.directed_ring(4), gs.networks.one_peer_exponential(4), gs.networks.attacked(RING, agents=[1])],
    ids=lambda network: network.name,
)
def test_networks_on_which_two_cannot_take_their_mean_are_refused(network):
    with pytest.raises(gs.InputError, match="needs links that go both ways, stay and are honest"):
        gs.networks.asynchronous(network)


SPEC = {
    "problem": {"name": "quadratic", "A": np.asarray(PROBLEM.A).tolist(), "b": np.asarray(PROBLEM.b).tolist()},
    "network": {"name": "ring", "asynchronous": True},
    "run": {"steps": 30, "every": 10, "seeds": 2, "dtype": "float64"},
    "clock": {"compute": {"kind": "log-normal", "mean": 0.1, "sigma": 0.5}},
    "tuning": {"eta": [0.01, 0.1], "budget": 4, "seeds": 1, "together": 4},
    "algorithm": [{"name": "biased-dmt", "lam": 0.3}],
}


def test_a_spec_tunes_it_stores_it_and_goes_on(tmp_path):
    short = run(Spec.of(SPEC), tmp_path / "out", progress=False)
    longer = SPEC | {"run": SPEC["run"] | {"steps": 40}, "tuning": SPEC["tuning"] | {"steps": 30}}
    whole = run(Spec.of(longer), progress=False)
    assert short.tuning.height == 4
    first = whole.result.frame().filter(whole.result.frame()["round"] <= 30)
    assert first.select("round", "seed", "loss", "seconds").equals(
        short.result.frame().select("round", "seed", "loss", "seconds")
    )
    again = run(Spec.of(SPEC), tmp_path / "out", progress=False)
    assert again.result.frame().equals(short.result.frame())
    other = run(Spec.of(SPEC | {"clock": {"compute": 0.1}}), tmp_path / "out", progress=False)
    assert not other.result.frame()["loss"].equals(short.result.frame()["loss"]), "another clock is another schedule"


def test_a_study_keeps_it(tmp_path):
    options = {"steps": 6, "seeds": 1, "clock": UNEVEN, "out": tmp_path / "study", "progress": False}
    first = gs.study(gs.DPSGD(0.1), PROBLEM, FREE, **options)
    assert gs.study(gs.DPSGD(0.1), PROBLEM, FREE, **options).result.frame().equals(first.result.frame())
