"""Ranks as forks of one process that has imported all they need: a world starts in a second in place of twenty."""

import multiprocessing
import os
import tempfile
import time
import traceback
from pathlib import Path

LIGHT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "JAX_PLATFORMS": "cpu"}


def _context():
    os.environ.update(LIGHT)  # before the server starts, which hands them on
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch._dynamo", "gossamer.engines", "gossamer.theory", "gossamer.torch"])
    return context


class Ranks:
    """`function(rank, size, *args)` in so many processes that have joined each other. Leaves none behind."""

    def __init__(self, function, size, *args):
        context = _context()
        self._folder = tempfile.TemporaryDirectory()
        store = os.path.join(self._folder.name, "store")
        self.pipes, self.processes = [], []
        for rank in range(size):
            mine, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_main, args=(theirs, store, function, rank, size, args), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(mine)
            self.processes.append(process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join(10)
        self._folder.cleanup()

    def results(self, seconds=120, stopped=None):
        """What each rank returned, or how it `Failed`; None for one that was killed or is `stopped`."""
        end = time.monotonic() + seconds
        found = []
        for rank, pipe in enumerate(self.pipes):
            if rank == stopped:
                found.append(None)
                continue
            if not pipe.poll(max(0.0, end - time.monotonic())):
                raise TimeoutError(f"rank {rank} said nothing within {seconds} s")
            try:
                found.append(pipe.recv())
            except EOFError:
                found.append(None)
        return found


def run(function, size, *args, seconds=120):
    """What each rank returned; an exception in one of them is raised here."""
    with Ranks(function, size, *args) as ranks:
        found = ranks.results(seconds)
    for result in found:
        if isinstance(result, Failed):
            raise AssertionError(f"{result.kind}: {result.message}\n{result.trace}")
    return found


def runs(pid):
    """Whether there is such a process; one that has ended and that nobody has asked about does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(fact, seconds):
    """Return once the fact is so, and fail if it is not in time."""
    end = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < end, f"not so within {seconds} s"
        time.sleep(0.05)


class Failed:
    """An exception of a rank."""

    def __init__(self, error):
        self.kind, self.message, self.trace = type(error).__name__, str(error), traceback.format_exc()
        self.ranks, self.when = getattr(error, "ranks", None), time.time()


def _main(pipe, store, function, rank, size, args):
    import torch.distributed as dist

    try:
        kept = dist.FileStore(store, size)  # pyright: ignore[reportPrivateImportUsage]
        dist.init_process_group("gloo", store=kept, rank=rank, world_size=size)
        result = function(rank, size, *args)
    except BaseException as error:
        result = Failed(error)
    pipe.send(result)
    pipe.close()
