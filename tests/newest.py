"""The newest versions that pyproject.toml allows, installed together, on the newest Python at hand: `make newest`.

Its tests are all that are not slow, but for those that need PyTorch, and slow ones of what newer versions of JAX, XLA
and Flax have broken. PyTorch is left out with all that would bring it in: for the newest Python its wheels come late,
and they may weigh gigabytes.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.lowest import BOUND, EXTRAS, NEED_TORCH, install, print_versions, requirements, run, try_others

TRAINERS = ("accelerate", "lightning", "transformers")
"""The recipes that need PyTorch."""

SLOW = ("test_interop.py", "test_thunks.py", "engines/test_devices.py")
"""Models of Flax, the kernels of a round, and runs over several devices."""


def pythons() -> list[str]:
    """The Pythons on the PATH that start, the newest first."""
    found = filter(None, (shutil.which(f"python3.{minor}") for minor in range(30, 10, -1)))
    return [path for path in found if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0]


def main() -> None:
    parsed = {line: BOUND.fullmatch(line) for line in requirements("recipes")}
    recipes = tuple(line for line, match in parsed.items() if match and match[1] not in TRAINERS)
    with tempfile.TemporaryDirectory(prefix="gossamer-newest-") as folder:
        home, python = Path(folder), None
        for base in pythons():
            try:  # no version of PyTorch is below 0: what asks for it after all fails, and downloads nothing
                python = install(base, home, "torch<0\n", (*EXTRAS, "optuna", "privacy"), recipes)
                break
            except SystemExit:
                print(f"Not everything can be installed on {base}: the next older Python is tried.", flush=True)
        if python is None:
            sys.exit("On no Python at hand can everything be installed.")
        run(python, "--version")
        print_versions(python)
        pytest = python, "-m", "pytest", "-n", "auto", "--dist", "loadfile", "-p", "no:cacheprovider", "-rs", "-m"
        run(*pytest, "not slow", *NEED_TORCH, "tests")
        run(*pytest, "slow", *(f"tests/{part}" for part in SLOW))
        try_others(python, home)
    print("All passed. Not tried, since they need PyTorch:", *(left.partition("=")[2] for left in NEED_TORCH))


if __name__ == "__main__":
    main()
