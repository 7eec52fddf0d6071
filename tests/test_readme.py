"""The README's example prints what the README says."""

import contextlib
import io
import re
import runpy
from pathlib import Path

import numpy as np

from gossamer.algorithms import ALGORITHMS, biased_dmt

ROOT = Path(__file__).parents[1]
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


def test_numbers_of_the_readme_are_those_of_the_pages_that_were_measured():
    """What it quotes with an interval stands so in the verdicts, the page of performance or that of asynchrony."""
    said = " ".join(README.split("```")[0].split())
    quoted = re.findall(r"[\d.]+ \[[\d.]+, [\d.]+\]|[\d.]+ ± [\d.]+", said)
    sources = ("assets/reproduction/verdicts.json", "performance.md", "asynchrony.md")
    known = "".join((ROOT / "docs" / source).read_text(encoding="utf-8") for source in sources)
    assert len(quoted) == 7
    assert [number for number in quoted if number not in known] == []
    (algorithms,) = re.findall(r"^(\d+) \[algorithms\]", README, re.MULTILINE)
    assert 40 <= int(algorithms) <= len(ALGORITHMS)


def test_every_file_that_the_readme_names_exists():
    for path in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / path).exists(), path
