"""Whose code something is, ours, a package's, or the user's own, and what code asks for by name."""

import dis
import functools
import importlib
import inspect
import site
import sys
import sysconfig
import types
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Any

from gossamer.results.provenance import HERE

FOLDERS = [sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
INSTALLED = {Path(folder).resolve() for folder in (*FOLDERS, *site.getsitepackages(), site.getusersitepackages())}
"""Where installed code lies."""


class Unknown(Exception):
    """Code that cannot be identified again; the message says which."""


def importable(value: Any) -> str:
    """The package that a function is known in by its name; "" if it is the user's own, or made when it ran."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(value, type) or not isinstance(module, str) or not isinstance(name, str):
        return ""
    holder = sys.modules.get(module)
    package = home(module, getattr(holder, "__file__", None)) if holder else ""
    for part in name.split(".") if package else ():
        holder = inspect.getattr_static(holder, part, None)
    return package if holder is value else ""


def home_of(value: Any) -> str:
    """Whose code a function or a class is, as `home` says it."""
    if isinstance(value, types.FunctionType):
        return home(value.__globals__.get("__name__"), value.__globals__.get("__file__"))
    return home(value.__module__, getattr(sys.modules.get(value.__module__), "__file__", None))


@functools.cache
def home(module: str | None, file: str | None) -> str:
    """Whose code a module is: "gossamer", a package with its version, or "" for the user's own."""
    top = (module or "").partition(".")[0]
    if file is None:
        installed = top in sys.stdlib_module_names or top in sys.builtin_module_names
        if not installed and top not in ("", "__main__") and getattr(sys.modules.get(top), "__file__", None):
            return home(top, sys.modules[top].__file__)
        return _version(top) if installed else ""
    place = Path(file).resolve()
    if place.is_relative_to(HERE):
        return "gossamer"
    return _version(top) if any(place.is_relative_to(folder) for folder in INSTALLED) else ""


@functools.cache
def _version(top: str) -> str:
    if not top:  # a file alone, without the module's name
        return "a package"
    if top in sys.stdlib_module_names:
        return f"python {sys.version_info.major}.{sys.version_info.minor}"
    with suppress(PackageNotFoundError):
        return f"{top} {version(top)}"
    if isinstance(known := getattr(sys.modules.get(top), "__version__", None), str):
        return f"{top} {known}"
    names = packages_distributions().get(top, [])  # slow, so last
    return " ".join([top, *(f"{name} {version(name)}" for name in sorted(set(names)))])


def asked_for(code: types.CodeType) -> Iterator[tuple[str, str]]:
    """The globals and modules that code asks for by name, and all names in it, which may be a module's."""
    yield from (("any", name) for name in code.co_names)
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield "global", step.argval
        elif step.opname == "IMPORT_NAME":
            yield "import", step.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from asked_for(constant)


def imported(name: str, function: types.FunctionType) -> types.ModuleType:
    """The module that a function imports when it runs."""
    package = function.__globals__.get("__package__") or ""
    for whole in (name, f"{package}.{name}".rstrip(".")):
        if whole in sys.modules:
            return sys.modules[whole]
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise Unknown(
            f"{function.__qualname__} imports {name or 'a module'}, which cannot be found ({error})"
        ) from None
