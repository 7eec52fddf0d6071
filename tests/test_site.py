"""The check of the built documentation finds what is wrong with a page, and nothing where nothing is."""

import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]
CHECK = ROOT / "docs" / "site_check.py"
CHROMIUM = Path("/usr/bin/chromium")

PAGE = """<!doctype html><html><body style="margin: 0"><form><input class="md-search__input" oninput="
  document.querySelector('ol').innerHTML = '<li class=md-search-result__item><a href=#top>found</a></li>'"></form>
<ol></ol><div class="md-content" id="top">{body}</div></body></html>"""

WRONG = """
<p>The bound is $x^2$ here, and code may say <code>$x$</code>.</p>
<div style="width: 600px"><p>wide</p></div>
<pre style="overflow-x: auto; width: 300px"><code>{code}</code></pre>
<table style="width: 60px; table-layout: fixed; overflow-wrap: anywhere"><tr><td><code>grad_norm_sq</code></table>
<a href="nowhere.html">dead</a> <a href="#nothing">dead</a> <a href="#top">alive</a>
<a href="https://example.org">far</a>
<script>console.log("said something")</script>
"""

FAULTS = (
    'raw formula: "The bound is $x^2$ here',
    "at 400 px: overflow: the page is 600 px wide in 400 px",
    "at 1400 px: cut off: pre",
    'broken: code "grad_norm_sq" stands on',
    "console: said something",
    "nowhere.html",
    "#nothing",
)


def check(site, body):
    (site / "index.html").write_text(PAGE.format(body=body), encoding="utf-8")
    return subprocess.run([sys.executable, str(CHECK), str(site)], capture_output=True, text=True)


@pytest.mark.skipif(not CHROMIUM.exists(), reason="no browser: the check of the documentation was not tested")
def test_every_kind_of_fault_is_found_and_a_good_page_has_none(tmp_path):
    done = check(tmp_path, "<h1>Good</h1><p>A price of 5 $ and one of 7 $ is no formula, says <code>a$b$c</code>.</p>")
    assert done.returncode == 0, done.stdout + done.stderr
    done = check(tmp_path, WRONG.format(code="x" * 200))
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    missing = [fault for fault in FAULTS if not any(fault in line for line in lines)]
    assert not missing, done.stdout
    assert not any("alive" in line or "#top" in line or "example.org" in line for line in lines)


@pytest.mark.parametrize(
    ("latex", "display", "made"),
    [
        (r"a = b, \qquad c = \frac{1}{2}", "block", ["a = b,", r"c = \frac{1}{2}"]),
        (r"a = b, \qquad c = d", "inline", [r"a = b, \qquad c = d"]),
        (r"\{ a \mid {b \quad c} \}", "block", [r"\{ a \mid {b \quad c} \}"]),
    ],
)
def test_equations_side_by_side_may_go_below_one_another(latex, display, made):
    assert runpy.run_path(str(ROOT / "docs/hooks/math.py"))["parts"](latex, display) == made


def test_a_built_page_has_more_than_one_on_a_forge():
    """Whole docstrings in place of their first sentences, and pictures by their size, loaded late."""
    hook = runpy.run_path(str(ROOT / "docs/hooks/forge.py"))
    page = SimpleNamespace(file=SimpleNamespace(src_uri="howto/choose.md"))
    text = "A\n\n<!-- built: ::: x.y\n    options: { members: false } -->\nShort.\n<!-- /built -->\n\nB"
    assert hook["on_page_markdown"](text, page, {}, None) == "A\n\n::: x.y\n    options: { members: false }\n\nB"
    picture = '<img alt="a" src="../assets/reproduction/horizon.png#gh-light-mode-only" />'
    made = hook["on_page_content"](picture, page, {"docs_dir": str(ROOT / "docs")}, None)
    assert made == picture.replace(" />", ' class="wide" loading="lazy" />')
