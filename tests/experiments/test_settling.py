"""Runs that go on until they have settled, and what that costs."""

from types import SimpleNamespace

import numpy as np
import pytest

import gossamer as gs
from gossamer.engines import runs
from gossamer.experiments.running import is_settled, run
from gossamer.results.statistics import unsettled
from gossamer.specs.spec import Spec


def settling(steps, settle=None, **quadratic):
    """A quadratic on which D-PSGD's ‖∇F‖² falls by a factor e every 25 rounds, to a floor of its own."""
    problem = {"name": "quadratic", "A": [[1.0, 0.0], [0.0, 0.2]], "b": [[2.0, 1.0], [-1.0, 3.0], [0.0, -1.0]]}
    return Spec.of(
        {
            "problem": problem | quadratic,
            "network": {"name": "complete"},
            "oracle": {"stages": [{"kind": "additive-bias", "mean": 0.2, "std": 0.02, "redraw": True}]},
            "run": {"steps": steps, "every": [1, 20], "seeds": 3, "dtype": "float64"}
            | ({} if settle is None else {"settle": settle}),
            "algorithm": [{"name": "d-psgd", "eta": 0.1}],
        }
    )


def test_runs_that_have_not_settled_go_on_and_are_the_runs_that_were_asked_to_be_long(tmp_path):
    short = run(settling(20), tmp_path / "short").result.table
    settled = run(settling(20, 1280), tmp_path / "settled").result.table
    last = settled["round"].max()
    assert last in (40, 80, 160, 320, 640)  # twice as long each time, and not to the most
    long = run(settling(last), tmp_path / "long").result.table
    both = settled.join(long, on=["seed", "round"], suffix="_long")
    assert len(both) >= 3 * 20
    np.testing.assert_allclose(both["loss"].to_numpy(), both["loss_long"].to_numpy(), rtol=1e-12)
    assert set(short["round"]) <= set(settled["round"])
    values = settled.sort("seed", "round")["grad_norm_sq"].to_numpy().reshape(3, -1)
    assert unsettled(settled["round"].unique().sort().to_numpy(), values) is None


def test_runs_go_on_to_the_most_and_no_further():
    table = run(settling(20, 50)).result.table
    assert table["round"].max() == 40


def test_going_on_computes_only_what_is_new(tmp_path, monkeypatch):
    run(settling(20, 1280), tmp_path / "out")
    cells = sorted((tmp_path / "out" / "cells").iterdir())
    driven = []
    monkeypatch.setattr(runs.Block, "drive", lambda *given, **options: driven.append(given))
    run(settling(20, 1280), tmp_path / "out")
    assert driven == []
    assert sorted((tmp_path / "out" / "cells").iterdir()) == cells


def test_the_most_rounds_are_no_fewer_than_the_steps():
    with pytest.raises(gs.InputError, match=r"\[run\] settle = 50 is the most rounds, but steps = 100 is more"):
        run(settling(100, 50))


@pytest.mark.parametrize("drift", [0.0, 0.5])
def test_what_floors_are_read_from_must_have_settled_too(drift):
    """Under a constant bias ē floors are ‖ē‖² + ‖∇F + ē‖²; here ‖∇F‖² stands still while that falls, or does not."""
    rounds, seeds = np.arange(0, 401, 10), [0, 1, 2]
    still = {seed: np.full(rounds.size, 1.0 + 0.001 * seed) for seed in seeds}
    falling = 0.5 + drift * np.exp(-rounds / 200)
    shares = SimpleNamespace(seeds=seeds, shares=[seeds])
    rows = {
        seed: runs.Row(
            rounds,
            {"grad_norm_sq": still[seed], "loss": 2 - rounds / 400, "stationarity": falling * still[seed]},
            diverged=-1,
            x=np.zeros((2, 2)),
            bias=np.full((2, 2), 0.1),
        )
        for seed in seeds
    }
    assert is_settled(rows, shares) is (drift == 0.0)
