"""Runs that were interrupted, tuned to what is there already, or made of no numbers at all."""

import json

import jax
import numpy as np
import pytest

import gossamer as gs
from gossamer import data
from gossamer.basics.files import seal, unseal
from gossamer.basics.keys import RUN, keys_of, root
from gossamer.core import State, rule
from gossamer.engines import runs
from gossamer.experiments.audit import audit
from gossamer.experiments.running import run
from gossamer.results.store import Store, read_cell
from gossamer.results.study import Study
from gossamer.specs.spec import Spec
from tests.table import table

POINTS = [[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [1.0, 3.0]]


def spec(algorithm=({"name": "d-psgd", "eta": 0.1},), steps=20, **sections):
    given = {
        "problem": {"name": "quadratic", "A": [[1.0, 0.0], [0.0, 2.0]], "b": POINTS},
        "network": {"name": "ring"},
        "run": {"steps": steps, "dtype": "float64"},
        "algorithm": list(algorithm),
    }
    return Spec.of(given | sections)


def test_seconds_are_those_of_all_calls(tmp_path, monkeypatch):
    """A longer run takes what the shorter took, which another call computed, and more."""
    monkeypatch.setattr(runs, "SEGMENT", 10)

    def seconds(steps):
        given = spec(run={"steps": steps, "every": 10, "dtype": "float64"})
        return run(given, tmp_path, progress=False).result.manifest["seconds"]["d-psgd(eta=0.1)"]

    short = seconds(20)
    cells = list((tmp_path / "cells").iterdir())
    found = [read_cell(path) for path in cells]
    assert sum(float(arrays["seconds"]) for _, arrays in found) == pytest.approx(short, abs=1e-3)
    key, arrays = found[0]
    Store(tmp_path / "cells").put(key, arrays | {"seconds": np.float64(1000.0)})
    assert 1000 < seconds(40) < 1100


def test_a_tuned_choice_that_is_there_already_keeps_a_name_of_its_own(tmp_path):
    tuning = {"eta": [0.05, 0.1], "sampler": "grid", "budget": 8, "seeds": 1}
    both = spec([{"name": "d-psgd"}, {"name": "d-psgd", "eta": 0.1}], tuning=tuning)
    study = run(both, tmp_path, progress=False)
    titles = [("d-psgd", "eta=0.1"), ("d-psgd", "eta=0.1, as [[algorithm]] number 2")]
    assert list(study.result.states) == titles
    assert list(Study.load(tmp_path).result.states) == titles
    assert study.result.table.group_by("setting").len()["len"].to_list() == [21, 21]


def test_a_directory_of_another_format_is_left_alone(tmp_path):
    run(spec(), tmp_path, progress=False)
    path = tmp_path / "study.json"
    path.write_bytes(path.read_bytes().replace(b'"format": 3', b'"format": 4'))
    before = path.read_bytes()
    with pytest.raises(gs.InputError, match=r"study\.json is of format 4; this version knows format 3: choose another"):
        run(spec(steps=40), tmp_path, progress=False)
    assert path.read_bytes() == before


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_facts_of_an_absurd_problem_are_json(tmp_path):
    huge = {"name": "quadratic", "A": [[1e99, 0.0], [0.0, 1e99]], "b": [[1e99, 0.0], *POINTS[1:]]}
    study = run(spec(problem=huge, steps=2), tmp_path, progress=False)
    assert study.facts[""]["heterogeneity"] is None
    assert study.facts[""]["smoothness"] == 1e99
    known = unseal("study.json", (tmp_path / "study.json").read_bytes())
    json.dumps(known, allow_nan=False)
    assert seal(known)


@rule("no-numbers")
class NoNumbers:
    """A rule without hyper-parameters."""

    def init(self, x, agent):
        return State(x=x)

    def step(self, s, agent):
        return State(x=agent.gossip(s.x) - 0.1 * agent.gradient(s.x))


def test_a_rule_without_numbers_runs():
    problem, network = gs.problems.quadratic(np.eye(2), POINTS), gs.networks.ring(4)
    given = dict(steps=20, seeds=2, dtype="float64", progress=False)
    mine = gs.simulate(NoNumbers(), problem, network, **given).iterates["no-numbers"]
    theirs = gs.simulate(gs.DPSGD(eta=0.1), problem, network, **given).iterates["d-psgd"]
    np.testing.assert_allclose(mine, theirs, atol=1e-12)


def test_keys_of_many_seeds_are_those_of_each():
    seeds = [0, 7, 2**31 - 1]
    made = jax.random.key_data(keys_of(seeds, 3))
    for k, seed in enumerate(seeds):
        for purpose, key in enumerate(jax.random.split(root(RUN, seed))):
            one = jax.random.key_data(jax.random.fold_in(key, 2))
            np.testing.assert_array_equal(made[k, purpose, 2], one)


@table("value", [np.array(["a", "b"]), 10**5000, ["y"], None])
def test_a_column_is_named_by_text(value):
    with pytest.raises(gs.InputError, match=r"load\(label=…\) must be the name of a column"):
        data.load((np.eye(2), np.array([0, 1])), label=value)


def huge_delay(**sections):
    return spec(oracle={"stages": [{"kind": "delay", "rounds": 2 * 10**9}]}, **sections)


def test_what_an_audit_or_a_plan_cannot_hold_is_refused():
    parts = huge_delay(problem={"name": "quadratic", "A": [[1.0]], "b": [[1.0]] * 400}).parts()
    with pytest.raises(gs.InputError, match=r"what the oracle remembers .* TB of memory, .* lower the delay"):
        gs.theory.plan(parts.problem, parts.network, parts.oracle, steps=10)
    with pytest.raises(gs.InputError, match=r"what the oracle remembers .* TB of memory, .* lower the delay"):
        audit(huge_delay(problem={"name": "quadratic", "A": [[1.0]], "b": [[1.0]] * 400}), progress=False)
