"""Words for what a value must be, for pydantic's types of error, so that its own words reach nobody."""

from typing import Any

from gossamer.basics.text import format_number

WISHES = {
    "int": "a whole number",
    "float": "a number",
    "finite_number": "a finite number",
    "bool": "true or false",
    "string": "text in quotation marks",
    "string_too_short": "text of at least one letter",
    "list": "a list in brackets, [ … ]",
    "dict": "a table, { key = … }",
    "model": "a section of keys",
}
"""By type of error, or by its first part: ``int_type``, ``int_parsing`` and ``int_from_float`` wish for the same."""

BOUNDS = {"greater_than": "above", "greater_than_equal": "at least", "less_than": "below", "less_than_equal": "at most"}
"""The words for a bound, by type of error."""


def wish(error: Any) -> str:
    """Return what a value must be, by one of the errors of a `pydantic.ValidationError`."""
    kind = error["type"]
    if kind in BOUNDS:
        return f"{BOUNDS[kind]} {format_number(float(next(iter(error['ctx'].values()))), digits=12)}"
    return WISHES.get(kind) or WISHES.get(kind.partition("_")[0], "of another type: see the documentation")
