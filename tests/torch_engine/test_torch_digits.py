"""The examples: digits sorted by label on four processes, and on two nodes of two."""

import contextlib
import io
import re
import runpy
from pathlib import Path

import pytest

from tests.torch_engine import forked

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(rank, size, name):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(EXAMPLES / name))["main"]()
    return printed.getvalue()


@pytest.mark.slow
def test_biased_dmt_learns_digits_that_no_process_sees_all_of():
    first, *others = forked.run(example, 4, "torch_digits.py", seconds=240)
    assert others == ["", "", ""]
    found = {name: float(share) for name, share in re.findall(r"^(\S+) +test accuracy: +([\d.]+)%", first, re.M)}
    assert found.keys() == {"biased-dmt", "d-psgd"}
    assert found["biased-dmt"] >= 95


@pytest.mark.slow
def test_two_nodes_of_two_learn_digits_that_no_node_sees_all_of():
    first, *others = forked.run(example, 4, "torch_nodes.py", seconds=240)
    assert others == ["", "", ""]
    assert float(re.findall(r"test accuracy ([\d.]+)%", first)[0]) >= 90
