"""Most of the time that tests take is compilation, so small programs are not optimised.

Those that compare every rule with a plain loop, run the examples or reproduce the paper are compiled as for users.
"""

import jax
import pytest

SMALL = {
    *("compressors", "engines", "networks", "oracles", "problems", "theory"),
    *("test_audit.py", "test_docs.py", "test_experiment.py", "test_keys.py", "test_pytrees.py"),
    *("test_rerun.py", "test_results.py", "test_settling.py", "test_tuning.py"),
}
"""Directories and files whose programs run for less time than it takes to optimise them."""


@pytest.fixture(autouse=True)
def _quickly_compiled(request):
    small = not SMALL.isdisjoint((request.path.parent.name, request.path.name))
    jax.config.update("jax_disable_most_optimizations", small)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
