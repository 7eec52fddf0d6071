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
import venv
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
INSTALLED = Path(__file__).with_name("lowest.txt")
EXTRAS = ("test", "docs", "bench")
BOUND = re.compile(r"([\w-]+)(?:\[\w+\])?>=([\d.]+),<([\d.]+)")
TESTS = (
    *("data", "networks", "problems", "cli/test_cli.py", "test_contract.py", "test_core.py", "results/test_results.py"),
    *("report/test_report_artifacts.py", "report/test_report_file.py"),
)

AGREE = (
    "from benchmarks import agreement, task, throughput as t; "
    "print(agreement.check(task.a9a(), t.LOOPS | {'Gossamer': t.Compiled, 'Numba': t.NumbaKernel}))"
)


class Bounds(NamedTuple):
    """What pyproject.toml says of a dependency: from the first version on, below the second."""

    lowest: str
    below: str


def bounds() -> dict[str, Bounds]:
    """Those of every direct dependency, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for extra in EXTRAS for line in extras[extra])]
    parsed = {line: BOUND.fullmatch(line) for line in wanted}
    unbounded = [line for line, match in parsed.items() if match is None]
    if unbounded:
        raise SystemExit(f"{unbounded[0]!r} in pyproject.toml is not of the form NAME>=VERSION,<VERSION.")
    return {match[1]: Bounds(match[2], match[3]) for match in parsed.values() if match}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gossamer-lowest-") as folder:
        home = Path(folder)
        pins = home / "pins.txt"
        pins.write_text("".join(f"{name}=={bound.lowest}\n" for name, bound in bounds().items()))
        venv.create(home / "env", with_pip=True)
        python = home / "env" / "bin" / "python"
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
        run(*pip, "install", "--quiet", "--constraint", pins, "--editable", f"{ROOT}[{','.join(EXTRAS)}]")
        versions = run(*pip, "freeze", "--exclude-editable", shown=False)
        print(versions, flush=True)
        run(python, "-m", "pytest", "-n", "auto", "-p", "no:cacheprovider", *(f"tests/{part}" for part in TESTS))
        run(python, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", home / "site")
        run(python, "-c", AGREE)
    INSTALLED.write_text(versions, encoding="utf-8")
    print(f"All passed; the versions are in {INSTALLED.relative_to(ROOT)}.")


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
