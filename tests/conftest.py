"""Most of the time that tests take is compilation, so small programs are not optimised.

Those that compare every rule with a plain loop, run the examples or reproduce the paper are compiled as for users.
"""

import jax
import pytest

from gossamer.metrics import METRICS

SMALL = {
    *(
        "basics",
        "compressors",
        "engines",
        "experiments",
        "metrics",
        "networks",
        "oracles",
        "problems",
        "results",
        "specs",
    ),
    *("theory", "test_docs.py"),
}
"""Rooms and files whose programs run for less time than it takes to optimise them."""


@pytest.fixture(autouse=True)
def _quickly_compiled(request):
    small = not SMALL.isdisjoint((request.path.parent.name, request.path.name))
    jax.config.update("jax_disable_most_optimizations", small)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(autouse=True)
def _no_metric_stays():
    """A metric that a test or a page of the documentation adds is not measured in other tests."""
    before = dict(METRICS)
    yield
    METRICS.clear()
    METRICS.update(before)
