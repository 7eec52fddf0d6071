"""The walk over functions, classes and objects that makes their fingerprint."""

import builtins
import dataclasses
import functools
import hashlib
import inspect
import types
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from gossamer.results.fingerprint import origins
from gossamer.results.fingerprint.origins import Unknown, asked_for, home_of, importable, imported

PLAIN = (bool, int, float, complex, str, bytes, types.NoneType, types.EllipsisType, types.NotImplementedType)
WRAPPERS = (staticmethod, classmethod, functools.cached_property, property)
SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)

UNTOLD = {
    *("__module__", "__qualname__", "__dict__", "__weakref__", "__doc__", "__annotations__", "__annotate__"),
    *("__annotate_func__", "__annotations_cache__", "__static_attributes__", "__firstlineno__", "__slotnames__"),
    *("_abc_impl", "__abstractmethods__", "__dataclass_params__", "__match_args__", "__parameters__", "__orig_bases__"),
}
"""Names in a class that decide nothing: where it stands, what it says of itself, and what Python derives."""


class Walk:
    """One fingerprint in the making.

    Functions, classes and objects that were met before are told by their number, so that circles end. Not so plain
    containers and code: whether equal ones are the same object may differ from process to process.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._met: dict[Any, int] = {}
        self._alive: list[Any] = []
        self._open: list[int] = []

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def visit(self, value: Any, data: bool = True) -> None:
        """Add a value. With `data` false, what our own objects hold counts only where it is code."""
        if isinstance(value, PLAIN):
            if data:
                self._tell(type(value).__name__, repr(value))
        elif isinstance(value, (np.ndarray, np.generic, jax.Array)):
            if data:
                self._array(value)
        elif isinstance(value, (list, tuple, dict, set, frozenset)):
            self._container(value, data)
        elif isinstance(value, types.CodeType):
            self._code(value)
        elif not self._again((id(value), data), value):
            self._enter(value, data)

    def _container(self, value: Any, data: bool) -> None:
        if id(value) in self._open:
            self._tell("circle", self._open[::-1].index(id(value)))
            return
        self._open.append(id(value))
        self._tell(type(value).__name__, len(value))
        if type(value) not in (list, tuple, dict, set, frozenset):
            self.visit(type(value), data)
        if isinstance(value, dict):
            self._all((part for pair in value.items() for part in pair), data)
        elif isinstance(value, (set, frozenset)):
            self._tell(*sorted(_alone(part) for part in value))
        else:
            self._all(value, data)
        self._open.pop()

    def _enter(self, value: Any, data: bool) -> None:
        if home := importable(value):
            self._tell("named", home, value.__module__, value.__qualname__)
        elif isinstance(value, types.FunctionType):
            self._function(value, data)
        elif isinstance(value, type):
            self._class(value, data)
        elif isinstance(value, types.ModuleType):
            self._module(value, ())
        elif isinstance(value, types.MethodType):
            self._tell("method")
            self._all((value.__func__, value.__self__), data)
        elif isinstance(value, functools.partial):
            self._tell("partial")
            self._all((value.func, value.args, value.keywords), data)
        elif isinstance(value, WRAPPERS):
            self._tell(_named(type(value)))
            self._all(_unwrapped(value), data)
        elif hasattr(value, "__wrapped__") and home_of(type(value)):
            self._wrapped(value, data)
        elif inspect.isroutine(value) or isinstance(value, (np.ufunc, *SLOTS)):
            self._builtin(value, data)
        else:
            self._object(value, data)

    def _wrapped(self, value: Any, data: bool) -> None:
        """A function that a package wrapped: jax.jit, functools.cache and the like."""
        self._tell("wrapped by", _named(type(value)))
        for name, own in sorted({**getattr(value, "__dict__", {}), "__wrapped__": value.__wrapped__}.items()):
            if callable(own):  # the rest says where it stands
                self._tell("holds", name)
                self.visit(own, data)

    def _function(self, function: types.FunctionType, data: bool) -> None:
        """A function: our own by its name, for our files are known; a package's by name and version."""
        home = home_of(function)
        if home != "":
            self._tell("function", home, function.__globals__.get("__name__"), function.__qualname__)
            self._all((function.__defaults__, function.__kwdefaults__, *_cells(function)), data)
            return
        self._tell("own function")
        self._all((function.__code__, function.__defaults__, function.__kwdefaults__, *_cells(function)))
        self._all(function.__dict__)
        self._globals(function)

    def _globals(self, function: types.FunctionType) -> None:
        asked = sorted(set(asked_for(function.__code__)))
        attributes = [name for kind, name in asked if kind == "any"]
        for kind, name in asked:
            if kind == "import":
                self._tell("import", name)
                self._module(imported(name, function), attributes)
            elif kind == "global" and name in function.__globals__:
                value = function.__globals__[name]
                self._tell("global", name)
                self._module(value, attributes) if isinstance(value, types.ModuleType) else self.visit(value)
            elif kind == "global":
                self._tell("built in" if hasattr(builtins, name) else "missing", name)

    def _code(self, code: types.CodeType) -> None:
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
        names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        self._tell("code", code.co_code.hex(), code.co_exceptiontable.hex(), *counts, *names)
        self._all(code.co_consts)

    def _class(self, kind: type, data: bool) -> None:
        home = home_of(kind)
        self._tell("class", home, kind.__module__ if home else "", kind.__qualname__)
        if home == "gossamer":  # known by its file, but for what was put in its place since
            for name, value in sorted(vars(kind).items()):
                for function in _unwrapped(value):
                    if isinstance(function, types.FunctionType) and not home_of(function):
                        self._tell("replaced", name)
                        self.visit(function)
            self._all(kind.__bases__, data)
        elif home == "":
            self._all(kind.__bases__)
            self.visit(type(kind))
            told = {name: value for name, value in vars(kind).items() if name not in UNTOLD}
            for name, value in sorted(told.items()):
                if name == "__dataclass_fields__":
                    value = [
                        (field.name, field.default, field.default_factory, dict(field.metadata))
                        for field in value.values()
                    ]
                self._tell("attribute", name)
                self.visit(value)

    def _module(self, module: types.ModuleType, names: Iterable[str]) -> None:
        """A module: a package's by its version; of a user's own, what the code that uses it names."""
        home = origins.home(module.__name__, getattr(module, "__file__", None))
        self._tell("module", home, module.__name__)
        if home == "" and not self._again((id(module), tuple(names)), module):
            for name in names:
                if name in vars(module):
                    value = vars(module)[name]
                    self._tell("in module", name)
                    self._module(value, names) if isinstance(value, types.ModuleType) else self.visit(value)

    def _builtin(self, value: Any, data: bool) -> None:
        owner = getattr(value, "__self__", None)
        where = (
            value.__module__ if hasattr(value, "__module__") else _named(getattr(value, "__objclass__", type(value)))
        )
        self._tell("built in", origins.home(where, None) or "", where, getattr(value, "__qualname__", value.__name__))
        if owner is not None and not isinstance(owner, types.ModuleType):
            self.visit(owner, data)

    def _array(self, value: Any) -> None:
        if isinstance(value, Tracer):
            raise Unknown("a value that JAX is tracing is no number yet")
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            self._tell("key", str(value.dtype))
            value = jax.random.key_data(value)
        array = np.asarray(value)
        self._tell("array", repr(array.dtype), array.shape)
        if array.dtype.hasobject:
            self._all(array.ravel().tolist())
        else:
            self._hash.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def _object(self, value: Any, data: bool) -> None:
        """An object by its class and its state, as pickle would take it apart."""
        kind = type(value)
        ours = home_of(kind) == "gossamer"
        if not data and not ours and home_of(kind) and not callable(value):
            return  # data of another package in an object of ours
        self._tell("object")
        self.visit(kind, data)
        data = data or not ours
        if dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                self._tell("field", field.name)
                self.visit(getattr(value, field.name, None), data)
            return
        try:
            state = value.__reduce_ex__(4)
        except Exception as error:
            raise Unknown(f"{repr(value)[:80]} has neither code nor a state to be known by ({error})") from None
        if isinstance(state, str):
            self._tell("named", state)
            return
        for part in state:
            if isinstance(part, dict):
                part = {name: own for name, own in part.items() if not _is_cached(kind, name)} or None
            self._all(part, data) if isinstance(part, Iterator) else self.visit(part, data)

    def _again(self, mark: Any, value: Any) -> bool:
        if mark in self._met:
            self._tell("met", self._met[mark])
            return True
        self._met[mark] = len(self._met)
        self._alive.append(value)  # or another object could get its id
        return False

    def _all(self, values: Iterable[Any], data: bool = True) -> None:
        for value in values:
            self.visit(value, data)

    def _tell(self, *words: Any) -> None:
        text = repr(words).encode("utf-8", "surrogatepass")
        self._hash.update(f"{len(text)}:".encode() + text)


def _alone(value: Any) -> str:
    walk = Walk()
    walk.visit(value)
    return walk.hexdigest()


def _named(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _unwrapped(value: Any) -> tuple[Any, ...]:
    if isinstance(value, property):
        return value.fget, value.fset, value.fdel
    if isinstance(value, functools.cached_property):
        return (value.func,)
    return (value.__func__,) if isinstance(value, (staticmethod, classmethod)) else (value,)


def _cells(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            yield "empty"


def _is_cached(kind: type, name: Any) -> bool:
    return isinstance(name, str) and isinstance(getattr(kind, name, None), functools.cached_property)
