"""What the documentation shows works: its code runs, its specs build, its commands and keys exist."""

import inspect
import itertools
import math
import re
import runpy
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from mkdocs.exceptions import PluginError
from torch.distributed import run as torchrun

from gossamer import cli
from gossamer.oracles import STAGES
from gossamer.problems import PROBLEMS
from gossamer.specs.spec import Spec

ROOT = Path(__file__).parents[1]
PAGES = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.glob("docs/**/*.md"))}
PAGES["CONTRIBUTING.md"] = ROOT / "CONTRIBUTING.md"
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SET = re.compile(r"[A-Z_]+=\S*")
"""A variable of the environment before a command."""
SHOWN = re.compile(r"^``` \{ \.python \}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""Code that does not run here."""
SNIPPET = re.compile(r'--8<-- "(examples/\w+\.py):(\w+)"\n')
KEYS = re.compile(r"^<!-- keys: (\w+) -->\n\n((?:\|.*\n)+)", re.MULTILINE)


def blocks(page, *languages):
    """The fenced blocks of a page in these languages: (line, text)."""
    text = PAGES[page].read_text(encoding="utf-8")
    return [(text[: m.start()].count("\n") + 1, m[2]) for m in FENCE.finditer(text) if m[1] in languages]


def having(*languages):
    return [page for page in PAGES if blocks(page, *languages)]


def whole(block):
    return {"problem", "network", "run", "algorithm"} <= tomllib.loads(block).keys()


@pytest.mark.parametrize("page", having("python", "toml"))
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


def test_code_that_needs_several_processes_is_part_of_an_example():
    """Which another test runs."""
    for page, path in PAGES.items():
        for text in SHOWN.findall(path.read_text(encoding="utf-8")):
            part = SNIPPET.fullmatch(text)
            assert part, f"{page}: what does not run here must show a part of an example, not {text!r}"
            example = (ROOT / part[1]).read_text(encoding="utf-8")
            assert all(f"# --8<-- [{end}:{part[2]}]" in example for end in ("start", "end")), part[0]


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
                torchrun.get_args_parser().parse_args(words)  # ends the process where it does not know an option


def test_numbers_on_pages_are_known_and_none_is_idle():
    """A mark that nobody can fill stops the build; here it is found without one."""
    hook = runpy.run_path(str(ROOT / "docs/hooks/numbers.py"))
    marks = {name for path in PAGES.values() for name in hook["MARK"].findall(path.read_text(encoding="utf-8"))}
    assert marks == hook["NUMBERS"].keys()
    with pytest.raises(PluginError, match=r"theory\.md: there is no number 'ring21\.gap'; .* has ring20\.gap, "):
        hook["number"]("ring21.gap", "theory.md")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0326289, "0.0326"), (5530.4, "5,530"), (11.7, "11.7"), (-8.634, "-8.63"), (0.1, "0.1"), (99.96, "100")],
)
def test_numbers_are_shown_with_three_digits(value, shown):
    assert runpy.run_path(str(ROOT / "docs/hooks/numbers.py"))["digits"](value) == shown


def test_the_reproduction_s_setting_is_compared_with_what_the_theorem_allows():
    """λ ≤ ρ/(4√(nκ)) and, at that λ, η ≤ λ/(16L)."""
    found = runpy.run_path(str(ROOT / "docs/hooks/numbers.py"))["practical"]()
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
