"""Most of the time that tests take is compilation, so small programs are not optimised."""

import jax
import pytest

SMALL = {"compressors", "networks", "oracles", "problems", "theory"}
"""Directories whose programs run for less time than it takes to optimise them."""


@pytest.fixture(autouse=True)
def _quickly_compiled(request):
    small = request.path.parent.name in SMALL
    jax.config.update("jax_disable_most_optimizations", small)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
