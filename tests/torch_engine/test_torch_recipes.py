"""Popular trainers take the steps of a plain loop, and go on from checkpoints with the same bits."""

import json
import os
import subprocess

import numpy as np
import pytest

from gossamer.torch.launch import command, environment
from tests.torch_engine import recipes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lightning", "accelerate", "huggingface"])
def test_a_trainer_takes_the_steps_of_a_plain_loop_and_resumes_with_the_same_bits(name, tmp_path):
    call = command(2, recipes.__file__, [name, str(tmp_path)], folder=tmp_path)
    env = os.environ | environment(2) | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(call, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2)]
    for found in ranks:
        assert found["whole"] == found["in two lives"]
        np.testing.assert_allclose(found["whole"], found["plain"], rtol=1e-6, atol=1e-6)
    assert ranks[0]["apart"][0] > 0  # their gradients are their own
    assert "same first gradient" not in done.stderr
    assert f"right by the mean model after {recipes.STEPS} steps" in done.stdout
