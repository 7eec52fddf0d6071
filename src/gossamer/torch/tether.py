"""Runs a program that ends when the process that started it does: ``python tether.py SIGNAL program arguments``.

It is a file of its own that imports nothing of this package, because it stands before every process of `launch`. Only
Linux offers this; elsewhere the program runs without a tether.
"""

import os
import signal
import sys

KEEPER = "GOSSAMER_KEEPER"
"""The environment variable with the process that must live on."""
PR_SET_PDEATHSIG = 1


def main(name: str, program: list[str]) -> None:
    """Become the program, which gets this signal when its keeper is gone and is the keeper of what it starts."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.Signals[name])
        if os.getppid() != int(os.environ[KEEPER]):  # it had gone before
            sys.exit(1)
    os.environ[KEEPER] = str(os.getpid())
    os.execv(program[0], program)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
