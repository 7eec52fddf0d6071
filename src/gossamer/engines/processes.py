"""Several processes, on one machine or more, that run one spec together by JAX's distributed runtime.

Every process makes the same calls in the same order. The first process broadcasts what only one of them can know, such
as a time or the contents of a store, and it alone writes and prints.
"""

import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from gossamer.basics.children import end_children, tether
from gossamer.core import InputError, brief
from gossamer.results.provenance import versions
from gossamer.results.store import CellKey, Store, pack, unpack

HEARTBEAT = 10
"""Seconds after which a silent process is given up."""

RENDEZVOUS = 60
"""Seconds that the processes wait for one another at the start."""

PAUSE = 2.0
"""Seconds in which the first process, or the launcher, ends all processes after a refusal, before the others exit."""

LOST = 6
"""The exit code where a process was killed, or has lost another."""

LAUNCHED = "GOSSAMER_LAUNCHED"
"""The environment variable with the number of this process, where `launch` started it: it ends all of them."""


def join(coordinator: str | None = None, processes: int | None = None, process: int | None = None) -> None:
    """Join the other processes, before anything is computed: at the coordinator's address, or where the cluster says.

    The first process listens at that address alone. JAX knows Slurm, Open MPI and Kubernetes.
    """
    given = (coordinator, processes, process)
    if None in given and given != (None, None, None):
        raise InputError(
            "--coordinator, --processes and --process go together: the address of the first process, how "
            "many there are, and which one this is."
        )
    if processes is not None and process is not None and not 0 <= process < processes:
        raise InputError(f"--process counts from 0 to {processes - 1}, but is {process}.")
    if coordinator is not None and process == 0:
        find_port(coordinator)
    options: dict[str, Any] = {"heartbeat_timeout_seconds": HEARTBEAT, "initialization_timeout": RENDEZVOUS}
    if coordinator is not None:
        options |= {"coordinator_bind_address": coordinator, "cluster_detection_method": "deactivate"}
    try:
        jax.distributed.initialize(coordinator, processes, process, **options)
    except (RuntimeError, ValueError, IndexError) as error:
        first = (str(error).splitlines() or [""])[0][:200]
        if coordinator is None:
            raise InputError(
                f"JAX finds no cluster here ({first}): leave out --cluster, or give --coordinator, --processes and "
                "--process."
            ) from None
        raise InputError(
            f"process {process} did not meet the others at {coordinator} ({first}): see that all {processes} are "
            "started, that the address is that of the first, and that its port is free."
        ) from None


def are_several() -> bool:
    """Return True if this is one of several processes, however they found one another."""
    return jax.process_count() > 1


def is_first() -> bool:
    """Return True if this is the process that writes and prints."""
    return jax.process_index() == 0


def broadcast_number(number: int) -> int:
    """Return the first process's number in all processes."""
    return int(multihost_utils.broadcast_one_to_all(np.int32(number))) if are_several() else number


def run_on_first(action: Callable[[], Any]) -> None:
    """Run the action on the first process; where it raises InputError, all processes do."""
    if not are_several():
        action()
        return
    refusal = b""
    if is_first():
        try:
            action()
        except InputError as error:
            refusal = str(error).encode()
    if refusal := broadcast(refusal):
        raise InputError(refusal.decode())


def check_same(spec: str, own: list[Path]) -> None:
    """Raise InputError if a process runs another spec, other files of the user's, or another version."""
    if not are_several():
        return
    files = [hashlib.sha256(file.read_bytes()).hexdigest() for file in own]
    texts = {"spec": spec, "versions": repr(versions()), "files of your own": repr(files)}
    digests = np.stack([np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8) for text in texts.values()])
    everyone = np.asarray(multihost_utils.process_allgather(digests))
    for process, theirs in enumerate(everyone):
        odd = [name for name, same in zip(texts, (theirs == everyone[0]).all(1), strict=True) if not same]
        if odd:
            raise InputError(
                f"process {process} differs from the first in its {' and its '.join(odd)}: make them the same."
            )


class BroadcastStore(Store):
    """A store that the first process reads and writes; reads are broadcast to the others."""

    def get(self, key: CellKey) -> dict[str, np.ndarray] | None:
        cell = super().get(key) if is_first() else None
        data = broadcast(b"" if cell is None else pack(cell))
        return unpack(data) if data else None

    def put(self, key: CellKey, arrays: Mapping[str, np.ndarray]) -> None:
        if is_first():
            super().put(key, arrays)
        else:
            self.written += 1


def open_store(folder: Path) -> Store:
    """Return the store of a run's directory."""
    return BroadcastStore(folder) if are_several() else Store(folder)


@contextlib.contextmanager
def end_together(refuse: Callable[[InputError], None]) -> Iterator[None]:
    """End this process at once on an error if it is one of several, so that no other process waits for it.

    `refuse` prints an InputError. If all processes raise one, only that of the first is seen.
    """
    if not are_several():
        yield
        return
    try:
        # a script may read our lines: those of the runtime are dropped, those of other Python code go to stderr
        with contextlib.redirect_stdout(sys.stderr), _silence(1):
            yield
    except InputError as error:
        if is_first():
            time.sleep(PAUSE / 4)  # for the others to come as far
            refuse(error)
            if LAUNCHED not in os.environ:
                time.sleep(2 * PAUSE)  # the others do not survive the first, and could not say what they refuse
        else:
            with _silence(2):  # if the first process ends now, the runtime ends this one with a trace
                time.sleep(PAUSE)
            refuse(InputError(f"process {jax.process_index()}: {error}"))
        os._exit(2)  # no clean-up: the runtime's own would wait for the other processes
    except jax.errors.JaxRuntimeError as error:
        line = (str(error).splitlines() or [""])[0][:300]
        _print_error(
            f"process {jax.process_index()} of {jax.process_count()} has lost another one, or failed ({line}): the "
            "same command goes on from what was finished"
        )
        os._exit(LOST)
    except Exception:
        traceback.print_exc()
        os._exit(1)


@contextlib.contextmanager
def _silence(descriptor: int) -> Iterator[None]:
    """Drop all that is written to this file descriptor, by code in other languages too."""
    saved, null = os.dup(descriptor), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
    try:
        yield
    finally:
        os.dup2(saved, descriptor)
        os.close(saved)


def broadcast(data: bytes) -> bytes:
    """Return the first process's bytes in all processes."""
    length = broadcast_number(len(data))
    if not length:
        return b""
    buffer = np.zeros(1 << (length - 1).bit_length(), np.uint8)  # each length compiles: take powers of two
    if is_first():
        buffer[:length] = np.frombuffer(data, np.uint8)
    return np.asarray(multihost_utils.broadcast_one_to_all(buffer))[:length].tobytes()


def launch(processes: int, arguments: Sequence[str], *, port: int | None = None, max_restarts: int = 0) -> int:
    """Run ``gossamer run`` with these arguments in so many processes on this machine, and return the exit code.

    They meet on loopback, at this port or at a free one. When one ends for any other reason than that all is done, the
    others are ended at once; where it was lost they begin again, at most `max_restarts` times, from what was finished.
    """
    code = LOST
    while code == LOST and max_restarts >= 0:
        code, max_restarts = _launch_once(processes, arguments, port), max_restarts - 1
    return code


def _launch_once(processes: int, arguments: Sequence[str], port: int | None) -> int:
    address = f"127.0.0.1:{find_port(f'127.0.0.1:{port or 0}')}"
    command = [sys.executable, "-m", "gossamer", "run", *arguments]
    command += ["--coordinator", address, "--processes", str(processes), "--process"]
    children: list[subprocess.Popen[bytes]] = []
    try:
        # SIGKILL, because JAX takes SIGTERM for a warning; what is stored is whole at any moment
        with end_children(children, signal.SIGKILL):
            for process in range(processes):
                line, environment = (
                    tether([*command, str(process)], signal.SIGKILL),
                    os.environ | {LAUNCHED: str(process)},
                )
                # a session of its own, so that Ctrl-C reaches the launcher alone, which then ends all
                children.append(subprocess.Popen(line, env=environment, start_new_session=True))
            while not any(codes := [child.poll() for child in children]):
                if all(code == 0 for code in codes):
                    return 0
                time.sleep(0.05)
            time.sleep(0.2)  # for the others to notice that one is lost, and to say so
            return judge_exits([child.poll() or 0 for child in children])
    except SystemExit:  # by a signal
        _print_error("interrupted: the same command goes on from what was finished")
        return 130


def judge_exits(codes: Sequence[int]) -> int:
    """Return the exit code of a run whose processes ended with these codes, or go on (0); print which one was lost."""

    def order(code: int) -> int:
        """Sort killed before failed, then those that JAX's runtime aborts, then those that lost another one."""
        if code < 0:
            return 2 if code == -signal.SIGABRT else 0
        return {0: 4, LOST: 3}.get(code, 1)

    fell = min(range(len(codes)), key=lambda process: order(codes[process]))
    if codes[fell] >= 0 and codes[0] not in (0, LOST):  # no process was killed: the first has printed the error
        return codes[0]
    why = f"was ended by {signal.Signals(-codes[fell]).name}" if codes[fell] < 0 else f"ended with code {codes[fell]}"
    _print_error(f"process {fell} {why}: all are ended, and the same command goes on from what was finished")
    return LOST


def find_port(address: str) -> int:
    """Return the port of an address at which this machine can listen, any free one for 0; raise InputError if none."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"where processes meet is HOST:PORT, such as 10.0.0.1:7777, but is {brief(address)}.")
    try:
        family, _, _, _, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        with socket.socket(family) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            return int(listener.getsockname()[1])
    except OSError as error:
        raise InputError(
            f"the first process cannot listen at {address} ({error.strerror}): choose another port, or an address of "
            "its own machine."
        ) from None


def _print_error(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
