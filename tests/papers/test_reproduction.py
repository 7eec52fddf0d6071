"""The reproduction: its specs, and that a killed one ends as if nothing had happened."""

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

import gossamer as gs
from gossamer.experiments import running as experiment
from gossamer.papers import finish, installed, which
from gossamer.papers.reproduction import Countdown
from gossamer.problems import Quadratic
from gossamer.specs.spec import Spec

PAPER = installed()["biased-dmt"]
EXPERIMENTS, CLAIMS = tuple(PAPER.experiments), PAPER.claims
QUICK = tuple(name for name, one in PAPER.experiments.items() if one.quick is not None)


def spec_of(name, quick=False):
    (run,) = PAPER.runs([name], quick=quick)
    return run.spec


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_a_spec_whose_parts_can_be_made(name):
    spec = spec_of(name)
    made = {variant: one.parts() for variant, one in spec.variants().items()}
    assert {parts.problem.agents for parts in made.values()} == {parts.network.agents for parts in made.values()}
    assert any(claim.experiment == name for claim in CLAIMS)
    assert spec.title


def test_an_unknown_experiment_is_refused():
    with pytest.raises(gs.InputError, match="there is no experiment 'fig3' in biased-dmt; did you mean 'fig"):
        PAPER.text_of("fig3")


SMALL = Path(__file__).with_name("small_reproduction.py")
DOCS = Path(__file__).parents[2] / "docs"


def command(folder, *program):
    return [sys.executable, *(program or ("-m", "gossamer")), "reproduce", "--quick", "--out", str(folder)]


def small(folder, *options, steps=60, failing=""):
    """The reproduction on small data, whose programs are not worth optimising."""
    environment = os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "STEPS": str(steps), "FAILING": failing}
    call = [*command(folder, str(SMALL)), *options]
    return subprocess.Popen(call, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def outcome(folder):
    """The verdicts and all result tables, but for the seconds that were measured."""
    tables = {str(path.relative_to(folder)): pl.read_parquet(path) for path in sorted(folder.rglob("*.parquet"))}
    return json.loads((folder / "verdicts.json").read_text(encoding="utf-8")), tables


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A whole quick reproduction, its experiments side by side where there are two cores."""
    folder = tmp_path_factory.mktemp("quick")
    done = subprocess.run(command(folder), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert "report:" in done.stdout
    return folder


def found():
    """The verdicts of the whole run that the page of findings was written from."""
    return json.loads((DOCS / "assets" / "reproduction" / "verdicts.json").read_text(encoding="utf-8"))


def test_the_page_of_findings_says_what_was_found():
    assert [row["claim"] for row in found()] == [claim.claim for claim in CLAIMS]
    written = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    lines = [line for line in written.splitlines() if line.startswith("- <span")]
    for line, row in zip(lines, found(), strict=True):
        (part,) = (part for part in row["evidence"]["parts"] if part["decides"])
        assert f"{row['verdict']}</span> **{row['claim']}.** {row['evidence']['quantity']}:" in line
        assert f"{part['name']} {part['value']:.4g} [{part['low']:.4g}, {part['high']:.4g}]" in line
        assert f"*{row['section']}" in line


@pytest.mark.slow
def test_quick_and_whole_never_contradict_each_other(quick):
    said = {row["claim"]: row["verdict"] for row in found()}
    opposite = {("holds", "does not hold"), ("does not hold", "holds")}
    verdicts, _ = outcome(quick)
    assert [row["claim"] for row in verdicts if (row["verdict"], said[row["claim"]]) in opposite] == []
    decided = {row["experiment"] for row in verdicts if row["verdict"] in ("holds", "does not hold")}
    assert decided == set(QUICK)


def test_the_time_that_is_left_follows_from_what_is_done():
    runs = PAPER.runs(["fig2", "sensitivity"], quick=True)
    took = {run.name: run.seconds for run in runs}
    countdown = Countdown(runs, processes=1, timed=True)
    assert str(countdown).startswith("0 of 2 experiments done, about ")
    countdown.add("fig2", 10 * took["fig2"])
    left = float(str(countdown).removeprefix("1 of 2 experiments done, about ").removesuffix(" min left"))
    assert left == pytest.approx(10 * sum(took.values()) / 60, rel=0.01)
    countdown.add("sensitivity", 1.0)
    assert str(countdown) == "2 of 2 experiments done"


def cells(folder):
    return len(list(folder.glob("*/cells/*")))


@pytest.mark.slow
def test_a_killed_reproduction_ends_as_if_nothing_had_happened(tmp_path):
    """Killed three times, each time at another part of what it computes."""
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    whole = small(undisturbed)
    assert whole.communicate(timeout=900)[1] is not None
    assert whole.returncode == 0
    rng = random.Random(0)
    for enough in sorted(rng.sample(range(1, cells(undisturbed) * 3 // 4), 3)):
        with small(killed) as process:
            while cells(killed) < enough and process.poll() is None:
                time.sleep(0.02)
            time.sleep(rng.uniform(0, 0.2))
            process.kill()
        assert process.returncode == -signal.SIGKILL
    with small(killed) as again:
        _, said = again.communicate(timeout=900)
    assert again.returncode == 0, said
    (verdicts, tables), (expected, expected_tables) = outcome(killed), outcome(undisturbed)
    assert verdicts == expected
    assert list(tables) == list(expected_tables)
    assert all(tables[name].equals(expected_tables[name]) for name in tables)
    assert {path.name for path in killed.iterdir()} == {path.name for path in undisturbed.iterdir()}
    assert not list(killed.rglob("*.part"))


@pytest.fixture
def plain(tmp_path):
    """A study of a spec that is none of the paper's, by the name of one."""
    spec = Spec.of(
        {
            "problem": {"name": "quadratic", "A": [[2.0, 0.0], [0.0, 0.5]], "b": [[1.0, 0.0], [0.0, 1.0]]},
            "network": {"name": "complete"},
            "run": {"steps": 10},
            "algorithm": [{"name": "biased-dmt", "eta": 0.1, "lam": 0.5}],
        }
    )
    return experiment.run(spec, tmp_path, name="fig2", progress=False)


@pytest.mark.parametrize("quick", [False, True])
def test_a_study_is_judged_by_what_it_is_and_not_by_its_name(plain, quick):
    study = dataclasses.replace(plain, name="mine", title="Another title", spec=spec_of("fig2", quick=quick).toml())
    found = which(study)
    assert (found.paper.name, found.experiment, found.quick) == ("biased-dmt", "fig2", quick)
    assert which(plain) is None
    other = study.spec.replace("eta = 0.1", "eta = 0.2")
    assert other != study.spec
    assert which(dataclasses.replace(study, spec=other)) is None
    assert which(dataclasses.replace(study, spec="not = [a spec")) is None


def test_any_spec_of_that_name_gets_no_verdicts(plain, tmp_path):
    assert finish({"fig2": plain}, tmp_path, "Not the paper", "gossamer run") == []


def test_an_error_in_one_experiment_ends_the_others(tmp_path):
    with small(tmp_path, "--processes", "2", steps=10**8, failing="fig2") as process:  # the others would take hours
        try:
            _, said = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode == 2
    assert "fig2 fails on purpose" in said
    assert not (tmp_path / "sensitivity" / "study.json").exists()


def test_what_cannot_be_written_into_is_refused_before_any_experiment_runs(tmp_path):
    (tmp_path / "fig2").write_text("a file where a directory should be")
    done = subprocess.run(command(tmp_path), capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "fig2 is a file; --out is a directory" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["fig2"]


def test_the_corollary_s_own_step_sizes_are_what_it_says_and_its_start_is_the_minimum():
    variants = spec_of("corollary").variants()
    assert len(variants) == 9
    for one in variants.values():
        (rule,), parts = one.algorithm, one.parts()
        assert isinstance(parts.problem, Quadratic)
        assert rule["lam"] == pytest.approx((parts.problem.agents / one.run.steps) ** 0.5)
        assert rule["eta"] == pytest.approx(rule["lam"] / (16 * parts.problem.smoothness))
        assert parts.problem.start == pytest.approx(parts.problem.solution())


def test_the_quick_list_is_part_of_the_whole():
    assert set(QUICK) < set(EXPERIMENTS)
    for name in QUICK:
        quick, whole = spec_of(name, quick=True), spec_of(name)
        assert len(quick.variant) + len(quick.algorithm) < len(whole.variant) + len(whole.algorithm)
        assert quick.problem == whole.problem
