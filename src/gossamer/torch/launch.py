"""Start a training script in several processes on this machine: a thin front for torchrun.

    launch(4, "train.py", ["--epochs", "3"], max_restarts=2)

On several machines use torchrun itself; the guide on training says how.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gossamer.core import InputError
from gossamer.torch import tether

TETHER = (sys.executable, "-u", tether.__file__)


def launch(
    processes: int, script: str | Path, args: Sequence[str] = (), *, max_restarts: int = 0, prefix: bool = True
) -> int:
    """Run the script in several `processes` and return the exit code, which is 0 if all went well.

    Lines that they print begin with their rank, unless there is one process or `prefix` is false.

    If one process fails, all are ended; they begin again at most `max_restarts` times, and a script that resumes from
    its checkpoints goes on. On Linux all processes end with this one, however it ends.
    """
    with tempfile.TemporaryDirectory() as folder:
        torchrun = command(processes, script, args, folder=folder, max_restarts=max_restarts, prefix=prefix)
        return _run(torchrun, environment(processes))


def _run(command: list[str], env: dict[str, str]) -> int:
    """The exit code of the command, to which signals that would end this process are handed on.

    It gets a session of its own, or else a terminal would send it an interrupt that is handed on once more.
    """
    with (
        subprocess.Popen(command, env=env, start_new_session=True) as child,
        handing_on(lambda _: child.send_signal(signal.SIGTERM)) as told,
    ):
        code = child.wait()
    return 128 + told[0] if told else code


@contextlib.contextmanager
def handing_on(tell: Callable[[int], None]) -> Iterator[list[int]]:
    """Inside, `tell` is called at the first signal that would end this process, which stands in the list then.

    Whoever is told ends its processes within a timeout of its own; another signal would stop it doing so.
    """
    told: list[int] = []

    def handler(number: int, _: Any) -> None:
        if not told:
            told.append(number)
            tell(number)

    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield told
        return
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield told
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def checked_script(script: str | Path) -> None:
    """Refuse a script that is not there."""
    if not Path(script).is_file():
        raise InputError(f"there is no script {str(script)!r} to launch.")


def command(
    processes: int,
    script: str | Path,
    args: Sequence[str] = (),
    *,
    folder: str | Path,
    max_restarts: int = 0,
    prefix: bool = False,
) -> list[str]:
    """What `launch` runs: torchrun, which keeps its own records in the folder and listens to nobody else."""
    said = ("--tee=3", f"--log-dir={Path(folder) / 'said'}") if prefix and processes > 1 else ()
    for what, value, least in (("processes", processes, 1), ("max_restarts", max_restarts, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(f"{what} must be a whole number of at least {least}, but is {value!r}.")
    checked_script(script)
    # torchrun is asked to end, and ends its processes; those are killed if it is killed itself
    return [
        *(
            *TETHER,
            "SIGTERM",
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nnodes=1",
            f"--nproc-per-node={processes}",
        ),
        *("--rdzv-backend=c10d", "--rdzv-conf=store_type=file", f"--rdzv-endpoint={Path(folder) / 'rendezvous'}"),
        *(f"--rdzv-id={uuid.uuid4().hex}", "--local-addr=127.0.0.1", f"--max-restarts={max_restarts}"),
        *("--monitor-interval=0.5", "--shutdown-timeout=5", *said, "--no-python"),
        *(*TETHER, "SIGKILL", sys.executable, "-u", str(script), *map(str, args)),
    ]


def environment(processes: int) -> dict[str, str]:
    """The environment of `launch`, to be used by this process: what is set already stays."""
    threads = max(1, (os.cpu_count() or 1) // processes)
    return {
        "OMP_NUM_THREADS": str(threads),
        "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
        # without it restarted processes do not find each other (pytorch issue 135712)
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[rank ${rank}] ",
        # glibc then keeps the memory of large vectors, in place of fetching fresh pages for each of them
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(2**40),
        # a process that ends by a fault of native code says where in Python it was
        "PYTHONFAULTHANDLER": "1",
        **os.environ,
        tether.KEEPER: str(os.getpid()),
    }
