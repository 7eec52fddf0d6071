"""Plain text for terminals, and numbers for JSON."""

import math
from collections.abc import Mapping, Sequence
from typing import Any


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table: words to the left, what looks like a number to the right."""
    widths = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]
    numeric = [bool(rows) and all(_number(row[k]) for row in rows) for k in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        parts = [c.rjust(w) if right else c.ljust(w) for c, w, right in zip(cells, widths, numeric, strict=True)]
        return "  ".join(parts).rstrip()

    return [line(head), line(["-" * width for width in widths]), *(line(row) for row in rows)]


def _number(cell: str) -> bool:
    return not cell.strip("0123456789.,+-einfa ") or not cell


def plain(value: Any) -> Any:
    """The value as JSON can hold it: tuples as lists, numbers that are not finite as null."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
