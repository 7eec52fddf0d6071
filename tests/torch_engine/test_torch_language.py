"""The language model on four processes: a quick run, what it sends, and the page that is written from it."""

import runpy
from pathlib import Path

import pytest

from tests.torch_engine import forked

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def quick(rank, size):
    example = runpy.run_path(str(ROOT / "examples" / "torch_language.py"))
    return example["measure"](example["QUICK"])


@pytest.fixture(scope="module")
def found():
    first, *others = forked.run(quick, 4, seconds=240)
    assert all(other["tuning"] == first["tuning"] for other in others)  # one choice for all ranks
    return first


def test_bytes_are_those_of_the_messages(found):
    """A ring of four, float32: an all-reduce, or one or two vectors to two neighbours a round. As messages are posted
    ahead, one more model is on its way at the end."""
    d, steps = found["facts"]["parameters"], found["facts"]["steps"]
    sent = {name: runs[0][-1]["sent"] for name, runs in found["curves"].items()}
    assert sent["DDP, AdamW"] == steps * 2 * 3 / 4 * 4 * d
    first, second = [runs for name, runs in sent.items() if name.startswith("D-PSGD")]
    one = 2 * 4 * d
    assert (first, second) == ((steps + 1) * one, (steps / 16 + 1) * one)
    assert sent["Biased-DMT, 16 local steps"] == (2 * steps / 16 + 1) * one


def test_every_method_learns_and_starts_where_the_others_do(found):
    starts = {round(run[0]["loss"], 5) for runs in found["curves"].values() for run in runs[:1]}
    assert len(starts) == 1
    for runs in found["curves"].values():
        for run in runs:
            assert run[-1]["loss"] < run[0]["loss"] - 0.05
            assert run[-1]["loss"] == pytest.approx(sum(run[-1]["losses"]) / 4)


def test_every_method_is_tried_with_as_many_settings(found):
    assert {len(tuning["tried"]) for tuning in found["tuning"].values()} == {2}
    for tuning in found["tuning"].values():
        best = min(tuning["tried"], key=lambda one: one["loss"])
        assert (best["lr"], best["rule"]) == (tuning["chosen"]["lr"], tuning["chosen"]["rule"])


def test_the_page_says_how_it_went(found, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    made = runpy.run_path(str(ROOT / "docs" / "language.py"))
    text = made["page"](found)
    assert f"A transformer of {found['facts']['parameters']:,} parameters" in text
    assert all(f"| {name} | " in text for name in found["curves"])
    lowest = min(found["curves"], key=lambda name: sum(run[-1]["loss"] for run in found["curves"][name]))
    favours = lowest == "Biased-DMT, 16 local steps"
    assert ("It has the lowest mean loss of all." in text) == favours
    assert (f"The lowest mean loss is that of {lowest}." in text) != favours
    made["drawn"]({name: made["Curves"](runs) for name, runs in found["curves"].items()})
