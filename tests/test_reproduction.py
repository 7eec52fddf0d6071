"""The reproduction: its specs, and that a killed one ends as if nothing had happened."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

import gossamer as gs
from gossamer.claims import CLAIMS
from gossamer.reproduction import EXPERIMENTS, QUICK, refuse_runaways, spec_of, text_of
from gossamer.spec import Spec


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_a_spec_whose_parts_can_be_made(name):
    spec = spec_of(name)
    made = {variant: one.parts() for variant, one in spec.variants().items()}
    assert {parts.problem.agents for parts in made.values()} == {parts.network.agents for parts in made.values()}
    assert any(claim.experiment == name for claim in CLAIMS)
    assert spec.title


def test_an_unknown_experiment_is_refused():
    with pytest.raises(gs.InputError, match="there is no experiment 'fig3'; did you mean 'fig"):
        text_of("fig3")


def test_a_bias_without_a_fixed_point_is_refused_before_any_run():
    given = spec_of("fig1").model_dump(exclude_unset=True)
    given["problem"]["data"] = "breast-cancer"
    given["oracle"]["stages"] = [{"kind": "additive-bias", "mean": 2.0, "std": 0.0}]
    with pytest.raises(gs.InputError, match=r"fig1, seed 0: no point has ∇F = −ē"):
        refuse_runaways("fig1", Spec.of(given), set())


def command(folder):
    return [sys.executable, "-m", "gossamer", "reproduce", "fig1", "--quick", "--out", str(folder)]


def outcome(folder):
    """The verdicts and all result tables, but for the seconds that were measured."""
    tables = {str(path.relative_to(folder)): pl.read_parquet(path) for path in sorted(folder.rglob("*.parquet"))}
    return json.loads((folder / "verdicts.json").read_text(encoding="utf-8")), tables


def test_a_killed_reproduction_ends_as_if_nothing_had_happened(tmp_path):
    done = subprocess.run(command(tmp_path / "whole"), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert "report:" in done.stdout
    rng = random.Random(0)
    for _ in range(3):
        process = subprocess.Popen(command(tmp_path / "killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(8, 25))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    again = subprocess.run(command(tmp_path / "killed"), capture_output=True, text=True, timeout=900)
    assert again.returncode == 0, again.stderr
    (verdicts, tables), (expected, undisturbed) = outcome(tmp_path / "killed"), outcome(tmp_path / "whole")
    assert verdicts == expected
    assert list(tables) == list(undisturbed)
    assert all(tables[name].equals(undisturbed[name]) for name in tables)
    assert {path.name for path in (tmp_path / "killed").iterdir()} == {
        path.name for path in (tmp_path / "whole").iterdir()
    }
    assert not list((tmp_path / "killed").rglob("*.part"))


def test_the_quick_list_is_part_of_the_whole():
    assert set(QUICK) < set(EXPERIMENTS)
    for name in QUICK:
        quick, whole = spec_of(name, quick=True), spec_of(name)
        assert quick.run.steps < whole.run.steps
        assert quick.problem == whole.problem
