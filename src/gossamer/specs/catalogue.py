"""All that a spec can name, with one line about each; and a user's own file, whose definitions a spec can then name.

Each kind is imported when it is listed: only oracles, problems and metrics need JAX, which is slow to import.
"""

import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NotRequired, TypedDict

from gossamer.core import InputError, hyperparameters, is_rule, parts


class Entry(TypedDict):
    name: str
    about: str
    options: list[str]
    needs: NotRequired[str]


def _list_functions(registry: Mapping[str, Callable[..., Any]]) -> list[Entry]:
    """Return an entry for each function, with the first sentence of its docstring."""
    entries = []
    for name, make in registry.items():
        about = (inspect.getdoc(make) or "").split("\n")[0].split(". ")[0].rstrip(".")
        entries.append(Entry(name=name, about=about, options=list(inspect.signature(make).parameters)))
    return entries


def _list_algorithms() -> list[Entry]:
    from gossamer.algorithms import ALGORITHMS

    entries = []
    for name, kind in ALGORITHMS.items():
        options = [f"{key} in {allowed}" for key, allowed in hyperparameters(kind).items()] + list(parts(kind))
        about = kind.title
        if hasattr(kind, "wake"):  # the name of the asynchronous form opens its docstring, if it has one
            named = re.match("([^,:.]+)[,:]", inspect.getdoc(kind.wake) or "")
            about += "; also asynchronous" + (f", as {named[1]}" if named else "")
        entries.append(Entry(name=name, about=about, options=options, needs=kind.needs))
    return entries


def _list_networks() -> list[Entry]:
    from gossamer.networks import NETWORKS, options

    return [Entry(**entry | {"options": list(options(entry["name"]))}) for entry in _list_functions(NETWORKS)]


def _list_oracles() -> list[Entry]:
    from gossamer.oracles import STAGES, exact, minibatch

    return _list_functions({"exact": exact, "minibatch": minibatch, **STAGES})


def _list_datasets() -> list[Entry]:
    from gossamer.data import DATASETS

    return [Entry(**entry | {"options": []}) for entry in _list_functions(DATASETS)]


def _list_metrics() -> list[Entry]:
    from gossamer.metrics import METRICS

    return [Entry(name=name, about=metric.label.about, options=[]) for name, metric in METRICS.items()]


def _list_links() -> list[Entry]:
    from gossamer.clocks import LINKS, REGIONS

    presets = [Entry(name=name, about=region.source, options=[]) for name, region in REGIONS.items()]
    return [*_list_functions(LINKS), *presets]


def _lister(module: str, name: str) -> Callable[[], list[Entry]]:
    """Return a function that lists a registry, whose module is imported then."""
    return lambda: _list_functions(getattr(importlib.import_module(module), name))


CATALOGUE: dict[str, Callable[[], list[Entry]]] = {
    "algorithms": _list_algorithms,
    "networks": _list_networks,
    "oracles": _list_oracles,
    "compressors": _lister("gossamer.compressors", "COMPRESSORS"),
    "aggregators": _lister("gossamer.aggregators", "AGGREGATORS"),
    "schedules": _lister("gossamer.schedules", "SCHEDULES"),
    "problems": _lister("gossamer.problems", "PROBLEMS"),
    "datasets": _list_datasets,
    "metrics": _list_metrics,
    "links": _list_links,
    "compute-times": _lister("gossamer.clocks", "COMPUTE"),
}
"""The kinds of things that have names."""


def load_file(file: str | Path) -> ModuleType:
    """Run a user's own file and register the rules that it defines. Its decorators register all else.

    The file comes from the command line (``--with mine.py``), never from a spec: a spec from someone else runs no code.
    """
    from gossamer.algorithms import register
    from gossamer.engines.blame import blamed

    path = Path(file)
    if not path.is_file():
        raise InputError(f"there is no file {path} to take code from.")
    name = "_".join(("gossamer_own", *path.stem.split()))
    known = importlib.util.spec_from_file_location(name, path.resolve())
    if known is None or known.loader is None:
        raise InputError(f"{path} is no Python file: its name must end in .py.")
    module = importlib.util.module_from_spec(known)
    sys.modules[name] = module
    try:
        with blamed(f"{path}"):
            known.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, SyntaxError):
            raise InputError(f"{path}, line {error.lineno}, is not Python: {error.msg}.") from None
        raise
    for value in list(vars(module).values()):
        if is_rule(value) and value.__module__ == name:
            register(value)
    return module
