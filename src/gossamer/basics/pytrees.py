"""The one decorator that makes a class a pytree, and the refusal of classes that JAX takes for one another.

Under ``jax.tree_util.register_dataclass`` (jaxlib 0.10.2) the structures of two classes are equal wherever these have
equally many leaves and equal static values: `==` does not look at the class. JAX finds compiled programs by a few bits
of the hash and then by `==`, so that now and then it runs the program of another class. Pytrees that are registered
with functions of their own are compared with their class, so that is how `pytree` registers.

A class may be made before JAX is imported; it is registered when this package first uses JAX.
"""

import dataclasses
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from gossamer.basics.lazy_jax import call_with_jax, jax
from gossamer.core import InputError

T = TypeVar("T", bound=type)


class Fields(NamedTuple):
    """The names of a pytree's fields."""

    leaves: list[str]
    static: list[str]


_fields: dict[type, Fields] = {}
"""The fields of every class that `pytree` made one."""

_told_apart: dict[type, bool] = {}
"""Of every class that was registered or met: whether JAX tells it from others of its shape."""


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
    fields = dataclasses.fields(kind)
    if leaves is None:
        data = [field.name for field in fields if not field.metadata.get("static", False)]
    else:
        data = list(leaves)
        for name in data:
            if name not in [field.name for field in fields]:
                raise InputError(f"gossamer.pytree: {cls.__name__} has no field {name!r} that could be a leaf.")
    if cls in _fields:
        raise InputError(f"{cls.__name__} is a pytree already: put @gossamer.pytree above it once.")
    _fields[cls] = Fields(data, [field.name for field in fields if field.name not in data])
    call_with_jax(lambda: _register(cls))
    return cls


def taken_apart(part: Any) -> tuple[list[Any], Any]:
    """The leaves of a part, and all that is static in it: as `jax.tree.flatten`, but without JAX."""
    if type(part) in _fields:
        names, static = _fields[type(part)]
        children = [getattr(part, name) for name in names]
        told = type(part).__qualname__, *(getattr(part, name) for name in static)
    elif isinstance(part, (tuple, list)):
        children, told = part, (type(part).__qualname__,)
    else:
        return [part], None
    apart = [taken_apart(child) for child in children]
    return [leaf for leaves, _ in apart for leaf in leaves], (*told, *(structure for _, structure in apart))


def _register(cls: Any) -> None:
    data, static = _fields[cls]
    keys = [jax.tree_util.GetAttrKey(name) for name in data]

    def flatten(instance: Any) -> tuple[list[Any], tuple[Any, ...]]:
        value = partial(getattr, instance)  # `map` calls no Python: this runs thousands of times a run
        return list(map(value, data)), tuple(map(value, static))

    def flatten_with_keys(instance: Any) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        values, fixed = flatten(instance)
        return list(zip(keys, values, strict=True)), fixed

    def unflatten(fixed: tuple[Any, ...], values: Iterable[Any]) -> Any:
        instance = object.__new__(cls)
        for name, value in zip(data, values, strict=True):
            object.__setattr__(instance, name, value)
        for name, value in zip(static, fixed, strict=True):
            object.__setattr__(instance, name, value)
        return instance

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    _told_apart[cls] = True


def refuse_mistakable(*parts: Any) -> None:
    """Refuse parts of a class that JAX does not know, or cannot tell from another of its shape."""
    pending = list(parts)
    while pending:
        part = pending.pop()
        children, tree = jax.tree.flatten(part, is_leaf=lambda inner, part=part: inner is not part)
        node = tree.node_data()
        if node is None:
            if dataclasses.is_dataclass(part):
                name = type(part).__qualname__
                raise InputError(f"{name} is a dataclass that JAX does not know: put @gossamer.pytree above {name}.")
            continue
        kind, fixed = node
        if kind not in _told_apart:
            _told_apart[kind] = not isinstance(fixed, tuple) or tree != _twin(len(children), fixed)
        if not _told_apart[kind]:
            raise InputError(
                f"{kind.__qualname__} is registered with jax.tree_util.register_dataclass, and JAX {jax.__version__} "
                "takes such a class for any other with as many fields and equal static values: it might run the "
                f"compiled program of the other. Put @gossamer.pytree above {kind.__qualname__} instead."
            )
        pending += children


def _twin(leaves: int, fixed: tuple[Any, ...]) -> Any:
    """The structure of another class, by JAX's own decorator, with this many leaves and these static values."""
    data, static = [f"leaf{k}" for k in range(leaves)], [f"static{k}" for k in range(len(fixed))]
    twin = dataclasses.make_dataclass("Twin", data + static)
    jax.tree_util.register_dataclass(twin, data_fields=data, meta_fields=static)
    return jax.tree.structure(twin(*range(leaves), *fixed))
