"""Networks side by side, in Python, on the command line and in a figure."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from gossamer import cli, networks
from gossamer.core import InputError
from gossamer.report import figures
from tests.table import table

AGENTS = 12


@pytest.fixture(scope="module")
def compared():
    return networks.compare(AGENTS)


def command(*arguments, monkeypatch):
    """The exit code of a command."""
    monkeypatch.setattr("sys.argv", ["gossamer", "networks", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def test_every_name_is_there_or_left_out_with_the_reason(compared):
    names = [row.name for row in compared.rows]
    assert sorted([*names, *compared.left_out]) == sorted(networks.NETWORKS)
    assert set(compared.left_out) == {"hypercube", "sequence", "file", "spanning-tree"}
    assert "power of two, but is 12" in compared.left_out["hypercube"]
    assert all(row.network.agents == AGENTS for row in compared.rows)


def test_the_numbers_are_those_of_the_networks(compared):
    found = {row["name"]: row for row in compared.asdict()["networks"]}
    ring = networks.ring(AGENTS)
    left = ring.disagreement(5_000, until=1e-6)
    assert found["ring"] == {
        "name": "ring",
        "network": "ring(12)",
        "sends": 2.0,
        "degree": 2,
        "mean_degree": 2.0,
        "diameter": 6,
        "gap": ring.gap,
        "effective_neighbors": ring.effective_neighbors(0.9),
        "rate": 1 - left[-1] ** (1 / (len(left) - 1)),
        "rounds": len(left) - 1,
        "messages": 2.0 * (len(left) - 1),
        "disagreement": left.tolist(),
    }
    assert (found["complete"]["rounds"], found["complete"]["messages"], found["complete"]["rate"]) == (1, 11, 1)
    base = networks.base_graph(AGENTS)
    period = base.mixer.period
    assert (found["base-graph"]["rounds"], found["base-graph"]["rate"]) == (period, 1)
    assert found["base-graph"]["messages"] == pytest.approx(base.traffic * period)
    assert found["directed-ring"]["gap"] is found["directed-ring"]["effective_neighbors"] is None
    order = [row["rounds"] for row in compared.asdict()["networks"]]
    assert order == sorted(order)


def test_a_degree_is_that_of_all_networks_that_take_one():
    rows = {row.name: row.network for row in networks.compare(AGENTS, 3, target=0.5).rows}
    assert rows["random-regular"].degrees.tolist() == [3] * AGENTS
    assert rows["base-graph"].name == "base_graph(12, 3)"
    assert rows["erdos-renyi"].name == "erdos_renyi(12, 0.272727, seed=0)"


def test_networks_that_do_not_come_to_agree_in_time_say_so():
    compared = networks.compare(AGENTS, rounds=3, target=1e-3)
    path = next(row for row in compared.rows if row.name == "path")
    assert (path.measures["rounds"], path.measures["messages"], len(path.disagreement)) == (None, None, 4)
    line = next(line for line in str(compared).splitlines() if line.startswith("path"))
    assert line.split()[-3:] == [">", "3", "–"]


def test_progress_is_reported():
    seen = []
    networks.compare(AGENTS, target=1e-2, progress=lambda name, done, total, loss: seen.append((name, done, total)))
    assert ("path", 64, 5_000) in seen


@table(
    ("arguments", "message"),
    [
        ({"agents": 1}, r"compare\(agents\) must be a whole number of at least 2, but is 1. One agent has nobody"),
        (
            {"agents": 4, "degree": 4},
            r"compare\(degree\) must be .* at most 3, but is 4. Each of 4 agents has 3 others",
        ),
        ({"agents": 4, "target": 1}, r"compare\(target\) must be a number in \[0, 1\), but is 1"),
        ({"agents": 4, "rounds": 0}, r"compare\(rounds\) must be a whole number of at least 1, but is 0"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(InputError, match=message):
        networks.compare(**arguments)


def test_the_command_prints_a_table_json_and_a_figure(compared, tmp_path, monkeypatch, capsys):
    asked = []

    def compare(*given, **named):
        asked.append((given, {key: value for key, value in named.items() if key != "progress"}))
        return compared

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(networks, "compare", compare)
    assert command("--agents", AGENTS, "--no-cache", monkeypatch=monkeypatch) == 0
    out = capsys.readouterr().out
    assert out == f"{compared}\n"
    assert out.splitlines()[0].split()[:4] == ["network", "sends", "degree", "diameter"]
    options = ("--degree", 3, "--target", 0.1, "--rounds", 9, "--json", "--plot", "n.svg")
    assert command("--agents", AGENTS, "--no-cache", *options, monkeypatch=monkeypatch) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(compared.asdict()))
    assert asked == [
        ((AGENTS, None), {"target": 1e-6, "rounds": 5_000}),
        ((AGENTS, 3), {"target": 0.1, "rounds": 9}),
    ]
    assert "hierarchical" in (tmp_path / "n.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--agents", "1"), "at least 2, but is 1"),
        (("--agents", "4", "--degree", "4"), "Each of 4 agents has 3 others"),
        (("--agents", "4", "--plot", "n.doc"), "cannot write a figure as .doc; use .pdf, .png or .svg"),
        (("--agents", "4", "--plot", "n"), "a file without suffix"),
        (("--agents", "4", "--plot", "folder.png"), "it is a directory"),
    ],
)
def test_bad_options_end_with_2_and_write_nothing(arguments, message, tmp_path, monkeypatch, capsys):
    (tmp_path / "folder.png").mkdir()
    monkeypatch.chdir(tmp_path)
    assert command(*arguments, monkeypatch=monkeypatch) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]


def test_a_figure_has_a_graph_for_each_network_and_two_curves(compared):
    figure = figures.draw_networks(compared)
    axes = [axes for axes in figure.get_axes() if axes.get_title()]
    assert [one.get_title() for one in axes] == [row.name for row in compared.rows]
    ring = next(one for one in axes if one.get_title() == "ring")
    assert len(ring.collections[0].get_paths()) == 2 * AGENTS
    left, right = figure.get_axes()[-2:]
    for row, by_round, by_message in zip(compared.rows, left.lines, right.lines, strict=True):
        np.testing.assert_array_equal(by_round.get_xdata() - 1, np.arange(len(row.disagreement)))
        np.testing.assert_allclose(by_message.get_xdata() - 1, row.messages, atol=1e-12)


def test_many_agents_are_not_drawn(compared, monkeypatch):
    monkeypatch.setattr(figures, "DRAWN_AGENTS", 5)
    assert len(figures.draw_networks(compared).get_axes()) == 2


def test_help_shows_examples():
    shown = CliRunner().invoke(cli.app(), ["networks", "--help"], env={"COLUMNS": "120"}).output
    assert "gossamer networks --agents 24 --degree 4 --plot networks.png" in shown


def test_networks_of_more_agents_than_memory_holds_are_refused():
    with pytest.raises(InputError, match=r"networks of 2,000,000,000 agents needs about 1 TB of memory"):
        networks.compare(2_000_000_000)
