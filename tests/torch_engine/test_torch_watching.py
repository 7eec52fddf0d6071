"""What a run says of itself: rows of a log, counters over several lives, and how an optimizer looks. One process."""

import csv
import json

import numpy
import pytest
import torch

import gossamer as gs
from gossamer import logs
from gossamer.logs import JSONLinesLog
from gossamer.torch import CSVLog, Decentralized, resume, save
from gossamer.torch.checkpoint import PROGRESS
from gossamer.torch.optimizer import STANDARD
from tests.torch_engine.small import problem, steps

DMT = gs.BiasedDMT(eta=0.1, lam=0.3)


def trained(log, folder, count, first=0, **options):
    """A run of two lives if it is called twice; what is noted is the number of the step."""
    params, loss = problem()
    model = torch.nn.ParameterList(params)
    optimizer = Decentralized(params, DMT, log=log, **options)
    assert resume(folder, model, optimizer) == first
    for k in range(first, first + count):
        optimizer.note(loss=float(k))
        steps(optimizer, loss, count=1, first=k)
    save(folder, first + count, model, optimizer)
    return optimizer


def test_rows_go_on_in_their_files_over_two_lives(tmp_path):
    lines, table = tmp_path / "deep" / "log.jsonl", tmp_path / "log-{rank}.csv"
    for make, folder in ((lambda: JSONLinesLog(lines), "a"), (lambda: str(table), "b")):
        trained(make(), tmp_path / folder, 4, log_every=2)
        trained(make(), tmp_path / folder, 2, first=4, log_every=2)
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    with (tmp_path / "log-0.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == [2, 4, 6]
    assert [row["loss"] for row in rows] == [1.0, 3.0, 5.0]
    assert tuple(rows[0]) == (*STANDARD, "loss")
    assert [(row["step"], row["loss"], row["lr"]) for row in written] == [
        (str(k), f"{k - 1}.0", "0.1") for k in (2, 4, 6)
    ]


def test_a_table_has_the_columns_of_its_first_row(tmp_path):
    params, loss = problem()
    optimizer = Decentralized(params, DMT, log=CSVLog(tmp_path / "log.csv"))
    steps(optimizer, loss, count=1)
    optimizer.note(loss=1.0)
    with pytest.raises(gs.InputError, match=r"log\.csv has columns step, .*: 'loss' is in one of them only"):
        steps(optimizer, loss, count=1)
    params, loss = problem()
    optimizer = Decentralized(params, DMT, log=CSVLog(tmp_path / "log.csv"))
    optimizer.note(accuracy=1.0)
    with pytest.raises(gs.InputError, match="'accuracy' is in one of them only"):
        steps(optimizer, loss, count=1)


def test_a_line_of_progress_knows_the_names_that_every_row_has():
    assert {*STANDARD} == {*logs._COUNTS, "lr"}


def test_what_is_noted_is_a_number_of_its_own_name():
    """A tensor is read when the row is written, and is as it was when it was noted."""
    rows, (params, loss) = [], problem()
    optimizer = Decentralized(params, DMT, log=rows.append, log_every=2)
    total = torch.ones((), requires_grad=True) * 3
    optimizer.note(total=total, right=torch.tensor([True]), count=numpy.int64(7))
    with torch.no_grad():
        total += 1
    steps(optimizer, loss, count=2)
    assert {key: rows[0][key] for key in ("total", "right", "count")} == {"total": 3.0, "right": 1.0, "count": 7.0}
    for bad, message in (
        ({"loss": torch.ones(2)}, r"note\(loss=…\) must be one number, but is tensor"),
        ({"loss": "low"}, r"note\(loss=…\) must be one number, but is 'low'"),
        ({"rank": 1}, r"note\(rank=…\) would hide the rank that every row has"),
    ):
        with pytest.raises(gs.InputError, match=message):
            optimizer.note(**bad)
    steps(optimizer, loss, count=2, first=2)
    assert tuple(rows[1]) == STANDARD


def test_seconds_go_on_over_the_lives_of_a_run_as_those_of_waiting_do():
    rows, optimizer = [], Decentralized(problem()[0], DMT)
    saved = optimizer.state_dict()
    saved["state"][0]["progress@0"][PROGRESS.index("seconds")] = 5000.0
    params, loss = problem()
    other = Decentralized(params, DMT, log=rows.append)
    other.load_state_dict(saved)
    steps(other, loss, count=1)
    assert 5000 < rows[0]["seconds"] < 5060


def test_counters_go_on_over_the_lives_of_a_run(tmp_path):
    params, loss = problem()
    optimizer = Decentralized(params, DMT, on_nonfinite="skip")
    loss().backward()
    params[0].grad[0, 0] = float("nan")
    optimizer.step()
    other = Decentralized(problem()[0], DMT, on_nonfinite="skip")
    other.load_state_dict(optimizer.state_dict())
    assert other.counters.skipped == optimizer.counters.skipped == 1
    other.exchange.counters.messages += 5  # the same object is counted with
    assert other.counters.messages >= 5


def test_an_optimizer_shows_its_rule_and_network():
    params, loss = problem()
    optimizer = Decentralized(params, DMT, "ring")
    steps(optimizer, loss, count=2)
    shown = repr(optimizer)
    assert f"BiasedDMT(eta=0.1, lam=0.3) on {optimizer.network.name}; " in shown.splitlines()[0]
    assert "rank 0 of 1; 12 numbers; step 2" in shown.splitlines()[0]
    assert "lr: 0.1" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"log": 3}, "log must be a path that ends in .* or a function of a row, but is 3"),
        ({"log": CSVLog}, "or a function of a row, but is <class"),
        ({"log": "log.txt"}, r"but is 'log\.txt'"),
        ({"log_every": 0}, "log_every must be a whole number of at least"),
    ],
)
def test_what_is_no_log_is_refused(options, message):
    with pytest.raises(gs.InputError, match=message):
        Decentralized(problem()[0], DMT, **options)
