"""Writers of logs: what stands in their files, who writes, and what is said where a package is missing."""

import csv
import json
import sys
from types import SimpleNamespace

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import gossamer as gs
from gossamer.logs import CSVLog, JSONLinesLog, ProgressLog, TensorBoardLog, WandbLog

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
    for row in (ROW, ROW | {"rank": 1}, {"step": 7, "loss": 0.5}):
        ProgressLog()(row)
    assert capsys.readouterr().err.splitlines() == [
        "step 1,200: lr 0.1, loss 0.25, 2.5 MB sent, 0.0 of 3.0 s waiting",
        "step 7: loss 0.5",
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
    run = SimpleNamespace(log=lambda numbers, step: logged.append((step, numbers)))
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
    [(lambda: TensorBoardLog("tb"), "torch.utils.tensorboard.writer", "tensorboard"), (WandbLog, "wandb", "wandb")],
    ids=["tensorboard", "wandb"],
)
def test_a_missing_package_is_named(make, module, package, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ImportError, match=f"needs the package {package}, which is not installed: pip install {package}"
    ):
        make()
