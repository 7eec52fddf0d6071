"""Start the processes of an elastic run on this machine, and let the others go on when one is lost.

torchrun ends all of its processes when one fails, so that it cannot start these. Here the launcher keeps the meeting
place, which therefore outlives every process, rank 0 included; a process that is lost may be started again, and joins.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from gossamer.core import InputError, whole
from gossamer.torch.launch import TETHER, checked_script, environment, handing_on
from gossamer.torch.meeting import JOINS, MEETING, kept_at

LOOK = 0.1
"""Seconds between two looks at the processes."""
END = 5.0
"""Seconds that processes have to end when they are told to."""


def launch_elastic(
    processes: int,
    script: str | Path,
    args: Sequence[str] = (),
    *,
    max_restarts: int = 0,
    prefix: bool = True,
    meeting: str = "127.0.0.1:0",
    join: str | None = None,
) -> int:
    """Run the script in several `processes` and return 0 if those that were not lost ended well.

    Args:
        processes: how many to start here.
        script: must make ``Decentralized(…, elastic=True)``.
        args: its arguments.
        max_restarts: how often a process that is lost is started again, over all of them; it then joins the others.
        prefix: whether lines that they print begin with the number of the process.
        meeting: the address where this launcher keeps the meeting place, ``host:port``; port 0 is any that is free.
        join: the meeting place of another launcher, whose run these processes join.
    """
    whole("processes", processes)
    whole("max_restarts", max_restarts, least=0)
    checked_script(script)
    store, address = (None, checked_address(join)) if join else _kept(meeting)
    env = environment(processes) | {MEETING: address, "WORLD_SIZE": str(processes)}
    env |= {JOINS: "1"} if join else {}
    if not join:
        print(f"others join by: gossamer launch --join {address} {script} …", file=sys.stderr, flush=True)
    run = _Run([*TETHER, "SIGKILL", sys.executable, "-u", str(script), *map(str, args)], env, prefix and processes > 1)
    with handing_on(run.end) as told:
        for number in range(processes):
            run.start(number)
        code = run.watched(max_restarts)
    del store  # it was needed up to here
    return 128 + told[0] if told else code


class _Run:
    """The processes of one launcher."""

    def __init__(self, command: list[str], env: dict[str, str], prefix: bool):
        self.command, self.env, self.prefix = command, env, prefix
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.codes: list[int] = []
        self.ending = False
        self._readers: list[threading.Thread] = []

    def start(self, number: int) -> None:
        """Start the process of this number, which gets the place of that number where it is free."""
        to, env = subprocess.PIPE if self.prefix else None, self.env | {"RANK": str(number)}
        # in a session of its own, or else a terminal would send it an interrupt that is handed on once more
        child = subprocess.Popen(self.command, env=env, stdout=to, stderr=to, start_new_session=True)
        self.running[number] = child
        for source, sink in ((child.stdout, sys.stdout), (child.stderr, sys.stderr)):
            if source is not None:
                reader = threading.Thread(target=_passed_on, args=(source, sink, number), daemon=True)
                reader.start()
                self._readers.append(reader)

    def watched(self, restarts: int) -> int:
        """The exit code, once all have ended; those that are lost are started again so often."""
        while self.running:
            time.sleep(LOOK)
            for number, child in list(self.running.items()):
                if (code := child.poll()) is None:
                    continue
                del self.running[number]
                self.codes.append(code)
                again = code != 0 and restarts > 0 and bool(self.running) and 0 not in self.codes and not self.ending
                if code:
                    what = "it is started again" if again else f"{len(self.running)} go on"
                    print(f"process {number} was lost (exit code {code}): {what}", file=sys.stderr, flush=True)
                if again:
                    restarts -= 1
                    self.start(number)
        for reader in self._readers:
            reader.join()
        last = self.codes[-1]
        return 0 if 0 in self.codes else 128 - last if last < 0 else last

    def end(self, _: int) -> None:
        """End all processes: at first by asking, and after a while by force."""
        self.ending = True
        for child in self.running.values():
            child.terminate()
        later = threading.Timer(END, self._kill)
        later.daemon = True
        later.start()

    def _kill(self) -> None:
        for child in list(self.running.values()):
            child.kill()


def _passed_on(source: IO[bytes], to: Any, number: int) -> None:
    for line in source:
        to.write(f"[process {number}] {line.decode(errors='replace')}")
        to.flush()


def _kept(meeting: str) -> tuple[Any, str]:
    host, _, port = checked_address(meeting).rpartition(":")
    try:
        return kept_at(host, int(port))
    except OSError as error:
        raise InputError(f"the meeting place cannot be kept at {meeting}: {error.strerror or error}.") from error


def checked_address(address: str) -> str:
    """An address with a port, or an error."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise InputError(
            f"an address of a meeting place is host:port, such as 10.0.0.1:29400, but this is {address!r}."
        )
    return address


def is_elastic(elastic: bool, meeting: str | None, join: str | None) -> bool:
    """Whether the options of the command line ask for an elastic run."""
    if meeting and join:
        raise InputError("--meeting keeps a meeting place and --join goes to another one: give one of them.")
    if meeting and not elastic:
        raise InputError("--meeting is for an elastic run: give --elastic, too.")
    return elastic or bool(join)
