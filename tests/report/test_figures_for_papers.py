"""Figures and tables as a paper takes them: fonts, sizes, names, and LaTeX that compiles."""

import shutil
import subprocess
from dataclasses import replace

import polars as pl
import pytest
from matplotlib.figure import Figure
from PIL import Image

from gossamer import report
from gossamer.core import InputError
from gossamer.report import figures, names, styles
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
    assert axes.get_xlabel() == "MB sent by an agent"
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert list(lines) == ["Biased-DMT", "DSGT", "D-PSGD, combine then adapt (3 of 3 diverged)"]
    paid = result.of("dsgt")["bytes_sent"].max()
    assert lines["DSGT"].get_xdata()[-1] == pytest.approx(paid / 1e6)
    looks = [(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines.values()]
    assert all(len({look[k] for look in looks}) == 3 for k in range(3)), "each tells the methods apart alone"
    figure = axes.figure
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert legend.y1 <= axes.get_tightbbox().y0 + 1
    with Image.open(figures.save(axes, tmp_path / "a.png")) as image:
        assert image.info["dpi"] == pytest.approx((300, 300), abs=0.1)


def test_a_users_own_axes_are_drawn_into(result):
    mine = Figure().add_subplot()
    assert result.plot("loss", ax=mine) is mine
    assert len(mine.get_lines()) == 3


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


def test_tables_compile_as_they_stand(tmp_path):
    study = made_up.study()
    claim = 'x̄ᵢ → ∇F, "ē" & 中 100 % of a long text that has to be wrapped somewhere'
    odd = made_up.VERDICTS[0] | {"claim": claim}
    written = report.write_artifacts([], [odd], tmp_path)
    own = tmp_path / "own.tex"
    own.write_text(study.to_latex(), encoding="utf-8")
    texts = [path for path in [*written, own] if path.suffix == ".tex"]
    assert len(texts) == 2
    assert r"p{0." in texts[0].read_text(encoding="utf-8"), "long text is wrapped"
    assert r"\mathbf{" in own.read_text(encoding="utf-8"), "the best is bold"
    if shutil.which("pdflatex") is None:
        pytest.skip(TEX)
    body = "\n\n".join(rf"\input{{{path}}}" for path in texts)
    whole = tmp_path / "whole.tex"
    whole.write_text(
        "\\documentclass{article}\n\\usepackage{booktabs,graphicx,longtable}\n\\begin{document}\n"
        + body
        + "\n\\end{document}\n",
        encoding="utf-8",
    )
    told = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", whole.name],
        cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout[-1500:]
    assert (tmp_path / "whole.pdf").exists()
    assert "Overfull" not in told.stdout, told.stdout[-1500:]
