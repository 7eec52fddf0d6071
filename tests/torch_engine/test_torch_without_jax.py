"""Training imports no JAX, which costs 200 MB and makes a fork unsafe, also where rounds and messages are drawn.

What else an optimizer does not need is imported later, or not at all.
"""

import os
import subprocess
import sys

from tests.torch_engine import forked, without_jax


def test_training_leaves_jax_alone():
    done = subprocess.run(
        [sys.executable, "-m", without_jax.__name__],
        env=os.environ | forked.LIGHT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 False", "1 False"]


def test_import_leaves_networks_to_those_that_make_an_optimizer():
    code = "import sys, gossamer.torch; print({'jax', 'networkx', 'scipy', 'rich'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "set()\n", done.stderr
