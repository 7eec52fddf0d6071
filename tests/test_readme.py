"""The README's example prints what the README says."""

import contextlib
import io
import json
import re
import runpy
import tomllib
from pathlib import Path

import numpy as np

from gossamer.algorithms import ALGORITHMS, biased_dmt
from gossamer.papers import installed
from gossamer.papers.verdicts import OURS

ROOT = Path(__file__).parents[1]
FOUND = ROOT / "docs" / "assets" / "reproduction"
README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"[\d,]*\.?\d+(?:e[+-]\d+)?")


def block(language):
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found
    return found.group(1)


def test_the_example_prints_what_the_readme_says(tmp_path):
    """Words to the letter; numbers to 1 % and intervals to their one digit, as another CPU rounds differently."""
    script, printed = tmp_path / "example.py", io.StringIO()
    script.write_text(block("python"), encoding="utf-8")
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(script))
    said, shown = block("text").split(), printed.getvalue().split()
    assert [NUMBER.sub("#", word) for word in said] == [NUMBER.sub("#", word) for word in shown]
    numbers = [[float(n.replace(",", "")) for n in NUMBER.findall(" ".join(words))] for words in (said, shown)]
    after = [said[k - 1] == "±" for k, word in enumerate(said) for _ in NUMBER.findall(word)]
    for a, b, is_interval in zip(*numbers, after, strict=True):
        np.testing.assert_allclose(a, b, rtol=0.5 if is_interval else 0.01)


def test_the_readme_is_short_and_opens_with_the_paper_a_figure_and_the_two_commands():
    lines = README.splitlines()
    assert len(lines) < 120
    opening, reference = "\n".join(lines[:12]), " ".join((biased_dmt.__doc__ or "").split())
    assert "arXiv 2604.08236" in opening
    assert "arXiv 2604.08236" in reference
    assert re.search(r"^!\[.*\]\(docs/.*\.png\)$", opening, re.MULTILINE)
    assert all(f"    make {target}" in "\n".join(lines[:40]) for target in ("reproduce", "test"))


def claims_of_the_paper():
    rows = json.loads((FOUND / "verdicts.json").read_text(encoding="utf-8"))
    return rows, [row["verdict"] for row in rows if row["section"] != OURS]


def test_every_number_of_the_readme_s_reasons_was_measured():
    """Each number of "Why" is read back: from the verdicts, from another page that a run wrote, or from its setting."""
    rows, words = claims_of_the_paper()
    told = " ".join(README.split("## Why")[1].split("\n## ")[0].split())
    told = re.sub(
        r"\]\([^)]*\)|<!-- fill: \S+ -->.*?<!-- end -->", "]", told
    )  # what is filled in is tested with the pages
    errors = json.loads((FOUND / "horizon.json").read_text(encoding="utf-8"))["errors"]["biased-dsgd"]
    measured = [row["measured"] for row in rows]
    pages = [(ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("performance.md", "howto/asynchronous.md")]
    counts = {word: words.count(word) for word in ("holds", "does not hold", "tie", "undecided")}
    assert f"Of the paper's {len(words)} claims {counts['holds']} hold and {counts['does not hold']} do not" in told
    assert re.search(rf"{counts['tie']} (is a tie|are ties) and {counts['undecided']} (is|are) undecided", told)
    own = [row["verdict"] for row in rows if row["section"] == OURS]
    ours = {word: own.count(word) for word in counts}
    assert f"Of {len(own)} claims of our own {ours['holds']} hold and {ours['does not hold']} does not" in told
    assert re.search(rf"{ours['tie']} (is a tie|are ties)", told)
    start = next(row["measured"] for row in rows if row["short"].startswith("Most of what a sparse network costs"))
    path, ring = (re.search(rf"{graph} ([\d.]+) cold, [\d.]+ warm, ([\d.]+) mean", start) for graph in ("path", "ring"))
    assert path
    assert ring
    paper = installed()["biased-dmt"]
    goals = {name: tomllib.loads(paper.text_of(name))["tuning"]["target"] for name in ("descent", "start")}
    of_path, of_ring = (
        f"takes {path[2]} rounds to a loss of {goals['start']}, not {path[1]}",
        f"{ring[2]}, not {ring[1]}",
    )
    assert f"a path of 16 agents {of_path}; a ring takes {of_ring}. The mean costs {2 * (16 - 1)} messages more" in told
    assert f"to a loss of {goals['descent']}" in told
    known = [*measured, *pages, f"{errors['T = 2,000'][0]:.3g} times the floor after 2,000 rounds", "after 32,000"]
    counted = map(str, [*counts.values(), *ours.values(), len(words), len(own)])
    settings = {"3", "16", "20", "30", "32", *counted, *map(str, goals.values()), *path.groups(), *ring.groups()}
    spans = re.findall(r"[\d.]+ \[[\d.]+, [\d.]+\]|[\d.]+ ± [\d.]+", told)
    assert len(spans) >= 5
    assert [span for span in spans if not any(span in text for text in known)] == []
    for span in spans:
        told = told.replace(span, "")
    left = [number.strip(".,") for number in re.findall(r"(?<![\w‖])\d[\d.,]*", told)]
    assert [
        number for number in left if number not in settings and not any(number in text for text in known[-2:])
    ] == []


def test_the_readme_says_how_many_algorithms_there_are():
    (algorithms,) = re.findall(r"(\d+)<!-- end --> \[algorithms\]", README)
    assert 40 <= int(algorithms) <= len(ALGORITHMS)


def test_every_file_that_the_readme_names_exists():
    for path in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / path).exists(), path
