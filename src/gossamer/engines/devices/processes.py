"""Several processes, on one machine or more, that run one spec together by JAX's own runtime.

Every process makes the same calls in the same order. What only one of them can know, a time or what a store holds, the
first one tells the others, and it alone writes.
"""

import contextlib
import hashlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from gossamer.core import InputError
from gossamer.engines.devices.launching import LAUNCHER, LOST, refuse_taken
from gossamer.results.provenance import versions
from gossamer.results.store import CellKey, Store, pack, unpack

HEARTBEAT = 10
"""Seconds after which a process that is silent is given up."""

PATIENCE = 60
"""Seconds that the processes wait for one another at the start."""

PAUSE = 2.0
"""Seconds for which another process leaves it to the first, and to the launcher, to end all for what was refused."""


def join(coordinator: str | None = None, processes: int | None = None, process: int | None = None) -> None:
    """Find the other processes, before anything is computed: at the coordinator's address, or where the cluster says.

    The first process listens at that address alone. Slurm, Open MPI and Kubernetes are known to JAX.
    """
    _end_with_launcher()
    given = (coordinator, processes, process)
    if None in given and given != (None, None, None):
        raise InputError(
            "--coordinator, --processes and --process go together: the address of the first process, how "
            "many there are, and which one this is."
        )
    if processes is not None and process is not None and not 0 <= process < processes:
        raise InputError(f"--process counts from 0 to {processes - 1}, but is {process}.")
    if coordinator is not None and process == 0:
        refuse_taken(coordinator)
    how: dict[str, Any] = {"heartbeat_timeout_seconds": HEARTBEAT, "initialization_timeout": PATIENCE}
    if coordinator is not None:
        how |= {"coordinator_bind_address": coordinator, "cluster_detection_method": "deactivate"}
    try:
        jax.distributed.initialize(coordinator, processes, process, **how)
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


def together() -> bool:
    """Whether this is one of several processes, however they found one another."""
    return jax.process_count() > 1


def first() -> bool:
    """Whether this is the process that writes and prints."""
    return jax.process_index() == 0


def agreed(number: int) -> int:
    """The first process's number, in all of them."""
    return int(multihost_utils.broadcast_one_to_all(np.int32(number))) if together() else number


def first_does(action: Callable[[], Any]) -> None:
    """The first process does it; where it refuses, all do."""
    if not together():
        action()
        return
    refusal = b""
    if first():
        try:
            action()
        except InputError as error:
            refusal = str(error).encode()
    if refusal := _from_first(refusal):
        raise InputError(refusal.decode())


def refuse_others(spec: str, own: list[Path]) -> None:
    """Refuse processes that run another spec, other files of the user's, or another version, before any work."""
    if not together():
        return
    files = [hashlib.sha256(file.read_bytes()).hexdigest() for file in own]
    known = {"spec": spec, "versions": repr(versions()), "files of your own": repr(files)}
    digests = np.stack([np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8) for text in known.values()])
    everyone = np.asarray(multihost_utils.process_allgather(digests))
    for process, theirs in enumerate(everyone):
        odd = [name for name, same in zip(known, (theirs == everyone[0]).all(1), strict=True) if not same]
        if odd:
            raise InputError(
                f"process {process} differs from the first in its {' and its '.join(odd)}: make them the same."
            )


class FirstStore(Store):
    """A store that the first process reads and writes, and tells the others of."""

    def get(self, key: CellKey) -> dict[str, np.ndarray] | None:
        cell = super().get(key) if first() else None
        data = _from_first(b"" if cell is None else pack(cell))
        return unpack(data) if data else None

    def put(self, key: CellKey, arrays: Mapping[str, np.ndarray]) -> None:
        if first():
            super().put(key, arrays)
        else:
            self.written += 1


def store_in(folder: Path) -> Store:
    """The store of a run's directory."""
    return FirstStore(folder) if together() else Store(folder)


@contextlib.contextmanager
def ending(refuse: Callable[[InputError], None]) -> Iterator[None]:
    """Where processes run together, an error of one ends it at once, and so the others: none waits at the end.

    `refuse` says what was refused; the first process does so for all, where all refuse.
    """
    if not together():
        yield
        return
    try:
        with _without_chatter():
            yield
    except InputError as error:
        if first():
            time.sleep(PAUSE / 4)  # for the others to come as far
        else:
            with _silent(2):  # where the first one ends, the runtime ends this process with a trace
                time.sleep(PAUSE)
        refuse(error if first() else InputError(f"process {jax.process_index()}: {error}"))
        if first() and LAUNCHER not in os.environ:
            time.sleep(2 * PAUSE)  # the others would not survive it, and could not say what they refuse
        os._exit(2)
    except jax.errors.JaxRuntimeError as error:
        line = (str(error).splitlines() or [""])[0][:300]
        print(
            f"process {jax.process_index()} of {jax.process_count()} has lost another one, or failed ({line}): the "
            "same command goes on from what was finished",
            file=sys.stderr,
            flush=True,
        )
        os._exit(LOST)
    except Exception:
        traceback.print_exc()
        os._exit(1)


@contextlib.contextmanager
def _without_chatter() -> Iterator[None]:
    """What the runtime prints of its connections is dropped, and what Python prints goes to stderr, so that neither
    comes between the lines that a script may read."""
    with contextlib.redirect_stdout(sys.stderr), _silent(1):
        yield


@contextlib.contextmanager
def _silent(descriptor: int) -> Iterator[None]:
    """Nothing that is written to this file descriptor is seen, even where another language writes it."""
    kept, nowhere = os.dup(descriptor), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
    try:
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)


def _from_first(data: bytes) -> bytes:
    """The first process's bytes, in all of them. They travel in lengths that are powers of two, each compiled once."""
    length = agreed(len(data))
    if not length:
        return b""
    box = np.zeros(1 << (length - 1).bit_length(), np.uint8)
    if first():
        box[:length] = np.frombuffer(data, np.uint8)
    return np.asarray(multihost_utils.broadcast_one_to_all(box))[:length].tobytes()


def _end_with_launcher() -> None:
    """End as soon as the launcher has, however it ended."""
    if (launcher := os.environ.get(LAUNCHER)) is None:
        return

    def watch() -> None:
        while os.getppid() == int(launcher):
            time.sleep(0.5)
        os._exit(LOST)

    threading.Thread(target=watch, daemon=True).start()
