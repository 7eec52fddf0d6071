"""Verdicts: each claim comes out every way it can, and its interval is the one that it says it is."""

import json

import numpy as np
import polars as pl
import pytest
from made_up_studies import (
    GAPS,
    METHODS,
    WORLDS,
    Z,
    changed,
    diverged,
    everywhere,
    fig1,
    fig2,
    half,
    heterogeneity,
    replaced,
    result,
    sensitivity,
    speedup,
    study,
    sweep,
    topology,
    without,
    words,
)
from scipy import stats

from gossamer.claims import CLAIMS, WORDS, judge
from gossamer.claims.evidence import Runs, target
from gossamer.claims.verdict import Claim, Question
from gossamer.study import Study

RING = 4
"""The place, among the claims on the speed-up, of the one that cannot be tested."""


def claims(experiment):
    return [claim for claim in CLAIMS if claim.experiment == experiment]


def test_in_the_paper_s_world_every_claim_holds():
    verdicts = judge({name: make() for name, make in WORLDS.items()})
    assert [verdict.claim for verdict in verdicts] == [claim.claim for claim in CLAIMS]
    assert len(verdicts) == 8 + 2 + 8 + 5 + 2 + 2
    told = {verdict.claim: verdict.verdict for verdict in verdicts if verdict.verdict != "holds"}
    assert told == {claims("speedup")[RING].claim: "not tested"}
    assert len({verdict.claim for verdict in verdicts}) == len(verdicts)
    for verdict in verdicts:
        assert "\n" not in verdict.measured + verdict.claim + verdict.paper
        if verdict.verdict == "holds":
            assert verdict.interval[0] <= verdict.interval[1]
            assert "6 replicates" in verdict.measured
            assert f"{100 * verdict.level:.4g} %" in verdict.measured


STALLED, BOUNDARY = {"floor": 1.5e-3}, {"floor": 2.2e-3, "wobble": 0.5}
LOSS_NEAR = {"loss": 0.304, "loss_wobble": 0.01}
OTHERWISE = [
    ("fig1", 0, fig1(biased_dsgd=STALLED), fig1(biased_dsgd=BOUNDARY)),
    ("fig1", 1, fig1(dsgdm=STALLED), fig1(dsgdm=BOUNDARY)),
    ("fig1", 2, fig1(biased_dmt={"floor": 1.3e-3}), fig1(biased_dmt={"floor": 1.19e-3, "wobble": 0.05})),
    ("fig1", 2, fig1(biased_dmt={"floor": 0.7e-3}), fig1(biased_dmt={"floor": 0.81e-3, "wobble": 0.05})),
    ("fig1", 3, fig1(dsgdm={"loss": 0.29}), fig1(dsgdm=LOSS_NEAR)),
    ("fig1", 4, fig1(gnsd={"loss": 0.29}), fig1(gnsd=LOSS_NEAR)),
    ("fig1", 5, fig1(gt_dsgd={"speed": 60, "loss": 0.3}), fig1(gt_dsgd={"speed": 110, "speed_wobble": 0.5})),
    ("fig1", 6, fig1(gt_dsgd={"floor": 0.8e-3}), fig1(gt_dsgd={"floor": 1.1e-3, "wobble": 0.3})),
    ("fig1", 7, fig1(gt_dsgd={"loss": 0.29}), fig1(gt_dsgd=LOSS_NEAR)),
    ("sensitivity", 0, sensitivity(biased_dmt=0.4), None),
    ("sensitivity", 1, sensitivity(consensus={"gt-dsgd": 0.5e-3}), None),
    *(("fig2", k, fig2(step3={"floor": 4e-4}), fig2(step3={"floor": 6e-4, "wobble": 0.3})) for k in (0, 4)),
    *(("fig2", 1 + k, fig2(step2={"floor": 6e-4}), fig2(step2={"floor": 5.4e-4, "wobble": 0.1})) for k in (0, 4)),
    *(("fig2", 2 + k, fig2(step5={"speed": 130}), fig2(step5={"speed": 97, "speed_wobble": 0.5})) for k in (0, 4)),
    *(("fig2", 3 + k, fig2(minus={"speed": 130}), fig2(minus={"speed": 97, "speed_wobble": 0.5})) for k in (0, 4)),
    *(("speedup", k, speedup(noise=-0.5), speedup(noise=-0.82, wobble=0.1)) for k in range(2)),
    *(("speedup", k, speedup(power=-0.2), speedup(power=-0.41, wobble=0.1)) for k in (2, 3)),
    ("topology", 0, topology(power=0.2), topology(power=0.04, wobble=0.05)),
    ("topology", 0, topology(power=-0.2), topology(power=-0.04, wobble=0.05)),
    ("topology", 1, topology(speed_power=-0.1), topology(speed_power=-0.04, speed_wobble=0.05)),
    ("heterogeneity", 0, heterogeneity(absolute=(0.3, 0.05)), heterogeneity(absolute=(0.03, 0.05))),
    ("heterogeneity", 1, heterogeneity(relative=(-0.2, 0.05)), heterogeneity(relative=(0.05, 0.2))),
]


@pytest.mark.parametrize(("experiment", "number", "false", "unclear"), OTHERWISE)
def test_a_claim_that_is_false_does_not_hold_and_one_near_its_margin_is_undecided(experiment, number, false, unclear):
    claim = claims(experiment)[number]
    assert claim(false, 0.05 / len(CLAIMS)).verdict == "does not hold"
    if unclear is not None:
        assert claim(unclear, 0.05 / len(CLAIMS)).verdict == "undecided"
        assert claim(unclear).interval is not None


def test_every_claim_is_tried_both_ways():
    tried = {(experiment, number) for experiment, number, _, _ in OTHERWISE}
    expected = {(name, number) for name in WORLDS for number in range(len(claims(name)))}
    assert tried == expected - {("speedup", RING)}


@pytest.mark.parametrize(
    ("experiment", "number", "world"),
    [
        ("fig1", 3, fig1(gt_dsgd={"loss": 0.301})),
        ("fig1", 3, fig1(gt_dsgd={"loss": 0.299})),
        ("fig1", 4, fig1(gnsd={"loss": 0.3})),
        ("fig1", 5, fig1(gt_dsgd={"speed": 105, "loss": 0.3})),
        ("fig1", 6, fig1(gt_dsgd={"floor": 1.05e-3})),
        ("fig1", 7, fig1(gt_dsgd={"loss": 0.3})),
        ("sensitivity", 0, sensitivity(gt_dsgd=2.0)),
        ("sensitivity", 1, sensitivity(consensus={"gnsd": 1e-3})),
        ("fig2", 0, fig2(step3={"floor": 5e-4})),
        ("fig2", 2, fig2(step5={"speed": 100, "loss": 0.3})),
    ],
)
def test_a_difference_too_small_to_matter_is_a_tie_whatever_its_sign(experiment, number, world):
    verdict = judge({experiment: world})[number]
    assert verdict.verdict == "tie"
    assert verdict.interval is not None


def test_a_coarse_grid_of_step_sizes_cannot_tell_who_is_faster():
    fast = {"gt_dsgd": {"speed": 150}}
    assert words("fig1", fig1(**fast))[5] == "holds"
    coarse = judge({"fig1": fig1(step=2.0, **fast)})[5]
    assert coarse.verdict == "tie"
    assert "step of the coarsest grid 2" in coarse.measured
    slow = {"biased_dsgd": {"speed": 450}, "dsgdm": {"speed": 450}, "gt_dsgd": {"speed": 450}}
    assert words("fig1", fig1(step=2.0, **slow))[5] == "holds"


@pytest.mark.parametrize(
    ("intervals", "word"),
    [
        ([(-3, -2)], "holds"),
        ([(-0.5, 0.5)], "tie"),
        ([(-0.5, 3)], "does not hold"),  # worse or the same, but surely not better
        ([(2, 3)], "does not hold"),
        ([(-2, 0)], "undecided"),
        ([(-2, 2)], "undecided"),
        ([(-3, -2), (-0.5, 0.5)], "tie"),
        ([(-3, -2), (-2, 0)], "undecided"),
        ([(-0.5, 0.5), (-2, 0)], "undecided"),
        ([(-2, 0), (2, 3)], "does not hold"),
    ],
)
def test_what_intervals_say_of_a_claim_below_minus_one(intervals, word):
    wide = stats.t.ppf(1 - 0.05 / len(intervals) / 2, 1) / np.sqrt(2)  # of two values, one apart
    values = {str(k): (a + b) / 2 + (b - a) / 2 / wide * np.array([-1, 1]) / np.sqrt(2)
              for k, (a, b) in enumerate(intervals)}  # fmt: skip
    asked = Claim("x", "c", "p", lambda _: Question("q", values, below=-1, tie=(-1, 1)))
    assert asked(study({})).verdict == word


def test_a_doubt_spoils_what_holds_but_not_what_does_not():
    for shift, word in ((-5.0, "undecided"), (5.0, "does not hold")):
        question = Question("q", {"": shift + 0.1 * Z}, below=-1, tie=(-1, 1), doubt="some never arrived")
        verdict = Claim("x", "c", "p", lambda _, question=question: question)(study({}))
        assert verdict.verdict == word
        assert verdict.measured.endswith("; some never arrived")


@pytest.mark.parametrize("experiment", WORLDS)
def test_what_was_not_run_is_not_run_and_one_replicate_decides_nothing(experiment):
    verdicts = judge({experiment: study({})})
    assert {verdict.verdict for verdict in verdicts} == {"not run"}
    assert all(verdict.interval is None and verdict.level is None and verdict.measured for verdict in verdicts)
    alone = judge({experiment: WORLDS[experiment](seeds=Z[:1])})
    assert {verdict.verdict for verdict in alone} <= {"undecided", "not tested"}
    assert all("one replicate" in verdict.measured or "share 1" in verdict.measured for verdict in alone
               if verdict.verdict == "undecided")  # fmt: skip


NEEDED = {
    "biased-dmt": [2, 3, 4, 5, 6, 7],
    "biased-dsgd": [0, 3, 5],
    "dsgdm": [1, 3, 5],
    "gt-dsgd": [3, 5, 6, 7],
    "gnsd": [4],
    "momentum-tracking": [4],
    "centralized-sgd": [0, 1, 4],
}


@pytest.mark.parametrize("algorithm", NEEDED)
def test_a_method_that_is_missing_or_diverged_leaves_open_what_needs_it_and_nothing_else(algorithm):
    for world, word in (
        (without(fig1(), algorithm), "not run"),
        (everywhere(fig1(), diverged(algorithm)), "undecided"),
    ):
        assert words("fig1", world) == [word if number in NEEDED[algorithm] else "holds" for number in range(8)]
    told = judge({"fig1": world})[NEEDED[algorithm][0]].measured
    assert told.startswith(algorithm)
    assert told.endswith("diverged on 1 of 6 seeds")


@pytest.mark.parametrize(
    ("experiment", "variant", "hurt"),
    [
        ("fig2", "unbiased", range(8)),
        ("fig2", "once-3", [0, 1]),
        ("fig2", "redrawn-5", [4, 5, 6]),
        ("fig2", "redrawn-5-minus", [7]),
        ("topology", "torus", [0, 1]),
        ("heterogeneity", "relative mixed:0", [1]),
    ],
)
def test_a_variant_that_is_missing_or_diverged_leaves_open_what_needs_it(experiment, variant, hurt):
    whole = WORLDS[experiment]()
    for world, word in (
        (without(whole, variant=variant), "not run"),
        (changed(whole, variant, diverged("biased-dmt")), "undecided"),
    ):
        found = words(experiment, world)
        assert [number for number, said in enumerate(found) if said == word] == list(hurt)


def test_a_floor_needs_runs_that_have_settled():
    verdicts = judge({"fig1": fig1(biased_dsgd={"drift": 1.0})})
    assert verdicts[0].verdict == "undecided"
    assert 'grad_norm_sq of biased-dsgd in "by gradient" has not settled after 1,000 rounds' in verdicts[0].measured
    assert [verdict.verdict for verdict in verdicts[1:]] == ["holds"] * 7


def test_the_corollary_is_judged_only_where_its_condition_is_met():
    assert words("speedup", speedup(rounds=10_000))[2] == "undecided"
    told = judge({"speedup": speedup(rounds=10_000)})[2].measured
    assert told == "corollary complete-32 has 10,000 rounds and needs 16,384"
    ring = judge({"speedup": speedup()})[RING]
    assert "at least 575 for n = 4, 26,900 for n = 8" in ring.measured


def test_unknown_facts_biases_and_metrics_are_no_error():
    assert words("topology", study(topology().results)) == ["undecided"] * 2
    assert words("topology", study(topology().results, {name: {"gap": 0.0} for name in GAPS})) == ["undecided"] * 2
    assert words("topology", study(topology().results, {name: {"gap": 0.5} for name in GAPS})) == ["undecided"] * 2
    assert words("fig1", fig1(bias=None))[2] == "undecided"
    assert words("fig1", fig1(bias=0.0))[2] == "undecided"  # a ratio to nothing
    for column in ({"loss": None}, {"loss": float("nan")}):
        values = [pl.lit(value, pl.Float64).alias(name) for name, value in column.items()]
        world = everywhere(fig1(), lambda one, values=values: replaced(one, one.table.with_columns(values)))
        assert words("fig1", world) == ["holds"] * 3 + ["undecided"] * 3 + ["holds", "undecided"]
    world = everywhere(fig1(), lambda one: replaced(one, one.table.drop("grad_norm_sq")))
    assert words("fig1", world)[:3] == ["undecided"] * 3


def test_two_settings_of_one_method_are_not_averaged():
    twice = pl.when(pl.col("seed") < 2).then(pl.lit("eta=2")).otherwise(pl.lit("eta=1"))
    world = everywhere(fig1(), lambda one: replaced(one, one.table.with_columns(setting=twice)))
    assert set(words("fig1", world)) == {"undecided"}


def test_seeds_of_one_replicate_are_averaged_before_any_interval():
    # two seeds a replicate that differ by ±1 and have the replicate's value for their mean
    twice = np.repeat(Z, 2) + np.tile([1.0, -1.0], 6)
    options = {"loss_wobble": 1e-3, "wobble": 0.0}
    runs = {name: curves_of(twice, own | options) for name, own in METHODS.items()}
    paired = result(runs, 1e-3, replicates=np.repeat(np.arange(6), 2))
    alone = result({name: curves_of(Z, own | options) for name, own in METHODS.items()}, 1e-3)
    grids = fig1().tuning
    found = [judge({"fig1": study({"by loss": one, "by gradient": one}, tuning=grids)})[7] for one in (paired, alone)]
    assert found[0].interval == pytest.approx(found[1].interval)
    assert "6 replicates" in found[0].measured


def curves_of(seeds, options):
    from made_up_studies import curves

    return curves(seeds=seeds, **options)


def test_replicates_are_paired_and_only_shared_ones_count():
    wide = {"wobble": 2.0}  # replicates differ by e⁴, methods within one by 10 only
    world = fig1(biased_dsgd=wide, centralized_sgd=wide)
    assert words("fig1", world)[0] == "holds"
    shifted = fig2()
    once = shifted.results["once-1"]
    for by, word in ((1, "holds"), (5, "undecided")):
        moved = replaced(once, once.table.with_columns(pl.col("replicate") + by))
        assert judge({"fig2": study(shifted.results | {"once-1": moved})})[0].verdict == word


def test_intervals_are_those_of_paired_t_tests_at_the_level_of_the_page():
    rng = np.random.default_rng(0)
    world = fig1(seeds=rng.normal(size=6), dsgdm={"loss_wobble": 0.003}, gt_dsgd={"loss_wobble": 0.004, "wobble": 0.2})
    ends = {name: np.array(list(Runs.of(world, name, "by loss").end().values())) for name in ("biased-dmt", "gt-dsgd")}
    verdicts = judge({"fig1": world})
    level = 1 - 0.05 / len(CLAIMS)
    expected = stats.ttest_rel(ends["biased-dmt"], ends["gt-dsgd"]).confidence_interval(level)
    assert verdicts[7].interval == pytest.approx(tuple(expected))
    assert verdicts[7].level == pytest.approx(level)
    logs = {name: np.log(list(Runs.of(world, name, "by gradient").floor().values())) for name in ends}
    expected = stats.ttest_rel(logs["biased-dmt"], logs["gt-dsgd"]).confidence_interval(level)
    assert verdicts[6].interval == pytest.approx(tuple(np.exp(expected)))
    level = 1 - 0.05 / len(CLAIMS) / 3  # three comparisons; GT-DSGD's is the closest
    expected = stats.ttest_rel(ends["biased-dmt"], ends["gt-dsgd"]).confidence_interval(level)
    assert verdicts[3].interval == pytest.approx(tuple(expected))
    assert verdicts[3].level == pytest.approx(level)
    assert f"{100 * level:.4g} % each" in verdicts[3].measured


def test_slopes_have_the_interval_of_their_replicates():
    low, high = judge({"topology": topology(power=0.02, wobble=0.01)})[0].interval
    assert (low, high) == pytest.approx((0.02 - 0.01 * half(), 0.02 + 0.01 * half()))
    low, high = judge({"speedup": speedup(-1.0, 0.02)})[0].interval
    assert (low, high) == pytest.approx((-1 - 0.02 * half(), -1 + 0.02 * half()))


def test_readings_of_runs():
    rounds = np.arange(0, 101, 10)
    falling = {"loss": np.array([[11.0 - k for k in range(11)]] * 2), "grad_norm_sq": np.full((2, 11), 3.0)}
    runs = Runs.of(study({"": result({"biased-dmt": falling}, rounds=rounds)}))
    assert runs.end() == {0: 1.5, 1: 1.5}
    assert target([runs]) == pytest.approx(1.5 + 0.05 * 9.5)
    assert runs.floor() == {0: 3.0, 1: 3.0}
    assert runs.mean("loss") == {0: 6.0, 1: 6.0}
    assert runs.mean("loss", until=40) == {0: 9.0, 1: 9.0}
    assert runs.arrivals(8.5) == {0: 25.0, 1: 25.0}
    assert runs.arrivals(0.5) == {0: 101.0, 1: 101.0}


def crawling(one):
    """A result whose loss hardly falls."""
    return replaced(one, one.table.with_columns(loss=0.7 - 1e-5 * pl.col("round")))


def test_runs_that_never_arrive_are_no_proof_that_the_network_is_harmless():
    verdict = judge({"topology": changed(topology(), "path", crawling)})[1]
    assert verdict.verdict == "does not hold"
    assert "not reached in every replicate on: path" in verdict.measured
    # only the torus arrives, and its gap lies in the middle: counted as rounds + 1 the others give a slope of 0
    world, others = topology(), {name: gap for name, gap in GAPS.items() if name != "torus"}
    for name in others:
        world = changed(world, name, crawling)
    world = study(world.results, world.facts | {"torus": {"gap": stats.gmean(list(others.values()))}})
    verdict = judge({"topology": world})[1]
    assert verdict.interval == pytest.approx((0, 0), abs=1e-9)
    assert verdict.verdict == "undecided"
    assert "no run lowers the loss" in judge({"topology": topology(loss=0.8)})[1].measured


def test_the_start_is_compared_until_most_of_the_way_is_covered():
    verdict = judge({"fig2": fig2()})[2]
    arrival = 100 * np.log(10)  # of an exponential that falls by 90 %, to the spacing of its measurements
    assert f"in {arrival:.3g}" in verdict.measured
    assert " at 20," in verdict.measured


def test_stationarity_is_told_where_it_was_measured():
    assert "∇F+ē" not in judge({"fig1": fig1()})[2].measured
    world = everywhere(fig1(), lambda one: replaced(one, one.table.with_columns(stationarity=pl.lit(7e-5))))
    assert "‖∇F+ē‖² 7e-05" in judge({"fig1": world})[2].measured


def test_verdicts_are_json_with_finite_numbers():
    wild = fig1(seeds=Z[[0, -1]], biased_dsgd={"wobble": 300.0, "floor": 1.0})
    for world in (fig1(), wild, study({})):
        verdicts = [verdict.asdict() for verdict in judge({"fig1": world})]
        assert json.loads(json.dumps(verdicts, allow_nan=False)) == verdicts
        assert {row["verdict"] for row in verdicts} <= set(WORDS)
    assert judge({"fig1": wild})[0].asdict()["interval"] is None
    assert list(verdicts[0]) == ["experiment", "claim", "paper", "measured", "interval", "level", "verdict"]


def test_only_studies_that_are_there_are_judged_and_a_saved_one_gives_the_same(tmp_path):
    assert judge({}) == []
    assert judge({"another": fig1()}) == []
    fig2().save(tmp_path)
    assert judge({"fig2": Study.load(tmp_path)}) == judge({"fig2": fig2()})


def test_the_range_of_stable_steps_is_around_the_best_and_has_no_gap():
    made = sensitivity()
    tried = made.tuning.with_columns(
        value=pl.when((pl.col("algorithm") == "gnsd") & pl.col("eta").is_between(0.1, 0.15))
        .then(0.6)
        .otherwise("value")
    )
    stable = study(made.results, tuning=tried).step_sizes().filter("stable")
    tops = dict(stable.group_by("algorithm").agg(pl.col("eta").max()).iter_rows())
    assert tops["gnsd"] < 0.1
    assert 0.95 < tops["gt-dsgd"] <= 1.0
    assert sweep(GAPS, "gap").tuning is None


def test_false_alarms_of_a_claim_are_no_more_than_one_in_twenty():
    # the other methods end exactly at the margin, so that "holds" is a false alarm; three comparisons share
    # Biased-DMT's noise; 19 is three standard deviations above 5 % of 200
    rng, rounds, claim = np.random.default_rng(1), np.array([0, 10]), CLAIMS[7]
    alarms = 0
    for _ in range(200):
        losses = {name: 0.3 + 0.001 * rng.normal(size=(5, 2)) for name in ("biased-dmt", "gt-dsgd")}
        for loss in losses.values():
            loss[:, 0] = 1.0
        losses["gt-dsgd"][:, 1] += 0.01 * (1 - losses["biased-dmt"][:, 1].mean())
        world = study({"by loss": result({name: {"loss": loss} for name, loss in losses.items()}, rounds=rounds)})
        alarms += claim(world).verdict != "undecided"
    assert 0 < alarms <= 19
