"""Markdown tables, and ratios with their quartiles, for the scripts that write pages."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]], numbers: bool = False) -> str:
    """Return a table; with `numbers` all columns but the first are aligned to the right."""
    lines = [head, ["---"] + ["---:" if numbers else "---"] * (len(head) - 1), *rows]
    return "".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def spread(ratio: dict[str, float], form: str = ".2f") -> str:
    """Return a median with its quartiles."""
    median, low, high = (format(ratio[key], form) for key in ("median", "low", "high"))
    return f"{median} [{low}, {high}]"
