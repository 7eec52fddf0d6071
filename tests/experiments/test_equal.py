"""Runs and tuning at equal queries, bytes or seconds, and verdicts where methods were tuned for other rounds."""

import numpy as np
import polars as pl
import pytest

import gossamer as gs
from gossamer.specs.spec import Spec
from tests.table import table

PROBLEM = gs.problems.quadratic([[1.0, 0.2], [0.2, 2.0]], np.random.default_rng(0).normal(size=(5, 2)))
ORACLE = gs.oracles.exact() | gs.oracles.additive_bias(mean=0.0, std=0.3)
TUNE = {"eta": (0.01, 0.5), "budget": 6}
METHODS = [gs.DPSGD, gs.BiasedDMT]


def study(equal, methods=METHODS, steps=40, **options):
    options = {"tune": TUNE, "seeds": 4, "every": 2, "progress": False} | options
    return gs.study(methods, PROBLEM, "ring", ORACLE, steps=steps, equal=equal, **options)


def ends(found):
    """The last row of each method's first run."""
    last = found.frame().filter(pl.col("seed") == 0).group_by("algorithm").agg(pl.all().sort_by("round").last())
    return {row["algorithm"]: row for row in last.to_dicts()}


def test_at_equal_bytes_a_method_that_sends_twice_as_much_runs_and_is_tuned_for_half_the_rounds():
    found = study("bytes")
    last = ends(found)
    assert {name: row["round"] for name, row in last.items()} == {"d-psgd": 40, "biased-dmt": 20}
    assert last["d-psgd"]["bytes_sent"] == last["biased-dmt"]["bytes_sent"] == 40 * 2 * 4 * 2  # 2 links, 2 numbers
    tuned = found.tuning.select("algorithm", "rounds").unique().rows()
    assert sorted(tuned) == [("biased-dmt", 20), ("d-psgd", 40)]
    judged = found.verdicts()
    assert [tuple(one.amounts) for one in judged.verdicts] == [("bytes",)]
    assert "No verdict at equal rounds and queries" in str(judged).replace("\n  ", " ")


def test_at_equal_rounds_tuned_methods_get_no_verdict_at_equal_bytes():
    judged = study("rounds").verdicts()
    assert [tuple(one.amounts) for one in judged.verdicts] == [("rounds", "queries")]
    (note,) = judged.notes
    assert note == (
        "No verdict at equal bytes between methods of different prices: biased-dmt was tuned for 40, not 20 rounds. "
        'equal = "bytes" in [run] tunes and runs all for that.'
    )
    given = study("rounds", [gs.DPSGD(0.1), gs.BiasedDMT(0.1, 0.5)], tune=None).verdicts()
    assert {tuple(one.amounts) for one in given.verdicts} == {("rounds", "queries"), ("bytes",)}  # nothing was tuned


def test_at_equal_seconds_nobody_takes_longer_than_the_quickest():
    clock = gs.clock(compute=1e-3, links="internet")
    found = study("seconds", [gs.DPSGD(0.1), gs.KGT(0.1, 0.1, 5, 0)], tune=None, every=1, clock=clock)
    seconds = {name: row["seconds"] for name, row in ends(found).items()}
    last = {name: row["round"] for name, row in ends(found).items()}
    assert max(last.values()) == 40
    slower = min(last, key=last.__getitem__)
    assert seconds[slower] <= max(seconds.values()) * (1 + 1e-9)
    longer = gs.simulate(gs.KGT(0.1, 0.1, 5, 0), PROBLEM, "ring", ORACLE, steps=last[slower] + 1, clock=clock, every=1)
    assert slower == "k-gt"
    assert longer.frame()["seconds"][-1] > seconds["d-psgd"]


@gs.rule("hermit")
class Hermit:
    """Gradient descent alone."""

    eta: gs.StepSize

    def init(self, x, agent):
        return gs.State(x=x)

    def step(self, s, agent):
        return gs.State(x=s.x - self.eta * agent.gradient(s.x))


@table(
    ("given", "message"),
    [
        ({"equal": "watts"}, "equal must be .*bytes.* but is 'watts'|equal.*'watts'"),
        ({"equal": "bytes", "settle": 80}, 'equal = "bytes" sets how long each method runs, and so does settle'),
        ({"equal": "bytes", "until": {"loss": 0.1}}, 'equal = "bytes" sets how long .* and so does until: take one'),
        ({"equal": "seconds"}, 'equal = "seconds" needs a clock'),
        ({"equal": "joules", "clock": gs.clock()}, 'equal = "joules" needs a clock'),
        ({"equal": "bytes", "methods": [gs.DPSGD(0.1), Hermit(0.1)], "tune": None}, "hermit pays no bytes"),
    ],
)
def test_what_cannot_be_equal_is_refused_before_a_run(given, message):
    with pytest.raises(gs.InputError, match=message):
        study(**given)


def test_a_schedule_needs_its_rounds_where_methods_differ_in_theirs():
    spec = {
        "problem": {"name": "quadratic", "A": [[2.0]], "b": [[1.0], [-1.0], [0.5], [2.0]]},
        "network": {"name": "ring"},
        "run": {"steps": 20, "equal": "bytes"},
        "algorithm": [{"name": "d-psgd", "eta": {"schedule": "cosine", "start": 0.1, "end": 0.01}}],
    }
    with pytest.raises(gs.InputError, match="steps"):
        Spec.of(spec).parts()


def test_who_pays_more_in_one_round_than_the_cheapest_in_all_is_refused():
    dear = gs.BiasedDMT(0.1, 0.5, warm=500)
    with pytest.raises(gs.InputError, match=r"biased-dmt pays 8032 bytes .* first round, but d-psgd pays 640 in 40"):
        study("bytes", [gs.DPSGD(0.1), dear], tune=None)


def test_a_whole_number_that_decides_the_costs_cannot_be_tuned_at_equal_costs():
    tune = TUNE | {"local": [1, 5]}
    given = [gs.DPSGD(0.1), gs.KGT]
    with pytest.raises(gs.InputError, match=r"the queries of k-gt depend on local, .* give local in"):
        study("queries", given, tune=tune)
    assert ends(study("bytes", given, tune=tune))["k-gt"]["bytes_sent"] <= 640  # on which local has no effect
