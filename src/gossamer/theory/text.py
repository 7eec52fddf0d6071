"""Plain text for terminals, and numbers for JSON."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gossamer.basics.table import Table


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table: words to the left, what looks like a number to the right."""
    numeric = [bool(rows) and all(_number(row[k]) for row in rows) for k in range(len(head))]
    return Table(head, rows, numeric).text(rule=True).split("\n")


def _number(cell: str) -> bool:
    return not cell.strip("0123456789.,+-einfa ") or not cell


def plain(value: Any) -> Any:
    """The value as JSON can hold it: tuples as lists, numbers that are not finite as null."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
