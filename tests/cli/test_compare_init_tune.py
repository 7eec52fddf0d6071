"""The commands that compare runs, write specs to start from, and write what tuning chose."""

import json

import pytest

from gossamer.specs.spec import Spec
from tests import commands

SPEC = """
problem = {{ name = "quadratic", A = [[1.0]], b = [[1.0], [2.0]] }}
network = {{ name = "complete" }}
oracle = {{ stages = [{{ kind = "additive-bias", mean = 0.0, std = 0.1, redraw = true }}] }}
run = {{ steps = {steps}, seeds = {seeds}, dtype = "float64" }}
algorithm = [{{ name = "d-psgd", eta = {eta} }}]
"""


@pytest.fixture
def gossamer(tmp_path):
    """Run a command in an empty directory: (exit code, stdout, stderr)."""

    def run(*arguments):
        done = commands.gossamer(*arguments, cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr

    return run


def runs(gossamer, tmp_path, **named):
    """Finished runs, by name."""
    for name, options in named.items():
        (tmp_path / f"{name}.toml").write_text(SPEC.format(**{"steps": 30, "seeds": 4, "eta": 0.1} | options))
        code, _, errors = gossamer("run", f"{name}.toml")
        assert code == 0, errors


def test_compare_says_what_differs_and_ends_with_5_where_it_is_beyond_chance(gossamer, tmp_path):
    runs(gossamer, tmp_path, slow={"eta": 0.01}, fast={"eta": 0.1}, other={"eta": 0.1, "seeds": "[7, 8, 9]"})
    code, out, errors = gossamer("compare", "runs/slow", "runs/fast")
    assert (code, errors) == (5, "")
    assert "lower in B" in out
    assert "by seed" in out
    assert "algorithm[d-psgd].eta: 0.01 | 0.1" in out
    assert "the same version of Gossamer, packages and machine" in out
    assert gossamer("compare", "runs/fast", "runs/fast")[0] == 0
    code, out, _ = gossamer("compare", "runs/fast", "runs/other", "--json")
    found = json.loads(out)
    assert code == 0
    assert [row["verdict"] for row in found["comparisons"]] == ["not distinguishable"] * 2
    assert {row["paired"] for row in found["comparisons"]} == {"no (Welch)"}
    assert {"key": "run.seeds", "first": 4, "second": [7, 8, 9]} in found["spec"]
    assert found["level"] == 0.975


def test_a_report_on_two_runs_has_both_on_one_page(gossamer, tmp_path):
    runs(gossamer, tmp_path, slow={"eta": 0.01}, fast={"eta": 0.1})
    code, out, _ = gossamer("report", "runs/slow", "runs/fast", "--out", "new/together")
    assert (code, out.strip()) == (0, "new/together/report.html")
    assert "slow" in (tmp_path / "new/together/report.html").read_text(encoding="utf-8")


def test_compare_refuses_what_has_nothing_in_common(gossamer, tmp_path):
    runs(gossamer, tmp_path, one={})
    (tmp_path / "two.toml").write_text(SPEC.format(steps=30, seeds=4, eta=0.1).replace("d-psgd", "gnsd"))
    gossamer("run", "two.toml")
    code, _, errors = gossamer("compare", "runs/one", "runs/two")
    assert code == 2
    assert "nothing can be compared: the first runs d-psgd, the second gnsd" in errors
    assert gossamer("compare", "runs/one", "runs/none")[0] == 2


def test_init_writes_a_spec_that_is_not_overwritten(gossamer, tmp_path):
    code, out, _ = gossamer("init", "mine.toml", "--problem", "quadratic")
    assert (code, out) == (0, "mine.toml\nnext: gossamer run mine.toml\n")
    assert Spec.read(tmp_path / "mine.toml").problem["name"] == "quadratic"
    (tmp_path / "mine.toml").write_text("my work")
    code, _, errors = gossamer("init", "mine.toml")
    assert code == 2
    assert "mine.toml' exists: choose another name, or overwrite it with --force" in errors
    assert (tmp_path / "mine.toml").read_text() == "my work"
    assert gossamer("init", "mine.toml", "--force")[0] == 0
    assert Spec.read(tmp_path / "mine.toml").problem["name"] == "logistic"
    assert gossamer("init", "mine.txt")[0] == 2
    assert gossamer("init", "--problem", "quadrate")[0] == 2


def test_what_init_writes_for_quadratics_runs(gossamer):
    assert gossamer("init", "--problem", "quadratic")[0] == 0
    code, out, errors = gossamer("run", "quadratic.toml")
    assert code == 0, errors
    assert "0 of 5" in out


def test_init_copies_examples_with_their_data(gossamer, tmp_path):
    code, out, _ = gossamer("init", "--list")
    assert code == 0
    assert "own-data" in out
    assert list(tmp_path.iterdir()) == []
    code, out, _ = gossamer("init", "--example", "own-data")
    assert out.splitlines() == ["own-data.toml", "sites.csv", "towns.edges", "next: gossamer run own-data.toml"]
    assert gossamer("init", "--example", "own-network")[1].split() == [
        *("own-network.toml", "sites.edges", "next:", "gossamer", "run", "own-network.toml"),
    ]
    assert gossamer("init", "--example", "own-parts")[1].splitlines() == [
        *("own-parts.toml", "own_parts.py", "next: gossamer run own-parts.toml --with own_parts.py"),
    ]
    code, out, _ = gossamer("init", "--example", "first_run")
    assert out.splitlines()[-1] == "next: python first_run.py"
    assert "there is no example 'nothing'" in gossamer("init", "--example", "nothing")[2]


def test_tune_writes_a_spec_that_runs_and_says_what_lies_on_an_edge(gossamer, tmp_path):
    text = SPEC.format(steps=20, seeds=2, eta=0).replace(", eta = 0 ", " ").replace("d-psgd", "biased-dmt")
    tuning = (
        'tuning = { eta = [0.001, 0.1], lam = [0.5, 1.0], sampler = "grid", budget = 4, seeds = 1, together = 4 }\n'
    )
    (tmp_path / "open.toml").write_text(text + tuning)
    code, out, errors = gossamer("tune", "open.toml", "--write", "tuned.toml")
    assert code == 0, errors
    assert "eta \\ lam" in out
    assert "! biased-dmt: eta = 0.1 is the highest value that was tried" in out
    assert "next: gossamer run tuned.toml" in out
    tuned = Spec.read(tmp_path / "tuned.toml")
    assert tuned.tuning is None
    (options,) = tuned.algorithm
    assert (options["name"], options["eta"]) == ("biased-dmt", 0.1)
    assert options["lam"] in (0.5, 1.0)
    rows = json.loads(gossamer("tune", "open.toml", "--json")[1])
    (chosen,) = [row for row in rows if row["chosen"]]
    assert chosen["on_edge"]["eta"] == "highest"
    assert (chosen["eta"], chosen["lam"]) == (options["eta"], options["lam"])
    code, _, errors = gossamer("tune", "open.toml", "--write", "tuned.toml")
    assert code == 2
    assert "tuned.toml exists" in errors
    assert gossamer("run", "tuned.toml")[0] == 0
    code, audited, errors = gossamer("audit", "tuned.toml", "--rounds", "1", "--queries", "8")
    assert code == 0, errors
    # with its numbers open the spec is tuned first, here from what was stored, and the audit is the same
    assert gossamer("audit", "open.toml", "--rounds", "1", "--queries", "8")[1] == audited
    assert gossamer("certify", "tuned.toml")[0] == 0


def test_whose_choice_to_write_needs_a_file_to_write(gossamer, tmp_path):
    code, _, errors = gossamer("tune", "open.toml", "--variant", "x")
    assert code == 2
    assert "give a file to write as well" in errors
