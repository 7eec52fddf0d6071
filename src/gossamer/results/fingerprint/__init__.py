"""Fingerprints of the code that decides a number, so that a stored number is never taken for that of other code.

Ours is known by the bytes of its files, as they were when it was imported. A user's own functions and classes are
known by what runs, not by the text of a file that may have been edited since: the byte code with its constants, the
defaults, what it closes over, the globals that it names (functions and classes are followed, values taken as they are)
and the bases of a class. Comments and empty lines are no part of that; another version of Python compiles anew.
What other packages bring is known by its name and the package's version.
"""

from functools import cache
from typing import Any

from gossamer.problems import native
from gossamer.problems.inputs import Rows
from gossamer.results.fingerprint.origins import Unknown
from gossamer.results.fingerprint.walk import Walk
from gossamer.results.provenance import code, machine, versions


def of(*objects: Any, data: bool = True) -> str:
    """The fingerprint of functions, classes and objects that hold them: the same in every process.

    Args:
        objects: a rule, an oracle, a problem, a loss, a schedule …
        data: whether arrays and numbers that our own objects hold count. Not for a caller that names them otherwise.

    Raises:
        Unknown: something has no code, state or name to be known by, such as an open file.
    """
    walk = Walk()
    try:
        for given in objects:
            walk.visit(given, data)
    except RecursionError:
        raise Unknown("it is nested too deep to be followed") from None
    return walk.hexdigest()


def made_by(*objects: Any) -> dict[str, str]:
    """All that computes a run: our code, the user's own among these objects, the kernels, and what runs them.

    Where the user's code cannot be known, only the reason, under "unknown": such a run must not be stored.
    """
    try:
        own = of(*objects, data=False)
    except Unknown as reason:
        return {"unknown": str(reason)}
    sparse = any(isinstance(getattr(part, "inputs", None), Rows) for part in objects)
    return {"gossamer": code(), "yours": own, "kernels": native.kernels() if sparse else "xla"} | _machinery()


@cache
def _machinery() -> dict[str, str]:
    known = versions()
    return {
        "jax": known["jax"],
        "jaxlib": known["jaxlib"],
        "device": str(machine()["device"]),
        "cpu": str(machine()["cpu"]),
    }


__all__ = ["Unknown", "made_by", "of"]
