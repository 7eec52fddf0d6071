"""What to run: equal budgets, settings, verdicts, what is refused, and one whole search."""

import json
import math
import tomllib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import gossamer as gs
from gossamer.core import InputError
from gossamer.engines.runs import Row
from gossamer.experiments.recommend import (
    LOOKS,
    Contender,
    Costs,
    Difference,
    Goal,
    Recommendation,
    Score,
    Search,
    add_clock,
    advise,
    compare,
    describe_network,
    format_apart,
    forms,
    mean_score,
    rank,
    recommend,
)
from gossamer.results.store import NullStore
from gossamer.specs.setup import Candidate
from gossamer.specs.spec import Spec
from tests.commands import gossamer

TARGETS = np.random.default_rng(0).normal(size=(4, 2)).tolist()
GIVEN = {
    "problem": {"name": "quadratic", "A": [[2.0, 0.0], [0.0, 0.5]], "b": TARGETS, "start": [3.0, 3.0]},
    "network": {"name": "ring"},
    "oracle": {"stages": [{"kind": "additive-bias", "std": 0.1, "redraw": True}]},
    "run": {"steps": 40, "dtype": "float64"},
    "clock": {"links": {"kind": "uniform", "latency": 0.25}, "compute": 0.5},
    "algorithm": [{"name": "d-psgd", "eta": 0.1}],
}


def search(degree=4, graphs=None, matters=None, **changes):
    """A search of a budget of one second."""
    given = Spec.of(GIVEN | changes)
    return Search(
        add_clock(given), Goal.of(given, seconds=1.0, matters=matters), degree=degree, graphs=graphs, store=NullStore()
    )


def left_out(choices):
    """The reasons of what is not tried at all."""
    return {row["what"]: row["why"] for row in choices.dropped}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """One search, and the directory that it is kept in."""
    folder = tmp_path_factory.mktemp("recommended")
    options = {"methods": ["dsgt", "d-psgd"], "graphs": ["ring"], "settings": 4, "seeds": 3, "keep": 2}
    said: list[str] = []
    answer = recommend(GIVEN, seconds=60.0, **options, out=folder, progress=False, say=said.append)
    return answer, folder, said, options


def recommended(answer):
    return answer.answer


def test_a_search_ranks_with_intervals_and_its_answer_is_a_spec_that_runs(found):
    answer, folder, said, _ = found
    assert answer.ranking[0]["verdict"] == "first"
    values = [row["value"] for row in answer.ranking]
    assert values == sorted(values)
    assert all(row["low"] <= row["value"] <= row["high"] for row in answer.ranking)
    assert all(row["seconds"] <= 60.0 for row in answer.ranking)
    winner = Spec.of(tomllib.loads((folder / "winner.toml").read_text()))
    assert winner.algorithm[0]["name"] in ("dsgt", "d-psgd")
    assert winner.run.steps == recommended(answer)["rounds"]
    winner.parts()  # it can be made, and suits
    assert json.loads((folder / "recommendation.json").read_text())["verdict"] == answer.verdict
    assert (folder / "pareto.png").stat().st_size > 10_000
    assert "differences above 1 % of the way from the loss at the start to the best matter" in said[0]
    assert "Ctrl-C stops, and the same command goes on" in said[0]
    assert answer.pareto
    assert (folder / "eliminated.txt").read_text().count("\n") == len(answer.eliminated)
    assert f"Eliminated: {len(answer.eliminated)}; eliminated.txt" in str(answer)
    assert any("second half of the budget" in text for text in answer.more)


def test_the_winner_of_a_budget_is_what_its_own_spec_gives(found):
    """The mean over the end of the winner's runs, made anew from its spec, is the value of the ranking."""
    answer, folder, _, _ = found
    first = recommended(answer)
    winner = Spec.of(tomllib.loads((folder / "winner.toml").read_text()))
    parts = winner.parts()
    marks = [round(share * first["rounds"]) for share in (0.9, 0.925, 0.95, 0.975, 1.0)]
    result = gs.simulate(
        parts.candidates[0].whole,
        parts.problem,
        parts.network,
        parts.oracle,
        steps=first["rounds"],
        every=1,
        seeds=winner.run.seeds,
        dtype="float64",
        clock=parts.clock,
        progress=False,
    )
    rows = result.frame()
    last = rows.filter(rows["round"] == first["rounds"])
    assert last["seconds"][0] == pytest.approx(first["seconds"], rel=1e-12)
    assert last["bytes_sent"][0] == pytest.approx(first["bytes"])
    curve = answer.curves[f"{first['method']} on {first['graph']}"]
    known = dict(zip(curve["rounds"], curve["mean"], strict=True))
    for mark in marks:
        assert rows.filter(rows["round"] == mark)["loss"].mean() == pytest.approx(known[mark], rel=1e-9)


def test_the_same_call_again_computes_nothing(found, monkeypatch):
    answer, folder, _, options = found

    def refuse(*_args, **_kwargs):
        raise AssertionError("a block was computed anew")

    monkeypatch.setattr("gossamer.engines.runs.Block", refuse)
    said: list[str] = []
    again = recommend(GIVEN, seconds=60.0, **options, out=folder, progress=False, say=said.append)
    assert again.ranking == answer.ranking
    assert said


def test_the_command_goes_on_where_the_search_stood_and_prints_its_answer(found, tmp_path):
    answer, folder, _, _ = found
    file = tmp_path / "my.toml"
    file.write_text(Spec.of(GIVEN).toml())
    tries = ["--method", "dsgt", "--method", "d-psgd", "--graph", "ring", "--settings", 4, "--seeds", 3, "--keep", 2]
    again = ["recommend", file, *tries, "--out", folder, "--no-cache"]
    done = gossamer(*again, "--seconds", 60, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["verdict"] == answer.verdict
    assert "differences above 1 %" in done.stderr
    refused = gossamer(*again, "--seconds", 0.1)
    assert refused.returncode == 2
    assert "Give at least 0.5" in refused.stderr


def test_a_budget_too_small_for_one_round_is_refused_with_the_least_that_is_enough(tmp_path):
    with pytest.raises(InputError, match=r"seconds = 0.3 is too small .* takes 0.5 seconds. Give at least 0.5, or a"):
        recommend(GIVEN, seconds=0.3, methods=["d-psgd"], graphs=["ring"], out=tmp_path / "new", progress=False)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match=r"bytes = 10 is too small for one round .* takes 32 bytes. Give at least 32"):
        recommend(GIVEN, bytes=10, methods=["d-psgd"], graphs=["ring"], progress=False)


def test_a_budget_that_is_never_used_up_is_refused():
    timeless = GIVEN | {"clock": {"links": {"kind": "uniform", "latency": 0.0}, "compute": 0.0}}
    with pytest.raises(InputError, match=r"2,147,483,647 rounds of d-psgd .* at 0 each: give less, or a"):
        recommend(timeless, seconds=1.0, methods=["d-psgd"], graphs=["ring"], progress=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "there is no budget: give seconds"),
        ({"seconds": 1.0, "bytes": 1.0}, "both given"),
        ({"seconds": math.nan}, "seconds must be a number in"),
        ({"seconds": -1}, "seconds must be a number in"),
        ({"bytes": 0}, "bytes must be a number in"),
        ({"target": math.inf}, "target must be a number"),
        ({"seconds": 1.0, "clock": "interweb"}, "internet"),
        ({"seconds": 1.0, "clock": 3}, "a preset's name"),
        ({"seconds": 1.0, "criterion": "accuracy"}, "loss"),
        ({"seconds": 1.0, "matters": 0}, "matters must be a number in"),
        ({"seconds": 1.0, "methods": ["sgdd"]}, "methods: 'sgdd' is not known"),
        ({"seconds": 1.0, "methods": "d-psgd"}, "must be a list of names"),
        ({"seconds": 1.0, "graphs": ["rung"]}, "did you mean 'ring'"),
        ({"seconds": 1.0, "keep": 1}, "keep must be a whole number of at least 2"),
        ({"seconds": 1.0, "seeds": 2}, "seeds must be a whole number of at least 3"),
    ],
)
def test_bad_questions_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        recommend(GIVEN, progress=False, **options)


def test_variants_are_refused():
    several = GIVEN | {"variant": [{"name": "a"}, {"name": "b", "oracle": {"stages": []}}]}
    with pytest.raises(InputError, match="2 variants"):
        recommend(several, seconds=1.0)


def test_a_budget_is_counted_by_the_closed_form_of_its_clock():
    """D-PSGD computes 0.5 s while its message of 2 numbers travels 0.25 s, and an agent of a ring sends to two."""
    way = Contender.of(Spec.of(GIVEN), {"name": "d-psgd"}, {"name": "ring"})
    costs = way.costs
    np.testing.assert_array_equal(costs.ends, 0.5 * np.arange(129))
    assert costs.sent == (0.0, 2 * 2 * 8)
    assert [costs.within("seconds", amount) for amount in (0.4, 0.5, 63.9, 64.0, 100.2)] == [0, 1, 127, 128, 200]
    assert [costs.within("bytes", amount) for amount in (31, 32, 320)] == [0, 1, 10]
    assert costs.at("seconds", 300) == 150.0


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 5), min_size=4, max_size=30), st.floats(0.01, 200))
def test_a_budget_pays_for_its_rounds_and_not_for_one_more(steps, amount):
    costs = Costs(np.concatenate([[0.0], np.cumsum(steps)]), (3.0, 7.0))
    rounds = costs.within("seconds", amount)
    assert costs.at("seconds", rounds) <= amount * (1 + 1e-9)
    assert costs.at("seconds", rounds + 1) > amount * (1 - 1e-9)


def test_the_simplest_has_the_fewest_numbers_and_parts_then_the_least_state_and_messages():
    names = ["d-psgd", "dsgt", "gt-dsgd", "biased-dmt", "dsgdm", "choco-sgd", "gt-adam"]
    ways = [Contender.of(Spec.of(GIVEN), next(forms(name)), {"name": "ring", "weights": "lazy"}) for name in names]
    ordered = sorted(ways, key=lambda one: (*one.simplicity, one.form))
    assert ordered[0].algorithm["name"] == "d-psgd"
    assert [one.simplicity[0] for one in ordered] == sorted(one.simplicity[0] for one in ways)
    assert [way.simplicity[0] for way in ways[:3]] == [1, 1, 1]
    assert ways[0].simplicity[1] < ways[1].simplicity[1]  # the model alone, and a tracker beside it


def test_methods_that_do_not_suit_are_left_out_with_the_reason():
    choices = search(degree=2)
    named = {name for name in choices.names if name in left_out(choices)}
    assert not named
    assert "directed graphs" in left_out(choices)["push-pull"]
    assert "attackers" in left_out(choices)["robust-dsgd"]
    assert "that of d-psgd" in left_out(choices)["biased-dsgd"]
    assert {graph["name"] for graph in choices.networks} >= {"ring", "base-graph"}
    attacked = {"network": {"name": "complete", "attack": {"agents": [0]}}}
    assert "robust-dsgd" in search(**attacked).names
    directed = {"network": {"name": "directed-ring"}}
    choices = search(**directed)
    assert [graph["name"] for graph in choices.networks] == ["directed-ring"]
    assert "push-pull" in choices.names
    first = {way.algorithm["name"] for name in choices.names if (way := choices.first_form(name)) is not None}
    assert "push-pull" in first
    assert "d-psgd" not in first
    assert "doubly stochastic" in left_out(choices)["d-psgd"]


def test_a_method_that_went_on_is_tried_in_all_forms_on_all_graphs():
    choices = search(graphs=["ring", "complete"])
    names = {"d-psgd": 4, "choco-sgd": 4, "dsgt": 2}
    for name, count in names.items():
        way = choices.first_form(name)
        assert way is not None
        assert len({one.name for one in choices.all_forms(way)}) == count
    assert Candidate.of("k-gt").open.keys() == {"eta", "inner", "local"}


def decided(first, other, matters=0.01):
    """What the finals decide, from values of 20 seeds: they look at 5, 10 and 20 of them."""
    ours, theirs = ([Score(0, float(value)) for value in values] for values in (first, other))
    looks = [compare(ours[: 5 << look], theirs[: 5 << look], 1.0, matters, 2).verdict for look in range(LOOKS)]
    return next((verdict for verdict in looks if verdict != "undecided"), "undecided")


@pytest.mark.parametrize(
    ("difference", "wrong", "right"),
    [(0.01, {"tie", "worse"}, None), (0.0, {"worse"}, "tie"), (0.03, {"tie"}, "worse")],
    ids=["at the threshold", "equal", "three thresholds apart"],
)
def test_verdicts_are_wrong_in_at_most_one_of_twenty(difference, wrong, right):
    """Paired differences with a standard deviation of 0.006, where 0.01 matters; 400 draws. A share of 1/20 would
    exceed 1/20 + 0.03 by chance once in 300."""
    rng = np.random.default_rng(7)
    verdicts = []
    for _ in range(400):
        first = rng.normal(size=20)
        verdicts.append(decided(first, first + rng.normal(difference, 0.006, size=20)))
    assert sum(one in wrong for one in verdicts) <= 400 * (1 / 20 + 0.03)
    if right:
        assert verdicts.count(right) >= 400 * 19 / 20


def test_equal_methods_are_called_worse_in_at_most_one_search_of_twenty(monkeypatch):
    """Six equal methods, whose first is chosen on the seeds that it is compared on, in 1,500 finals of three looks.

    If the chance that some method is called worse at some look were 5 %, it would be so in more than 103 of them once
    in 1,000.
    """
    draws, looks = np.random.default_rng(11), []

    def run_seeds(finals, entered, seeds):
        for one in entered:
            for seed in seeds[len(one.by_seed) :]:
                value = 1 + 0.01 * draws.normal()
                one.runs[seed] = Row(np.arange(2), {"loss": np.array([2.0, value])}, -1, 1.0, np.zeros((4, 2)), None)
                one.by_seed[seed] = Score(0, value)

    def watched_rank(goal, finalists):
        ranked = rank(goal, finalists)
        looks.append("worse" in {apart.verdict for apart, _ in ranked})
        return ranked

    monkeypatch.setattr(Contender, "become_finalist", lambda one, goal, seeds: None)
    monkeypatch.setattr(Search, "_run_seeds", run_seeds)
    monkeypatch.setattr("gossamer.experiments.recommend.rank", watched_rank)
    finals, wrong = search(matters=1e-9), 0
    for _ in range(1_500):
        looks.clear()
        finals.run_finals([Contender({}, {}, None, None, None) for _ in range(6)])
        wrong += any(looks)
    assert binom.sf(103, 1_500, 0.05) < 1e-3
    assert wrong <= 103


def test_scores_of_several_seeds_are_those_of_the_worst_kind():
    assert mean_score([Score(0, 1.0), Score(0, 3.0)]) == Score(0, 2.0)
    assert mean_score([Score(0, 1.0), Score(1, 3.0)]) == Score(1, 3.0)
    assert compare([Score(0, 1.0)] * 3, [Score(2, math.inf)] * 3, 1.0, 0.01, 2).verdict == "diverged"
    assert compare([Score(0, 1.0)] * 3, [Score(1, 0.5)] * 3, 1.0, 0.01, 2).verdict == "worse"
    assert compare([Score(0, 1.0)] * 3, [Score(0, 1.0)] * 3, 0.0, 0.01, 2).verdict == "tie"


def made_up(*verdicts, simplest=None, answer=0):
    rows = [
        {"method": f"m{k}", "graph": "ring", "setting": "eta=1", "value": 1.0, "low": 0.9, "high": 1.1, "between": None}
        | {"verdict": one, "reached": 5, "seeds": 5, "rounds": 10, "seconds": 1.0, "bytes": 1e6}
        | {"worse_by": 0.0, "worse_low": 0.0, "worse_high": 0.0}
        for k, one in enumerate(verdicts)
    ]
    for k, row in enumerate(rows):
        row |= {"simplest": k == simplest, "answer": k == answer}
    curves = {
        "quick": {"mean": [9.0, 2.0], "seconds": [0.0, 1.0], "bytes": [0.0, 5.0]},
        "small": {"mean": [9.0, 2.0], "seconds": [0.0, 3.0], "bytes": [0.0, 1.0]},
        "neither": {"mean": [9.0, 2.5], "seconds": [0.0, 2.0], "bytes": [0.0, 5.0]},
    }
    dropped = [{"what": "m9", "stage": "methods", "why": "it diverged"}]
    return Recommendation("x", "1 %", 0.01, "loss", None, "c", rows, dropped, curves, (35, 35), ["More."], "", 1.0)


def test_a_target_is_scored_by_what_was_paid_until_the_criterion_stays_there():
    """The loss falls from 4 to 1 by one a round, and is at 2.5 half way between rounds 1 and 2."""
    spec, costs = Spec.of(GIVEN), Costs(np.array([0.0, 2.0, 6.0, 7.0]), (1.0, 3.0))
    run = Row(np.arange(4), {"loss": np.array([4.0, 3.0, 2.0, 1.0])}, -1, 1.0, np.zeros((4, 2)), None)
    goal = Goal.of(spec, seconds=10.0, target=2.5)
    assert goal.score(run, costs) == Score(0, 4.0, (2.0, 6.0))
    assert Goal.of(spec, bytes=10.0, target=2.5).score(run, costs) == Score(0, 1.0 + 3.0 * 1.5, (4.0, 7.0))
    without = Goal.of(spec, target=2.5)  # seconds, in the spec's rounds
    assert without.score(run, costs) == Score(0, 4.0, (2.0, 6.0))
    assert Goal.of(spec, seconds=10.0, target=0.5).score(run, costs) == Score(1, 1.0)
    assert goal.score(replace(run, diverged=2), costs).failed == 2
    assert Goal.of(spec, seconds=10.0).score(run, costs) == Score(0, 1.0)
    assert "until loss stays at 2.5 or below, in 10 s at most" in goal.sought


def test_the_distance_between_marks_is_part_of_the_interval_of_a_difference():
    """Two methods that come to the target 3 % apart, between marks 1 % apart: a tie where 5 % matters, and undecided
    where the marks are 3 % apart, however many seeds there are."""

    def scored(value, step):
        return [Score(0, value + 1e-6 * k, (value - step / 2, value + step / 2)) for k in range(5)]

    near = compare(scored(100.0, 1.0), scored(103.0, 1.0), 100.0, 0.05, 2)
    assert near.verdict == "tie"
    assert (near.mean, near.high, near.resolution) == pytest.approx((0.03, 0.04, 0.01), rel=1e-3)
    far = compare(scored(100.0, 3.0), scored(103.0, 3.0), 100.0, 0.05, 2)
    assert far.verdict == "undecided"
    assert mean_score(scored(100.0, 1.0)).between == pytest.approx((99.5, 100.5))


def test_a_target_is_printed_as_the_marks_on_both_sides_of_it():
    answer = replace(made_up("first"), currency="seconds")
    answer.ranking[0].update(value=1.0, between=(0.9, 1.05))
    assert "0.9–1.05 ± 0.1" in str(answer)
    answer.ranking[0].update(value=12_345.0, low=12_335.0, high=12_355.0, between=None, bytes=2e10)
    assert "12,340 ± 10" in str(answer)
    assert "20,000" in str(answer)


def test_a_network_is_named_by_the_stem_of_its_file():
    assert describe_network({"name": "file", "file": "/home/me/data/towns.edges"}) == "file(towns)"
    assert describe_network({"name": "sequence", "of": [{"name": "ring"}, {"name": "file", "file": "a/b.csv"}]}) == (
        "sequence(ring, file(b))"
    )
    asleep = {"name": "random-regular", "degree": 3, "agents_asleep": 0.25, "asynchronous": True}
    assert describe_network(asleep) == "random-regular(degree=3, agents_asleep=0.25), asynchronous"


def test_a_stage_tries_settings_in_proportion_to_the_hyperparameters():
    for name, numbers in {"d-psgd": 1, "biased-dmt": 2, "motef": 3}.items():
        one = Contender.of(Spec.of(GIVEN), next(forms(name)), {"name": "ring"})
        one.eta = [0.01, 1.0]
        assert sum(one.section(8).stages) == 8 * numbers


def test_ties_and_what_is_undecided_are_said():
    assert made_up("first", "tie", "tie", "worse").verdict.endswith("No difference that matters between the first 3.")
    assert "between m0 on ring, m2 on ring." in made_up("first", "worse", "tie").verdict
    assert "Undecided after 5 seeds: whether m1 on ring is worse" in made_up("first", "undecided").verdict
    assert made_up("first", "worse").verdict == "Run m0 on ring with eta=1."
    text = str(made_up("first", "worse"))
    assert "m9" not in text  # what was eliminated goes into a file
    assert "Eliminated: 1; eliminated.txt" in text
    assert "More." in text


def test_the_simplest_method_is_kept_where_nothing_is_better_by_what_matters():
    kept = made_up("first", "tie", "worse", simplest=1, answer=1)
    assert kept.verdict.startswith(
        "Keep m1 on ring, the simplest method, with eta=1: nothing is better by what matters"
    )
    assert "35 of 35 methods were within that margin of the best in the first stage." in kept.verdict
    assert made_up("first", "worse", simplest=0).verdict.startswith("Keep m0 on ring")
    for verdict in ("worse", "undecided", "diverged"):
        assert made_up("first", verdict, simplest=1).verdict.startswith("Run m0 on ring")


def test_of_methods_that_tie_the_simplest_is_the_answer_and_one_that_waits_before_its_asynchronous_form(monkeypatch):
    """The asynchronous form is first in the mean, and nothing that matters lies between it and the plain one."""

    def run_finals(_, finalists):
        finalists.sort(key=lambda one: (one.algorithm["name"] != "biased-dmt", "asynchronous" not in one.graph))
        apart = {"biased-dmt on ring": Difference(0.029, -0.018, 0.076, "tie")}
        first = Difference(0.0, 0.0, 0.0, "first")
        worse = Difference(0.5, 0.4, 0.6, "worse")
        for one in finalists:
            one.become_finalist(Goal.of(Spec.of(GIVEN), seconds=9.0), (0,))
            one.by_seed[0] = Score(0, 1.0)
            one.runs[0] = Row(np.arange(2), {"loss": np.array([2.0, 1.0])}, -1, 1.0, np.zeros((4, 2)), None)
        return [(apart.get(one.name, first if k == 0 else worse), one) for k, one in enumerate(finalists)]

    def run_stage(finals, stage, contenders):
        for one in contenders:
            one.scores, one.settings = [Score(0, 1.0)], [{"eta": 0.1} | dict.fromkeys(one.candidate.open, 0.1)]
        order = {name: k for k, name in enumerate(("biased-dmt on ring, asynchronous", "biased-dmt on ring"))}
        return sorted(contenders, key=lambda one: order.get(one.name, 9))

    monkeypatch.setattr(Search, "run_finals", run_finals)
    monkeypatch.setattr(Search, "_run_stage", run_stage)
    given = Spec.of(GIVEN)
    goal, clocked = Goal.of(given, seconds=9.0), add_clock(given)
    found = Search(clocked, goal, NullStore(), methods=["biased-dmt", "d-psgd"], graphs=["ring"]).run()
    assert found.ranking[0]["graph"] == "ring, asynchronous"
    assert found.verdict.startswith("Run biased-dmt on ring, the simplest of those that tie, with eta=0.1")
    assert "asynchronous" not in tomllib.loads(found.winner)["network"]


@pytest.mark.parametrize(
    ("tuning", "asked", "sought", "source"),
    [
        (None, None, "loss", "unless --criterion says otherwise"),
        ({"criterion": "grad_norm_sq"}, None, "grad_norm_sq", "the spec's [tuning] has grad_norm_sq"),
        ({"criterion": "grad_norm_sq"}, "loss", "loss", "as asked"),
        ({"criterion": "rounds", "target": 1.0}, None, "loss", "the spec's [tuning] has rounds"),
    ],
)
def test_the_criterion_is_that_of_the_spec_unless_another_is_asked_for(tuning, asked, sought, source):
    given = Spec.of(GIVEN | ({"tuning": {"eta": [0.01, 1.0]} | tuning} if tuning else {}))
    goal = Goal.of(given, seconds=9.0, criterion=asked)
    assert (goal.criterion, goal.source) == (sought, source)
    assert f"the lowest {sought} in 9 s" in goal.sought
    said: list[str] = []
    search = Search(add_clock(given), goal, NullStore(), methods=["d-psgd"], graphs=["ring"], say=said.append)
    assert f"criterion: {sought} ({source})" in search._describe(search.enter())


def test_a_difference_has_digits_enough_to_show_its_verdict():
    """An interval that ends at 10.3 % where 10 % matters is not printed as one that ends at 10 %."""
    row = {"worse_by": 0.063, "worse_low": 0.022, "worse_high": 0.103}
    assert format_apart(row, 0.1) == "6.3 % [2.2, 10.3]"
    assert format_apart(row, 0.2) == "6.3 % [2.2, 10]"
    assert format_apart(row | {"worse_high": 1.23}, 0.1) == "6.3 % [2.2, 120]"
    assert format_apart(row | {"worse_low": 0.0100004, "worse_high": 1.23}, 0.01) == "6.3 % [1.00004, 123]"


def test_what_more_would_buy_is_said():
    """A curve that falls by a tenth of its way in the second half of the budget, and an interval at the threshold."""

    class Made:
        def __init__(self, mean):
            self.mean, self.name, self.by_seed = mean, "dsgt on ring", dict.fromkeys(range(5))

        def curve(self, criterion):
            return {"rounds": [0, 5, 10], "seconds": [0.0, 5.0, 10.0], "bytes": [0.0, 5.0, 10.0], "mean": self.mean}

    goal = Goal.of(Spec.of(GIVEN), seconds=10.0)
    first = (Difference(0.0, 0.0, 0.0, "first"), Made([10.0, 1.0, 0.0]))
    other = (Difference(0.015, 0.005, 0.025, "undecided"), Made([10.0, 1.0, 0.0]))
    seeds, budget = advise(goal, [first, other])
    assert seeds == "About 20 seeds would decide on dsgt on ring."  # the interval must be half as wide
    assert budget == (
        "The second half of the budget lowered loss by 10 % of the way from the start to the end: more budget would "
        "still buy something."
    )
    by_gradient = Goal.of(Spec.of(GIVEN), seconds=10.0, criterion="grad_norm_sq")
    assert (
        "lowered grad_norm_sq by 120 % of its value at the end"
        in advise(by_gradient, [(first[0], Made([10.0, 2.2, 1.0]))])[0]
    )
    assert "would buy little" in advise(goal, [(first[0], Made([10.0, 0.001, 0.0]))])[0]


def test_the_front_holds_what_nothing_else_beats_in_error_bytes_and_seconds():
    assert made_up("first").pareto == ["quick", "small"]
