"""Metrics of one's own: what they see, what they may return, and that nothing else changes."""

import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

import gossamer as gs
from gossamer import metrics
from gossamer.engines import program, runs
from tests.table import table

B = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]])
PROBLEM = gs.problems.quadratic(np.diag([2.0, 1.0]), B)


def run(rule=None, **options):
    options = {"steps": 6, "every": 3, "dtype": "float64", "progress": False} | options
    oracle = options.pop("oracle", None)
    return gs.simulate(rule or gs.DSGT(0.1), PROBLEM, gs.networks.complete(3), oracle, **options)


def test_a_metric_sees_the_run_and_is_a_column():
    @gs.metric("seen", text="all that is seen")
    def seen(s):
        whole = s.x.sum() + 10 * s.mean[0] + 100 * s.state.y.sum() + 1000 * s.rule.eta
        return whole + 1e4 * s.loss + 1e5 * s.gradient @ s.gradient + 1e6 * s.bias.sum() + 1e7 * s.problem.dim

    bias = np.array([0.25, 0.5])
    result = run(oracle=gs.oracles.additive_bias(vectors=bias))
    x = result.iterates["dsgt"][0]
    mean = x.mean(0)
    tracked = (np.array([2.0, 1.0]) * (x - B) + bias).sum()  # the mean of the trackers is that of the gradients
    whole = x.sum() + 10 * mean[0] + 100 * tracked + 1000 * 0.1
    gradient = np.array([2.0, 1.0]) * (mean - B.mean(0))
    loss = 0.5 * np.mean([(mean - b) @ np.diag([2.0, 1.0]) @ (mean - b) for b in B])
    expected = whole + 1e4 * loss + 1e5 * gradient @ gradient + 1e6 * 2.25 + 2e7
    assert result.final("seen")["dsgt"] == pytest.approx([expected], rel=1e-12)
    assert list(result.metrics) == [*metrics.OURS, "seen"]
    assert "seen" in str(result.summary())


def test_the_other_numbers_stay_as_they_are():
    before = run(seeds=2)
    gs.metric("mine")(lambda s: jnp.tanh(s.x).sum() * s.loss)
    after = run(seeds=2)
    assert after.table.drop("mine").equals(before.table)
    np.testing.assert_array_equal(after.iterates["dsgt"], before.iterates["dsgt"])


def compiled_programs() -> int:
    return program.advance._cache_size()  # pyright: ignore[reportAttributeAccessIssue]


def test_a_new_function_of_the_same_name_is_measured_from_then_on():
    """As in a notebook, where a cell is run again: no compiled program of the old one answers."""
    for factor in (2.0, 3.0, 2.0):
        gs.metric("mine")(lambda s, factor=factor: factor * s.loss)
        frame = run().frame()
        np.testing.assert_allclose(frame["mine"], factor * frame["loss"], rtol=1e-14)
    compiled = compiled_programs()
    run(seeds=[1])
    assert compiled_programs() == compiled, "the same metrics are the same program"


def test_where_it_does_not_apply_or_is_not_finite_the_table_is_empty():
    """And such a run has not diverged: it is the metric that has no value."""
    gs.metric("tracker_size")(lambda s: (s.state.y**2).sum() if "y" in s.state else None)
    gs.metric("wild")(lambda s: jnp.log(s.x[0, 0]))  # of 0 at the start
    gs.metric("huge")(lambda s: 1e251 * (s.x[0, 0] > 0) - s.x[0, 0])
    result = run([gs.DSGT(0.1), gs.DPSGD(0.1)])
    assert result.of("d-psgd")["tracker_size"].null_count() == 3
    assert result.of("dsgt")["tracker_size"].null_count() == 0
    assert set(result.frame()["status"]) == {"ok"}
    assert result.of("dsgt")["wild"].is_null().to_list() == [True, False, False]
    assert result.of("dsgt")["huge"].to_list() == [0.0, None, None]


def test_a_metric_of_the_end_is_in_the_last_row_of_a_run():
    """It is kept with a stored run, may be infinite in a run that has not diverged, and is no target of a run."""
    gs.metric("farthest", end=True)(lambda s: jnp.abs(s.x - s.mean).max())
    gs.metric("lost", end=True)(lambda s: jnp.inf * (s.x**2).sum())
    gs.metric("tracked", end=True)(lambda s: s.state.y.sum() if "y" in s.state else None)
    result = run(seeds=2)
    x = result.iterates["dsgt"]
    by_hand = np.abs(x - x.mean(1, keepdims=True)).max((1, 2))
    column = result.frame()["farthest"].to_list()
    assert column == [None, None, pytest.approx(by_hand[0]), None, None, pytest.approx(by_hand[1])]
    assert set(result.frame()["status"]) == {"ok"}
    assert result.frame()["lost"].null_count() == 6
    assert not result.has("tracked"), "at the end a metric sees the models and the problem alone"
    with pytest.raises(gs.InputError, match="farthest, which is measured at the end only"):
        run(until={"farthest": 1.0})
    row = runs.Row(np.arange(2), {}, diverged=-1, x=x[0], bias=None, ends={"farthest": 0.5})
    assert runs.Row.of_cell(row.cell()).ends == {"farthest": 0.5}


def test_whole_numbers_and_truths_are_numbers():
    gs.metric("count")(lambda s: jnp.sum(s.x > 0))
    gs.metric("moved")(lambda s: (s.x != 0).all())
    gs.metric("agents")(lambda s: s.problem.agents)
    last = run().frame().row(-1, named=True)
    assert (last["count"], last["moved"], last["agents"]) == (6.0, 1.0, 3.0)


@table(
    ("function", "message"),
    [
        (lambda s: s.x, r"returned float64 of shape \(3, 2\), but a metric takes a Snapshot and returns one number"),
        (lambda s: 1j * s.loss, r"returned complex128 of shape \(\)"),
        (lambda s: "low", "returned a str, but a metric"),
        (lambda s: 10**400, "returned a int, but a metric"),
        (lambda s: {"loss": s.loss}, "returned a dict, but a metric"),
        (lambda s: s.state.u.sum(), r"failed \(AttributeError: this state has x, y, g, but no 'u'\): a metric takes"),
        (lambda s: float(s.loss), r"failed \(ConcretizationTypeError"),
        (lambda s: np.linalg.norm(s.x), r"failed \(TracerArrayConversionError"),
        (lambda: 1.0, r"failed \(TypeError: .*takes 0 positional arguments"),
    ],
)
def test_what_is_no_number_is_refused_with_the_metric_s_name(function, message):
    gs.metric("mine")(function)
    with pytest.raises(gs.InputError, match="the metric 'mine' " + message):
        run()


NAMES = {
    "my metric": "must be up to 40 letters, digits and underscores, with a letter first, but is 'my metric'",
    "../loss": "must be up to 40 letters",
    "_loss": "with a letter first",
    "loss\n": "must be up to 40 letters",
    "größe": "must be up to 40 letters",
    "x" * 41: "must be up to 40 letters",
    3: "must be up to 40 letters, .* but is 3",
    "round": "'round' has another meaning in a result: choose another name",
    "seconds_home": "'seconds_home' has another meaning",
    "loss": "'loss' is a metric of Gossamer's own",
    "worst_loss": "'worst_loss' is a metric of Gossamer's own",
}


def test_bad_names_are_refused():
    for name, message in NAMES.items():
        with pytest.raises(gs.InputError, match=message):
            gs.metric(name)


LABELS = [
    ({"text": "two\nlines"}, "text of a metric must be one line of 1 to 200 letters"),
    ({"text": ""}, "text of a metric must be one line"),
    ({"about": 3}, "about of a metric must be one line of 1 to 200 letters, but is 3"),
    ({"latex": "x" * 201}, "latex of a metric must be one line"),
    ({"latex": "$x$"}, r"a formula without dollar signs, but is '\$x\$'"),
    ({"log": "yes"}, "log of a metric must be True or False, but is 'yes'"),
    ({"better": "more"}, 'better of a metric must be "lower" or "higher", but is \'more\''),
]


def test_bad_labels_are_refused():
    for options, message in LABELS:
        with pytest.raises(gs.InputError, match=message):
            gs.metric("mine", **options)(lambda s: s.loss)
        assert "mine" not in metrics.METRICS


def test_what_is_no_function_is_refused():
    with pytest.raises(gs.InputError, match="'mine' must be a function of a Snapshot, but is 3"):
        gs.metric("mine")(3)


def test_a_label_says_what_the_decorator_was_told_and_else_what_the_function_says():
    @gs.metric("far_off", log=True, better="higher", summary=False)
    def far(s):
        """How far it is off.

        More of it.
        """
        return s.loss

    assert far.__name__ == "far", "the function stays as it is"
    assert metrics.labels()["far_off"] == metrics.Label("How far it is off.", "far off", None, True, "higher", False)
    gs.metric("bare")(lambda s: s.loss)
    assert metrics.labels()["bare"] == metrics.Label("bare", "bare")
    result = run()
    assert result.summary().table.columns.count("far_off") == 0
    assert result.summary().table["bare"].item() == result.frame().filter(pl.col("round") == 6)["bare"].item()
