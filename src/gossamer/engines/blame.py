"""Errors of a user's own code, explained with their file and line, and what the code must do."""

import difflib
import linecache
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from gossamer.core import InputError
from gossamer.results.cache_key import origin

TRACED = ("TracerBoolConversionError", "ConcretizationTypeError", "TracerIntegerConversionError")
"""Errors of JAX where code decides by values that are not known while a program is compiled."""

BY_VALUE = (
    "It decides by the value of an array (by if, while, bool or int). A compiled program runs many values at once, so "
    "write it as arithmetic, such as x * (x > 0), or with jax.numpy.where in an oracle."
)

BY_NUMPY = (
    "It hands an array to NumPy, which a compiled program cannot run. Write it with operators, abs, ** and comparisons "
    "(1 * (x > 0) - (x < 0) is the sign of x), or with jax.numpy in an oracle."
)

PAIRS = "agent.gossip and agent.gradient return as many arrays as they are given: x, v = agent.gossip(x, v)."


@contextmanager
def blame(what: str, wanted: str = "") -> Iterator[None]:
    """Turn an error of a user's own code into an `InputError` that names the place; let errors of ours pass.

    Args:
        what: the code that runs here, such as "the rule my-dsgd".
        wanted: what that code must do, for the end of the message.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_own(frame.filename)]
        if not own:
            raise  # a fault of ours keeps its traceback
        frame = own[-1]  # the innermost line of the user's
        line = (frame.line or linecache.getline(frame.filename, frame.lineno or 0)).strip()
        said = " ".join(str(error).split())[:300]
        decided = type(error).__name__ in TRACED or said.startswith("The truth value of an array")
        handed = type(error).__name__ == "TracerArrayConversionError"
        reason = BY_VALUE if decided else BY_NUMPY if handed else f"{type(error).__name__}: {said}"
        if isinstance(error, AttributeError) and error.name and not (decided or handed):
            close = difflib.get_close_matches(error.name, dir(error.obj), n=1)
            reason += f"; did you mean {close[0]!r}?" if close else ""
        if what.startswith("the rule") and "'tuple'" in said:  # arithmetic on what `gossip` returned
            reason = f"{reason.rstrip('.')}. {PAIRS}"
        raise InputError(
            f"{what} fails at {frame.filename}, line {frame.lineno}, in {frame.name}: {line[:120]!r}. {reason}"
            + ("" if reason.endswith((".", "?")) else ".")
            + (f" {wanted}" if wanted else "")
        ) from error


def _is_own(file: str) -> bool:
    """Return True if the file is the user's: a cell of a notebook counts, code that Python generates does not."""
    if file.startswith("<"):
        return file.startswith(("<ipython", "<stdin", "<console"))
    return origin(None, file) == ""
