"""How a spec's tables become objects: their values are plain, and their keys and types those of a function."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, get_args

import pydantic

from gossamer.aggregators import AGGREGATORS
from gossamer.compressors import COMPRESSORS
from gossamer.core import InputError, brief, nearest
from gossamer.engines.blame import blamed

MADE_OF = {"compressor": COMPRESSORS, "aggregator": AGGREGATORS}
"""What the table of an algorithm or a stage may hold tables for, and by what each is made."""

DEEPEST = 20
"""How many lists and tables may stand inside each other."""

LARGEST_WHOLE = 2**63 - 1
"""The largest whole number that TOML promises to hold."""


def plain(value: Any, where: str = "", depth: int = 0) -> Any:
    """A copy of what TOML can say: text, numbers, true and false, lists and tables of them; anything else is refused.

    A key whose value is None is left out, as TOML has no such value.
    """
    if isinstance(value, (dict, list, tuple)) and depth == DEEPEST:
        raise InputError(f"key {where!r} nests more than {DEEPEST} lists and tables.")
    match value:
        case bool() | float():
            return value
        case int() if abs(value) <= LARGEST_WHOLE:
            return value
        case int():
            raise InputError(f"key {where!r} is {brief(value)}; a whole number has at most 64 bits.")
        case str():
            return _text(value, where)
        case list() | tuple():
            return [plain(inner, f"{where}.{k}", depth + 1) for k, inner in enumerate(value)]
        case dict():
            texts = {_key(key, where): inner for key, inner in value.items() if inner is not None}
            return {key: plain(inner, f"{where}.{key}" if where else key, depth + 1) for key, inner in texts.items()}
    raise InputError(
        f"key {where!r} is of the type {type(value).__name__}, but values are text in quotes, numbers, true, false, "
        "lists and tables."
    )


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise InputError(f"a key of {where or 'the spec'} is {brief(key)}, but keys are text.")
    return _text(key, where)


def _text(value: str, where: str) -> str:
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InputError(f"key {where!r} is {brief(value)}: text must be Unicode without zero bytes.")
    return value


def made(
    where: str, key: str, registry: Mapping[str, Callable[..., Any]], given: dict[str, Any], otherwise: str = ""
) -> Any:
    """What a registry makes of a table: its keys and types are those of the function that it names.

    `otherwise` is what to do if a key is missing, other than to give it.
    """
    options = dict(given)
    name = options.pop(key, None)
    with placed(where):
        if name is None:
            raise InputError(f"{key} is missing. Known: {', '.join(sorted(registry))}.")
        if not isinstance(name, str) or name not in registry:
            hint = nearest(name, registry, "bring the file that defines it by --with FILE")
            raise InputError(f"{key} = {brief(name)} is not known; {hint}")
        make = registry[name]
        parameters = _parameters(make)
        fields: dict[str, Any] = {
            option: (
                Any if value.annotation is inspect.Parameter.empty else value.annotation,
                ... if value.default is inspect.Parameter.empty else value.default,
            )
            for option, value in parameters.items()
        }
        model = pydantic.create_model(name, __config__=pydantic.ConfigDict(extra="forbid", strict=True), **fields)
        with explained(list(parameters), f"{name}: ", otherwise=otherwise):
            model.model_validate(options)
        with blamed(f"{name}"):
            return make(**options)


def with_parts(where: str, given: dict[str, Any]) -> dict[str, Any]:
    """The table with the compressor or the aggregator that it describes made, if it has one."""
    tables = {key: given[key] for key in MADE_OF if key in given}
    for key, table in tables.items():
        if not isinstance(table, dict):
            raise InputError(f'{where} {key} must be a table, {{ kind = "…" }}, but is {brief(table)}.')
    return given | {key: made(f"{where} {key}:", "kind", MADE_OF[key], table) for key, table in tables.items()}


def _parameters(make: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """What a function takes, with annotations that were written as text read where that can be done."""
    try:
        return inspect.signature(make, eval_str=True).parameters
    except Exception:  # an annotation may name what is not there when it runs
        plain_ones = inspect.signature(make).parameters
        return {
            name: parameter.replace(annotation=inspect.Parameter.empty)
            if isinstance(parameter.annotation, str)
            else parameter
            for name, parameter in plain_ones.items()
        }


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Say where bad input stood."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where} {error}") from error.__cause__


@contextmanager
def explained(
    known: list[str], where: str, model: type[pydantic.BaseModel] | None = None, otherwise: str = ""
) -> Iterator[None]:
    """Turn pydantic's errors into ours: which key, what is wrong, what is allowed; `model` knows the keys inside."""
    try:
        yield
    except pydantic.ValidationError as error:
        # an unknown key first: it is often why another is missing
        problems = error.errors(include_url=False)
        first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
        path = ".".join(str(step) for step in first["loc"]) or "(top)"
        known = _inner(model, first["loc"]) or known
        if first["type"] == "extra_forbidden":
            message = f"key {path!r} is not known; {nearest(str(first['loc'][-1]), known)}"
        elif first["type"] == "missing":
            way = f"; give it, or {otherwise}" if otherwise else ""
            message = f"key {path!r} is missing{way}. Known: {', '.join(known)}."
        else:
            wrong = first["msg"].removeprefix("Value error, ")
            message = f"key {path!r} is {brief(first['input'])}: {wrong[0].lower()}{wrong[1:]}."
        raise InputError(where + message) from None


def _inner(model: Any, path: tuple[Any, ...]) -> list[str]:
    """The keys of the section that a path leads into."""
    for step in path[:-1]:
        if isinstance(step, str):
            field = getattr(model, "model_fields", {}).get(step)
            model = (
                next((kind for kind in _kinds(field.annotation) if hasattr(kind, "model_fields")), None)
                if field
                else None
            )
    return list(getattr(model, "model_fields", {}))


def _kinds(annotation: Any) -> Iterator[Any]:
    """A type and those inside it: of ``list[VariantSection]`` also the section."""
    yield annotation
    for inner in get_args(annotation):
        yield from _kinds(inner)
