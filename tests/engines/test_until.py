"""Runs that end early: at a target, or because a callback says so."""

import numpy as np
import polars as pl
import pytest

import gossamer as gs
from gossamer.engines import runs
from gossamer.engines.runs import RunPlan, Setting, Width, compute
from gossamer.experiments.running import run as run_spec
from gossamer.metrics import targets
from gossamer.results.store import NullStore, Store
from gossamer.specs.spec import Spec
from tests.table import table

PROBLEM = gs.problems.quadratic(np.eye(2), np.ones((3, 2)))
"""All agents want (1, 1): by D-PSGD with step η, x_t = 1 − (1 − η)^t, and the loss is (1 − η)^(2t)."""

NETWORK = gs.networks.complete(3)
NOISE = gs.oracles.additive_bias(std=1.0, redraw=True)


def run(rule=None, oracle=None, **options):
    options = {"steps": 40, "every": 4, "dtype": "float64", "progress": False} | options
    return gs.simulate(rule or gs.DPSGD(0.1), PROBLEM, NETWORK, oracle, **options)


def test_a_run_ends_at_the_first_measured_round_at_the_target():
    result = run(until={"loss": 0.05})
    first = next(t for t in range(0, 41, 4) if 0.9 ** (2 * t) <= 0.05)
    frame = result.frame()
    assert frame["round"].to_list() == list(range(0, first + 1, 4))
    assert frame["status"].to_list() == ["ok"] * (frame.height - 1) + ["reached"]
    assert frame["loss"].to_list() == pytest.approx([0.9 ** (2 * t) for t in frame["round"]], rel=1e-12)
    assert frame["worst_loss"].to_list() == [None] * (frame.height - 1) + [pytest.approx(0.9 ** (2 * first))]
    np.testing.assert_allclose(result.iterates["d-psgd"], 1 - 0.9**first, rtol=1e-12)
    assert result.final("loss")["d-psgd"] == pytest.approx([0.9 ** (2 * first)])
    assert result.summary().table.select("reached", "diverged", "round").row(0) == (1, 0, first)
    assert [word for word in str(result.summary()).split() if word in ("diverged", "reached")] == [
        "diverged",
        "reached",
    ]
    assert result.manifest["until"] == {"loss": 0.05}


def test_all_metrics_must_be_there_and_a_run_may_start_or_never_get_there():
    both = run(until={"loss": 0.5, "grad_norm_sq": 0.01}).frame()
    alone = run(until={"grad_norm_sq": 0.01}).frame()
    assert both["round"].max() == alone["round"].max() > run(until={"loss": 0.5}).frame()["round"].max()
    assert run(until={"loss": 2.0}).frame()["status"].to_list() == ["reached"]
    assert set(run(until={"loss": -1.0}).frame()["status"]) == {"ok"}


def test_a_metric_of_which_more_is_better_is_reached_from_below():
    gs.metric("nearness", better="higher")(lambda s: s.mean[0])
    frame = run(until={"nearness": 0.6}).frame()
    assert frame["nearness"][-2] < 0.6 <= frame["nearness"][-1]
    assert frame["status"][-1] == "reached"


def test_seeds_end_on_their_own_and_computing_ends_with_the_last():
    done = []
    result = run(oracle=NOISE, seeds=4, steps=4000, until={"loss": 0.02}, progress=lambda _, t, *__: done.append(t))
    ends = result.frame().filter(pl.col("status") == "reached").sort("seed")["round"].to_list()
    assert len(ends) == 4
    assert len(set(ends)) > 1
    assert max(done) < 4000
    full = run(oracle=NOISE, seeds=4, steps=max(ends), until=None)
    for seed, end in enumerate(ends):
        own = result.frame().filter(pl.col("seed") == seed)
        other = full.frame().filter((pl.col("seed") == seed) & (pl.col("round") <= end))
        np.testing.assert_allclose(own["loss"], other["loss"], rtol=1e-10)
        assert (own["loss"][:-1] > 0.02).all()


def computed(seeds, store, until, width=2, every=2):
    plan = RunPlan(40, every, "float64", until=targets(until))
    setting = Setting(gs.DPSGD(0.1), gs.oracles.exact() | NOISE)
    return compute([setting], PROBLEM, NETWORK, seeds, plan, width=Width(1, width), store=store)


def same(one, other):
    assert one.rounds.tolist() == other.rounds.tolist()
    assert (one.reached, one.diverged, one.ends) == (other.reached, other.diverged, other.ends)
    for name, values in one.metrics.items():
        np.testing.assert_array_equal(values, other.metrics[name])
    np.testing.assert_array_equal(one.x, other.x)


def test_the_bits_of_a_run_do_not_depend_on_who_shares_its_block():
    """Whether the other run ends before it or after it."""
    pair, chosen = computed([0, 1], NullStore(), {"loss": 0.02}), {}
    for other in range(2, 8):
        chosen[other] = computed([0, other], NullStore(), {"loss": 0.02})
        same(chosen[other][0, 0], pair[0, 0])
    ends = {other: found[0, other].reached for other, found in chosen.items()}
    assert min(ends.values()) < pair[0, 0].reached < max(ends.values())


def test_a_run_in_pieces_is_the_same_run(monkeypatch):
    whole = computed([0, 1, 2], NullStore(), {"loss": 0.02}, width=3)
    monkeypatch.setattr(runs, "SEGMENT", 8)
    pieces = computed([0, 1, 2], NullStore(), {"loss": 0.02}, width=3)
    for run in whole:
        same(whole[run], pieces[run])


def test_a_target_belongs_to_the_key_of_a_cell(tmp_path):
    store = Store(tmp_path)
    for until, written in (({"loss": 0.02}, 2), ({"loss": 0.02}, 2), ({"loss": 0.2}, 4), (None, 6), (None, 6)):
        computed([0, 1], store, until)
        assert store.written == written


SPEC = {
    "problem": {"name": "quadratic", "A": [[1.0, 0.0], [0.0, 1.0]], "b": [[1.0, 1.0]] * 3},
    "network": {"name": "complete"},
    "oracle": {"stages": [{"kind": "additive-bias", "std": 1.0, "redraw": True}]},
    "run": {"steps": 60, "every": 3, "seeds": 4, "seeds_together": 2, "dtype": "float64", "until": {"loss": 0.02}},
    "algorithm": [{"name": "d-psgd", "eta": 0.1}, {"name": "biased-dmt", "eta": 0.1, "lam": 0.5}],
}


def test_killed_and_resumed_it_ends_as_if_nothing_had_happened(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "SEGMENT", 12)
    whole = run_spec(Spec.of(SPEC), tmp_path / "whole", progress=False)

    def kill(name, done, *_):
        if name.startswith("biased-dmt") and done > 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_spec(Spec.of(SPEC), tmp_path / "cut", progress=kill)
    cut = run_spec(Spec.of(SPEC), tmp_path / "cut", progress=False)
    assert cut.result.table.equals(whole.result.table)
    assert set(whole.result.table["status"]) == {"ok", "reached"}
    for key, x in whole.result.states.items():
        np.testing.assert_array_equal(cut.result.states[key], x)
    assert gs.Result.load(tmp_path / "cut").table.equals(whole.result.table)


def test_a_study_ends_runs_early_but_not_those_of_tuning(tmp_path):
    options = {"steps": 40, "every": 4, "seeds": 2, "dtype": "float64", "until": {"loss": 0.05}, "progress": False}
    tune = {"eta": (0.05, 0.2), "budget": 4, "seeds": 1}
    study = gs.study(gs.DPSGD, PROBLEM, NETWORK, tune=tune, out=tmp_path / "out", clock="campus", **options)
    last = study.result.frame().group_by("seed").last()
    assert set(last["status"]) == {"reached"}
    assert "seconds" in last.columns
    etas = study.tuning.sort("eta")
    whole = [np.mean([(1 - eta) ** (2 * t) for t in range(36, 41)]) for eta in etas["eta"]]  # their last tenth
    assert etas["value"].to_list() == pytest.approx(whole, rel=1e-9)
    with pytest.raises(gs.InputError, match="until ends runs early and settle makes them longer"):
        gs.study(gs.DPSGD(0.1), PROBLEM, NETWORK, settle=80, **options)


def test_a_callback_sees_every_measured_round_of_every_seed():
    seen = []
    result = run(oracle=NOISE, seeds=[3, 1], callback=lambda t, values: seen.append((t, values)))
    assert [t for t, _ in seen] == list(range(0, 41, 4))
    for place, seed in enumerate([3, 1]):
        frame = result.frame().filter(pl.col("seed") == seed)
        for name in ("loss", "consensus", "grad_norm_sq"):
            assert [values[name][place] for _, values in seen] == frame[name].to_list()
    assert "accuracy" not in seen[0][1]


def test_a_callback_stops_all_seeds_where_it_says_so():
    result = run(seeds=2, callback=lambda t, values: bool((values["loss"] < 0.5).all()))
    frame = result.frame()
    assert frame["round"].to_list() == [0, 4] * 2
    assert frame["status"].to_list() == ["ok", "stopped"] * 2
    np.testing.assert_allclose(result.iterates["d-psgd"], 1 - 0.9**4, rtol=1e-12)
    assert frame["worst_loss"].null_count() == 2
    assert result.final("loss")["d-psgd"] == pytest.approx([0.9**8] * 2)


def test_a_seed_that_has_ended_is_no_number_to_a_callback(monkeypatch):
    monkeypatch.setattr(runs, "SEGMENT", 8)
    seen = {}
    result = run(oracle=NOISE, seeds=6, until={"loss": 0.02}, callback=lambda t, values: seen.update({t: values}))
    ends = result.frame().group_by("seed", maintain_order=True).last()["round"].to_list()
    assert len(set(ends)) > 1
    for t, values in seen.items():
        assert np.isfinite(values["loss"]).tolist() == [t <= end for end in ends]
    lost = {}
    run([gs.DPSGD(1e9)], callback=lambda t, values: lost.update({t: values["loss"][0]}))
    assert np.isfinite(lost.pop(0))
    assert all(np.isnan(value) for value in lost.values())


@table(
    ("options", "message"),
    [
        (
            {"until": {"lost": 1.0}},
            r"until names 'lost', which is no metric \(one of your own .*\); did you mean 'loss'",
        ),
        ({"until": {"worst_loss": 1.0}}, "until names worst_loss, which is measured at the end only"),
        ({"until": {"loss": "low"}}, "until: loss must be a number in .*, but is 'low'"),
        ({"until": {"loss": float("nan")}}, "until: loss must be a number"),
        ({"until": {}}, "until must name metrics and values"),
        ({"until": 0.4}, 'until must name metrics and values, such as {"loss": 0.4}, but is 0.4'),
        ({"until": {"accuracy": 0.9}}, "until names accuracy, which is not measured in this run of d-psgd: share of"),
        ({"callback": 3}, r"callback must be a function of \(t, metrics\), but is 3"),
        (
            {"callback": lambda t: None},
            r"must be a function of \(t, metrics\), .* \(too many positional arguments\)",
        ),
        ({"seeds": 1_000_000}, "1,000,000 seeds in one block are too many: take at most 100,000"),
        (
            {"callback": lambda t, values: 1 / 0},
            r"callback, in round 0, failed at .*until\.py, .*ZeroDivisionError",
        ),
        ({"callback": lambda t, values: 10**400}, "what callback returns must be True or False, but is a whole number"),
        ({"callback": lambda t, values: values["loss"]}, "what callback returns must be True or False"),
    ],
)
def test_what_cannot_end_a_run_is_refused(options, message):
    with pytest.raises(gs.InputError, match=message):
        run(**options)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"until": {"lost": 1.0}}, r"\[run\] until names 'lost', which is no metric"),
        ({"until": {"loss": "low"}}, r"key 'run.until.loss' must be a number without quotation marks, but is 'low'"),
        ({"settle": 120}, r"\[run\] until ends runs early and settle makes them longer: leave one of them out"),
    ],
)
def test_what_cannot_end_a_run_of_a_spec_is_refused(changed, message):
    with pytest.raises(gs.InputError, match=message):
        Spec.of(SPEC | {"run": SPEC["run"] | changed}).parts()
