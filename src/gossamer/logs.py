"""Logs of runs, for the simulator and for training. A log is any function of a row, a dict from names to values.

    gs.simulate(rules, problem, "ring", steps=500, log="runs/log.csv")
    Decentralized(model.parameters(), rule, "ring", log="runs/log-{rank}.csv")

Every row has a ``step``, and says by the names in `RUN` which run it is of; its other numbers are curves. A path that
contains ``{rank}`` gives one file for each rank; without it, rank 0 writes alone. Files are appended to, so that a run
that is resumed goes on in them.
"""

import abc
import atexit
import csv
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from gossamer.core import InputError, MissingPackage, brief, nearest

Row = dict[str, Any]
Log = Callable[[Row], None]

RUN = ("variant", "algorithm", "setting", "replicate", "seed", "rank")
"""The names in a row that say which run the row is of."""

OTHERWISE = "or use CSVLog or JSONLinesLog"


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
        named = [f"{name} {row[name]}" for name in ("variant", "seed") if name in row]
        named = [_method(row), *named] if "algorithm" in row else named
        shown = [f"{name} {value:.4g}" for name, value in _curves(row).items() if name not in _COUNTS]
        if "bytes_sent" in row:
            shown.append(f"{row['bytes_sent'] / 1e6:.1f} MB sent")
        if "seconds_waiting" in row:
            shown.append(f"{row['seconds_waiting']:.1f} of {row['seconds']:.1f} s waiting")
        print(f"{', '.join([*named, ''])}step {row['step']:,}: {', '.join(shown)}", file=sys.stderr)


class Tracker(abc.ABC):
    """A log with one run of an experiment tracker open: a row of another run ends it and begins the next.

    Its last run is ended by `close`, at the end of Python at the latest.
    """

    all_ranks = False
    """True if every rank writes, and not rank 0 alone."""

    def __init__(self) -> None:
        self._run: Row | None = None
        atexit.register(self.close)

    def __call__(self, row: Row) -> None:
        if row.get("rank") and not self.all_ranks:
            return
        run = {name: row[name] for name in RUN if name in row}
        if run != self._run:
            self.close()
            self._begin(run)
            self._run = run
        self._write(row["step"], _curves(row))

    def close(self) -> None:
        """End the run that is open, if there is one."""
        if self._run is not None:
            self._run = None
            self._end()

    @abc.abstractmethod
    def _begin(self, run: Row) -> None:
        """Begin a run that is known by these entries of its rows."""

    @abc.abstractmethod
    def _write(self, step: int, curves: Row) -> None:
        """Write the numbers of a row."""

    @abc.abstractmethod
    def _end(self) -> None:
        """Write what is left, and end the run."""


class TensorBoardLog(Tracker):
    """Write curves for TensorBoard: a folder for each rank, or for each method and seed of the simulator."""

    all_ranks = True

    def __init__(self, folder: str | Path):
        event, summary, writer = (
            MissingPackage.import_for("TensorBoardLog", f"tensorboard.{name}", OTHERWISE)
            for name in ("compat.proto.event_pb2", "compat.proto.summary_pb2", "summary.writer.event_file_writer")
        )
        super().__init__()
        self._folder, self._event, self._summary = Path(folder), event.Event, summary.Summary
        self._open = writer.EventFileWriter

    def _begin(self, run: Row) -> None:
        parts = [run["variant"]] if run.get("variant") else []
        parts += [_method(run), f"seed-{run['seed']}"] if "algorithm" in run else [f"rank-{run.get('rank', 0)}"]
        self._writer = self._open(str(self._folder.joinpath(*map(_name_folder, parts))))

    def _write(self, step: int, curves: Row) -> None:
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in curves.items()]
        event = self._event(step=step, wall_time=time.time(), summary=self._summary(value=values))
        self._writer.add_event(event)
        self._writer.flush()  # by itself it writes every two minutes

    def _end(self) -> None:
        self._writer.close()


class MLflowLog(Tracker):
    """Send curves to MLflow.

    Training goes into the run that the script has begun, or into a new one; every method and seed of the simulator is a
    run of its own. Rows are sent once a second, and at the end.

    Args:
        uri: where MLflow keeps runs, such as ``sqlite:///runs/mlflow.db`` or the address of a server; where MLflow
            looks by itself if it is not given.
        experiment: the experiment that new runs belong to.
    """

    EVERY = 1.0
    """Seconds between two batches."""

    def __init__(self, uri: str | None = None, experiment: str = "gossamer"):
        mlflow = MissingPackage.import_for("MLflowLog", "mlflow", OTHERWISE)
        entities = MissingPackage.import_for("MLflowLog", "mlflow.entities", OTHERWISE)
        super().__init__()
        self._mlflow, self._metric, self._param = mlflow, entities.Metric, entities.Param
        try:  # before any work
            self._client = mlflow.MlflowClient(tracking_uri=uri)
            known = self._client.get_experiment_by_name(experiment)
            self._experiment = known.experiment_id if known else self._client.create_experiment(experiment)
        except Exception as error:
            said = " ".join(str(error).split())[:300]
            raise InputError(f"MLflow cannot keep runs at {uri or 'its own place'}: {said}") from error

    def _begin(self, run: Row) -> None:
        active = None if "algorithm" in run else self._mlflow.active_run()
        self._is_own, self._waiting, self._sent = active is None, [], 0.0
        given = active or self._client.create_run(self._experiment, run_name=_title(run) or None)
        self._id = given.info.run_id
        if self._is_own:
            self._client.log_batch(self._id, params=[self._param(name, str(value)) for name, value in run.items()])

    def _write(self, step: int, curves: Row) -> None:
        now = int(time.time() * 1000)
        self._waiting += [self._metric(name, value, now, step) for name, value in curves.items()]
        if time.monotonic() - self._sent > self.EVERY or len(self._waiting) > 900:  # it takes 1,000 at once
            self._send()

    def _send(self) -> None:
        for first in range(0, len(self._waiting), 1000):
            self._client.log_batch(self._id, metrics=self._waiting[first : first + 1000])
        self._waiting, self._sent = [], time.monotonic()

    def _end(self) -> None:
        self._send()
        if self._is_own:
            self._client.set_terminated(self._id)


class WandbLog(Tracker):
    """Send curves to Weights & Biases.

    Training goes into the run that the script has begun, or into a new one; every method and seed of the simulator is a
    run of its own.

    Args:
        options: given to ``wandb.init``, such as ``project="digits"``.
    """

    def __init__(self, **options: Any):
        self._wandb, self._options = MissingPackage.import_for("WandbLog", "wandb", OTHERWISE), options
        super().__init__()
        self._tracked: Any = None

    def _begin(self, run: Row) -> None:
        self._is_own = "algorithm" in run or self._wandb.run is None
        own = {"name": _title(run), "config": run, "reinit": "create_new"} if "algorithm" in run else {}
        self._tracked = self._wandb.init(**own | self._options) if self._is_own else self._wandb.run

    def _write(self, step: int, curves: Row) -> None:
        self._tracked.log(curves, step=step)

    def _end(self) -> None:
        if self._is_own:
            self._tracked.finish()


class TrackioLog(Tracker):
    """Write curves for Trackio, each run into its database in TRACKIO_DIR.

    Args:
        project: the project that runs belong to.
        options: given to ``trackio.init``.
    """

    def __init__(self, project: str = "gossamer", **options: Any):
        trackio = MissingPackage.import_for("TrackioLog", "trackio", OTHERWISE)
        super().__init__()
        # neither a dashboard for each run in a notebook, nor the load of the machine
        plain = {"embed": False, "auto_log_cpu": False, "auto_log_gpu": False}
        self._trackio, self._options = trackio, {"project": project, **plain, **options}

    def _begin(self, run: Row) -> None:
        own = {"name": _title(run) or None, "config": run}
        self._trackio.init(**own | self._options)

    def _write(self, step: int, curves: Row) -> None:
        self._trackio.log(curves, step=step)

    def _end(self) -> None:
        self._trackio.finish()


FILES: dict[str, Callable[[str], Log]] = {".csv": CSVLog, ".jsonl": JSONLinesLog}
"""The logs that a path's ending names."""

TRACKERS: dict[str, Callable[[str], Log]] = {
    "tensorboard": TensorBoardLog,
    "mlflow": lambda uri: MLflowLog(uri or None),
    "wandb": lambda project: WandbLog(**({"project": project} if project else {})),
    "trackio": lambda project: TrackioLog(*filter(None, [project])),
}
"""The logs that a word and a colon name, each made of what follows the colon."""

KNOWN = 'a path that ends in .csv or .jsonl, "tensorboard:FOLDER", "mlflow:URI", "wandb:PROJECT" or "trackio:PROJECT"'


def open_log(given: Any, *, new: bool = False) -> Log | None:
    """Return the log that a user means: by a text such as "runs/log.csv" or "mlflow:URI", or a function of a row.

    With `new`, a file or folder that is named must not be there already: its rows would be mixed with others.
    """
    if given is None:
        return None
    if not isinstance(given, (str, Path)):
        # to call a class would make a log for each row, and write none
        if isinstance(given, type) or not callable(given):
            raise InputError(f"log must be {KNOWN}, or a function of a row, but is {brief(given)}.")
        return cast(Log, given)
    kind, colon, rest = str(given).partition(":")
    if colon and kind in TRACKERS:
        if kind == "tensorboard":
            if not rest:
                raise InputError('log="tensorboard:" needs a folder after the colon, such as "tensorboard:runs/tb".')
            _check_place(Path(rest), new, folder=True)
        return TRACKERS[kind](rest)
    if (suffix := Path(given).suffix) in FILES:
        _check_place(Path(given), new)
        return FILES[suffix](str(given))
    hint = f" {nearest(kind, TRACKERS)}" if colon and len(kind) > 1 and "/" not in kind else ""
    raise InputError(f"log must be {KNOWN}, or a function of a row, but is {brief(str(given))}.{hint}")


def _check_place(path: Path, new: bool, folder: bool = False) -> None:
    """Raise InputError if nothing can be written there or, for a `new` log, if something is there already."""
    path = Path(str(path).replace("{rank}", "0"))
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):  # a new file; what is no folder is refused below
        pass
    except (OSError, ValueError) as error:  # a name that is too long, or has a zero byte
        said = getattr(error, "strerror", None) or error
        raise InputError(f"log: cannot write {brief(str(path))}: {said}. Give another name.") from None
    if path.exists() and path.is_dir() != folder:
        raise InputError(f"log: {path} is a {'file, not a folder' if folder else 'folder, not a file'}.")
    if new and path.exists() and (any(path.iterdir()) if folder else path.stat().st_size):
        raise InputError(
            f"log: {path} is there already, and rows of two runs would be mixed: give another name, or remove it. "
            "CSVLog and JSONLinesLog of that path append to it."
        )
    above = next(place for place in path.absolute().parents if os.path.lexists(place))
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"log: cannot write {path}: {above} is no folder that can be written into.")


_COUNTS = ("step", "rank", "round", "seconds", "bytes_sent", "messages", "bytes_reduced", "seconds_waiting")
_COUNTS += ("overflows", "skipped")
"""Names of rows of `gossamer.torch` that a line of progress sums up or leaves out."""


def _path_for(path: str, row: Row) -> Path | None:
    """Return the file of the row's rank, with its folder made; None if this rank writes none."""
    if row.get("rank") and "{rank}" not in path:
        return None
    file = Path(path.replace("{rank}", str(row.get("rank", 0))))
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def _curves(row: Row) -> Row:
    """Return the numbers of a row."""
    return {
        name: value
        for name, value in row.items()
        if name not in ("step", *RUN) and isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def _method(run: Row) -> str:
    return f"{run['algorithm']}({run['setting']})" if run.get("setting") else run["algorithm"]


def _title(run: Row) -> str:
    """Return the name of a run of the simulator; "" for one of training."""
    if "algorithm" not in run:
        return ""
    return ", ".join([*filter(None, [run.get("variant")]), _method(run), f"seed {run['seed']}"])


def _name_folder(text: str) -> str:
    """Return a text as the name of a folder, which differs where texts do."""
    safe = "".join(letter if letter.isalnum() or letter in "-_.=,() " else "-" for letter in text).strip(". ")
    is_whole = safe == text and len(text.encode()) <= 200
    return safe if is_whole else f"{safe[:50]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
