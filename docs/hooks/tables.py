"""Tables that the code fills: a line ``<!-- table: NAME -->`` in a page becomes the table of that name."""

import inspect
import re

import numpy as np

import gossamer as gs
from gossamer import catalogue
from gossamer.algorithms import ALGORITHMS
from gossamer.core import ranges
from gossamer.data import DATASETS, SIZES, SPLITS
from gossamer.engines.agents import Cost
from gossamer.engines.block import Block
from gossamer.networks import WEIGHTS
from gossamer.results import METRICS

MARK = re.compile(r"^<!-- table: ([a-z]+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, page, config, files) -> str:
    return MARK.sub(lambda found: TABLES[found[1]](), markdown)


def algorithms() -> str:
    head = ["name", "in Python", "what it is", "vectors to each neighbour", "all-reduces", "queries", "tracks"]
    return _table(head, [_algorithm(name, kind) for name, kind in ALGORITHMS.items()])


def equations() -> str:
    """A section for each algorithm: the docstring of its module, and the code that it describes."""
    return "\n\n".join(_section(name, kind) for name, kind in ALGORITHMS.items())


def metrics() -> str:
    return _table(["column", "what it is"], [(f"`{name}`", about) for name, about in METRICS.items()])


def networks() -> str:
    rows = [(f"`{e['name']}`", _codes(e["options"]), e["about"]) for e in catalogue.networks()]
    return _table(["name", "options", "what it is"], rows)


def weights() -> str:
    rows = [(f"`{name}`", inspect.getdoc(make).splitlines()[0]) for name, make in WEIGHTS.items()]
    return _table(["weights", "what they are"], rows)


def splits() -> str:
    return _table(["split", "who holds what"], [(f"`{name}`", about) for name, about in SPLITS.items()])


def sizes() -> str:
    return _table(["sizes", "how many rows each"], [(f"`{name}`", about) for name, about in SIZES.items()])


def datasets() -> str:
    return _table(["name", "what it is"], [(f"`{name}`", about) for name, (_, about) in DATASETS.items()])


TABLES = {make.__name__: make for make in (algorithms, equations, metrics, networks, weights, splits, sizes, datasets)}


def _algorithm(name: str, kind: type) -> list[str]:
    each, dim = _round(kind)
    message = "" if each.messages < 2 else f", in {each.messages} messages"
    vectors = f"{each.gossiped // dim}{message}" if each.gossiped else "–"
    tracks = "yes" if hasattr(kind, "tracker") else "–"
    made, reduced = f"`{kind.__name__}({', '.join(ranges(kind))})`", str(each.reduced // dim or "–")
    return [f"[`{name}`](#{name})", made, kind.title, vectors, reduced, str(each.queries), tracks]


def _round(kind: type) -> tuple[Cost, int]:
    """What one agent pays in a round, counted as the simulator counts it, and the length of a vector."""
    problem = gs.problems.quadratic(np.eye(3), np.zeros((4, 3)))
    rule = kind(**{key: 0.5 for key in ranges(kind)})
    block = Block([rule], problem, gs.networks.ring(4), [gs.oracles.exact()], seeds=[0], steps=1, dtype="float32")
    return block.costs()[1], problem.dim


def _section(name: str, kind: type) -> str:
    options = "\n".join(
        ["    options:", "      members: false", "      show_root_heading: false", "      show_root_toc_entry: false"]
    )
    code = "\n".join(f"    {line}".rstrip() for line in inspect.getsource(kind).splitlines())
    settings = ", ".join(f"`{key}` in {allowed}" for key, allowed in ranges(kind).items())
    return (
        f"## {kind.title} {{ #{name} data-toc-label='{name}' }}\n\n"
        f"::: {kind.__module__}\n{options}\n\n"
        f"Name in a spec: `{name}`. Hyper-parameters: {settings}.\n\n"
        f'??? quote "The code"\n\n    ```python\n{code}\n    ```\n'
    )


def _table(head: list[str], rows: list) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _codes(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "–"
