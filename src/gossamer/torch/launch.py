"""Start a training script in several processes on this machine: a thin front for torchrun.

    launch(4, "train.py", ["--epochs", "3"], max_restarts=2)
    launch(4, "train.py", elastic=True, max_restarts=2)

The first is one torchrun with four processes. The second is a Lighthouse of torchft and four torchruns with a process
each, because a torchrun ends all of its processes when one of them fails. The guides on training and on elastic
training say how to start several machines.
"""

import contextlib
import ipaddress
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from gossamer.basics.children import end_children, tether
from gossamer.core import InputError, whole

HEARTBEAT, JOIN = 4_000, 60_000
"""Milliseconds after which the Lighthouse counts a process without heartbeats as dead, and for which it waits for one
that lives but does not come, such as in a long step."""
OVER = "GOSSAMER_OVER"  # the environment variable with a file that exists once an elastic run is over


def launch(
    processes: int,
    script: str | Path,
    args: Sequence[str] = (),
    *,
    max_restarts: int = 0,
    prefix: bool = True,
    elastic: bool = False,
    bind: str = "127.0.0.1:0",
    lighthouse: str | None = None,
    agents: int | None = None,
) -> int:
    """Run the script in several `processes` and return the exit code, which is 0 if all went well.

    Lines that they print begin with their rank, unless there is one process or `prefix` is false. An error that several
    of them raise is printed once. On Linux all processes end with this one, however it ends.

    If one process fails, all are ended; they begin again at most `max_restarts` times, and a script that resumes from
    its checkpoints goes on. With `elastic` the others go on, each process is started again so often, and the exit code
    is 0 if one of them ended well.

    Args:
        processes: how many to start here.
        script: the script.
        args: its arguments.
        max_restarts: how often to start again what failed.
        prefix: whether lines begin with the rank.
        elastic: whether the others go on when a process is lost; the script makes ``Decentralized(…, elastic=True)``.
        bind: where to serve the Lighthouse, ``host:port``; port 0 is any that is free.
        lighthouse: the address of a Lighthouse that somebody else serves, ``http://host:port``.
        agents: how many agents begin on all machines: by default these processes, or with `lighthouse` 0, which is to
            join what others began. Where it is set, REPLICA_GROUP_ID is the place of the first agent of this machine.
    """
    with tempfile.TemporaryDirectory() as folder:
        if not elastic:
            several = processes != 1
            torchrun = command(processes, script, args, folder=folder, max_restarts=max_restarts, prefix=several)
            return _run([("", torchrun, environment(processes))], folder, _Output(prefix) if several else None)
        address, key, server = _serve(bind) if lighthouse is None else (lighthouse, {}, None)
        begin = agents if agents is not None else 0 if lighthouse else processes
        first, torchruns = int(os.environ.get("REPLICA_GROUP_ID", "0")), []
        for place in range(first, first + whole("processes", processes)):
            own, who = Path(folder, str(place)), f"[agent {place}] "
            own.mkdir()
            env = environment(processes, loopback=_is_loopback(address)) | key
            env |= {"TORCHFT_LIGHTHOUSE": address, "REPLICA_GROUP_ID": str(place), "NUM_REPLICA_GROUPS": str(begin)}
            env |= {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": who, OVER: str(Path(folder, "over"))}
            torchrun = command(1, script, args, folder=own, max_restarts=max_restarts, prefix=True)
            torchruns.append((who, torchrun, env))
        try:
            return _run(torchruns, folder, _Output(prefix and processes > 1))
        finally:
            if server is not None:
                server.shutdown()


def _serve(bind: str) -> tuple[str, dict[str, str], Any]:
    """Serve a Lighthouse, and return its address, a key for the run if the environment has none, and the server."""
    from gossamer.torch.elastic import KEY, import_torchft

    host, _, port = bind.rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"a Lighthouse is served at host:port, such as 10.0.0.1:29510, but this is {bind!r}.")
    if not _is_loopback(f"http://{bind}") and not os.environ.get(KEY):
        raise InputError(
            f"a Lighthouse at {bind} can be reached by other machines: set {KEY} to the same secret on all machines of "
            "the run, such as one from `openssl rand -hex 32`, so that nobody else can join it."
        )
    try:
        server = import_torchft("LighthouseServer")(
            bind=bind, min_replicas=1, join_timeout_ms=JOIN, heartbeat_timeout_ms=HEARTBEAT
        )
    except (OSError, RuntimeError) as error:
        raise InputError(f"no Lighthouse can be served at {bind}: {error}.") from error
    address = f"http://{host}:{server.address().rpartition(':')[2]}"
    print(f"the Lighthouse of this run is at {address}", file=sys.stderr, flush=True)
    return address, {} if os.environ.get(KEY) else {KEY: secrets.token_hex(32)}, server


def _is_loopback(address: str) -> bool:
    host = address.removeprefix("http://").rpartition(":")[0]
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def command(
    processes: int,
    script: str | Path,
    args: Sequence[str] = (),
    *,
    folder: str | Path,
    max_restarts: int = 0,
    prefix: bool = False,
) -> list[str]:
    """Return the torchrun that `launch` runs, which ends with this process.

    It keeps its records in the folder, and listens to nobody. With `prefix` lines begin with the rank.
    """
    whole("processes", processes)
    whole("max_restarts", max_restarts, least=0)
    if not Path(script).is_file():
        raise InputError(f"there is no script {str(script)!r} to launch.")
    return tether(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nnodes=1", f"--nproc-per-node={processes}"),
            # by a file and on loopback: the default rendezvous listens on all interfaces
            *("--rdzv-backend=c10d", "--rdzv-conf=store_type=file", f"--rdzv-endpoint={Path(folder) / 'rendezvous'}"),
            *(f"--rdzv-id={uuid.uuid4().hex}", "--local-addr=127.0.0.1", f"--max-restarts={max_restarts}"),
            *("--monitor-interval=0.5", "--shutdown-timeout=5"),
            *(("--tee=3", f"--log-dir={Path(folder) / 'output'}") if prefix else ()),
            *(str(script), *map(str, args)),
        ]
    )


def environment(processes: int, *, loopback: bool = True) -> dict[str, str]:
    """Return the environment of `launch`: what is set already stays."""
    lo = {"GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo"} if loopback else {}
    return {
        "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // processes)),
        **lo,
        # without it restarted processes do not find each other (pytorch issue 135712)
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[rank ${rank}] ",
        # glibc then keeps the memory of large vectors, in place of fetching fresh pages for each of them
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(2**40),
        # a process that ends by a fault of native code says where in Python it was
        "PYTHONFAULTHANDLER": "1",
        **os.environ,
    }


def _run(torchruns: Sequence[tuple[str, list[str], dict[str, str]]], folder: str, output: "_Output | None") -> int:
    """Run torchruns, given by name, command and environment, and return the exit code: 0 if one ended well."""
    pipe = None if output is None else subprocess.PIPE
    children, codes = dict[str, subprocess.Popen[str]](), dict[str, int]()
    try:
        with end_children(children.values()):
            for who, line, env in torchruns:
                children[who] = subprocess.Popen(
                    line, env=env, start_new_session=True, stdout=pipe, stderr=pipe, text=True, errors="replace"
                )
                if output is not None:
                    output.read(children[who], who)
            while left := len(children) - len(codes):
                time.sleep(0.05)
                for who, child in children.items():
                    if who in codes or (code := child.poll()) is None:
                        continue
                    codes[who] = code
                    if code == 0:
                        Path(folder, "over").touch()
                    elif left > 1:
                        print(f"{who}is not started again; {left - 1} go on", file=sys.stderr, flush=True)
    except SystemExit as ended:  # by a signal
        codes[""] = int(ended.code or 0)
    if output is not None:
        output.close(failed=any(codes.values()))
    last = [*codes.values()][-1]
    return 0 if 0 in codes.values() else last if last > 0 else 128 - last


class _Output:
    """The output of all processes, passed on line by line: an error that several ranks raise is printed once."""

    LINE = re.compile(r"^(\[(?:rank|agent) \d+\] )(?:\[rank\d+\]: ?)?(.*)", re.DOTALL)
    ENDED = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+)")  # said by torchrun
    CHAINED = ("During handling of the above exception", "The above exception was the direct cause")

    def __init__(self, prefix: bool):
        self._prefix, self._lock, self._readers = prefix, threading.Lock(), list[threading.Thread]()
        self._tracebacks: dict[str, list[str]] = {}  # by rank, the lines of an error that is not complete
        self._errors: dict[
            str, list[str]
        ] = {}  # by the last line of an error without numbers, the ranks that raised it
        self._repeats: set[str] = set()  # ranks whose last error another had raised before
        self._report: list[str] = []  # what torchrun itself says

    def read(self, torchrun: subprocess.Popen[str], agent: str) -> None:
        """Pass on what a torchrun, of one agent or of all ranks, prints until it ends."""
        for source, sink in ((torchrun.stdout, sys.stdout), (torchrun.stderr, sys.stderr)):
            self._readers.append(threading.Thread(target=self.pass_on, args=(source, sink, agent), daemon=True))
            self._readers[-1].start()

    def pass_on(self, source: IO[str], sink: IO[str], agent: str) -> None:
        for line in source:
            with self._lock:
                if found := self.LINE.match(line):
                    who, lines = found[1], self._take(found[1], found[2])
                else:
                    self._report.append(line)
                    if not (found := self.ENDED.search(line)):
                        continue
                    who, code = agent or f"[rank {found[2]}] ", int(found[1])
                    lines = [f"ended with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}\n"]
                sink.writelines(f"{who if self._prefix else ''}{one}" for one in lines)
                sink.flush()

    def _take(self, who: str, text: str) -> list[str]:
        """Return the lines to print now: those of an error only once it is complete, and if it is new."""
        is_blank = not text.strip()
        if who not in self._tracebacks:
            if text.startswith("Traceback (most recent call last)"):
                self._tracebacks[who] = [text]
                return []
            return [] if who in self._repeats and (is_blank or text.startswith(self.CHAINED)) else [text]
        self._tracebacks[who].append(text)
        if is_blank or text.startswith(" "):
            return []
        block, ranks = self._tracebacks.pop(who), self._errors.setdefault(re.sub(r"\d+", "#", text), [])
        ranks.append(who.strip())
        (self._repeats.add if len(ranks) > 1 else self._repeats.discard)(who)
        return [] if len(ranks) > 1 else block

    def close(self, *, failed: bool) -> None:
        """Say who raised an error that was printed for another, or what torchrun said, if no process said why."""
        for reader in self._readers:
            reader.join()
        for block in self._tracebacks.values():
            sys.stderr.writelines(block)
        if others := dict.fromkeys(who for ranks in self._errors.values() for who in ranks[1:]):
            print(*others, "raised the same error", file=sys.stderr)
        if failed and not self._errors:
            sys.stderr.writelines(self._report)
