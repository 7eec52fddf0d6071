"""A rank that dies or stops is named in time, and what starts again ends with the same bits."""

import json
import os
import re
import signal
import subprocess
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from gossamer.torch.faults import last_words
from gossamer.torch.launch import command, environment
from tests.torch_engine import failing_run, forked
from tests.torch_engine.failing_run import EVERY, STEPS, TIMEOUT


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return {
        inside: forked.run(failing_run.trained, 4, str(tmp_path_factory.mktemp("undisturbed")), None, inside)
        for inside in (False, True)
    }


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("inside", [False, True])
def test_a_lost_rank_is_named_and_a_restart_ends_with_the_same_bits(kind, inside, undisturbed, tmp_path):
    """Also with AdamW inside, where checkpoints fall into the middle of its local steps."""
    rng = np.random.default_rng([inside, kind])
    lost, step = int(rng.integers(4)), int(rng.integers(EVERY + 1, STEPS))
    with forked.Ranks(failing_run.trained, 4, str(tmp_path), (lost, step, kind), inside) as ranks:
        found = ranks.results(stopped=lost)
    happened = float((tmp_path / "fault").read_text())
    for rank in set(range(4)) - {lost}:
        assert found[rank].kind == "NeighborLost", found[rank].trace
        # at most the timeout after it began to wait, and a margin for a busy machine
        assert found[rank].when - happened < TIMEOUT + 3
        # also by the one that is not beside it, and only waits for those that are
        assert found[rank].ranks == (lost,), found[rank].message
        assert f"rank {lost}" in found[rank].message
    assert not any(process.is_alive() for process in ranks.processes)
    assert forked.run(failing_run.trained, 4, str(tmp_path), None, inside) == undisturbed[inside]


@pytest.mark.slow
def test_torchrun_restarts_and_leaves_no_process_behind(tmp_path, tmp_path_factory):
    """In the first life a rank is killed, in the second one stops, and the third ends as if nothing had been."""
    undisturbed = forked.run(failing_run.trained, 2, str(tmp_path_factory.mktemp("undisturbed")))
    faults = json.dumps([(1, 8, "SIGKILL"), (0, 17, "SIGSTOP")])
    script = Path(failing_run.__file__)
    done = subprocess.run(
        command(2, script, [str(tmp_path), faults], folder=tmp_path, max_restarts=2),
        env=environment(2) | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert [json.loads((tmp_path / f"result-{rank}").read_text()) for rank in range(2)] == undisturbed
    # torchrun looks every 0.5 s, and may end the other rank before that could say whom it lost
    assert re.search(r"exitcode: -9\) local_rank: 1 ", done.stderr), done.stderr[-5000:]
    assert "lost its neighbour rank 0, silent" in done.stderr
    pids = [int(path.read_text()) for path in tmp_path.glob("pid-*")]
    assert len(pids) == 6
    assert not [pid for pid in pids if forked.runs(pid)]


def hung_up(rank, size, folder):
    """Rank 0 dies, then rank 1 leaves and lives on: whether rank 2 noticed, who waits for rank 1 alone."""
    noticed, group = Path(folder, "noticed"), dist.group.WORLD
    words = last_words(group)
    dist.barrier()
    if rank == 0:
        os._exit(1)
    if rank == 2:
        with pytest.raises(RuntimeError):
            group.recv([torch.zeros(1)], 1, 7).wait(timedelta(seconds=20))
        return noticed.touch()
    with pytest.raises(RuntimeError):
        group.recv([torch.zeros(1)], 0, 7).wait(timedelta(seconds=20))
    words.hang_up()
    forked.wait_until(noticed.exists, 10)


def test_whoever_leaves_is_noticed_by_all_also_after_the_first_of_them_died(tmp_path):
    """A wait that fails at once because its rank is gone does not end the other connections."""
    with forked.Ranks(hung_up, 3, str(tmp_path)) as ranks:
        found = ranks.results()
    assert found == [None] * 3, [one and one.trace for one in found]
