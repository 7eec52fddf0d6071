"""Most of the time that tests take is compilation, so small programs are not optimised.

Those that compare every rule with a plain loop, run the examples or reproduce the paper are compiled as for users.
"""

import jax
import pytest

SMALL = {
    *("basics", "compressors", "engines", "experiments", "networks", "oracles", "problems", "results", "specs"),
    *("theory", "test_docs.py"),
}
"""Rooms and files whose programs run for less time than it takes to optimise them."""


@pytest.fixture(autouse=True)
def _quickly_compiled(request):
    small = not SMALL.isdisjoint((request.path.parent.name, request.path.name))
    jax.config.update("jax_disable_most_optimizations", small)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
