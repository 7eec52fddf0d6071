"""Verdicts between methods: what is known of made-up runs is said, at the stated rate of errors."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import gossamer as gs
from gossamer.core import InputError
from gossamer.metrics import OURS
from gossamer.results.result import Result
from gossamer.results.study import Study
from gossamer.results.verdicts import find_budget, judge_methods
from tests.results.side_by_side import made_up
from tests.table import table

START = 2.0


def runs_of(curves, *, metric="loss", price=None, status="ok", every=10, dtype="float64", seconds=None):
    """A result of given curves: {method: [seeds, marks]}, which cost `price` bytes a round."""
    rows = []
    for method, several in curves.items():
        for seed, values in enumerate(several):
            for k, value in enumerate(values):
                number = k * every
                row = {"algorithm": method, "setting": "eta=0.1", "replicate": seed, "seed": seed, "round": number}
                row |= {**dict.fromkeys(OURS), metric: value, "status": status if k == len(values) - 1 else "ok"}
                row |= {"queries": float(number), "bytes_sent": (price or {}).get(method, 8.0) * number}
                row |= {"messages": float(number)}
                rows.append(row if seconds is None else row | {"seconds": seconds[method] * number})
    floats = dict.fromkeys((*OURS, "queries", "bytes_sent"), pl.Float64)
    whole = dict.fromkeys(("replicate", "seed", "round"), pl.Int64)
    table = pl.DataFrame(rows, schema_overrides=floats | whole)
    count = len(next(iter(curves.values())))
    states = {(method, "eta=0.1"): np.zeros((count, 4, 3)) for method in curves}
    return Result(table, states, list(range(count)), None, {"dtype": dtype}, None)


def words(verdicts):
    return {(one.first, one.second): one.verdict for one in verdicts.verdicts}


def descend(ends, marks=11):
    """Curves from START that fall on a straight line to each end."""
    return np.linspace(START, np.asarray(ends, float), marks).T


def test_the_gap_and_its_interval_are_those_of_a_paired_t_test():
    ends = np.array([1.0, 1.4, 0.7, 1.9, 1.2])
    other = ends + 0.3 + 0.01 * np.array([1, -1, 2, 0, -2])
    (one,) = judge_methods({"": made_up({"gnsd": ends, "d-psgd": other})}).verdicts
    assert (one.first, one.second, one.verdict) == ("gnsd", "d-psgd", "ahead")
    way = START - ends.mean()
    known = stats.ttest_rel(other, ends).confidence_interval(0.95)
    np.testing.assert_allclose([one.low, one.high], np.array([known.low, known.high]) / way, rtol=1e-12)
    np.testing.assert_allclose(one.gap, (other - ends).mean() / way, rtol=1e-12)


def test_at_equal_bytes_a_method_that_sends_twice_as_much_is_read_at_half_its_rounds():
    curves = {"fast": descend([1.0, 1.01, 0.99]), "cheap": descend([1.2, 1.21, 1.19])}
    verdicts = judge_methods({"": runs_of(curves, price={"fast": 16.0, "cheap": 8.0})})
    at = {tuple(one.amounts): one for one in verdicts.verdicts}
    assert {axes: one.first for axes, one in at.items()} == {("rounds", "queries"): "fast", ("bytes",): "cheap"}
    assert at["rounds", "queries"].amounts == {"rounds": 100.0, "queries": 100.0}
    assert at["bytes",].amounts == {"bytes": 800.0}
    # fast is read at rounds 45 to 50, of which 50 was measured; cheap over 90 and 100
    fast, cheap = np.array([1.0, 1.01, 0.99]), np.array([1.2, 1.21, 1.19])
    read = START + 0.5 * (fast - START), START + 0.95 * (cheap - START)
    np.testing.assert_allclose(at["bytes",].gap, (read[0] - read[1]).mean() / (START - read[1].mean()), rtol=1e-12)


def test_with_a_clock_seconds_are_an_equal_cost_too():
    curves = {"fast": descend([1.0, 1.01, 0.99]), "quick": descend([1.2, 1.21, 1.19])}
    verdicts = judge_methods({"": runs_of(curves, seconds={"fast": 1.0, "quick": 0.5})})
    assert {tuple(one.amounts): one.first for one in verdicts.verdicts} == {
        ("rounds", "queries", "bytes"): "fast",
        ("seconds",): "quick",
    }


def test_a_metric_on_a_logarithmic_axis_is_compared_by_ratio():
    ends = np.exp(np.array([0.0, 0.3, -0.2, 0.1]))
    flat = {"a": np.tile(ends, (11, 1)).T, "b": np.tile(3 * ends, (11, 1)).T}
    (one,) = judge_methods({"": runs_of(flat, metric="grad_norm_sq")}, "grad_norm_sq").verdicts
    np.testing.assert_allclose([one.gap, one.low, one.high], 2.0, rtol=1e-9)
    assert one.verdict == "ahead"
    assert one.interval == "× 3 [3, 3]"


def test_where_runs_end_at_a_target_their_costs_are_compared_and_the_step_between_marks_counts():
    ends = {"a": [np.linspace(2, 1, 101)] * 3, "b": [np.linspace(2, 1, 121)] * 3}
    (one,) = judge_methods({"": runs_of(ends, status="reached", every=1)}).verdicts
    resolution = math.log(100 / 99)  # the target was crossed after mark 99, or mark 119
    np.testing.assert_allclose(one.gap, 0.2, rtol=1e-12)
    np.testing.assert_allclose([one.low, one.high], np.exp(math.log(1.2) + resolution * np.array([-1, 1])) - 1)
    assert one.verdict == "ahead"
    coarse = judge_methods({"": runs_of({"a": descend([1] * 3), "b": descend([1] * 3, 12)}, status="reached")})
    assert words(coarse) == {("a", "b"): "undecided"}
    assert any("a smaller every decides more" in note for note in coarse.notes)


def test_where_one_method_sends_much_it_is_last_at_equal_bytes():
    names = {"a": [1.0] * 3, "b": [1.3] * 3, "c": [1.6] * 3}
    curves = {name: descend(ends) for name, ends in names.items()}
    # c sends so little that at equal bytes it is ahead of a, which is read early; b costs as much as c
    verdicts = judge_methods({"": runs_of(curves, price={"a": 40.0, "b": 8.0, "c": 8.0})})
    at_bytes = {(one.first, one.second) for one in verdicts.verdicts if "bytes" in one.amounts}
    assert at_bytes == {("b", "a"), ("c", "a"), ("b", "c")}
    assert verdicts.sentences[-1].startswith("At equal bytes (800 bytes), b is ahead of ")


def test_what_is_too_small_to_matter_is_a_tie_however_sure_it_is():
    ends = np.array([1.0, 1.4, 0.7, 1.9, 1.2])
    assert words(judge_methods({"": made_up({"a": ends, "b": ends + 1e-3})})) == {("a", "b"): "tie"}
    assert words(judge_methods({"": made_up({"a": ends, "b": ends + 1e-3})}, matters=1e-4)) == {("a", "b"): "ahead"}


def test_what_rounding_can_make_decides_nothing():
    ends = np.full(4, 1.0)
    apart = judge_methods({"": made_up({"a": ends, "b": ends * (1 + 1e-7)}, dtype="float32")}, matters=1e-9)
    assert words(apart) == {("a", "b"): "undecided"}


def test_methods_that_diverged_are_named_and_not_compared():
    result = made_up({"a": [1.0, 1.1], "b": [1.2, 1.3], "c": [0.1, 0.2]}, diverged={("c", 1)})
    verdicts = judge_methods({"": result})
    assert words(verdicts).keys() == {("a", "b")}
    assert verdicts.notes == ("c is not compared: 1 of 2 runs diverged.",)


def test_one_seed_says_so():
    verdicts = judge_methods({"": made_up({"a": [1.0], "b": [1.2]})})
    assert not verdicts.verdicts
    assert "Run at least two" in str(verdicts)


def test_one_method_has_nothing_to_say():
    assert str(judge_methods({"": made_up({"a": [1.0, 2.0]})})) == ""


def test_all_pairs_of_all_variants_and_budgets_share_the_level():
    result = made_up({"a": [1.0, 1.1], "b": [1.2, 1.3], "c": [1.4, 1.5]})
    verdicts = judge_methods({"x": result, "y": result})
    assert len(verdicts.verdicts) == 6
    assert verdicts.level == pytest.approx(1 - 0.05 / 6)
    assert verdicts.sentences[0].startswith(
        "x: at equal rounds, queries and bytes (10 rounds, 10 queries, 80 bytes), a is ahead of b ("
    )


def draw_study(rng, gap, seeds=5):
    """Four methods on shared seeds: two alike, one worse by `gap`, one by twice as much; noise of 3 % of the way."""
    shared = rng.normal(0, 0.2, seeds)
    ends = {name: 1.0 + shared + rng.normal(0, 0.03, seeds) + add for name, add in
            (("a", 0.0), ("b", 0.0), ("c", gap), ("d", 2 * gap))}  # fmt: skip
    return judge_methods({"": made_up(ends, start=2.0)})


def test_a_known_order_is_said_and_equal_methods_are_never_told_apart_beyond_the_stated_rate():
    """In 400 repetitions. A wrong word has a chance of at most 5 % each: 34 or more of 400 have one of 0.2 %.

    With differences of ten standard errors the order is said in 95 of 100; a test that fails by chance needs fewer
    than 366 of 400 at 95 % (chance 0.1 %).
    """
    rng = np.random.default_rng(7)
    wrong, said = 0, 0
    for _ in range(400):
        found = words(draw_study(rng, 0.6))
        better = {pair for pair, word in found.items() if word == "ahead"}
        wrong += bool(better & {("a", "b"), ("b", "a"), ("c", "a"), ("c", "b"), ("d", "a"), ("d", "b"), ("d", "c")})
        said += better >= {("a", "c"), ("b", "c"), ("a", "d"), ("b", "d"), ("c", "d")}
    assert wrong < 34
    assert said >= 366


@given(st.lists(st.lists(st.floats(0.1, 100), min_size=2, max_size=9, unique=True), min_size=2, max_size=5))
def test_every_run_has_a_mark_near_the_budget(costs):
    sorted_costs = [np.array(sorted(own)) for own in costs]
    budget = find_budget(sorted_costs)
    if budget is None:
        return
    for own in sorted_costs:
        assert own[-1] >= budget
        assert 0.95 * budget <= own[own <= budget][-1] <= budget


def test_marks_that_lie_apart_give_no_verdict_and_the_way_out():
    sparse = {"a": [[2.0, 1.0]] * 2, "b": [[2.0, 1.0]] * 2}
    prices = runs_of(sparse, price={"a": 8.0, "b": 10.0})
    verdicts = judge_methods({"": prices})
    assert [tuple(one.amounts) for one in verdicts.verdicts] == [("rounds", "queries")]


@table(
    ("metric", "matters", "message"),
    [
        ("speed", None, "there is no metric 'speed'"),
        ("accuracy", None, "nothing in this result has the metric 'accuracy'"),
        ("loss", 0.0, "matters"),
        ("loss", 1.5, "matters"),
    ],
)
def test_bad_questions_are_refused(metric, matters, message):
    with pytest.raises(InputError, match=message):
        judge_methods({"": made_up({"a": [1.0, 1.1], "b": [1.2, 1.3]})}, metric, matters)


def test_a_study_judges_by_its_spec():
    result = made_up({"a": [1.0, 1.1, 1.2], "b": [1.001, 1.101, 1.201]})
    plain = Study("s", "S", "", {"": result}, None)
    strict = Study("s", "S", "[verdict]\nmatters = 0.0001\n", {"": result}, None)
    assert words(plain.verdicts()) == {("a", "b"): "tie"}
    assert words(strict.verdicts()) == {("a", "b"): "ahead"}
    assert strict.verdicts().asdict()["sentences"] == strict.verdicts().sentences


def test_variants_of_one_method_are_compared_where_they_have_one_problem():
    ring, torus = made_up({"a": [1.0, 1.1, 1.2]}), made_up({"a": [1.2, 1.3, 1.4]}, network="torus")
    study = Study("s", "S", "", {"ring": ring, "torus": torus}, None)
    assert words(study.verdicts()) == {("ring", "torus"): "ahead"}
    other = made_up({"a": [1.2, 1.3, 1.4]}, data="d2")
    assert not Study("s", "S", "", {"ring": ring, "other": other}, None).verdicts().verdicts


def test_runs_without_the_metric_have_no_verdict_and_the_reason():
    result = runs_of({"a": [[None, None]] * 2, "b": [[None, None]] * 2})
    verdicts = Study("s", "S", "", {"": result}, None).verdicts()
    assert str(verdicts) == "No verdict between methods: loss was not measured in all runs."
    with pytest.raises(InputError, match="nothing in this result has the metric"):
        result.verdicts("loss")


def test_a_run_of_the_simulator_is_judged():
    problem = gs.problems.quadratic(np.ones(4), np.arange(12.0).reshape(4, 3))
    oracle = gs.oracles.additive_bias(std=0.1, redraw=True)
    rules = [gs.DPSGD(eta=0.001), gs.DPSGD(eta=0.1)]
    result = gs.simulate(rules, problem, "ring", oracle, steps=40, seeds=3, dtype="float64", progress=False)
    (one,) = result.verdicts().verdicts
    assert one.verdict == "ahead"
    assert "eta=0.1" in one.first
