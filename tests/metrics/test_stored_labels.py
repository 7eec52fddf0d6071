"""Labels stay with a result: who reads it needs no code of the one who measured; what is stored is never trusted."""

import json
import re
import subprocess
import sys

import polars as pl
import pytest

import gossamer as gs
from gossamer.cli import main
from gossamer.experiments.running import run
from gossamer.metrics import METRICS, OURS, Label
from gossamer.report import figures, page
from gossamer.results.files import sealed, unsealed
from gossamer.results.study import Study
from gossamer.specs.spec import Spec

SPEC = {
    "problem": {"name": "quadratic", "A": [[2.0, 0.0], [0.0, 1.0]], "b": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]},
    "network": {"name": "ring"},
    "run": {"steps": 4, "every": 2},
    "algorithm": [{"name": "d-psgd", "eta": 0.2}],
}


def measured(factor=1.0, name="mine", **options):
    options = {"about": "how far it is", "text": "far <b>&", "latex": r"\|x\|"} | options
    gs.metric(name, **options)(lambda s: factor * s.mean @ s.mean)


@pytest.fixture
def stored(tmp_path):
    """A finished run with a metric that is then forgotten."""
    measured(log=True)
    run(Spec.of(SPEC), tmp_path / "out", progress=False)
    del METRICS["mine"]
    return tmp_path / "out"


def test_a_result_that_is_read_has_its_labels(stored):
    result = gs.Result.load(stored)
    assert result.metrics == OURS | {"mine": Label("how far it is", "far <b>&", r"\|x\|", log=True)}
    axes = result.plot("mine")
    assert (axes.get_ylabel(), axes.get_yscale()) == (r"$\|x\|$", "log")
    assert "mine" in str(result.summary())
    text = page.render([Study.load(stored)], [], "t", "")
    shown = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text)[1])
    assert {"key": "mine", "title": "far <b>&", "log": True, "better": "lower"} in shown[0]["metrics"]
    assert '<th scope="col" class="num">far &lt;b&gt;&amp;</th>' in text
    assert "far <b>" not in text


def test_the_commands_draw_it_without_its_code(stored, monkeypatch, capsys):
    def command(*words):
        monkeypatch.setattr(sys, "argv", ["gossamer", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr()

    code, told = command("plot", str(stored), "--metric", "mine", "--x", "bytes", "--format", "svg")
    assert code == 0
    assert told.out.strip() == f"{stored}/figures/mine-bytes.svg"
    code, told = command("plot", str(stored), "--metric", "mein")
    assert code == 2
    assert "there is no metric 'mein' in this result; did you mean 'mine'?" in " ".join(told.err.split())
    code, told = command("plot", str(stored), "--x", "moon")
    assert "there is no x-axis 'moon' in this result" in " ".join(told.err.split())
    code, told = command("list", "metrics", "--json")
    assert [entry["name"] for entry in json.loads(told.out)] == list(OURS)


def test_a_fresh_process_reads_it_without_jax(stored):
    told = (
        "import sys, gossamer as gs; result = gs.Result.load(sys.argv[1]); "
        "print(result.metrics['mine'].text, result.final('mine')['d-psgd'][0] > 0, 'jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", told, str(stored)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "far <b>& True False"


def test_a_result_from_before_labels_were_stored_has_ours(stored):
    rewritten(stored, lambda known: {key: value for key, value in known.items() if key != "metrics"})
    result = gs.Result.load(stored)
    assert result.metrics == OURS


def rewritten(folder, change):
    path = folder / "manifest.json"
    path.write_bytes(sealed(change(unsealed(path.name, path.read_bytes()))))
    (folder / "study.json").unlink(missing_ok=True)


def labelled(**changed):
    def change(known):
        known["metrics"]["mine"] |= changed
        return known

    return change


def renamed(name):
    def change(known):
        known["metrics"][name] = known["metrics"].pop("mine")
        return known

    return change


FORGED = {
    "a path for a name": renamed("../../mine"),
    "a column for a name": renamed("round"),
    "seconds for a name": renamed("seconds_mine"),
    "a long text": labelled(text="x" * 10_000),
    "no text": labelled(text=""),
    "two lines": labelled(text="a\nb"),
    "a number for a text": labelled(text=3),
    "an escape": labelled(about="\x1b[2J"),
    "dollars": labelled(latex="$x$"),
    "more keys": labelled(measure="print"),
    "a word for a truth": labelled(log="yes"),
    "another direction": labelled(better="sideways"),
    "a list of labels": lambda known: known | {"metrics": []},
    "no labels": lambda known: known | {"metrics": {}},
    "very many": lambda known: known | {"metrics": {f"m{k}": known["metrics"]["mine"] for k in range(1000)}},
    "a number for a clock": lambda known: known | {"clock": 3},
}


@pytest.mark.parametrize("what", FORGED)
def test_forged_labels_and_links_are_refused(stored, what):
    rewritten(stored, FORGED[what])
    with pytest.raises(gs.InputError, match="is damaged") as caught:
        gs.Result.load(stored)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("latex", [r"\frac{1}", r"\unknown{x}", "{{{", "x^", "{" * 100, r"\input{/etc/passwd}"])
def test_a_formula_that_cannot_be_set_is_its_text(latex, tmp_path):
    label = Label("about", "costs $5 & more", latex)
    assert figures.metric_title(label) == r"costs \$5 & more"
    table = pl.DataFrame({"algorithm": ["a"], "eta": [0.1], "replicate": [0], "value": [1.0], "stable": [True]})
    assert figures.save(figures.draw_step_sizes(table, label), tmp_path / "figure.png").is_file()


@pytest.mark.parametrize("name", OURS)
def test_our_own_formulas_can_be_set(name):
    shown = figures.metric_title(OURS[name])
    assert shown == (OURS[name].text if OURS[name].latex is None else f"${OURS[name].latex}$")


def test_formulas_are_not_handed_to_a_tex_program(stored):
    import matplotlib

    with matplotlib.rc_context({"text.usetex": True}):
        assert not gs.Result.load(stored).plot("mine").yaxis.label.get_usetex()


def computed(folder):
    """The number of rounds that were computed, and the study."""
    seen = []
    study = run(Spec.of(SPEC), folder, progress=lambda name, done, *_: seen.append(done))
    return max(seen, default=0), study


def test_another_metric_is_another_run(tmp_path, capsys):
    """Its code, its name, and whether it is there: each belongs to what was computed."""
    measured()
    assert computed(tmp_path)[0] == 4
    measured()
    assert computed(tmp_path)[0] == 0, "the same code in another function object"
    assert capsys.readouterr().err == ""
    measured(factor=2.0)
    rounds, study = computed(tmp_path)
    assert rounds == 4
    assert re.search(r"the code changed since 20.* \(yours\): computed anew", capsys.readouterr().err)
    last = study.result.frame().row(-1, named=True)
    x = study.result.iterates["d-psgd"][0].mean(0)
    assert last["mine"] == pytest.approx(2 * x @ x, rel=1e-5)
    del METRICS["mine"]
    measured(factor=2.0, name="other")
    assert computed(tmp_path)[0] == 4, "another name"
    measured()
    assert computed(tmp_path)[0] == 4, "one more"
    del METRICS["mine"], METRICS["other"]
    assert computed(tmp_path)[0] == 4, "none"


def test_another_label_computes_nothing_but_is_shown(tmp_path):
    measured()
    _, first = computed(tmp_path)
    measured(text="another text", log=True)
    rounds, again = computed(tmp_path)
    assert rounds == 0
    assert again.result.metrics["mine"] == Label("how far it is", "another text", r"\|x\|", log=True)
    assert again.result.manifest["seconds"] == first.result.manifest["seconds"]
    assert gs.Result.load(tmp_path).metrics == again.result.metrics
