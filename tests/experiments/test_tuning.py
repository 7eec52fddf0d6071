"""Tuning: equal budgets, what samplers try, known optima, and what is chosen."""

import sys
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from hypothesis import given as draw
from hypothesis import settings as tries
from hypothesis import strategies as st

import gossamer as gs
from benchmarks.tuning import NUMBERS, Quadratic, QuasiHyperbolic, excess, tuned_loss
from gossamer.engines.runs import Row
from gossamer.experiments import running as experiment
from gossamer.experiments.samplers import design, next_settings
from gossamer.experiments.tuning import Trial, Tuned, apply_tuning, best, choose_settings, judge_run
from gossamer.report import names
from gossamer.specs.schema import FIRST_SEED, TuningSection
from gossamer.specs.setup import Candidate
from gossamer.specs.spec import Spec

SECTION = TuningSection(eta=[0.01, 1.0])
DMT, GNSD = Candidate.of(gs.BiasedDMT), Candidate.of(gs.GNSD)


def spec(**tuning):
    rng = np.random.default_rng(0)
    return Spec.of(
        {
            "problem": {"name": "quadratic", "A": [[2.0, 0.0], [0.0, 0.5]], "b": rng.normal(size=(4, 2)).tolist()},
            "network": {"name": "ring"},
            "oracle": {"stages": [{"kind": "additive-bias", "std": 0.3, "redraw": True}]},
            "run": {"steps": 60, "every": 10, "seeds": 2, "dtype": "float64"},
            "tuning": {"eta": [0.01, 1.0], "budget": 8, "together": 8} | tuning,
            "algorithm": [{"name": "biased-dmt"}, {"name": "d-psgd"}, {"name": "dsgdm", "beta": 0.5}],
        }
    )


def tune_by(candidate, value, **section):
    """Trials of all stages, judged by a function of the hyper-parameters."""
    given, trials = TuningSection.model_validate({"eta": [0.01, 1.0]} | section), []
    for stage, count in enumerate(given.stages):
        for values in choose_settings(candidate, given, trials, count):
            candidate.rule(values)  # which checks the ranges
            found = value(**values)
            trials.append(Trial(values, found, int(found is None), stage))
    return trials


def distinct(trials):
    return {tuple(sorted(trial.values.items())) for trial in trials}


@tries(max_examples=30, deadline=None)
@draw(st.integers(4, 64), st.sampled_from(["d-psgd", "biased-dmt", "dsgdm", "gt-sarah", "motef", "docom", "k-gt"]))
def test_every_algorithm_tries_as_many_settings_as_the_budget_says(budget, name):
    compressor = {"compressor": gs.compressors.top_k(k=1)} if name in ("motef", "docom") else {}
    candidate = Candidate(gs.algorithms.ALGORITHMS[name], compressor)
    budget = max(budget, 2 * len(candidate.open))

    def value(eta, **others):
        return None if eta > 0.5 else abs(np.log(eta / 0.1)) + sum(map(abs, others.values()))

    assert len(distinct(tune_by(candidate, value, budget=budget))) == budget


@pytest.mark.parametrize("budget", [8, 9, 24, 30, 72])
@pytest.mark.parametrize("refine", [False, True])
def test_a_grid_and_its_refinement_use_up_the_budget(budget, refine):
    """With four values of λ the grid's part of the budget is a multiple of four."""
    for name, values in (("d-psgd", {}), ("biased-dmt", {"lam": [1.0, 0.1]})):
        if values and (budget - refine * (budget // 3)) % 2:
            continue
        trials = tune_by(
            Candidate.of(name),
            lambda eta, **_: abs(np.log(eta)),
            sampler="grid",
            budget=budget,
            refine=refine,
            **values,
        )
        assert len(distinct(trials)) == budget
        first = [trial.values["eta"] for trial in trials if trial.stage == 0]
        assert (min(first), max(first)) == pytest.approx((0.01, 1.0))


def test_a_refinement_lies_between_the_best_and_its_neighbours():
    trials = tune_by(DMT, lambda eta, lam: abs(np.log(eta / 0.1)) + abs(np.log(lam / 0.3)),
                     sampler="grid", budget=18, refine=True, lam=[1.0, 0.3, 0.1])  # fmt: skip
    later = [trial.values for trial in trials if trial.stage == 1]
    assert {round(values["lam"], 4) for values in later} == {0.3, 0.1732, 0.5477}
    etas = sorted({trial.values["eta"] for trial in trials if trial.stage == 0})
    place = etas.index(best(DMT, trials[:12]).values["eta"])
    assert all(etas[place - 1] < values["eta"] < etas[place + 1] for values in later)


@pytest.mark.parametrize("numbers", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [2, 5, 16])
def test_a_design_takes_each_number_at_equal_steps(numbers, count):
    points = design(numbers, count)
    for column in points.T:
        np.testing.assert_allclose(np.sort(column), np.linspace(0, 1, count))
    np.testing.assert_allclose(points[:, 0], np.linspace(0, 1, count))


def test_numbers_keep_to_their_ranges_and_whole_numbers_to_their_values():
    section = TuningSection.model_validate({"eta": [0.01, 1.0], "inner": [0.01, 0.1], "local": [2, 7], "budget": 24})
    candidate = Candidate.of("k-gt")
    trials = tune_by(candidate, lambda eta, inner, local: eta + 1 / inner + local, **section.model_dump(
        include={"budget"}), inner=[0.01, 0.1], local=[2, 7])  # fmt: skip
    assert {trial.values["local"] for trial in trials} == {2, 7}
    assert max(trial.values["inner"] for trial in trials) == pytest.approx(0.1)  # beyond it only downwards
    assert best(candidate, trials).values["local"] == 2
    assert min(trial.values["eta"] for trial in trials) < 0.01  # a step size moves on beyond both ends


def test_a_best_value_at_the_end_of_the_step_sizes_moves_the_search_beyond_it():
    for least in (1e-4, 30.0):
        trials = tune_by(GNSD, lambda eta, least=least: 1 + np.log(eta / least) ** 2, budget=24)
        assert best(GNSD, trials).values["eta"] == pytest.approx(least, rel=0.2)
    inside = [trial.values["eta"] for trial in tune_by(GNSD, lambda eta: 1 + np.log(eta / 0.1) ** 2, budget=24)]
    assert (min(inside), max(inside)) == (0.01, 1.0)


def test_where_all_diverge_smaller_step_sizes_are_tried():
    trials = tune_by(DMT, lambda eta, lam: eta if eta < 0.005 else None, budget=12)
    assert best(DMT, trials).values["eta"] < 0.005


def test_a_step_size_at_the_end_of_its_range_is_no_edge():
    @gs.rule("own-with-a-bounded-step")
    class Bounded:
        """Own."""

        rate: Annotated[Any, gs.Range(0, 1, low_open=True, step=True)]

        def init(self, x, agent):
            return gs.State(x=x)

        def step(self, s, agent):
            return s

    candidate = Candidate.of(Bounded)
    assert max(trial.values["rate"] for trial in tune_by(candidate, lambda rate: 2 - rate, budget=12)) == 1.0
    trials = [Trial({"rate": rate}, 2 - rate, 0, 0) for rate in (0.25, 0.5, 1.0)]
    page = Tuned({0: candidate}, {0: trials}, margin=9.0)._repr_html_()  # whose class no registry knows
    assert "⚠" not in page
    assert "⚠ own-with-a-bounded-step: eta = 0.5 is the highest" in Tuned({0: candidate}, {0: trials[:2]})._repr_html_()


@pytest.mark.parametrize("numbers", [1, 2, 3])
@pytest.mark.parametrize("budget", [12, 24, 48])
def test_the_excess_over_a_known_optimum_hardly_depends_on_the_numbers(budget, numbers):
    """With one, two or three numbers the loss is within these factors of the least one, on two noisy quadratics.

    `python -m benchmarks.tuning` prints the table of many.
    """
    factor = {12: 1.6, 24: 1.35, 48: 1.2}[budget]
    for problem in (Quadratic(30, 200, 1e-2, (1e-3, 10.0)), Quadratic(3, 30, 1e-2, (0.01, 1.0))):
        least = problem.least(numbers)
        found = tuned_loss(problem, numbers, budget)
        assert least * (1 - 1e-6) <= found <= factor * least
        assert excess(problem, found, least) < 0.15


def test_the_closed_form_of_the_known_optima_is_what_the_simulator_does():
    problem = Quadratic(30, 40, 0.0, (0.01, 1.0))
    quadratic = gs.problems.quadratic(np.diag(problem.curvatures), np.zeros((2, 20)), start=np.ones(20))
    rule = QuasiHyperbolic(0.4, 0.7, 0.6)
    found = gs.simulate(rule, quadratic, gs.networks.complete(2), steps=40, dtype="float64", progress=False)
    assert found.frame().filter(pl.col("round") == 40)["loss"][0] == pytest.approx(
        problem.loss(0.4, 0.7, 0.6), rel=1e-9
    )
    assert {*NUMBERS} == {1, 2, 3}


def test_optuna_asks_for_as_many_settings_and_repeats_itself():
    section = TuningSection(eta=[0.01, 1.0], sampler="optuna", budget=12)
    value = lambda eta, lam: abs(np.log(eta / 0.1)) + lam  # noqa: E731
    trials = tune_by(DMT, value, sampler="optuna", budget=12)
    assert len(distinct(trials)) == 12
    assert distinct(trials) == distinct(tune_by(DMT, value, sampler="optuna", budget=12))
    assert len(next_settings(DMT, section, [], [], 3)) == 3


def test_without_optuna_the_way_out_is_said(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(gs.InputError, match=r"needs Optuna: in the clone, `pip install -e '.\[optuna\]'`, or take"):
        experiment.run(spec(sampler="optuna"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_diverged_neighbour_is_no_edge():
    trials = [Trial({"eta": eta}, value, int(value is None), 0) for eta, value in [(0.1, 2.0), (0.3, 1.0), (1.0, None)]]
    assert "is the highest" not in Tuned({0: GNSD}, {0: trials})._repr_html_()
    assert best(GNSD, trials).values == {"eta": 0.3}


def test_a_step_close_to_one_that_failed_is_not_chosen_where_safety_is_asked_for():
    criteria = [(0.1, 3.0), (0.2, 2.0), (0.25, 1.0), (0.3, None)]
    trials = [Trial({"eta": eta, "lam": 0.5}, value, 0, 0) for eta, value in criteria]
    other = [Trial({"eta": eta, "lam": 0.1}, value, 0, 0) for eta, value in [(0.2, 2.5), (0.21, None)]]
    assert best(DMT, trials + other).values["eta"] == 0.25
    assert best(DMT, trials + other, 1.19).values["eta"] == 0.25
    assert best(DMT, trials + other, 1.25).values == {"eta": 0.2, "lam": 0.5}  # λ = 0.1 failed: that is another λ
    assert best(DMT, trials, 1.5).values["eta"] == 0.1
    with pytest.raises(gs.InputError, match=r"no setting of biased-dmt can be chosen: .* factor safety = 1.25. Lower"):
        best(DMT, other, 1.25)
    assert Tuned({0: DMT}, {0: trials}, safety=1.25).chosen == {0: {"eta": 0.2, "lam": 0.5}}


def test_when_all_diverge_it_is_said():
    with pytest.raises(
        gs.InputError, match="no setting of gnsd can be chosen: 1 of 1 diverged: lower the range of eta"
    ):
        best(GNSD, [Trial({"eta": 1.0}, None, 2, 0)])
    with pytest.raises(gs.InputError, match="1 of 2 diverged, and the others never reached the target"):
        best(GNSD, [Trial({"eta": 1.0}, None, 2, 0), Trial({"eta": 0.1}, None, 0, 0)])


def test_a_target_that_is_never_reached_chooses_nothing():
    with pytest.raises(gs.InputError, match=r"no setting of biased-dmt can be chosen: .*a target that can be reached"):
        experiment.run(spec(criterion="rounds", target=-1e6, eta=[0.01, 0.1]))


def test_the_criterion_is_the_end_or_the_first_round_at_the_target():
    rounds = np.array([0, 10, 20, 36, 40])
    run = Row(rounds, {"loss": np.array([5.0, 3, 2, 1, 0.5]), "grad_norm_sq": rounds * 1.0}, -1, 0.0, rounds, None)
    assert judge_run(run, SECTION) == 0.75  # the last tenth begins at round 36
    assert judge_run(run, TuningSection(eta=[0.1, 1], criterion="grad_norm_sq")) == 38
    assert judge_run(run, TuningSection(eta=[0.1, 1], criterion="rounds", target=2.5)) == 15
    assert judge_run(run, TuningSection(eta=[0.1, 1], criterion="rounds", target=0.1)) == float("inf")


def test_the_best_setting_is_chosen_on_seeds_of_its_own(tmp_path):
    study = experiment.run(spec(), tmp_path / "out")
    table = study.tuning
    for name in ("biased-dmt", "d-psgd", "dsgdm"):
        mine = table.filter(table["algorithm"] == name)
        chosen = mine.filter(mine["chosen"])
        assert chosen["value"].item() == mine["value"].min()
        assert chosen["setting"].item() in [setting for algorithm, setting in study.result.states if algorithm == name]
    counts = table.group_by("algorithm").len()["len"].unique().to_list()
    assert len(counts) == 1
    assert (table.filter(table["algorithm"] == "dsgdm")["beta"] == 0.5).all()
    assert study.result.seeds == [0, 1]
    assert FIRST_SEED not in study.result.seeds


def test_replicates_tune_and_evaluate_on_seeds_of_their_own():
    given = spec(replicates=3)
    given = given.model_copy(update={"run": given.run.model_copy(update={"seeds": 6})})
    study = experiment.run(given)
    table = study.tuning
    assert table["replicate"].unique().to_list() == [0, 1, 2]
    assert table.filter("chosen").group_by("replicate", "algorithm").len()["len"].unique().to_list() == [1]
    # each replicate is what a spec with its seeds alone gives
    for replicate in range(3):
        own = table.filter(pl.col("replicate") == replicate)
        assert len(own.filter("chosen")) == 3
        mine = study.result.table.filter(pl.col("replicate") == replicate)
        assert mine["seed"].unique().sort().to_list() == [2 * replicate, 2 * replicate + 1]
        chosen = own.filter(pl.col("chosen") & (pl.col("algorithm") == "d-psgd"))["eta"].item()
        alone = given.model_dump(exclude_unset=True, exclude={"tuning"})
        alone["algorithm"] = [{"name": "d-psgd", "eta": chosen}]
        expected = experiment.run(Spec.of(alone)).result.table.filter(
            pl.col("seed").is_in(mine["seed"].unique().to_list())
        )
        found = mine.filter(pl.col("algorithm") == "d-psgd")
        np.testing.assert_allclose(found["loss"].to_numpy(), expected["loss"].to_numpy(), rtol=1e-12)
    values = table.filter((pl.col("algorithm") == "d-psgd") & (pl.col("eta") == 0.01))["value"]
    assert values.n_unique() == 3  # tuning seeds differ
    assert {setting for _, setting in study.result.states} == {"tuned in each of 3 replicates"}


def test_replicates_must_share_the_seeds_equally():
    with pytest.raises(gs.InputError, match=r"replicates = 3 must share the 2 seeds of \[run\] equally"):
        experiment.run(spec(replicates=3))


def test_a_variant_may_change_how_it_is_tuned_and_how_long_it_runs():
    given = spec().model_dump(exclude_unset=True)
    given["algorithm"] = given["algorithm"][:1]
    given["variant"] = [
        {"name": "loss"},
        {"name": "gradient", "tuning": {"criterion": "grad_norm_sq"}, "run": {"steps": 30, "seeds": 3}},
    ]
    study = experiment.run(Spec.of(given))
    assert study.tuning.group_by("variant", maintain_order=True).agg(pl.col("criterion").first()).rows() == [
        ("loss", "loss"),
        ("gradient", "grad_norm_sq"),
    ]
    assert [int(result.table["round"].max()) for result in study.results.values()] == [60, 30]
    assert [len(result.seeds) for result in study.results.values()] == [2, 3]


def test_settings_that_diverge_are_counted_and_never_chosen():
    table = experiment.run(spec(eta=[0.1, 100.0])).tuning
    assert (table["diverged"] > 0).any()
    assert table.filter(table["diverged"] > 0)["value"].null_count() == (table["diverged"] > 0).sum()
    assert (table.filter(table["chosen"])["diverged"] == 0).all()


def test_tuning_alone_gives_the_same_choice(tmp_path):
    alone = experiment.tune_spec(spec(), tmp_path / "alone")
    assert alone.equals(experiment.run(spec(), tmp_path / "whole").tuning)


def test_a_budget_below_two_settings_for_each_number_is_refused():
    candidate = Candidate.of("local-biased-dmt")
    with pytest.raises(gs.InputError, match=r"budget = 4 is too small for the 4 numbers .*: give at least 8, or some"):
        candidate.values(TuningSection(eta=[0.01, 1.0], budget=4))
    with pytest.raises(gs.InputError, match=r"leaves only local open, which are whole numbers: give .* once for each"):
        Candidate(gs.LocalBiasedDMT, {"eta": 0.1, "lam": 0.1, "inner": 0.1}).values(SECTION)
    with pytest.raises(gs.InputError, match='leaves no step size open, and sampler = "grid" spans one'):
        Candidate(gs.BiasedDMT, {"eta": 0.1}).values(TuningSection(eta=[0.01, 1.0], sampler="grid"))
    assert len(distinct(tune_by(Candidate(gs.BiasedDMT, {"eta": 0.1}), lambda lam: lam))) == 32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eta": [1.0, 0.1]}, "eta must be .lowest, highest. with 0 < lowest < highest"),
        ({"eta": [1e300, 1e308]}, "eta must lie between 1e-30 and 1e.30"),
        ({"eta": [0.1, 0.1001]}, "eta must span 1 % at least"),
        ({"sampler": "grid", "budget": 10}, "must be a multiple of the number of values of lam, 4"),
        ({"sampler": "random"}, "'random', which is not known; choose from design, grid, optuna"),
        ({"lam": [1.0, 0.1]}, r"lists values to try, but sampler = 'design' takes .lowest, highest.: give these, or"),
        ({"lam": [0.1, 0.3, 1.0]}, r"lists values to try, but sampler = 'design' takes"),
        ({"budget": 3}, "must be at least 4, but is 3"),
        ({"refine": True}, 'refine is for sampler = "grid" only'),
        ({"safety": 1.5}, 'safety is for sampler = "grid" only'),
        ({"margin": 0.0}, "must be above 0, but is 0.0"),
        ({"extensions": 2}, "key 'tuning.extensions' is not known"),
        ({"criterion": "rounds"}, 'criterion = "rounds" needs one of target and until'),
        ({"until": {"loss": 0.1}}, 'criterion = "rounds" needs one of target and until'),
        ({"criterion": "rounds", "until": {"lose": 0.1}}, "until names 'lose', which is no metric"),
        ({"criterion": "acuracy"}, "criterion is 'acuracy', which is not known; did you mean 'accuracy'"),
    ],
)
def test_bad_sections_are_refused(change, message):
    with pytest.raises(gs.InputError, match=message):
        spec(**change).parts()


def test_a_spec_without_anything_to_tune_is_refused(tmp_path):
    whole = spec().model_copy(update={"algorithm": [{"name": "d-psgd", "eta": 0.1}]})
    with pytest.raises(gs.InputError, match="every algorithm of the spec has all its hyper-parameters"):
        experiment.tune_spec(whole, tmp_path / "a")
    with pytest.raises(gs.InputError, match=r"the spec has no \[tuning\] section"):
        experiment.tune_spec(whole.model_copy(update={"tuning": None}), tmp_path / "b")


def test_tuning_from_python():
    rng = np.random.default_rng(0)
    problem, network = gs.problems.quadratic(np.diag([2.0, 0.5]), rng.normal(size=(4, 2))), gs.networks.ring(4)
    noise = gs.oracles.additive_bias(std=0.3, redraw=True)
    options = {"steps": 60, "eta": (0.01, 1.0), "budget": 8, "together": 8, "dtype": "float64"}
    tuned = gs.tune([gs.BiasedDMT, "d-psgd"], problem, network, noise, **options)
    assert [rule.name for rule in tuned.rules] == ["biased-dmt", "d-psgd"]
    table = tuned.table()
    assert [vars(rule)["eta"] for rule in tuned.rules] == table.filter(table["chosen"])["eta"].to_list()
    result = gs.simulate(tuned.rules, problem, network, noise, steps=60, seeds=2)
    assert result.summary().table["diverged"].sum() == 0
    with pytest.raises(gs.InputError, match="there is no algorithm 'dpsgd'; did you mean 'd-psgd'"):
        gs.tune(["dpsgd"], problem, network, **options)
    with pytest.raises(gs.InputError, match="the criterion accuracy is not measured in these runs"):
        gs.tune([gs.BiasedDMT], problem, network, noise, **options, criterion="accuracy")
    with pytest.raises(gs.InputError, match="tune: key 'buget' is not known; did you mean 'budget'"):
        gs.tune(["d-psgd"], problem, network, steps=10, eta=(0.1, 1.0), buget=3)


def test_a_metric_of_one_s_own_is_tuned_by_whichever_way_is_better():
    """Of the step sizes tried, one is nearest in the log to what the metric likes: it peaks there at 0."""

    @gs.metric("likes", better="higher")
    def likes(snapshot):
        return -((jnp.log10(snapshot.rule.eta) + 1.0) ** 2)

    quadratic, ring = gs.problems.quadratic(np.eye(2), np.ones((4, 2))), gs.networks.ring(4)
    options = {"steps": 10, "eta": (0.001, 1.0), "sampler": "grid", "budget": 7, "together": 7, "dtype": "float64"}
    tuned = gs.tune(["d-psgd"], quadratic, ring, **options, criterion="likes", progress=False)
    (trials,) = tuned.trials.values()
    assert vars(tuned.rules[0])["eta"] == pytest.approx(0.1)
    assert [trial.value for trial in trials] == pytest.approx([-((k / 2 - 2) ** 2) for k in range(7)])


def test_rounds_are_counted_until_all_metrics_are_there_and_runs_end_then():
    """F = ½x² from 1 by a step of 1/2 on a complete graph: x = 2^−t, so that F ≤ 0.01 first after three rounds."""
    problem = gs.problems.quadratic(np.eye(1), np.zeros((2, 1)), start=np.ones(1))
    network = gs.networks.complete(2)
    options = {"steps": 100, "eta": (0.125, 0.5), "sampler": "grid", "budget": 4, "together": 4, "dtype": "float64"}
    tuned = gs.tune(["d-psgd"], problem, network, **options, criterion="rounds", until={"loss": 0.01}, progress=False)
    (trials,) = tuned.trials.values()
    assert vars(tuned.rules[0])["eta"] == pytest.approx(0.5)
    expected = [next(t for t in range(100) if (1 - trial.values["eta"]) ** (2 * t) / 2 <= 0.01) for trial in trials]
    assert [trial.value for trial in trials] == expected


def test_seeds_of_the_tuning_are_refused_for_the_evaluation():
    given = spec()
    clash = given.model_copy(update={"run": given.run.model_copy(update={"seeds": [FIRST_SEED]})})
    with pytest.raises(gs.InputError, match="seeds from 1,000,000 on are for tuning"):
        experiment.run(clash)


@pytest.mark.parametrize("replicates", [1, 2])
def test_one_algorithm_from_several_starts_is_tuned_for_each_and_told_apart(replicates):
    given = spec(lam=[0.3, 1.0], replicates=replicates).model_dump(exclude_unset=True)
    starts = [{}, {"warm": 3}, {"warm": "mean"}, {"warm": 20, "eta": 0.1, "lam": 0.5}]
    study = experiment.run(
        Spec.of(given | {"algorithm": [{"name": "biased-dmt"} | start for start in starts]}), progress=False
    )
    table = study.tuning
    assert table is not None
    counts = dict(table.group_by("algorithm").len().iter_rows())
    assert counts == dict.fromkeys(["biased-dmt", "biased-dmt (warm=3)", "biased-dmt (warm=mean)"], 8 * replicates)
    settings = [setting for _, setting in study.result.states]
    told = [", warm=3", ", warm=mean", ", warm=20"]
    assert [setting.endswith(told) for setting, told in zip(settings[1:], told, strict=True)] == [True] * 3
    assert "warm" not in settings[0]
    shown = names.name_labels(study.result)
    assert len({*shown.values()}) == 4
    assert all(text.startswith("Biased-DMT (") for text in shown.values())
    assert len(study.summary().table) == 4
    if replicates == 1:
        fixed = apply_tuning(
            Spec.of(given | {"algorithm": [{"name": "biased-dmt"} | start for start in starts]}), table
        )
        again = experiment.run(Spec.of(fixed), progress=False)
        assert [setting for _, setting in again.result.states] == settings
