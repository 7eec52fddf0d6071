"""The command line, as a user runs it: output, files and exit codes."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from typer.testing import CliRunner

from gossamer import cli
from gossamer.algorithms import ALGORITHMS
from gossamer.networks import NETWORKS
from gossamer.specs.spec import Spec
from tests.commands import gossamer

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_plot_draws_what_was_measured(tmp_path):
    spec = tmp_path / "spec.toml"
    text = (EXAMPLES / "own-data.toml").read_text()
    for file in ("sites.csv", "towns.edges"):
        text = text.replace(f'"{file}"', f'"{EXAMPLES / file}"')
    spec.write_text(text)
    first = gossamer("run", spec, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "result: runs/spec" in first.stdout
    again = gossamer("run", spec, cwd=tmp_path)
    assert (again.stdout, again.stderr) == (first.stdout, "")
    drawn = gossamer("plot", "runs/spec", "--x", "bytes", cwd=tmp_path)
    names = {path.name for path in (tmp_path / "runs/spec/figures").iterdir()}
    metrics = ("loss", "grad_norm_sq", "stationarity", "consensus", "tracking")
    assert names == {f"{name}-bytes.{kind}" for name in metrics for kind in ("pdf", "png")}
    assert len(drawn.stdout.splitlines()) == 10
    assert gossamer("plot", "runs/spec", "--metric", "accuracy", cwd=tmp_path).returncode == 2
    assert gossamer("report", "runs/spec", cwd=tmp_path).stdout.strip() == "runs/spec/report.html"
    assert "sites.csv" in (tmp_path / "runs/spec/report.html").read_text(encoding="utf-8")
    assert (tmp_path / "runs/spec/tables/spec-summary.tex").is_file()
    assert json.loads((tmp_path / "runs/spec/methods.json").read_text())["spec"]["sentences"]


def test_list_names_everything():
    listed = json.loads(gossamer("list", "--json").stdout)
    assert [entry["name"] for entry in listed["algorithms"]] == list(ALGORITHMS)
    assert [entry["name"] for entry in listed["networks"]] == list(NETWORKS)
    forms = [entry["about"].partition("; also ")[2] for entry in listed["algorithms"] if "; also " in entry["about"]]
    assert forms == ["asynchronous, as Asynchronous Biased-DMT", "asynchronous, as AD-PSGD", "asynchronous"]
    assert all(entry["about"] and "$" not in entry["about"] for entries in listed.values() for entry in entries)
    plain = gossamer("list", "datasets").stdout
    assert "a9a" in plain
    assert "algorithms" not in plain
    assert gossamer("list", "algorithm").returncode == 2


def test_runs_that_all_diverge_end_with_3(tmp_path):
    (tmp_path / "wild.toml").write_text(
        """
        problem = { name = "quadratic", A = [[1.0]], b = [[1.0], [2.0]] }
        network = { name = "complete" }
        run = { steps = 400 }
        algorithm = [{ name = "d-psgd", eta = 50 }]
        """
    )
    done = gossamer("run", "wild.toml", cwd=tmp_path)
    assert done.returncode == 3
    assert "1 of 1" in done.stdout


def test_ctrl_c_ends_with_130_and_the_same_command_goes_on(tmp_path):
    spec = (EXAMPLES / "a9a-ring.toml").read_text().replace("steps = 3000", "steps = 300000")
    (tmp_path / "long.toml").write_text(spec)
    command = [sys.executable, "-m", "gossamer", "run", "long.toml", "--out", "out"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "out" / "spec.toml").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "the same command goes on" in errors
    assert "Traceback" not in errors
    assert {path.name for path in (tmp_path / "out").iterdir()} <= {"spec.toml", "cells"}


def test_plot_puts_the_variants_of_a_study_into_one_figure(tmp_path):
    (tmp_path / "two.toml").write_text(
        """
        problem = { name = "quadratic", A = [[1.0]], b = [[1.0], [2.0]] }
        network = { name = "complete" }
        run = { steps = 20 }
        algorithm = [{ name = "d-psgd", eta = 0.1 }]
        variant = [{ name = "slow" }, { name = "fast", algorithm = { eta = 0.5 } }]
        """
    )
    assert gossamer("run", "two.toml", cwd=tmp_path).returncode == 0
    drawn = gossamer("plot", "runs/two", "--metric", "loss", "--format", "svg", cwd=tmp_path)
    assert drawn.stdout.split() == ["runs/two/figures/loss-rounds.svg"]


def test_tune_prints_what_was_chosen(tmp_path):
    (tmp_path / "tuned.toml").write_text(
        """
        problem = { name = "quadratic", A = [[1.0]], b = [[1.0], [2.0]] }
        network = { name = "complete" }
        run = { steps = 40 }
        tuning = { eta = [0.01, 1.0], budget = 8, together = 8 }
        algorithm = [{ name = "d-psgd" }, { name = "biased-dmt" }]
        """
    )
    done = gossamer("tune", "tuned.toml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["algorithm"] for row in rows if row["chosen"]] == ["d-psgd", "biased-dmt"]
    shown = gossamer("tune", "tuned.toml", cwd=tmp_path)
    assert shown.stderr == ""
    assert all(row["setting"] in shown.stdout for row in rows if row["chosen"])


def test_the_spec_of_an_experiment_can_be_copied(tmp_path):
    (tmp_path / "mine.toml").write_text(gossamer("reproduce", "fig2", "--spec").stdout)
    assert Spec.read(tmp_path / "mine.toml").run.steps == 10_000


def test_help_shows_examples_and_exit_codes():
    assert "130 interrupted" in gossamer("--help").stdout
    assert "gossamer run examples/a9a-ring.toml" in gossamer("run", "--help").stdout
    assert gossamer("--version").stdout.strip() == "0.1.0"


def test_help_shows_flags_without_a_value():
    for words in ([], *([name] for name in cli.COMMANDS)):
        shown = CliRunner().invoke(cli.app(), [*words, "--help"])
        assert shown.exit_code == 0
        assert "--help" in shown.stdout
        assert "<bool>" not in shown.stdout


PAPER_RING = """
[problem]
name = "logistic"
data = "breast-cancer"
agents = 20

[network]
name = "ring"

[run]
steps = 1000

[[algorithm]]
name = "biased-dmt"
eta = 0.1
lam = 0.05
"""


def test_plan_says_what_the_theory_admits_on_the_paper_s_ring(tmp_path):
    """ρ = ⅔(1 − cos(2π/20)); the limits depend on n and ρ alone."""
    (tmp_path / "spec.toml").write_text(PAPER_RING)
    done = gossamer("plan", "spec.toml", "--no-trial", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert round(found["constants"]["gap"], 6) == 0.032629
    printed, repaired = found["theory"]["printed"], found["theory"]["repaired"]
    assert f"{printed['lam_limit']:.3e}" == "1.824e-03"
    assert f"{printed['corollary_steps']:.2e}" == "6.01e+06"
    assert f"{repaired['corollary_steps']:.2e}" == "7.06e+07"
    assert f"{printed['corollary_A3']:.2f}" == "-8.63"
    assert found["vacuous"] == ["printed", "repaired"]
    text = gossamer("plan", "spec.toml", "--no-trial", cwd=tmp_path).stdout
    assert "n = 20, ρ = 0.032629" in text
    assert "Vacuous, printed and repaired: the bound is above ‖∇F(x⁰)‖² = " in text
    assert "The printed proof of Corollary 1 fails here" in text


def test_certify_checks_every_lemma_of_a_quadratic_and_refuses_other_rules(tmp_path):
    done = gossamer("certify", EXAMPLES / "quadratic.toml", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kind"] == "exact"
    assert found["violated"] == []
    verdicts = {check["name"]: check["verdict"] for check in found["checks"]}
    assert len(verdicts) == 13
    assert set(verdicts.values()) == {"holds"}
    (tmp_path / "spec.toml").write_text(PAPER_RING.replace("biased-dmt", "gt-dsgd").replace("lam = 0.05\n", ""))
    refused = gossamer("certify", "spec.toml", cwd=tmp_path)
    assert refused.returncode == 2
    assert "the theory is of biased-dmt, but the spec runs none" in refused.stderr


def test_audit_says_whether_the_assumption_holds(tmp_path):
    stage = '[oracle]\nstages = [{ kind = "top-k", share = 0.5 }]\n\n[run]'
    (tmp_path / "spec.toml").write_text(PAPER_RING.replace("[run]", stage).replace("1000", "20"))
    done = gossamer("audit", "spec.toml", "--rounds", "2", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["stated"]["relative"] == 0.5
    assert 0 < finding["measured"]["relative"] <= 0.5
    assert "1/256" in gossamer("audit", "spec.toml", "--rounds", "2", cwd=tmp_path).stdout
