"""beartype, asked about arrays only: the rest is refused by the code itself, with messages that tests read."""

from collections.abc import Callable
from typing import Any, get_args

from beartype import beartype
from jaxtyping import AbstractArray


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose arguments and answer have the shapes and types of numbers that its annotations say."""
    function.__annotations__ = {
        name: kind if _of_arrays(kind) else Any for name, kind in function.__annotations__.items()
    }
    return beartype(function)


def _of_arrays(kind: Any) -> bool:
    if isinstance(kind, type) and issubclass(kind, AbstractArray):
        return True
    return any(_of_arrays(part) for part in get_args(kind))
