"""The one decorator that makes a class a pytree, and the refusal of classes that JAX takes for one another.

Under ``jax.tree_util.register_dataclass`` (jaxlib 0.10.2 and 0.12.0.1) the structures of two classes are equal wherever
these have equally many leaves and equal static values: `==` does not look at the class. JAX finds compiled programs by
a few bits of the hash and then by `==`, so that now and then it runs the program of another class. Pytrees that are
registered with functions of their own are compared with their class, so that is how `pytree` registers.

A class may be made before JAX is imported. It is registered with the first class that is made after JAX is imported,
and at the latest when the simulator is imported.
"""

import dataclasses
import sys
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from gossamer.core import InputError

T = TypeVar("T", bound=type)


class Fields(NamedTuple):
    """The names of a pytree's fields."""

    leaves: list[str]
    static: list[str]


_fields: dict[type, Fields] = {}
"""The fields of every class that `pytree` made one."""

_pending: list[type] = []
"""Classes that JAX does not know yet."""

_safe: set[type] = set()
"""Classes of parts that `refuse_mistakable` has found to be safe."""


def pytree(cls: T, leaves: Iterable[str] | None = None) -> T:
    """Make a dataclass a JAX pytree: put ``@gossamer.pytree`` above ``@dataclass(frozen=True)``.

    Its fields are arguments of compiled programs; those marked ``field(metadata={"static": True})`` are part of the
    program instead, and must be hashable. Use it in place of ``jax.tree_util.register_dataclass``, under which JAX may
    run the program of another class. When JAX rebuilds an object, with tracers for numbers, no ``__init__`` and no
    ``__post_init__`` runs.

    Args:
        cls: the dataclass.
        leaves: the fields that are arguments, if not those that are unmarked; all others are then static.
    """
    kind: Any = cls
    if not dataclasses.is_dataclass(kind):
        raise InputError(f"gossamer.pytree takes a dataclass: put @dataclass(frozen=True) under it, on {cls.__name__}.")
    if cls in _fields:
        raise InputError(f"{cls.__name__} is a pytree already: put @gossamer.pytree above it once.")
    fields = dataclasses.fields(kind)
    unmarked = [field.name for field in fields if not field.metadata.get("static", False)]
    data = unmarked if leaves is None else list(leaves)
    _fields[cls] = Fields(data, [field.name for field in fields if field.name not in data])
    _pending.append(cls)
    if "jax" in sys.modules:
        register_pending()
    return cls


def register_pending() -> None:
    """Make all classes known to JAX that were made before JAX was imported."""
    while _pending:
        _register(_pending.pop())


def flatten(part: Any) -> tuple[list[Any], Any]:
    """Return the leaves of a part and its static values, as `jax.tree.flatten` does, but without JAX."""
    if type(part) in _fields:
        leaves, static = _fields[type(part)]
        children = [getattr(part, name) for name in leaves]
        values = type(part).__qualname__, *(getattr(part, name) for name in static)
    elif isinstance(part, (tuple, list)):
        children, values = part, (type(part).__qualname__,)
    else:
        return [part], None
    flat = [flatten(child) for child in children]
    return [leaf for leaves, _ in flat for leaf in leaves], (*values, *(structure for _, structure in flat))


def _register(cls: Any) -> None:
    import jax  # known to be imported by now, or about to be used

    data, static = _fields[cls]
    keys = [jax.tree_util.GetAttrKey(name) for name in data]

    def flatten(instance: Any) -> tuple[list[Any], tuple[Any, ...]]:
        value = partial(getattr, instance)  # `map` calls no Python: this runs thousands of times a run
        return list(map(value, data)), tuple(map(value, static))

    def flatten_with_keys(instance: Any) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        value = partial(getattr, instance)
        return list(zip(keys, map(value, data), strict=True)), tuple(map(value, static))

    def unflatten(fixed: tuple[Any, ...], values: Iterable[Any]) -> Any:
        instance = object.__new__(cls)
        for name, value in zip(data, values, strict=True):
            object.__setattr__(instance, name, value)
        for name, value in zip(static, fixed, strict=True):
            object.__setattr__(instance, name, value)
        return instance

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    _safe.add(cls)


def refuse_mistakable(*parts: Any) -> None:
    """Raise InputError for parts of a class that JAX does not know, or cannot tell from another of its shape.

    A class is examined when it is first met.
    """
    import jax

    pending = list(parts)
    while pending:
        part = pending.pop()
        if type(part) not in _safe:
            _examine(part)
            _safe.add(type(part))
        node = jax.tree_util.default_registry.flatten_one_level(part)
        pending += () if node is None else node[0]


def _examine(part: Any) -> None:
    """Raise InputError if JAX does not know the class of this part, or cannot tell it from another of its shape."""
    import jax

    children, tree = jax.tree.flatten(part, is_leaf=lambda inner: inner is not part)
    node, name = tree.node_data(), type(part).__qualname__
    if node is None and dataclasses.is_dataclass(part):
        raise InputError(f"{name} is a dataclass that JAX does not know: put @gossamer.pytree above {name}.")
    if node is None or not isinstance(node[1], tuple):
        return
    # a twin: another class under JAX's own decorator, with as many leaves and the same static values
    data, static = [f"leaf{k}" for k in range(len(children))], [f"static{k}" for k in range(len(node[1]))]
    twin: Any = dataclasses.make_dataclass("Twin", data + static)
    jax.tree_util.register_dataclass(twin, data_fields=data, meta_fields=static)
    if tree == jax.tree.structure(twin(*range(len(children)), *node[1])):
        raise InputError(
            f"{name} is registered with jax.tree_util.register_dataclass, and JAX {jax.__version__} takes such a class "
            "for any other with as many fields and equal static values: it might run the compiled program of the "
            f"other. Put @gossamer.pytree above {name} instead."
        )
