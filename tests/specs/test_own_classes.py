"""Classes of a user's own, given from Python: run, tuned and studied like ours, and told what is wrong with them."""

from typing import Any

import numpy as np
import polars as pl
import pytest

import gossamer as gs
from tests.specs.test_own_code import same
from tests.table import table

PROBLEM = gs.problems.quadratic(np.diag([2.0, 0.5]), np.random.default_rng(0).normal(size=(4, 2)))


def descent(step, name="mine", init=None) -> Any:
    """A rule whose step is this function of the model, its gradient and the agent."""

    class Mine:
        """A rule of a test."""

        eta: gs.StepSize

        def init(self, x, agent):
            return gs.State(x=x) if init is None else init(x)

        def step(self, s, agent):
            return step(self, s.x, agent.gradient(s.x), agent)

    return gs.rule(name)(Mine)


def plain_step(self, x, g, agent):
    return gs.State(x=agent.gossip(x) - self.eta * g)


def deciding_step(self, x, g, agent):
    return gs.State(x=x - self.eta * g if g.sum() > 0 else x)


BROKEN = {
    "if": (
        deciding_step,
        None,
        r"test_own_classes\.py, line \d+, in deciding_step: .*decides by the value",
    ),
    "truth": (lambda self, x, g, agent: gs.State(x=x if g > 0 else g), None, "decides by the value"),
    "numpy": (lambda self, x, g, agent: gs.State(x=x - np.sign(g)), None, "hands an array to NumPy"),
    "pair": (lambda self, x, g, agent: gs.State(x=agent.gossip(x, g) - g), None, r"x, v = agent.gossip\(x, v\)"),
    "attribute": (lambda self, x, g, agent: gs.State(x=x - self.step_size * g), None, "AttributeError.*step_size"),
    "no state": (lambda self, x, g, agent: x - self.eta * g, None, "step returns .*, not a State"),
    "no model": (lambda self, x, g, agent: gs.State(y=x), None, "that step returns has no x, the model"),
    "shape": (lambda self, x, g, agent: gs.State(x=(x - g)[:, :1]), None, r"step turns x from float64\[4, 2\] into"),
    "dtype": (lambda self, x, g, agent: gs.State(x=(x - g).astype("float32")), None, "into float32"),
    "names": (
        lambda self, x, g, agent: gs.State(x=x - g),
        lambda x: gs.State(x=x, m=x),
        "init and step return States that differ in m",
    ),
}


@table("case", BROKEN)
def test_a_rule_that_breaks_the_contract_is_told_what_it_wants(case):
    step, init, message = BROKEN[case]
    with pytest.raises(gs.InputError, match=message):
        gs.simulate(descent(step, init=init)(0.1), PROBLEM, "ring", steps=3, dtype="float64")


def test_an_oracle_that_fails_is_told_with_its_line():
    oracle = gs.oracles.custom(lambda g, x, site: g if g.sum() > 0 else -g)
    with pytest.raises(gs.InputError, match=r"test_own_classes\.py, line \d+, in <lambda>: .*decides by the value"):
        gs.simulate(gs.DPSGD(0.1), PROBLEM, "ring", oracle, steps=3, dtype="float64")


def test_a_name_of_ours_belongs_to_ours():
    with pytest.raises(gs.InputError, match="is called 'd-psgd', which is another algorithm"):
        gs.simulate(descent(plain_step, "d-psgd")(0.1), PROBLEM, "ring", steps=3)


def test_a_class_of_ones_own_is_tuned_and_studied_like_ours():
    own = descent(plain_step)  # D-PSGD under another name
    options = {"steps": 20, "dtype": "float64", "progress": False}
    tuned = gs.tune([gs.DPSGD, own], PROBLEM, "ring", eta=(0.01, 1.0), budget=4, seeds=1, **options)
    table = tuned.table()
    ours, theirs = (table.filter(pl.col("algorithm") == name)["value"].to_list() for name in ("d-psgd", "mine"))
    assert ours == theirs
    study = gs.study(
        [own, gs.DPSGD(eta=0.1)], PROBLEM, "ring", tune={"eta": (0.01, 1.0), "budget": 4}, seeds=2, **options
    )
    assert set(study.result.labels) == {"mine", "d-psgd"}
    assert study.tuning is not None
    assert study.tuning["algorithm"].unique().to_list() == ["mine"]


def test_a_study_from_python_goes_on_from_what_its_directory_holds(tmp_path):
    own = descent(plain_step)
    options = {
        "tune": {"eta": (0.01, 1.0), "budget": 4},
        "seeds": 2,
        "steps": 20,
        "dtype": "float64",
        "progress": False,
    }
    first = gs.study([own], PROBLEM, "ring", out=tmp_path / "study", **options)
    cells = {path: path.stat().st_mtime_ns for path in (tmp_path / "study" / "cells").iterdir()}
    same(first, gs.study([own], PROBLEM, "ring", out=tmp_path / "study", **options))
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "study" / "cells").iterdir()} == cells
    other = gs.problems.quadratic(np.eye(2), np.ones((4, 2)))
    changed = gs.study([own], other, "ring", out=tmp_path / "study", **options)
    assert not changed.result.table.equals(first.result.table)


def test_what_a_study_cannot_be_made_of():
    with pytest.raises(gs.InputError, match="biased-dmt is given as a class, so that its hyper-parameters"):
        gs.study(gs.BiasedDMT, PROBLEM, "ring", steps=3)
    with pytest.raises(gs.InputError, match="every algorithm has all its hyper-parameters"):
        gs.study(gs.DPSGD(0.1), PROBLEM, "ring", steps=3, tune={"eta": (0.1, 1.0)})
    with pytest.raises(gs.InputError, match="key 'lamb' is not known; did you mean 'lam'"):
        gs.study(gs.BiasedDMT, PROBLEM, "ring", steps=3, tune={"eta": (0.1, 1.0), "lamb": [0.1]})


@gs.rule("counted")
class Counted:
    """Several exchanges a round."""

    eta: gs.StepSize
    often: gs.Count

    def init(self, x, agent):
        return gs.State(x=x)

    def step(self, s, agent):
        x = s.x - self.eta * agent.gradient(s.x)
        for _ in range(self.often):
            x = agent.gossip(x)
        return gs.State(x=x)


def test_a_count_is_static_tuned_and_checked():
    result = gs.simulate([Counted(0.1, often) for often in (1, 3)], PROBLEM, "ring", steps=5, dtype="float64")
    adapt = gs.simulate(gs.DPSGDATC(0.1), PROBLEM, "ring", steps=5, dtype="float64")
    first, third = result.iterates.values()
    np.testing.assert_allclose(first, next(iter(adapt.iterates.values())), rtol=1e-13)
    assert np.ptp(third, axis=1).max() < np.ptp(first, axis=1).max()
    assert result.final("loss").keys() == {"counted(eta=0.1, often=1)", "counted(eta=0.1, often=3)"}
    with pytest.raises(gs.InputError, match=r"Counted\(often=…\) must be a whole number of at least 1, but is 1\.5"):
        Counted(0.1, 1.5)
    options = {"eta": (0.01, 1.0), "budget": 4, "seeds": 1, "progress": False}
    tuned = gs.tune([Counted], PROBLEM, "ring", steps=10, often=[1, 4], **options)
    assert sorted(tuned.table()["often"].unique().to_list()) == [1.0, 4.0]
    with pytest.raises(gs.InputError, match=r"often = \[…\] must be a whole number"):
        gs.tune([Counted], PROBLEM, "ring", steps=10, often=[1, 4.5], **options)
