"""Tables that the code fills: a line ``<!-- table: NAME -->`` in a page becomes the table of that name."""

import functools
import inspect
import json
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import typer

import gossamer as gs
from gossamer import cli
from gossamer.algorithms import ALGORITHMS
from gossamer.cli.shared import EXIT_CODES
from gossamer.core import Whole, hyperparameters, kinds_of_parts, parts
from gossamer.data import SIZES, SPLITS
from gossamer.engines.agents import Cost
from gossamer.engines.costs import costs
from gossamer.metrics import OURS
from gossamer.networks import WEIGHTS
from gossamer.oracles import STAGES
from gossamer.problems import PROBLEMS
from gossamer.specs import catalogue

MARK = re.compile(r"^<!-- table: ([a-z]+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, page, config, files) -> str:
    return MARK.sub(lambda found: TABLES[found[1]](), markdown)


def algorithms() -> str:
    head = ["name", "sent to each neighbour", "messages", "all-reduces", "queries", "graphs"]
    return _table([*head, "reference"], [_algorithm(name, kind) for name, kind in ALGORITHMS.items()])


def equations() -> str:
    """A section for each algorithm: the docstring of its module, and the code that it describes."""
    return "\n\n".join(_section(name, kind) for name, kind in ALGORITHMS.items())


def metrics() -> str:
    return _table(["column", "what it is"], [(f"`{name}`", label.about) for name, label in OURS.items()])


def networks() -> str:
    return _entries(catalogue.CATALOGUE["networks"]())


def compared() -> str:
    """All networks of 24 agents side by side."""
    head, rows = gs.networks.compare(24).cells
    return _table(head, [(f"`{row[0]}`", *row[1:]) for row in rows])


def weights() -> str:
    rows = [(f"`{name}`", (inspect.getdoc(make) or "").splitlines()[0]) for name, make in WEIGHTS.items()]
    return _table(["weights", "what they are"], rows)


def splits() -> str:
    return _table(["split", "who holds what"], [(f"`{name}`", about) for name, about in SPLITS.items()])


SPREAD_OVER = (
    "iid",
    "mixed:0.25",
    "mixed:0.5",
    "mixed:0.75",
    "by-label",
    "dirichlet:1",
    "dirichlet:0.1",
    "dirichlet:0.01",
)


def spreads() -> str:
    """How far the gradients of 20 agents are apart at the start on a9a, for several splits in equal sizes."""
    problems = {how: gs.problems.logistic("a9a", agents=20, split=how) for how in SPREAD_OVER}
    rows = [(f"`{how}`", f"{problem.heterogeneity(problem.start):.4g}") for how, problem in problems.items()]
    return _table(["split", "$\\zeta^2$ at the start"], rows)


def sizes() -> str:
    return _table(["sizes", "how many rows each"], [(f"`{name}`", about) for name, about in SIZES.items()])


def datasets() -> str:
    entries = catalogue.CATALOGUE["datasets"]()
    return _table(["name", "what it is"], [(f"`{entry['name']}`", entry["about"]) for entry in entries])


def problems() -> str:
    return _signatures(PROBLEMS)


def stages() -> str:
    return _signatures(STAGES)


def _signatures(registry: dict[str, Any]) -> str:
    """What each function of a registry does, and its keys with their defaults."""
    rows = []
    for name, make in registry.items():
        keys = [
            f"`{key}`" if value.default in (None, value.empty) else f"`{key} = {json.dumps(value.default)}`"
            for key, value in inspect.signature(make).parameters.items()
        ]
        rows.append((f"`{name}`", ", ".join(keys) or "–", _first(inspect.getdoc(make))))
    return _table(["name", "keys, with their defaults", "what it is"], rows)


def compressors() -> str:
    return _entries(catalogue.CATALOGUE["compressors"]())


def aggregators() -> str:
    return _entries(catalogue.CATALOGUE["aggregators"]())


def schedules() -> str:
    return _entries(catalogue.CATALOGUE["schedules"]())


TOLD_IN = {
    "networks": "specs.md#network",
    "oracles": "howto/oracles.md",
    "compressors": "specs.md#algorithm",
    "aggregators": "specs.md#algorithm",
    "problems": "specs.md#problem",
    "datasets": "specs.md#data-and-paths",
    "links": "howto/clock.md",
    "compute-times": "howto/clock.md",
}
"""Where what methods run with is described."""


def surroundings() -> str:
    """All that a method runs with, by name."""
    made = {kind: [entry["name"] for entry in catalogue.CATALOGUE[kind]()] for kind in TOLD_IN}
    return _table(["kind", "names"], [(f"[{kind}]({TOLD_IN[kind]})", _codes(names)) for kind, names in made.items()])


def commands() -> str:
    """The commands, each with the first sentence of its help."""
    known: Any = typer.main.get_command(cli.app())
    rows = [(f"`gossamer {name}`", _first(one.help)) for name, one in sorted(known.commands.items())]
    return _table(["command", "what it does"], rows)


def _first(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


def exits() -> str:
    return _table(["code", "meaning"], [(str(code), meaning) for code, meaning in EXIT_CODES.items()])


FILLED = (
    *(algorithms, equations, metrics, networks, compared, weights, splits, spreads, sizes),
    *(problems, stages, datasets, compressors, aggregators, schedules, surroundings, commands, exits),
)
TABLES = {make.__name__: make for make in FILLED}


AGENTS, DIM = 4, 16
"""What is counted on: vectors longer than what holds a number for each agent."""

GRAPHS = {
    "doubly": "undirected, or with doubly stochastic weights",
    "row": "directed too; row-stochastic weights",
    "column": "directed too; column-stochastic weights",
    "row+column": "directed too; row- and column-stochastic weights",
    "nothing": "none: a parameter server",
}


def _algorithm(name: str, kind: type) -> list[str]:
    vectors, thin = _paid(kind, lambda each: each.gossiped // DIM), _paid(kind, lambda each: each.bits / (32 * DIM))
    sent = [*_vectors(vectors, ""), *_vectors(thin, " compressed")]
    sent += {0: [], 1: ["1 number"], AGENTS: ["$n$ numbers"]}[_round(kind, 1).gossiped % DIM]
    counted = [" and ".join(sent) or "–"]
    counted += [_paid(kind, lambda each: each.messages), _paid(kind, lambda each: each.reduced // DIM)]
    counted += [_paid(kind, lambda each: each.queries) + " and a full gradient" * _round(kind, 1).passes]
    return [f"[`{name}`](#{name})", *counted, _graphs(kind), _reference(kind)]


def _paid(kind: type, part: Callable[[Cost], float]) -> str:
    """A part of what a round costs: a number, or how it grows with what the algorithm counts."""
    once, twice = part(_round(kind, 1)), part(_round(kind, 2))
    if once == twice:
        return f"{once:g}" if once else "–"
    (count,) = (key for key, allowed in hyperparameters(kind).items() if type(allowed) is Whole)  # no warm start
    each, fixed = twice - once, 2 * once - twice
    return f"{fixed:g} + " * bool(fixed) + f"{each:g} × " * (each != 1) + f"`{count}`"


def _vectors(number: str, how: str) -> list[str]:
    return [f"{number}{how} vector{'s' * (number != '1')}"] if number != "–" else []


def _graphs(kind: type) -> str:
    if kind.lowest is not None:
        bound = f", all eigenvalues above {Fraction(kind.lowest).limit_denominator(9)}" if kind.lowest > -1 else ""
        return f"undirected and static, symmetric weights{bound}"
    if kind.tree:
        return "trees, static and without losses"
    return GRAPHS[kind.needs] + (", static and without losses" if kind.static else "")


def _module_doc(kind: type) -> str:
    module = inspect.getmodule(kind)
    return (module and module.__doc__) or ""


def _reference(kind: type) -> str:
    """The first author and the number, from the last paragraph of an algorithm's file; the whole is in its section."""
    found = re.search(r"Reference: (.*?)\n*$", _module_doc(kind), re.DOTALL)
    if not found:
        return "–"
    text = " ".join(found[1].split())
    first = re.split(r",| and | et al\.|;", text)[0]
    number = re.search(r"arXiv (\d+\.\d+)", text)
    return first if first == "this software" or not number else f"{first} et al., arXiv {number[1]}"


def _takes(kind: type) -> list[str]:
    return [*hyperparameters(kind), *parts(kind)]


@functools.cache
def _round(kind: type, count: int) -> Cost:
    """What one agent pays in a round, counted as the simulator counts it, with this for all whole numbers."""
    problem = gs.problems.quadratic(np.eye(DIM), np.zeros((AGENTS, DIM)))
    known = hyperparameters(kind).items()
    numbers = {key: count if type(allowed) is Whole else allowed.example for key, allowed in known}
    some = {"compressor": gs.compressors.identity(), "aggregator": gs.aggregators.median()}
    rule = kind(**numbers, **{key: some[part] for key, part in kinds_of_parts(kind).items()})
    return costs(rule, problem, gs.networks.ring(AGENTS), gs.oracles.exact(), "float32")[1]


def _section(name: str, kind: type) -> str:
    options = "\n".join(
        ["    options:", "      members: false", "      show_root_heading: false", "      show_root_toc_entry: false"]
    )
    code = "\n".join(f"    {line}".rstrip() for line in inspect.getsource(kind).splitlines())
    settings = ", ".join(f"`{key}` in {allowed}" for key, allowed in hyperparameters(kind).items())
    settings += "".join(f", and an `{key}`" if key[0] in "aeiou" else f", and a `{key}`" for key in parts(kind))
    return (
        f"## {kind.title} {{ #{name} data-toc-label='{name}' }}\n\n"
        f"::: {kind.__module__}\n{options}\n\n"
        f"Name in a spec: `{name}`; in Python: `gs.{kind.__name__}({', '.join(_takes(kind))})`. "
        f"Hyper-parameters: {settings}.\n\n"
        f'??? quote "The code"\n\n    ```python\n{code}\n    ```\n'
    )


def _table(head: list[str], rows: list) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _entries(entries: list) -> str:
    return _table(
        ["name", "options", "what it is"], [(f"`{e['name']}`", _codes(e["options"]), e["about"]) for e in entries]
    )


def _codes(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "–"
