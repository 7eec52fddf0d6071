"""Errors about bad input, and the checks that every room shares."""

import difflib
import importlib
import inspect
import math
import operator
import reprlib
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any


class InputError(ValueError):
    """An error about input that cannot be used. The message says what, where, by how much and what to do."""


class MissingPackage(InputError, ImportError):
    """An optional package is not installed."""

    @classmethod
    def of(cls, wanted: str, package: str, otherwise: str) -> "MissingPackage":
        """Return the error that says what `wanted` needs, and what to do."""
        return cls(f"{wanted} needs the package {package}, which is not installed: pip install {package}, {otherwise}.")

    @classmethod
    def import_for(cls, wanted: str, module: str, otherwise: str) -> Any:
        """Return a module of an optional package, or raise the error that says what `wanted` needs."""
        try:
            return importlib.import_module(module)
        except ImportError as missing:
            raise cls.of(wanted, module.partition(".")[0], otherwise) from missing


def nearest(name: Any, known: Iterable[str], otherwise: str = "") -> str:
    """Return the tail of an error about an unknown name: the closest match, another way out, then all known names."""
    known = sorted(known)
    close = difflib.get_close_matches(name[:80], known, n=1, cutoff=0.5) if isinstance(name, str) else []
    if close:
        hint = f"did you mean {close[0]!r}? {f'If not, {otherwise}. ' if otherwise else ''}Known:"
    else:
        hint = f"{f'{otherwise}, or ' if otherwise else ''}choose from"
    return f"{hint} {', '.join(known)}."


LARGEST_INT = 2**31 - 1
"""The largest whole number that a compiled program counts with."""


class _Brief(reprlib.Repr):
    """Python's way of writing a value, cut where it is long or deep."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 80

    def repr_int(self, x: int, level: int) -> str:
        # Python itself refuses to write a whole number of more than 4,300 digits
        digits = int(x.bit_length() * math.log10(2)) + 1
        return repr(x) if digits <= 30 else f"a whole number of about {digits:,} digits"


def brief(value: Any) -> str:
    """Return a user's value as an error message shows it: one line, whatever the value is."""
    return " ".join(_Brief().repr(value).split())


def whole(where: str, value: Any, *, least: int = 1, most: int = LARGEST_INT, advice: str = "") -> int:
    """Return the value as an integer from `least` to `most`, or raise InputError, which names `where` it stood."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        bound = f"of at least {least}" if number is None or number < least else f"of at most {most:,}"
        raise InputError(f"{where} must be a whole number {bound}, but is {brief(value)}.{advice and ' '}{advice}")
    return number


def flag(where: str, value: Any) -> bool:
    """Return the value if it is True or False; otherwise raise InputError, which names `where` it stood."""
    numpy_flag = getattr(getattr(value, "dtype", None), "kind", "") == "b" and not value.ndim
    if not isinstance(value, bool) and not numpy_flag:
        raise InputError(f"{where} must be True or False, but is {brief(value)}.")
    return bool(value)


def check_keys(where: str, given: Any, known: Iterable[str], required: Iterable[str] = ()) -> None:
    """Raise InputError unless this is a table that has no keys but the known ones, and all that are required."""
    known = list(known)
    if not isinstance(given, Mapping):
        raise InputError(f"{where} must be a table of {', '.join(known)}, but is {brief(given)}.")
    for key in given:
        if key not in known:
            raise InputError(f"{where} has no option {brief(key)}; {nearest(key, known)}")
    for key in required:
        if key not in given:
            raise InputError(f"{where} needs the option {key!r}, which is missing. It takes: {', '.join(known)}.")


def check_function(where: str, function: Any, arguments: str) -> None:
    """Raise InputError unless this is a function that takes as many arguments as are named here: "a, b"."""
    reason = ""
    if callable(function):
        try:
            inspect.signature(function).bind(*arguments.split(", "))
        except ValueError:  # a built-in function may have no signature
            return
        except TypeError as error:
            reason = f" ({error})"
        else:
            return
    raise InputError(f"{where} must be a function of ({arguments}), but is {brief(function)}{reason}.")


def call_own(what: str, function: Callable[..., Any], *given: Any) -> Any:
    """Call a user's function; raise InputError, which says `what` it is, for whatever error it ends in."""
    try:
        return function(*given)
    except InputError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:300].rstrip(".")
        # the first frame is this one, and libraries may have called the user's code
        frames = [f for f in traceback.extract_tb(error.__traceback__)[1:] if "site-packages" not in f.filename]
        where = f" at {frames[-1].filename}, line {frames[-1].lineno}" if frames else ""
        raise InputError(f"{what} failed{where}: {type(error).__name__}: {said}.") from error
