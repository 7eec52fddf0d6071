"""Tables of text that fit a terminal: columns that do not fit beside the others go below them."""

import shutil
import sys
from collections.abc import Sequence

WIDTH = 80
"""Letters in a line where the width of the page is not known."""
GAP = "  "


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], keys: int, width: int | None = None) -> str:
    """Return a table in blocks that are at most `width` characters wide; each begins with the first `keys` columns.

    The default width is that of the terminal, and 80 where the text goes elsewhere. A column that is too wide by
    itself is a block of its own.
    """
    width = (shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH) if width is None else width
    lines = [list(head), *rows]
    widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
    blocks = [list(range(keys))]
    for k in range(keys, len(widths)):
        if len(blocks[-1]) > keys and sum(widths[j] + len(GAP) for j in [*blocks[-1], k]) - len(GAP) > width:
            blocks.append(list(range(keys)))
        blocks[-1].append(k)
    texts = [
        "\n".join(GAP.join(line[k].ljust(widths[k]) for k in block).rstrip() for line in lines) for block in blocks
    ]
    return "\n\n".join(texts)
