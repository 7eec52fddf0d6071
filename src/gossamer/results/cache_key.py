"""Cache keys: digests of values and of the code among them, so that a stored number is never taken for another's.

- Gossamer is known by the source of its rooms as it was imported, other packages by their versions.
- A user's function or class is known by the source of its file and of the user's files that this one imports, by the
  values that the function closes over, has as defaults or finds in globals that it names, and by the attributes and
  bases of the class.
- Everything else is known by its class and the values that it holds.

Where source cannot be had, or is no longer what runs, there is no key, and nothing is stored.
"""

import ast
import dataclasses
import functools
import hashlib
import importlib.util
import inspect
import linecache
import site
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from gossamer.problems import native
from gossamer.problems.inputs import Rows
from gossamer.results.provenance import HERE, machine, rooms, versions

INSTALLED = {
    Path(folder).resolve()
    for folder in (
        *(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    )
}
"""The directories of installed code."""

PLAIN = (bool, int, float, complex, str, bytes, types.NoneType, types.EllipsisType, types.NotImplementedType)

DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)


class Unknown(Exception):
    """A value that has no cache key; the message says why."""


def made_by(code: Iterable[Any], contents: Callable[[], str], problem: Any) -> dict[str, str]:
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
    if file is None:
        if top in sys.stdlib_module_names or top in sys.builtin_module_names:
            return _version(top)
        above = getattr(sys.modules.get(top), "__file__", None) if top not in ("", "__main__") else None
        return origin(top, above) if above else ""
    path = Path(file).resolve()
    if path.is_relative_to(HERE):
        return "gossamer"
    return _version(top) if any(path.is_relative_to(folder) for folder in INSTALLED) else ""


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


class _Walk:
    """A walk over values, and over the source of the user's code among them, that makes one digest.

    A function, class, module or object that was met before is noted by its number, so that circles end. Plain
    containers are not: processes differ in whether equal containers are one object.
    """

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._met: dict[Any, int] = {}
        self._alive: list[Any] = []
        self._containers: list[int] = []

    def add(self, value: Any) -> None:
        """Add a value."""
        if isinstance(value, PLAIN):
            self._note(type(value).__name__, repr(value))
        elif isinstance(value, (np.ndarray, np.generic, jax.Array)):
            self._array(value)
        elif isinstance(value, (list, tuple, dict, set, frozenset)):
            self._container(value)
        elif not self._is_known(id(value), value):
            if package := _package_of(value):
                self._note("named", package, value.__module__, value.__qualname__)
            elif isinstance(value, types.FunctionType):
                self._function(value)
            elif isinstance(value, type):
                self._class(value)
            elif isinstance(value, types.ModuleType):
                self._module(value, ())
            else:
                self._object(value)

    def _all(self, *values: Any) -> None:
        for value in values:
            self.add(value)

    def _note(self, *words: Any) -> None:
        text = repr(words).encode("utf-8", "surrogatepass")
        self.hash.update(f"{len(text)}:".encode() + text)

    def _is_known(self, mark: Any, value: Any) -> bool:
        """Note the number of what was met before, or remember it."""
        if mark in self._met:
            self._note("met", self._met[mark])
            return True
        self._met[mark] = len(self._met)
        self._alive.append(value)  # or another object could get its id
        return False

    def _array(self, value: Any) -> None:
        if isinstance(value, Tracer):
            raise Unknown("a value that JAX is tracing is no number yet")
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            self._note("key", str(value.dtype))
            value = jax.random.key_data(value)
        array = np.asarray(value)
        self._note("array", repr(array.dtype), array.shape)
        if array.dtype.hasobject:
            self._all(*array.ravel().tolist())
        else:
            self.hash.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def _container(self, value: Any) -> None:
        if id(value) in self._containers:
            self._note("circle", self._containers[::-1].index(id(value)))
            return
        self._containers.append(id(value))
        self._note(type(value).__name__, len(value))
        if type(value) not in (list, tuple, dict, set, frozenset):
            self.add(type(value))
        if isinstance(value, dict):
            self._all(*(part for pair in value.items() for part in pair))
        elif isinstance(value, (set, frozenset)):
            self._note(*sorted(digest(part) for part in value))
        else:
            self._all(*value)
        self._containers.pop()

    def _function(self, function: types.FunctionType) -> None:
        code, space = function.__code__, function.__globals__
        package = origin(space.get("__name__"), space.get("__file__"))
        self._note("function", package, space.get("__name__") if package else "", function.__qualname__)
        # functions of one name, such as lambdas, differ in their lines, and those of one line in their columns
        self._note("place", code.co_firstlineno, code.co_linetable.hex())
        cells = (_contents(cell) for cell in function.__closure__ or ())
        self._all(function.__defaults__, function.__kwdefaults__, *cells)
        if package:
            return
        self.add(function.__dict__)
        package = space.get("__package__") or ""
        imports, names = self._source(code.co_filename, package, function), sorted(_names(code))
        for name in names:
            if name in space:
                value = space[name]
            elif whole := next((one for one in (name, f"{package}.{name}") if one in imports), None):
                try:  # a module that the function will import while it runs: its values count, as those of globals
                    value = importlib.import_module(whole)
                except Exception as error:
                    raise Unknown(f"{function.__qualname__} imports {whole}, which fails ({error})") from None
            else:
                continue
            self._note("global", name)
            self._module(value, names) if isinstance(value, types.ModuleType) else self.add(value)

    def _class(self, kind: type) -> None:
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        package = origin(kind.__module__, file)
        self._note("class", package, kind.__module__ if package else "", kind.__qualname__)
        if package not in ("", "gossamer"):
            return
        self._all(*kind.__bases__)
        if package == "":
            self.add(type(kind))
            if file is not None:
                self._source(file, kind.__module__.rpartition(".")[0])
        for name, value in sorted(vars(kind).items()):
            functions = [part for part in _unwrap(value) if isinstance(part, types.FunctionType)]
            if package == "gossamer":  # known by its source, but for methods that were replaced
                functions = [one for one in functions if not _origin_of(one)]
            if functions:
                self._note("method", name, type(value).__name__)
                self._all(*(one for one in functions if not _is_generated(kind, name, one)))
            elif package == "" and name != "_abc_impl" and (not name.startswith("__") or callable(value)):
                self._note("attribute", name)
                self.add(value)

    def _module(self, module: types.ModuleType, names: Iterable[str]) -> None:
        """Add a module: of a user's own its source, and the values of those names in it."""
        file = getattr(module, "__file__", None)
        package = origin(module.__name__, file)
        self._note("module", package, module.__name__)
        if package == "" and not self._is_known((id(module), tuple(names)), module):
            if file is not None:
                self._source(file, module.__package__ or "")
            for name in names:
                if name in vars(module):
                    value = vars(module)[name]
                    self._note("in module", name)
                    self._module(value, names) if isinstance(value, types.ModuleType) else self.add(value)

    def _source(self, file: str, package: str, function: types.FunctionType | None = None) -> set[str]:
        """Add the source of a user's file, and of the user's files that it imports. Return the names of these."""
        text = _read_source(file)
        if text is None:
            what = file if function is None else f"the function {function.__qualname__}"
            raise Unknown(f"the source of {what} cannot be found: define it in a file")
        try:
            tree, codes = _parse(text)
        except SyntaxError:
            raise Unknown(f"{file} is not Python any more: start again") from None
        if function is not None:
            # the file may have been edited since it was imported, and then its text is not what runs
            if function.__code__ not in codes:
                raise Unknown(f"{file} is not what {function.__qualname__} was loaded from: start again")
            if sum(_place(code) == _place(function.__code__) for code in codes) > 1:  # where Python notes no columns
                raise Unknown(f"{function.__qualname__} stands on one line with another: write each on its own")
        own = {name: path for name in {*_imports(tree, package)} if (path := _find_own(name)) is not None}
        if not self._is_known(("source", text), text):
            self._note("source", text)
            for name, path in sorted(own.items()):
                self._note("imports", name)
                self._source(str(path), name if path.name == "__init__.py" else name.rpartition(".")[0])
        return {*own}

    def _object(self, value: Any) -> None:
        """Add an object by its class and its state, as pickle would take it apart."""
        if isinstance(value, types.MethodType):
            return self._all("method", value.__func__, value.__self__)
        if isinstance(value, functools.partial):
            return self._all("partial", value.func, value.args, value.keywords)
        if isinstance(value, (staticmethod, classmethod, functools.cached_property, property)):
            return self._all(type(value).__name__, *_unwrap(value))
        if hasattr(value, "__wrapped__") and _origin_of(type(value)):
            # a function that a package wrapped: jax.jit, functools.cache and the like
            self._note("wrapped by", f"{type(value).__module__}.{type(value).__qualname__}")
            held = {**getattr(value, "__dict__", {}), "__wrapped__": value.__wrapped__}
            return self._all(*((name, own) for name, own in sorted(held.items()) if callable(own)))
        if inspect.isroutine(value) or isinstance(value, (np.ufunc, *DESCRIPTORS)):
            owner, named = getattr(value, "__self__", None), getattr(value, "__qualname__", value.__name__)
            where = getattr(value, "__module__", None) or getattr(value, "__objclass__", type(value)).__module__
            self._note("built in", origin(where, None), where, named)
            return None if owner is None or isinstance(owner, types.ModuleType) else self.add(owner)
        self._note("object")
        self.add(type(value))
        if dataclasses.is_dataclass(value):
            return self._all(*((field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)))
        try:
            state = value.__reduce_ex__(4)
        except Exception as error:
            raise Unknown(f"{repr(value)[:80]} has neither code nor a state to be known by ({error})") from None
        for part in (state,) if isinstance(state, str) else state:
            if isinstance(part, dict):  # what is computed lazily is no part of the state
                lazy = [name for name in part if _is_cached(type(value), name)]
                part = {name: own for name, own in part.items() if name not in lazy} or None
            self._all(*part) if isinstance(part, Iterator) else self.add(part)
        return None


def _package_of(value: Any) -> str:
    """Return the package in which a function is found by its name: "" for the user's own, or one made while running."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(value, type) or not isinstance(module, str) or not isinstance(name, str):
        return ""
    holder = sys.modules.get(module)
    package = origin(module, getattr(holder, "__file__", None)) if holder else ""
    for part in name.split(".") if package else ():
        holder = inspect.getattr_static(holder, part, None)
    return package if holder is value else ""


def _origin_of(value: Any) -> str:
    """Return whose code a function or a class is."""
    if isinstance(value, types.FunctionType):
        return origin(value.__globals__.get("__name__"), value.__globals__.get("__file__"))
    return origin(value.__module__, getattr(sys.modules.get(value.__module__), "__file__", None))


def _read_source(file: str) -> str | None:
    """Return the text of a file, or of a notebook's cell."""
    with suppress(OSError, UnicodeDecodeError):
        return Path(file).read_text(encoding="utf-8-sig")
    return "".join(linecache.getlines(file)) or None


@functools.lru_cache(maxsize=256)
def _parse(text: str) -> tuple[ast.Module, frozenset[types.CodeType]]:
    """Return the syntax tree of a source, and the code of everything that it defines."""

    def codes(code: types.CodeType) -> Iterator[types.CodeType]:
        yield code
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from codes(constant)

    return ast.parse(text), frozenset(codes(compile(text, "", "exec", dont_inherit=True)))


def _place(code: types.CodeType) -> tuple[str, int, bytes]:
    return code.co_name, code.co_firstlineno, code.co_linetable


def _imports(tree: ast.Module, package: str) -> Iterator[str]:
    """Yield the names that may be modules in the imports of a source, those in functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]  # each may be a module
        else:
            continue
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:k]) for k in range(1, len(parts) + 1) if parts[0])


def _names(code: types.CodeType) -> set[str]:
    """Return the names of globals, modules and attributes in code, and in functions that it defines."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return {*code.co_names}.union(*inner)


def _find_own(name: str) -> Path | None:
    """Return the file of a module, if it is one of the user's own, without importing it."""
    top, *inner = name.split(".")
    try:
        spec = getattr(sys.modules.get(top), "__spec__", None) or importlib.util.find_spec(top)
    except (ImportError, ValueError):  # what a file may import need not be there
        return None
    roots = [] if spec is None else [*(spec.submodule_search_locations or [])]
    start = Path(roots[0], "__init__.py") if roots else Path((spec and spec.origin) or "")
    if origin(top, str(start)) != "":
        return None
    bare = Path(start.parent, *inner) if inner else start.parent if roots else start.with_suffix("")
    return next((path for path in (bare.with_suffix(".py"), bare / "__init__.py") if path.is_file()), None)


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


def _unwrap(value: Any) -> tuple[Any, ...]:
    """Return the functions in a property, a static or class method, or the value itself."""
    if isinstance(value, property):
        return value.fget, value.fset, value.fdel
    if isinstance(value, functools.cached_property):
        return (value.func,)
    return (value.__func__,) if isinstance(value, (staticmethod, classmethod)) else (value,)


def _is_cached(kind: type, name: Any) -> bool:
    return isinstance(name, str) and isinstance(getattr(kind, name, None), functools.cached_property)


def _is_generated(kind: type, name: str, function: types.FunctionType) -> bool:
    """Return whether a dataclass or a named tuple made this method of its declaration, so that it has no source."""
    made = dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")
    return made and name.startswith("__") and function.__code__.co_filename.startswith("<")
