"""Networks and costs are those of the golden results, to the bit; `make golden` compares the others."""

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
