"""One line about a value, whatever it holds: numbers as they are, arrays by their shape."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

LONGEST = 60
"""Letters of a value's text, before it is cut."""


def short(value: Any) -> str:
    """A value in one line, without the numbers of an array."""
    if getattr(value, "ndim", 0):
        return f"array{list(value.shape)}"
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.item()
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    line = " ".join((str(value) if type(value).__str__ is not object.__str__ else repr(value)).split())
    line = repr(value) if isinstance(value, str) else line
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def called(name: str, given: Mapping[str, Any]) -> str:
    """The call that would make it, with what is None left out: ``top_k(share=0.1)``."""
    return f"{name}({', '.join(f'{key}={short(value)}' for key, value in given.items() if value is not None)})"


def fields_of(made: Any, *but: str) -> dict[str, Any]:
    """The fields of a dataclass, without those named; none of what is no dataclass."""
    fields = dataclasses.fields(made) if dataclasses.is_dataclass(made) else ()
    return {field.name: getattr(made, field.name) for field in fields if field.name not in but}


def counted(number: int, what: str) -> str:
    """A number of things: ``1 seed``, ``3 seeds``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def some(names: Any, most: int = 4) -> str:
    """The first few names of many, and how many there are besides."""
    names = [str(name) for name in names]
    shown = names if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} more"]
    return ", ".join(shown)
