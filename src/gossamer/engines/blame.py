"""Whose fault an exception is: one that a user's own code raises is told with its file and line, and what is wanted."""

import linecache
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from gossamer.core import InputError
from gossamer.results.fingerprint.origins import home

TRACED = ("TracerBoolConversionError", "ConcretizationTypeError", "TracerIntegerConversionError")
"""What JAX raises where code decides by values that are not known while a program is compiled."""

BY_VALUE = (
    "It decides by the value of an array (by if, while, bool or int). A compiled program runs many values at once, so "
    "write it as arithmetic, such as x * (x > 0), or with jax.numpy.where in an oracle."
)


@contextmanager
def blamed(what: str, wanted: str = "") -> Iterator[None]:
    """Turn what a user's own code raises into an `InputError` that names the place; what ours raises goes on.

    Args:
        what: whose code runs here, such as "the rule my-dsgd".
        wanted: what that code must do, said at the end.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_own(frame.filename)]
        if not own:
            raise
        frame = own[-1]
        line = (frame.line or linecache.getline(frame.filename, frame.lineno or 0)).strip()
        decided = type(error).__name__ in TRACED
        reason = BY_VALUE if decided else f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise InputError(
            f"{what} fails at {frame.filename}, line {frame.lineno}, in {frame.name}: {line[:120]!r}. {reason}"
            + ("" if reason.endswith(".") else ".")
            + (f" {wanted}" if wanted else "")
        ) from error


def _is_own(file: str) -> bool:
    """Whether code of this file is the user's: a cell of a notebook counts, what Python writes itself does not."""
    if file.startswith("<"):
        return file.startswith(("<ipython", "<stdin", "<console"))
    return home(None, file) == ""
