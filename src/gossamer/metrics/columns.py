"""The columns of a result besides its metrics, in one table.

To store another column, add it here and let the engine compute it, as `gossamer.engines.costs.count_costs` does.
Summaries, figures and reports read this table.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Column:
    """A column of a result's table."""

    name: str
    kind: Literal["text", "count", "number"]
    axis: str | None = None
    """The name of the x-axis that shows the column, where there is one."""
    title: str = ""
    """The title of that axis."""
    short: str = ""
    """The title in a word or two, for tables and buttons."""
    unit: float = 1.0
    """The unit of the titles, in that of the column."""
    total: str | None = None
    """The format of the column's last value in a summary, which leaves out columns without one."""
    optional: bool = False
    """True for columns that only some runs have."""

    @property
    def factor(self) -> float:
        """The factor from the column to its axis."""
        return 1 / self.unit


COLUMNS = (
    Column("algorithm", "text"),
    Column("setting", "text"),
    Column("replicate", "count"),
    Column("seed", "count"),
    Column("round", "count", "rounds", "rounds", "rounds"),
    Column("status", "text"),
    Column("queries", "number", "queries", "gradient queries of an agent", "queries", total=",.0f"),
    Column("bytes_sent", "number", "bytes", "MB sent by an agent", "MB sent", 1e6, total=".2f"),
    Column("messages", "number", "messages", "messages that an agent waits for", "messages"),
    Column("releases", "number", optional=True),
    Column("seconds", "number", "seconds", "time by the clock (s)", "seconds", optional=True),
    Column("seconds_low", "number", optional=True),
    Column("seconds_high", "number", optional=True),
)

AXES = {column.axis: column for column in COLUMNS if column.axis is not None}
"""The x-axes of figures by name. The start of a method counts in all of them but rounds."""
