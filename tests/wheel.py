"""Build the source distribution and the wheel, check both, and use the wheel in an empty environment: `make wheel`.

The wheel is built from the source distribution, so that whatever the latter lacks is noticed. Away from the clone, its
command then lists what there is and decides the headline claims of the paper.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"


def main() -> None:
    for old in DIST.glob("gossamer-*"):
        old.unlink()
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    (wheel,), (source,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, source)
    run(sys.executable, "-m", "check_wheel_contents", wheel)
    with tempfile.TemporaryDirectory(prefix="gossamer-wheel-") as folder:
        home = Path(folder)
        venv.create(home / "env", with_pip=True)
        pip = [home / "env" / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
        run(*pip, "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel)
        gossamer = home / "env" / "bin" / "gossamer"
        run(gossamer, "--version", at=home)
        run(gossamer, "init", "--example", "quadratic", at=home)
        run(gossamer, "reproduce", "--quick", "--out", "quick", at=home)
    print(f"All passed: {source.name}, {wheel.name}.")


def run(*command: str | Path, at: Path = ROOT) -> None:
    """Run a command; the first that fails ends all."""
    print("$", *command, flush=True)
    # a PYTHONPATH would bring in the clone
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if code := subprocess.run(command, cwd=at, env=environment).returncode:
        sys.exit(code)


if __name__ == "__main__":
    main()
