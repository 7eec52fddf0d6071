"""What runs will take is worked out before they start: memory from shapes, time from the first seconds."""

import jax
import numpy as np
import pytest

import gossamer as gs
from gossamer import schedules
from gossamer.basics import sizes
from gossamer.basics.progress import Lines
from gossamer.engines import costs, runs
from gossamer.engines.block import Block
from gossamer.engines.mixing import with_tables
from gossamer.engines.runs import RunPlan, Setting, Stopwatch, Width, fits
from gossamer.oracles import minibatch
from tests.table import table

ROWS = np.random.default_rng(0).normal(size=(40, 3))
PROBLEM = gs.problems.logistic((ROWS, np.sign(ROWS[:, 0])), agents=5, split="iid")
NETWORK = gs.networks.ring(5)
DMT = gs.BiasedDMT(eta=0.1, lam=0.5)


def run(**options):
    given = {"problem": PROBLEM, "network": NETWORK, "steps": 5, "progress": False} | options
    return gs.simulate(given.pop("rule", DMT), **given)


@pytest.mark.parametrize("rule", [DMT, gs.DPSGD(eta=schedules.inverse_sqrt(0.1))], ids=["constant", "schedule"])
@pytest.mark.parametrize("oracle", [minibatch(2), minibatch(2, replace=False) | gs.oracles.delay(3)], ids=["", "delay"])
def test_the_state_is_as_large_as_its_shapes_say(rule, oracle):
    settings = 3
    block = Block([rule] * settings, PROBLEM, NETWORK, [oracle] * settings, seeds=[0, 1], steps=5, dtype="float64")
    plan = RunPlan(5, 5, "float64")
    chosen = [Setting(rule, oracle)] * settings
    needs = runs.forecast_memory(chosen, PROBLEM, NETWORK, [0, 1], plan, Width(settings, 2))
    state, memory = (sum(leaf.nbytes for leaf in jax.tree.leaves(tree)) for tree in block.run[:2])
    assert needs[0].bytes == runs.COPIES * state
    assert needs[1].bytes == runs.COPIES * memory


def test_a_rule_is_traced_once_for_its_costs_and_its_memory():
    costs._trace_shapes.cache_clear()
    run(seeds=2)
    run(seeds=3, rule=gs.BiasedDMT(eta=0.2, lam=0.1))  # another setting has the same shapes
    assert costs._trace_shapes.cache_info().misses == 1


def test_tables_of_neighbours_are_made_once_for_a_network():
    robust = gs.RobustDSGD(eta=0.1, lam=1, aggregator=gs.aggregators.median())
    assert with_tables(robust, NETWORK) is with_tables(robust, NETWORK) is not NETWORK
    assert with_tables(DMT, NETWORK) is NETWORK


TOO_LARGE = {
    "batch": (dict(oracle=minibatch(2 * 10**9), seeds=100), r"batch = 2,000,000,000 needs about 16 TB .* lower batch"),
    "steps": (
        dict(steps=2 * 10**9, every=1, seeds=9),
        r"table of 2,000,000,001 measured rounds \(steps = 2,000,000,000\) of 9 runs .* 18 TB .* lower steps, or meas",
    ),
    "dense start": (dict(steps=2 * 10**9, every=(1, 1), seeds=9), r"steps = 2,000,000,000\) of 9 runs"),
    "seeds": (dict(seeds=10**5, steps=50_000, every=1), r"of 100,000 runs needs about 5 TB .* lower seeds"),
    "delay": (dict(oracle=gs.oracles.delay(2 * 10**9), seeds=100), r"what the oracle remembers .* lower the delay or"),
}


@table("case", TOO_LARGE)
def test_a_run_that_no_machine_can_hold_is_refused_with_the_number_that_is_too_large(case):
    change, message = TOO_LARGE[case]
    with pytest.raises(gs.InputError, match=message):
        run(**change)


def fits_with(monkeypatch, free, settings=1, seeds=1, **plan):
    monkeypatch.setattr(sizes, "free_memory", lambda: free)
    given = {"steps": 100, "every": 100, "dtype": "float32"} | plan
    return fits(
        [Setting(DMT, minibatch(2))] * settings,
        PROBLEM,
        NETWORK,
        range(seeds),
        RunPlan(**given),
        Width(min(settings, 16), 1),
    )


def test_what_is_just_free_decides(monkeypatch):
    needed = fits_with(monkeypatch, float("inf"))
    assert fits_with(monkeypatch, needed) == needed
    with pytest.raises(gs.InputError, match="of memory, but this machine has"):
        fits_with(monkeypatch, needed - 1)


def test_a_grid_of_a_million_settings_names_the_settings(monkeypatch):
    with pytest.raises(gs.InputError, match=r"1,000,000 runs needs about 2 GB .* lower settings"):
        fits_with(monkeypatch, 1e8, settings=10**6)


def test_many_seeds_at_once_are_named_before_the_batch():
    with pytest.raises(gs.InputError, match=r"seeds = 1,000,000,000"):
        fits(
            [Setting(DMT, minibatch(64))],
            PROBLEM,
            NETWORK,
            range(10**9),
            RunPlan(1, 1, "float32"),
            Width(1, 10**9),
        )


@pytest.mark.parametrize("every", [1, 7, 1000, (1, 1), (1, 50), (5, 500), (1000, 1000), (10, 3000)])
@pytest.mark.parametrize("steps", [1, 9, 1000, 5001])
def test_marks_are_counted_without_being_made(steps, every):
    plan = RunPlan(steps, every, "float32")
    assert len(plan.marks) <= plan.mark_count <= 1.1 * len(plan.marks) + 16


class Said(list):
    """What was said to everyone, and aside."""

    def __init__(self):
        self.aside = []

    def __call__(self, text, *, aside=False):
        (self.aside if aside else self).append(text)


def timed(monkeypatch, rounds, seconds_a_round, kept=True):
    now, said = [0.0], Said()
    monkeypatch.setattr(runs.time, "perf_counter", lambda: now[0])
    watch = Stopwatch(rounds, kept, said)
    watch.begin(0)
    now[0] += 30.0  # compiling is no measure of the rounds
    watch(0)
    for t in (8, 72, 648, 5_000):
        now[0] += seconds_a_round * (t - watch._at)
        watch(t)
    return said


def test_beyond_an_hour_it_is_said_once_how_long(monkeypatch):
    assert timed(monkeypatch, 8_000 * 3600 * 27, 1 / 8_000) == []  # too few seconds to say
    assert timed(monkeypatch, 4_000 * 3600 * 27, 1 / 4_000) == [
        "about 27 hours at 4,000 rounds a second; Ctrl-C stops, and the same command goes on from there"
    ]
    (said,) = timed(monkeypatch, 4_000 * 3600 * 24 * 365, 1 / 4_000, kept=False)
    assert said.startswith("about 365 days at")
    assert said.endswith("Ctrl-C stops, but nothing is kept")
    short = timed(monkeypatch, 4_000 * 3000, 1 / 4_000)
    assert short == []
    assert short.aside == ["about 50 minutes at 4,000 rounds a second"]
    assert timed(monkeypatch, 4_000 * 100, 1 / 4_000).aside[0].startswith("about 99 seconds at 4,000")
    assert timed(monkeypatch, 4_000 * 3, 1 / 4_000).aside == []  # over before it is read


def test_it_is_said_on_stderr_unless_progress_is_off(monkeypatch, capsys):
    monkeypatch.setattr(runs, "LONG", 0.0)
    monkeypatch.setattr(runs, "ENOUGH", 0.0)
    run(steps=20, every=4, progress=False)
    run(steps=20, every=4, progress=lambda *_: None)
    assert capsys.readouterr() == ("", "")
    run(steps=20, every=4, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("biased-dmt: about ")
    assert err.count("\n") == 1


def test_one_who_watches_progress_is_told_of_shorter_runs(monkeypatch, capsys):
    monkeypatch.setattr(runs, "WORTH", 0.0)
    monkeypatch.setattr(runs, "ENOUGH", 0.0)
    run(steps=20, every=4, progress=True)  # no terminal, so nobody watches
    assert capsys.readouterr() == ("", "")
    run(steps=20, every=4, progress=Lines())
    assert "rounds a second" in capsys.readouterr().err.splitlines()[0]
