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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from gossamer.core import InputError, whole

HEARTBEAT, JOIN = 4_000, 60_000
"""Milliseconds after which the Lighthouse counts a process without heartbeats as dead, and for which it waits for one
that lives but does not come, such as in a long step."""
PARENT, OVER = "GOSSAMER_PARENT", "GOSSAMER_OVER"
"""Environment variables with the process that must live on, and with a file that exists once an elastic run is over."""

# becomes the program of its arguments, which ends with the process that started it; only Linux offers this
TETHER = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, int(sys.argv[1]))  # PR_SET_PDEATHSIG: this signal comes when the parent ends
if os.getppid() != int(os.environ["{PARENT}"]):  # it had ended before
    sys.exit(1)
if os.path.exists(os.environ.get("{OVER}", "")):  # nobody is left whom a process that was started again could join
    sys.exit(0)
os.environ["{PARENT}"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""


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
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        if not elastic:
            several = processes != 1
            torchrun = command(processes, script, args, folder=folder, max_restarts=max_restarts, prefix=several)
            return _run({"": (torchrun, environment(processes))}, _Said(prefix) if several else None, folder)
        address, key, server = _lighthouse(bind, lighthouse)
        if server is not None:
            stack.callback(server.shutdown)
            print(f"the Lighthouse of this run is at {address}", file=sys.stderr, flush=True)
        given, first = dict[str, tuple[list[str], dict[str, str]]](), int(os.environ.get("REPLICA_GROUP_ID", "0"))
        for number in range(whole("processes", processes)):
            own = Path(folder, str(number))
            own.mkdir()
            env = environment(processes, loopback=_is_loopback(address)) | key
            env |= {
                "TORCHFT_LIGHTHOUSE": address,
                "REPLICA_GROUP_ID": str(first + number),
                OVER: str(Path(folder, "over")),
            }
            env["NUM_REPLICA_GROUPS"] = str(agents if agents is not None else 0 if lighthouse else processes)
            env["TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"] = f"[agent {first + number}] "
            torchrun = command(1, script, args, folder=own, max_restarts=max_restarts, prefix=True)
            given[f"[agent {first + number}] "] = torchrun, env
        return _run(given, _Said(prefix and processes > 1), folder)


def _lighthouse(bind: str, address: str | None) -> tuple[str, dict[str, str], Any]:
    """Serve a Lighthouse, unless there is one; return its address, the key of the run if there was none, the server."""
    from gossamer.torch.elastic import KEY, import_torchft

    if address:
        return address, {}, None
    host, _, port = bind.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
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
    key = {} if os.environ.get(KEY) else {KEY: secrets.token_hex(32)}
    return f"http://{host}:{server.address().rpartition(':')[2]}", key, server


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
    """Return the torchrun that `launch` runs. It keeps its records in the folder, and listens to nobody."""
    said = ("--tee=3", f"--log-dir={Path(folder) / 'said'}") if prefix else ()
    for what, value, least in (("processes", processes, 1), ("max_restarts", max_restarts, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(f"{what} must be a whole number of at least {least}, but is {value!r}.")
    if not Path(script).is_file():
        raise InputError(f"there is no script {str(script)!r} to launch.")
    # torchrun is asked to end, and ends its processes; those are killed if it is killed itself
    return [
        *(*_tether(signal.SIGTERM), sys.executable, "-m", "torch.distributed.run"),
        *("--nnodes=1", f"--nproc-per-node={processes}", "--local-addr=127.0.0.1", f"--max-restarts={max_restarts}"),
        *("--rdzv-backend=c10d", "--rdzv-conf=store_type=file", f"--rdzv-endpoint={Path(folder) / 'rendezvous'}"),
        *(f"--rdzv-id={uuid.uuid4().hex}", "--monitor-interval=0.5", "--shutdown-timeout=5", *said, "--no-python"),
        *(*_tether(signal.SIGKILL), sys.executable, "-u", str(script), *map(str, args)),
    ]


def _tether(number: signal.Signals) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", TETHER, str(int(number))) if sys.platform == "linux" else ()


def environment(processes: int, *, loopback: bool = True) -> dict[str, str]:
    """Return the environment of `launch`, to be used by this process: what is set already stays."""
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
        PARENT: str(os.getpid()),
    }


def _run(commands: Mapping[str, tuple[list[str], dict[str, str]]], said: "_Said | None", folder: str) -> int:
    """Run one torchrun, or several by the name of their agent, and return the exit code: 0 if one ended well."""
    running, codes = dict[str, subprocess.Popen[str]](), list[int]()
    pipe = None if said is None else subprocess.PIPE
    with _hand_on_signals(running) as told:
        for who, (line, env) in commands.items():
            # in a session of its own, or else a terminal would send it an interrupt that is handed on once more
            running[who] = subprocess.Popen(
                line, env=env, start_new_session=True, stdout=pipe, stderr=pipe, text=True, errors="replace"
            )
            if said is not None:
                said.read(running[who], who)
        while running:
            time.sleep(0.05)
            for who, child in list(running.items()):
                if (code := child.poll()) is None:
                    continue
                del running[who]
                codes.append(code)
                if code == 0:
                    Path(folder, "over").touch()
                elif running and not told:
                    print(f"{who}is not started again; {len(running)} go on", file=sys.stderr, flush=True)
    if said is not None:
        said.close(failed=any(codes))
    last = codes[-1]
    return 128 + told[0] if told else 0 if 0 in codes else 128 - last if last < 0 else last


@contextlib.contextmanager
def _hand_on_signals(running: Mapping[str, subprocess.Popen[str]]) -> Iterator[list[int]]:
    """Put the first signal that would end this process into a list, and let it end those that run.

    torchrun ends its processes within a timeout of its own; another signal would stop it doing so.
    """
    told: list[int] = []

    def handler(number: int, _: Any) -> None:
        if not told:
            told.append(number)
            for child in running.values():
                child.terminate()

    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield told
        return
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield told
    finally:
        for number, old in before.items():
            signal.signal(number, old)


class _Said:
    """The output of all processes, passed on line by line: each error once, torchrun's report if it is needed."""

    WHO = re.compile(r"^(\[(?:rank|agent) \d+\] )(?:\[rank\d+\]: ?)?(.*)", re.DOTALL)
    ENDED = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+)")
    CHAINED = ("During handling of the above exception", "The above exception was the direct cause")

    def __init__(self, prefix: bool):
        self._prefix, self._lock, self._readers = prefix, threading.Lock(), list[threading.Thread]()
        self._tracebacks: dict[str, list[str]] = {}  # the lines of an error that is not complete, by rank
        self._is_repeated: dict[str, bool] = {}
        self._errors: dict[str, list[str]] = {}  # the ranks that raised an error, by its last line without numbers
        self._report: list[str] = []

    def read(self, torchrun: subprocess.Popen[str], agent: str) -> None:
        """Pass on what a torchrun prints until it ends."""
        for source, sink in ((torchrun.stdout, sys.stdout), (torchrun.stderr, sys.stderr)):
            self._readers.append(threading.Thread(target=self._pass_on, args=(source, sink, agent), daemon=True))
            self._readers[-1].start()

    def _pass_on(self, source: IO[str], sink: IO[str], agent: str) -> None:
        for line in source:
            with self._lock:
                if found := self.WHO.match(line):
                    who, lines = found[1], self._once(found[1], found[2])
                else:
                    self._report.append(line)
                    if not (found := self.ENDED.search(line)):
                        continue
                    who = agent or f"[rank {found[2]}] "
                    code = int(found[1])
                    lines = [f"ended with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}\n"]
                sink.writelines(f"{who if self._prefix else ''}{one}" for one in lines)
                sink.flush()

    def _once(self, who: str, text: str) -> list[str]:
        """Return the lines to print now: those of an error only once it is complete, and if it is new."""
        block = self._tracebacks.get(who)
        if block is None:
            if text.startswith("Traceback (most recent call last)"):
                self._tracebacks[who] = [text]
                return []
            is_between = not text.strip() or text.startswith(self.CHAINED)
            return [] if is_between and self._is_repeated.get(who) else [text]
        block.append(text)
        if not text.strip() or text.startswith(" "):
            return []
        del self._tracebacks[who]
        ranks = self._errors.setdefault(re.sub(r"\d+", "#", text), [])
        ranks.append(who.strip())
        self._is_repeated[who] = len(ranks) > 1
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
