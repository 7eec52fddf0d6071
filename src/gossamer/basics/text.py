"""Values, numbers and names as text: for a line of output, for a terminal, for JSON and for a paper."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

LONGEST = 60
"""Letters of a value's text, before it is cut."""

WRITTEN_OUT = 1e7
"""The number from which on powers of ten are shorter to read."""

GREEK = {
    **{"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ", "eta": "η", "theta": "θ"},
    **{"kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ"},
    **{"tau": "τ", "phi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω", "Delta": "Δ", "Sigma": "Σ"},
}
"""Greek letters by LaTeX's names."""

SYMBOLS = {**GREEK, "lam": "λ", "mean": "μ", "std": "σ", "agents": "n"}
"""Symbols of a paper, by the keys that specs and rules have for them."""


def visible(text: object, keep: str = "") -> str:
    """Return text with every character that a terminal would act on, or not show, as its escape: ``\\x1b``.

    Names come from spec files and paths, which may hold anything: escape sequences, line ends, text that runs from
    right to left, halves of characters. Characters in `keep` stay.
    """
    hidden = {letter for letter in str(text) if not letter.isprintable() and letter not in keep}
    return str(text).translate({ord(letter): letter.encode("unicode_escape").decode("ascii") for letter in hidden})


def format_number(
    value: float | None,
    half: float | None = None,
    *,
    digits: int = 4,
    half_digits: int = 1,
    missing: str = "–",
    minus: str = "-",
) -> str:
    """Return a number to so many significant digits, with the half-width of its interval where there is one.

    Below ten million a number is written out, ``12,340``.
    """
    if value is None or math.isnan(value):
        return missing
    text = _round(value, digits) if half is None else f"{_round(value, digits)} ± {_round(half, half_digits)}"
    return text.replace("-", minus)


def _round(value: float, digits: int) -> str:
    text = f"{value:,.{digits}g}"
    return f"{float(text):,.0f}" if "e+0" in text and abs(value) < WRITTEN_OUT else text


def format_value(value: Any) -> str:
    """Return a cell's text: four digits of a float, all digits of a whole number, a dash for None."""
    if value is None or isinstance(value, float):
        return format_number(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def format_duration(seconds: float) -> str:
    """Return a time in seconds, minutes or hours, to three digits."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


DENSE = 0.02
"""The share below which the later of two marks stands for both."""


def format_between(low: float, high: float, digits: int = 4) -> str:
    """Return the two marks between which something happened, ``80–100``; marks that are as good as one as the later."""
    if not high - low >= DENSE * abs(high):  # also where one of them is not known
        return format_number(high, digits=digits)
    return f"{format_number(low, digits=digits)}–{format_number(high, digits=digits)}"


def short(value: Any) -> str:
    """Return a value in one line: an array by its shape, a function by its name."""
    if getattr(value, "ndim", 0):
        return f"array{list(value.shape)}"
    if type(value).__module__ == "numpy":
        value = value.item()
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    line = " ".join((str(value) if type(value).__str__ is not object.__str__ else repr(value)).split())
    line = repr(value) if isinstance(value, str) else line
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def format_call(name: str, given: Mapping[str, Any]) -> str:
    """Return the call that makes an object, without arguments that are None: ``top_k(share=0.1)``."""
    return f"{name}({', '.join(f'{key}={short(value)}' for key, value in given.items() if value is not None)})"


def fields_of(value: Any, *but: str) -> dict[str, Any]:
    """Return the fields of a dataclass, without the ones named; an empty dictionary for anything else."""
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    return {field.name: getattr(value, field.name) for field in fields if field.name not in but}


def plural(number: int, what: str) -> str:
    """Return a count with its noun: ``1 seed``, ``3 seeds``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def some(names: Any, most: int = 4) -> str:
    """Return the first few names of many, and the count of the others."""
    names = [str(name) for name in names]
    shown = names if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} more"]
    return ", ".join(shown)


def join_words(words: Sequence[str]) -> str:
    """Return words as a list in a sentence: ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def json_ready(value: Any) -> Any:
    """Return a copy with None for numbers that are not finite, and `_ci95` for `_±` at the end of keys."""
    if isinstance(value, dict):
        return {re.sub("_±$", "_ci95", key): json_ready(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
