"""The page of `gossamer explore` in a real browser, served by the command in a process of its own.

There its programs are compiled as for users, so that a saved spec can be run to the last bit, and the time of an answer
means something: it is printed, `pytest -s` shows it.
"""

import itertools
import os
import signal
import statistics
import subprocess
import sys
from contextlib import contextmanager

import pytest

from gossamer.results.study import Study
from tests.seldom import seldom

TROUBLE = "console: Failed to load resource: the server responded with a status of 400"


@pytest.fixture(scope="module")
def served(browser):
    """The address of a page; Ctrl-C ends its server with exit code 0."""
    words = [sys.executable, "-m", "gossamer", "explore", "--no-browser"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout
    yield process.stdout.readline().split()[0]
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (0, "")


@contextmanager
def opened(browser, address, width=1280, theme="light", height=1000):
    """The page with its first curves, and what it logged and asked for."""
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
    page.noted = []
    page.on("console", lambda message: page.noted.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: page.noted.append(f"error: {error}"))
    page.on("request", lambda request: page.noted.append(f"request: {request.url}"))
    page.goto(address)
    page.wait_for_function("() => document.body.dataset.drawn", timeout=120_000)
    page.wait_for_function("() => document.querySelector('.strip[style]')")
    try:
        yield page
        own = [f"request: {address}{path}" for path in ("", "answer", "theory")]
        assert [line for line in page.noted if line not in own and not line.startswith(TROUBLE)] == []
    finally:
        page.close()


def move(page, name, share, number=0):
    """Move a slider to this share of its way; wait for its answer, and return what the page then knows."""
    drawn = page.evaluate("document.body.dataset.drawn")
    page.locator(f"input[type=range][name='{name}']").nth(number).fill(str(round(1000 * share)))
    page.wait_for_function("was => document.body.dataset.drawn !== was", arg=drawn, timeout=120_000)
    return page.evaluate("({answer, ms: Number(document.body.dataset.ms)})")


def curves(page):
    """The lines that plotly shows, by name."""
    return page.evaluate("""() => Object.fromEntries(document.getElementById("curves").data
        .filter(trace => trace.hoverinfo !== "skip").map(trace => [trace.name, trace.y]))""")


def test_sliders_move_curves_and_compile_nothing(browser, served):
    took = {"η": [], "λ": [], "bias": [], "heterogeneity": []}
    names = {"η": "Biased-DMT: eta", "λ": "Biased-DMT: lam", "bias": "bias", "heterogeneity": "heterogeneity"}
    with opened(browser, served) as page:
        before = curves(page)
        for (symbol, name), share in itertools.product(names.items(), (0.31, 0.43, 0.57, 0.64, 0.72)):
            found = move(page, name, share)
            after = curves(page)
            moved = {line for line in after if after[line] != before[line]}
            assert moved == {"Biased-DMT"} if symbol in "ηλ" else len(moved) == 2
            assert found["answer"]["compiled"] == 0
            took[symbol].append(found["ms"])
            before = after
        floors = page.evaluate("document.getElementById('curves').layout.shapes.map(shape => shape.y0)")
        assert floors == [page.evaluate("answer.methods[0].floor")]
    for symbol, times in took.items():
        middle, most = statistics.median(times), max(times)
        print(
            f"\n{symbol}: {middle:.0f} ms from slider to curves, at most {most:.0f} (2,000 rounds of a9a, ring of 20)",
            end="",
        )
    print()


def test_the_latest_move_wins(browser, served):
    with opened(browser, served) as page:
        slider = page.locator("input[type=range][name='Biased-DMT: eta']")
        for share in range(300, 600, 10):
            slider.fill(str(share))
        last = float(page.locator("input[type=number]").first.input_value())
        page.wait_for_function("eta => answer.spec.includes(`eta = ${eta}\\n`) && !flight", arg=last)
        assert page.evaluate("cards[0].table.eta") == last
        assert page.evaluate("number") < 31  # while one was answered, only the newest waited


def test_another_graph_number_of_agents_and_method(browser, served):
    with opened(browser, served) as page:
        assert page.locator("#graphs .network").count() == 2
        drawn = page.evaluate("document.body.dataset.drawn")
        page.locator("select[name=network]").select_option("complete")
        page.wait_for_function("was => document.body.dataset.drawn !== was", arg=drawn, timeout=120_000)
        assert page.locator("#graphs circle").count() == 40
        fills = (
            page.locator("#graphs .network")
            .last.locator("circle")
            .evaluate_all("dots => dots.map(dot => dot.style.fill)")
        )
        assert len({*fills}) > 2
        assert "‖xᵢ − x̄‖ = " in page.locator("#graphs circle title").first.text_content()
        move(page, "agents", 0.05)
        assert page.locator("#graphs circle").count() == 10
        drawn = page.evaluate("document.body.dataset.drawn")
        page.locator("#add").select_option("GT-DSGD")
        page.wait_for_function("was => document.body.dataset.drawn !== was", arg=drawn, timeout=120_000)
        assert [*curves(page)] == ["Biased-DMT", "D-PSGD", "GT-DSGD"]
        page.locator(".card button").nth(1).click()
        page.wait_for_function(
            "() => document.getElementById('curves').data.every(trace => !trace.name.startsWith('D-PSGD'))"
        )


def test_what_is_wrong_is_shown_in_its_place(browser, served):
    with opened(browser, served) as page:
        eta, state = page.locator(".card input[type=number]").first, page.locator(".card .state").first
        strip = page.locator(".card .slider small").first

        def give(field, value):
            field.fill(value)
            field.press("Enter")
            page.wait_for_function("() => !flight")

        give(eta, "-1")
        assert "must be a number in (0, ∞), but is -1" in state.inner_text()
        assert [*curves(page)] == ["D-PSGD"]
        give(eta, "1e9")
        assert "Diverged in round" in state.inner_text()
        page.wait_for_function("() => document.querySelector('.slider small.lost')")
        assert strip.inner_text().startswith("Step size too large?")
        give(eta, "0.1")
        assert state.inner_text().startswith("ends at 0.0006")
        agents = page.locator("#world input[type=number]").first
        give(agents, "1")
        assert page.locator("#error").inner_text() == "key 'agents' must be at least 2, but is 1."
        assert len(curves(page)) == 2  # those that were there
        give(agents, "20")
        assert page.locator("#error").is_hidden()


def test_a_saved_spec_gives_the_numbers_of_the_page_to_the_last_bit(browser, served, tmp_path):
    with opened(browser, served) as page:
        move(page, "bias", 0.35)
        move(page, "Biased-DMT: lam", 0.6)
        shown = move(page, "heterogeneity", 0.8)["answer"]["methods"]
        with page.expect_download() as download:
            page.locator("#save").click()
        assert download.value.suggested_filename == "explored.toml"
        download.value.save_as(tmp_path / "explored.toml")
        assert (tmp_path / "explored.toml").read_text(encoding="utf-8") == page.evaluate("answer.spec")
    words = [sys.executable, "-m", "gossamer", "run", "explored.toml", "--out", "out"]
    done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    result = Study.load(tmp_path / "out").results[""]
    for one, label in zip(shown, result.labels, strict=True):
        rows = result.of(label)
        assert len(rows) == 101
        for name, values in one["values"].items():
            assert values == rows[name].to_list(), (label, name)


def environment():
    """Of a process that starts in another directory."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.mark.parametrize(
    ("width", "theme"),
    seldom(itertools.product([400, 1280], ["light", "dark"]), always=[(400, "light"), (1280, "light"), (1280, "dark")]),
)
def test_it_reads_at_both_widths_and_in_both_themes(browser, served, screenshots, width, theme):
    with opened(browser, served, width, theme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        hidden = """() => [...document.querySelectorAll("body *")].filter(one => {
            const box = one.getBoundingClientRect();
            return box.width > 0 && !one.closest("pre, svg, .plot") && box.right > innerWidth + 1;
        }).map(one => one.outerHTML.slice(0, 80))"""
        assert page.evaluate(hidden) == []
        move(page, "Biased-DMT: eta", 0.58 if theme == "light" else 0.62)
        page.wait_for_function("() => !flight")
        page.screenshot(path=screenshots / f"explore-{width}-{theme}.png", full_page=width == 400)
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.locator("#theme").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != paper
