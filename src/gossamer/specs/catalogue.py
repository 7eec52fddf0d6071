"""All that a spec can name, with one line about each.

Each kind is imported when it is listed: only oracles, problems and metrics need JAX, which is slow to import.
"""

import importlib
import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Any, NotRequired, TypedDict

from gossamer.core import hyperparameters, parts


class Entry(TypedDict):
    name: str
    about: str
    options: list[str]
    needs: NotRequired[str]


def _entry(name: str, make: Callable[..., Any], options: list[str] | None = None) -> Entry:
    about = (inspect.getdoc(make) or "").split("\n")[0].split(". ")[0].rstrip(".")
    return Entry(
        name=name, about=about, options=list(inspect.signature(make).parameters) if options is None else options
    )


def _registry(module: str, name: str) -> list[Entry]:
    """Return the entries of a registry of functions."""
    return [_entry(*item) for item in getattr(importlib.import_module(module), name).items()]


def algorithms() -> list[Entry]:
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


def networks() -> list[Entry]:
    from gossamer.networks import NETWORKS, options

    return [_entry(name, make, list(options(name))) for name, make in NETWORKS.items()]


def oracles() -> list[Entry]:
    from gossamer.oracles import exact, minibatch

    return [_entry("exact", exact), _entry("minibatch", minibatch), *_registry("gossamer.oracles", "STAGES")]


def datasets() -> list[Entry]:
    from gossamer.data import DATASETS

    return [_entry(name, load, []) for name, load in DATASETS.items()]


def metrics() -> list[Entry]:
    from gossamer.metrics import METRICS

    return [Entry(name=name, about=metric.label.about, options=[]) for name, metric in METRICS.items()]


def links() -> list[Entry]:
    from gossamer.clocks import REGIONS

    presets = [Entry(name=name, about=region.source, options=[]) for name, region in REGIONS.items()]
    return [*_registry("gossamer.clocks", "LINKS"), *presets]


CATALOGUE: dict[str, Callable[[], list[Entry]]] = {
    "algorithms": algorithms,
    "networks": networks,
    "oracles": oracles,
    "compressors": partial(_registry, "gossamer.compressors", "COMPRESSORS"),
    "aggregators": partial(_registry, "gossamer.aggregators", "AGGREGATORS"),
    "schedules": partial(_registry, "gossamer.schedules", "SCHEDULES"),
    "problems": partial(_registry, "gossamer.problems", "PROBLEMS"),
    "datasets": datasets,
    "metrics": metrics,
    "links": links,
    "compute-times": partial(_registry, "gossamer.clocks", "COMPUTE"),
}
"""The kinds of things that have names."""
