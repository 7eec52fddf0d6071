"""The report as a file: its parts and their order, escaping, size, and how it is written."""

import json
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from gossamer import report
from gossamer.basics.html import tag
from gossamer.core import InputError
from gossamer.metrics import Label
from gossamer.report import drawings, page
from gossamer.results.result import Result
from tests.report import made_up


@pytest.fixture(scope="module")
def study():
    return made_up.study()


@pytest.fixture(scope="module")
def text(study):
    return page.render([study], made_up.VERDICTS, "The title", "make reproduce")


def body(text):
    """The page without its script and style."""
    return re.sub(r"<(script|style)>.*?</\1>", "", text, flags=re.DOTALL)


def data(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text)[1])


def test_verdicts_come_first_and_the_commands_last(text):
    heads = re.findall("<h[123]>(.*?)</h[123]>", body(text))
    assert heads == [
        *(
            "The title",
            "What was found",
            '<a href="#study-0">Bias on two networks</a>',
            "other",
            "Bias on two networks",
        ),
        *(
            "Who is ahead at equal cost",
            "The price of a target",
            "How sensitive methods are to the step size",
            "At the end of the runs",
        ),
        *("Network", "Data of each agent", "Spec, versions and machine", "How to repeat it"),
    ]


def test_a_verdict_is_told_by_word_and_sign(text):
    said = r'<summary><span class="badge [a-z-]+"><span aria-hidden="true">(.)</span> ([a-z ]+)</span>'
    assert re.findall(said, text) == [("✓", "holds"), ("✗", "does not hold"), ("?", "undecided")]
    assert re.search(r'3 claims: <span class="badge holds"><b>1</b> ', text)


def test_without_verdicts_and_facts_and_tuning_there_is_still_a_report(study):
    bare = replace(study, facts={}, tuning=None)
    heads = re.findall("<h[23]>(.*?)</h[23]>", body(page.render([bare], [], "t", "")))
    assert heads == [
        *(
            study.title,
            "Who is ahead at equal cost",
            "The price of a target",
            "At the end of the runs",
            "Spec, versions and machine",
        ),
        "How to repeat it",
    ]


def test_the_policy_allows_no_network(text):
    policy = re.search('Content-Security-Policy" content="(.*?)"', text)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert "http" not in policy
    assert not re.search(r"<(link|img|iframe|script)[^>]*\b(src|href)=", body(text))


def test_text_is_escaped_by_construction():
    assert tag("p", "a < b & c", title='"<') == '<p title="&quot;&lt;">a &lt; b &amp; c</p>'
    assert tag("p", tag("b", "<")) == "<p><b>&lt;</b></p>"


@pytest.mark.parametrize("bad", [made_up.BREAKOUT, "<!--<script>", "a & b", "\u2028\u2029", "\ud800", 'quote " \\'])
def test_embedded_data_cannot_leave_its_element(bad):
    block = page.embed_json({bad: [bad]}, "data")
    inside = block.removeprefix('<script type="application/json" id="data">').removesuffix("</script>")
    assert not set("<>&\u2028\u2029") & set(inside)
    assert json.loads(inside) == {bad: [bad]}


def test_a_report_on_nothing_is_refused(tmp_path):
    with pytest.raises(InputError, match="no study"):
        report.write([], [], tmp_path / "r.html", "t", "")
    assert not list(tmp_path.iterdir())


def test_writing_is_atomic(study, tmp_path, monkeypatch):
    file = tmp_path / "new" / "report.html"
    assert report.write([study], [], file, "first", "") == file
    before = file.read_bytes()
    monkeypatch.setattr(page, "render", lambda *_: "\ud800" * 10)
    monkeypatch.setattr(
        "gossamer.basics.files.os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "disk is full"))
    )
    with pytest.raises(OSError, match="disk is full"):
        report.write([study], [], file, "second", "")
    assert file.read_bytes() == before


def test_the_same_studies_give_the_same_bytes(study, text):
    assert page.render([study], made_up.VERDICTS, "The title", "make reproduce") == text


def test_bands_are_those_of_the_figures(study, text):
    result = study.results["ring"]
    metric, method = data(text)[0]["metrics"], data(text)[0]["variants"][0]["methods"][1]
    assert [one["log"] for one in metric] == [False, *[True] * (len(metric) - 1)]
    logs = np.log(result.of("dsgt")["grad_norm_sq"].to_numpy().reshape(3, -1))
    np.testing.assert_allclose(method["bands"][1][1]["mean"], np.exp(logs.mean(0)), rtol=1e-4)
    half = 4.302652729911275 * logs.std(0, ddof=1) / np.sqrt(3)  # Student's t with 2 degrees of freedom
    np.testing.assert_allclose(method["bands"][1][1]["wide"], np.exp(half), rtol=6e-3)


def test_metrics_and_axes_are_those_of_the_result(study):
    result = made_up.with_columns(study.results["ring"], accuracy=pl.lit(None, pl.Float64), ranks=pl.col("loss") + 1)
    labelled = replace(result, metrics=result.metrics | {"ranks": Label("a rank", "the rank")})
    found, across = page.find_metrics(labelled), page.find_axes(labelled)
    assert found == ["loss", "grad_norm_sq", "stationarity", "consensus", "tracking", "ranks"]
    assert "ranks" not in page.find_metrics(result), "what has no label is no metric"
    assert across["bytes"] == "bytes_sent"
    assert across["seconds"] == "seconds"
    drawn = page.curves(replace(study, results={"": labelled}))
    assert drawn["axes"][-1] == {"title": "time by the clock (s)", "short": "seconds"}
    assert drawn["metrics"][-1] == {"key": "ranks", "title": "the rank", "log": False, "better": "lower"}


def test_long_curves_are_thinned_and_keep_their_ends(study):
    drawn = page.curves(study)
    thin = page.thin(drawn, 5)["variants"][0]["methods"][0]
    assert thin["x"][0] == [0, 10, 20, 30, 40]
    assert {len(band["mean"]) for both in thin["bands"] for band in both} == {5}


def test_a_large_report_fits(monkeypatch, study):
    small = page.render([study], [], "t", "")
    room = len(small.encode()) - 8_000
    monkeypatch.setattr(page, "ROOM", room)
    monkeypatch.setattr(page, "FEWEST", 2)
    assert len(page.render([study], [], "t", "").encode()) <= room + 200


def test_values_that_json_has_no_word_for_become_null(study):
    base = study.results["ring"]
    wild = base.table.with_columns(loss=pl.when(pl.col("round") > 10).then(pl.lit(np.inf)).otherwise(pl.lit(1e308)))
    drawn = page.thin(page.curves(replace(study, results={"ring": replace(base, table=wild)})), 1000)
    means = json.loads(json.dumps(drawn, allow_nan=False))["variants"][0]["methods"][1]["bands"][0][0]["mean"]
    assert means[-1] is None


def test_networks_are_drawn_up_to_a_limit():
    ring = drawings.draw_network(made_up.facts(agents=200))
    assert ring.count("<circle") == 200
    assert ring.count("L") == 200
    assert "Not drawn: 201 agents" in drawings.draw_network(made_up.facts(agents=201))
    assert "Not drawn" in drawings.draw_network({"agents": 4})


def test_a_split_has_a_bar_for_each_class_of_each_agent():
    picture = drawings.draw_split(made_up.facts())
    assert picture.count("<rect") == 8 * 2 + 4 + 3, "two classes everywhere, the third with four agents, and the key"
    assert "agent 7: 80 of class -1, 5 of class 1<" in picture
    assert "Not drawn: 201 agents" in drawings.draw_split(made_up.facts(agents=201))
    assert drawings.draw_split({"agents": 4}) is None
    assert len(set(drawings.palette(20))) == 20


def test_a_third_hyper_parameter_shares_the_second_axis(study):
    frame = study.tuning.filter(pl.col("algorithm") == "biased-dmt", pl.col("variant") == "ring")
    more = pl.concat([frame.with_columns(beta=pl.lit(beta)) for beta in (0.0, 0.9)])
    grid = page.tuning_grids(replace(study, tuning=more))[0]
    assert (grid["up"], len(grid["lines"]), len(grid["columns"])) == ("λ, β", 6, 4)


def test_a_study_that_was_saved_gives_the_same_report(study, text, tmp_path):
    study.save(tmp_path)
    back = type(study).load(tmp_path)
    dated = next(iter(back.results.values())).manifest["date"]
    again = page.render([back], made_up.VERDICTS, "The title", "make reproduce")
    assert f"<dt>Date</dt><dd>{dated[:10]}</dd>" in again
    undated = {name: replace(one, manifest=study.results[name].manifest) for name, one in back.results.items()}
    assert page.render([replace(back, results=undated)], made_up.VERDICTS, "The title", "make reproduce") == text


def test_one_seed_has_a_curve_without_a_band(study):
    one = study.results["ring"]
    single = Result(one.table.filter(pl.col("seed") == 0), one.states, [0], None, one.manifest)
    drawn = page.curves(replace(study, results={"": single}))
    assert set(drawn["variants"][0]["methods"][1]["bands"][0][0]["wide"]) == {0.0}
