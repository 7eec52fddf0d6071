"""All that a spec can name, with one line about each; and a user's own file, whose definitions a spec can then name.

Each kind is imported when it is listed: only oracles, problems and metrics need JAX, which is slow to import.
"""

import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import NotRequired, TypedDict

from gossamer.core import InputError, hyperparameters, is_rule, parts


class Entry(TypedDict):
    name: str
    about: str
    options: list[str]
    needs: NotRequired[str]


REGISTRIES = {
    "algorithms": ("gossamer.algorithms", "ALGORITHMS"),
    "networks": ("gossamer.networks", "NETWORKS"),
    "oracles": ("gossamer.oracles", "STAGES"),
    "compressors": ("gossamer.compressors", "COMPRESSORS"),
    "aggregators": ("gossamer.aggregators", "AGGREGATORS"),
    "schedules": ("gossamer.schedules", "SCHEDULES"),
    "problems": ("gossamer.problems", "PROBLEMS"),
    "datasets": ("gossamer.data", "DATASETS"),
    "metrics": ("gossamer.metrics", "METRICS"),
    "links": ("gossamer.clocks", "LINKS"),
    "compute-times": ("gossamer.clocks", "COMPUTE"),
}
"""The kinds of things that have names, and the registry of each."""


def list_kind(kind: str) -> list[Entry]:
    """Return an entry for each thing of a kind."""
    module = importlib.import_module(REGISTRIES[kind][0])
    things = dict(getattr(module, REGISTRIES[kind][1]))
    if kind == "oracles":  # where gradients come from; the stages change them
        things = {"exact": module.exact, "minibatch": module.minibatch} | things
    entries = []
    for name, thing in things.items():
        if kind == "algorithms":
            options = [f"{key} in {allowed}" for key, allowed in hyperparameters(thing).items()] + list(parts(thing))
            about = thing.title
            if hasattr(thing, "wake"):  # the name of the asynchronous form opens its docstring, if it has one
                named = re.match("([^,:.]+)[,:]", inspect.getdoc(thing.wake) or "")
                about += "; also asynchronous" + (f", as {named[1]}" if named else "")
            entries.append(Entry(name=name, about=about, options=options, needs=thing.needs))
        elif kind == "metrics":
            entries.append(Entry(name=name, about=thing.label.about, options=[]))
        else:
            # an option may belong to all networks, and not be an argument of the function
            known = module.options(name) if kind == "networks" else inspect.signature(thing).parameters
            about = (inspect.getdoc(thing) or "").split("\n")[0].split(". ")[0].rstrip(".")
            entries.append(Entry(name=name, about=about, options=[] if kind == "datasets" else list(known)))
    if kind == "links":
        entries += [Entry(name=name, about=region.source, options=[]) for name, region in module.REGIONS.items()]
    return entries


def load_file(file: str | Path) -> ModuleType:
    """Run a user's own file and register the rules that it defines. Its decorators register all else.

    The file comes from the command line (``--with mine.py``), never from a spec: a spec from someone else runs no code.
    """
    from gossamer.algorithms import register
    from gossamer.engines.blame import blame

    path = Path(file)
    if not path.is_file():
        raise InputError(f"there is no file {path} to take code from.")
    name = "_".join(("gossamer_own", *path.stem.split()))
    known = importlib.util.spec_from_file_location(name, path.resolve())
    if known is None or known.loader is None:
        raise InputError(f"{path} is no Python file: its name must end in .py.")
    module = importlib.util.module_from_spec(known)
    sys.modules[name] = module  # before it runs, since dataclasses look their module up
    try:
        with blame(f"{path}"):
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
