"""Writers of logs: what stands in their files, who writes, and what is said where a package is missing."""

import csv
import json
import os
import sqlite3
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import gossamer as gs
from gossamer import logs
from gossamer.experiments.running import run as run_spec
from gossamer.logs import (
    CSVLog,
    JSONLinesLog,
    MLflowLog,
    ProgressLog,
    TensorBoardLog,
    Tracker,
    TrackioLog,
    WandbLog,
    open_log,
)
from gossamer.specs.spec import Spec
from tests.commands import gossamer

ROW = {"step": 1200, "rank": 0, "round": 1199, "lr": 0.1, "seconds": 3.0, "bytes_sent": 2_500_000, "messages": 2400}
ROW |= {"bytes_reduced": 0, "seconds_waiting": 0.0, "overflows": 0, "skipped": 0, "loss": 0.25}
"""As `gossamer.torch` makes it, with a loss that the script noted."""


def test_rows_of_any_source_go_on_in_their_files(tmp_path):
    """A row needs a step alone, such as those of a simulated run."""
    for step in (1, 2):
        for log in (CSVLog(tmp_path / "deep" / "log.csv"), JSONLinesLog(tmp_path / "log.jsonl")):  # two lives
            log({"step": step, "loss": 1 / step})
    with (tmp_path / "deep" / "log.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [{"step": "1", "loss": "1.0"}, {"step": "2", "loss": "0.5"}]
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"step": 1, "loss": 1.0}, {"step": 2, "loss": 0.5}]


def test_a_table_keeps_the_columns_of_its_first_row(tmp_path):
    log = CSVLog(tmp_path / "log.csv")
    log({"step": 1})
    for again in (log, CSVLog(tmp_path / "log.csv")):
        with pytest.raises(
            gs.InputError, match=r"log\.csv has columns step, but a row has step, loss: 'loss' is in one"
        ):
            again({"step": 2, "loss": 1.0})
    log({"step": 2})
    assert (tmp_path / "log.csv").read_text().split() == ["step", "1", "2"]


@pytest.mark.parametrize("make", [CSVLog, JSONLinesLog])
def test_rank_0_writes_alone_unless_the_path_has_the_rank(make, tmp_path):
    for rank in range(3):
        make(tmp_path / "one")(ROW | {"rank": rank})
        make(tmp_path / "of-{rank}")(ROW | {"rank": rank})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["of-0", "of-1", "of-2", "one"]
    assert (tmp_path / "one").read_text() == (tmp_path / "of-0").read_text()


def test_progress_is_a_line_of_rank_0(capsys):
    simulated = {"algorithm": "d-psgd", "setting": "eta=0.1", "seed": 1, "step": 7, "status": "ok", "loss": 0.5}
    for row in (ROW, ROW | {"rank": 1}, {"step": 7, "loss": 0.5}, simulated | {"accuracy": None, "bytes_sent": 2e6}):
        ProgressLog()(row)
    assert capsys.readouterr().err.splitlines() == [
        "step 1,200: lr 0.1, loss 0.25, 2.5 MB sent, 0.0 of 3.0 s waiting",
        "step 7: loss 0.5",
        "d-psgd(eta=0.1), seed 1, step 7: loss 0.5, 2.0 MB sent",
    ]


def test_tensorboard_reads_every_number_again(tmp_path):
    """By the package's own reader, while nothing is closed: a run that is killed there has left its rows."""
    log = TensorBoardLog(tmp_path)
    for step in (2, 4):
        log(ROW | {"step": step, "loss": step / 4})
    reader = EventAccumulator(str(tmp_path / "rank-0"))
    reader.Reload()
    assert set(reader.Tags()["scalars"]) == {*ROW} - {"step", "rank"}
    assert [(event.step, event.value) for event in reader.Scalars("loss")] == [(2, 0.5), (4, 1.0)]


def test_weights_and_biases_gets_the_rows_of_rank_0_in_one_run(monkeypatch):
    """A stand-in for the package, which is not installed here."""
    begun, logged = [], []
    run = SimpleNamespace(log=lambda numbers, step: logged.append((step, numbers)), finish=lambda: None)
    package = SimpleNamespace(run=None, init=lambda **options: begun.append(options) or run)
    monkeypatch.setitem(sys.modules, "wandb", package)
    log = WandbLog(project="digits")
    for rank, step in ((0, 3), (1, 3), (0, 4)):
        log(ROW | {"rank": rank, "step": step})
    assert begun == [{"project": "digits"}]
    assert [step for step, _ in logged] == [3, 4]
    assert set(logged[0][1]) == {*ROW} - {"step", "rank"}
    package.run = run  # the script has begun one
    WandbLog(project="other")(ROW)
    assert len(begun) == 1
    assert len(logged) == 3


@pytest.mark.parametrize(
    ("make", "module", "package"),
    [
        (lambda: TensorBoardLog("tb"), "tensorboard.summary.writer.event_file_writer", "tensorboard"),
        (MLflowLog, "mlflow", "mlflow"),
        (WandbLog, "wandb", "wandb"),
        (TrackioLog, "trackio", "trackio"),
    ],
    ids=["tensorboard", "mlflow", "wandb", "trackio"],
)
def test_a_missing_package_is_named(make, module, package, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ImportError, match=f"needs the package {package}, which is not installed: pip install {package}"
    ):
        make()


PROBLEM = gs.problems.quadratic([[2.0]], np.full((4, 1), 3.0))


def simulate(log, **options):
    rules = [gs.DPSGD(0.1), gs.DPSGD(0.2)]
    return gs.simulate(rules, PROBLEM, "ring", steps=4, every=2, seeds=2, log=log, **options)


def rows_of(result):
    """The rows that a log of a result gets."""
    return result.frame().rename({"round": "step"}).to_dicts()


def test_a_log_gets_the_rows_of_the_frame(tmp_path):
    rows = []
    result = simulate(rows.append)
    assert rows == rows_of(result)
    assert len(rows) == 2 * 2 * 3
    assert {tuple(row) for row in rows} == {tuple(row for row in rows[0])}
    simulate(f"{tmp_path}/deep/log.csv")
    with (tmp_path / "deep" / "log.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert read == [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows]
    simulate(tmp_path / "log.jsonl")
    assert [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()] == rows
    result.log(tmp_path / "later.jsonl")
    assert (tmp_path / "later.jsonl").read_bytes() == (tmp_path / "log.jsonl").read_bytes()


def test_tensorboard_has_a_folder_for_each_method_and_seed(tmp_path):
    result = simulate(f"tensorboard:{tmp_path}/tb")
    for row in rows_of(result):
        reader = EventAccumulator(f"{tmp_path}/tb/d-psgd({row['setting']})/seed-{row['seed']}").Reload()
        read = {event.step: event.value for event in reader.Scalars("loss")}
        assert sorted(read) == [0, 2, 4]
        assert read[row["step"]] == np.float32(row["loss"])
        assert {"loss", "queries", "bytes_sent"} < set(reader.Tags()["scalars"])
        assert "seed" not in reader.Tags()["scalars"]
    assert len([*(tmp_path / "tb").rglob("events*")]) == 4


SPEC = {
    "problem": {"name": "quadratic", "A": [[2.0]], "b": [[1.0], [-1.0], [0.5], [2.0]]},
    "network": {"name": "ring"},
    "run": {"steps": 4, "every": 2, "seeds": 2},
    "algorithm": [{"name": "d-psgd", "eta": 0.1}],
    "variant": [{"name": "ring"}, {"name": "all/at once", "network": {"name": "complete"}}],
}


def test_a_spec_logs_its_variants(tmp_path):
    """From Python and by the command line, also a second time, from what was stored."""
    rows = []
    study = run_spec(Spec.of(SPEC), tmp_path / "run", log=rows.append)
    assert rows == rows_of(study)
    assert list(dict.fromkeys(row["variant"] for row in rows)) == ["ring", "all/at once"]
    (tmp_path / "spec.toml").write_text(Spec.of(SPEC).toml())
    done = gossamer("run", "spec.toml", "--out", "run", "--log", "log.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()] == rows
    study.log(f"tensorboard:{tmp_path}/tb")
    names = sorted(path.name for path in (tmp_path / "tb").iterdir())
    assert names[1] == "ring"
    assert names[0].startswith("all-at once-")


def test_a_log_that_cannot_be_is_refused_before_anything_is_done(tmp_path):
    (tmp_path / "there.csv").write_text("a\n1\n")
    (tmp_path / "rank-0.csv").write_text("a\n1\n")
    (tmp_path / "tb").mkdir()
    (tmp_path / "tb" / "events").write_text("")
    rows = [
        ("log.parquet", r"log must be a path that ends in \.csv or \.jsonl, .* but is 'log\.parquet'"),
        ("mlfow:x", r"but is 'mlfow:x'\. did you mean 'mlflow'\?"),
        ("tensorboard:", "needs a folder after the colon"),
        (CSVLog, "or a function of a row, but is <class 'gossamer.logs.CSVLog'>"),
        (3, "but is 3"),
        (f"{tmp_path}/there.csv", r"there\.csv is there already, and rows of two runs would be mixed"),
        (f"{tmp_path}/there.csv/log.csv", r"there\.csv is no folder that can be written into"),
        (f"{tmp_path}/rank-{{rank}}.csv", r"rank-0\.csv is there already"),
        (f"{tmp_path}/{'a' * 300}.csv", "log: cannot write .*: File name too long. Give another name"),
        (f"{tmp_path}/a\0.csv", "log: cannot write .*: .*null .*. Give another name"),
        (f"{tmp_path}/tb", "log must be a path that ends in"),
        (f"tensorboard:{tmp_path}/tb", "tb is there already"),
        (f"tensorboard:{tmp_path}/there.csv", r"there\.csv is a file, not a folder"),
    ]
    for log, message in rows:
        with pytest.raises(gs.InputError, match=message):
            simulate(log, progress=lambda *_: pytest.fail("a run began"))
    (tmp_path / "spec.toml").write_text(Spec.of(SPEC).toml())
    done = gossamer("run", "spec.toml", "--out", "run", "--log", "there.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "there.csv is there already" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank-0.csv", "spec.toml", "tb", "there.csv"]
    assert (tmp_path / "there.csv").read_text() == "a\n1\n"


def test_a_log_that_fails_loses_no_run():
    """It gets no row after the one at which it fails."""
    got = []

    def log(row):
        got.append(row)
        if row["step"] == 2:
            raise OSError("the disk is full")

    with pytest.warns(UserWarning, match=r"log= failed, .*: OSError: the disk is full\. The result is whole") as warned:
        result = simulate(log)
    assert len(warned) == 1
    assert [row["step"] for row in got] == [0, 2]
    assert result.frame().height == 12


@pytest.mark.parametrize("failing", ["_end", "_write"])
def test_a_tracker_that_cannot_be_closed_loses_no_run(failing, monkeypatch):
    """MLflow sends its last rows when it is closed."""

    class Lost(Tracker):
        def _begin(self, run): ...
        def _write(self, step, curves): ...
        def _end(self): ...

    def fail(*_):
        raise OSError("the server is gone")

    monkeypatch.setitem(logs.TRACKERS, "mlflow", lambda _: Lost())
    monkeypatch.setattr(Lost, "_end", fail)
    monkeypatch.setattr(Lost, failing, fail)
    with pytest.warns(UserWarning, match=r"log= failed, .*: OSError: the server is gone\. The result") as warned:
        result = simulate("mlflow:")
    assert len(warned) == 1
    assert result.frame().height == 12


def test_text_means_a_log_that_appends():
    assert open_log(None) is None
    assert isinstance(open_log("a.csv"), CSVLog)
    assert isinstance(open_log("c:/runs/a.jsonl"), JSONLinesLog)
    assert isinstance(open_log("tensorboard:some/folder"), TensorBoardLog)


TRACKED = ["loss", "consensus", "queries", "bytes_sent"]


def expected_of(result):
    """The curves that a tracker must have, by the name of its run."""
    curves = {}
    for row in rows_of(result):
        own = curves.setdefault(f"d-psgd({row['setting']}), seed {row['seed']}", {name: [] for name in TRACKED})
        for name in TRACKED:
            own[name].append((row["step"], row[name]))
    return curves


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")  # MLflow's own use of SQLAlchemy
@pytest.mark.parametrize("store", ["sqlite:///{}/mlflow.db", "file://{}/mlruns"])
def test_mlflow_has_a_run_for_each_method_and_seed(store, tmp_path, monkeypatch):
    import mlflow  # pyright: ignore[reportMissingImports]

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = store.format(tmp_path)
    result = simulate(f"mlflow:{uri}")
    client = mlflow.MlflowClient(uri)
    runs = client.search_runs([client.get_experiment_by_name("gossamer").experiment_id])
    read = {
        run.info.run_name: {
            name: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)] for name in TRACKED
        }
        for run in runs
    }
    assert read == expected_of(result)
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert {(run.data.params["setting"], run.data.params["seed"]) for run in runs} == {
        (f"eta={eta}", str(seed)) for eta in (0.1, 0.2) for seed in (0, 1)
    }
    assert "accuracy" not in runs[0].data.metrics
    mlflow.set_tracking_uri(uri)
    with mlflow.start_run() as run:  # what a script has begun
        log = MLflowLog(uri)
        for step in (5, 6):
            log(ROW | {"step": step})
        log(ROW | {"rank": 1})
        log.close()
    found = client.get_metric_history(run.info.run_id, "loss")
    assert [(m.step, m.value) for m in found] == [(5, 0.25), (6, 0.25)]


@pytest.mark.slow
def test_mlflow_that_cannot_be_reached_is_refused_before_anything_is_done():
    with pytest.raises(gs.InputError, match="MLflow cannot keep runs at nothing://x: "):
        simulate("mlflow:nothing://x", progress=lambda *_: pytest.fail("a run began"))


@pytest.mark.slow
def test_weights_and_biases_keeps_a_run_for_each_method_and_seed_offline(tmp_path, monkeypatch):
    import wandb  # pyright: ignore[reportMissingImports]
    from wandb.proto.wandb_internal_pb2 import Record  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    result, read = simulate("wandb:digits"), {}
    wandb.teardown()  # a process of its own writes the files, and has not always written the last one by now
    for file in tmp_path.rglob("run-*.wandb"):
        name, curves = "", {name: [] for name in TRACKED}
        for data in records(file.read_bytes()):
            record = Record.FromString(data)
            if record.WhichOneof("record_type") == "run":
                name = record.run.display_name
                assert record.run.project == "digits"
            if record.WhichOneof("record_type") == "history":
                items = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
                for key in TRACKED:
                    curves[key].append((items["_step"], items[key]))
        read[name] = curves
    assert read == expected_of(result)


def records(data):
    """What a file of W&B's holds: blocks of 32 KiB of chunks with a checksum, a length and whether more follow."""
    at, whole = 7, b""
    while at + 7 <= len(data):
        if 2**15 - at % 2**15 < 7:
            at += 2**15 - at % 2**15
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last of several
            yield whole
            whole = b""


@pytest.mark.slow
def test_trackio_keeps_a_run_for_each_method_and_seed(tmp_path):
    """In a process of its own, as the package reads its folder when it is imported."""
    script = (
        "from tests.test_logs import expected_of, simulate; import json; "
        "print(json.dumps(expected_of(simulate('trackio:digits'))))"
    )
    environment = os.environ | {"TRACKIO_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    read: dict = {}
    with sqlite3.connect(tmp_path / "digits.db") as database:
        for name, step, numbers in database.execute("select run_name, step, metrics from metrics order by id"):
            for key in TRACKED:
                read.setdefault(name, {}).setdefault(key, []).append([step, json.loads(numbers)[key]])
    assert read == json.loads(done.stdout.splitlines()[-1])
