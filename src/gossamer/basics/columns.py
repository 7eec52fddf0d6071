"""Tables as text that fits a terminal: columns that do not fit beside the others go below them."""

import shutil
import sys
from collections.abc import Sequence

WIDTH = 80
"""Letters in a line where nobody knows how wide the page is."""
GAP = "  "


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], keys: int, width: int | None = None) -> str:
    """A table in blocks that are at most `width` characters wide; each begins with the first `keys` columns.

    Without a width it is that of the terminal, and 80 where the text goes elsewhere. A column that is too wide by
    itself is a block of its own, whole.
    """
    width = (shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH) if width is None else width
    lines = [list(head), *rows]
    widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
    blocks = []
    for block in _blocks(widths, keys, width):
        for line in lines:
            blocks.append(GAP.join(line[k].ljust(widths[k]) for k in block).rstrip())
        blocks.append("")
    return "\n".join(blocks[:-1])


def _blocks(widths: list[int], keys: int, width: int) -> list[list[int]]:
    """Which columns stand side by side, in their order."""
    first, blocks = list(range(keys)), []
    block = first
    for k in range(keys, len(widths)):
        if len(block) > keys and sum(widths[j] + len(GAP) for j in [*block, k]) - len(GAP) > width:
            blocks.append(block)
            block = first
        block = [*block, k]
    return [*blocks, block]
