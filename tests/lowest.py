"""The lowest versions that pyproject.toml allows, installed together, under a quick part of the tests: `make lowest`.

Each direct dependency is installed at its lower bound exactly, what those need in turn as pip finds it. If all passes,
`lowest.txt` is written: the versions that were there. PyTorch and the linters are left out.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
INSTALLED = Path(__file__).with_name("lowest.txt")
EXTRAS = ("test", "docs", "bench")
PIP = ("-m", "pip", "--disable-pip-version-check")
BOUND = re.compile(r"([\w-]+)(?:\[\w+\])?>=([\d.]+),<([\d.]+)")
TESTS = (
    *("data", "networks", "problems", "cli/test_cli.py", "test_contract.py", "test_core.py", "results/test_results.py"),
    *("report/test_report_artifacts.py", "report/test_report_file.py", "results/test_exports.py"),
    "test_interop.py::test_a_run_follows_a_schedule_of_optax",
    "test_interop.py::test_a_linear_module_with_the_logistic_loss_is_the_logistic_problem",
)
NEED_TORCH = (
    *("--ignore=tests/torch_engine", "--ignore=tests/test_engines_agree.py", "--ignore=tests/algorithms/test_drift.py"),
    *("--ignore=tests/problems/test_problems_cnn.py", "--deselect=tests/test_flipped_bits.py::test_of_a_checkpoint"),
    "--deselect=tests/test_interop.py::test_both_engines_read_a_schedule_of_jax_alike",
    "--deselect=tests/test_docs.py::test_commands_exist[docs/howto/elastic.md]",
    "--deselect=tests/test_docs.py::test_commands_exist[docs/training.md]",
    "--deselect=tests/test_docs.py::test_code_runs_and_specs_build[docs/training.md]",
)
"""The tests that need PyTorch, which is left out."""

AGREE = (
    "from benchmarks import agreement, task, throughput as t; "
    "print(agreement.check(task.a9a(), t.LOOPS | {'Gossamer': t.Compiled, 'Numba': t.NumbaKernel}))"
)


class Bounds(NamedTuple):
    """What pyproject.toml says of a dependency: from the first version on, below the second."""

    lowest: str
    below: str


def requirements(*extras: str | None) -> list[str]:
    """The lines of pyproject.toml for these extras, and for None those of the library itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = {None: project["dependencies"], **project["optional-dependencies"]}
    return [line for extra in extras for line in lines[extra]]


def bounds() -> dict[str, Bounds]:
    """Those of every direct dependency, by name."""
    wanted = requirements(None, *EXTRAS)
    parsed = {line: BOUND.fullmatch(line) for line in wanted}
    unbounded = [line for line, match in parsed.items() if match is None]
    if unbounded:
        raise SystemExit(f"{unbounded[0]!r} in pyproject.toml is not of the form NAME>=VERSION,<VERSION.")
    return {match[1]: Bounds(match[2], match[3]) for match in parsed.values() if match}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gossamer-lowest-") as folder:
        home = Path(folder)
        pins = "".join(f"{name}=={bound.lowest}\n" for name, bound in bounds().items())
        python = install(sys.executable, home, pins)
        versions = print_versions(python)
        parts = (f"tests/{part}" for part in TESTS)
        run(python, "-m", "pytest", "-n", "auto", "-p", "no:cacheprovider", *NEED_TORCH, *parts)
        try_others(python, home)
    INSTALLED.write_text(versions, encoding="utf-8")
    print(f"All passed; the versions are in {INSTALLED.relative_to(ROOT)}.")


def install(base: str, home: Path, pins: str, extras: tuple[str, ...] = EXTRAS, others: tuple[str, ...] = ()) -> Path:
    """Make an environment of a Python with the library, its extras and others; return the environment's Python."""
    python, file = home / "env" / "bin" / "python", home / "pins.txt"
    file.write_text(pins, encoding="utf-8")
    run(base, "-m", "venv", "--clear", home / "env")
    library = f"{ROOT}[{','.join(extras)}]"
    run(python, *PIP, "install", "--quiet", "--constraint", file, "--editable", library, *others)
    return python


def print_versions(python: Path) -> str:
    versions = run(python, *PIP, "freeze", "--exclude-editable", shown=False)
    print(versions, flush=True)
    return versions


def try_others(python: Path, home: Path) -> None:
    """Build the documentation, and let the benchmarks' contestants agree."""
    run(python, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", home / "site")
    run(python, "-c", AGREE)


def run(*command: str | Path, shown: bool = True) -> str:
    """What a command prints, unless it was shown; the first that fails ends all."""
    print("$", *command, flush=True)
    # a PYTHONPATH would bring in other versions than those installed
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {
        "NO_MKDOCS_2_WARNING": "1"
    }
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, stdout=None if shown else subprocess.PIPE)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout or ""


if __name__ == "__main__":
    main()
