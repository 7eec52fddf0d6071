"""Child processes that end with the process that started them."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from types import FrameType
from typing import Any

# becomes the program of its arguments, which gets this signal when the parent ends; only Linux offers this
TETHER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, int(sys.argv[2]))  # PR_SET_PDEATHSIG, which stays set after execv
if os.getppid() == int(sys.argv[1]):  # or else the parent had ended before
    os.execv(sys.argv[3], sys.argv[3:])
"""


def tether(command: Sequence[str], by: int = signal.SIGTERM) -> list[str]:
    """Return a command that runs this one, and ends it by a signal when the present process ends, even if killed."""
    if sys.platform != "linux":
        return [*command]
    return [sys.executable, "-S", "-c", TETHER, str(os.getpid()), str(int(by)), *command]


@contextlib.contextmanager
def end_children(children: Collection[subprocess.Popen[Any]], by: int = signal.SIGTERM) -> Iterator[None]:
    """End all children by a signal when the block ends, and wait for them. A signal ends the block with SystemExit.

    Children should be in sessions of their own (`start_new_session`): a terminal would send them Ctrl-C as well.
    """

    def leave(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    in_main = threading.current_thread() is threading.main_thread()  # only that thread can handle signals
    before = {number: signal.signal(number, leave) for number in numbers} if in_main else {}
    try:
        yield
    finally:
        for number in before:
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not leave children behind
        for child in children:
            child.send_signal(by)
        for child in children:
            child.wait()
        for number, handler in before.items():
            signal.signal(number, handler)
