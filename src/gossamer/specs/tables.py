"""Tables of a spec: plain values, checked against the signature of the function that they name."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar, get_args

import pydantic

from gossamer.core import InputError, brief, nearest
from gossamer.engines.blame import blame

DEEPEST = 20
"""The most lists and tables inside each other."""

LARGEST_WHOLE = 2**63 - 1
"""The largest whole number that TOML promises to hold."""

M = TypeVar("M", bound=pydantic.BaseModel)


def plain(value: Any, where: str = "", depth: int = 0) -> Any:
    """Return a copy of what TOML can say: text, numbers, true and false, and lists and tables of them.

    A key whose value is None is left out, since TOML has no such value. Anything else raises InputError.
    """
    match value:
        case bool() | float():
            return value
        case int() if abs(value) <= LARGEST_WHOLE:
            return value
        case int():
            raise InputError(f"key {where!r} is {brief(value)}; a whole number has at most 64 bits.")
        case str() if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
            raise InputError(f"key {where!r} is {brief(value)}: text must be Unicode without zero bytes.")
        case str():
            return value
        case list() | tuple() | dict() if depth == DEEPEST:
            raise InputError(f"key {where!r} nests more than {DEEPEST} lists and tables.")
        case list() | tuple():
            return [plain(inner, f"{where}.{k}", depth + 1) for k, inner in enumerate(value)]
        case dict():
            odd = next((key for key in value if not isinstance(key, str)), None)
            if odd is not None:
                raise InputError(f"a key of {where or 'the spec'} is {brief(odd)}, but keys are text.")
            inside = f"{where}." if where else ""
            return {
                plain(key, where): plain(inner, inside + key, depth + 1)
                for key, inner in value.items()
                if inner is not None
            }
    raise InputError(
        f"key {where!r} is of the type {type(value).__name__}, but values are text in quotes, numbers, true, false, "
        "lists and tables."
    )


def validate(model: type[M], given: Mapping[str, Any], where: str = "", otherwise: str = "") -> M:
    """Return the model of a table. An InputError names the first wrong key, what is wrong, and what is allowed.

    `otherwise` is the advice for a missing key, other than to give it.
    """
    try:
        return model.model_validate(given)
    except pydantic.ValidationError as error:
        # an unknown key first: it is often the reason why another is missing
        problems = error.errors(include_url=False)
        first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
        path = ".".join(str(step) for step in first["loc"]) or "(top)"
        known = _keys_inside(model, first["loc"]) or list(model.model_fields)
        if first["type"] == "extra_forbidden":
            message = f"key {path!r} is not known; {nearest(str(first['loc'][-1]), known)}"
        elif first["type"] == "missing":
            way = f"; give it, or {otherwise}" if otherwise else ""
            message = f"key {path!r} is missing{way}. Known: {', '.join(known)}."
        else:
            wrong = first["msg"].removeprefix("Value error, ")
            message = f"key {path!r} is {brief(first['input'])}: {wrong[0].lower()}{wrong[1:]}."
        raise InputError(where + message) from None


def build_object(
    where: str, key: str, registry: Mapping[str, Callable[..., Any]], given: dict[str, Any], otherwise: str = ""
) -> Any:
    """Return the object of a table: `key` names a function of the registry, the other keys are its arguments."""
    options = dict(given)
    name = options.pop(key, None)
    with located(where):
        if name is None:
            raise InputError(f"{key} is missing. Known: {', '.join(sorted(registry))}.")
        if not isinstance(name, str) or name not in registry:
            hint = nearest(name, registry, "bring the file that defines it by --with FILE")
            raise InputError(f"{key} = {brief(name)} is not known; {hint}")
        make = registry[name]
        validate(_schema(make), options, f"{name}: ", otherwise)
        with blame(f"{name}"):
            return make(**options)


def build_parts(where: str, given: dict[str, Any], registries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table with the tables of its parts, such as a compressor, built."""
    built = {}
    for key in registries.keys() & given.keys():
        if not isinstance(given[key], dict):
            raise InputError(f'{where} {key} must be a table, {{ kind = "…" }}, but is {brief(given[key])}.')
        built[key] = build_object(f"{where} {key}:", "kind", registries[key], given[key])
    return given | built


@contextmanager
def located(where: str) -> Iterator[None]:
    """Put the place of bad input in front of its error."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where} {error}") from error.__cause__


@lru_cache(maxsize=256)
def _schema(make: Callable[..., Any]) -> type[pydantic.BaseModel]:
    """Return the schema of a function's arguments."""
    try:
        parameters = inspect.signature(make, eval_str=True).parameters.values()
    except Exception:  # an annotation in quotes may name what cannot be imported: the type is then not checked
        parameters = inspect.signature(make).parameters.values()
    fields: dict[str, Any] = {}
    for parameter in parameters:
        empty, kind = inspect.Parameter.empty, parameter.annotation
        default = ... if parameter.default is empty else parameter.default
        fields[parameter.name] = Any if kind is empty or isinstance(kind, str) else kind, default
    config = pydantic.ConfigDict(extra="forbid", strict=True)
    return pydantic.create_model(getattr(make, "__name__", "table"), __config__=config, **fields)


def _keys_inside(model: Any, path: tuple[Any, ...]) -> list[str]:
    """Return the keys of the section that a path leads into."""

    def kinds(annotation: Any) -> Iterator[Any]:  # of list[VariantSection] also the section
        yield annotation
        for inner in get_args(annotation):
            yield from kinds(inner)

    for step in path[:-1]:
        if isinstance(step, str):
            field = getattr(model, "model_fields", {}).get(step)
            inner = kinds(field.annotation) if field else ()
            model = next((kind for kind in inner if hasattr(kind, "model_fields")), None)
    return list(getattr(model, "model_fields", {}))
