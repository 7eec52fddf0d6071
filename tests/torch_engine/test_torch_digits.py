"""The example: digits sorted by label on four processes."""

import contextlib
import io
import re
import runpy
from pathlib import Path

from tests.torch_engine import forked

EXAMPLE = Path(__file__).parents[2] / "examples" / "torch_digits.py"


def example(rank, size):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(EXAMPLE))["main"]()
    return printed.getvalue()


def test_biased_dmt_learns_digits_that_no_process_sees_all_of():
    first, *others = forked.run(example, 4, seconds=240)
    assert others == ["", "", ""]
    found = {name: float(share) for name, share in re.findall(r"^(\S+) +test accuracy: +([\d.]+)%", first, re.M)}
    assert found.keys() == {"biased-dmt", "d-psgd"}
    assert found["biased-dmt"] >= 95
