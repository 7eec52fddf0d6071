"""Start the processes of a run on this machine, and end all of them when one ends."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from types import FrameType

from gossamer.core import InputError, brief

LOOPBACK = "127.0.0.1"

LAUNCHER = "GOSSAMER_LAUNCHER"
"""The environment variable that tells a process who started it."""

LOST = 6
"""The exit code where a process was killed, or has lost another."""


NOTICED = 0.2
"""Seconds in which the processes that lose another one notice it, before they are ended."""


def launch(processes: int, arguments: Sequence[str], *, port: int | None = None, max_restarts: int = 0) -> int:
    """Run ``gossamer run`` with these arguments in so many processes, and return the exit code.

    They meet on loopback, at this port or at a free one. When one ends for any other reason than that all is done, the
    others are ended at once; where it was lost they begin again, at most `max_restarts` times, from what was finished.
    """
    code = _once(processes, arguments, port)
    while code == LOST and max_restarts:
        code, max_restarts = _once(processes, arguments, port), max_restarts - 1
    return code


def _once(processes: int, arguments: Sequence[str], port: int | None) -> int:
    address = f"{LOOPBACK}:{refuse_taken(f'{LOOPBACK}:{port or 0}')}"
    place = ["--coordinator", address, "--processes", str(processes)]
    command = [sys.executable, "-m", "gossamer", "run", *arguments, *place]
    environment = os.environ | {LAUNCHER: str(os.getpid())}
    children: list[subprocess.Popen[bytes]] = []
    with _signals_raise():
        try:
            for process in range(processes):
                # a session of its own, so that Ctrl-C reaches this process alone, which then ends all
                one = subprocess.Popen([*command, "--process", str(process)], env=environment, start_new_session=True)
                children.append(one)
            return _watched(children)
        except KeyboardInterrupt:
            _say("interrupted: the same command goes on from what was finished")
            return 130
        finally:
            for child in children:
                child.kill()  # what is stored is whole at any moment
                child.wait()


def _watched(children: list[subprocess.Popen[bytes]]) -> int:
    """The exit code of all, or of what went wrong first."""
    while not any(codes := [child.poll() for child in children]):
        if all(code == 0 for code in codes):
            return 0
        time.sleep(0.05)
    time.sleep(NOTICED)
    return outcome([child.poll() or 0 for child in children])


def outcome(codes: Sequence[int]) -> int:
    """What a run ends with whose processes ended with these codes, or go on (0); it says who was lost."""
    fell = min(range(len(codes)), key=lambda process: _falls(codes[process]))
    if codes[fell] >= 0 and codes[0] not in (0, LOST):  # nobody was killed: what all know, the first one says
        return codes[0]
    why = f"was ended by {signal.Signals(-codes[fell]).name}" if codes[fell] < 0 else f"ended with code {codes[fell]}"
    _say(f"process {fell} {why}: all are ended, and the same command goes on from what was finished")
    return LOST


def _falls(code: int) -> int:
    """The order in which processes end: first one that is killed, then one that fails, which others may for it, then
    those that JAX's runtime aborts, and those that know what they lost."""
    if code < 0:
        return 2 if code == -signal.SIGABRT else 0
    return {0: 4, LOST: 3}.get(code, 1)


def refuse_taken(address: str) -> int:
    """The port of an address at which this machine can listen; 0 stands for any that is free."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"where processes meet is HOST:PORT, such as 10.0.0.1:7777, but is {brief(address)}.")
    try:
        family, _, _, _, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        with socket.socket(family) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(place)
            return int(tried.getsockname()[1])
    except OSError as error:
        raise InputError(
            f"the first process cannot listen at {address} ({error.strerror}): choose another port, or an address of "
            "its own machine."
        ) from None


@contextlib.contextmanager
def _signals_raise() -> Iterator[None]:
    """What would end this process ends its children first."""

    def raised(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, raised) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
