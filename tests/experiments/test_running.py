"""Specs: what they accept, what they refuse, and how a run in a directory goes on."""

import json
import os
from typing import Any

import numpy as np
import pytest

import gossamer as gs
from gossamer.basics.files import atomic
from gossamer.engines import runs
from gossamer.experiments.running import run
from gossamer.results.study import Study
from gossamer.specs.spec import Spec

GOOD = """
[problem]
name = "logistic"
data = "breast-cancer"
agents = 6

[network]
name = "ring"

[oracle]
batch = 8
stages = [{ kind = "additive-bias", mean = 0.002, std = 0.005, redraw = false }]

[run]
steps = 30
every = 10
seeds = 2

[[algorithm]]
name = "biased-dmt"
eta = 0.1
lam = 0.05

[[algorithm]]
name = "d-psgd"
eta = 0.02
"""


@pytest.fixture
def spec(tmp_path):
    return written(tmp_path, GOOD)


def written(folder, text):
    path = folder / "spec.toml"
    path.write_text(text, encoding="utf-8")
    return Spec.read(path)


def test_a_spec_is_the_same_as_python(spec):
    problem = gs.problems.logistic("breast-cancer", agents=6)
    oracle = gs.oracles.minibatch(8) | gs.oracles.additive_bias(mean=0.002, std=0.005, redraw=False)
    rules = [gs.BiasedDMT(0.1, 0.05), gs.DPSGD(0.02)]
    here = gs.simulate(rules, problem, gs.networks.ring(6), oracle, steps=30, every=10, seeds=2)
    assert run(spec).result.frame().equals(here.frame())


def test_a_spec_survives_its_own_toml(spec, tmp_path):
    (tmp_path / "again.toml").write_text(spec.toml(), encoding="utf-8")
    assert Spec.read(tmp_path / "again.toml") == spec


def test_every_kind_of_section_can_be_made(tmp_path):
    text = """
    problem = { name = "quadratic", A = [[2.0, 0.0], [0.0, 1.0]], b = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]] }
    network = { name = "torus", rows = 2 }
    run = { steps = 3, dtype = "float64", seeds = [5, 7] }
    algorithm = [{ name = "gnsd", eta = 0.1 }]
    """
    result = run(written(tmp_path, text)).result
    assert result.seeds == [5, 7]
    assert result.manifest["network"]["name"] == "torus(2, 2)"


def test_paths_are_found_from_the_spec(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.libsvm").write_text("+1 1:1\n-1 2:1\n+1 1:1 2:1\n-1 2:0.5\n")
    monkeypatch.chdir("/")
    spec = written(tmp_path, GOOD.replace('"breast-cancer"\nagents = 6', '"data/mine.libsvm"\nagents = 4'))
    problem: Any = spec.parts().problem
    assert problem.sizes.tolist() == [1, 1, 1, 1]
    assert str(tmp_path / "data" / "mine.libsvm") in spec.toml()


def test_a_run_is_saved_whole_and_read_back(spec, tmp_path):
    first = run(spec, tmp_path / "out").result
    names = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert names == ["arrays.npz", "cells", "manifest.json", "result.parquet", "spec.toml", "study.json"]
    assert Spec.read(tmp_path / "out" / "spec.toml") == spec
    assert gs.Result.load(tmp_path / "out").frame().equals(first.frame())
    assert Study.load(tmp_path / "out").result.frame().equals(first.frame())


def rounds_run(spec, folder):
    """The rounds that were computed, by algorithm."""
    seen = []
    study = run(spec, folder, progress=lambda name, done, *_: seen.append((name, done)))
    return {name: [done for other, done in seen if other == name] for name, _ in seen}, study


def test_a_finished_run_computes_nothing_again(spec, tmp_path):
    whole = run(spec, tmp_path / "out").result
    computed, again = rounds_run(spec, tmp_path / "out")
    assert computed == {}
    assert again.result.frame().equals(whole.frame())


def test_an_interrupted_run_goes_on_and_ends_the_same(spec, tmp_path):
    def stop_in_the_second(name, done, total, loss):
        if name == "d-psgd":
            raise KeyboardInterrupt

    spec = spec.model_copy(update={"algorithm": spec.algorithm})
    with pytest.raises(KeyboardInterrupt):
        run(spec, tmp_path / "out", progress=stop_in_the_second)
    assert not (tmp_path / "out" / "manifest.json").exists()
    computed, resumed = rounds_run(spec, tmp_path / "out")
    whole = run(spec, tmp_path / "whole")
    assert "d-psgd" in computed
    assert resumed.result.frame().equals(whole.result.frame())
    for label, x in whole.result.iterates.items():
        np.testing.assert_array_equal(resumed.result.iterates[label], x)


def test_a_longer_run_goes_on_from_the_last_segment(spec, tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "SEGMENT", 10)
    run(spec, tmp_path / "out")
    longer = spec.model_copy(update={"run": spec.run.model_copy(update={"steps": 50})})
    computed, extended = rounds_run(longer, tmp_path / "out")
    assert {name: min(rounds) for name, rounds in computed.items()} == {"biased-dmt": 30, "d-psgd": 30}
    whole = run(longer, tmp_path / "whole").result
    assert extended.result.frame().equals(whole.frame())
    monkeypatch.setattr(runs, "SEGMENT", 5_000)
    assert run(longer).result.frame().equals(whole.frame())


def test_more_seeds_compute_only_the_new_ones(spec, tmp_path):
    fixed = spec.run.model_copy(update={"seeds_together": 2})
    spec = spec.model_copy(update={"run": fixed})
    run(spec, tmp_path / "out")
    cells = set((tmp_path / "out" / "cells").iterdir())
    more = spec.model_copy(update={"run": fixed.model_copy(update={"seeds": 3})})
    extended = run(more, tmp_path / "out").result
    assert len(set((tmp_path / "out" / "cells").iterdir()) - cells) == 2
    assert extended.frame().equals(run(more, tmp_path / "whole").result.frame())


def test_a_damaged_cell_is_computed_anew_and_said(spec, tmp_path, capsys):
    whole = run(spec, tmp_path / "out").result
    victim = sorted((tmp_path / "out" / "cells").iterdir())[0]
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    again = run(spec, tmp_path / "out").result
    assert f"{victim} is damaged (its checksum does not match): computed anew" in capsys.readouterr().err
    assert again.frame().equals(whole.frame())
    victim.write_bytes(data[:100])
    assert run(spec, tmp_path / "out").result.frame().equals(whole.frame())


def test_what_else_is_in_a_block_changes_no_bit(spec, tmp_path):
    """Seeds in other company, at the same width, and in another order."""
    together = {"seeds_together": 3}
    few = spec.model_copy(update={"run": spec.run.model_copy(update=together | {"seeds": [4]})})
    many = spec.model_copy(update={"run": spec.run.model_copy(update=together | {"seeds": [7, 4, 1, 0]})})
    alone, among = run(few).result.frame(), run(many).result.frame()
    assert alone.equals(among.filter(among["seed"] == 4))


def test_a_directory_of_another_run_is_refused(spec, tmp_path):
    run(spec, tmp_path / "out")
    other = spec.model_copy(update={"run": spec.run.model_copy(update={"steps": 29})})
    with pytest.raises(gs.InputError, match=r"out holds another run: .* in run\.steps\. .* --out .*out-2"):
        run(other, tmp_path / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    with pytest.raises(gs.InputError, match="is not empty and holds no run"):
        run(spec, tmp_path / "mine")
    with pytest.raises(gs.InputError, match="is a file"):
        run(spec, tmp_path / "mine" / "notes.txt")


def test_data_that_changed_are_other_runs(tmp_path):
    data = tmp_path / "mine.libsvm"
    data.write_text("+1 1:1\n-1 2:1\n+1 1:1 2:1\n-1 2:0.5\n")
    spec = written(tmp_path, GOOD.replace('"breast-cancer"\nagents = 6', '"mine.libsvm"\nagents = 4'))
    before = run(spec, tmp_path / "out").result
    data.write_text("+1 1:1\n-1 2:1\n+1 1:1 2:1\n-1 2:0.25\n")
    after = run(spec, tmp_path / "out").result
    assert after.manifest["data"]["sha256"] != before.manifest["data"]["sha256"]
    assert not after.frame().equals(before.frame())


def test_the_manifest_of_a_finished_run_names_all_algorithms(spec, tmp_path):
    run(spec, tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [name for name, _ in manifest["algorithms"]] == ["biased-dmt", "d-psgd"]
    assert len(manifest["seconds"]) == 2


BAD = {
    "unknown section": ("[run]", "[ruin]\nx = 1\n[run]", r"key 'ruin' is not known; did you mean 'run'"),
    "unknown key": ("steps = 30", "setps = 30\nsteps = 30", r"key 'run.setps' is not known; did you mean 'steps'"),
    "wrong type": (
        "steps = 30",
        'steps = "many"',
        r"'run.steps' must be a whole number without quotation marks, but",
    ),
    "missing": ("steps = 30", "", r"key 'run.steps' is missing"),
    "dtype": (
        "seeds = 2",
        'dtype = "half"',
        r"'run.dtype' is 'half', which is not known; choose from float32, float64",
    ),
    "steps": ("steps = 30", "steps = 0", r"\[run\] steps must be a whole number of at least 1"),
    "no problem name": ('name = "logistic"', "", r"\[problem\] name is missing. Known: .*logistic"),
    "problem": ('"logistic"', '"logistics"', r"\[problem\] name = 'logistics' is not known; did you mean 'logistic'"),
    "option": ("agents = 6", "agents = 6\nalhpa = 1", r"\[problem\] logistic: key 'alhpa' is not known; did you mean"),
    "option type": ("agents = 6", 'agents = "six"', r"\[problem\] the number of agents must be a whole number"),
    "alpha": ("agents = 6", "agents = 6\nalpha = -1", r"\[problem\] logistic\(alpha=…\) must be a number in \[0, ∞\)"),
    "split": ("agents = 6", 'agents = 6\nsplit = "lables:2"', r"\[problem\].*labels"),
    "agents": ("agents = 6", "agents = 600", r"\[problem\].*600"),
    "data": ('"breast-cancer"', '"breast-cancre"', r"\[problem\].*breast-cancer"),
    "file": ('"breast-cancer"', '"no/such/file.csv"', r"\[problem\].*no/such/file.csv"),
    "network": ('"ring"', '"rign"', r"\[network\] 'rign' is not a network; did you mean 'ring'"),
    "network option": ('"ring"', '"ring"\nweight = "lazy"', r"\[network\] ring has no option 'weight'; did you mean"),
    "batch": ("batch = 8", "batch = 0", r"\[oracle\] minibatch\(batch=…\) must be a whole number"),
    "stage": ('"additive-bias"', '"additive"', r"\[oracle\] stage 1: kind = 'additive' is not known; did you mean"),
    "stage option": ("redraw", "redrow", r"\[oracle\] stage 1: additive-bias: key 'redrow' is not known; did you mean"),
    "algorithm": ('"d-psgd"', '"dpsgd"', r"\[\[algorithm\]\] number 2: name = 'dpsgd' is not known; did you mean"),
    "hyper-parameter": ("eta = 0.02", "eat = 0.02", r"number 2: d-psgd: key 'eat' is not known; did you mean 'eta'"),
    "no value": ("eta = 0.02", "", r"number 2: d-psgd: key 'eta' is missing"),
    "range": ("lam = 0.05", "lam = 5", r"number 1: BiasedDMT\(lam=…\) must be a number in \(0, 1\], but is 5"),
    "not a number": ("eta = 0.02", "eta = nan", r"DPSGD\(eta=…\) must be a number"),
    "syntax": ("[run]", "[run", r"is not TOML: .*line"),
}


@pytest.mark.parametrize("case", BAD)
def test_refuses_bad_specs(case, tmp_path):
    old, new, message = BAD[case]
    assert old in GOOD
    with pytest.raises(gs.InputError, match=message):
        run(written(tmp_path, GOOD.replace(old, new, 1)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_missing_spec_is_said(tmp_path):
    with pytest.raises(gs.InputError, match="does not exist"):
        Spec.read(tmp_path / "spec.toml")


def test_what_a_killed_process_left_is_removed(spec, tmp_path):
    (tmp_path / "out" / "cells").mkdir(parents=True)
    (tmp_path / "out" / "spec.toml").write_text(spec.toml(), encoding="utf-8")
    dead = tmp_path / "out" / "cells" / f".a.cell.{os.getpid()}.part"  # the number of a process that lives
    dead.touch()
    with atomic(tmp_path / "out" / "cells" / "b.cell") as alive:
        run(spec, tmp_path / "out")
        assert not dead.exists()
        assert alive.exists()
