"""The report in a real browser: what it loads, what its switches do, and that nothing of a user's runs."""

import itertools
from contextlib import contextmanager
from dataclasses import replace

import polars as pl
import pytest

from gossamer import report
from tests.report import made_up
from tests.seldom import seldom

CTA = "D-PSGD"
OPENED = "() => document.querySelectorAll('#curves-0 .main-svg').length > 0"


@contextmanager
def opened(browser, file, width=1200, theme="light"):
    """The page, and what it logged, asked for and popped up."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
    page.noted = []
    page.on("console", lambda message: page.noted.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: page.noted.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (page.noted.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: page.noted.append(f"request: {request.url}"))
    page.goto(file.as_uri())
    page.wait_for_function(OPENED)
    try:
        yield page
        assert page.noted == [f"request: {file.as_uri()}"]
    finally:
        page.close()


def drawn(page, plot="curves-0"):
    """What plotly shows: visible lines by name, and the axes."""
    return page.evaluate(
        """id => {
        const plot = document.getElementById(id), {xaxis, yaxis} = plot._fullLayout;
        const lines = plot.data.filter(trace => trace.hoverinfo !== "skip" && trace.visible !== false);
        return {lines: Object.fromEntries(lines.map(trace => [trace.name, {x: trace.x, y: trace.y}])),
                bands: plot.data.filter(trace => trace.fill === "toself" && trace.visible !== false).length,
                floors: (plot.layout.shapes || []).map(shape => shape.y0),
                x: xaxis.title.text, y: yaxis.title.text, type: yaxis.type, range: yaxis.range,
                ticks: xaxis.ticktext, kinds: plot.data.map(trace => trace.type)};
    }""",
        plot,
    )


def hovered(page):
    """What is told in the middle of the curves."""
    page.locator("#curves-0").scroll_into_view_if_needed()
    box = page.locator("#curves-0 .nsewdrag").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 80)
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 85)
    page.wait_for_selector("#curves-0 .hoverlayer .legendtext")
    return page.locator("#curves-0 .hoverlayer text").all_text_contents()


@pytest.fixture(scope="module")
def studies():
    return [made_up.study(), made_up.study(variants=("",), name="second", title="Second")]


@pytest.fixture(scope="module")
def file(studies, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return report.write(studies, made_up.VERDICTS, folder / "report.html", "A report", "gossamer run spec.toml")


def test_it_opens_without_errors_and_asks_for_nothing_else(browser, file):
    with opened(browser, file) as page:
        assert page.title() == "A report"
        assert page.locator("h2").all_inner_texts()[:2] == ["What was found", "Bias on two networks"]
        assert page.locator(".claim").count() == len(made_up.VERDICTS)
        assert page.locator(".forest .bar").count() == 2, "the verdict in words has no interval"
        assert page.locator(".js-plotly-plot").count() == 6
        assert page.locator("svg.network").count() == 3
        leaders = page.locator("#study-0 .judged dd > b")
        assert {text.strip() for text in leaders.all_inner_texts()} <= {"Biased-DMT", "DSGT"}
        assert leaders.locator(".sign svg").count() == leaders.count() > 0
        assert page.locator("svg.split").count() == 2, "both variants of the first study have one split"


def test_the_curves_are_those_of_the_result(browser, file, studies):
    rows = studies[0].results["ring"].of("biased-dmt").group_by("round", maintain_order=True).agg(pl.mean("loss"))
    with opened(browser, file) as page:
        first = drawn(page)
        page.locator("#study-0 [name=metric]").select_option("loss F(x̄)")
        shown = drawn(page)
    assert (first["y"], first["type"]) == ("squared gradient norm ‖∇F(x̄)‖²", "log"), "where there is a bias"
    assert first["floors"] == [made_up.facts()["bias_sq"]]
    assert shown["floors"] == []
    assert shown["lines"]["Biased-DMT"]["x"] == rows["round"].to_list()
    assert shown["lines"]["Biased-DMT"]["y"] == pytest.approx(rows["loss"].to_list(), rel=1e-4)
    assert (shown["bands"], shown["type"]) == (3, "linear")
    assert shown["range"][1] < 10, "the method that diverged does not set the range"


def test_the_switches_change_what_is_shown(browser, file, studies):
    with opened(browser, file) as page:
        section = page.locator("#study-0")
        section.locator("[name=metric]").select_option("loss F(x̄)")
        before = drawn(page)
        section.locator("[name=variant]").select_option("complete")
        doubled = drawn(page)
        assert doubled["lines"]["DSGT"]["y"] == pytest.approx([2 * y for y in before["lines"]["DSGT"]["y"]], rel=1e-4)
        section.locator("[name=variant]").select_option("all variants: DSGT")
        both = drawn(page)["lines"]
        assert both == {"ring": before["lines"]["DSGT"], "complete": doubled["lines"]["DSGT"]}
        section.locator("[name=variant]").select_option("complete")
        names = section.locator("[name=metric] option").all_inner_texts()
        assert {"loss F(x̄)", "tracking error, mean of ‖vᵢ − v̄‖²"} < set(names)
        assert not {"test accuracy", "loss of the worst agent"} & set(names), "they were not measured along the runs"
        section.locator("[name=metric]").select_option("squared gradient norm ‖∇F(x̄)‖²")
        shown = drawn(page)
        assert (shown["type"], shown["y"]) == ("log", "squared gradient norm ‖∇F(x̄)‖²")
        section.locator("[name=log]").uncheck()
        assert drawn(page)["type"] == "linear"
        section.locator(".choice label", has_text="kB sent").click()
        shown = drawn(page)
        paid = (studies[0].results["ring"].of("dsgt")["bytes_sent"].unique().sort() / 1e3).to_list()
        assert (shown["x"], shown["lines"]["DSGT"]["x"]) == ("kB sent by an agent", pytest.approx(paid))
        section.locator(".choice label", has_text="seconds").click()
        assert drawn(page)["lines"]["DSGT"]["x"][-1] == pytest.approx(8.0)
        assert drawn(page, "curves-1")["x"] == "rounds", "the other study has switches of its own"


def test_a_method_is_toggled_in_the_legend_also_by_keyboard(browser, file):
    with opened(browser, file) as page:
        tick = page.locator("#study-0 .legend label", has_text="Biased-DMT").locator("input")
        tick.click()
        assert (set(drawn(page)["lines"]), drawn(page)["bands"]) == ({"DSGT", CTA}, 2)
        page.locator("#study-0 [name=metric]").select_option(index=2)
        assert set(drawn(page)["lines"]) == {"DSGT", CTA}, "it stays hidden under another metric"
        tick.focus()
        page.keyboard.press("Space")
        assert set(drawn(page)["lines"]) == {"Biased-DMT", "DSGT", CTA}
        page.locator("#study-0 .legend button", has_text="none").click()
        assert drawn(page)["lines"] == {}
        assert "3 of 3 seeds diverged; the curve ends at ×" in page.locator("#study-0 .legend").inner_text()


def test_hovering_tells_mean_and_interval(browser, file):
    with opened(browser, file) as page:
        page.locator("#study-0 [name=metric]").select_option("loss F(x̄)")
        assert any(text.startswith("DSGT: 4.") and "[" in text for text in hovered(page))


def test_tuning_is_a_heat_map_or_a_line_with_the_choice_marked(browser, file):
    with opened(browser, file) as page:
        page.locator("#study-0 summary", has_text="Tuning").click()
        shown = drawn(page, "tuning-0")
        assert shown["kinds"] == ["heatmap", "heatmap", "scatter", "scatter"]
        assert (shown["x"], shown["y"], shown["ticks"]) == ("η", "λ", ["0.001 (+1)", "0.01", "0.1", "1"])
        assert shown["lines"]["chosen"] == {"x": [1], "y": [2]}
        assert shown["lines"]["diverged"] == {"x": [3, 3, 3], "y": [0, 1, 2]}
        page.locator("#study-0 [name=tuned-method]").select_option("dsgt")
        shown = drawn(page, "tuning-0")
        assert (shown["kinds"][0], shown["lines"]["criterion"]["x"]) == ("scatter", [0.001, 0.01, 0.1])
        assert shown["lines"]["chosen"]["x"] == [0.001]
        assert shown["lines"]["diverged"]["x"] == [1.0]


def test_a_target_that_moves_tells_what_each_method_pays(browser, file, studies):
    """The cells against a plain loop over the mean curve of one method."""
    result = studies[0].results["ring"]
    rows = result.of("dsgt").group_by("round", maintain_order=True).agg(pl.mean("loss", "bytes_sent", "queries"))
    with opened(browser, file) as page:
        box = page.locator("#study-0")
        box.locator("[name=metric]").select_option("loss F(x̄)")
        box.locator(".targets input").fill("100")
        goal = float(box.locator(".targets output").inner_text().split()[-1])
        cells = box.locator(".targets tr", has_text="DSGT").locator("td").all_inner_texts()
        diverged = box.locator(".targets tr", has_text="D-PSGD").locator("td").all_inner_texts()
        box.locator(".targets input").fill("200")
        later = box.locator(".targets tr", has_text="DSGT").locator("td").nth(1).inner_text()
    losses, rounds = rows["loss"].to_list(), rows["round"].to_list()
    last = max(k for k, loss in enumerate(losses) if loss > goal)
    marks = rounds[last], rounds[last + 1]
    assert cells[1] == f"{marks[0]}–{marks[1]}", "the two marks, and no round between them"
    assert cells[2] == f"{marks[0] + 1}–{marks[1] + 1}"
    each = rows["bytes_sent"][-1] / rows["round"][-1]
    assert [float(end) for end in cells[3].split("–")] == pytest.approx([at * each / 1e3 for at in marks], rel=0.02)
    assert [float(end) for end in cells[5].split("–")] == pytest.approx([0.2 * at for at in marks], rel=0.02)
    assert diverged[1:] == ["diverged"] * 5
    assert later == "not reached" or int(later.split("–")[-1]) > marks[1]


@pytest.mark.parametrize(
    ("width", "theme"),
    seldom(itertools.product([400, 1400], ["light", "dark"]), always=[(400, "light"), (1400, "dark")]),
)
def test_it_reads_at_both_widths_and_in_both_themes(browser, file, screenshots, width, theme):
    with opened(browser, file, width, theme) as page:
        for box in page.locator("details").all():
            box.evaluate("box => { box.open = true; }")
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        hidden = """() => [...document.querySelectorAll("body *")].filter(one => {
            const box = one.getBoundingClientRect();
            const scrolls = one.closest(".wide, pre, nav ol, svg, .choice, .plot");
            return box.width > 0 && !scrolls && box.right > innerWidth + 1;
        }).map(one => one.outerHTML.slice(0, 80))"""
        assert page.evaluate(hidden) == []
        assert all(
            page.evaluate(
                "[...document.querySelectorAll('.wide')].map(one => "
                "one.classList.contains('more') === (one.scrollWidth > one.clientWidth + 2))"
            )
        )
        ink, paper = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        light = [sum(int(part) for part in color[4:-1].split(",")) for color in (ink, paper)]
        assert (light[0] < light[1]) == (theme == "light")
        page.screenshot(path=screenshots / f"report-{width}-{theme}.png", full_page=True)
        page.locator("#theme").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != paper
        assert page.evaluate("scrollTo(0, 2000), document.querySelector('nav').getBoundingClientRect().top") == 0


@pytest.mark.parametrize("hostile", [made_up.HOSTILE, made_up.BREAKOUT, "<b>bold</b> & %{x} $x$", "__proto__"])
def test_hostile_names_are_shown_as_text_and_nothing_runs(browser, tmp_path, hostile):
    study = made_up.study(variants=(hostile, "b"))
    base = study.results[hostile]
    (_, setting), *rest = base.states
    states = {(hostile, setting): next(iter(base.states.values()))} | {key: base.states[key] for key in rest}
    table = base.table.with_columns(algorithm=base.table["algorithm"].replace({"biased-dmt": hostile}))
    bad = replace(base, table=table, states=states, manifest=base.manifest | {"data": {"name": hostile}})
    noted = made_up.facts() | {"network": hostile, "classes": [hostile, 1, 2], "criterion": hostile}
    tuning = study.tuning.with_columns(
        algorithm=study.tuning["algorithm"].replace({"biased-dmt": hostile}),
        setting=study.tuning["setting"] + hostile,
    )
    study = replace(
        study, title=hostile, spec=hostile, results={hostile: bad, "b": base}, tuning=tuning, facts={hostile: noted}
    )
    verdict = {"experiment": hostile, "claim": hostile, "paper": hostile, "measured": hostile}
    verdicts = [verdict | {"interval": [hostile, 1], "level": None, "verdict": "undecided"}]
    file = report.write([study], verdicts, tmp_path / "report.html", hostile, hostile)
    with opened(browser, file) as page:
        page.wait_for_timeout(300)
        assert page.evaluate("typeof window.hacked") == "undefined"
        assert page.locator("img").count() == 0
        assert page.title() == hostile
        assert page.locator("h1").inner_text() == hostile
        assert page.locator("h2").all_text_contents()[1] == hostile
        assert page.locator("#study-0 .legend label").first.locator("span > span").first.text_content() == hostile
        assert page.locator("#study-0 .targets td").first.text_content().strip() == hostile
        page.locator("#study-0 [name=metric]").select_option("loss F(x̄)")
        assert page.locator("[name=variant] option").first.text_content() == hostile
        assert page.locator("#study-0 details pre").first.text_content() == hostile
        assert any(text.startswith(f"{hostile}: ") for text in hovered(page))
        assert page.locator(".plot a, .plot b").count() == 0
