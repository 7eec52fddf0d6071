"""Tables of small cases: one test goes through all rows and reports all that fail."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def table(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test once for every row, as `pytest.mark.parametrize` does, but as one test.

    A parametrized case costs more than a refusal takes, and nobody reads a list of a thousand. The test fails with the
    errors of all rows that fail, each with its row as a note. All rows share the fixtures, so they must leave no trace
    in them.
    """
    keys = (names,) if isinstance(names, str) else names
    values = [(row,) if isinstance(names, str) else tuple(row) for row in rows]
    assert values, "a table without rows tests nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def whole(**fixtures: Any) -> None:
            errors: list[BaseException] = []
            for row in values:
                given = dict(zip(keys, row, strict=True))
                try:
                    test(**fixtures, **given)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note("row: " + ", ".join(f"{key} = {value!r}" for key, value in given.items()))
                    errors.append(error)
            if errors:
                raise BaseExceptionGroup(f"{len(errors)} of {len(values)} rows fail", errors)

        signature = inspect.signature(test)
        kept = [parameter for key, parameter in signature.parameters.items() if key not in keys]
        whole.__signature__ = signature.replace(parameters=kept)  # pyright: ignore[reportAttributeAccessIssue]
        return whole

    return decorate
