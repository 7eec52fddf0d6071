"""Every example runs by its command, and shows what theory says."""

import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gossamer.results.privacy import epsilon
from gossamer.results.study import Study
from gossamer.specs.spec import Spec
from tests.commands import gossamer
from tests.data.images import write_idx
from tests.seldom import seldom

EXAMPLES = Path(__file__).parents[1] / "examples"
APART = ("fashion-mnist", "own-parts")
"""Those whose parts need files of data, or code of one's own."""


@pytest.fixture
def run(tmp_path):
    """Run an example by its command, in this process; the study that it wrote."""

    def study(name, only=(), broke=(), left_out=(), **changed):
        text = (EXAMPLES / f"{name}.toml").read_text(encoding="utf-8")
        if only:
            top, *methods = text.split("[[algorithm]]")
            kept = [method for method in methods if tomllib.loads(method)["name"] in only]
            text = "[[algorithm]]".join([top, *kept])
        for key, value in changed.items():
            given = [line for line in text.splitlines() if line.startswith(f"{key} = ")]
            assert len(given) == 1
            text = text.replace(given[0], f"{key} = {value}")
        for part in left_out:
            blocks = text.split("\n\n")
            text = "\n\n".join(block for block in blocks if part not in block)
            assert len(text.split("\n\n")) == len(blocks) - 1
        spec = EXAMPLES / f"{name}.toml"
        if only or changed or left_out:
            spec = tmp_path / spec.name
            spec.write_text(text, encoding="utf-8")
        done = gossamer("run", spec, "--json", "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
        return judged(spec, tmp_path / name, done.stdout, done.stderr, broke)

    return study


def judged(spec, folder, printed, told, broke=()):
    rows = json.loads(printed)["algorithms"]
    variants = Spec.read(spec).variants()
    wanted = [(variant, one["name"]) for variant, made in variants.items() for one in made.algorithm]
    assert [(row["variant"], row["algorithm"]) for row in rows] == wanted
    for row in rows:
        assert row["diverged"] == (row["seeds"] if (row["variant"], row["algorithm"], row["setting"]) in broke else 0)
    assert "rounds, F = " in told or all(row["reached"] == row["seeds"] for row in rows)
    return Study.load(folder)


def ends(result, metric):
    """The metric of each algorithm in the last round."""
    frame = result.frame()
    last = frame.filter(frame["round"] == frame["round"].max())
    return dict(zip(last["algorithm"], last[metric], strict=True))


@pytest.mark.parametrize("name", seldom(["digits-neural", "own-network"], always=["own-network"]))
def test_other_examples_run(name, run):
    run(name)


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.toml") if path.stem not in APART))
def test_the_parts_of_every_example_can_be_made(name):
    """Which are also run always, and which by `make slow` alone, is marked here."""
    made = [one.parts() for one in Spec.read(EXAMPLES / f"{name}.toml").variants().values()]
    assert all(parts.candidates for parts in made)


def test_the_paper_s_problem_runs(run):
    """All five methods, for a tenth of the rounds."""
    run("a9a-ring", steps=300)


def test_the_notebook_runs_and_holds_no_output():
    """Its cells are plain Python, run in one process from top to bottom."""
    notebook = json.loads((EXAMPLES / "first_steps.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    code = "\n".join("".join(cell["source"]) for cell in cells)
    environment = os.environ | {"MPLBACKEND": "Agg"}
    words = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "biased-dmt is ahead of d-psgd" in done.stdout
    for line in (line for line in lines if line.startswith("μ = ")):
        predicted, found = (float(number) for number in re.findall(r"\d\.\d+e-\d+", line))
        assert found == pytest.approx(predicted, rel=0.15)
    assert sum(line.startswith("μ = ") for line in lines) == 3
    assert sum(line.startswith("λ = ") for line in lines) == 3


def test_a_process_of_its_own_runs_an_example(tmp_path):
    spec = EXAMPLES / "quadratic.toml"
    command = [sys.executable, "-m", "gossamer", "run", str(spec), "--json", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | {"NO_COLOR": "1"})
    assert done.returncode == 0, done.stderr
    judged(spec, tmp_path / "out", done.stdout, done.stderr)


@pytest.mark.slow
def test_convolutions_learn_digits_of_which_each_agent_sees_two(run):
    """For a fifth of the rounds: chance is a tenth."""
    assert ends(run("digits-cnn", only=("biased-dmt",), steps=60, every=60).result, "accuracy")["biased-dmt"] > 0.3


def test_every_example_is_run_here():
    told = {
        "a9a-ring",
        "digits-cnn",
        "digits-neural",
        "fashion-mnist",
        "own-data",  # by tests/cli/test_cli.py
        "own-network",
        "own-parts",  # by tests/specs/test_own_code.py
        "quadratic",
        "compressed",
        "zeroth-order",
        "directed",
        "time-varying",
        "faulty",
        "local-steps",
        "private",
        "attacked",
        "adaptive",
        "finite-samples",
        "tree",
        "graphs",
        "pseudo-gradients",
        "saga",
        "energy",
        "bursts",
        "availability",
        "deadline",
    }
    assert {path.stem for path in EXAMPLES.glob("*.toml")} == told


@pytest.mark.slow
def test_fashion_mnist_runs_on_a_sample_and_its_page_is_written(run, tmp_path, monkeypatch):
    """A thousand images of the same size, few settings, few rounds: from files to a table with intervals."""
    data = write_idx(tmp_path / "images", 1000, 100, 28, 10)
    small = {"steps": 20, "every": 10, "budget": 4}
    study = run("fashion-mnist", only=("biased-dmt", "d-psgd"), data=json.dumps(str(data)), **small)
    right = ends(study.result, "accuracy")
    assert right["biased-dmt"] > 0.1  # chance; the classes differ in their brightness
    tried = study.tuning.group_by("algorithm", maintain_order=True).agg(pl.len(), pl.col("chosen").sum())
    assert tried.rows() == [(name, 4, 1) for name in right]
    monkeypatch.syspath_prepend(EXAMPLES.parent / "docs")
    text = runpy.run_path(str(EXAMPLES.parent / "docs" / "deep.py"))["page"](study)
    assert "A perceptron of 25,450 parameters on Fashion-MNIST. Its 1,000 images" in text
    assert all(f"| {name} | eta=" in text for name in right)
    assert "| `d-psgd` | " in text


@pytest.mark.slow
def test_compressed_rules_that_track_are_exact_and_pay_for_what_they_send(run):
    result = run("compressed").result
    gradient, sent = ends(result, "grad_norm_sq"), ends(result, "bytes_sent")
    for name in ("biased-dmt", "beer", "motef", "docom", "lead", "cedas"):
        assert gradient[name] < 1e-14
    assert gradient["choco-sgd"] > 1e-7
    # on a torus, in float64: 3 of 30 coordinates, each with a place of 5 bits
    assert sent["biased-dmt"] == 5000 * 4 * 2 * 30 * 8
    assert sent["motef"] == sent["beer"] == sent["docom"] == 5000 * 4 * 2 * 3 * (64 + 5) / 8
    assert sent["choco-sgd"] == sent["beer"] / 2
    assert sent["lead"] == 5000 * 4 * (64 + 30 * 4) / 8  # a norm, and a sign and a level of each coordinate
    assert sent["cedas"] == sent["lead"] + 4 * 30 * 8  # and its first models, whole


@pytest.mark.slow
def test_the_floor_of_forward_differences_falls_as_the_square_of_their_step(run):
    study = run("zeroth-order")
    floors = [ends(result, "grad_norm_sq")["biased-dmt"] for result in study.results.values()]
    slopes = np.diff(np.log10(floors)) / -1
    np.testing.assert_allclose(slopes, 2, atol=0.1)
    for variant, floor in zip(study.results, floors, strict=True):
        h, L = float(variant.removeprefix("h = ")), study.facts[variant]["smoothness"]
        assert floor <= 30 * L**2 * h**2 / 4


@pytest.mark.slow
def test_directed_forms_settle_where_the_gradient_is_minus_the_mean_bias(run):
    study = run("directed")
    left, gradient = ends(study.result, "stationarity"), ends(study.result, "grad_norm_sq")
    for name in ("push-pull-dmt", "push-diging-dmt", "push-pull", "frost"):
        assert left[name] < 1e-14
        assert gradient[name] == pytest.approx(study.facts[""]["bias_sq"], rel=1e-6)
    assert left["sgp"] > 1e-8


@pytest.mark.slow
def test_adaptive_steps_are_exact_where_what_they_scale_is_tracked(run):
    left = ends(run("adaptive").result, "grad_norm_sq")
    assert max(left["gt-adam"], left["gt-nsgdm"]) < 1e-6 * min(left["d-amsgrad"], left["d-adamw"])


@pytest.mark.slow
def test_full_gradients_now_and_then_make_the_noise_vanish(run):
    result = run("finite-samples").result
    left, asked = ends(result, "grad_norm_sq"), ends(result, "queries")
    assert max(left["gt-sarah"], left["gt-svrg"]) < 1e-6 * left["gt-dsgd"]
    assert asked["gt-sarah"] == asked["gt-svrg"] > 400 * 20


@pytest.mark.slow
def test_a_table_of_gradients_makes_the_noise_vanish_at_no_more_queries(run):
    results = run("saga").results.values()
    plain, saga = (ends(result, "grad_norm_sq")["gnsd"] for result in results)
    assert saga < 1e-6 * plain
    assert [ends(result, "queries")["gnsd"] for result in results] == [6001, 6001]


@pytest.mark.slow
def test_sums_along_a_tree_are_exact_and_gossip_without_tracking_is_not(run):
    result = run("tree").result
    left, sent = ends(result, "stationarity"), ends(result, "bytes_sent")
    assert max(left["relay-sgd"], left["biased-dmt"]) < 1e-14 < 1e-7 < left["d-psgd"]
    assert sent["biased-dmt"] == 2 * sent["d-psgd"]


@pytest.mark.slow
def test_all_graphs_agree_and_those_that_average_exactly_send_least(run):
    """The same messages of two vectors of thirty numbers: a graph's bytes are its links'."""
    results = run("graphs", steps=20, every=20).results
    sent = {variant: ends(result, "bytes_sent")["biased-dmt"] for variant, result in results.items()}
    assert sent["ring"] == 20 * 2 * 2 * 30 * 8
    assert max(sent["Base-2"], sent["EquiDyn"]) <= sent["ring"] / 2 < min(sent["EquiStatic"], sent["cliques"])
    assert sent["EquiDyn, one way"] == sent["ring"] / 2 < sent["EquiStatic, one way"]


@pytest.mark.slow
def test_ten_gradients_for_each_message_cost_more_joules_than_they_save(run):
    spent = run("energy", seeds=3).summary().table
    joules = dict(zip(spent["algorithm"], spent["joules"], strict=True))
    assert joules["local-biased-dmt"] > 5 * joules["biased-dmt"]
    assert spent["reached"].to_list() == [3, 3, 3]


@pytest.mark.slow
def test_floors_of_what_is_no_gradient_and_what_removes_them(run):
    left = {
        name: ends(result, "grad_norm_sq")["biased-dmt"] for name, result in run("pseudo-gradients").results.items()
    }
    assert max(left["exact"], left["with EF21"]) < 1e-12
    assert left["top 1 of 30"] > left["with classic feedback"] > 1e-9
    assert left["ten local steps"] > 1e-9


@pytest.mark.slow
def test_a_graph_that_changes_costs_bytes_less_and_accuracy_nothing(run):
    study = run("time-varying")
    sent = {}
    for variant, result in study.results.items():
        left = ends(result, "stationarity")
        assert left["biased-dmt"] < 1e-14
        assert left["d-psgd"] > 1e-7
        sent[variant] = ends(result, "bytes_sent")["biased-dmt"]
    assert sent["one peer"] == sent["random matching"] == sent["static"] / 4


@pytest.mark.slow
def test_failures_cost_time_and_no_accuracy(run):
    study = run("faulty")
    for result in study.results.values():
        assert ends(result, "stationarity")["biased-dmt"] < 1e-14
    sent = {variant: ends(result, "bytes_sent")["biased-dmt"] for variant, result in study.results.items()}
    whole = sent["no failures"]
    assert sent["links down"] == pytest.approx(0.7 * whole)
    assert sent["agents asleep"] == pytest.approx(0.75**2 * whole)
    assert sent["local steps"] == pytest.approx(whole / 5)


@pytest.mark.slow
def test_agents_that_come_and_go_settle_at_the_same_point_for_a_third_of_the_gradients(run):
    result = run("availability").result
    left, asked = ends(result, "stationarity"), ends(result, "queries")
    assert left["biased-dmt"] < 1e-14 < 1e-7 < left["d-psgd"]
    assert asked["d-psgd"] == pytest.approx(12_000 / 3)


@pytest.mark.slow
def test_rounds_that_close_with_whoever_has_come_take_less_time_and_no_accuracy(run):
    study = run("deadline")
    left = {variant: ends(result, "stationarity")["biased-dmt"] for variant, result in study.results.items()}
    assert max(left.values()) < 1e-12
    waiting, *closing = (ends(result, "seconds")["biased-dmt"] for result in study.results.values())
    assert max(closing) < 0.7 * waiting


@pytest.mark.slow
def test_bursts_cost_time_and_neither_accuracy_nor_bytes(run):
    study = run("bursts")
    for result in study.results.values():
        assert ends(result, "stationarity")["biased-dmt"] < 1e-14
    sent = {variant: ends(result, "bytes_sent")["biased-dmt"] for variant, result in study.results.items()}
    assert sent["one by one"] == pytest.approx(sent["in bursts"])
    assert sent["in bursts"] == pytest.approx(sent["no failures"] * 0.7)
    middle = {variant: result.frame().filter(round=1000)["consensus"][0] for variant, result in study.results.items()}
    assert middle["no failures"] < middle["one by one"] < middle["in bursts"]


@pytest.mark.slow
def test_local_steps_cost_queries_and_no_bytes_and_average_the_noise(run):
    result = run("local-steps").result
    asked, sent = ends(result, "queries"), ends(result, "bytes_sent")
    assert asked == {"biased-dmt": 1001, "local-biased-dmt": 10001, "k-gt": 10001}
    assert sent["local-biased-dmt"] == sent["biased-dmt"]
    frame = result.frame()
    late = frame.filter(frame["round"] > 500).group_by("algorithm").agg(floor=pl.col("grad_norm_sq").mean())
    floor = dict(late.iter_rows())
    assert max(floor["local-biased-dmt"], floor["k-gt"]) < floor["biased-dmt"] / 3


@pytest.mark.slow
def test_more_noise_protects_more_and_costs_accuracy(run):
    study = run("private")
    loud, quiet = study.results["noise 4"], study.results["noise 1"]
    for result, noise in ((loud, 4.0), (quiet, 1.0)):
        spent = result.privacy()
        assert dict(zip(spent["algorithm"], spent["releases"], strict=True)) == {"biased-dmt": 201, "d-psgd": 200}
        assert spent["epsilon"].to_list() == [epsilon(noise, 0.1, count) for count in (201, 200)]
    assert loud.privacy()["epsilon"][0] < 2 < 8 < quiet.privacy()["epsilon"][0]
    for name, ends in loud.final("loss").items():
        assert ends.mean() > quiet.final("loss")[name].mean() + 0.01


@pytest.mark.slow
def test_robust_averages_hold_for_as_long_as_they_leave_out_as_many_as_attack(run):
    """Two of the variants and three of the methods: each is another program."""
    dmt, robust = ("biased-dmt", "eta=0.05, lam=0.1"), "eta=0.05, lam=0.1, aggregator={}".format
    trimmed, median = ("robust-dsgd", robust("trimmed_mean(trim=4)")), ("robust-dsgd", robust("median()"))
    broke = {("6 of 16", *dmt), ("6 of 16", *trimmed)}
    table = run("attacked", broke=broke, left_out=['"clipped"', '"2 of 16"', '"4 of 16, gradients"']).across("loss")
    left = {tuple(row[:3]): row[3] for row in table.table.iter_rows()}
    assert left["none", *dmt] < left["none", *trimmed] < 0.27
    assert left["6 of 16", *median] < 0.3
    head, *rows = str(table).split("\n\n")[-1].splitlines()
    assert head.endswith("6 of 16")
    assert [row.endswith("broke") for row in rows] == [True, True, False]
