"""Writers of logs. A log is any function of a row, which is a dict from names to numbers.

    Decentralized(model.parameters(), rule, "ring", log=CSVLog("runs/log-{rank}.csv"))

Every row has a ``step``, and a ``rank`` where several processes write. A path that contains ``{rank}`` gives one file
for each rank; without it, rank 0 writes alone. Files are appended to, so that a run that is resumed goes on in them.
"""

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gossamer.core import InputError, MissingPackage

Row = dict[str, Any]
Log = Callable[[Row], None]


class CSVLog:
    """Append rows to a table, under the names of its first row."""

    def __init__(self, path: str | Path):
        self._path, self._names = str(path), ()

    def __call__(self, row: Row) -> None:
        if (path := _path_for(self._path, row)) is None:
            return
        if not self._names and path.exists() and path.stat().st_size:
            with path.open(newline="", encoding="utf-8") as file:
                self._names = tuple(next(csv.reader(file)))
        with path.open("a", newline="", encoding="utf-8") as file:  # closed again: a killed run has left its rows
            if not self._names:
                self._names = tuple(row)
                csv.writer(file).writerow(self._names)
            if odd := sorted(set(row) ^ set(self._names)):
                raise InputError(
                    f"{path} has columns {', '.join(self._names)}, but a row has {', '.join(row)}: {odd[0]!r} is in "
                    "one of them only. Note the same names before every row, or use JSONLinesLog."
                )
            csv.writer(file).writerow([row[name] for name in self._names])


class JSONLinesLog:
    """Append rows to a file, one JSON object a line."""

    def __init__(self, path: str | Path):
        self._path = str(path)

    def __call__(self, row: Row) -> None:
        if (path := _path_for(self._path, row)) is not None:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


class ProgressLog:
    """Print a line on standard error, on rank 0."""

    def __call__(self, row: Row) -> None:
        if row.get("rank"):
            return
        shown = [f"{name} {value:.4g}" for name, value in row.items() if name not in _COUNTS]
        if "bytes_sent" in row:
            shown.append(f"{row['bytes_sent'] / 1e6:.1f} MB sent")
            shown.append(f"{row['seconds_waiting']:.1f} of {row['seconds']:.1f} s waiting")
        print(f"step {row['step']:,}: {', '.join(shown)}", file=sys.stderr)


class TensorBoardLog:
    """Write curves for TensorBoard, into one folder for each rank."""

    def __init__(self, folder: str | Path):
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError as missing:
            raise MissingPackage.of("TensorBoardLog", "tensorboard", "or use CSVLog or JSONLinesLog") from missing
        self._make, self._folder, self._writer = SummaryWriter, Path(folder), None

    def __call__(self, row: Row) -> None:
        if self._writer is None:
            self._writer = self._make(str(self._folder / f"rank-{row.get('rank', 0)}"))
        for name, value in _curves(row).items():
            self._writer.add_scalar(name, value, row["step"])
        self._writer.flush()  # by itself it writes every two minutes, and not at the end


class WandbLog:
    """Send curves to Weights & Biases, on rank 0: into the run that the script has begun, or into a new one.

    Args:
        options: given to ``wandb.init``, such as ``project="digits"``.
    """

    def __init__(self, **options: Any):
        try:
            import wandb  # pyright: ignore[reportMissingImports]
        except ImportError as missing:
            raise MissingPackage.of("WandbLog", "wandb", "or use CSVLog or JSONLinesLog") from missing
        self._wandb, self._options, self._run = wandb, options, None

    def __call__(self, row: Row) -> None:
        if row.get("rank"):
            return
        if self._run is None:
            self._run = self._wandb.run or self._wandb.init(**self._options)
        self._run.log(_curves(row), step=row["step"])


_COUNTS = {"step", "rank", "round", "seconds", "bytes_sent", "messages", "bytes_reduced", "seconds_waiting"}
_COUNTS |= {"overflows", "skipped"}
"""Names of rows of `gossamer.torch` that a line of progress sums up or leaves out."""


def _path_for(path: str, row: Row) -> Path | None:
    """Return the file of the row's rank, with its folder made; None if this rank writes none."""
    if row.get("rank") and "{rank}" not in path:
        return None
    file = Path(path.replace("{rank}", str(row.get("rank", 0))))
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def _curves(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in ("step", "rank")}
