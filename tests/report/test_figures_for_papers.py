"""Figures and tables as a paper takes them: fonts, sizes, names, and LaTeX that compiles."""

import shutil
import subprocess
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from PIL import Image

from gossamer.algorithms import ALGORITHMS
from gossamer.core import InputError
from gossamer.report import figures, names, page, styles
from tests.report import made_up

POPPLER = "pdffonts of poppler-utils is missing: the fonts of figures were not looked at"
TEX = "there is no pdflatex: the tables were not compiled"


@pytest.fixture(scope="module")
def result():
    return made_up.result()


def test_fonts_are_embedded_as_true_type_whoever_saves(result, tmp_path):
    axes = result.plot("grad_norm_sq", style="ieee")
    axes.set_title("A title of the user's own")
    axes.figure.savefig(tmp_path / "own.pdf")
    figures.save(result.plot("loss"), tmp_path / "ours.pdf")
    plain = Figure()
    plain.add_subplot().set_title("no layout")
    figures.save(plain, tmp_path / "plain.pdf")
    for name in ("own", "ours", "plain"):
        data = (tmp_path / f"{name}.pdf").read_bytes()
        assert b"/Type3" not in data
        assert b"/FontFile2" in data, "a TrueType font stands in the file"
    if shutil.which("pdffonts") is None:
        pytest.skip(POPPLER)
    for name in ("own", "ours"):
        told = subprocess.run(["pdffonts", tmp_path / f"{name}.pdf"], capture_output=True, text=True, check=True).stdout
        rows = told.splitlines()[2:]
        assert rows, told
        assert all("TrueType" in row and "Type 3" not in row and " yes yes" in row for row in rows), told


@pytest.mark.parametrize("style", figures.LAYOUTS)
def test_a_style_sets_the_width(result, style):
    layout = figures.LAYOUTS[style]
    for columns, wide in ((1, layout.one), (2, layout.two)):
        figure = result.plot("loss", style=style, columns=columns).figure
        assert figure.get_size_inches()[0] == pytest.approx(wide)


def test_a_figure_has_proper_names_units_markers_and_its_legend_off_the_data(result, tmp_path):
    axes = result.plot("loss", "bytes")
    assert axes.get_xlabel() == "kB sent by an agent"
    lines = {line.get_label(): line for line in axes.get_lines() if not line.get_label().startswith("_")}
    *curves, mark = lines
    assert curves == ["Biased-DMT", "DSGT", "D-PSGD (3 of 3 diverged)"]
    assert mark == "curve ends: all seeds diverged"
    ends = [line for line in axes.get_lines() if line.get_marker() == "x" and len(line.get_xdata())]
    assert [line.get_color() for line in ends] == [lines[curves[2]].get_color()], "the mark at the end of that curve"
    lines = {name: lines[name] for name in curves}
    paid = result.of("dsgt")["bytes_sent"].max()
    assert lines["DSGT"].get_xdata()[-1] == pytest.approx(paid / 1e3)
    looks = [(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines.values()]
    assert all(len({look[k] for look in looks}) == 3 for k in range(3)), "each tells the methods apart alone"
    figure = axes.figure
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert legend.y1 <= axes.get_tightbbox().y0 + 1
    with Image.open(figures.save(axes, tmp_path / "a.png")) as image:
        assert image.info["dpi"] == pytest.approx((300, 300), abs=0.1)


def test_a_method_has_one_look_everywhere_and_no_two_share_one(result):
    assert set(styles.METHODS) == set(ALGORITHMS)
    own = {name: styles.method_style(name) for name in ALGORITHMS}
    assert len({(look.color, look.marker) for look in own.values()}) == len(ALGORITHMS)
    assert styles.style_methods([*ALGORITHMS]) == [*own.values()], "whatever else is in the figure"
    drawn = {line.get_label(): line for line in result.plot("loss").get_lines()}["Biased-DMT"]
    look, web = own["biased-dmt"], page.curves(made_up.study())["methods"][0]
    assert (drawn.get_color(), drawn.get_linestyle(), drawn.get_marker()) == (look.color, look.line, look.symbol)
    assert web == {"label": "Biased-DMT", **look.web()}
    assert (styles.WEB_DASHES.index(web["dash"]), styles.WEB_MARKERS.index(web["marker"])) == (look.dash, look.marker)


@given(st.lists(st.sampled_from(["biased-dmt", "gnsd", "d-psgd", "mine", "other"]) | st.text(max_size=3), max_size=64))
def test_curves_of_one_figure_differ_in_colour_or_marker(methods):
    looks = styles.style_methods(methods)
    assert len({(look.color, look.marker) for look in looks}) == len(methods)
    for method in set(methods) & set(styles.METHODS):
        assert looks[methods.index(method)] == styles.method_style(method), "the first curve has the method's own"
    if len(methods) <= 8 and len(set(methods)) == 1:
        assert len({look.color for look in looks}) == len(methods), "alone, settings differ by colour"


def test_a_run_that_came_to_its_target_ends_with_a_star(result):
    last = pl.col("round") == pl.col("round").max()
    ended = replace(
        result,
        table=result.table.filter(pl.col("algorithm") != "d-psgd").with_columns(
            status=pl.when(last & (pl.col("algorithm") == "dsgt")).then(pl.lit("reached")).otherwise("status")
        ),
        states={key: state for key, state in result.states.items() if key[0] != "d-psgd"},
    )
    assert [figures.find_end(ended, label) for label in ended.labels] == [None, "reached"]
    assert "curve ends: target reached" in [line.get_label() for line in ended.plot("loss").get_lines()]


def test_the_end_of_a_curve_against_seconds_has_their_interval(result):
    seconds = {f"seconds{end}": pl.col("round") * each for end, each in (("", 1.0), ("_low", 0.9), ("_high", 1.1))}
    axes = made_up.with_columns(result, **seconds).plot("loss", "seconds")
    bars = [line for line in axes.get_lines() if line.get_linewidth() == 2.4]
    assert [list(line.get_xdata()) for line in bars[:2]] == [pytest.approx([36, 44])] * 2


def test_a_users_own_axes_are_drawn_into(result):
    mine = Figure().add_subplot()
    assert result.plot("loss", ax=mine) is mine
    assert sum(len(line.get_xdata()) > 1 for line in mine.get_lines()) == 3


def test_an_unknown_style_is_said(result):
    with pytest.raises(InputError, match="no style 'iee' for figures; did you mean 'ieee'"):
        result.plot("loss", style="iee")
    with pytest.raises(InputError, match="1 or 2 columns wide, but columns is 3"):
        result.plot("loss", columns=3)


LADDER = """
[problem]
agents = 8
[oracle]
stages = [{ kind = "additive-bias", mean = 0.0, std = 0.0, redraw = false }]
[[variant]]
name = "none"
[[variant]]
name = "once-1"
oracle = { stages = [{ kind = "additive-bias", mean = 0.0004, std = 0.1, redraw = false }] }
[[variant]]
name = "once-2"
oracle = { stages = [{ kind = "additive-bias", mean = 0.0008, std = 0.1, redraw = false }] }
"""


def ladder(spec=LADDER, variants=("none", "once-1", "once-2")):
    one = made_up.result()
    key = ("biased-dmt", next(setting for algorithm, setting in one.states if algorithm == "biased-dmt"))
    table = one.table.filter(pl.col("algorithm") == "biased-dmt")
    alone = replace(one, table=table, states={key: one.states[key]})
    facts = {name: {"bias_sq": 0.01 * k} for k, name in enumerate(variants)}
    return replace(made_up.study(variants), spec=spec, results=dict.fromkeys(variants, alone), facts=facts, tuning=None)


def test_ordered_variants_are_named_by_their_number_and_shaded_in_its_order():
    study = ladder()
    found = names.name_variants(study)
    assert [one.text for one in found.values()] == ["μ = 0", "μ = 0.0004", "μ = 0.0008"]

    def light(color):
        red, green, blue = (int(color[k : k + 2], 16) for k in (1, 3, 5))
        return 0.3 * red + 0.6 * green + 0.1 * blue

    on_paper = [light(one.style.color) for one in found.values()]
    assert on_paper == sorted(on_paper, reverse=True), "more is darker on white"
    on_dark = [light(one.style.dark) for one in found.values()]
    assert on_dark == sorted(on_dark), "and brighter on black"
    axes = study.plot("grad_norm_sq")
    curves = [line for line in axes.get_lines() if not line.get_label().startswith("_")]
    assert [line.get_label() for line in curves] == ["μ = 0", "μ = 0.0004", "μ = 0.0008"]
    levels = [line.get_ydata()[0] for line in axes.get_lines() if line.get_label().startswith("_")]
    assert levels == [0.01, 0.02], "a predicted floor for each bias"


@pytest.mark.parametrize("spec", ["", "not = [toml", LADDER.replace("once-1", "other")])
def test_where_the_spec_tells_nothing_variants_keep_their_names(spec):
    found = names.name_variants(ladder(spec))
    assert [one.text for one in found.values()] == ["none", "once-1", "once-2"]
    assert [one.style for one in found.values()] == [styles.style_of(k) for k in range(3)]


def test_a_table_compiles_as_it_stands(tmp_path):
    own = tmp_path / "own.tex"
    own.write_text(made_up.study().to_latex(), encoding="utf-8")
    assert r"\mathbf{" in own.read_text(encoding="utf-8"), "the best is bold"
    if shutil.which("pdflatex") is None:
        pytest.skip(TEX)
    whole = tmp_path / "whole.tex"
    whole.write_text(
        "\\documentclass{article}\n\\usepackage{booktabs,graphicx}\n\\begin{document}\n"
        rf"\input{{{own}}}"
        "\n\\end{document}\n",
        encoding="utf-8",
    )
    told = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", whole.name],
        cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout[-1500:]
    assert (tmp_path / "whole.pdf").exists()
    assert "Overfull" not in told.stdout, told.stdout[-1500:]
