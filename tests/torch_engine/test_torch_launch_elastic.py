"""How the processes of an elastic run are started: the others go on when one is lost, and it may be started again."""

import os
import subprocess
import sys

import pytest

from gossamer.core import InputError
from gossamer.torch.launch_elastic import is_elastic, launch_elastic

FAILS_ONCE = """
import os, socket, sys
rank, again = os.environ["RANK"], os.path.join(sys.argv[1], "again")
host, port = os.environ["GOSSAMER_MEETING"].rsplit(":", 1)
socket.create_connection((host, int(port))).close()
if rank == "1" and not os.path.exists(again):
    open(again, "w").close()
    os.kill(os.getpid(), 9)
print("said by", rank, "of", os.environ["WORLD_SIZE"], os.environ.get("GOSSAMER_JOINS"), flush=True)
while not os.path.exists(os.path.join(sys.argv[1], "done")) and rank != "1":
    pass
open(os.path.join(sys.argv[1], "done"), "w").close()
"""


def test_one_that_is_lost_is_started_again_beside_the_others(tmp_path):
    (tmp_path / "script.py").write_text(FAILS_ONCE)
    call = [sys.executable, "-m", "gossamer", "launch", "--elastic", "--max-restarts", "1", "script.py", str(tmp_path)]
    done = subprocess.run(call, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    said = [f"[process {rank}] said by {rank} of 2 None" for rank in range(2)]
    assert sorted(done.stdout.splitlines()) == said
    assert "process 1 was lost (exit code -9): it is started again" in done.stderr
    assert "others join by: gossamer launch --join 127.0.0.1:" in done.stderr


@pytest.mark.parametrize(
    ("code", "ends"), [("import sys; sys.exit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_where_none_is_left_its_exit_code_is_returned(code, ends, tmp_path, capfd):
    (tmp_path / "ends.py").write_text(code)
    assert launch_elastic(1, tmp_path / "ends.py") == ends
    assert "process 0 was lost" in capfd.readouterr().err


def test_refuses_what_cannot_be():
    assert is_elastic(False, None, "1.2.3.4:5")
    assert not is_elastic(False, None, None)
    with pytest.raises(InputError, match="--meeting keeps a meeting place and --join goes to another one"):
        is_elastic(True, "1.2.3.4:5", "1.2.3.4:5")
    with pytest.raises(InputError, match="--meeting is for an elastic run: give --elastic, too"):
        is_elastic(False, "1.2.3.4:5", None)
    with pytest.raises(InputError, match="an address of a meeting place is host:port, such as"):
        launch_elastic(1, __file__, join="nowhere")
