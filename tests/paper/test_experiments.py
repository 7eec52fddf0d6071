"""The list of experiments: it stands in one place, and is read without what runs them."""

import subprocess
import sys
from importlib.resources import files

from gossamer.paper import EXPERIMENTS, QUICK


def test_every_spec_file_is_an_experiment_and_every_experiment_has_one():
    folder = files("gossamer.paper.experiments")
    stems = {file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")}
    assert stems == set(EXPERIMENTS)
    assert set(QUICK) < set(EXPERIMENTS)


def test_the_command_line_knows_the_names_without_importing_jax():
    code = "import sys, gossamer.cli.reproduce as r; print(*r.EXPERIMENTS, 'jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.split() == [*EXPERIMENTS, "False"]
