"""Clocks: what they draw, what they refuse, and the column and the axis of seconds."""

import re

import numpy as np
import pytest

import gossamer as gs
from gossamer import clocks
from gossamer.clocks.clock import Constant
from gossamer.experiments.running import run
from gossamer.specs.spec import Spec
from tests import plain
from tests.table import table

INF, NAN = float("inf"), float("nan")


def test_times_have_the_mean_that_is_asked_for():
    for compute in (clocks.log_normal(0.2, 0.8), clocks.shifted_exponential(0.15, 0.2), clocks.constant(0.2)):
        drawn = gs.clock(compute=compute).times(0, 0, 20_000, 5)
        assert drawn.mean() == pytest.approx(0.2, rel=0.01)
    assert gs.clock(compute=clocks.shifted_exponential(0.15, 0.2)).times(0, 0, 20_000, 5).min() >= 0.15


def test_a_query_takes_the_same_whenever_it_is_asked_for():
    clock = gs.clock(compute=clocks.log_normal(0.2, 0.8), outages={"chance": 0.1, "seconds": 2.0})
    whole, away = clock.times(1, 0, 1000, 3), clock.absences(1, 0, 1000, 3)
    np.testing.assert_array_equal(clock.times(1, 250, 20, 3), whole[250:270])
    np.testing.assert_array_equal(clock.absences(1, 250, 20, 3), away[250:270])
    assert not np.array_equal(clock.times(2, 0, 10, 3), whole[:10])
    assert set(np.unique(away)) == {0.0, 2.0}
    assert (away > 0).mean() == pytest.approx(0.1, abs=0.02)


def test_slow_agents_are_at_equal_distances_or_as_named():
    assert gs.clock(slow={"agents": 5, "factor": 4.0}).factors(20).nonzero()[0].size == 20
    assert np.flatnonzero(gs.clock(slow={"agents": 5, "factor": 4.0}).factors(20) == 4).tolist() == [0, 4, 8, 12, 16]
    assert gs.clock(slow={"agents": [3], "factor": 4.0}).factors(4).tolist() == [1, 1, 1, 4]


def test_a_trace_is_replayed_in_its_order(tmp_path):
    (tmp_path / "times.csv").write_text("agent,seconds\n0,1\n1,10\n0,2\n1,20\n0,3\n")
    clock = gs.clock(compute=clocks.trace(tmp_path / "times.csv"))
    times = clock.times(4, 0, 12, 2)
    assert {tuple(np.diff(times[:, 0]))[k : k + 3] for k in (0, 3, 6)} == {tuple(np.diff(times[:, 0]))[:3]}
    assert sorted(set(times[:, 0])) == [1, 2, 3]
    assert sorted(times[:2, 1]) == [10, 20]
    np.testing.assert_array_equal(clock.times(4, 5, 3, 2), times[5:8])


def test_a_trace_of_whole_numbers_may_end_with_another(tmp_path):
    (tmp_path / "times.csv").write_text("agent,seconds\n" + 150 * "0,1\n" + "0,1.5\n")
    assert clocks.trace(tmp_path / "times.csv").times((0,), 0, 151, 1).sum() == 151.5


def test_times_of_a_plug_in_that_are_no_numbers_are_refused():
    class Odd(Constant):
        def times(self, seed, first, count, agents):
            return np.full((count, agents), NAN)

    with pytest.raises(gs.InputError, match="gives seconds that are below 0 or no numbers"):
        gs.clock(compute=Odd(1.0)).times(0, 0, 1, 1)


def test_sites_are_as_far_apart_as_stated():
    links = clocks.regions("continents", places=["london", "tokyo", "london"], uplink=1e6)
    latency, _ = links.between([0, 0, 1], [1, 2, 0], 3)
    assert latency.tolist() == pytest.approx([0.1215, 0.000045, 0.122])
    seven = clocks.regions().group_agents(14)
    assert seven.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]


BAD = {
    "no bandwidth": (lambda: clocks.uniform(0.1, bandwidth=0.0), r"bandwidth=…\) must be a number in \[0.001, 1e\+18"),
    "no uplink": (lambda: clocks.uniform(0.1, uplink=[1e6, 0.0]), r"uplink=…\) of agent 1 must be .* but is 0.0"),
    "a time before": (lambda: clocks.uniform(-1.0), r"latency=…\) must be a number in .* but is -1.0"),
    "a matrix with NaN": (
        lambda: clocks.matrix([[0, NAN], [1, 0]]),
        r"from agent 0 to agent 1 must be a number in .* but is nan. It is a number of seconds",
    ),
    "a wide matrix": (lambda: clocks.matrix([[0, 1]]), r"must be a square matrix, a row for each agent"),
    "a query before": (lambda: gs.clock(compute=-1.0), r"seconds=…\) must be a number in .* but is -1.0"),
    "a query of nothing": (lambda: gs.clock(compute=NAN), "but is nan"),
    "an endless query": (lambda: gs.clock(compute=INF), "but is inf"),
    "a mean below the least": (lambda: clocks.shifted_exponential(2, 1), r"the mean must be at least .* Swap them"),
    "another reduction": (lambda: gs.clock(reduce="rng"), "'rng' is not known; did you mean 'ring'"),
    "other links": (lambda: gs.clock("internett"), "did you mean 'internet'"),
    "a list for links": (lambda: gs.clock([1]), "must be a preset's name or made by gossamer.clocks"),
    "slow, without": (
        lambda: gs.clock(slow={"agents": 2}),
        "slow needs the option 'factor', which is missing. It takes: agents, factor",
    ),
    "slow, misspelt": (lambda: gs.clock(slow={"agent": 2}), "slow has no option 'agent'; did you mean 'agents'"),
    "slow backwards": (lambda: gs.clock(slow={"agents": 1, "factor": 0.0}), "factor must be a number in"),
    "always away": (lambda: gs.clock(outages={"chance": 1.0, "seconds": 1}), r"chance must be a number in \[0, 1\)"),
    "no seeds": (lambda: gs.clock(seeds=0), "seeds must be a whole number of at least 1"),
    "no such site": (lambda: clocks.regions(places=["lodnon"]), "no site 'lodnon'; did you mean 'london'"),
}


@table("name", BAD)
def test_bad_clocks_are_refused(name):
    make, message = BAD[name]
    with pytest.raises(gs.InputError, match=message):
        make()


FILES = {
    "a missing agent": ("agent,seconds\n0,1\n2,1\n", "has times of agent 2, but none of agent 1: give a line"),
    "a far agent": ("agent,seconds\n0,1\n1,1\n30000000,1\n", "has times of agent 30000000, but none of agent 2"),
    "too few": ("agent,seconds\n0,1\n1,1\n", "has none of agent 2, but there are 3 agents, 0 … 2: give a line"),
    "too many": ("agent,seconds\n0,1\n1,1\n2,1\n3,1\n", "has times of agent 3, but there are 3 agents"),
    "a time before": ("agent,seconds\n0,1\n1,-1\n", "line 3: seconds must be a number in .* but is -1"),
    "no number": ("agent,seconds\n0,1\n1,fast\n", "line 3: seconds must be a number in .* but is 'fast'"),
    "no columns": ("a,b\n0,1\n", 'with the columns agent, seconds: "agent" not found'),
    "no agents": ("agent,seconds\nx,1\n", "the column agent must be whole numbers from 0 on"),
}


@table("name", FILES)
def test_bad_traces_are_refused(name, tmp_path):
    text, message = FILES[name]
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(gs.InputError, match=message):
        gs.clock(compute=clocks.trace(tmp_path / "t.csv")).check(3)


@table(
    ("clock", "message"),
    [
        ("internett", "did you mean 'internet'"),
        (3, "must be made by gossamer.clock"),
        (gs.clock(slow={"agents": 9, "factor": 2.0}), "slow: agents must be a whole number of at most 8"),
        (gs.clock(slow={"agents": [8], "factor": 2.0}), "slow: an agent must be a whole number of at most 7"),
        (gs.clock(server=8), "server must be a whole number of at most 7"),
        (gs.clock(clocks.matrix(np.ones((3, 3)))), "have 3 places, but there are 8 agents"),
        (gs.clock(clocks.uniform(0.1, uplink=[1e6] * 3)), "have 3 uplinks, but there are 8 agents"),
    ],
)
def test_a_clock_that_does_not_fit_is_refused(clock, message):
    problem, _ = plain.heterogeneous()
    with pytest.raises(gs.InputError, match=re.escape(message)):
        gs.simulate(gs.DPSGD(0.05), problem, plain.irregular(), steps=1, clock=clock)


def test_seconds_are_a_column_and_an_axis_and_stay_with_the_result(tmp_path):
    problem, _ = plain.heterogeneous()
    clock = gs.clock("internet", compute=clocks.log_normal(0.02, 0.5), seeds=4)
    rules = [gs.BiasedDMT(0.05, 0.3), gs.GTDSGD(0.05), gs.CentralizedSGD(0.05)]
    result = gs.simulate(rules, problem, plain.irregular(), steps=6, every=2, dtype="float64", clock=clock)
    frame = result.frame()
    assert frame.columns[-3:] == ["seconds", "seconds_low", "seconds_high"]
    ends = {label: result.of(label)["seconds"][-1] for label in result.labels}
    assert ends["gt-dsgd"] / ends["biased-dmt"] > 2  # two messages a round, and no overlap
    assert ends["centralized-sgd"] > 6 * 2 * 7 * 0.05  # a ring of eight
    assert (frame["seconds_low"] <= frame["seconds"]).all()
    assert frame.filter(frame["round"] > 0).select((frame["seconds_low"] < frame["seconds"]).any()).item()
    back = gs.Result.load(result.save(tmp_path / "run"))
    assert back.frame().equals(frame)
    assert "log-normal" in back.manifest["clock"]
    assert back.plot("loss", "seconds").get_xlabel() == "time by the clock (s)"
    assert "seconds" in str(back.summary()).split()
    without = gs.simulate(gs.DPSGD(0.05), problem, plain.irregular(), steps=2)
    with pytest.raises(gs.InputError, match="there is no x-axis 'seconds' in this result"):
        without.plot("loss", "seconds")


SPEC = {
    "problem": {"name": "quadratic", "A": [np.eye(3).tolist()] * 4, "b": np.arange(12.0).reshape(4, 3).tolist()},
    "network": {"name": "ring"},
    "run": {"steps": 4, "every": 2},
    "clock": {"links": {"kind": "uniform", "latency": 0.5, "uplink": 1e3}, "compute": 0.25},
    "algorithm": [{"name": "d-psgd", "eta": 0.1}],
}


def test_a_spec_has_a_clock_which_a_variant_changes_and_another_computes_nothing_anew(tmp_path):
    slow = {"name": "slow", "clock": {"slow": {"agents": 1, "factor": 8.0}}}
    spec = Spec.of(SPEC | {"variant": [{"name": "equal"}, slow]})
    study = run(spec, tmp_path / "out", progress=False)
    message = 0.5 + 2 * 3 * 4 / 1e3
    assert study.results["equal"].frame()["seconds"].to_list() == pytest.approx([0, 2 * message, 4 * message])
    assert study.results["slow"].frame()["seconds"].to_list() == pytest.approx([0, 4, 8])
    cells = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cells").rglob("*") if path.is_file()}
    again = run(Spec.of(SPEC | {"clock": {"compute": 1.0}, "variant": [{"name": "equal"}, slow]}), tmp_path / "out")
    assert again.results["slow"].frame()["seconds"][-1] == pytest.approx(32)
    assert cells == {
        path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cells").rglob("*") if path.is_file()
    }


@table(
    ("clock", "message"),
    [
        ({"links": {"kind": "uniform", "latency": 0.1, "bandwidth": 0.0}}, r"\[clock\] links: uniform\(bandwidth=…\)"),
        ({"links": {"kind": "unifrm"}}, r"\[clock\] links: kind = 'unifrm' is not known; did you mean 'uniform'"),
        ({"compute": {"kind": "log-normal", "mean": 1.0}}, r"\[clock\] compute: log-normal: key 'sigma' is missing"),
        ({"compute": -1.0}, r"\[clock\] constant\(seconds=…\) must be a number"),
        ({"seconds": 1.0}, "key 'clock.seconds' is not known"),
        ({"slow": {"agents": 5, "factor": 2.0}}, r"\[clock\] clock: slow: agents must be .* at most 4"),
        ({"compute": {"kind": "trace", "file": "none.csv"}}, r"there is no file .*none.csv'"),
    ],
)
def test_bad_clocks_of_a_spec_are_refused(clock, message):
    with pytest.raises(gs.InputError, match=message):
        Spec.of(SPEC | {"clock": clock}).parts()


def test_a_variant_cannot_change_a_clock_that_is_not_there():
    given = {key: value for key, value in SPEC.items() if key != "clock"}
    with pytest.raises(gs.InputError, match=r"changes \[clock\], but the spec has none"):
        Spec.of(given | {"variant": [{"name": "slow", "clock": {"seeds": 2}}]})
