"""What the documentation shows works: its code runs, its specs build, its commands and keys exist."""

import inspect
import itertools
import math
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from gossamer import cli
from gossamer.oracles import STAGES
from gossamer.problems import PROBLEMS
from gossamer.specs.spec import Spec

ROOT = Path(__file__).parents[1]
PAGES = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.glob("docs/**/*.md"))}
PAGES["CONTRIBUTING.md"] = ROOT / "CONTRIBUTING.md"
TUTORIAL = "docs/tutorial.md"
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r'^```\w+ title="([\w.-]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
"""What a reader puts into a file of that name."""
NUMBER = re.compile(r"[\d,]*\.?\d+(?:e[+-]\d+)?")
SET = re.compile(r"[A-Z_]+=\S*")
"""A variable of the environment before a command."""
KEYS = re.compile(r"^<!-- keys: (\w+) -->\n\n((?:\|.*\n)+)", re.MULTILINE)


def blocks(page, *languages):
    """The fenced blocks of a page in these languages: (line, text)."""
    text = PAGES[page].read_text(encoding="utf-8")
    return [(text[: m.start()].count("\n") + 1, m[2]) for m in FENCE.finditer(text) if m[1] in languages]


def having(*languages):
    return [page for page in PAGES if blocks(page, *languages)]


def whole(block):
    return {"problem", "network", "run", "algorithm"} <= tomllib.loads(block).keys()


@pytest.mark.parametrize("page", [page for page in having("python", "toml") if page != TUTORIAL])
def test_code_runs_and_specs_build(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    for line, code in blocks(page, "python"):
        exec(compile("\n" * line + code, page, "exec"), namespace)
    for line, change in blocks(page, "diff"):
        added = [text[2:] if text.startswith("+ ") else "" for text in change.splitlines()]
        exec(compile("\n" * line + "\n".join(added), page, "exec"), namespace)
    for _, text in blocks(page, "toml"):
        if whole(text):
            Spec.of(tomllib.loads(text), tmp_path).parts()


@pytest.mark.parametrize("page", having("console", "bash", "sh"))
def test_commands_exist(page):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for _, text in blocks(page, "console", "bash", "sh"):
        for line in text.replace("\\\n", "").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            alone = itertools.takewhile(lambda word: word != "|", words)  # others read what it prints
            program, *words = [word for word in alone if not SET.fullmatch(word)] or [""]
            if program == "make":
                assert set(words) <= set(targets), line
            elif program == "gossamer":
                command: Any = typer.main.get_command(cli.app())
                while words and words[0] in getattr(command, "commands", {}):
                    command = command.commands[words.pop(0)]
                assert not hasattr(command, "commands"), f"{line}: there is no such command"
                command.make_context(line, words)  # parses, and raises for an unknown option, value or argument
            elif program == "torchrun":
                from torch.distributed import run as torchrun

                torchrun.get_args_parser().parse_args(words)  # ends the process where it does not know an option


def test_the_tutorial_runs_as_printed(tmp_path):
    """Every block in a process of its own, in one fresh folder, in order; what is shown below it is what it prints."""
    text, printed = PAGES[TUTORIAL].read_text(encoding="utf-8"), ""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    for block in FENCE.finditer(text):
        language, code = block.groups()
        if file := FILE.fullmatch(block[0]):
            (tmp_path / file[1]).write_text(code, encoding="utf-8")
        elif language == "text":
            assert_printed(code, printed)
        else:
            printed = ""
            for line in [code] if language == "python" else code.splitlines():
                command = ["-c", line] if language == "python" else ["-m", *shlex.split(line)]
                done = subprocess.run(
                    [sys.executable, *command],
                    cwd=tmp_path,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=600,
                )
                assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
                printed += done.stdout


def assert_printed(shown, printed):
    """Words to the letter; numbers to 2 % and intervals to their one digit, as another CPU rounds differently."""
    lines = [line for line in printed.splitlines() if line.strip()]
    for said in filter(str.strip, shown.splitlines()):
        forms = [line for line in lines if NUMBER.sub("#", line).split() == NUMBER.sub("#", said).split()]
        assert any(near(said, line) for line in forms), f"{said!r} is not in:\n{printed}"


def near(said, line):
    numbers = [[float(number.replace(",", "")) for number in NUMBER.findall(text)] for text in (said, line)]
    intervals = [said[: found.start()].rstrip().endswith("±") for found in NUMBER.finditer(said)]
    return all(
        math.isclose(a, b, rel_tol=0.5 if is_interval else 0.02)
        for a, b, is_interval in zip(*numbers, intervals, strict=True)
    )


@pytest.fixture(scope="module")
def fill():
    """What `make pages` runs."""
    return runpy.run_path(str(ROOT / "docs/fill.py"))


def test_pages_are_up_to_date(fill):
    for page in fill["PAGES"]:
        text = page.read_text(encoding="utf-8")
        assert fill["fill"](text) == text, f"{page.relative_to(ROOT)} is not up to date: run `make pages`"


def test_pages_have_no_gaps(fill):
    """Nothing is left to be filled in when a page is built, and each mark is closed and has something inside."""
    named = set()
    for page in fill["PAGES"]:
        text = page.read_text(encoding="utf-8")
        found = fill["MARK"].findall(text)
        assert not re.search(r"\{\{|<!-- (table|fill): \S+ -->\s*<!-- end -->", text), page
        assert text.count("<!-- fill: ") == text.count("<!-- end -->") == len(found), page
        assert not re.search(r"^ *<!-- fill: \S+ -->[^\n]", text, re.MULTILINE), f"{page}: a line begins with a number"
        named |= {name for name, _ in found if "/" not in name}
    assert named == {*fill["TABLES"], *fill["NUMBERS"]}
    with pytest.raises(ValueError, match=r"there is no 'ring21\.A3' to fill in; docs/fill\.py has .* ring20\.A3"):
        fill["fill"]("<!-- fill: ring21.A3 --> <!-- end -->")


CODE = re.compile(r"^ *```.*?^ *```$|<!--.*?-->|\$\$?(?:[^$\n]|\n(?!\n))+\$\$?|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LITERAL = {
    "a page's attributes": r"\{[:.#]? ?[.#]?[\w-]+(?:=\S*)? \}",
    "a docstring or a file in its place": r"^(?::::|--8<--|;--8<--)",
    "a box or a tab": r"^(?:!!!|\?\?\?\+?|===) ",
    "Markdown that HTML swallows": r"^</?(?:div|details)[^>]*>\n[^\n<]",
    "a figure in two forms, both of which show": r"#only-(?:light|dark)",
    "a link of the built site alone": r"\]\[[\w.]*\]",
}
"""What a forge shows as it is written, by what it would be in the built page."""


def test_pages_read_unbuilt_too(fill):
    """Nothing that the built documentation alone understands is left on a page outside code and comments."""
    left = []
    for page in [*fill["PAGES"], *map(ROOT.joinpath, ("CONTRIBUTING.md", "CHANGELOG.md"))]:
        text = CODE.sub("", page.read_text("utf-8"))
        for what, pattern in LITERAL.items():
            left += [f"{page.name}: {what}: {found[0]}" for found in re.finditer(pattern, text, re.MULTILINE)]
    assert left == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0326289, "0.0326"), (5530.4, "5,530"), (11.7, "11.7"), (-8.634, "-8.63"), (0.1, "0.1"), (99.96, "100")],
)
def test_numbers_are_shown_with_three_digits(fill, value, shown):
    assert fill["digits"](value) == shown


def test_the_reproduction_s_setting_is_compared_with_what_the_theorem_allows(fill):
    """λ ≤ ρ/(4√(nκ)) and, at that λ, η ≤ λ/(16L)."""
    found = fill["practical"]()
    rho = 2 / 3 * (1 - math.cos(math.pi / 10))
    lam = rho / (4 * math.sqrt(20 * 1 / (80 * rho**2)))
    assert found["lam.over"] == pytest.approx(found["lam"] / lam)
    assert found["eta.over"] == pytest.approx(found["eta"] * 16 * found["L"] / lam)


@pytest.mark.parametrize(("kind", "registry"), [("problems", PROBLEMS), ("stages", STAGES)])
def test_spec_keys_are_those_of_the_code(kind, registry):
    """The tables of keys against the functions' signatures: every key, and no other."""
    ((_, table),) = [
        keys for path in PAGES.values() for keys in KEYS.findall(path.read_text("utf-8")) if keys[0] == kind
    ]
    told = [line.split("|")[1].strip(" `") for line in table.splitlines()[2:]]
    assert len(told) == len(set(told))
    assert set(told) == {key for make in registry.values() for key in inspect.signature(make).parameters}
