"""The rounds that are measured: evenly, or dense at the start and at the end."""

import itertools
import time

import pytest

import gossamer as gs
from gossamer.engines.runs import RunPlan
from gossamer.engines.simulator import plan_run
from gossamer.specs.spec import Spec
from tests import plain
from tests.table import table


def test_a_plain_number_measures_evenly():
    assert RunPlan(25, 10, "float32").marks == [0, 10, 20, 25]


def test_a_pair_measures_densely_at_the_start_and_at_the_end():
    marks = RunPlan(2000, (10, 100), "float32").marks
    assert marks[:9] == [0, 10, 20, 30, 40, 50, 60, 70, 80]
    assert {1800, 1850, 1900, 1950, 2000} <= set(marks)
    gaps = [b - a for a, b in itertools.pairwise(marks) if b < 1800]
    assert gaps == sorted(gaps)
    assert max(gaps) == 100
    assert all(gap <= max(10, a / 8) for gap, a in zip(gaps, marks, strict=False))


@pytest.mark.parametrize("steps", [1, 2, 7, 10, 11, 39])
def test_the_shortest_runs_are_measured_at_both_ends(steps):
    marks = RunPlan(steps, (1, 1), "float32").marks
    assert marks == list(range(steps + 1))
    assert RunPlan(steps, (1000, 1000), "float32").marks == sorted(
        {0, *(round(s * steps) for s in (0.9, 0.925, 0.95, 0.975, 1))}
    )


def test_a_longer_run_measures_where_a_shorter_one_did_but_for_its_end():
    short, long = RunPlan(10_000, (5, 500), "float32").marks, RunPlan(123_456, (5, 500), "float32").marks
    assert [t for t in long if t < 9_000] == [t for t in short if t < 9_000]


def test_marks_of_very_many_rounds_are_cheap():
    began = time.process_time()
    assert len(RunPlan(2**31 - 1, (1, 10_000_000), "float32").marks) < 400
    assert time.process_time() - began < 0.1


def test_a_run_and_a_spec_take_pairs():
    problem, _ = plain.heterogeneous()
    for pair in ((5, 20), [5, 20]):
        result = gs.simulate(gs.DPSGD(eta=0.05), problem, plain.irregular(), steps=60, every=pair, progress=False)
        assert result.frame()["round"].to_list() == RunPlan(60, (5, 20), "float32").marks
    spec = Spec.of(
        {
            "problem": {"name": "quadratic", "A": [[2.0]], "b": [[1.0], [-1.0], [0.5], [2.0]]},
            "network": {"name": "ring"},
            "run": {"steps": 64, "every": [4, 16]},
            "algorithm": [{"name": "d-psgd", "eta": 0.1}],
        }
    )
    assert plan_run(spec.run.steps, spec.run.every, 1, "float32")[0].every == (4, 16)
    assert Spec.of(spec.model_dump()).run.every == [4, 16]


@table(
    ("every", "message"),
    [
        ((10,), r"every must be a whole number or a pair \[first, last\] of them, but is \(10,\)"),
        ((1, 2, 3), r"pair \[first, last\] of them, but is \(1, 2, 3\)"),
        ((0, 5), r"the first of every = \[first, last\] must be a whole number of at least 1, but is 0"),
        ((1, 2.5), r"the last of every = \[first, last\] must be a whole number of at least 1, but is 2.5"),
        ((20, 10), r"must have first ≤ last, but is \[20, 10\]: swap them"),
    ],
)
def test_bad_pairs_are_refused(every, message):
    with pytest.raises(gs.InputError, match=message):
        plan_run(100, every, 1, "float32")


def test_more_rounds_than_can_be_counted_are_refused():
    with pytest.raises(gs.InputError, match="steps must be a whole number of at most 2,147,483,647"):
        plan_run(10**10, None, 1, "float32")
