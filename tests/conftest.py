"""Most of the time that tests take is compilation: programs are kept between runs, and small ones compiled in haste.

Compiled programs stay in .cache/tests of the clone, which git ignores; remove it to compile all anew. Programs of the
tests that compare every rule with a plain loop, run the README's example or reproduce the paper are compiled as for
users, and so are those of the tests that start a process of their own.
"""

import atexit
import functools
import gc
import os
import random
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import jax
import pytest
from jax._src import compiler, lru_cache
from jax.experimental.compilation_cache import compilation_cache
from jaxtyping import install_import_hook

from tests import shapes

ROOMS = ("basics", "compressors", "engines", "metrics", "networks", "oracles", "results.statistics")
SHAPES = [f"gossamer.{room}" for room in ROOMS]
"""Rooms whose arrays are checked against their annotations at every call, where GOSSAMER_SHAPES is set; and problems,
file by file."""

PROBLEMS = Path(__file__).parents[1] / "src" / "gossamer" / "problems"
UNCHECKED = ("__init__",)


def _dotted(file: Path) -> str:
    return ".".join(file.relative_to(PROBLEMS.parents[1]).with_suffix("").parts)


if os.environ.get("GOSSAMER_SHAPES"):
    name = f"{shapes.__name__}.{shapes.checked.__name__}"
    install_import_hook(
        [*SHAPES, *(_dotted(file) for file in PROBLEMS.rglob("*.py") if file.stem not in UNCHECKED)], name
    )

CACHE = Path(__file__).parents[1] / ".cache" / "tests"
MOST_BYTES = 2**30


def drop_oldest_programs() -> None:
    """Remove the programs that were written first, where the kept ones take more than MOST_BYTES."""
    with suppress(FileNotFoundError):  # the other session of `make test` removes the same ones at the same time
        programs = sorted(CACHE.glob("jax/*"), key=lambda path: path.stat().st_mtime, reverse=True)
        size = 0
        for path in programs:
            size += path.stat().st_size
            if size > MOST_BYTES:
                path.unlink()


def write_program(self: lru_cache.LRUCache, key: str, value: bytes) -> None:
    """Write a compiled program and rename it. JAX writes in place: a run that is killed would leave half a program."""
    whole = Path(str(self.path)) / f"{key}-cache"
    part = whole.with_name(f"{whole.name}.{os.getpid()}")
    part.write_bytes(value)
    part.replace(whole)


if "PYTEST_XDIST_WORKER" not in os.environ:  # the workers inherit it
    # There are as many workers as cores. A second thread of BLAS or OpenMP would mostly wait, and such threads wait by
    # computing: the gap of a ring of 30,000 agents took four times the CPU time, and ten times as long.
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    # Commands that tests start keep their programs below XDG_CACHE_HOME, which is of this run alone but for a link.
    home = tempfile.mkdtemp(prefix="gossamer-cache-")
    (CACHE / "commands").mkdir(parents=True, exist_ok=True)
    (Path(home) / "gossamer").mkdir()
    (Path(home) / "gossamer" / "compiled").symlink_to(CACHE / "commands")
    os.environ["XDG_CACHE_HOME"] = home
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    drop_oldest_programs()

lru_cache.LRUCache.put = write_program
jax.config.update("jax_compilation_cache_dir", str(CACHE / "jax"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

# A compiled program need not know the lines of Python that it comes from, and what tracing leaves is collected rarely:
# that saves a tenth of the time.
jax.config.update("jax_traceback_in_locations_limit", 0)
gc.set_threshold(100_000, 50, 1000)

SMALL = {
    *(
        "aggregators",
        "algorithms",
        "basics",
        "cli",
        "clocks",
        "compressors",
        "data",
        "engines",
        "experiments",
        "metrics",
        "networks",
    ),
    *("oracles", "problems", "report", "results", "specs", "theory", "torch_engine", "worst"),
    *(
        "test_attacks.py",
        "test_bad_calls.py",
        "test_docs.py",
        "test_engines_agree.py",
        "test_examples.py",
        "test_odd_runs.py",
    ),
    *("test_schedules.py", "test_agrees_with_a_plain_loop_from_a_warm_start"),
}
"""Rooms, files and tests whose programs run for less time than it takes to optimise them."""


@functools.cache
def quick_options() -> dict[str, object]:
    """Return the compiler options of a search: half the time.

    JAX sets no such options for all programs, so they are added where it makes up its options.
    """
    from gossamer.engines.program import QUICK, known_options  # after the hook that checks shapes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "get_compile_options", as_for_users)
        return known_options(QUICK)


MEASURED = {"test_thunks.py", "test_networks_faults.py"}
"""Files that ask the compiler what it made: a program that was read from a file does not know its memory."""

as_for_users = compiler.get_compile_options


def in_haste(*given, env_options_overrides=None, **named):
    return as_for_users(*given, env_options_overrides=quick_options() | dict(env_options_overrides or {}), **named)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Around a test and the fixtures that it sets up, those of its module too."""
    small = not SMALL.isdisjoint((item.path.parent.name, item.path.name, getattr(item, "originalname", None)))
    jax.config.update("jax_disable_most_optimizations", small)
    compiler.get_compile_options = in_haste if small else as_for_users
    kept = item.path.name not in MEASURED
    if kept != jax.config.jax_enable_compilation_cache:  # pyright: ignore[reportAttributeAccessIssue]
        jax.config.update("jax_enable_compilation_cache", kept)
        compilation_cache.reset_cache()
    return (yield)


LONG = (
    *("test_engines_agree.py", "test_reproduction.py", "test_examples.py", "test_readme.py", "test_contract.py"),
    *("test_own_code.py", "test_devices.py", "test_cache.py", "test_golden.py"),
)
"""Files that take longest, which begin before the others, so that no process waits for another at the end."""


def _turn(item: pytest.Item) -> tuple[bool, int]:
    """Return when a test begins: PyTorch's first, which often wait, while the other session of `make test` computes."""
    file = item.path
    return file.parent.name != "torch_engine", LONG.index(file.name) if file.name in LONG else len(LONG)


def pytest_collection_finish():
    """What was imported stays: it need not be looked through whenever memory is collected."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter):
    if seed := os.environ.get("GOSSAMER_SHUFFLE"):
        terminalreporter.write_line(f"in shuffled order; make shuffled SEED={seed} repeats it")


def pytest_collection_modifyitems(items):
    if seed := os.environ.get("GOSSAMER_SHUFFLE"):  # `make shuffled`: no test may need another to have run before it
        random.Random(seed).shuffle(items)
        return
    items.sort(key=_turn)


@pytest.fixture(autouse=True)
def _no_metric_stays():
    """A metric that a test or a page of the documentation adds is not measured in other tests."""
    from gossamer.metrics import METRICS  # after the hook that checks shapes

    before = dict(METRICS)
    yield
    METRICS.clear()
    METRICS.update(before)
