"""Networks and costs are those of the golden results; `make golden` compares the others.

To the bit under the versions that the files name, and within `golden.TOLERANCE` under others.
"""

import pytest

from tests import golden


@pytest.mark.parametrize("part", ["networks", "costs"])
def test_no_digest_has_moved(part):
    assert golden.compare(part) == []


def test_every_part_has_its_file():
    assert {path.stem for path in golden.RESULTS.glob("*.json")} == set(golden.PARTS)


def test_a_comparison_says_what_moved_and_by_how_much(monkeypatch, tmp_path):
    monkeypatch.setattr(golden, "RESULTS", tmp_path)
    monkeypatch.setitem(
        golden.PARTS, "networks", lambda: {"ring": {"W": golden.digest([1.0, 2.0]), "agents": 2}}.items()
    )
    golden.write("networks")
    assert golden.compare("networks") == []
    monkeypatch.setitem(
        golden.PARTS, "networks", lambda: {"ring": {"W": golden.digest([1.0, 2.5]), "agents": 3}}.items()
    )
    moved, agents = golden.compare("networks")
    assert agents == "networks: ring: agents: 2 → 3"
    assert moved.startswith("networks: ring: W: moved, by 2.0e-01 relative in the numbers kept: 1.0 → 1.0, 2.0 → 2.5")
    monkeypatch.setitem(golden.PARTS, "networks", lambda: {"path": {}}.items())
    assert golden.compare("networks") == ["networks: path: is new", "networks: ring: is no longer there"]


def test_under_other_versions_numbers_may_move_a_little(monkeypatch, tmp_path):
    def computes(*numbers, text="a", agents=2):
        entry = {"W": golden.digest(numbers), "text": golden.digest_text(text), "agents": agents, "pace": numbers[0]}
        monkeypatch.setitem(golden.PARTS, "networks", lambda: {"ring": entry}.items())

    monkeypatch.setattr(golden, "RESULTS", tmp_path)
    computes(1.0, 2.0)
    golden.write("networks")
    computes(1.0 + 1e-12, 2.0, text="b")
    assert len(golden.compare("networks")) == 3
    monkeypatch.setattr(golden, "machine", lambda: golden.machine_of("networks") | {"jaxlib": "another"})
    assert golden.compare("networks") == []
    computes(1.0, 2.0 + 1e-8, agents=3)
    assert [line.split(":")[2] for line in golden.compare("networks")] == [" W", " agents"]
