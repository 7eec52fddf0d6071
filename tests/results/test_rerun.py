"""The same command again: nothing is touched where all is done, and all is computed anew where the code changed."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import jax
import pytest

import gossamer as gs
from gossamer.core import State
from gossamer.engines import runs
from gossamer.experiments.running import run
from gossamer.results import provenance
from gossamer.results.study import Study
from gossamer.specs.spec import Spec
from tests.papers.made_up_studies import fig2

SMALL = """
[problem]
name = "quadratic"
A = [[2.0, 0.0], [0.0, 1.0]]
b = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]

[network]
name = "ring"

[run]
steps = 4
every = 2

[[algorithm]]
name = "biased-dmt"
eta = 0.1
lam = 0.3

[[algorithm]]
name = "d-psgd"
eta = 0.2
"""


def written(folder, text):
    (folder / "own.toml").write_text(text, encoding="utf-8")
    return Spec.read(folder / "own.toml")


def rounds_run(spec, folder):
    """The rounds that were computed, by algorithm."""
    seen = []
    study = run(spec, folder, progress=lambda name, done, *_: seen.append((name, done)))
    return {name: [done for other, done in seen if other == name] for name, _ in seen}, study


def on_disk(folder):
    """Every file and directory with its bytes and the time at which it was changed."""
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in [folder, *folder.rglob("*")]
    }


def test_a_run_that_finds_everything_done_changes_nothing_on_disk(tmp_path):
    tuning = "[tuning]\neta = [0.01, 0.1]\nbudget = 8\nseeds = 1\n"
    text = SMALL.replace("eta = 0.2\n", tuning)
    text += '\n[[variant]]\nname = "a"\n\n[[variant]]\nname = "b"\nnetwork = { name = "complete" }\n'
    spec = written(tmp_path, text)
    first = run(spec, tmp_path / "out")
    before = on_disk(tmp_path / "out")
    again = run(spec, tmp_path / "out")
    assert on_disk(tmp_path / "out") == before
    stored = Study.load(tmp_path / "out")
    for variant, result in first.results.items():
        assert stored.results[variant].manifest["seconds"] == result.manifest["seconds"]
        assert again.results[variant].manifest["seconds"] == result.manifest["seconds"]
        assert again.results[variant].frame().equals(result.frame())


@pytest.mark.slow
def test_pieces_of_two_codes_are_never_joined(tmp_path, monkeypatch, capsys):
    """A longer run after a method changed starts anew, and ends as if the old had never run."""
    monkeypatch.setattr(runs, "SEGMENT", 10)
    spec = written(tmp_path, SMALL.replace("steps = 4", "steps = 30"))
    run(spec, tmp_path / "out")
    old = gs.DPSGD.step
    monkeypatch.setattr(gs.DPSGD, "step", lambda self, s, agent: State(x=2 * old(self, s, agent).x))
    monkeypatch.setitem(provenance._ROOMS, "algorithms", "other source")
    jax.clear_caches()
    longer = spec.model_copy(update={"run": spec.run.model_copy(update={"steps": 50})})
    computed, joined = rounds_run(longer, tmp_path / "out")
    said = capsys.readouterr().err
    whole = run(longer, tmp_path / "whole").result
    jax.clear_caches()  # for whoever comes after
    assert {name: min(rounds) for name, rounds in computed.items()} == {"biased-dmt": 0, "d-psgd": 0}
    assert f"{tmp_path / 'out'}: the code changed since " in said
    assert said.count("\n") == 1
    assert joined.result.frame().equals(whole.frame())


def test_another_line_in_an_algorithm_is_another_run(tmp_path):
    """One line of an algorithm's file is changed, and the same command computes anew, says so, and keeps both."""
    source = Path(gs.__file__).parent
    shutil.copytree(source, tmp_path / "src" / "gossamer", ignore=shutil.ignore_patterns("__pycache__"))
    written(tmp_path, SMALL)
    command = [sys.executable, "-m", "gossamer", "run", "own.toml", "--json"]

    def ran():
        environment = os.environ | {"PYTHONPATH": str(tmp_path / "src")}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["algorithms"][1]["loss"], done.stderr

    first, said = ran()
    assert "changed" not in said
    file = tmp_path / "src" / "gossamer" / "algorithms" / "d_psgd.py"
    line = "agent.gossip(s.x) - self.eta * agent.gradient(s.x)"
    changed = file.read_text(encoding="utf-8")
    assert line in changed
    file.write_text(changed.replace(line, line.replace("self.eta", "2 * self.eta")), encoding="utf-8")
    second, said = ran()
    assert second != first
    (changed,) = [text for text in said.splitlines() if "changed" in text]
    assert re.fullmatch(r"runs/own: the code changed since 20\S+ \S+ \(gossamer\.algorithms\): computed anew", changed)
    assert len(list((tmp_path / "runs" / "own" / "cells").iterdir())) == 4


@pytest.mark.slow
def test_two_commands_that_end_at_once_leave_one_whole_study(tmp_path):
    """Both write at the same moment, each its own seconds; the files that are left belong together."""
    study, start = fig2(), threading.Barrier(2)

    def save(seconds, folder):
        own = {name: replace(one, manifest={"seconds": {"all": seconds}}) for name, one in study.results.items()}
        start.wait()
        replace(study, results=own).save(folder)

    with ThreadPoolExecutor(2) as pool:
        for number in range(20):
            folder = tmp_path / str(number)
            folder.mkdir()
            list(pool.map(save, [1, 2], [folder, folder]))
            found = {result.manifest["seconds"]["all"] for result in Study.load(folder).results.values()}
            assert found in ({1}, {2})
