"""All that a spec can name, with one line about each.

Each kind is imported when it is listed: only oracles, problems and metrics need JAX, which takes longer than all else.
"""

import inspect
import re
from collections.abc import Callable
from typing import Any, NotRequired, TypedDict

from gossamer.core import hyperparameters, parts


class Entry(TypedDict):
    name: str
    about: str
    options: list[str]
    needs: NotRequired[str]


def algorithms() -> list[Entry]:
    from gossamer.algorithms import ALGORITHMS

    return [
        Entry(
            name=name,
            about=_title(kind),
            options=[f"{key} in {allowed}" for key, allowed in hyperparameters(kind).items()] + list(parts(kind)),
            needs=kind.needs,
        )
        for name, kind in ALGORITHMS.items()
    ]


def _title(kind: Any) -> str:
    """What an algorithm is, and whether it has a form for asynchronous networks, by name if its docstring opens so."""
    if not hasattr(kind, "wake"):
        return kind.title
    named = re.match("([^,:.]+)[,:]", inspect.getdoc(kind.wake) or "")
    return f"{kind.title}; also asynchronous" + (f", as {named[1]}" if named else "")


def networks() -> list[Entry]:
    from gossamer.networks import NETWORKS, options

    return [Entry(name=name, about=_about(make), options=list(options(name))) for name, make in NETWORKS.items()]


def oracles() -> list[Entry]:
    from gossamer.oracles import STAGES, exact, minibatch

    return [_entry("exact", exact), _entry("minibatch", minibatch), *(_entry(*item) for item in STAGES.items())]


def compressors() -> list[Entry]:
    from gossamer.compressors import COMPRESSORS

    return [_entry(*item) for item in COMPRESSORS.items()]


def aggregators() -> list[Entry]:
    from gossamer.aggregators import AGGREGATORS

    return [_entry(*item) for item in AGGREGATORS.items()]


def schedules() -> list[Entry]:
    from gossamer.schedules import SCHEDULES

    return [_entry(*item) for item in SCHEDULES.items()]


def problems() -> list[Entry]:
    from gossamer.problems import PROBLEMS

    return [_entry(*item) for item in PROBLEMS.items()]


def datasets() -> list[Entry]:
    from gossamer.data import DATASETS

    return [Entry(name=name, about=_about(load), options=[]) for name, load in DATASETS.items()]


def metrics() -> list[Entry]:
    from gossamer.metrics import METRICS

    return [Entry(name=name, about=metric.label.about, options=[]) for name, metric in METRICS.items()]


def links() -> list[Entry]:
    from gossamer.clocks import LINKS, REGIONS

    presets = [Entry(name=name, about=region.source, options=[]) for name, region in REGIONS.items()]
    return [*(_entry(*item) for item in LINKS.items()), *presets]


def compute_times() -> list[Entry]:
    from gossamer.clocks import COMPUTE

    return [_entry(*item) for item in COMPUTE.items()]


CATALOGUE: dict[str, Callable[[], list[Entry]]] = {
    "algorithms": algorithms,
    "networks": networks,
    "oracles": oracles,
    "compressors": compressors,
    "aggregators": aggregators,
    "schedules": schedules,
    "problems": problems,
    "datasets": datasets,
    "metrics": metrics,
    "links": links,
    "compute-times": compute_times,
}
"""The kinds of things that have names."""


def _entry(name: str, make: Callable[..., Any]) -> Entry:
    return Entry(name=name, about=_about(make), options=list(inspect.signature(make).parameters))


def _about(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").split("\n")[0].split(". ")[0].rstrip(".")
