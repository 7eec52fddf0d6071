"""Most of the time that tests take is compilation, so it is not done twice and, for small programs, not thoroughly."""

import os
from pathlib import Path

# Before JAX is imported. Workers and the processes that tests start share what one of them compiled; the key of an
# entry holds the program, its flags and the versions.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")

import jax
import pytest

SMALL = {"compressors", "networks", "oracles", "problems", "theory"}
"""Directories whose programs run for less time than it takes to optimise them."""


@pytest.fixture(autouse=True)
def _quickly_compiled(request):
    small = request.path.parent.name in SMALL
    jax.config.update("jax_disable_most_optimizations", small)
    yield
    if small:
        jax.config.update("jax_disable_most_optimizations", False)
