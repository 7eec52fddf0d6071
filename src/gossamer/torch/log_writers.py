"""What a run says of itself as it trains: rows of numbers, for `Decentralized(…, log=…)`.

A log is any function of a row, a dict from names to numbers, which is called after every `log_every` steps on every
rank. Those here write files and lines. A path with ``{rank}`` in it is one file for each rank; without, rank 0 writes
alone. Files are added to, so that a run that is resumed goes on in them.
"""

import abc
import csv
import json
import sys
from pathlib import Path
from typing import Any, TextIO

from gossamer.core import InputError
from gossamer.torch.available import MissingTorch

Row = dict[str, Any]


class FileLog(abc.ABC):
    """Adds rows to a file, which is closed between them: what a killed run has said is there."""

    def __init__(self, path: str | Path):
        self._path, self._begun = str(path), False

    def __call__(self, row: Row) -> None:
        if row["rank"] and "{rank}" not in self._path:
            return
        path = Path(self._path.replace("{rank}", str(row["rank"])))
        if not self._begun:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.begin(path, row)
            self._begun = True
        with path.open("a", newline="", encoding="utf-8") as file:
            self.write(file, row)

    @abc.abstractmethod
    def begin(self, path: Path, row: Row) -> None:
        """Prepare the file for rows such as this one."""

    @abc.abstractmethod
    def write(self, file: TextIO, row: Row) -> None:
        """Add a row."""


class JSONLinesLog(FileLog):
    """One JSON object a line: ``Decentralized(…, log=JSONLinesLog("runs/log.jsonl"))``."""

    def begin(self, path: Path, row: Row) -> None:
        """Lines need nothing before them."""

    def write(self, file: TextIO, row: Row) -> None:
        file.write(json.dumps(row) + "\n")


class CSVLog(FileLog):
    """One line a row, under the names of the first: ``Decentralized(…, log=CSVLog("runs/log-{rank}.csv"))``."""

    _names: tuple[str, ...] = ()

    def begin(self, path: Path, row: Row) -> None:
        self._names = tuple(row)
        if not path.exists() or not path.stat().st_size:
            with path.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerow(row)
            return
        with path.open(newline="", encoding="utf-8") as file:
            self._names = tuple(next(csv.reader(file)))
        self._check(row, str(path))

    def write(self, file: TextIO, row: Row) -> None:
        self._check(row, file.name)
        csv.writer(file).writerow([row[name] for name in self._names])

    def _check(self, row: Row, path: str) -> None:
        if set(row) != set(self._names):
            odd = sorted(set(row) ^ set(self._names))[0]
            raise InputError(
                f"{path} has columns {', '.join(self._names)}, but a row has {', '.join(row)}: {odd!r} is in one of "
                "them only. Note the same names before every row, or use JSONLinesLog."
            )


class ProgressLog:
    """A line on standard error, by rank 0: ``Decentralized(…, log=ProgressLog(), log_every=100)``."""

    def __call__(self, row: Row) -> None:
        if row["rank"]:
            return
        noted = [f"{name} {value:.4g}" for name, value in row.items() if name not in STANDARD]
        sent = f"{row['bytes_sent'] / 1e6:.1f} MB sent"
        waited = f"{row['seconds_waiting']:.1f} of {row['seconds']:.1f} s waiting"
        print(f"step {row['step']:,}: " + ", ".join([*noted, f"lr {row['lr']:.3g}", sent, waited]), file=sys.stderr)


class TensorBoardLog:
    """Curves for TensorBoard, a folder for each rank: ``Decentralized(…, log=TensorBoardLog("runs/tb"))``."""

    def __init__(self, folder: str | Path):
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError as missing:
            raise MissingTorch(
                f"TensorBoardLog needs the package tensorboard, but {missing.name!r} is not installed: pip install "
                "tensorboard, or use CSVLog or JSONLinesLog."
            ) from missing
        self._make, self._folder, self._writer = SummaryWriter, Path(folder), None

    def __call__(self, row: Row) -> None:
        if self._writer is None:
            self._writer = self._make(str(self._folder / f"rank-{row['rank']}"))
        for name, value in row.items():
            if name not in ("step", "rank"):
                self._writer.add_scalar(name, value, row["step"])
        self._writer.flush()  # by itself it writes every two minutes, and not at the end


class WandbLog:
    """Curves for Weights & Biases, by rank 0: ``Decentralized(…, log=WandbLog(project="digits"))``.

    It goes on in the run that the script has begun, and else begins one, by ``wandb.init`` with these options.
    """

    def __init__(self, **options: Any):
        try:
            import wandb  # pyright: ignore[reportMissingImports]
        except ImportError as missing:
            raise MissingTorch(
                f"WandbLog needs the package wandb, but {missing.name!r} is not installed: pip install wandb, or use "
                "CSVLog or JSONLinesLog."
            ) from missing
        self._wandb, self._options, self._run = wandb, options, None

    def __call__(self, row: Row) -> None:
        if row["rank"]:
            return
        if self._run is None:
            self._run = self._wandb.run or self._wandb.init(**self._options)
        self._run.log({name: value for name, value in row.items() if name not in ("step", "rank")}, step=row["step"])


STANDARD = (
    *("step", "rank", "round", "lr", "seconds"),
    *("bytes_sent", "messages", "bytes_reduced", "seconds_waiting", "overflows", "skipped"),
)
"""What every row has; what a script notes comes after it."""
