"""Cache keys: digests of values and of the code among them, so that two runs that could differ never share a key.

- Gossamer is known by the source of its rooms as it was imported, other packages by their versions.
- A user's function is known by the source of its file, by its place there, and by the values of its defaults, of its
  closure and of the globals that it names; a user's class by its bases and attributes.
- Every other value is known by its class and its state.

Where source cannot be had, or is no longer what runs, there is no key: the run is not stored, and says so.
"""

import ast
import dataclasses
import functools
import hashlib
import importlib.util
import inspect
import linecache
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from gossamer.problems import native
from gossamer.problems.inputs import Rows
from gossamer.results.provenance import HERE, machine, rooms, versions

STDLIB = {Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib")}

PLAIN = (bool, int, float, complex, str, bytes)
"""Values that their text tells."""

WRAPPERS = (property, staticmethod, classmethod, functools.cached_property)


class Unknown(Exception):
    """A value that has no cache key; the message says why."""


def describe_code(code: Iterable[Any], contents: Callable[[], str], problem: Any) -> dict[str, str]:
    """Return all that computes a run, besides the numbers that were asked for.

    Where there is no key, return the reason under "unknown": such a run must not be stored.

    Args:
        code: the rule, and what else the user's code may be in.
        contents: returns the digest of the problem, the network and the oracle.
        problem: the problem, which decides whether native kernels are used.
    """
    try:
        own, parts = digest(*code), contents()
    except Unknown as reason:
        return {"unknown": str(reason)}
    sparse = isinstance(getattr(problem, "inputs", None), Rows)
    return {
        **{f"gossamer.{room}": source for room, source in rooms().items()},
        "yours": own,
        "parts": parts,
        "kernels": native.kernels() if sparse else "xla",
        "jax": versions()["jax"],
        "jaxlib": versions()["jaxlib"],
        "device": str(machine()["device"]),
        "cpu": str(machine()["cpu"]),
    }


def digest(*values: Any) -> str:
    """Return a digest of values and of the code among them, the same in every process. Raise `Unknown` without one."""
    walk = _Walk()
    try:
        for value in values:
            walk.add(value)
    except RecursionError:
        raise Unknown("it is nested too deep to be followed") from None
    return walk.hash.hexdigest()


@functools.cache
def origin(module: str | None, file: str | None) -> str:
    """Return whose code a module is: "gossamer", a package with its version, or "" for the user's own."""
    top = (module or "").partition(".")[0]
    if file is None and top != "__main__":  # a part of an extension module has no file of its own
        file = getattr(sys.modules.get(top), "__file__", None)
    path = Path(file).resolve() if file else Path()
    if file and path.is_relative_to(HERE):
        return "gossamer"
    if top in sys.stdlib_module_names or any(path.is_relative_to(folder) for folder in STDLIB):
        return f"python {sys.version_info.major}.{sys.version_info.minor}"
    if {"site-packages", "dist-packages"}.isdisjoint(path.parts):
        return ""  # a namespace package, a prompt and a notebook have no file, either
    known = getattr(sys.modules.get(top), "__version__", None)
    if top and not isinstance(known, str):
        names = packages_distributions().get(top, [])  # takes a tenth of a second, so last
        known = " ".join(f"{name} {version(name)}" for name in sorted({*names}))
    return f"package {top} {known}"


class _Walk:
    """A walk over values, and over the source of the user's code among them, that makes one digest."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._met: dict[tuple[int, frozenset[str]], tuple[int, Any]] = {}

    def add(self, *values: Any, names: frozenset[str] = frozenset()) -> None:
        """Add values. Of a module that is the user's own, these names in it count, or all if there are none."""
        for value in values:
            if value is None or isinstance(value, PLAIN):
                self._note(type(value).__name__, repr(value))
            elif isinstance(value, (np.ndarray, np.generic, jax.Array)):
                if isinstance(value, Tracer):
                    raise Unknown("a value that JAX is tracing is no number yet")
                if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
                    self._note("key", str(value.dtype))
                    value = jax.random.key_data(value)
                array = np.asarray(value)
                self._note("array", repr(array.dtype), array.shape)
                self.add(*array.ravel().tolist()) if array.dtype.hasobject else self.hash.update(array.tobytes())
            elif isinstance(value, (list, tuple, dict, set, frozenset)):
                # never as met before: processes differ in whether equal containers are one object
                self._note(type(value).__name__, len(value))
                if type(value) not in (list, tuple, dict, set, frozenset):
                    self.add(type(value))
                if isinstance(value, dict):
                    self.add(*value.keys(), *value.values())
                elif isinstance(value, (set, frozenset)):
                    self._note(*sorted([digest(part) for part in value]))  # processes differ in the order of a set
                else:
                    self.add(*value)
            elif (mark := (id(value), names if isinstance(value, types.ModuleType) else frozenset())) in self._met:
                self._note("met", self._met[mark][0])  # so that circles end
            else:
                self._met[mark] = len(self._met), value  # with the value, or another could get its id
                if package := _find_by_name(value):
                    self._note("named", package, value.__module__, value.__qualname__)
                elif isinstance(value, types.FunctionType):
                    self._add_function(value)
                elif isinstance(value, type):
                    self._add_class(value)
                elif isinstance(value, types.ModuleType):
                    package = _origin_of(value)
                    self._note("module", package, value.__name__)
                    held = {} if package else {name: part for name, part in vars(value).items() if name[:2] != "__"}
                    for name in sorted(names & held.keys() if names else held):
                        self._note("in module", name)
                        self.add(held[name], names=names)
                else:
                    self._add_object(value)

    def _note(self, *words: Any) -> None:
        text = repr(words).encode("utf-8", "surrogatepass")
        self.hash.update(f"{len(text)}:".encode() + text)

    def _add_function(self, function: types.FunctionType) -> None:
        code, space = function.__code__, function.__globals__
        names = frozenset(name for inner in _inner(code) for name in inner.co_names)  # globals and attributes
        package = origin(space.get("__name__"), space.get("__file__"))
        self._note("function", package, space.get("__name__") if package else "", function.__qualname__)
        # functions of one name, such as lambdas, differ in their lines, and those of one line in their columns
        self._note("place", code.co_firstlineno, code.co_linetable.hex())
        self.add(function.__defaults__, function.__kwdefaults__)
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # an empty cell
                self.add(cell.cell_contents, names=names)
        if not package:
            self._note("source", _read_source(function))
            self.add(function.__dict__)
            for name in sorted(names & space.keys()):
                self._note("global", name)
                self.add(space[name], names=names)

    def _add_class(self, kind: type) -> None:
        package = _origin_of(kind)
        self._note("class", package, kind.__module__ if package else "", kind.__qualname__)
        if package:
            return
        self.add(type(kind), *kind.__bases__)
        has_fields = dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")
        for name, value in sorted(vars(kind).items()):
            # a dataclass or a named tuple generates methods of its fields, which have no source
            is_generated = has_fields and inspect.isfunction(value) and value.__code__.co_filename.startswith("<")
            if (name.startswith("__") and (is_generated or not callable(value))) or name == "_abc_impl":
                continue
            self._note("attribute", name)
            inner = ("fget", "fset", "fdel", "func", "__func__") if isinstance(value, WRAPPERS) else ()
            self.add(*([getattr(value, part, None) for part in inner] or [value]))

    def _add_object(self, value: Any) -> None:
        """Add an object by its class and its state, as pickle would take it apart."""
        self._note("object")
        self.add(type(value))
        if hasattr(value, "__wrapped__") and _origin_of(type(value)):
            # a function that a package wrapped: jax.jit, jax.custom_jvp, functools.cache and the like
            held = {**getattr(value, "__dict__", {}), "__wrapped__": value.__wrapped__}
            self.add(*((name, part) for name, part in sorted(held.items()) if callable(part)))
        elif dataclasses.is_dataclass(value):
            fields = dataclasses.fields(value)
            self._note(*[field.name for field in fields])
            self.add(*[getattr(value, field.name, None) for field in fields])
        else:
            try:
                state = value.__reduce_ex__(4)
            except Exception as error:
                raise Unknown(f"{repr(value)[:80]} has neither code nor a state to be known by ({error})") from None
            for part in (state,) if isinstance(state, str) else state:
                if isinstance(part, dict):  # what is computed lazily is no part of the state
                    held = {name: getattr(type(value), str(name), None) for name in part}
                    lazy = [name for name in part if isinstance(held[name], functools.cached_property)]
                    part = {name: own for name, own in part.items() if name not in lazy} or None
                self.add(*part) if isinstance(part, Iterator) else self.add(part)


def _origin_of(value: Any) -> str:
    """Return whose code a class or a module is."""
    module = value if isinstance(value, types.ModuleType) else sys.modules.get(value.__module__)
    return origin(getattr(module, "__name__", None), getattr(module, "__file__", None))


def _find_by_name(value: Any) -> str:
    """Return the package in which a function stands under its name: "" for a user's own, or one made while running."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(value, type) or not isinstance(module, str) or not isinstance(name, str):
        return ""
    holder = sys.modules.get(module)
    package = _origin_of(holder) if holder else ""
    for part in name.split(".") if package else ():
        holder = inspect.getattr_static(holder, part, None)
    return package if holder is value else ""


def _read_source(function: types.FunctionType) -> str:
    """Return the text of a function's file, or of its cell in a notebook. Raise `Unknown` if it is not what runs."""
    file, name = function.__code__.co_filename, function.__qualname__
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        text = "".join(linecache.getlines(file))
    if not text:
        raise Unknown(f"the source of the function {name} cannot be found: define it in a file")
    try:
        codes, lazy = _parse(text)
    except SyntaxError:
        raise Unknown(f"{file} is not Python any more: start again") from None
    if function.__code__ not in codes:  # the file was edited since it was imported
        raise Unknown(f"{file} is not what {name} was loaded from: start again")
    if own := next((module for module in lazy if _is_own_module(module)), None):
        raise Unknown(f"{file} imports {own} inside a function, where it cannot be followed: import it at the top")
    return text


@functools.lru_cache(maxsize=256)
def _parse(text: str) -> tuple[frozenset[types.CodeType], list[str]]:
    """Return the code of everything that a source defines, and the modules that its functions import."""
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    nodes = [node for function in functions for node in ast.walk(function)]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += ["." * node.level + (node.module or "") for node in nodes if isinstance(node, ast.ImportFrom)]
    return frozenset(_inner(compile(text, "", "exec", dont_inherit=True))), names


def _is_own_module(name: str) -> bool:
    """Return whether a module that a user's file imports is the user's own, without importing it."""
    top = name.partition(".")[0]
    if not top or top in sys.stdlib_module_names:
        return not top  # a relative import is of the user's own package
    with suppress(ImportError, ValueError):  # what a file may import need not be there
        found = importlib.util.find_spec(top)
        places = [found.origin, *(found.submodule_search_locations or [])] if found else []
        return any(place is not None and not origin(top, place) for place in places)
    return False


def _inner(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield code, and the code of everything that it defines."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _inner(constant)
